"""Exponentials, logarithms, powers and roots of float64, to two ulps and mostly one.

The formulas are those of fdlibm (Sun Microsystems, 1993), written without branches. A float64 whose last 32 bits are
cleared has products with others of its kind that are exact; that is how parts of a sum keep their lower half, whether
or not a product and a sum are contracted. Results that are subnormal are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xpr.dtypes import float64, int64
from xpr.primitives.vectorized import exponentials
from xpr.primitives.vectorized.coefficients import (
    CP_PARTS,
    LN2_PARTS,
    LONG_EXPONENTIAL,
    LONG_HYPERBOLIC_SINE,
    LONG_LOGARITHM,
    LONG_LOGARITHM_TAIL,
    SHORT_LN2_PARTS,
)
from xpr.primitives.vectorized.exponentials import negative_power_sign
from xpr.primitives.vectorized.expressions import (
    Expression,
    polynomial,
    power_of_2,
    ratio,
    select,
    times_sign,
    whole_number,
)
from xpr.primitives.vectorized.rule import OnCpu

_LN2 = math.log(2)


def _upper(x: Expression) -> Expression:
    """The float64 with its last 32 bits cleared."""
    return (x.bits_as(int64) & -(1 << 32)).bits_as(float64)


def sum_in_parts(x: Expression, y: Expression) -> tuple[Expression, Expression]:
    """x + y, rounded, and what rounding left out (D. E. Knuth, "The Art of Computer Programming", 4.2.2)."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def product_in_parts(x: Expression, y: Expression) -> tuple[Expression, Expression]:
    """x y, rounded, and what rounding left out, but for 2^-90 of the product (T. J. Dekker, 1971)."""
    product, x_high, y_high = x * y, _upper(x), _upper(y)
    x_low, y_low = x - x_high, y - y_high
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


# -- Exponentials


def _reduced(x: Expression) -> tuple[Expression, Expression]:
    """n and exp(r) - 1, where x = n log 2 + r and |r| <= log(2) / 2."""
    n = (x * (1 / _LN2)).round()
    high, low = x - n * LN2_PARTS[0], n * LN2_PARTS[1]
    r = high - low
    return n, r + (((high - r) - low) + r * r * polynomial(r, LONG_EXPONENTIAL))


def _half_exponential(x: Expression) -> Expression:
    """exp(x) / 2 of numbers that are not negative."""
    n, rest = _reduced(select(x > 710.5, 710.5, x))
    return (1.0 + rest) * power_of_2(n - 2.0) * 2.0


def exponential_minus_one(x: Expression) -> Expression:
    n, rest = _reduced(select(x > 710.0, 710.0, select(x < -40.0, -40.0, x)))
    scale = power_of_2(n - 1.0)
    return select(abs(x) < 2.0**-54, x, select(n.equals(0), rest, 2.0 * (scale * rest + (scale - 0.5))))


def hyperbolic_sine(x: Expression) -> Expression:
    size = abs(x)
    half, square = _half_exponential(size), x * x
    near = x + x * square * polynomial(square, LONG_HYPERBOLIC_SINE)
    far = times_sign(half - 0.25 / half, x)
    return select(size < 2.0**-27, x, select(size <= 1.0, near, far))


def hyperbolic_cosine(x: Expression) -> Expression:
    half = _half_exponential(abs(x))
    return half + 0.25 / half


# -- Logarithms

_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # of sqrt(1/2)


def _exponent_and_rest(x: Expression) -> tuple[Expression, Expression]:
    """n and f, where x = 2^n (1 + f) and sqrt(1/2) <= 1 + f < sqrt(2), of positive normal numbers."""
    k = (x.bits_as(int64) - _ROOT_HALF_BITS) >> 52
    return whole_number(k), (x.bits_as(int64) - (k << 52)).bits_as(float64) - 1.0


def _logarithm_of_rest(f: Expression, s: Expression, half: Expression) -> Expression:
    """log(1 + f) - (f - half), where half = f^2 / 2 and s = f / (f + 2)."""
    square = s * s
    return s * (half + square * polynomial(square, LONG_LOGARITHM))


def logarithm_in_parts(x: Expression) -> tuple[Expression, Expression]:
    """log(x) of positive normal numbers, as a sum whose second part is below the last digit of the first."""
    n, f = _exponent_and_rest(x)
    half = 0.5 * f * f
    low = (n * LN2_PARTS[1] + _logarithm_of_rest(f, ratio(f, f + 2.0), half)) - half
    first = n * LN2_PARTS[0]
    total = first + f
    rest = ((first - total) + f) + low
    high = total + rest
    return high, rest - (high - total)


