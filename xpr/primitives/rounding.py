"""Rounding of floats, whether they are finite, and the next float."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import FLOATS
from xpr.primitives.elementwise_rules import ZERO, elementwise, function_of, unary

__all__ = [
    "ceil", "ceil_p", "floor", "floor_p", "is_finite", "is_finite_p", "nextafter", "nextafter_p", "round", "round_p",
    "RoundingMethod",
]  # fmt: skip

floor_p = unary("floor", over=FLOATS, lowers_to="stablehlo.floor", reference=np.floor, derivative=ZERO, exact=True)
floor = function_of(
    floor_p,
    """The greatest integer not above each element.

    >>> from xpr import lax
    >>> lax.floor(1.5)
    Array(1., dtype=float32, weak_type=True)
    """,
)
ceil_p = unary("ceil", over=FLOATS, lowers_to="stablehlo.ceil", reference=np.ceil, derivative=ZERO, exact=True)
ceil = function_of(
    ceil_p,
    """The least integer not below each element.

    >>> from xpr import lax
    >>> lax.ceil(1.5)
    Array(2., dtype=float32, weak_type=True)
    """,
)


def _round_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, rounding_method: int) -> list[Value]:
    kind = "round_nearest_even" if rounding_method else "round_nearest_afz"
    return [b.op(f"stablehlo.{kind}", operands, avals[0])]


def _round_reference(x: Any, *, rounding_method: int) -> Any:
    if rounding_method:
        return np.round(x)
    x = np.asarray(x)
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole)


round_p = elementwise("round", over=FLOATS, lowers_to=_round_lower, reference=_round_reference, partials=[ZERO])


class RoundingMethod(IntEnum):
    """Where halves are rounded to."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """Each element rounded to the nearest integer.

    Args:
      x: an array of floats.
      rounding_method: where halves are rounded to, a `RoundingMethod` or its number.

    Returns:
      Floats of the same shape.

    Raises:
      TypeError: the operand is not of floats.
      ValueError: there is no such rounding method.

    >>> from xpr import lax
    >>> lax.round(2.5)
    Array(3., dtype=float32, weak_type=True)
    """
    return round_p.bind(x, rounding_method=int(RoundingMethod(rounding_method)))


is_finite_p = elementwise(
    "is_finite", over=FLOATS, lowers_to="stablehlo.is_finite", reference=np.isfinite, gives=lambda d: dtypes.bool_,
    partials=[ZERO], exact=True,
)  # fmt: skip
is_finite = function_of(
    is_finite_p,
    """Whether each element is neither infinite nor nan.

    >>> from xpr import lax
    >>> lax.is_finite(np.float32(1.5))
    Array(True, dtype=bool)
    """,
)


def _nextafter_reference(x: Any, y: Any) -> Any:
    return np.nextafter(x, y)


nextafter_p = elementwise(
    "nextafter", over=FLOATS, lowers_to="chlo.next_after", reference=_nextafter_reference, partials=[ZERO, ZERO]
)
nextafter = function_of(
    nextafter_p,
    """The next float after x1 in the direction of x2, elementwise.

    Args:
      x1: an array of floats.
      x2: an array of the same shape and dtype, or a scalar.

    Returns:
      Floats of the same shape.

    >>> from xpr import lax
    >>> lax.nextafter(1.0, 2.0)
    Array(1.0000001, dtype=float32, weak_type=True)
    """,
    2,
    names=("x1", "x2"),
)
