"""Exponential integrals, by their power series near 0 and continued fractions or asymptotic series beyond.

Within 4e-7 of SciPy's relative to the larger of 1 and the value in float32, and 1e-14 in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.while_.fori_loop import fori_loop
from xpr.scipy.special.arguments import inexact_dtype

__all__ = ["exp1", "expi"]

_TERMS = 140  # of the power series, which is used up to 40
_STEPS = 80  # of the continued fraction, which is used from 1 on
_FAR = 40.0


def _power_series(x: Any) -> Any:
    """sum over k from 1 of x^k / (k k!), the entire part of both integrals (DLMF 6.6.2)."""

    def add(k: Any, state: Any) -> Any:
        total, term = state
        k = jnp.asarray(k).astype(x.dtype)
        term = term * x / k
        return total + term / k, term

    return fori_loop(1, _TERMS, add, (jnp.zeros_like(x), jnp.ones_like(x)))[0]


def _fraction(x: Any) -> Any:
    """exp(x) E1(x) = 1/(x + 1 - 1/(x + 3 - 4/(x + 5 - ...))) (DLMF 6.9.1, contracted), from its end."""

    def step(i: Any, below: Any) -> Any:
        n = jnp.asarray(_STEPS - i).astype(x.dtype)
        return x + 2 * n - 1 - n * n / below

    return 1 / fori_loop(0, _STEPS, step, x + 2 * _STEPS + 1)


def _asymptotic(x: Any) -> Any:
    """x exp(-x) Ei(x) ~ sum over k of k! / x^k (DLMF 6.12.2)."""
    total = term = jnp.ones_like(x)
    for k in range(1, 38):
        term = term * k / x
        total = total + term
    return total


def _as_float(name: str, x: Any) -> Any:
    x = jnp.asarray(x)
    if jnp.iscomplexobj(x):
        raise TypeError(f"{name}: takes real numbers, and got {x.aval.str_short()}.")
    return x.astype(inexact_dtype(x))


@compiled_eagerly()
def exp1(x: Any) -> Any:
    """The exponential integral E1, the integral of exp(-t) / t from x to infinity.

    Args:
      x: real array; the result is nan where it is negative, and inf at 0.

    Returns:
      An array of the same shape, floating.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> special.exp1(1.0)
    Array(0.21938393, dtype=float32)
    """
    return _exp1(_as_float("exp1", x))


@custom_jvp
def _exp1(x: Any) -> Any:
    near = jnp.where(x <= 1, x, 1)
    far = jnp.where(x > 1, x, 2)
    inner = -np.euler_gamma - jnp.log(near) - _power_series(-near)
    outer = jnp.where(jnp.isposinf(x), 0, jnp.exp(-far) * _fraction(far))
    return jnp.where(x <= 1, inner, jnp.where(x > 1, outer, x))


@_exp1.defjvp
def _exp1_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _exp1(x), -t * jnp.exp(-x) / x


@compiled_eagerly()
def expi(x: Any) -> Any:
    """The exponential integral Ei, the principal value of the integral of exp(t) / t up to x.

    Args:
      x: real array; the result is -inf at 0.

    Returns:
      An array of the same shape, floating.

    Raises:
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> special.expi(1.0)
    Array(1.8951179, dtype=float32)
    """
    return _expi(_as_float("expi", x))


@custom_jvp
def _expi(x: Any) -> Any:
    near = jnp.where((x > 0) & (x < _FAR), x, 1)
    far = jnp.where(x >= _FAR, x, _FAR)
    middle = np.euler_gamma + jnp.log(near) + _power_series(near)
    outer = jnp.where(jnp.isposinf(x), x, jnp.exp(far - jnp.log(far)) * _asymptotic(far))
    right = jnp.where(x < _FAR, middle, outer)
    left = -_exp1(jnp.where(x < 0, -x, 1))
    return jnp.where(x == 0, -jnp.inf, jnp.where(x > 0, right, jnp.where(x < 0, left, x)))


@_expi.defjvp
def _expi_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _expi(x), t * jnp.exp(x) / x
