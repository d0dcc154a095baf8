"""The inverse of the error function: x + x p(w) where w = -log(1 - x^2).

Source: M. Giles, "Approximating the erfinv function", GPU Computing Gems, Jade Edition (2012). Where w is large
sqrt(w) takes the place of x in float64, and the polynomial is one of 1 / sqrt(w).
"""

from __future__ import annotations

import math

from xpr.dtypes import float32, float64
from xpr.primitives.vectorized.coefficients import ERF_INV, LONG_ERF_INV, LONG_ERF_INV_FAR
from xpr.primitives.vectorized.exponentials import exponent_and_logarithm
from xpr.primitives.vectorized.expressions import Expression, long_polynomial, polynomial_where, select, times_sign
from xpr.primitives.vectorized.long_exponentials import logarithm_in_parts


def _with_ends(x: Expression, result: Expression) -> Expression:
    """+-inf at +-1, and nan beyond."""
    size = abs(x)
    at_end = select(size.equals(1), times_sign(x.constant(math.inf), x), math.nan)
    return select(size < 1.0, result, at_end)


def erf_inv(x: Expression) -> Expression:
    """By one polynomial: float32 numbers other than 1 are so far from it that w is below 16."""
    wide = x.to(float64)
    k, rest = exponent_and_logarithm(1.0 - wide * wide)
    minus_w = (k * math.log(2) + 7.5) + rest
    factor = long_polynomial(minus_w, ERF_INV) + 1.0  # positive, so that -0.0 keeps its sign
    return _with_ends(x, (wide * factor).to(float32))


def long_erf_inv(x: Expression) -> Expression:
    log, _ = logarithm_in_parts((1.0 - x) * (1.0 + x))
    is_near, root = log > -6.25, (-log).sqrt()
    tables = LONG_ERF_INV, LONG_ERF_INV_FAR
    rest = polynomial_where([is_near], select(is_near, log + 1.5, 1.0 / root - 0.28125), tables)
    scale = select(is_near, abs(x), root)
    return _with_ends(x, times_sign(scale + scale * rest, x))
