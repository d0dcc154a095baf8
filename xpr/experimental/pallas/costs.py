"""estimate_cost: what a function costs, from its types, as the hint that kernels are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr import tree
from xpr.api.make_jaxpr import shaped, trace_function
from xpr.experimental.pallas.specs import CostEstimate
from xpr.jaxpr.costs import Cost
from xpr.primitives import elementwise as e
from xpr.primitives import special

__all__ = ["estimate_cost"]

_TRANSCENDENTAL = frozenset({
    e.acos_p, e.acosh_p, e.asin_p, e.asinh_p, e.atan_p, e.atan2_p, e.atanh_p, e.cbrt_p, e.cos_p, e.cosh_p, e.exp_p,
    e.exp2_p, e.expm1_p, e.log_p, e.log1p_p, e.logistic_p, e.pow_p, e.rsqrt_p, e.sin_p, e.sinh_p, e.sqrt_p, e.tan_p,
    e.tanh_p, special.erf_p, special.erf_inv_p, special.erfc_p,
})  # fmt: skip


def estimate_cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CostEstimate:
    """The cost of a function, without running it.

    Args:
      fun: a function of pytrees of arrays.
      *args: its arguments, anything with a shape and a dtype at the leaves.
      **kwargs: likewise.

    Returns:
      A `CostEstimate`. Its bytes are those of arguments and results.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental import pallas as pl
    >>> x = xpr.ShapeDtypeStruct((10,), "float32")
    >>> pl.estimate_cost(lambda x, y: jnp.exp(x + y), x, x)
    CostEstimate(flops=10, transcendentals=10, bytes_accessed=120, remote_bytes_transferred=0)
    """
    closed, _ = trace_function(fun, args, kwargs, "staged by estimate_cost")
    equations = Cost(closed.jaxpr, "").by_equation
    total = sum(each.flops for each in equations)
    transcendental = sum(each.flops for each in equations if each.equation.primitive in _TRANSCENDENTAL)
    avals = [*map(shaped, tree.leaves((args, kwargs))), *closed.out_avals]
    moved = sum(aval.size * aval.dtype.itemsize for aval in avals)
    return CostEstimate(total - transcendental, transcendental, moved)
