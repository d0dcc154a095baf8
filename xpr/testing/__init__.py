"""Checks for users' tests and xpr's own: derivatives against finite differences."""

from xpr.testing.gradients import check_grads as check_grads
from xpr.testing.gradients import check_jvp as check_jvp
from xpr.testing.gradients import check_vjp as check_vjp
