"""Spherical harmonics."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.while_.fori_loop import fori_loop
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.numpy.promotion import promote_inexact
from xpr.primitives.elementwise import complex_
from xpr.scipy.special.arguments import one_shape

__all__ = ["sph_harm_y"]


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None, n_max: int | None = None) -> Any:
    """The spherical harmonic of degree n and order m, elementwise.

    They are orthonormal, and have Condon and Shortley's phase (DLMF 14.30.1).

    Args:
      n: the degree, array of integers of at least 0.
      m: the order, array of integers.
      theta: the polar angle, from 0 to pi.
      phi: the azimuth; all broadcast.
      diff_n: must be None.
      n_max: the largest degree, a Python integer, to which others are reduced; None for the largest of `n`, which then
        must not be traced.

    Returns:
      Complex numbers of the broadcast shape, at least a vector; 0 where |m| > n.

    Raises:
      NotImplementedError: `diff_n` is given.
      TypeError: `n_max` is not given, and `n` is traced.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.sph_harm_y(jnp.array([1]), jnp.array([0]), jnp.array([0.0]), jnp.array([0.0])).real.round(4)
    Array([0.4886], dtype=float32)
    """
    if diff_n is not None:
        raise NotImplementedError("sph_harm_y: diff_n gives derivatives, for which there are xpr.jvp and xpr.grad.")
    if n_max is None:
        if isinstance(n, Tracer):
            raise TypeError(
                f"sph_harm_y: n is traced, {aval_of(n).str_short()}, so its largest element is not known. Pass it as "
                "n_max, a Python integer."
            )
        n_max = int(np.max(np.asarray(n), initial=0))
    n_max = operator.index(n_max)
    theta, phi = map(jnp.atleast_1d, promote_inexact(theta, phi))
    degree, order, theta, phi = one_shape(jnp.minimum(n, n_max), m, theta, phi)
    size = jnp.abs(order)
    sign = jnp.where((order < 0) & (size % 2 == 1), -1.0, 1.0).astype(theta.dtype)
    legendre = jnp.where(size <= degree, sign * _legendre(degree, size, theta, n_max), 0)
    angle = order.astype(phi.dtype) * phi
    return complex_(legendre * jnp.cos(angle), legendre * jnp.sin(angle))


def _legendre(n: Any, m: Any, theta: Any, n_max: int) -> Any:
    """The normalized associated Legendre function of cos(theta) for 0 <= m <= n.

    That of degree m is a product, from which the degree goes up by a recurrence of three terms (NIST 14.10.3,
    normalized: T. Fukushima, Numerical computation of spherical harmonics of arbitrary degree and order, 2012).
    """
    sine, cosine = jnp.sin(theta), jnp.cos(theta)
    sine = jnp.where(sine < 0, -sine, sine)  # the function is one of cos(theta), and has a derivative at 0
    dtype = theta.dtype
    square = (m * m).astype(dtype)

    def step(i: Any, state: Any) -> Any:
        before, value = state
        degree = jnp.asarray(i + 1).astype(dtype)
        diagonal = -jnp.sqrt((2 * degree + 1) / (2 * degree)) * sine * value
        last = degree - 1
        inside = degree > m
        ratio = jnp.sqrt((4 * degree**2 - 1) / jnp.where(inside, degree**2 - square, 1))
        weight = jnp.sqrt(jnp.where(inside & (last > m), last**2 - square, 0) / jnp.maximum(4 * last**2 - 1, 1))
        upward = ratio * (cosine * value - weight * before)
        climbing, turning = inside & (degree <= n), degree <= m
        value_next = jnp.where(turning, diagonal, jnp.where(climbing, upward, value))
        return jnp.where(climbing, value, before), value_next

    first = jnp.full_like(theta, 1 / math.sqrt(4 * math.pi))
    return fori_loop(0, n_max, step, (jnp.zeros_like(theta), first))[1]
