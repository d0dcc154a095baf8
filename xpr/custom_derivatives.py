"""Functions with rules of their own for differentiation, and what their rules are given."""

from xpr.control.custom.closure_convert import closure_convert as closure_convert
from xpr.control.custom.closure_convert import custom_gradient as custom_gradient
from xpr.control.custom.custom_jvp import custom_jvp as custom_jvp
from xpr.control.custom.custom_jvp import custom_jvp_call_p as custom_jvp_call_p
from xpr.control.custom.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from xpr.control.custom.custom_vjp import custom_vjp as custom_vjp
from xpr.control.custom.custom_vjp import custom_vjp_call_p as custom_vjp_call_p
from xpr.control.custom.custom_vjp import custom_vjp_primal_tree_values as custom_vjp_primal_tree_values
from xpr.control.custom.linear_call import linear_call as linear_call
from xpr.control.custom.rules import zero_from_primal as zero_from_primal
from xpr.core.avals import Zero as SymbolicZero

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p",
    "custom_vjp", "custom_vjp_call_p", "custom_vjp_primal_tree_values", "linear_call", "zero_from_primal",
]  # fmt: skip
