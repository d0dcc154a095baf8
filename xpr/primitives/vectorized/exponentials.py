"""Exponentials and logarithms in float64, to the accuracy that float32 needs; functions of float32.

Those are made of the former, or, where they say so, computed in float32, with errors of more than half an ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xpr.dtypes import float32, float64, int32, int64
from xpr.primitives.vectorized.coefficients import (
    EXPONENTIAL,
    EXPONENTIAL_REST,
    HYPERBOLIC_ARCSINE_REST,
    HYPERBOLIC_ARCTANGENT_REST,
    HYPERBOLIC_SINE_REST,
    LOGARITHM,
    POWER_OF_2,
    RECIPROCAL_CUBE_ROOT,
)
from xpr.primitives.vectorized.expressions import (
    Expression,
    polynomial,
    power_of_2,
    ratio,
    select,
    times_sign,
    whole_number,
    widened_size,
)

_LARGE = 200.0  # exp and 2^x of more are beyond float32; their values are not beyond float64
_LN2 = math.log(2)
_TOP_LN2 = float.fromhex("0x1.62e42fep-1")  # its first 28 bits: a product with a whole number below 2^25 is exact
_REST_LN2 = _LN2 - _TOP_LN2


def _limited(x: Expression) -> Expression:
    """Within +-_LARGE; nan stays nan."""
    return select(x > _LARGE, _LARGE, select(x < -_LARGE, -_LARGE, x))


def _reduced(x: Expression) -> tuple[Expression, Expression]:
    """n and r, where x = n log 2 + r and |r| <= log(2) / 2."""
    n = (x * (1 / _LN2)).round()
    return n, (x - n * _TOP_LN2) - n * _REST_LN2


def exponential(x: Expression) -> Expression:
    """exp(x) of float64, to 34 bits."""
    n, r = _reduced(_limited(x))
    return polynomial(r, EXPONENTIAL) * power_of_2(n)


def exponential_of_2(x: Expression) -> Expression:
    """2^x of float64, to 34 bits."""
    limited = _limited(x)
    n = limited.round()
    return polynomial(limited - n, POWER_OF_2) * power_of_2(n)


_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # of sqrt(1/2)


def exponent_and_logarithm(x: Expression) -> tuple[Expression, Expression]:
    """k and log(m), to 37 bits, where x = 2^k m and sqrt(1/2) <= m <= sqrt(2), of positive float64 numbers."""
    k = (x.bits_as(int64) - _ROOT_HALF_BITS) >> 52
    m = (x.bits_as(int64) - (k << 52)).bits_as(float64)
    s = ratio(m - 1.0, m + 1.0)
    return whole_number(k), s * polynomial(s * s, LOGARITHM)


def logarithm(x: Expression) -> Expression:
    """log(x) of positive float64 numbers, inf and nan, to 37 bits."""
    k, rest = exponent_and_logarithm(x)
    return select(x < math.inf, k * _LN2 + rest, x)


# -- Functions of float32


_ROOT_HALF_BITS_32 = 0x3F3504F3  # of sqrt(1/2) in float32
_TOP_LN2_32 = math.floor(_LN2 * 2**16) / 2**16  # a product with an exponent is exact in float32
_REST_LN2_32 = _LN2 - _TOP_LN2_32
_ROUNDER_32 = 1.5 * 2**23  # added to a whole number, it leaves that in the lowest bits


def exponential_minus_one(x: Expression) -> Expression:
    """2^n r + (2^n - 1), and 2^n (exp(r) - 1 - r), in float32; what rounding of r and of the sum left out is added."""
    limited = select(x > 89.0, 89.0, select(x < -26.0, -26.0, x))
    n = (limited * (1 / _LN2)).round()
    high, low = limited - n * _TOP_LN2_32, n * _REST_LN2_32
    r = high - low
    rest = r * r * polynomial(r, EXPONENTIAL_REST) + ((high - r) - low)
    half = (((n + _ROUNDER_32).bits_as(int32) + 126) << 23).bits_as(float32)  # 2^(n - 1)
    product, first = half * r, half - 0.5
    total = product + first
    left_out = ((first - total) + product) + ((half - first) - 0.5)
    result = 2.0 * (total + (half * rest + left_out))
    return select(abs(x) < 2.0**-26, x, result)


def _quarters(size: Expression) -> tuple[Expression, Expression]:
    """exp(x) / 4 and exp(-x) / 4 of float32 numbers that are not negative; twice the first is inf from 89.42 on."""
    limited = select(size > 89.7, 89.7, size)
    n = (limited * (1 / _LN2)).round()
    r = (limited - n * _TOP_LN2_32) - n * _REST_LN2_32
    quarter = (((n + _ROUNDER_32).bits_as(int32) + 125) << 23).bits_as(float32)  # 2^(n - 2)
    up = quarter + quarter * (r + r * r * polynomial(r, EXPONENTIAL_REST))
    return up, 0.0625 / up


def hyperbolic_sine(x: Expression) -> Expression:
    """x + x^3 p(x^2) below 1, and (exp(x) - exp(-x)) / 2, in float32."""
    size, square = abs(x), x * x
    up, down = _quarters(size)
    far = times_sign(2.0 * (up - down), x)
    near = x + x * square * polynomial(square, HYPERBOLIC_SINE_REST)
    return select(size < 2.0**-13, x, select(size < 1.0, near, far))


def hyperbolic_cosine(x: Expression) -> Expression:
    """(exp(x) + exp(-x)) / 2, in float32."""
    up, down = _quarters(abs(x))
    return 2.0 * (up + down)


def logarithm_plus_one(x: Expression) -> Expression:
    """k log(2) + log(m + rest), in float32: 1 + x, rounded, is 2^k m, and `rest` 2^-k times what rounding left out."""
    one = select(x > math.inf, 0.0, x.constant(1))  # no constant: XLA would take (1 + x) - 1 for x
    total = one + x
    rounded = total - one
    k = (total.bits_as(int32) - _ROOT_HALF_BITS_32) >> 23
    f = (total.bits_as(int32) - (k << 23)).bits_as(float32) - 1.0
    scale = select(k < 127, (127 - k) << 23, 0).bits_as(float32)  # 2^-k, or 0
    rest = ((one - (total - rounded)) + (x - rounded)) * scale
    n, half, m, more = k.to(float32), 0.5 * f * f, f + 1.0, f + 2.0
    reciprocal = 1.0 / (m * more)  # one division for f / (f + 2) and rest / m
    s = f * m * reciprocal
    square = s * s
    small = n * _REST_LN2_32 + rest * more * reciprocal
    low = s * (half + square * polynomial(square, LOGARITHM[1:])) + small
    result = n * _TOP_LN2_32 + (f - (half - low))
    result = select(x < math.inf, result, x)
    result = select(x.equals(-1), -math.inf, select(x < -1.0, math.nan, result))
    return select(abs(x) < 2.0**-24, x, result)


_NEAR_ARCSINE = 1.18  # its arcsinh is 1


def inverse_hyperbolic_sine(x: Expression) -> Expression:
    """x + x^3 p(x^2) up to 1.18, and log(|x| + sqrt(x^2 + 1)), in float32."""
    size, square = abs(x), x * x
    near = x + x * square * polynomial(square, HYPERBOLIC_ARCSINE_REST)
    is_large = size > 2.0**40
    argument = size + select(is_large, 0.0, (square + 1.0).sqrt())
    far = times_sign(argument.applied("stablehlo.log") + select(is_large, x.constant(_LN2), 0.0), x)
    return select(size < 2.0**-13, x, select(size < _NEAR_ARCSINE, near, far))


def inverse_hyperbolic_cosine(x: Expression) -> Expression:
    """log(x + sqrt(x^2 - 1))."""
    wide = x.to(float64)
    result = logarithm(wide + (wide * wide - 1.0).sqrt()).to(float32)
    return select(x < 1.0, math.nan, result)


def inverse_hyperbolic_tangent(x: Expression) -> Expression:
    """x + x^3 p(x^2) below 1/2, and log((1 + x) / (1 - x)) / 2, in float32."""
    size, square = abs(x), x * x
    near = x + x * square * polynomial(square, HYPERBOLIC_ARCTANGENT_REST)
    far = times_sign(0.5 * ((1.0 + size) / (1.0 - size)).applied("stablehlo.log"), x)
    return select(size < 2.0**-13, x, select(size < 0.5, near, far))


# -- Powers and roots


_NO_EXPONENT = 27 << 23  # the bits of 2^-100: any float32 to a power of this size is 1, to every digit


def negative_power_sign(base: Expression, y: Expression, even_from: float) -> Expression:
    """(-1)^y for negative numbers, which is nan where y is not whole, unless they are 0 or infinite.

    Args:
      base: the absolute values of the numbers, of any dtype, no subnormal ones among them.
      even_from: a size from which on all numbers of the dtype of `y` are even.
    """
    half, size = y * 0.5, abs(y)
    fraction = select(size < 0.25, size, abs(half - half.round()))  # nan where y is infinite
    is_even = fraction.equals(0) | (size >= even_from)
    otherwise = select((base > 0.0) & (base < math.inf), math.nan, y.constant(1))
    return select(is_even, 1.0, select(fraction.equals(0.5), -1.0, otherwise))


def power(x: Expression, y: Expression) -> Expression:
    """x^y = 2^(y log2 |x|), with the sign of (-1)^y where x is negative; x^0 and 1^y are 1, whatever the other is."""
    y_bits = y.bits_as(int32)
    y_size = y_bits & 0x7FFFFFFF
    y_size = select(y_size < _NO_EXPONENT, select(y_size.equals(0), 0, y_size.constant(_NO_EXPONENT)), y_size)
    y = (y_size | (y_bits & np.iinfo(np.int32).min)).bits_as(float32)  # not subnormal
    exponent, size = y.to(float64), widened_size(x)
    k, rest = exponent_and_logarithm(size)
    log2 = select(size.equals(0), -math.inf, select(size < math.inf, k + rest * (1 / _LN2), size))
    product = select(log2.equals(0) | exponent.equals(0), 0.0, exponent * log2)
    result = exponential_of_2(product).to(float32)
    return select(x.bits_as(int32) < 0, result * negative_power_sign(size, y, 2.0**24), result)


def power_by_root(n: int) -> Callable[[Expression, Expression], Expression]:
    """The formula of x^(n + 1/2): |x|^n sqrt(|x|), and nan for negative numbers other than -inf."""

    def formula(x: Expression, y: Expression) -> Expression:
        size = abs(x)
        result = size.sqrt()
        for _ in range(max(n, -n - 1)):
            result = size * result
        return nan_where_negative(x, 1.0 / result if n < 0 else result)

    return formula


def power_by_wide_root(n: int) -> Callable[[Expression, Expression], Expression]:
    """The same for float32, computed in float64."""
    return lambda x, y: power_by_root(n)(x.to(float64), y).to(float32)


def nan_where_negative(x: Expression, result: Expression) -> Expression:
    """The result, a power of |x|; nan where x is negative, but not -inf."""
    return select((x < 0.0) & (abs(x) < math.inf), math.nan, result)


def corrected_reciprocal_cube_root(x: Expression, rough: Expression) -> Expression:
    """1 / cbrt(x) to 18 bits, of an estimate with an error of at most 3.6 %: a polynomial of 1 - x rough^3."""
    e = 1.0 - ((x * rough) * rough) * rough
    return rough + rough * (e * polynomial(e, RECIPROCAL_CUBE_ROOT))


_THIRD_OF_BIAS_32 = 0x54A1C000  # 4/3 of the exponent of 1, less what makes the errors symmetric


def cube_root(x: Expression) -> Expression:
    """x c^2 for c = 1 / cbrt(x), of which a third of the bits of x is an estimate, and one step of Newton's method.

    Subnormal numbers, and 0, are multiplied by 2^150.
    """
    bits = x.bits_as(int32) & 0x7FFFFFFF
    is_subnormal = bits < 0x00800000
    size = select(is_subnormal, 2.0 * bits.to(float32), bits.bits_as(float32))
    rough = (_THIRD_OF_BIAS_32 - (size.bits_as(int32) >> 16) * 0x5555).bits_as(float32)
    c, wide = corrected_reciprocal_cube_root(size, rough).to(float64), size.to(float64)
    root = wide * c * c
    root = root + root * ((1.0 - root * c) * (2 / 3))
    result = root.to(float32) * select(is_subnormal, x.constant(2.0**-50), 1.0)
    return times_sign(select(size < math.inf, result, size), x)
