"""Arc sine, arc cosine, arc tangent, and the angle of a point."""

from __future__ import annotations

import math

import numpy as np

from xpr.dtypes import float32, float64, int32, int64, uint32
from xpr.primitives.vectorized.coefficients import (
    ARCSINE_REST,
    ARCTANGENT_REST,
    LONG_ARCSINE,
    LONG_ARCTANGENT,
)
from xpr.primitives.vectorized.expressions import Expression, polynomial, select, times_sign
from xpr.primitives.vectorized.long_exponentials import product_in_parts, sum_in_parts

_TINY = 2.0**-13  # below it arcsin(x) = x = arctan(x) to a tenth of an ulp
_PI = math.pi
_EIGHTH = math.tan(_PI / 8)
_HALF_PI = float(np.float32(_PI / 2))
_LOW_HALF_PI_32 = _PI / 2 - _HALF_PI
_MANTISSA, _NORMAL, _INFINITY = 0x007FFFFF, 0x00800000, 0x7F800000  # bits of float32


def arctangent(x: Expression) -> Expression:
    """arctan(t) for t = |x| up to 1, pi/2 - arctan(t) for t = 1 / |x| beyond, in float32.

    What rounding of 1 / |x| and of pi/2 - t left out is added; that of 1 / |x| counts where t is not small.
    """
    size = abs(x)
    inverse, is_far = 1.0 / size, size > 1.0
    t = select(is_far, -inverse, size)
    square = t * t
    missing = select(size < 4.0, (inverse * size - 1.0) * inverse, 0.0) * (1.0 - 0.5 * square)  # arctan' is 1/(1 + t^2)
    total = _HALF_PI - inverse
    left_out = ((_HALF_PI - total) - inverse) + (missing + _LOW_HALF_PI_32)
    rest = t * square * polynomial(square, ARCTANGENT_REST) + select(is_far, left_out, t)
    return select(size < _TINY, x, times_sign(select(is_far, total, 0.0) + rest, x))


def _widened_bits(size: Expression) -> Expression:
    """Bits of float32 numbers without sign, in which subnormal numbers have a leading bit and a negative exponent."""
    return select(size < _NORMAL, size.to(float32).bits_as(int32) - (149 << 23), size)


def _scaled(smaller: Expression, larger: Expression) -> tuple[Expression, Expression]:
    """Two float32 numbers, by their bits without sign, times the power of 2 that makes the larger one 2^100 to 2^101.

    The smaller one is 0 where their quotient is subnormal, or where only the larger one is infinite.
    """
    wide = _widened_bits(select(larger > 1, larger, 1))
    under = wide & _MANTISSA | (227 << 23)
    difference = wide - _widened_bits(smaller)  # up to 403 << 23, as uint32
    is_seen = (difference.bits_as(uint32) <= 126 << 23) & ((larger < _INFINITY) | (smaller >= _INFINITY))
    return select(is_seen, under - difference, 0).bits_as(float32), under.bits_as(float32)


def angle(y: Expression, x: Expression) -> Expression:
    """atan2(y, x): 0, pi/2 or pi, plus or minus arctan(t) for the quotient t of at most 1, in float32.

    Two terms of arctan(t) = t - t^3/4 + ... are added first. What that, and the quotient, left out to rounding is added
    to the rest (T. J. Dekker, "A floating-point technique for extending the available precision", 1971).
    """
    bits = [v.bits_as(int32) for v in (y, x)]
    sizes = [each & 0x7FFFFFFF for each in bits]
    is_steep, is_left = sizes[0] > sizes[1], bits[1] < 0
    larger, smaller = select(is_steep, *sizes), select(is_steep, *sizes[::-1])
    over, under = _scaled(smaller, larger)
    inverse, over = 1.0 / under, select(is_steep ^ is_left, -over, over)
    t = over * inverse
    missing, square = over - t * under, t * t  # missing / under is what t lacks
    cubic = t * square
    quarter = 0.25 * cubic
    offset = select(is_steep, _HALF_PI, select(is_left, x.constant(2 * _HALF_PI), 0.0))
    total = ((offset + t) - quarter) + missing * inverse
    left_out = (((offset - total) + t) - quarter) + offset * (_LOW_HALF_PI_32 / _HALF_PI)
    left_out = left_out + missing * (inverse * (0.957 - 0.5 * square))  # arctan' is 1/(1 + t^2), to 0.043
    first, *others = ARCTANGENT_REST
    low, high = polynomial(square, (first + 0.25, *others[:2])), polynomial(square, others[2:])
    result = total + (left_out + cubic * (low + cubic * cubic * high))
    return select(larger > _INFINITY, math.nan, times_sign(result, y))


