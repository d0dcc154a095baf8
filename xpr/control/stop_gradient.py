"""stop_gradient: the identity, with no derivative."""

from __future__ import annotations

from typing import Any

from xpr import tree
from xpr.core.avals import aval_of
from xpr.dtypes import ANY, INEXACT
from xpr.primitives.elementwise_rules import ZERO, elementwise
from xpr.primitives.sharding_rules import sums_of_first
from xpr.primitives.user_values import stop_gradient_of_value_p

__all__ = ["stop_gradient", "stop_gradient_p"]

stop_gradient_p = elementwise(
    "stop_gradient",
    fusion="view",
    over=ANY,
    lowers_to=lambda builder, operands, avals: operands,
    reference=lambda x: x,
    partials=[ZERO],
    transpose=lambda cts, operands: [stop_gradient_p.bind(cts[0])],  # as a map of values it is the identity
    exact=True,
    sums=sums_of_first,
)
stop_gradient_p.flops = None


def stop_gradient(x: Any) -> Any:
    """The values of a pytree, treated as constants by differentiation.

    >>> import xpr
    >>> xpr.grad(lambda x: x * xpr.lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return _stopped(x) if hasattr(x, "aval") else tree.map(_stopped, x)


def _stopped(x: Any) -> Any:
    aval = aval_of(x)
    if aval.is_high:
        return x if aval.has_qdd else stop_gradient_of_value_p.bind(x)
    return stop_gradient_p.bind(x) if aval.dtype in INEXACT else x