def _logarithm_of_sum(x: Expression, rest: Expression, more: Expression) -> Expression:
    """log(x + rest) + more log(2) of positive x and a rest that is below its last digit."""
    n, f = _exponent_and_rest(x)
    n, half = n + more, 0.5 * f * f
    bounded = select(x < 2.0**100, x, 2.0**100)  # of larger numbers the rest is nothing
    reciprocal = 1.0 / ((f + 2.0) * bounded)  # one division for f / (f + 2) and rest / x
    low = n * LN2_PARTS[1] + rest * ((f + 2.0) * reciprocal)
    return n * LN2_PARTS[0] + (f - (half - (_logarithm_of_rest(f, f * bounded * reciprocal, half) + low)))


def _logarithm_plus_one(x: Expression, is_large: Expression, low: Any = 0.0) -> Expression:
    """log(1 + x + low), and log(2 x) where x is large. XLA would take (1 + x) - 1 for x: the 1 must be no constant."""
    one = select(is_large, 0.0, x.constant(1))
    total = one + x
    rounded = total - one
    rest = (one - (total - rounded)) + ((x - rounded) + low)
    result = _logarithm_of_sum(total, select(is_large, 0.0, rest), select(is_large, x.constant(1), 0.0))
    return select(x < math.inf, result, x)


def logarithm(x: Expression) -> Expression:
    is_subnormal, size = _normal(abs(x))
    n, f = _exponent_and_rest(size)
    n, half = n + select(is_subnormal, x.constant(-1074), 0.0), 0.5 * f * f
    low = _logarithm_of_rest(f, ratio(f, f + 2.0), half) + n * LN2_PARTS[1]
    result = n * LN2_PARTS[0] + (f - (half - low))
    result = select(x.bits_as(int64) < 0, math.nan, select(x < math.inf, result, x))
    return select(size.equals(0), -math.inf, result)


def logarithm_plus_one(x: Expression) -> Expression:
    size = abs(x)
    result = _logarithm_plus_one(x, size > math.inf)
    result = select(x.equals(-1), -math.inf, select(x < -1.0, math.nan, result))
    return select(size < 2.0**-53, x, result)


def inverse_hyperbolic_sine(x: Expression) -> Expression:
    """log(1 + z), where z = |x| + x^2 / (1 + sqrt(1 + x^2))."""
    size = abs(x)
    is_large = size > 2.0**28
    square = size * size
    z = select(is_large, size, size + square / (1.0 + (square + 1.0).sqrt()))
    return select(size < 2.0**-28, x, times_sign(_logarithm_plus_one(z, is_large), x))


def inverse_hyperbolic_cosine(x: Expression) -> Expression:
    """log(1 + z), where z = t + sqrt(2 t + t^2) and t = x - 1."""
    is_large = x > 2.0**28
    t = x - 1.0
    root = (2.0 * t + t * t).sqrt()
    z = t + root
    result = _logarithm_plus_one(select(is_large, x, z), is_large, t - (z - root))
    return select(x < 1.0, math.nan, result)


def inverse_hyperbolic_tangent(x: Expression) -> Expression:
    """log(1 + z) / 2, where z = 2 |x| / (1 - |x|) = 2 |x| + 2 x^2 / (1 - |x|)."""
    size = abs(x)
    is_small, double = size < 0.5, size + size
    part = select(is_small, double * size, double) / (1.0 - size)
    z = select(is_small, double + part, part)
    result = times_sign(0.5 * _logarithm_plus_one(z, size > math.inf), x)
    return select(size < 2.0**-28, x, select(size > 1.0, math.nan, result))


# -- Powers and roots


def _normal(size: Expression) -> tuple[Expression, Expression]:
    """Whether the numbers, none of them negative, are subnormal; and they, times 2^1074 where they are.

    A subnormal number is that many times 2^-1074 as its bits say.
    """
    bits = size.bits_as(int64)
    is_subnormal = bits < 1 << 52
    whole = (bits + (1075 << 52)).bits_as(float64) - 2.0**52
    return is_subnormal, select(is_subnormal, whole, size)


def _log2_in_parts(x: Expression, more: Expression) -> tuple[Expression, Expression]:
    """log2(x) + more of positive normal numbers, as a sum whose first part has its last 32 bits cleared."""
    exponent = (x.bits_as(int64) - _ROOT_HALF_BITS) >> 52
    m = (x.bits_as(int64) - (exponent << 52)).bits_as(float64)
    k = whole_number(exponent) + more
    f, whole = m - 1.0, m + 1.0
    reciprocal = 1.0 / whole
    s = f * reciprocal
    s_high, whole_high = _upper(s), _upper(whole)
    whole_low = m - (whole_high - 1.0)
    s_low = reciprocal * ((f - s_high * whole_high) - s_high * whole_low)
    square = s * s
    tail = square * square * polynomial(square, LONG_LOGARITHM_TAIL) + s_low * (s_high + s)
    square_high = s_high * s_high
    factor_high = _upper(3.0 + square_high + tail)
    factor_low = tail - ((factor_high - 3.0) - square_high)
    product, rest = s_high * factor_high, s_low * factor_high + factor_low * s
    high = _upper(product + rest)
    low = rest - (high - product)
    log_high, log_low = high * CP_PARTS[0], high * CP_PARTS[1] + low * (CP_PARTS[0] + CP_PARTS[1])
    first = _upper((log_high + log_low) + k)
    return first, log_low - ((first - k) - log_high)


