"""The exponential of a matrix, and its derivative in a direction."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.cond.function import cond
from xpr.control.stop_gradient import stop_gradient
from xpr.control.while_.fori_loop import fori_loop
from xpr.numpy import linear_equations
from xpr.numpy.decompositions import matrices_of
from xpr.numpy.norms import norm
from xpr.primitives.linalg.matrices import product
from xpr.primitives.shapes import instantiate
from xpr.scipy.linalg.solving import solve_triangular
from xpr.transforms.jvp import push_forward

# Padé's approximant of order 13, by powers of the matrix, in parts of the first one; and the norm up to which it is
# as exact as 64 bits (Higham, The scaling and squaring method for the matrix exponential revisited, 2005).
_PADE = [math.comb(13, k) * math.factorial(26 - k) / math.factorial(26) for k in range(14)]
_RADIUS = 5.371920351148152


@compiled_eagerly("max_squarings")
def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """The exponentials of square matrices, by scaling, a Padé approximant, and squaring.

    Args:
      A: matrices [..., n, n].
      upper_triangular: a promise that the matrices are upper triangular, so that a triangular solve is enough.
      max_squarings: the most squarings; where more are needed the result is nan.

    Returns:
      [..., n, n].

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.expm(jnp.array([[0., 1.], [0., 0.]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    a = matrices_of("expm", A, square=True)
    if not a.aval.size:
        return a
    of_one = partial(_expm, upper_triangular=bool(upper_triangular), most=int(max_squarings))
    return jnp.vectorize(of_one, signature="(n,n)->(n,n)")(a)


@compiled
def _expm(a: Any, *, upper_triangular: bool, most: int) -> Any:
    real = dtypes.real_part_of(a.aval.dtype)
    size = stop_gradient(norm(a, 1))
    needed = jnp.maximum(0, jnp.ceil(jnp.log2(size / _RADIUS)))
    squarings = jnp.where(needed <= most, needed, 0).astype(np.int32)
    scaled = a * (2.0 ** -squarings.astype(real)).astype(real)
    even, odd = _pade_parts(scaled)
    if upper_triangular:
        quotient = solve_triangular(even - odd, even + odd)
    else:
        quotient = linear_equations.solve(even - odd, even + odd)

    def square(i: Any, x: Any) -> Any:
        return cond(i < squarings, lambda x: product(x, x), lambda x: x, x)

    return jnp.where(needed <= most, fori_loop(0, most, square, quotient), np.asarray(np.nan, real))


def _pade_parts(a: Any) -> tuple[Any, Any]:
    """The terms of even and of odd powers of a Padé numerator; in the denominator the odd ones have the other sign."""
    one = jnp.eye(a.aval.shape[-1], dtype=a.aval.dtype)
    a2 = product(a, a)
    a4 = product(a2, a2)
    a6 = product(a2, a4)
    c = _PADE

    def combined(start: int) -> Any:
        high = c[start + 12] * a6 + c[start + 10] * a4 + c[start + 8] * a2
        return product(a6, high) + c[start + 6] * a6 + c[start + 4] * a4 + c[start + 2] * a2 + c[start] * one

    return combined(0), product(a, combined(1))


def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """The exponential of a matrix, and its derivative in the direction of another one.

    The derivative is forward mode of `expm`, whose steps are those of Al-Mohy and Higham, Computing the Fréchet
    derivative of the matrix exponential, 2009.

    Args:
      A: matrices [..., n, n].
      E: the directions, matrices [..., n, n] whose leading axes broadcast with those of `A`.
      method: None, "SPS" or "blockEnlarge"; has no effect.
      compute_expm: whether to return the exponentials too.

    Returns:
      `(expm(A), derivative)`, both [..., n, n]; or the derivative alone.

    Raises:
      ValueError: the matrices are not square or don't fit, or there is no such `method`.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.expm_frechet(jnp.zeros((2, 2)), jnp.array([[0., 1.], [0., 0.]]), compute_expm=False)
    Array([[0., 1.],
           [0., 0.]], dtype=float32)
    """
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"expm_frechet: method is None, 'SPS' or 'blockEnlarge', and not {method!r}.")
    a, e = matrices_of("expm_frechet", A, E, square=True)
    if a.ndim < 2 or e.ndim < 2 or a.shape[-2:] != e.shape[-2:]:
        raise ValueError(f"expm_frechet: A {a.aval.str_short()} and E {e.aval.str_short()} are not of one shape [n,n].")
    a, e = jnp.broadcast_arrays(a, e)
    (exponential,), (tangent,) = push_forward(lambda x: [expm(x)], [a], [e])
    derivative = instantiate(tangent)
    return (exponential, derivative) if compute_expm else derivative
