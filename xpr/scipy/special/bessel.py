"""Bessel functions of integer orders, all up to the highest one at once."""

from __future__ import annotations

import math
import operator
from typing import Any

from xpr import numpy as jnp
from xpr.control.compiled import compiled
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.scan.function import scan
from xpr.scipy.special.arguments import strong_reals

__all__ = ["bessel_jn"]


def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """Bessel functions of the first kind of orders 0 to v.

    Near 0 by Miller's recurrence from a high order downwards (DLMF 3.6), scaled so that J_0 + 2 J_2 + 2 J_4 + ... is 1;
    further out upwards from Hankel's asymptotic series (DLMF 10.17.3).

    Args:
      z: array of real numbers.
      v: the highest order, a Python integer.
      n_iter: the order from which to start is at least this.

    Returns:
      Floats [v + 1, ...], the orders along the first axis.

    Raises:
      ValueError: `v` is negative.
      TypeError: the array is complex.

    >>> from xpr.scipy import special
    >>> special.bessel_jn(1.0, v=1).round(4)
    Array([0.7652, 0.4401], dtype=float32)
    """
    v = operator.index(v)
    if v < 0:
        raise ValueError(f"bessel_jn: the highest order is 0 or more, and v is {v}.")
    (z,) = strong_reals("bessel_jn", z, argument="z")
    return _orders(v, int(n_iter), jnp.asarray(z))


@compiled
def _orders_of(z: Any, *, v: int, n_iter: int) -> Any:
    start = max(n_iter, v + 50, 100)
    x = jnp.abs(z)
    near = x <= start - 50
    inner, outer = jnp.where(near & (x > 0), x, 1.0), jnp.where(near | ~jnp.isfinite(x), start, x)
    values = jnp.where(near[None], _downwards(v, start, inner), _upwards(v, outer))
    orders = jnp.arange(v + 1).reshape(-1, *[1] * z.ndim)
    z, x = z[None], x[None]
    values = jnp.where(x == 0, jnp.where(orders == 0, 1.0, 0.0), jnp.where(jnp.isinf(x), 0.0, values))
    values = jnp.where((z < 0) & (orders % 2 == 1), -values, values)
    return jnp.where(jnp.isnan(z), math.nan, values)


def _downwards(v: int, start: int, x: Any) -> Any:
    """By the ratios J_k / J_(k-1) = 1 / (2 k / x - J_(k+1) / J_k), which neither overflow nor underflow."""
    least = float(jnp.finfo(x.dtype).tiny)

    def step(ratio: Any, k: Any) -> Any:
        bottom = 2 * k / x - ratio
        ratio = 1 / jnp.where(bottom == 0, least, bottom)
        return ratio, ratio

    _, ratios = scan(step, jnp.zeros_like(x), jnp.arange(start, 0, -1).astype(x.dtype))
    products = jnp.cumprod(ratios[::-1], axis=0)
    first = 1 / (1 + 2 * jnp.sum(products[1::2], axis=0))
    return jnp.concatenate([first[None], first[None] * products[:v]], axis=0)


def _upwards(v: int, x: Any) -> Any:
    values = [_hankel(0, x), _hankel(1, x)]
    for k in range(1, v):
        values.append(2 * k / x * values[-1] - values[-2])
    return jnp.stack(values[: v + 1])


def _hankel(order: int, x: Any) -> Any:
    """J of order 0 or 1 for x > 50."""
    parts, term = [jnp.zeros_like(x), jnp.zeros_like(x)], jnp.ones_like(x)
    for k in range(14):
        parts[k % 2] = parts[k % 2] + (-1) ** (k // 2) * term
        term = term * (4 * order * order - (2 * k + 1) ** 2) / (8 * (k + 1)) / x
    cosine, sine = jnp.cos(x), jnp.sin(x)
    even, odd = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -sine - cosine)
    return (parts[0] * even - parts[1] * odd) / jnp.sqrt(math.pi * x)


_orders = custom_jvp(lambda v, n_iter, z: _orders_of(z, v=v, n_iter=n_iter), nondiff_argnums=(0, 1))


@_orders.defjvp
def _orders_jvp(v: int, n_iter: int, primals: Any, tangents: Any) -> Any:
    """J_0' = -J_1, and J_n' = (J_(n-1) - J_(n+1)) / 2 (DLMF 10.6.1)."""
    (z,), (t,) = primals, tangents
    values = _orders(v + 1, n_iter, z)
    slopes = jnp.concatenate([-values[1:2], 0.5 * (values[: max(v, 0)] - values[2 : v + 2])], axis=0)
    return values[: v + 1], t[None] * slopes
