"""Bessel functions of real orders: J, Y, and modified I and K, with derivatives in order and argument.

J and Y are Schlaefli's integrals (DLMF 10.9.6, 10.9.7), by Gauss's rule on panels whose number grows with the argument;
far out Hankel's asymptotic series (DLMF 10.17), and near 0 the power series of J (DLMF 10.2.2). K is its integral over
a line (DLMF 10.32.9), for which equidistant nodes converge exponentially; I follows from K, the ratio of two
neighbouring orders, which is a continued fraction, and their Wronskian (DLMF 10.28.2); near 0,
and where K overflows, from its power series (DLMF 10.25.2).

The number of panels, and of terms of the continued fraction, grows with the greatest argument of an array. Where an
order and an argument are too large for that, and the argument not so large that the asymptotic series holds, J, Y and I
are nan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.compiled import compiled
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.while_.fori_loop import fori_loop
from xpr.primitives.special import lgamma
from xpr.scipy.special.arguments import slope_in, wide_reals

__all__ = ["iv", "ive", "j0", "j1", "jn", "jv", "k0", "k0e", "k1", "k1e", "kv", "kve", "y0", "y1", "yv"]

_HALF_NODES, _HALF_WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = (_HALF_NODES + 1) / 2, _HALF_WEIGHTS / 2
_DECAY = 40.0  # where exp(-t) is left out
_MOST_IN_PANELS, _MOST_IN_FRACTION = 1e6, 1e8  # order and argument together, the argument
_TAIL_PANELS, _LINE_NODES, _SERIES_TERMS, _FAR_TERMS = 20, 96, 40, 30


# -- Integrals


def _panels(integrand: Callable[[Any], Any], end: Any, count: Any) -> list[Any]:
    """Integrals over (0, end) of functions that `integrand` computes together, by Gauss's rule on equal panels."""
    shape = (-1, *[1] * jnp.ndim(end))
    dtype = jnp.result_type(end)
    nodes, weights = (jnp.asarray(a, dtype).reshape(shape) for a in (_NODES, _WEIGHTS))

    def step(i: Any, totals: list[Any]) -> list[Any]:
        t = (jnp.asarray(i).astype(dtype) + nodes) * (end / count)
        return [total + (weights * part).sum(0) for total, part in zip(totals, integrand(t))]

    zeros = [jnp.zeros(jnp.shape(part)[1:], dtype) for part in integrand(nodes * end)]
    return [total * (end / count) for total in fori_loop(0, count, step, zeros)]


def _sine_of_pi(v: Any) -> Any:
    """sin(pi v), 0 at integers."""
    nearest = jnp.round(v)
    sign = jnp.where(jnp.remainder(nearest, 2) == 0, 1.0, -1.0)
    return sign * jnp.sin(math.pi * (v - nearest))


def _cosine_of_pi(v: Any) -> Any:
    """cos(pi v), 1 or -1 at integers."""
    nearest = jnp.round(v)
    return jnp.where(jnp.remainder(nearest, 2) == 0, 1.0, -1.0) * jnp.cos(math.pi * (v - nearest))


def _of_quotient(function: Callable[[Any], Any], top: Any, x: Any) -> Any:
    """arcsinh(y), or another function that is log(2 y) for large y, of y = top / x, which may overflow."""
    is_large = top > 1e30 * x
    return jnp.where(is_large, jnp.log(2 * top) - jnp.log(x), function(top / jnp.where(is_large, 1.0, x)))


# -- J and Y


def _by_integrals(v: Any, x: Any) -> tuple[Any, Any]:
    count = jnp.ceil(jnp.max(v + x, initial=0.0) / 8).astype(np.int32) + 2
    around = lambda t: (jnp.cos(v * t - x * jnp.sin(t)), jnp.sin(x * jnp.sin(t) - v * t))  # noqa: E731  # a pair
    j, y = _panels(around, jnp.full_like(x, math.pi), count)
    end = _of_quotient(jnp.arcsinh, _DECAY, x)
    for _ in range(8):
        end = _of_quotient(jnp.arcsinh, _DECAY + v * end, x)

    def behind(t: Any) -> tuple[Any, Any]:
        falling = jnp.exp(-x * jnp.sinh(t) - v * t)
        return falling, jnp.exp(v * t - x * jnp.sinh(t)) + _cosine_of_pi(v) * falling

    tail_j, tail_y = _panels(behind, end, _TAIL_PANELS)
    return (j - _sine_of_pi(v) * tail_j) / math.pi, (y - tail_y) / math.pi