def _arcsine_of_half(x: Expression) -> tuple[Expression, Expression, Expression]:
    """Whether |x| is at most 1/2, and an arc sine: that of |x| where it is, else that of s = sqrt((1 - |x|) / 2).

    arcsin(|x|) = pi/2 - 2 arcsin(s) (J.-M. Muller, "Elementary Functions", 3rd ed. 2016, section 11.4). The arc sine is
    in two parts, the argument and the rest.
    """
    size = abs(x)
    is_small = size <= 0.5
    square = select(is_small, x * x, 0.5 - 0.5 * size)
    root = select(is_small, size, square.sqrt())
    return is_small, root, root * square * polynomial(square, ARCSINE_REST)


def arcsine(x: Expression) -> Expression:
    is_small, root, rest = _arcsine_of_half(x)
    total = _HALF_PI - 2.0 * root
    left_out = (_HALF_PI - total) - 2.0 * root
    far = total + (left_out - 2.0 * (rest - _LOW_HALF_PI_32 / 2))
    return select(abs(x) < _TINY, x, times_sign(select(is_small, root + rest, far), x))


def arccosine(x: Expression) -> Expression:
    is_small, root, rest = _arcsine_of_half(x)
    middle = _HALF_PI - (times_sign(root, x) + (times_sign(rest, x) - _LOW_HALF_PI_32))
    far = 2.0 * (root + rest)
    return select(is_small, middle, select(x < 0.0, 2 * _HALF_PI - 2.0 * (root + (rest - _LOW_HALF_PI_32)), far))


# -- Float64. What is added last has an error of half an ulp; the rest of a sum is small, or has its own lower part.

_LOW_HALF_PI = 6.123233995736766e-17  # pi / 2 less its nearest float64
_NEGATED_EXPONENT = 0x7FDE << 48  # less the bits of a positive number it is those of nearly its reciprocal


def _long_arctangent_of_ratio(y: Expression, x: Expression) -> tuple[Expression, Expression]:
    """arctan(y / x) in two parts, for y and x that are not negative: of the ratio, or of (y - x) / (y + x), or -x / y.

    What the quotient, and its operands, left out to rounding is added to the rest.
    """
    is_far, is_near = y > x * (1 / _EIGHTH), y < x * _EIGHTH
    difference, difference_rest = sum_in_parts(y, -x)
    both, both_rest = sum_in_parts(y, x)
    over = select(is_near, y, select(is_far, -x, difference))
    under = select(is_near, x, select(is_far, y, both))
    t = over / under
    square = t * t
    product, lost = product_in_parts(t, under)
    of_sides = select(is_near | is_far, 0.0, difference_rest - t * both_rest)
    rough = (_NEGATED_EXPONENT - under.bits_as(int64)).bits_as(float64)  # 1 / under, to a sixteenth
    missing = (((over - product) - lost) + of_sides) * (rough * (2.0 - under * rough))
    missing = select(abs(over) < 2.0**-900, 0.0, missing)  # its parts would be subnormal
    offset = select(is_near, 0.0, select(is_far, y.constant(_PI / 2), _PI / 4))
    low = select(is_near, 0.0, select(is_far, y.constant(_LOW_HALF_PI), _LOW_HALF_PI / 2))
    rest = t * square * polynomial(square, LONG_ARCTANGENT) + (low + missing * (1.0 - 0.87 * square))
    total = offset + t
    return total, ((offset - total) + t) + rest


