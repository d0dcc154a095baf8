"""The logarithm of the gamma function and its derivative, in float64; for float32 as well, for sums cancel in places.

Of negative numbers an error is one of the largest summand, however small the result is: near the zeros there float64
has fewer digits. It has enough of them for every float32, none of which is that near to a zero. Results in float64 keep
what the rounding of sums and products leaves out, for float32 that is not needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

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
    RECIPROCAL_GAMMA,
    SHORT_DIGAMMA_FAR,
    SHORT_DIGAMMA_FROM_ZERO,
    SHORT_LGAMMA_FAR,
    SHORT_LGAMMA_FROM_1,
    SHORT_LGAMMA_FROM_2,
    SHORT_LGAMMA_FROM_LEAST,
)
from xpr.primitives.vectorized.exponentials import logarithm
from xpr.primitives.vectorized.expressions import (
    Expression,
    polynomial,
    polynomial_where,
    select,
    times_sign,
    widened_size,
)
from xpr.primitives.vectorized.long_exponentials import logarithm_in_parts, product_in_parts, sum_in_parts


def _widened(x: Expression) -> Expression:
    """Float32 numbers in float64, subnormal ones too."""
    size = widened_size(x)
    return select(x.bits_as(int32) < 0, -size, size)


def _rounded_sum(x: Expression, y: Expression) -> tuple[Expression, Expression]:
    return x + y, x.constant(0)


def _rounded_product(x: Expression, y: Expression) -> tuple[Expression, Expression]:
    return x * y, x.constant(0)


def _rounded_logarithm(x: Expression) -> tuple[Expression, Expression]:
    return logarithm(x), x.constant(0)


class _Digits(NamedTuple):
    """What gives a formula its digits: operations with what rounding leaves out, or with 0 for it, and polynomials."""

    add: Callable[[Expression, Expression], tuple[Expression, Expression]]
    multiply: Callable[[Expression, Expression], tuple[Expression, Expression]]
    log: Callable[[Expression], tuple[Expression, Expression]]
    lgamma_near: Sequence[Sequence[float]]
    lgamma_far: Sequence[float]
    digamma_near: Sequence[float]
    digamma_far: Sequence[float]


_LONG = _Digits(
    sum_in_parts,
    product_in_parts,
    logarithm_in_parts,
    (LGAMMA_FROM_1, LGAMMA_FROM_2, LGAMMA_FROM_LEAST),
    LGAMMA_FAR,
    DIGAMMA_FROM_ZERO,
    DIGAMMA_FAR,
)
_ROUNDED = _LONG._replace(add=_rounded_sum, multiply=_rounded_product)
_SHORT = _Digits(  # of positive float32 numbers, where nothing cancels
    _rounded_sum,
    _rounded_product,
    _rounded_logarithm,
    (SHORT_LGAMMA_FROM_1, SHORT_LGAMMA_FROM_2, SHORT_LGAMMA_FROM_LEAST),
    SHORT_LGAMMA_FAR,
    SHORT_DIGAMMA_FROM_ZERO,
    SHORT_DIGAMMA_FAR,
)


def lgamma(x: Expression) -> Expression:
    return _lgamma(_widened(x), _ROUNDED).to(float32)


def digamma(x: Expression) -> Expression:
    return _digamma(_widened(x), _ROUNDED).to(float32)


def long_lgamma(x: Expression) -> Expression:
    return _lgamma(x, _LONG)


def long_digamma(x: Expression) -> Expression:
    return _digamma(x, _LONG)


# Of positive numbers, in half of the time; for functions in C, which see whether there are others.


def lgamma_of_positive(x: Expression) -> Expression:
    return _lgamma_of_positive(_widened(x), _SHORT).to(float32)


def digamma_of_positive(x: Expression) -> Expression:
    return _digamma_of_positive(_widened(x), _SHORT).to(float32)


def long_lgamma_of_positive(x: Expression) -> Expression:
    return _lgamma_of_positive(x, _LONG)


def long_digamma_of_positive(x: Expression) -> Expression:
    return _digamma_of_positive(x, _LONG)


# -- The logarithm of gamma

_FIRST, _LAST = 0.23, 0.73  # lgamma(1 + x) is a polynomial about its zero at 1 below, about that at 2 above
_LEAST = sum(DIGAMMA_ZERO_PARTS)  # lgamma(1 + x) is least here
_FAR_CONSTANT = (math.log(2 * math.pi) - 1) / 2
_PI_SQUARED_PARTS = math.pi**2, 6.265295508739711e-16
_HUGE = 2.0**1000  # products overflow beyond, and have no other part


def _lgamma_of_one_plus(x: Expression, tables: Sequence[Sequence[float]]) -> tuple[Expression, Expression]:
    """lgamma(1 + x) in two parts, -1/2 <= x <= 3/2."""
    is_first, is_last = x < _FIRST, x > _LAST
    is_middle = ~(is_first | is_last)
    f = select(is_first, x, x - select(is_last, x.constant(1), _LEAST))
    rest = polynomial_where([is_first, is_last], f, tables) * select(is_middle, f * f, f)
    least, least_rest = (select(is_middle, x.constant(-part), 0.0) for part in LEAST_LGAMMA_PARTS)
    return least, least_rest + rest


def _lgamma_in_parts(x: Expression, digits: _Digits) -> tuple[Expression, Expression]:
    """lgamma(x) of numbers from -1/2 on, lgamma(-x) of smaller ones: by Stirling's series where |x| is 3.5 and more, as
    lgamma(x - 1) + log(x - 1) from 2.5 on, as lgamma(1 + x) - log|x| where |x| is at most 1/2.
    """
    size = abs(x)
    is_small, is_shifted, is_far = size <= 0.5, size > 2.5, size >= 3.5
    above_one = size - 1.0
    argument = select(is_small | is_far, size, select(is_shifted, above_one, 1.0))
    high, low = digits.log(argument)
    from_one = select(is_small, x, select(is_shifted, size - 2.0, above_one))
    first, rest = _lgamma_of_one_plus(from_one, digits.lgamma_near)
    sign = select(is_small, x.constant(-1), 1.0)
    inverse, shifted = 1.0 / size, size - 0.5
    series = inverse * polynomial(inverse * inverse, digits.lgamma_far)
    product, product_rest = digits.multiply(shifted, high)
    value, lost = digits.add(select(is_far, product, sign * high), select(is_far, -shifted, first))
    small = select(is_far, product_rest + (shifted * low + (series + _FAR_CONSTANT)), sign * low + rest) + lost
    return value, select(size >= _HUGE, 0.0, small)


def _lgamma_of_positive(x: Expression, digits: _Digits) -> Expression:
    value, small = _lgamma_in_parts(x, digits)
    return select(x.equals(math.inf), x, value + small)


def _lgamma(x: Expression, digits: _Digits) -> Expression:
    """log(pi / |x sin(pi x)|) - lgamma(-x) where x < -1/2."""
    size = abs(x)
    value, small = _lgamma_in_parts(x, digits)
    turns = size - size.round()
    square = turns * turns
    sine, sine_rest = digits.add(turns, turns * square * polynomial(square, LONG_SINE_OF_HALF_TURNS))  # over pi
    sine, lost = digits.multiply(size, sine)  # of pi x, times x / pi
    sine_high, sine_low = logarithm_in_parts(abs(sine))
    sine_low = sine_low + (lost + size * sine_rest) / sine
    reflected, lost = digits.add(sine_high, value)
    result = select(x < -0.5, -(reflected + (lost + (sine_low + small))), value + small)
    is_pole = size.equals(0) | size.equals(math.inf) | ((x < -0.5) & sine.equals(0))
    return select(is_pole, math.inf, result)


_SMALL = 8  # as in backend/c/elementwise.c


def lgamma_of_small(x: Expression) -> Expression:
    """Of |x| < 8, where the result isn't near 0: log(gamma(1 + |x|) / |x|), and log(pi / |gamma(1 + |x|) sin(pi x)|).

    For the function in C, which sees whether all numbers are such. One logarithm takes half of the time of two.
    """
    size = widened_size(x)
    fraction = size - size.floor()
    product = size.constant(1)
    for k in range(1, _SMALL):
        product = product * select(size >= float(k), fraction + float(k), 1.0)
    reciprocal = polynomial(fraction, RECIPROCAL_GAMMA)  # gamma(1 + size) = product / reciprocal
    turns = size - size.round()
    square = turns * turns
    sine = abs(turns + turns * square * polynomial(square, LONG_SINE_OF_HALF_TURNS))  # of pi size, over pi
    is_negative = x.bits_as(int32) < 0
    upper = select(is_negative, reciprocal, product)
    lower = select(is_negative, sine * product, size * reciprocal)
    return select(lower.equals(0), math.inf, logarithm(upper / lower)).to(float32)


# -- Its derivative

# The second part of the zero, times the slope there.
_MISSING = DIGAMMA_ZERO_PARTS[1] * sum(c * (_LEAST - 0.75) ** k for k, c in enumerate(DIGAMMA_FROM_ZERO))


def _digamma_in_parts(
    size: Expression, is_reflected: Expression | None, digits: _Digits
) -> tuple[Expression, Expression]:
    """digamma(|x|), and digamma(1 + |x|) where it will be reflected: by an asymptotic series from 2.75 on, by a
    polynomial from 1 on, as digamma(1 + x) - 1 / x from 0 on.
    """
    is_small, is_far = size < 1.0, size >= 2.75
    inverse = 1.0 / size
    above_one = select(is_small, size, size - 1.0)
    near = (above_one - DIGAMMA_ZERO_PARTS[0]) * polynomial(above_one - 0.75, digits.digamma_near)
    high, low = digits.log(size)
    square = inverse * inverse
    times = select(is_far, size.constant(-0.5), select(is_small, size.constant(-1), 0.0))
    part = (times if is_reflected is None else select(is_reflected, times + 1.0, times)) * inverse
    value, rest = digits.add(select(is_far, high, near), part)
    return value, rest + select(is_far, low - square * polynomial(square, digits.digamma_far), -_MISSING)


def _digamma_of_positive(x: Expression, digits: _Digits) -> Expression:
    value, rest = _digamma_in_parts(x, None, digits)
    return select(x.equals(math.inf), x, value + rest)


def _digamma(x: Expression, digits: _Digits) -> Expression:
    """digamma(1 - x) + pi / tan(-pi x) of negative numbers."""
    size, is_negative = abs(x), x < 0.0
    value, value_rest = _digamma_in_parts(size, is_negative, digits)
    turns = size - size.round()
    is_quarter = abs(turns) > 0.25
    f = select(is_quarter, times_sign(turns.constant(0.5), turns) - turns, turns)
    square_of_f = f * f
    series = f * square_of_f * polynomial(square_of_f, LONG_TANGENT_OF_HALF_TURNS)
    tangent, tangent_rest = digits.add(f, series)  # over pi
    reciprocal = 1.0 / tangent
    product, lost = digits.multiply(select(is_quarter, tangent.constant(_PI_SQUARED_PARTS[0]), reciprocal), tangent)
    of_quarter = lost + (tangent * _PI_SQUARED_PARTS[1] + tangent_rest * _PI_SQUARED_PARTS[0])
    of_rest = reciprocal * (((1.0 - product) - lost) - reciprocal * tangent_rest)
    cotangent, lost = digits.add(select(is_quarter, product, reciprocal), value)  # times pi
    cotangent_rest = select(is_quarter, of_quarter, of_rest)
    reflected = cotangent + (lost + (cotangent_rest + value_rest))
    result = select(is_negative, reflected, select(size.equals(math.inf), size, value + value_rest))
    return select(turns.equals(0) & (x <= 0.0), math.nan, result)
