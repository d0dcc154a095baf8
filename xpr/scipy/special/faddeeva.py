"""The Faddeeva function and its relatives: the scaled error function, Dawson's integral, Fresnel's integrals.

The trapezoidal and the midpoint rule with 12 nodes, corrected for the pole that is near to them, are exact to a few
units in the last place of 64 bits; of the two rules the one is taken whose nodes are further away. Source: M. Al Azah
and S. N. Chandler-Wilde, Computation of the complex error function using modified trapezoidal rules, SIAM Journal on
Numerical Analysis, 2021.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.compiled import compiled
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.numpy.promotion import promote_inexact
from xpr.primitives.elementwise import complex_
from xpr.scipy.special.arguments import inexact_dtype, wide_reals

__all__ = ["dawsn", "erfcx", "fresnel", "wofz"]

_NODES = 12
_STEP = math.sqrt(math.pi / _NODES)
_MIDPOINTS = [(k + 0.5) * _STEP for k in range(_NODES)]
_TRAPEZOIDS = [k * _STEP for k in range(1, _NODES)]


def _rule(square: Any, nodes: list[float]) -> Any:
    """2 h / pi times the sum over nodes t of exp(-t^2) / (square - t^2)."""
    return sum(2 * _STEP / math.pi * math.exp(-t * t) / (square - t * t) for t in nodes)


def _asymptotic(inverse_square: Any) -> Any:
    """The terms behind the first of sum over k of (2 k - 1)!! / (2 z^2)^k (DLMF 7.12.1), for |z| > 1000."""
    return inverse_square * (0.5 + 0.75 * inverse_square)


def _by_midpoints(x: Any) -> Any:
    """Whether x is further from the midpoints (k + 1/2) h than from the nodes k h."""
    share = x / _STEP
    share = share - jnp.floor(share)
    return (share < 0.25) | (share > 0.75)


# -- wofz


def wofz(z: Any) -> Any:
    """The Faddeeva function exp(-z^2) erfc(-i z), elementwise.

    Args:
      z: array of numbers.

    Returns:
      Complex numbers of the shape of `z`.

    >>> from xpr.scipy import special
    >>> print(f"{complex(special.wofz(1j)):.4f}")
    0.4276+0.0000j
    """
    z = jnp.asarray(*promote_inexact(z))
    return _wofz(z.astype(np.result_type(z.dtype, np.complex64)))


@compiled
def _wofz(z: Any) -> Any:
    """In the lower half-plane it is 2 exp(-z^2) less that of -z."""
    x, y = z.real, z.imag
    below = y < 0
    upper = _upper_half(jnp.where(below, -x, x), jnp.abs(y))
    small = jnp.where(below, z, 0)
    return jnp.where(below, 2 * jnp.exp(-small * small) - upper, upper)


def _upper_half(x: Any, y: Any) -> Any:
    """w(x + i y) for y >= 0, by its values for x >= 0."""
    w = _quadrant(jnp.abs(x), y)
    return jnp.where(x < 0, jnp.conj(w), w)


def _quadrant(x: Any, y: Any) -> Any:
    """w(x + i y) for x, y >= 0."""
    far = jnp.maximum(x, y) > 1e3
    high = y >= jnp.maximum(x, math.pi / _STEP)
    middle = ~high & ~far
    midpoints = _by_midpoints(x)
    z = jnp.where(far, 1.0 + 8.0j, complex_(x, y))
    plain = 1j * z * _rule(z * z, _MIDPOINTS)

    # The residue at the pole, by exp(2 pi i z / h), which is at most 1.
    away = 0.3 * _STEP + 0.1j
    near = jnp.where(middle & midpoints, complex_(x, y), away)
    turn = jnp.exp(2j * math.pi / _STEP * near)
    one = 1j * near * _rule(near * near, _MIDPOINTS) + 2 * jnp.exp(-near * near) * turn / (1 + turn)
    near = jnp.where(middle & ~midpoints, complex_(x, y), away + 0.2 * _STEP)
    turn = jnp.exp(2j * math.pi / _STEP * near)
    other = 1j * (_STEP / (math.pi * near) + near * _rule(near * near, _TRAPEZOIDS))
    other = other - 2 * jnp.exp(-near * near) * turn / (1 - turn)

    # The asymptotic series far out, where z^2 may overflow.
    outer = jnp.where(far, complex_(x, y), 1.0)
    size = jnp.maximum(jnp.abs(outer.real), jnp.abs(outer.imag))
    finite = jnp.isfinite(size)
    complex_size = jnp.where(finite, size, 1).astype(outer.dtype)
    scaled = jnp.where(finite, outer / complex_size, 1)
    tail = 1j / math.sqrt(math.pi) / scaled * (1 + _asymptotic((1 / complex_size / scaled) ** 2)) / complex_size
    value = jnp.where(high, plain, jnp.where(midpoints, one, other))
    return jnp.where(jnp.isnan(x) | jnp.isnan(y), math.nan, jnp.where(far, jnp.where(finite, tail, 0), value))


# -- erfcx and dawsn, on the imaginary and on the real axis


def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x), elementwise.

    Args:
      x: array of numbers.

    Returns:
      An array of floats or complex numbers of the shape of `x`.

    >>> from xpr.scipy import special
    >>> round(float(special.erfcx(10.0)), 6)
    0.056141
    """
    if jnp.issubdtype(jnp.result_type(x), jnp.complexfloating):
        return wofz(1j * jnp.asarray(x))
    (y,) = wide_reals("erfcx", x)
    below = y < 0
    size = jnp.abs(y)
    large = size > 1e3
    inner, outer = jnp.where(large, 1.0, size), jnp.where(large, size, 1.0)
    near = inner < math.pi / _STEP
    pole = jnp.where(near, inner, 1.0)
    residue = jnp.where(near, 2 * jnp.exp(pole * pole) / (1 + jnp.exp(2 * math.pi / _STEP * pole)), 0.0)
    value = residue - inner * _rule(-inner * inner, _MIDPOINTS)
    value = jnp.where(large, (1 + _asymptotic(-1 / outer / outer)) / outer / math.sqrt(math.pi), value)
    left = jnp.where(below, y, 0.0)
    return jnp.where(below, 2 * jnp.exp(left * left) - value, value).astype(inexact_dtype(x))


