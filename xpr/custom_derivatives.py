"""Functions with rules of their own for differentiation, and what their rules are given."""

from xpr.control.custom.closure_convert import closure_convert, custom_gradient
from xpr.control.custom.custom_jvp import custom_jvp, custom_jvp_call_p
from xpr.control.custom.custom_vjp import CustomVJPPrimal, custom_vjp, custom_vjp_call_p, custom_vjp_primal_tree_values
from xpr.control.custom.linear_call import linear_call
from xpr.control.custom.rules import zero_from_primal
from xpr.core.avals import Zero as SymbolicZero

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p",
    "custom_vjp", "custom_vjp_call_p", "custom_vjp_primal_tree_values", "linear_call", "zero_from_primal",
]  # fmt: skip
