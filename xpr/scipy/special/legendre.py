"""Associated Legendre functions of the first kind, of all degrees and orders up to one."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.scan.function import scan
from xpr.core.avals import aval_of
from xpr.dtypes import float32, float64
from xpr.primitives.shapes import instantiate
from xpr.transforms.jvp import push_forward

__all__ = ["lpmn", "lpmn_values"]


def lpmn(m: int, n: int, z: Any) -> tuple[Any, Any]:
    """The associated Legendre functions of the first kind, and their derivatives.

    They have Condon and Shortley's phase (DLMF 14.6.1).

    Args:
      m: the greatest order.
      n: the greatest degree.
      z: points from -1 to 1, float32 or float64 [points].

    Returns:
      `(values, derivatives)`, each [m + 1, n + 1, points]; 0 where the order is above the degree.

    Raises:
      TypeError: `z` is not float32 or float64.
      ValueError: `z` is not a vector, or `m` or `n` is negative.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> values, derivatives = special.lpmn(2, 2, jnp.array([0.5]))
    >>> values[0, :, 0], derivatives[0, :, 0]
    (Array([ 1.   ,  0.5  , -0.125], dtype=float32), Array([0. , 1. , 1.5], dtype=float32))
    """
    order, degree, z = _arguments("lpmn", m, n, z)
    greatest = max(order, degree)
    (polynomials,), (slopes,) = push_forward(lambda z: [_polynomials(greatest, z, False)], [z], [jnp.ones_like(z)])
    powers = _powers_of_sine(greatest, z)
    # Those of the orders less 2, of which that of order 1 alone is infinite at the ends.
    lower = [jnp.zeros_like(z), 1 / jnp.sqrt((1 - z) * (1 + z)), *powers][: greatest + 1]
    orders = np.arange(greatest + 1, dtype=z.aval.dtype)[:, None]
    of_powers = (-orders * z * jnp.stack(lower))[:, None]
    powers = jnp.stack(powers)[:, None]
    derivatives = powers * instantiate(slopes) + jnp.where(polynomials == 0, 0, of_powers * polynomials)
    return (powers * polynomials)[: order + 1, : degree + 1], derivatives[: order + 1, : degree + 1]


def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Any:
    """The associated Legendre functions of the first kind.

    They have Condon and Shortley's phase (DLMF 14.6.1).

    Args:
      m: the greatest order.
      n: the greatest degree.
      z: points from -1 to 1, float32 or float64 [points].
      is_normalized: whether they are multiplied by sqrt((2 l + 1) (l - m)! / (4 pi (l + m)!)), as in spherical
        harmonics.

    Returns:
      [m + 1, n + 1, points]; 0 where the order is above the degree.

    Raises:
      TypeError: `z` is not float32 or float64.
      ValueError: `z` is not a vector, or `m` or `n` is negative.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.lpmn_values(1, 1, jnp.array([0.6]), is_normalized=False)[:, :, 0]
    Array([[ 1. ,  0.6],
           [ 0. , -0.8]], dtype=float32)
    """
    order, degree, z = _arguments("lpmn_values", m, n, z)
    greatest = max(order, degree)
    values = jnp.stack(_powers_of_sine(greatest, z))[:, None] * _polynomials(greatest, z, is_normalized)
    return values[: order + 1, : degree + 1]


def _arguments(name: str, m: Any, n: Any, z: Any) -> tuple[int, int, Any]:
    order, degree = operator.index(m), operator.index(n)
    aval = aval_of(z)
    if aval.dtype not in (float32, float64):
        raise TypeError(f"{name}: z is float32 or float64, and {aval.str_short()} was given.")
    if aval.ndim != 1:
        raise ValueError(f"{name}: z is a vector of points, and {aval.str_short()} was given.")
    if order < 0 or degree < 0:
        raise ValueError(f"{name}: the greatest order and degree are at least 0, and are {order} and {degree}.")
    return order, degree, jnp.asarray(z)


def _powers_of_sine(degree: int, z: Any) -> list[Any]:
    """(1 - z^2)^(m/2) for each order m."""
    square = (1 - z) * (1 + z)
    powers = [jnp.ones_like(z), jnp.sqrt(square)]
    for _ in range(degree - 1):
        powers.append(powers[-2] * square)
    return powers[: degree + 1]


def _polynomials(degree: int, z: Any, is_normalized: bool) -> Any:
    """The functions over (1 - z^2)^(m/2) [order, degree, points], by the recurrence of degrees (DLMF 14.10.3)."""
    dtype = z.aval.dtype
    first = 1 / math.sqrt(4 * math.pi) if is_normalized else 1.0
    p_0 = jnp.zeros((degree + 1, z.shape[0]), dtype).at[0].set(first)
    if not degree:
        return p_0[:, None]

    def step(state: Any, factors: Any) -> Any:
        before, last = state
        of_last, of_before, of_diagonal = factors[..., None]
        shifted = jnp.concatenate([jnp.zeros_like(last[:1]), last[:-1]])
        upward = of_last * z * last - of_before * before + of_diagonal * shifted
        return (last, upward), upward

    _, upward = scan(step, (jnp.zeros_like(p_0), p_0), _factors(degree, is_normalized).astype(dtype))
    return jnp.moveaxis(jnp.concatenate([p_0[None], upward]), 0, 1)


def _factors(degree: int, is_normalized: bool) -> np.ndarray:
    """What multiplies z P(l - 1, m), P(l - 2, m) and P(l - 1, m - 1) in the recurrence, [degree, 3, order]."""
    factors = np.zeros((degree, 3, degree + 1))
    for n in range(1, degree + 1):
        m = np.arange(n)
        last, before, diagonal = factors[n - 1]
        if is_normalized:
            last[:n] = np.sqrt((4 * n**2 - 1) / (n**2 - m**2))
            before[:n] = last[:n] * np.sqrt(np.maximum((n - 1) ** 2 - m**2, 0) / max(4 * (n - 1) ** 2 - 1, 1))
            diagonal[n] = -math.sqrt((2 * n + 1) / (2 * n))
        else:
            last[:n], before[:n] = (2 * n - 1) / (n - m), (n + m - 1) / (n - m)
            diagonal[n] = -(2 * n - 1)
    return factors