def dawsn(x: Any) -> Any:
    """Dawson's integral: exp(-x^2) times the integral of exp(t^2) from 0 to x; elementwise.

    Args:
      x: array of real numbers.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.dawsn(1.0)), 6)
    0.53808
    """
    (y,) = wide_reals("dawsn", x)
    large = jnp.abs(y) > 1e3
    inner, outer = jnp.where(large, 1.0, y), jnp.where(large, y, 1.0)
    midpoints = _by_midpoints(inner)
    near = jnp.where(midpoints, inner, 0.0)
    one = near * _rule(near * near, _MIDPOINTS) + jnp.exp(-near * near) * jnp.tan(math.pi / _STEP * near)
    near = jnp.where(midpoints, 0.5 * _STEP, inner)
    other = _STEP / (math.pi * near) + near * _rule(near * near, _TRAPEZOIDS)
    other = other - jnp.exp(-near * near) / jnp.tan(math.pi / _STEP * near)
    value = 0.5 * math.sqrt(math.pi) * jnp.where(midpoints, one, other)
    small = jnp.abs(y) < 0.5
    value = jnp.where(small, _dawsn_series(jnp.where(small, y, 0.0)), value)
    value = jnp.where(large, (1 + _asymptotic(1 / outer / outer)) * 0.5 / outer, value)
    return value.astype(inexact_dtype(x))


def _dawsn_series(x: Any) -> Any:
    """sum over k of (-2)^k x^(2 k + 1) / (2 k + 1)!! (DLMF 7.6.3)."""
    total = jnp.ones_like(x)
    for k in range(12, 0, -1):
        total = 1 - 2 * x * x / (2 * k + 1) * total
    return x * total


# -- Fresnel's integrals


def fresnel(x: Any) -> tuple[Any, Any]:
    """The integrals from 0 to x of sin(pi t^2 / 2) and of cos(pi t^2 / 2), elementwise.

    Args:
      x: array of real numbers.

    Returns:
      `(S, C)`, floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> [round(float(y), 4) for y in special.fresnel(1.0)]
    [0.4383, 0.7799]
    """
    (y,) = wide_reals("fresnel", x)
    return tuple([each.astype(inexact_dtype(x)) for each in _fresnel(y)])


@custom_jvp
@compiled
def _fresnel(x: Any) -> list[Any]:
    """Near 0 their power series; else from C + i S = (1 + i) / 2 erf(sqrt(pi) / 2 (1 - i) x) (DLMF 7.5.8)."""
    size = jnp.abs(x)
    near = size < 1.3
    inner, outer = jnp.where(near, size, 0.0), jnp.where(near | jnp.isinf(size), 2.0, size)
    phase = 0.5 * math.pi * inner**2
    sums, term = [jnp.zeros_like(x), jnp.zeros_like(x)], inner
    for k in range(26):
        sums[k % 2] = sums[k % 2] + (-1) ** (k // 2) * term / (2 * k + 1)
        term = term * phase / (k + 1)
    cosine, sine = sums
    turn = 0.5 * math.pi * jnp.remainder(_squared_mod_4(outer), 4.0)
    w = _quadrant(0.5 * math.sqrt(math.pi) * outer, 0.5 * math.sqrt(math.pi) * outer)
    far = (0.5 + 0.5j) * (1 - complex_(jnp.cos(turn), jnp.sin(turn)) * jnp.where(jnp.isinf(size), 0, w))
    sign = jnp.sign(x)
    return [sign * jnp.where(near, sine, far.imag), sign * jnp.where(near, cosine, far.real)]


def _squared_mod_4(x: Any) -> Any:
    """x^2 up to multiples of 4, of which the fraction has all digits: with x = 2 n + r it is 4 n r + r^2."""
    n = jnp.round(x / 2)
    r = x - 2 * n
    return 4 * jnp.remainder(n * r, 1.0) + r * r


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    turn = 0.5 * math.pi * _squared_mod_4(x)
    return _fresnel(x), [t * jnp.sin(turn), t * jnp.cos(turn)]
