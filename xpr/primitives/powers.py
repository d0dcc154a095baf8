"""Powers and roots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, aval_of
from xpr.dtypes import FLOATS, INEXACT, INTEGERS, NUMBERS
from xpr.primitives.arithmetic import div, sub
from xpr.primitives.bitwise import bitwise_and
from xpr.primitives.comparisons import eq
from xpr.primitives.elementwise_rules import elementwise, function_of, mul, scalar, unary
from xpr.primitives.exponentials import log
from xpr.primitives.shapes import broadcast_to, full
from xpr.primitives.slicing import select, select_n

# -- Powers


def _square_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    if avals[0].dtype in INEXACT:
        return [b.op("chlo.square", operands, avals[0])]
    return [b.op("stablehlo.multiply", [*operands, *operands], avals[0])]


square_p = unary(
    "square", over=NUMBERS, lowers_to=_square_lower, reference=np.square, derivative=lambda x, y: mul(scalar(2, x), x)
)
square = function_of(square_p, "The square of each entry.")


def _integer_pow_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, y: int) -> list[Value]:
    """Repeated squaring."""
    (base,) = operands
    aval = avals[0]
    if y == 0:
        return [b.constant(1, aval)]
    result, power, remaining = None, base, -y if y < 0 else y
    while remaining:
        if remaining & 1:
            result = power if result is None else b.op("stablehlo.multiply", [result, power], aval)
        remaining >>= 1
        if remaining:
            power = b.op("stablehlo.multiply", [power, power], aval)
    assert result is not None  # y is not zero, so some bit was set
    return [b.op("stablehlo.divide", [b.constant(1, aval), result], aval) if y < 0 else result]


def _integer_pow_reference(x: Any, *, y: int) -> Any:
    x = np.asarray(x)
    if y < 0:
        return (1 / np.power(x.astype(x.dtype), -y)).astype(x.dtype)
    return np.power(x, y)


def _integer_pow_flops(operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, y: int) -> int:
    """Squarings and products, and a division where `y` is negative."""
    return results[0].size * max(y.bit_length() + y.bit_count() - 2 + (y < 0), 0)


integer_pow_p = elementwise(
    "integer_pow", lowers_to=_integer_pow_lower, reference=_integer_pow_reference,
    partials=[lambda t, x, out, *, y: mul(t, mul(scalar(y, x), integer_pow(x, y - 1))) if y else mul(t, scalar(0, t))],
)  # fmt: skip
integer_pow_p.flops = _integer_pow_flops


def integer_pow(x: Any, y: int) -> Any:
    """Each entry to a static integer power.

    Raises:
      TypeError: a negative power of integers.
    """
    if y < 0 and aval_of(x).dtype in INTEGERS:
        raise TypeError(
            f"integer_pow: a negative power ({y}) of integers is not an integer. Convert to a float dtype first."
        )
    return x if y == 1 and hasattr(x, "aval") else integer_pow_p.bind(x, y=y)


def _pow_partial_base(t: Any, x: Any, y: Any, out: Any) -> Any:
    """y x^(y-1), and zero at 0^0."""
    at_corner = bitwise_and(eq(x, scalar(0, x)), eq(y, scalar(0, y)))
    shape = aval_of(out).shape
    one = full(shape, 1, aval_of(y).dtype)
    lowered = select_n(broadcast_to(at_corner, shape), broadcast_to(sub(y, scalar(1, y)), shape), one)
    return mul(t, mul(y, pow(x, lowered)))


def _pow_partial_exponent(t: Any, x: Any, y: Any, out: Any) -> Any:
    """x^y log x, with log 0 taken as 0 so that 0^y has no slope in y > 0."""
    at_zero = eq(x, scalar(0, x))
    safe = select(at_zero, full(aval_of(x).shape, 1, aval_of(x).dtype), x)
    return mul(t, mul(log(safe), out))


def _pow_reference(x: Any, y: Any) -> Any:
    """NumPy takes the square root for the power 1/2, which is another function at -0.0 and at -inf."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype in FLOATS:
        x = np.where((y == 0.5) & ((x == 0) | (x == -np.inf)), np.abs(x), x)
    return np.power(x, y)


pow_p = elementwise(
    "pow", fusion="expensive", over=INEXACT, lowers_to="stablehlo.power", reference=_pow_reference,
    partials=[_pow_partial_base, _pow_partial_exponent],
)  # fmt: skip
pow = function_of(pow_p, "`x` to the power `y`, entry by entry.", 2)

# -- Roots

sqrt_p = elementwise(
    "sqrt", fusion="vectorized", over=INEXACT, lowers_to="stablehlo.sqrt", reference=np.sqrt,
    partials=[lambda t, x, y: div(mul(t, scalar(0.5, y)), y)],
)  # fmt: skip
sqrt = function_of(sqrt_p, "The square root of each entry.")
rsqrt_p = unary(
    "rsqrt", fusion="vectorized",
    lowers_to="stablehlo.rsqrt", reference=lambda x: (1 / np.sqrt(x)).astype(np.asarray(x).dtype),
    derivative=lambda x, y: mul(scalar(-0.5, x), div(y, x)),
)  # fmt: skip
rsqrt = function_of(rsqrt_p, "1 over the square root of each entry.")
cbrt_p = unary(
    "cbrt",
    fusion="expensive",
    over=FLOATS,
    lowers_to="stablehlo.cbrt",
    reference=np.cbrt,
    derivative=lambda x, y: mul(scalar(1 / 3, x), integer_pow(y, -2)),
)
cbrt = function_of(cbrt_p, "The cube root of each entry.")
