"""Sine, cosine and tangent.

Those of float32 count half turns: x / pi = n + f, with a whole number n and |f| <= 1/2, so sin(x) = +- sin(pi f). That
takes many bits of 1 / pi where x is large (M. Payne, R. Hanek, "Radian reduction for trigonometric functions", 1983). A
float32 has 24 bits, and a product with 27 bits of 1 / pi is exact in float64. The bits of 1 / pi by which x gives even
whole numbers are left out; which bits these are depends on the exponent of x, of which there are four ranges.
"""

from __future__ import annotations

import math

import numpy as np

from xpr.backend import native
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import float32, float64
from xpr.primitives.vectorized.coefficients import (
    HALF_PI_PARTS,
    INVERSE_PI,
    LONG_COSINE,
    LONG_SINE,
    SINE_OF_HALF_TURNS,
    TANGENT_OF_QUARTER_TURNS,
)
from xpr.primitives.vectorized.expressions import Expression, polynomial, ratio, select, times_sign, whole_bits
from xpr.primitives.vectorized.rule import OnCpu, computed_in_c

_BOUNDS = (2.0**51, 2.0**77, 2.0**103)  # between the ranges
_TINY = 2.0**-13  # below it sin(x) = x = tan(x) to a third of an ulp


def _half_turns(x: Expression, shift: float = 0.0, halves: int = 1) -> tuple[Expression, Expression, Expression]:
    """n, by its lowest bit as an integer, and f in two parts, where x / pi = (n + shift + f) / halves and |f| <= 1/2.

    `halves`, a power of 2, is into how many parts half a turn is divided.
    """
    parts = [x.constant(halves * part) for part in INVERSE_PI[0]]
    for bound, others in zip(_BOUNDS, INVERSE_PI[1:]):
        is_larger = abs(x) >= bound
        parts = [select(is_larger, halves * other, part) for other, part in zip(others, parts)]
    first, second, third = [x * part for part in parts]
    n = first.round()
    rest = (first - n) + second  # exact, as is what is taken from it
    more = (rest + third - shift if shift else rest + third).round()
    rest = rest - more
    return whole_bits(n + more), (rest - shift if shift else rest), third


def _sine_of_half_turns(n: Expression, f: Expression) -> Expression:
    """sin(pi (n + f))."""
    signed = times_sign(f, (n << 63).bits_as(float64))
    return signed * polynomial(f * f, SINE_OF_HALF_TURNS)


def sine(x: Expression) -> Expression:
    n, first, second = _half_turns(x.to(float64))
    return select(abs(x) < _TINY, x, _sine_of_half_turns(n, first + second).to(float32))


def cosine(x: Expression) -> Expression:
    """cos(x) = sin(pi (n + 1 + f)), where x / pi = n + 1/2 + f."""
    n, first, second = _half_turns(x.to(float64), 0.5)
    return _sine_of_half_turns(n + 1, first + second).to(float32)


def tangent(x: Expression) -> Expression:
    """tan(x) = tan(pi/2 f) for even n, and -1 / tan(pi/2 f) for odd n, where x = (n + f) pi/2."""
    n, first, second = _half_turns(x.to(float64), halves=2)
    f = first + second
    is_odd = (n & 1).equals(1)
    near = f * polynomial(f * f, TANGENT_OF_QUARTER_TURNS)
    result = select(is_odd, -1.0, near) / select(is_odd, near, 1.0)
    return select(abs(x) < _TINY, x, result.to(float32))


# -- Float64: quarter turns, x = n pi/2 + r, with r in two parts

REACH = 2.0**20  # below it n has 20 bits, and a product with 33 bits of pi / 2 is exact


def _quarter_turns(x: Expression) -> tuple[Expression, Expression, Expression]:
    """n, by its lowest bits as an integer, and r in two parts, of numbers below `REACH` in size.

    By four parts of pi / 2, the first three products with which are exact (W. Cody, W. Waite, "Software Manual for the
    Elementary Functions", 1980): no number of 53 bits is so near to a multiple of pi / 2 that more would be needed.
    """
    n = (x * (2 / math.pi)).round()
    total, low = x - n * HALF_PI_PARTS[0], x.constant(0)
    for part in HALF_PI_PARTS[1:]:
        product = n * part
        before, total = total, total - product
        subtracted = before - total
        low = low + ((before - (total + subtracted)) + (subtracted - product))
    high = total + low
    return whole_bits(n), high, low - (high - total)


def _long_sine_and_cosine(high: Expression, low: Expression) -> list[tuple[Expression, Expression]]:
    """sin(r) and cos(r), r = high + low, |r| <= pi / 4; each in two parts, the second being the rounding error."""
    square = high * high
    half = 0.5 * square
    rest = high * square * polynomial(square, LONG_SINE) + (low - half * low)
    sine = high + rest
    rounded = 1.0 - half
    lost = (1.0 - rounded) - half
    more = lost + (square * square * polynomial(square, LONG_COSINE) - high * low)
    cosine = rounded + more
    return [(sine, rest - (sine - high)), (cosine, more - (cosine - rounded))]


def _long_circular(x: Expression, quarter: int) -> Expression:
    """sin(x + quarter pi/2)."""
    n, high, low = _quarter_turns(x)
    (sine, _), (cosine, _) = _long_sine_and_cosine(high, low)
    n = n + quarter if quarter else n
    is_odd = (n & 1).equals(1)
    return times_sign(select(is_odd, cosine, sine), ((n << 62) & n.constant(np.iinfo(np.int64).min)).bits_as(float64))


def long_sine(x: Expression) -> Expression:
    return select(abs(x) < 2.0**-27, x, _long_circular(x, 0))


def long_cosine(x: Expression) -> Expression:
    return _long_circular(x, 1)


def long_tangent(x: Expression) -> Expression:
    """tan(x) = tan(r) for even n, and -1 / tan(r) for odd n, where x = n pi/2 + r."""
    n, high, low = _quarter_turns(x)
    (sine, sine_rest), (cosine, cosine_rest) = _long_sine_and_cosine(high, low)
    is_odd = (n & 1).equals(1)
    first = ratio(select(is_odd, -cosine, sine), select(is_odd, sine, cosine))
    of_odd = ((cosine + first * sine) + (cosine_rest + first * sine_rest)) * first
    missing = select(is_odd, of_odd, (sine - first * cosine) + (sine_rest - first * cosine_rest))
    near_reciprocal = (1 + math.sqrt(2)) - math.sqrt(2) * cosine  # 1 / cosine to a digit
    return select(abs(x) < 2.0**-27, x, first + missing * near_reciprocal)


_BEYOND = {float64: REACH}
lower_sine = OnCpu("sin", "stablehlo.sine", sine, long_sine, _BEYOND, in_c={float64})
lower_cosine = OnCpu("cos", "stablehlo.cosine", cosine, long_cosine, _BEYOND, in_c={float64})
lower_tangent = OnCpu("tan", "stablehlo.tan", tangent, long_tangent, _BEYOND, in_c={float64})


def lower_sine_and_cosine(b: Builder, x: Value, aval: ShapedArray) -> list[Value]:
    """Both, by one call of C where it computes each."""
    if lower_sine.is_in_c(b, [x], aval):
        return computed_in_c(b, native.SIN_COS, [x], aval, 2)
    return [*lower_sine(b, [x], [aval]), *lower_cosine(b, [x], [aval])]