def power(x: Expression, y: Expression) -> Expression:
    """x^y = 2^(y log2 |x|), with the sign of (-1)^y where x is negative; x^0 and 1^y are 1, whatever the other is."""
    is_subnormal, size = _normal(abs(x))
    first, second = _log2_in_parts(size, select(is_subnormal, x.constant(-1074), 0.0))
    limited = select(y > 2.0**70, 2.0**70, select(y < -(2.0**70), -(2.0**70), y))
    y_high = _upper(limited)
    low = (limited - y_high) * first + limited * second
    high = y_high * first
    total = low + high
    bounded = select(total > 1100.0, 1100.0, select(total < -1100.0, -1100.0, total))
    n = bounded.round()
    rest_high = high - n
    t = _upper(low + rest_high)
    product = t * SHORT_LN2_PARTS[0]
    rest = (low - (t - rest_high)) * _LN2 + t * SHORT_LN2_PARTS[1]
    r = product + rest
    r_low = rest - (r - product)
    series = 1.0 + (r + (r * r * polynomial(r, LONG_EXPONENTIAL) + (r_low + r_low * r)))
    is_up = n > 0.0
    result = series * power_of_2(select(is_up, n - 1.0, n)) * select(is_up, n.constant(2), 1.0)
    result = select(total < -1022.0, 0.0, select(total >= 1024.0, math.inf, result))
    at_end = select(size.equals(0) ^ (y < 0.0), 0.0, x.constant(math.inf))  # of 0 and of infinity
    result = select(size.equals(0) | size.equals(math.inf), at_end, result)
    result = select(x.bits_as(int64) < 0, result * negative_power_sign(size, y, 2.0**53), result)
    result = select(x.differs(x) | y.differs(y), math.nan, result)
    is_one = y.equals(0) | x.equals(1)
    return select(is_one, 1.0, result)


def power_by_root(n: int) -> Callable[[Expression, Expression], Expression]:
    """The formula of x^(n + 1/2), n = 1 or -1, by the root of a number near 1 and what rounding left out of it."""

    def formula(x: Expression, y: Expression) -> Expression:
        size = abs(x)
        k = (size.bits_as(int64) >> 53) - 511
        up, down = (((1023 + k) << 52).bits_as(float64), ((1023 - k) << 52).bits_as(float64))  # 2^k and 2^-k
        m = size * down * down
        root = m.sqrt()
        reciprocal = 1.0 / root
        square, low = product_in_parts(root, root)
        rest = 0.5 * (((m - square) - low) * reciprocal)
        if n > 0:
            product, low = product_in_parts(m, root)
            result = (product + (low + m * rest)) * up * up * up
        else:
            product, low = product_in_parts(root, reciprocal)
            missing = ((1.0 - product) - low) - rest * reciprocal
            result = (reciprocal + reciprocal * missing) * down
        is_infinite, is_zero = (
            size.equals(math.inf),
            size < 2.0**-1022,
        )  # by its bits: subnormal numbers may not equal 0
        at_zero, at_infinity = (0.0, math.inf) if n > 0 else (math.inf, 0.0)
        result = select(is_zero, at_zero, select(is_infinite, at_infinity, result))
        return exponentials.nan_where_negative(x, result)

    return formula


_THIRD_OF_BIAS = 0x553EE800 << 32  # 4/3 of the exponent of 1, less what makes the errors symmetric
_TINY = 2.0**-900  # smaller numbers are multiplied by 2^600: what is left of them would be subnormal


def cube_root(x: Expression) -> Expression:
    """t (1 - d / x)^(-1/3) for d = x - t^3, by its Taylor series, where t is an estimate.

    It has 17 bits, so its cube is exact, and is too small, so that isn't infinite.
    """
    is_subnormal, size = _normal(abs(x))
    is_tiny = size < _TINY
    m = size * select(is_tiny, x.constant(2.0**600), 1.0)
    rough = (_THIRD_OF_BIAS - (m.bits_as(int64) >> 32) * 0x55555555).bits_as(float64)
    c = exponentials.corrected_reciprocal_cube_root(m, rough)
    t = (((m * c * c).bits_as(int64) - (1 << 36)) & -(1 << 36)).bits_as(float64)
    v = (m - t * t * t) / m
    result = t + t * (v * polynomial(v, [1 / 3, 2 / 9, 14 / 81, 35 / 243]))
    scale = select(is_subnormal, x.constant(2.0**-358), select(is_tiny, x.constant(2.0**-200), 1.0))
    return select(size.equals(0) | ~(size < math.inf), x, times_sign(result * scale, x))


lower_exponential_minus_one = OnCpu(
    "expm1",
    "stablehlo.exponential_minus_one",
    exponentials.exponential_minus_one,
    exponential_minus_one,
    has_vector_code=True,
)
