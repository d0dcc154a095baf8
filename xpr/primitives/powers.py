"""Powers and roots."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.dtypes import FLOATS, INEXACT, INTEGERS, NUMBERS
from xpr.primitives import complex_functions
from xpr.primitives.arithmetic import div, sub
from xpr.primitives.bitwise import bitwise_and
from xpr.primitives.comparisons import eq
from xpr.primitives.complex_functions import real_or_complex
from xpr.primitives.conversions import convert_element_type, convert_element_type_p
from xpr.primitives.elementwise_rules import (
    PYTHON_SCALARS,
    are_real,
    elementwise,
    function_of,
    mul,
    repeated,
    scalar,
    typed_like,
    unary,
)
from xpr.primitives.exponentials import log
from xpr.primitives.shapes import broadcast_to, full
from xpr.primitives.slicing import select, select_n
from xpr.primitives.vectorized import exponentials, long_exponentials
from xpr.primitives.vectorized.rule import SOME, OnCpu

__all__ = [
    "cbrt", "cbrt_p", "integer_pow", "integer_pow_p", "pow", "pow_p", "rsqrt", "rsqrt_p", "sqrt", "sqrt_p", "square",
    "square_p",
]  # fmt: skip

T = TypeVar("T")

# -- Powers


def _square_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    if avals[0].dtype in INEXACT:
        return [b.op("chlo.square", operands, avals[0])]
    return [b.op("stablehlo.multiply", [*operands, *operands], avals[0])]


square_p = unary(
    "square", over=NUMBERS, lowers_to=_square_lower, reference=np.square, exact=are_real,
    derivative=lambda x, y: mul(scalar(2, x), x),
)  # fmt: skip
square = function_of(
    square_p,
    """The square of each element.

    >>> from xpr import lax
    >>> lax.square(3.0)
    Array(9., dtype=float32, weak_type=True)
    """,
)


def _by_squaring(base: T, exponent: int, product: Callable[[T, T], T]) -> T:
    """The power of a base to an exponent of at least 1, by repeated squaring."""
    result = None
    while exponent > 1:
        if exponent & 1:
            result = base if result is None else product(result, base)
        exponent >>= 1
        base = product(base, base)
    return base if result is None else product(result, base)


def _integer_pow_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, y: int) -> list[Value]:
    (base,), (aval,) = operands, avals
    if y == 0:
        return [b.constant(1, aval)]
    power = _by_squaring(base, abs(y), lambda left, right: b.op("stablehlo.multiply", [left, right], aval))
    return [b.op("stablehlo.divide", [b.constant(1, aval), power], aval) if y < 0 else power]


def _integer_pow_reference(x: Any, *, y: int) -> Any:
    x = np.asarray(x)
    if y == 0:
        return np.ones_like(x)
    power = _by_squaring(x, abs(y), operator.mul)
    return np.divide(1, power).astype(x.dtype) if y < 0 else power


def _integer_pow_flops(operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, y: int) -> int:
    """Squarings and products, and a division where `y` is negative."""
    return results[0].size * max(y.bit_length() + y.bit_count() - 2 + (y < 0), 0)


integer_pow_p = elementwise(
    "integer_pow", lowers_to=_integer_pow_lower, reference=_integer_pow_reference, exact=are_real,
    partials=[lambda t, x, out, *, y: mul(t, mul(scalar(y, x), integer_pow(x, y - 1))) if y else mul(t, scalar(0, t))],
)  # fmt: skip
integer_pow_p.flops = _integer_pow_flops


def integer_pow(x: Any, y: int) -> Any:
    """Each element to a static integer power.

    Args:
      x: an array or a number.
      y: an integer.

    Returns:
      An array of the same shape and dtype.

    Raises:
      TypeError: the power is no integer, or a negative one of integers.

    >>> from xpr import lax
    >>> lax.integer_pow(2.0, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    if not isinstance(y, (int, np.integer)):
        raise TypeError(
            f"integer_pow: the power must be a static integer, and is {describe(y)}. lax.pow takes any other."
        )
    y = int(y)
    if y < 0 and aval_of(x).dtype in INTEGERS:
        raise TypeError(
            f"integer_pow: a negative power ({y}) of integers is not an integer. Convert to a float dtype first."
        )
    return x if y == 1 and hasattr(x, "aval") else integer_pow_p.bind(x, y=y)


def _pow_partial_base(t: Any, x: Any, y: Any, out: Any) -> Any:
    """y x^(y-1), and zero at 0^0."""
    if isinstance(y, (np.generic, float, complex)) and y != 0:
        return mul(t, mul(y, pow(x, scalar(-1, y) + y)))
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


def _pow_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """Limited to the range of its dtype, which changes nothing, or XLA takes log(x^y) for y log |x|."""
    (aval,) = avals
    power = b.op("stablehlo.power", repeated(b, operands, aval.shape), aval)
    if aval.dtype not in FLOATS:
        return [power]
    least, greatest = (b.constant(x, aval.update(shape=())) for x in (-np.inf, np.inf))
    return [b.op("stablehlo.clamp", [least, power, greatest], aval)]


_lower_any_power = OnCpu("pow", _pow_lower, exponentials.power, long_exponentials.power, has_vector_code=True)


def _lower_by_root(n: int) -> OnCpu:
    """The rule for the exponent n + 1/2."""
    root = exponentials.power_by_root(0)
    if n == 0:
        return OnCpu("pow_1_half", _pow_lower, root, root, many=SOME, many_double=SOME)
    double = long_exponentials.power_by_root(n) if abs(n) == 1 else None
    name = f"pow_{2 * n + 1}_halves"
    return OnCpu(name, _lower_any_power, exponentials.power_by_wide_root(n), double, many=SOME)


_LOWER_BY_ROOT = {n + 0.5: _lower_by_root(n) for n in range(-3, 4)}


def _pow_lower_by_exponent(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """By the square root where the exponent is a constant, a few halves, and C doesn't compute the power sooner."""
    exponent = b.known_number(operands[1])
    if exponent not in _LOWER_BY_ROOT or (exponent != 0.5 and _lower_any_power.is_in_c(b, operands, avals[0])):
        return _lower_any_power(b, operands, avals)
    return _LOWER_BY_ROOT[exponent](b, operands, avals)


pow_p = elementwise(
    "pow", fusion="expensive", over=INEXACT, reference=_pow_reference, lowers_to=_pow_lower_by_exponent,
    partials=[_pow_partial_base, _pow_partial_exponent],
)  # fmt: skip


def pow(x: Any, y: Any) -> Any:
    """x to the power y, elementwise.

    Args:
      x: an array of real or complex numbers, or a number.
      y: an array of the same shape, and of the same dtype or of integers; or a scalar.

    Returns:
      An array of the shape and dtype of x.

    >>> from xpr import lax
    >>> lax.pow(2.0, 3.0)
    Array(8., dtype=float32, weak_type=True)
    """
    if type(x) in (float, complex) and aval_of(y).dtype in INTEGERS:
        y = type(x)(y) if type(y) is int else convert_element_type(y, aval_of(x).dtype)
    elif type(y) is int and aval_of(x).dtype in INEXACT:
        y = scalar(y, x)
    elif type(y) in PYTHON_SCALARS:
        y = typed_like(y, x)
    elif type(x) in PYTHON_SCALARS:
        x = typed_like(x, y)
    elif aval_of(y).dtype in INTEGERS:
        y = convert_element_type_p.bind(y, new_dtype=aval_of(x).dtype, weak_type=aval_of(y).weak_type)
    return pow_p.bind(x, y)


# -- Roots

sqrt_p = elementwise(
    "sqrt", fusion="vectorized", over=INEXACT, reference=np.sqrt, exact=are_real,
    lowers_to=real_or_complex("stablehlo.sqrt", complex_functions.square_root),
    partials=[lambda t, x, y: div(mul(t, scalar(0.5, y)), y)],
)  # fmt: skip
sqrt = function_of(
    sqrt_p,
    """The square root of each element.

    >>> from xpr import lax
    >>> lax.sqrt(4.0)
    Array(2., dtype=float32, weak_type=True)
    """,
    accuracy=True,
)
rsqrt_p = unary(
    "rsqrt", fusion="vectorized",
    lowers_to="stablehlo.rsqrt", reference=lambda x: (1 / np.sqrt(x)).astype(np.asarray(x).dtype),
    derivative=lambda x, y: mul(scalar(-0.5, x), div(y, x)),
)  # fmt: skip
rsqrt = function_of(
    rsqrt_p,
    """1 / sqrt(x) for each element.

    >>> from xpr import lax
    >>> lax.rsqrt(4.0)
    Array(0.5, dtype=float32, weak_type=True)
    """,
    accuracy=True,
)
cbrt_p = unary(
    "cbrt",
    fusion="expensive",
    over=FLOATS,
    lowers_to=OnCpu("cbrt", "stablehlo.cbrt", exponentials.cube_root, long_exponentials.cube_root),
    reference=np.cbrt,
    derivative=lambda x, y: mul(scalar(1 / 3, x), integer_pow(y, -2)),
)
cbrt = function_of(
    cbrt_p,
    """The cube root of each element.

    >>> from xpr import lax
    >>> lax.cbrt(8.0)
    Array(2., dtype=float32, weak_type=True)
    """,
    accuracy=True,
)