def _power_series(v: Any, x: Any, sign: int) -> Any:
    """J for the sign -1 (DLMF 10.2.2), I for 1 (DLMF 10.25.2)."""

    def step(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        (total, term), k = state, jnp.asarray(i + 1).astype(x.dtype)
        return total + term, sign * term * (x / 2) ** 2 / (k * (v + k))

    start = jnp.zeros_like(x), jnp.exp(v * jnp.log(x / 2) - lgamma(v + 1))
    return fori_loop(0, _SERIES_TERMS, step, start)[0]


def _far_out(v: Any, x: Any) -> tuple[Any, Any]:
    """Hankel's series, up to its least term."""

    def step(i: Any, state: Any) -> Any:
        """Two terms: an odd one, and the even one that follows it."""
        even, odd, term, least, sign = state
        sums = []
        for part, k, factor in ((odd, 2 * i + 1, sign), (even, 2 * i + 2, -sign)):
            k = jnp.asarray(k).astype(x.dtype)
            term = term * (4 * v * v - (2 * k - 1) ** 2) / (8 * k * x)
            taken = jnp.abs(term) <= least
            least = jnp.where(taken, jnp.abs(term), -1.0)  # after the first that is not taken none is
            sums.append(part + factor * jnp.where(taken, term, 0.0))
        return sums[1], sums[0], term, least, -sign

    one = jnp.ones_like(x)
    *parts, _, _, _ = fori_loop(0, _FAR_TERMS // 2, step, (one, 0 * one, one, one, one))
    phase, size = x - (v / 2 + 0.25) * math.pi, jnp.sqrt(2 / (math.pi * x))
    cosine, sine = jnp.cos(phase), jnp.sin(phase)
    return size * (parts[0] * cosine - parts[1] * sine), size * (parts[0] * sine + parts[1] * cosine)


def _of_positive(v: Any, x: Any) -> tuple[Any, Any]:
    """J and Y of an order of at least 0 and a positive number."""
    far = x > jnp.maximum(25.0, v * v / 2)
    near = jnp.where(far, 1.0, x)
    far_j, far_y = _far_out(v, jnp.where(far, x, 100.0 + v * v))
    beyond = v + near > _MOST_IN_PANELS
    integrals = _by_integrals(jnp.where(beyond, 0.0, v), jnp.where(beyond, 1.0, near))
    j, y = (jnp.where(beyond, math.nan, value) for value in integrals)
    small = near * near <= 8 * (v + 1)
    j = jnp.where(small, _power_series(v, jnp.where(small, near, 1.0), -1), j)
    return jnp.where(far, far_j, j), jnp.where(far, far_y, y)


@compiled
def _j_and_y(v: Any, x: Any) -> tuple[Any, Any]:
    order, inside = jnp.abs(v), (x != 0) & jnp.isfinite(x) & jnp.isfinite(v)
    j, y = _of_positive(jnp.where(inside, order, 0.0), jnp.where(inside, jnp.abs(x), 1.0))
    sine, cosine = _sine_of_pi(order), _cosine_of_pi(order)
    turned = jnp.where(sine == 0, 0.0, sine * y), jnp.where(sine == 0, 0.0, sine * j)
    j, y = jnp.where(v < 0, cosine * j - turned[0], j), jnp.where(v < 0, turned[1] + cosine * y, y)
    j, at_zero = _reflected(v, x, j)
    j = jnp.where(x == 0, at_zero, jnp.where(jnp.isinf(x), 0.0, j))
    signs = jnp.where((v >= 0) | (cosine > 1e-6), -math.inf, jnp.where(cosine < -1e-6, math.inf, 0.0))
    y = jnp.where(x == 0, signs, jnp.where(jnp.isposinf(x), 0.0, jnp.where(x < 0, math.nan, y)))
    bad = jnp.isnan(v + x) | jnp.isinf(v)
    return jnp.where(bad, math.nan, j), jnp.where(bad, math.nan, y)


def _reflected(v: Any, x: Any, value: Any) -> tuple[Any, Any]:
    """J or I of x for that of |x|, which has a value where the order is an integer; and the value at 0."""
    whole = jnp.round(v) == v
    odd = whole & (jnp.remainder(v, 2) == 1)
    value = jnp.where(x < 0, jnp.where(whole, jnp.where(odd, -value, value), math.nan), value)
    return value, jnp.where(v == 0, 1.0, jnp.where((v > 0) | whole, 0.0, math.inf))


# -- I and K


def _scaled_k(v: Any, x: Any) -> Any:
    """exp(x) K_v(x) for an order of at least 0 and a positive number, by equidistant nodes where they count."""

    def arccosh_of_more(y: Any) -> Any:
        return jnp.arccosh(1 + y)

    end = _of_quotient(arccosh_of_more, _DECAY, x)
    for _ in range(8):
        end = _of_quotient(arccosh_of_more, _DECAY + v * end, x)
    start = jnp.maximum(0.0, jnp.arcsinh(v / x) - _DECAY / jnp.maximum(v, 1e-3) - 1)
    step = (end - start) / _LINE_NODES
    size = jnp.log(step / 2)  # in the exponent, so that sums are not greater than the result

    def at(t: Any) -> Any:
        fallen = 2 * x * jnp.sinh(t / 2) ** 2 - size
        return jnp.exp(v * t - fallen) + jnp.exp(-v * t - fallen)

    add = lambda i, total: total + at(start + jnp.asarray(i).astype(x.dtype) * step)  # noqa: E731  # one expression
    return fori_loop(1, _LINE_NODES + 1, add, at(start) / 2)


def _scaled_i(v: Any, x: Any) -> Any:
    """exp(-x) I_v(x) for an order of at least 0 and a positive number."""
    far = x > jnp.maximum(100.0, 2 * v * v)
    too_far = ~far & (x > _MOST_IN_FRACTION)
    near = jnp.where(far | too_far, 1.0, x)
    count = jnp.ceil(jnp.sqrt(_DECAY * jnp.max(near, initial=0.0))).astype(np.int32) + 12

    def deeper(i: Any, ratio: Any) -> Any:
        return 1 / (2 * (v + jnp.asarray(count - i).astype(x.dtype)) / near + ratio)

    ratio = fori_loop(0, count, deeper, jnp.zeros_like(x))  # I_(v+1) / I_v
    k_next = _scaled_k(v + 1, near)
    value = 1 / (near * (k_next + ratio * _scaled_k(v, near)))
    small = jnp.isinf(k_next) | (near < 1e-8)
    series = jnp.exp(-near) * _power_series(v, jnp.where(small, near, 1.0), 1)
    value = jnp.where(too_far, math.nan, jnp.where(small, series, value))
    beyond = jnp.where(far, x, 200.0 + 2 * v * v)

    def step(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        (total, term), k = state, jnp.asarray(i).astype(x.dtype)
        term = -term * (4 * v * v - (2 * k - 1) ** 2) / (8 * k * beyond)
        return total + term, term

    out, _ = fori_loop(1, _FAR_TERMS, step, (jnp.ones_like(x), jnp.ones_like(x)))
    return jnp.where(far, out / jnp.sqrt(2 * math.pi * beyond), value)


@compiled
def _i_and_k(v: Any, x: Any) -> tuple[Any, Any]:
    """Both scaled: exp(-|x|) I, and exp(x) K."""
    order, inside = jnp.abs(v), (x != 0) & jnp.isfinite(x) & jnp.isfinite(v)
    n, positive = jnp.where(inside, order, 0.0), jnp.where(inside, jnp.abs(x), 1.0)
    i, k = _scaled_i(n, positive), _scaled_k(n, positive)
    sine = _sine_of_pi(order)
    more = jnp.where(sine == 0, 0.0, 2 / math.pi * sine * k * jnp.exp(-2 * positive))
    i, at_zero = _reflected(v, x, jnp.where(v < 0, i + more, i))
    i = jnp.where(x == 0, at_zero, jnp.where(jnp.isinf(x), 0.0, i))
    k = jnp.where(x == 0, math.inf, jnp.where(jnp.isposinf(x), 0.0, jnp.where(x < 0, math.nan, k)))
    bad = jnp.isnan(v + x) | jnp.isinf(v)
    return jnp.where(bad, math.nan, i), jnp.where(bad, math.nan, k)


# -- Functions with derivatives


def _differentiable(raw: Callable[[Any, Any], Any], slope: Callable[[Any, Any, Any], Any]) -> Any:
    """A function of order and argument; `slope(v, x, value)` is its derivative in the argument."""
    function = custom_jvp(raw)
    function.defjvps(lambda t, out, v, x: t * slope_in(0, raw, v, x), lambda t, out, v, x: t * slope(v, x, out))
    return function


_jv = _differentiable(lambda v, x: _j_and_y(v, x)[0], lambda v, x, out: (_jv(v - 1, x) - _jv(v + 1, x)) / 2)
_yv = _differentiable(lambda v, x: _j_and_y(v, x)[1], lambda v, x, out: (_yv(v - 1, x) - _yv(v + 1, x)) / 2)
_ive = _differentiable(
    lambda v, x: _i_and_k(v, x)[0],
    lambda v, x, out: (_ive(v - 1, x) + _ive(v + 1, x)) / 2 - jnp.sign(x) * out,
)
_kve = _differentiable(lambda v, x: _i_and_k(v, x)[1], lambda v, x, out: out - (_kve(v - 1, x) + _kve(v + 1, x)) / 2)


def jv(v: Any, z: Any) -> Any:
    """The Bessel function of the first kind, J_v(z); elementwise.

    Args:
      v: the order, array of real numbers.
      z: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape; nan for a negative number and an order that is no integer.

    Raises:
      TypeError: an argument is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.jv(0.5, 2.0)), 4)
    0.513
    """
    v, z = wide_reals("jv", v, z)
    return _jv(v, z)


jn = jv


def yv(v: Any, z: Any) -> Any:
    """The Bessel function of the second kind, Y_v(z); elementwise.

    Args:
      v: the order, array of real numbers.
      z: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape; -inf at 0, nan for negative numbers.

    Raises:
      TypeError: an argument is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.yv(0.5, 2.0)), 4)
    0.2348
    """
    v, z = wide_reals("yv", v, z)
    return _yv(v, z)


def iv(v: Any, z: Any) -> Any:
    """The modified Bessel function of the first kind, I_v(z); elementwise.

    Args:
      v: the order, array of real numbers.
      z: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape; nan for a negative number and an order that is no integer.

    Raises:
      TypeError: an argument is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.iv(0.5, 2.0)), 4)
    2.0462
    """
    v, z = wide_reals("iv", v, z)
    half = jnp.exp(jnp.abs(z) / 2)
    return jnp.where(jnp.isposinf(z), z, half * _ive(v, z) * half)


def ive(v: Any, z: Any) -> Any:
    """exp(-|z|) I_v(z), see `iv`; elementwise.

    Args:
      v: the order, array of real numbers.
      z: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape.

    Raises:
      TypeError: an argument is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.ive(0.5, 2.0)), 4)
    0.2769
    """
    v, z = wide_reals("ive", v, z)
    return _ive(v, z)


def kv(v: Any, z: Any) -> Any:
    """The modified Bessel function of the second kind, K_v(z); elementwise.

    Args:
      v: the order, array of real numbers.
      z: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape; inf at 0, nan for negative numbers.

    Raises:
      TypeError: an argument is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.kv(0.5, 2.0)), 4)
    0.1199
    """
    v, z = wide_reals("kv", v, z)
    return jnp.exp(-z) * _kve(v, z)


def kve(v: Any, z: Any) -> Any:
    """exp(z) K_v(z), see `kv`; elementwise.

    Args:
      v: the order, array of real numbers.
      z: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape.

    Raises:
      TypeError: an argument is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.kve(0.5, 2.0)), 4)
    0.8862
    """
    v, z = wide_reals("kve", v, z)
    return _kve(v, z)


def j0(x: Any) -> Any:
    """The Bessel function of the first kind, of order 0; elementwise.

    Args:
      x: array of real numbers.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.j0(2.0)), 4)
    0.2239
    """
    return jv(0.0, x)


def j1(x: Any) -> Any:
    """The Bessel function of the first kind, of order 1; elementwise.

    Args:
      x: array of real numbers.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.j1(2.0)), 4)
    0.5767
    """
    return jv(1.0, x)


def y0(x: Any) -> Any:
    """The Bessel function of the second kind, of order 0; elementwise.

    Args:
      x: array of real numbers.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.y0(2.0)), 4)
    0.5104
    """
    return yv(0.0, x)


def y1(x: Any) -> Any:
    """The Bessel function of the second kind, of order 1; elementwise.

    Args:
      x: array of real numbers.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.y1(2.0)), 4)
    -0.107
    """
    return yv(1.0, x)


def k0(x: Any) -> Any:
    """The modified Bessel function of the second kind, of order 0; elementwise.

    Args:
      x: array of real numbers.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.k0(2.0)), 4)
    0.1139
    """
    return kv(0.0, x)


def k1(x: Any) -> Any:
    """The modified Bessel function of the second kind, of order 1; elementwise.

    Args:
      x: array of real numbers.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.k1(2.0)), 4)
    0.1399
    """
    return kv(1.0, x)


def k0e(x: Any) -> Any:
    """The modified Bessel function of the second kind, times exp(x), of order 0; elementwise.

    Args:
      x: array of real numbers.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.k0e(2.0)), 4)
    0.8416
    """
    return kve(0.0, x)


def k1e(x: Any) -> Any:
    """The modified Bessel function of the second kind, times exp(x), of order 1; elementwise.

    Args:
      x: array of real numbers.

    Returns:
      Floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.k1e(2.0)), 4)
    1.0335
    """
    return kve(1.0, x)
