"""The logarithm of the gamma function and its derivative, in float64; for float32 as well, for sums cancel in places.

Of negative numbers an error is one of the largest summand, however small the result is: near the zeros there float64
has fewer digits. It has enough of them for every float32, none of which is that near to a zero.
"""

from __future__ import annotations

import math

from xpr.dtypes import float32, int32
from xpr.primitives.vectorized.coefficients import (
    DIGAMMA_FAR,
    DIGAMMA_FROM_ZERO,
    DIGAMMA_ZERO_PARTS,
    LEAST_LGAMMA_PARTS,
    LGAMMA_FAR,
    LGAMMA_FROM_1,
    LGAMMA_FROM_2,
    LGAMMA_FROM_LEAST,
    LONG_SINE_OF_HALF_TURNS,
    LONG_TANGENT_OF_HALF_TURNS,
)
from xpr.primitives.vectorized.expressions import (
    Expression,
    polynomial,
    polynomial_where,
    select,
    times_sign,
    widened_size,
)
from xpr.primitives.vectorized.long_exponentials import logarithm_in_parts


def _widened(x: Expression) -> Expression:
    """Float32 numbers in float64, subnormal ones too."""
    size = widened_size(x)
    return select(x.bits_as(int32) < 0, -size, size)


def lgamma(x: Expression) -> Expression:
    return long_lgamma(_widened(x)).to(float32)


def digamma(x: Expression) -> Expression:
    return long_digamma(_widened(x)).to(float32)


# -- The logarithm of gamma

_FIRST, _LAST = 0.23, 0.73  # lgamma(1 + x) is a polynomial about its zero at 1 below, about that at 2 above
_LEAST = sum(DIGAMMA_ZERO_PARTS)  # lgamma(1 + x) is least here
_FAR_CONSTANT = (math.log(2 * math.pi) - 1) / 2


def _lgamma_of_one_plus(x: Expression) -> tuple[Expression, Expression]:
    """lgamma(1 + x) in two parts, -1/2 <= x <= 3/2."""
    is_first, is_last = x < _FIRST, x > _LAST
    is_middle = ~(is_first | is_last)
    f = select(is_first, x, x - select(is_last, x.constant(1), _LEAST))
    tables = LGAMMA_FROM_1, LGAMMA_FROM_2, LGAMMA_FROM_LEAST
    rest = polynomial_where([is_first, is_last], f, tables) * select(is_middle, f * f, f)
    least, least_rest = (select(is_middle, x.constant(-part), 0.0) for part in LEAST_LGAMMA_PARTS)
    return least, least_rest + rest


def long_lgamma(x: Expression) -> Expression:
    """By Stirling's series from 3.5 on, as lgamma(x - 1) + log(x - 1) from 2.5 on, as lgamma(1 + x) - log|x| where
    x is from -1/2 to 1/2; and of smaller numbers log(pi / |x sin(pi x)|) - lgamma(-x).
    """
    size = abs(x)
    is_small, is_shifted, is_far = size <= 0.5, size > 2.5, size >= 3.5
    above_one = size - 1.0
    argument = select(is_small | is_far, size, select(is_shifted, above_one, 1.0))
    high, low = logarithm_in_parts(argument)
    first, rest = _lgamma_of_one_plus(select(is_small, x, select(is_shifted, size - 2.0, above_one)))
    sign = select(is_small, x.constant(-1), 1.0)
    near = (sign * high + first) + (sign * low + rest)
    inverse, shifted = 1.0 / size, size - 0.5
    series = inverse * polynomial(inverse * inverse, LGAMMA_FAR)
    far = shifted * (high - 1.0) + (shifted * low + (series + _FAR_CONSTANT))
    value = select(is_far, far, near)
    turns = size - size.round()
    square = turns * turns
    sine = abs(size * (turns + turns * square * polynomial(square, LONG_SINE_OF_HALF_TURNS)))  # of pi x, times x / pi
    sine_high, sine_low = logarithm_in_parts(sine)
    result = select(x < -0.5, -(sine_high + (sine_low + value)), value)
    is_pole = size.equals(0) | size.equals(math.inf) | ((x < -0.5) & sine.equals(0))
    return select(is_pole, math.inf, result)


# -- Its derivative

# The second part of the zero, times the slope there.
_MISSING = DIGAMMA_ZERO_PARTS[1] * sum(c * (_LEAST - 0.75) ** k for k, c in enumerate(DIGAMMA_FROM_ZERO))


def long_digamma(x: Expression) -> Expression:
    """By an asymptotic series from 2.75 on, by a polynomial from 1 on, as digamma(1 + x) - 1 / x from 0 on; and of
    negative numbers as digamma(1 - x) + pi / tan(-pi x).
    """
    size = abs(x)
    is_negative, is_small, is_far = x < 0.0, size < 1.0, size >= 2.75
    inverse = 1.0 / size
    above_one = select(is_small, size, size - 1.0)
    near = (above_one - DIGAMMA_ZERO_PARTS[0]) * polynomial(above_one - 0.75, DIGAMMA_FROM_ZERO) - _MISSING
    high, low = logarithm_in_parts(size)
    square = inverse * inverse
    far_rest = low - square * polynomial(square, DIGAMMA_FAR)
    times = select(is_far, x.constant(-0.5), select(is_small, x.constant(-1), 0.0))
    part = select(is_negative, times + 1.0, times) * inverse
    value = select(is_far, high + (far_rest + part), near + part)
    turns = size - size.round()
    is_quarter = abs(turns) > 0.25
    f = select(is_quarter, times_sign(turns.constant(0.5), turns) - turns, turns)
    square_of_f = f * f
    tangent = f + f * square_of_f * polynomial(square_of_f, LONG_TANGENT_OF_HALF_TURNS)  # over pi
    cotangent = select(is_quarter, math.pi**2 * tangent, 1.0 / tangent)  # times pi
    result = select(is_negative, value + cotangent, select(size.equals(math.inf), size, value))
    return select(turns.equals(0) & (x <= 0.0), math.nan, result)
