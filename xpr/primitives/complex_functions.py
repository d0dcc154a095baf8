"""Lowering rules of functions of complex numbers, with their limits at zeros, infinities and nans.

Each is computed by XLA for numbers without signs, gets the signs that its symmetry says, and the limits in which an
operation of XLA's formula has none (C11, Annex G; the Python array API standard). Some are computed as another function
of numbers turned by a right angle, as sinh z = -i sin(i z). Sine and cosine are computed from real ones, as XLA's lose
all digits near 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import COMPLEX, real_part_of
from xpr.primitives.vectorized.expressions import Expression, select, times_sign

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


def _exponential(x: Expression, y: Expression, re: Expression, im: Expression, least: float = 0.0) -> Parts:
    without = _is_no_angle(y)
    at_least, at_most = x.equals(-math.inf) & without, x.equals(math.inf) & without
    return select(at_least, least, select(at_most, math.inf, re)), select(at_least, 0.0, im)


def _exponential_minus_one(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return _exponential(x, y, re, im, -1.0)


def _logarithm(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return select(abs(x).equals(math.inf) | y.equals(math.inf), math.inf, re), im


def _square_root(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    is_far = y.equals(math.inf)
    return select(x.equals(math.inf) | is_far, math.inf, re), select(x.equals(-math.inf) | is_far, math.inf, im)


def _sine_and_cosine(x: Expression) -> Parts:
    return x.applied("stablehlo.sine"), x.applied("stablehlo.cosine")


def _hyperbolic_sine_and_cosine(y: Expression) -> Parts:
    """Of y >= 0, by exp(y) - 1, which is accurate near 0."""
    grown = y.applied("stablehlo.exponential_minus_one")
    shrunk = grown / (grown + 1.0)  # 1 - exp(-y)
    shrunk = select(grown.equals(math.inf), 1.0, shrunk)
    return 0.5 * (grown + shrunk), 1.0 + 0.5 * (grown - shrunk)


def _sine(x: Expression, y: Expression) -> Parts:
    (sin, cos), (sinh, cosh) = _sine_and_cosine(x), _hyperbolic_sine_and_cosine(y)
    return sin * cosh, cos * sinh


def _cosine(x: Expression, y: Expression) -> Parts:
    (sin, cos), (sinh, cosh) = _sine_and_cosine(x), _hyperbolic_sine_and_cosine(y)
    return cos * cosh, -(sin * sinh)


def _limits_of_sine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return select(x.equals(0.0), x, re), select(_is_no_angle(x) & (y.equals(0.0) | y.equals(math.inf)), y, im)


def _limits_of_cosine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    without = _is_no_angle(x)
    return select(without & y.equals(math.inf), y, re), select(x.equals(0.0) | (without & y.equals(0.0)), -0.0, im)


def _hyperbolic_tangent(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return select(x.equals(0.0), x, re), select(x.equals(math.inf), 0.0, im)


def _arccosine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return select(x.equals(0.0), math.pi / 2, re), im


def _inverse_hyperbolic_sine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return re, select(y.equals(0.0), 0.0, im)


def _inverse_hyperbolic_cosine(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    return re, select(x.equals(0.0), math.pi / 2, im)


def _inverse_hyperbolic_tangent(x: Expression, y: Expression, re: Expression, im: Expression) -> Parts:
    is_nan = (x + y).differs(x + y)
    return select(x.equals(0.0), 0.0, re), select(is_nan & y.differs(math.inf), math.nan, im)


exponential = _function("stablehlo.exponential", _exponential)
exponential_minus_one = _function("stablehlo.exponential_minus_one", _exponential_minus_one)
logarithm = _function("stablehlo.log", _logarithm)
logarithm_plus_one = _function("stablehlo.log_plus_one", _logarithm)
square_root = _function("stablehlo.sqrt", _square_root)
sine = _function(_sine, _limits_of_sine, "odd")
cosine = _function(_cosine, _limits_of_cosine, "even")
tangent = _function("stablehlo.tanh", _hyperbolic_tangent, "odd", turned=True)
hyperbolic_sine = _function(_sine, _limits_of_sine, "odd", turned=True)
hyperbolic_cosine = _function(_cosine, _limits_of_cosine, "even", turned=True)
hyperbolic_tangent = _function("stablehlo.tanh", _hyperbolic_tangent, "odd")
arcsine = _function("chlo.asinh", _inverse_hyperbolic_sine, "odd", turned=True)
arccosine = _function("chlo.acos", _arccosine)
arctangent = _function("chlo.atanh", _inverse_hyperbolic_tangent, "odd", turned=True)
inverse_hyperbolic_sine = _function("chlo.asinh", _inverse_hyperbolic_sine, "odd")
inverse_hyperbolic_cosine = _function("chlo.acosh", _inverse_hyperbolic_cosine)
inverse_hyperbolic_tangent = _function("chlo.atanh", _inverse_hyperbolic_tangent, "odd")
