"""Spence's function, and Owen's T function: integrals of logarithms and of the normal density over a wedge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.primitives.special import erf
from xpr.scipy.special.arguments import inexact_dtype, wide_reals
from xpr.scipy.special.error_functions import ndtr

__all__ = ["owens_t", "spence"]

# B_2k / (2k + 1)!, of the series of the dilogarithm in L = -log(1 - u) (D. Zagier, The dilogarithm function, 2007).
_BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798]
_SERIES = [b / math.factorial(2 * k + 1) for k, b in enumerate(_BERNOULLI, 1)]


@compiled_eagerly()
def spence(x: Any) -> Any:
    """The integral of log(t) / (1 - t) from 1 to x, which is the dilogarithm of 1 - x; elementwise.

    Args:
      x: array of real numbers; the result is nan where it is negative.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.spence(0.0)), 4)
    1.6449
    """
    (y,) = wide_reals("spence", x)
    large = y > 1
    inverse = jnp.where(large, 1 / jnp.where(large, y, 1.0), y)  # the value is -log(y)^2 / 2 less that of 1 / y
    low = inverse < 0.5
    near = jnp.where(low, 1 - inverse, inverse)  # the values of x and 1 - x add to pi^2 / 6 - log(x) log(1 - x)
    value = _near_one(jnp.where(near >= 0.5, near, 1.0))
    some = low & (inverse > 0)
    logs = jnp.log(jnp.where(some, inverse, 1.0)) * jnp.log1p(-jnp.where(some, inverse, 0.0))
    value = jnp.where(low, math.pi**2 / 6 - logs - value, value)
    value = jnp.where(large, -0.5 * jnp.log(jnp.where(large, y, 1.0)) ** 2 - value, value)
    return jnp.where(y >= 0, value, math.nan).astype(inexact_dtype(x))


def _near_one(x: Any) -> Any:
    """The function from 1/2 to 2: L - L^2 / 4 + sum over k of B_2k L^(2k + 1) / (2k + 1)! with L = -log(x)."""
    log = -jnp.log(x)
    square = log * log
    total = jnp.zeros_like(x)
    for coefficient in reversed(_SERIES):
        total = (total + coefficient) * square
    return log * (1 - log / 4 + total)


_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(48)


def owens_t(h: Any, a: Any) -> Any:
    """The probability of x > h and 0 < y < a x for independent standard normal x and y; elementwise.

    It is integrated by Gauss and Legendre's rule for |a| <= 1, and else follows from the value for 1 / a (D. B. Owen,
    Tables for computing bivariate normal probabilities, 1956).

    Args:
      h: array of real numbers.
      a: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape.

    Raises:
      TypeError: one is complex.

    >>> from xpr.scipy import special
    >>> float(special.owens_t(0.0, 1.0))
    0.125
    """
    return _owens_t(*wide_reals("owens_t", h, a)).astype(inexact_dtype(h, a))


@custom_jvp
@compiled
def _owens_t(h: Any, a: Any) -> Any:
    height, slope = jnp.abs(h), jnp.abs(a)
    steep = slope > 1
    moved = height * jnp.where(jnp.isinf(slope), jnp.where(height == 0, 0.0, 1.0), slope)
    moved = jnp.where(jnp.isinf(slope) & (height > 0), math.inf, moved)
    value = _wedge(jnp.where(steep, moved, height), jnp.where(steep, 1 / jnp.where(steep, slope, 1.0), slope))
    one, two = ndtr(-height), ndtr(-moved)
    value = jnp.where(steep, 0.5 * one + 0.5 * two - one * two - value, value)
    value = jnp.where(jnp.isinf(slope), 0.5 * one, value)
    return jnp.where(jnp.isnan(h) | jnp.isnan(a), math.nan, jnp.copysign(value, a))


def _wedge(h: Any, a: Any) -> Any:
    """1 / (2 pi) times the integral over x from 0 to a <= 1 of exp(-h^2 (1 + x^2) / 2) / (1 + x^2).

    Beyond x = 9 / h the integrand is below 1e-17 of its start.
    """
    h = jnp.minimum(h, 50.0)
    end = jnp.minimum(a, 9 / jnp.maximum(h, 1e-3))
    half_square = 0.5 * h * h
    total = jnp.zeros_like(h)
    for point, weight in zip(_POINTS, _WEIGHTS):
        square = (0.5 * (1 + point) * end) ** 2
        total = total + weight * jnp.exp(-half_square * square) / (1 + square)
    return jnp.exp(-half_square) * total * end / (4 * math.pi)


_owens_t.defjvps(
    lambda t, out, h, a: -t * jnp.exp(-0.5 * h * h) * erf(_product(a, h) * math.sqrt(0.5)) / math.sqrt(8 * math.pi),
    lambda t, out, h, a: t * jnp.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)),
)


def _product(a: Any, h: Any) -> Any:
    none = (h == 0) & jnp.isinf(a)
    return jnp.where(none, 0.0, jnp.where(none, 1.0, a) * h)
