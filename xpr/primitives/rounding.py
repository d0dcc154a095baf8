"""Rounding, and what else asks how floats lie: whether they are finite, and which one is next."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import FLOATS
from xpr.primitives.elementwise_rules import ZERO, elementwise, function_of, unary

floor_p = unary("floor", over=FLOATS, lowers_to="stablehlo.floor", reference=np.floor, derivative=ZERO, exact=True)
floor = function_of(floor_p, "The greatest integer not above each entry.")
ceil_p = unary("ceil", over=FLOATS, lowers_to="stablehlo.ceil", reference=np.ceil, derivative=ZERO, exact=True)
ceil = function_of(ceil_p, "The least integer not below each entry.")


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


def round(x: Any, rounding_method: int = 0) -> Any:
    """The nearest integer; halves go away from zero (method 0) or to even (method 1)."""
    return round_p.bind(x, rounding_method=int(rounding_method))


is_finite_p = elementwise(
    "is_finite", over=FLOATS, lowers_to="stablehlo.is_finite", reference=np.isfinite, gives=lambda d: dtypes.bool_,
    partials=[ZERO], exact=True,
)  # fmt: skip
is_finite = function_of(is_finite_p, "Whether each entry is neither infinite nor nan.")


def _nextafter_reference(x: Any, y: Any) -> Any:
    return np.nextafter(x, y)


nextafter_p = elementwise(
    "nextafter", over=FLOATS, lowers_to="chlo.next_after", reference=_nextafter_reference, partials=[ZERO, ZERO]
)
nextafter = function_of(nextafter_p, "The next floating-point number after `x` on the way to `y`.", 2)
