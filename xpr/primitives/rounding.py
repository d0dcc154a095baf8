"""Rounding of floats, whether they are finite, and the next float."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import FLOATS
from xpr.primitives.comparison_lowering import lower_comparison
from xpr.primitives.elementwise_rules import ZERO, elementwise, function_of, repeated, unary

__all__ = [
    "ceil", "ceil_p", "floor", "floor_p", "is_finite", "is_finite_p", "nextafter", "nextafter_p", "round", "round_p",
    "RoundingMethod",
]  # fmt: skip

_INTEGERS = {2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}  # those of the same size as floats

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


def _nextafter_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """XLA's function, of 30 operations; towards an infinity 10 of them do. Solvers of equations have hundreds.

    Floats of one sign are in the order of their bits, or in the reverse order. The zeros are neighbors: the float after
    -0 upwards is the one after 0, and the float after 0 downwards the one after -0.
    """
    (aval,), (x, y) = avals, repeated(b, operands, avals[0].shape)
    limit, integer = b.known_number(y), _INTEGERS.get(aval.dtype.itemsize)
    if integer is None or limit not in (np.inf, -np.inf):
        return [b.op("chlo.next_after", [x, y], aval)]
    upwards, of_bits = limit > 0, aval.update(dtype=integer, weak_type=False)
    smallest = int(np.iinfo(integer).min)

    def operation(name: str, v: Value, number: int) -> Value:
        return b.op(f"stablehlo.{name}", [v, b.constant(number, of_bits)], of_bits)

    bits = b.op("stablehlo.bitcast_convert", [x], of_bits)
    step = operation("or", operation("shift_right_arithmetic", bits, 8 * integer.itemsize - 1), 1)  # 1, or -1 below 0
    after = b.op("stablehlo.add" if upwards else "stablehlo.subtract", [bits, step], of_bits)
    zero, after_zero = (smallest, 1) if upwards else (0, smallest + 1)
    is_zero = lower_comparison(b, bits, b.constant(zero, of_bits), "EQ")
    after = b.op("stablehlo.select", [is_zero, b.constant(after_zero, of_bits), after], of_bits)
    is_before = lower_comparison(b, x, y, "LT" if upwards else "GT")
    return [b.op("stablehlo.select", [is_before, b.op("stablehlo.bitcast_convert", [after], aval), x], aval)]


nextafter_p = elementwise(
    "nextafter", over=FLOATS, lowers_to=_nextafter_lower, reference=_nextafter_reference, partials=[ZERO, ZERO]
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
