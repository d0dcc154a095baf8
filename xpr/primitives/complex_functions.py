"""Lowering rules of functions of complex numbers, with their limits at zeros, infinities and nans.

Each is computed by XLA for numbers without signs, gets the signs that its symmetry says, and the limits in which an
operation of XLA's formula has none (C11, Annex G; the Python array API standard). Some are computed as another function
of numbers turned by a right angle, as sinh z = -i sin(i z). Exponentials, sines, cosines and tangents are computed from
real ones, which are faster on CPU; and XLA's sine loses all digits near 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import COMPLEX, float64, real_part_of, uint32, uint64
from xpr.primitives.vectorized.circular import lower_sine_and_cosine, lower_tangent
from xpr.primitives.vectorized.expressions import Expression, select, times_sign
from xpr.primitives.vectorized.long_exponentials import lower_exponential_minus_one

Lower = Callable[..., list[Value]]
Parts = tuple[Expression, Expression]
Limits = Callable[[Expression, Expression, Expression, Expression], Parts]


def real_or_complex(real: str | Lower, complex_: Lower) -> Lower:
    """The lowering rule of a function by one for real numbers, or an operation, and one for complex numbers."""

    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
        if avals[0].dtype in COMPLEX:
            return complex_(b, operands, avals)
        return [b.op(real, operands, avals[0])] if isinstance(real, str) else real(b, operands, avals, **params)

    return lower


def _function(
    operation: str | Callable[[Expression, Expression], Parts],
    limits: Limits,
    symmetry: Literal["conjugate", "odd", "even"] = "conjugate",
    turned: bool = False,
) -> Lower:
    """The lowering rule of a complex function.

    Args:
      operation: of XLA, or a formula, for x + iy with y >= 0; and with x >= 0 where the function is odd or even.
      limits: `(x, y, re, im) -> (re, im)` for such x and y, from the operation's results.
      symmetry: all functions give the conjugate for the conjugate; odd ones -f(z) for -z, even ones f(z).
      turned: the function is the operation of i z, and -i times that where it is odd.
    """

    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
        (z,), (aval,) = operands, avals
        part = aval.update(dtype=real_part_of(aval.dtype))
        x, y = _parts(b, z, part)
        along, across = (y, x) if turned else (x, y)
        along, across = (along if symmetry == "conjugate" else abs(along)), abs(across)
        if isinstance(operation, str):
            inner = b.op("stablehlo.complex", [along.value, across.value], aval)
            re, im = _parts(b, b.op(operation, [inner], aval), part)
        else:
            re, im = operation(along, across)
        re, im = limits(along, across, re, im)
        if symmetry == "odd":
            re, im = (im, re) if turned else (re, im)
            re = times_sign(re, x)
        elif symmetry == "even":
            im = times_sign(-im if turned else im, x)
        return [b.op("stablehlo.complex", [re.value, times_sign(im, y).value], aval)]

    return lower


def _parts(b: Builder, z: Value, aval: ShapedArray) -> Parts:
    return Expression(b, b.op("stablehlo.real", [z], aval)), Expression(b, b.op("stablehlo.imag", [z], aval))


def _is_no_angle(x: Expression) -> Expression:
    """Whether x >= 0 is inf or nan, so that it has no sine."""
    return ~(x < math.inf)


def _is_zero(x: Expression) -> Expression:
    """Whether x is 0 or the least float, by its bits: subnormal numbers equal 0 for XLA, their bits as well."""
    size = x.bits_as(uint64 if x.dtype == float64 else uint32) << 1
    return size <= 2


_SHIFT = 20.0  # how much farther than exp(x) a part of exp(x + iy) is finite, which has the factor sin(y)


def _exponential(x: Expression, y: Expression) -> Parts:
    sin, cos = _sine_and_cosine(y)
    is_large = x > (700.0 if x.dtype == float64 else 80.0)
    size = select(is_large, x - _SHIFT, x).applied("stablehlo.exponential")
    scale = select(is_large, x.constant(math.exp(_SHIFT)), 1.0)
    return (size * cos) * scale, (size * sin) * scale


def _limits_of_exponential(x: Expression, y: Expression, re: Expression, im: Expression, least: float = 0.0) -> Parts:
    without = _is_no_angle(y)
    at_least, at_most = x.equals(-math.inf) & without, x.equals(math.inf) & without
    re = select(at_least, least, select(at_most, math.inf, re))
    return re, select(at_least | _is_zero(y), 0.0, im)


def _limits_of_exponential_minus_one(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return _limits_of_exponential(x, y, re, im, -1.0)


def _limits_of_logarithm(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return select(abs(x).equals(math.inf) | y.equals(math.inf), math.inf, re), im


def _limits_of_square_root(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    is_far = y.equals(math.inf)
    return select(x.equals(math.inf) | is_far, math.inf, re), select(x.equals(-math.inf) | is_far, math.inf, im)


def _sine_and_cosine(x: Expression) -> Parts:
    sine, cosine = lower_sine_and_cosine(x.builder, x.value, x.value.aval)
    return Expression(x.builder, sine), Expression(x.builder, cosine)


def _hyperbolic_sine_and_cosine(y: Expression) -> Parts:
    """Of y >= 0, by exp(y) - 1, which is accurate near 0."""
    grown = y.applied(lower_exponential_minus_one)
    shrunk = grown / (grown + 1.0)  # 1 - exp(-y)
    shrunk = select(grown.equals(math.inf), 1.0, shrunk)
    return 0.5 * (grown + shrunk), 1.0 + 0.5 * (grown - shrunk)


def _sine(x: Expression, y: Expression) -> Parts:
    (sin, cos), (sinh, cosh) = _sine_and_cosine(x), _hyperbolic_sine_and_cosine(y)
    return sin * cosh, cos * sinh


def _cosine(x: Expression, y: Expression) -> Parts:
    (sin, cos), (sinh, cosh) = _sine_and_cosine(x), _hyperbolic_sine_and_cosine(y)
    return cos * cosh, -(sin * sinh)


def _hyperbolic_tangent(x: Expression, y: Expression) -> Parts:
    """By tan(y) and sinh(x) (W. Kahan, "Branch cuts for complex elementary functions", 1987)."""
    tan = y.applied(lower_tangent)
    square = tan * tan + 1.0
    is_large = x > (20.0 if x.dtype == float64 else 10.0)  # where tanh(x) is 1, and cosh(x) is exp(x) / 2
    sinh, cosh = _hyperbolic_sine_and_cosine(select(is_large, 0.0, x))
    reciprocal = 1.0 / select(is_large, square, 1.0 + square * (sinh * sinh))
    re, im = square * (sinh * cosh) * reciprocal, tan * reciprocal
    return select(is_large, 1.0, re), select(is_large, im * (4.0 * (-2.0 * x).applied("stablehlo.exponential")), im)


def _limits_of_sine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return select(_is_zero(x), x, re), select(_is_no_angle(x) & (_is_zero(y) | y.equals(math.inf)), y, im)


def _limits_of_cosine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    without = _is_no_angle(x)
    return select(without & y.equals(math.inf), y, re), select(_is_zero(x) | (without & _is_zero(y)), -0.0, im)


def _limits_of_hyperbolic_tangent(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    re = select(_is_no_angle(y) & x.differs(math.inf), math.nan, re)
    return select(_is_zero(x), x, re), select(x.equals(math.inf) | _is_zero(y), 0.0, im)


def _limits_of_arccosine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return select(_is_zero(x), math.pi / 2, re), im


def _limits_of_inverse_hyperbolic_sine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return re, select(_is_zero(y), 0.0, select(x.differs(x), math.nan, im))


def _limits_of_inverse_hyperbolic_cosine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return re, select(_is_zero(x), math.pi / 2, im)


def _limits_of_inverse_hyperbolic_tangent(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    is_nan = (x + y).differs(x + y)
    return select(_is_zero(x), 0.0, re), select(is_nan & y.differs(math.inf), math.nan, im)


exponential = _function(_exponential, _limits_of_exponential)
exponential_minus_one = _function("stablehlo.exponential_minus_one", _limits_of_exponential_minus_one)
logarithm = _function("stablehlo.log", _limits_of_logarithm)
logarithm_plus_one = _function("stablehlo.log_plus_one", _limits_of_logarithm)
square_root = _function("stablehlo.sqrt", _limits_of_square_root)
sine = _function(_sine, _limits_of_sine, "odd")
cosine = _function(_cosine, _limits_of_cosine, "even")
tangent = _function(_hyperbolic_tangent, _limits_of_hyperbolic_tangent, "odd", turned=True)
hyperbolic_sine = _function(_sine, _limits_of_sine, "odd", turned=True)
hyperbolic_cosine = _function(_cosine, _limits_of_cosine, "even", turned=True)
hyperbolic_tangent = _function(_hyperbolic_tangent, _limits_of_hyperbolic_tangent, "odd")
arcsine = _function("chlo.asinh", _limits_of_inverse_hyperbolic_sine, "odd", turned=True)
arccosine = _function("chlo.acos", _limits_of_arccosine)
arctangent = _function("chlo.atanh", _limits_of_inverse_hyperbolic_tangent, "odd", turned=True)
inverse_hyperbolic_sine = _function("chlo.asinh", _limits_of_inverse_hyperbolic_sine, "odd")
inverse_hyperbolic_cosine = _function("chlo.acosh", _limits_of_inverse_hyperbolic_cosine)
inverse_hyperbolic_tangent = _function("chlo.atanh", _limits_of_inverse_hyperbolic_tangent, "odd")
