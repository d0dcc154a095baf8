"""The logarithm of the gamma function in the complex plane, by Stirling's series."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.compiled import compiled
from xpr.numpy.promotion import promote_inexact
from xpr.primitives.elementwise import complex_
from xpr.primitives.special import lgamma

__all__ = ["complex_gamma", "loggamma"]

_SHIFTS = 8  # by which the argument is moved to the right, where it is near the origin
# B_2k / (2k (2k - 1)) (DLMF 5.11.1).
_STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400, 43867 / 244188]


def _zeta_less_1(k: int) -> float:
    """The sum of n^-k over n from 2, from 100 on by Euler and Maclaurin's formula."""
    rest = 100.0 ** (1 - k) * (1 / (k - 1) + 1 / 200 + k / 12e4 - k * (k + 1) * (k + 2) / 720e8)
    return math.fsum([*(float(n) ** -k for n in range(2, 100)), rest])


_ZETA_LESS_1 = [math.nan, math.nan, *map(_zeta_less_1, range(2, 30))]


def loggamma(x: Any) -> Any:
    """The principal branch of the logarithm of the gamma function, elementwise; its cut is the negative axis.

    Args:
      x: array of numbers; of real ones the result is nan where they are negative.

    Returns:
      Floats or complex numbers of the shape of `x`.

    >>> from xpr.scipy import special
    >>> print(f"{complex(special.loggamma(1 + 1j)):.4f}")
    -0.6509-0.3016j
    """
    (x,) = promote_inexact(x)
    if jnp.issubdtype(jnp.result_type(x), jnp.complexfloating):
        return complex_loggamma(jnp.asarray(x))
    return jnp.where(jnp.greater_equal(x, 0), lgamma(x), math.nan)


def _is_pole(z: Any) -> Any:
    """Whether a number is 0, -1, -2 ..."""
    return (z.imag == 0) & (z.real <= 0) & (z.real == jnp.floor(z.real))


def complex_gamma(z: Any) -> Any:
    """The gamma function of complex numbers; nan at its poles."""
    pole = _is_pole(z)
    return jnp.where(pole, complex(math.nan, math.nan), jnp.exp(complex_loggamma(jnp.where(pole, 1, z))))


@compiled
def complex_loggamma(z: Any) -> Any:
    """In the lower half-plane it is conjugate to the upper one, and left of 1/2 it follows from that of 1 - z."""
    pole = _is_pole(z)
    lower = jnp.signbit(z.imag)
    upper = jnp.where(lower, jnp.conj(z), z)
    left = upper.real < 0.5
    right = _right_half(jnp.where(left, 1 - upper, upper))
    value = jnp.where(left, math.log(math.pi) - _log_sine(jnp.where(left, upper, 0.5)) - right, right)
    return jnp.where(pole, complex(math.nan, math.nan), jnp.where(lower, jnp.conj(value), value))


def _log_sine(z: Any) -> Any:
    """log(sin(pi z)), continuous in the upper half-plane: -i pi z + i pi / 2 - log 2 + log(1 - exp(2 pi i z))."""
    nearest = jnp.round(z.real)
    angle, depth = 2 * math.pi * (z.real - nearest), 2 * math.pi * z.imag
    real = -jnp.expm1(-depth) * jnp.cos(angle) + 2 * jnp.sin(angle / 2) ** 2
    rest = jnp.log(complex_(real, -jnp.exp(-depth) * jnp.sin(angle)))
    return -1j * math.pi * z + (0.5j * math.pi - math.log(2)) + rest


def _right_half(z: Any) -> Any:
    """For a real part of 1/2 or more: near 1 and 2, where it is 0, a series in zeta (DLMF 5.7.4)."""
    near_one = jnp.abs(z - 1) < 0.5
    near = near_one | (jnp.abs(z - 2) < 0.55)
    offset = jnp.where(near, jnp.where(near_one, z - 1, z - 2), 0)
    total = jnp.zeros_like(z)
    for k in range(len(_ZETA_LESS_1) - 1, 1, -1):
        total = (total + (-1) ** k * _ZETA_LESS_1[k] / k) * offset
    series = offset * (total + (1 - np.euler_gamma)) - jnp.where(near_one, _log1p(offset), 0)

    far = jnp.where(near, 3, z)
    short = jnp.abs(far) < _SHIFTS + 2
    shifted = jnp.where(short, far + _SHIFTS, far)
    logs = sum(jnp.log(far + k) for k in range(_SHIFTS))
    inverse = 1 / shifted
    square, tail = inverse * inverse, jnp.zeros_like(z)
    for coefficient in reversed(_STIRLING):
        tail = tail * square + coefficient
    value = (shifted - 0.5) * jnp.log(shifted) - shifted + 0.5 * math.log(2 * math.pi) + tail * inverse
    return jnp.where(near, series, value - jnp.where(short, logs, 0))


def _log1p(z: Any) -> Any:
    """log(1 + z) of complex numbers below 1/2: |1 + z|^2 - 1 is 2 x + x^2 + y^2."""
    x, y = z.real, z.imag
    return complex_(0.5 * jnp.log1p(x * (2 + x) + y * y), jnp.arctan2(y, 1 + x))
