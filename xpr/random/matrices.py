"""Random vectors and matrices that linear algebra makes of normal numbers."""

from __future__ import annotations

from typing import Any

from xpr.core.avals import aval_of
from xpr.numpy.arithmetic import absolute
from xpr.numpy.creation import shape_of
from xpr.numpy.decompositions import cholesky, eigh, qr, svd
from xpr.numpy.einstein import einsum
from xpr.numpy.powers import sqrt
from xpr.numpy.promotion import asarray_like, broadcast_shapes, convert, promote_inexact
from xpr.numpy.reshaping import matrix_transpose
from xpr.numpy.where_select import where
from xpr.primitives.linalg.matrices import diagonal_of
from xpr.random.keys import one_key
from xpr.random.normals import normal
from xpr.random.parameters import float_dtype, float_or_complex_dtype


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky"
) -> Any:
    """Vectors from a normal distribution with a mean and a covariance.

    Args:
      key: a key.
      mean: [..., n].
      cov: [..., n, n], symmetric and positive definite; for "svd" and "eigh" positive semidefinite.
      shape: of the result less its last axis; by default what those of mean and cov broadcast to.
      dtype: a float dtype to draw in; by default that of mean and cov, which it meets in the result.
      method: what finds the root of the covariance: "cholesky", "eigh" or "svd".
    Returns:
      [*shape, n].
    Raises:
      ValueError: there is no such method, or the shapes don't fit.

    >>> import xpr.numpy as jnp
    >>> from xpr import random
    >>> random.multivariate_normal(random.key(0), jnp.zeros(2), jnp.eye(2), (3,)).shape
    (3, 2)
    """
    one_key(key, "multivariate_normal")
    if method not in ("cholesky", "eigh", "svd"):
        raise ValueError(f"multivariate_normal: the method is 'cholesky', 'eigh' or 'svd', and not {method!r}.")
    mean, cov = map(asarray_like, promote_inexact(asarray_like(mean), asarray_like(cov)))
    dtype = mean.aval.dtype if dtype is None else float_dtype(dtype, "multivariate_normal")
    n = mean.aval.shape[-1] if mean.aval.ndim else 0
    if not mean.aval.ndim or cov.aval.ndim < 2 or cov.aval.shape[-2:] != (n, n):
        raise ValueError(
            "multivariate_normal: takes a mean [..., n] and a covariance [..., n, n], and got "
            f"{mean.aval.str_short()} and {cov.aval.str_short()}."
        )
    least = broadcast_shapes(mean.aval.shape[:-1], cov.aval.shape[:-2])
    shape = least if shape is None else shape_of(shape)
    if len(least) > len(shape) or any(own not in (1, size) for own, size in zip(least[::-1], shape[::-1])):
        raise ValueError(f"multivariate_normal: the mean and the covariance have shape {least}, not that of {shape}.")
    drawn = normal(key, (*shape, n), dtype)
    return mean + einsum("...ij,...j->...i", _root(cov, method), drawn)


def _root(cov: Any, method: str) -> Any:
    """A matrix that gives the covariance when it is multiplied by its transpose."""
    if method == "cholesky":
        return cholesky(cov)
    if method == "eigh":
        values, vectors = eigh(cov)
    else:
        vectors, values, _ = svd(cov)
    return vectors * sqrt(values[..., None, :])


def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Any:
    """Matrices drawn evenly from those with orthonormal columns (or rows, where these are fewer).

    Args:
      key: a key.
      n, m: rows and columns; square where m is not given.
      shape: of the stack of matrices.
      dtype: a float dtype, or a complex one for unitary matrices.
    Returns:
      [*shape, n, m].
    Raises:
      ValueError: `dtype` is neither.

    >>> import xpr.numpy as jnp
    >>> from xpr import random
    >>> q = random.orthogonal(random.key(0), 3)
    >>> bool(jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-6))
    True
    """
    m = n if m is None else m
    dtype = float_or_complex_dtype(dtype, "orthogonal")
    q, r = qr(normal(key, (*shape_of(shape), max(n, m), min(n, m)), dtype))
    diagonal = diagonal_of(r)
    q = q * (diagonal / convert(where(diagonal == 0, 1, absolute(diagonal)), aval_of(q).dtype))[..., None, :]
    return matrix_transpose(q) if n < m else q