# From where on arctan(x) is arctan(c) + arctan((x - c) / (1 + c x)), so that the second is less than half of it and its
# errors count little; c; and arctan(c) in two parts (fdlibm).
_FROM = (
    (7 / 16, 0.5, 0.4636476090008061, 2.2698777452961687e-17),
    (11 / 16, 1.0, _PI / 4, _LOW_HALF_PI / 2),
    (19 / 16, 1.5, 0.982793723247329, 1.3903311031230998e-17),
    (39 / 16, math.inf, _PI / 2, _LOW_HALF_PI),
)


def long_arctangent(x: Expression) -> Expression:
    size = abs(x)
    c, offset, low = (size.constant(0) for _ in range(3))
    for bound, *numbers in _FROM:
        is_beyond = size > bound
        c, offset, low = (select(is_beyond, new, old) for new, old in zip(numbers, (c, offset, low)))
    is_far = c.equals(math.inf)
    t = select(is_far, -1.0, size - c) / select(is_far, size, 1.0 + c * size)
    square = t * t
    result = offset + (t + (t * square * polynomial(square, LONG_ARCTANGENT) + low))
    return select(size < 2.0**-27, x, times_sign(result, x))


def long_angle(y: Expression, x: Expression) -> Expression:
    """Points that are far out, or near (0, 0), are brought nearer, so that sums and products stay in range."""
    sizes = abs(y), abs(x)
    is_any_infinite = sizes[0].equals(math.inf) | sizes[1].equals(math.inf)
    is_large = (sizes[0] > 2.0**1000) | (sizes[1] > 2.0**1000)
    is_small = (sizes[0] < 2.0**-800) & (sizes[1] < 2.0**-800)
    scale = select(is_large, 2.0**-100, select(is_small, x.constant(2.0**200), 1.0))
    sides = [select(is_any_infinite, select(v.equals(math.inf), v.constant(1), 0.0), v * scale) for v in sizes]
    is_nan = y.differs(y) | x.differs(x)
    total, rest = _long_arctangent_of_ratio(sides[0], select((sides[0] + sides[1]).equals(0), 1.0, sides[1]))
    turned = _PI - total
    left_out = ((_PI - turned) - total) - rest
    is_left = x.bits_as(int64) < 0
    result = select(is_left, turned, total) + select(is_left, left_out + 2 * _LOW_HALF_PI, rest)
    return select(is_nan, math.nan, times_sign(result, y))


def _long_arcsine_of_half(x: Expression) -> tuple[Expression, Expression, Expression]:
    """Whether |x| is at most 1/2, and an arc sine as in `_arcsine_of_half`, in two parts."""
    size = abs(x)
    is_small = size <= 0.5
    square = select(is_small, x * x, 0.5 - 0.5 * size)
    root = select(is_small, size, square.sqrt())
    return is_small, root, root * square * polynomial(square, LONG_ARCSINE)


def long_arcsine(x: Expression) -> Expression:
    is_small, root, rest = _long_arcsine_of_half(x)
    far = _PI / 2 - 2.0 * (root + (rest - _LOW_HALF_PI / 2))
    return select(abs(x) < 2.0**-27, x, times_sign(select(is_small, root + rest, far), x))


def long_arccosine(x: Expression) -> Expression:
    is_small, root, rest = _long_arcsine_of_half(x)
    middle = _PI / 2 - (times_sign(root, x) + (times_sign(rest, x) - _LOW_HALF_PI))
    far = 2.0 * (root + rest)
    return select(is_small, middle, select(x < 0.0, _PI - 2.0 * (root + (rest - _LOW_HALF_PI)), far))
