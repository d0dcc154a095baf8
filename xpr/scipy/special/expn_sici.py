"""Exponential integrals of higher order, and the sine and cosine integrals, which are such of imaginary arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.compiled import compiled
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.while_.fori_loop import fori_loop
from xpr.primitives.elementwise import complex_
from xpr.primitives.special import digamma, lgamma
from xpr.scipy.special.arguments import inexact_dtype, wide_reals

__all__ = ["expn", "sici"]

_STEPS = 80  # of continued fractions


def expn(n: Any, x: Any) -> Any:
    """The exponential integral E_n, the integral of exp(-x t) / t^n over t from 1 to infinity; elementwise.

    Up to 1 it is a power series (DLMF 8.19.8), beyond a continued fraction (DLMF 8.19.17, contracted).

    Args:
      n: the order, array of integers of at least 0.
      x: array of real numbers of at least 0; both broadcast.

    Returns:
      Floats of the broadcast shape; nan where an order or a number is negative.

    Raises:
      TypeError: one is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.expn(2, 1.0)), 4)
    0.1485
    """
    return _expn(*wide_reals("expn", n, x)).astype(inexact_dtype(n, x))


@custom_jvp
@compiled
def _expn(n: Any, x: Any) -> Any:
    order = jnp.where(n >= 1, jnp.round(n), 1.0)
    near = x <= 1
    inner, outer = jnp.where(near & (x > 0), x, 0.5), jnp.where(near, 2.0, x)
    value = jnp.where(near, _series(order, inner), jnp.exp(-outer) * _fraction(order, outer))
    value = jnp.where(n == 0, jnp.exp(-x) / x, value)
    value = jnp.where(x == 0, jnp.where(n > 1, 1 / (jnp.where(n > 1, n, 2.0) - 1), math.inf), value)
    value = jnp.where(jnp.isposinf(x), 0.0, value)
    return jnp.where((n < 0) | (x < 0) | jnp.isnan(n + x), math.nan, value)


def _series(n: Any, x: Any) -> Any:
    """(-x)^(n-1) / (n-1)! (psi(n) - log x) less the sum over k but n - 1 of (-x)^k / (k! (k + 1 - n))."""
    sign = jnp.where(jnp.remainder(n, 2) == 1, 1.0, -1.0)
    leading = sign * jnp.exp((n - 1) * jnp.log(x) - lgamma(n)) * (digamma(n) - jnp.log(x))
    total = jnp.zeros_like(x)
    term = jnp.ones_like(x)
    for k in range(22):
        skipped = n == k + 1
        total = total + jnp.where(skipped, 0.0, term / jnp.where(skipped, 1.0, k + 1 - n))
        term = -term * x / (k + 1)
    return leading - total


def _fraction(n: Any, x: Any) -> Any:
    """exp(x) E_n(x) = 1/(x + n - n/(x + n + 2 - 2 (n + 1)/(x + n + 4 - ...))), from its end."""

    def step(i: Any, below: Any) -> Any:
        k = jnp.asarray(_STEPS - i).astype(x.dtype)
        return x + n + 2 * k - 2 - k * (n + k - 1) / below

    return 1 / fori_loop(0, _STEPS, step, x + n + 2 * _STEPS)


def _no_order(t: Any, out: Any, n: Any, x: Any) -> Any:
    """Orders are integers, whose derivative is 0."""
    return jnp.zeros_like(out)


_expn.defjvps(
    _no_order, lambda t, out, n, x: -t * jnp.where(n == 0, jnp.exp(-x) * (1 + 1 / x) / x, _expn(jnp.abs(n - 1), x))
)


def sici(x: Any) -> tuple[Any, Any]:
    """The sine integral, of sin(t) / t from 0, and the cosine integral, of -cos(t) / t to infinity; elementwise.

    Args:
      x: array of real numbers; the cosine integral of a negative one is that of |x|, its real part.

    Returns:
      `(Si, Ci)`, floats of the shape of `x`.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> [round(float(y), 4) for y in special.sici(1.0)]
    [0.9461, 0.3374]
    """
    (y,) = wide_reals("sici", x)
    return tuple([each.astype(inexact_dtype(x)) for each in _sici(y)])


@custom_jvp
@compiled
def _sici(x: Any) -> list[Any]:
    """Near 0 power series (DLMF 6.6.5 and 6.6.6), beyond E1(i x) = -Ci(x) + i (Si(x) - pi / 2)."""
    size = jnp.abs(x)
    near = size < 4
    inner, outer = jnp.where(near & (size > 0), size, 1.0), jnp.where(near | jnp.isinf(size), 5.0, size)
    sums, term = [jnp.zeros_like(x), jnp.zeros_like(x)], jnp.where(size == 0, 0.0, inner)
    for k in range(1, 30):
        sums[k % 2] = sums[k % 2] + (-1) ** (k // 2) * term / k
        term = term * inner / (k + 1)
    cosine, sine = np.euler_gamma + jnp.log(inner) + sums[0], sums[1]
    turn = complex_(jnp.cos(outer), -jnp.sin(outer))
    tail = turn * _fraction(jnp.ones_like(turn), complex_(jnp.zeros_like(outer), outer))
    sine = jnp.where(near, sine, jnp.where(jnp.isinf(size), 0.5 * math.pi, tail.imag + 0.5 * math.pi))
    cosine = jnp.where(near, cosine, jnp.where(jnp.isinf(x), jnp.where(x > 0, 0.0, math.nan), -tail.real))
    cosine = jnp.where(size == 0, -math.inf, cosine)
    is_nan = jnp.isnan(x)
    return [jnp.where(is_nan, math.nan, jnp.sign(x) * sine), jnp.where(is_nan, math.nan, cosine)]


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _sici(x), [t * jnp.sinc(x / math.pi), t * jnp.cos(x) / x]
