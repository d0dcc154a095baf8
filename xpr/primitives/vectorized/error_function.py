"""The inverse of the error function: x + x p(w) where w = -log(1 - x^2).

Source: M. Giles, "Approximating the erfinv function", GPU Computing Gems, Jade Edition (2012). Where w is large,
sqrt(w) takes the place of x here, and the polynomial is one of 1 / sqrt(w).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xpr.dtypes import float32, float64
from xpr.primitives.vectorized.coefficients import ERF_INV, ERF_INV_FAR, LONG_ERF_INV, LONG_ERF_INV_FAR
from xpr.primitives.vectorized.exponentials import logarithm
from xpr.primitives.vectorized.expressions import Expression, polynomial_where, select, times_sign
from xpr.primitives.vectorized.long_exponentials import logarithm_in_parts


def _erf_inv(
    x: Expression, w: Expression, split: float, middle: float, tables: Sequence[Sequence[float]]
) -> Expression:
    is_near, root = w < split, w.sqrt()
    rest = polynomial_where([is_near], select(is_near, w - 1.5, 1.0 / root - middle), tables)
    size = abs(x)
    scale = select(is_near, size, root)
    at_end = select(size.equals(1), size.constant(math.inf), math.nan)
    return times_sign(select(size < 1.0, scale + scale * rest, at_end), x)


def erf_inv(x: Expression) -> Expression:
    wide = x.to(float64)
    return _erf_inv(wide, -logarithm(1.0 - wide * wide), 5.0625, 0.34375, (ERF_INV, ERF_INV_FAR)).to(float32)


def long_erf_inv(x: Expression) -> Expression:
    high, _ = logarithm_in_parts((1.0 - x) * (1.0 + x))
    return _erf_inv(x, -high, 6.25, 0.28125, (LONG_ERF_INV, LONG_ERF_INV_FAR))
