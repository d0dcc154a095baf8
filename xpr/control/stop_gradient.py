"""stop_gradient: the identity, with no derivative."""

from __future__ import annotations

from typing import Any

from xpr import tree
from xpr.core.avals import aval_of
from xpr.dtypes import ANY, INEXACT
from xpr.primitives.elementwise_rules import ZERO, elementwise
from xpr.primitives.sharding_rules import sums_of_first

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
    if hasattr(x, "aval"):
        return stop_gradient_p.bind(x) if x.aval.dtype in INEXACT else x
    return tree.map(_stopped, x)


def _stopped(x: Any) -> Any:
    return stop_gradient_p.bind(x) if aval_of(x).dtype in INEXACT else x
