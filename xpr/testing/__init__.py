"""Checks for users' tests and xpr's own: derivatives against finite differences."""

from xpr.testing.gradients import check_grads, check_jvp, check_vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]
