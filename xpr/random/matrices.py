"""Random vectors and matrices computed from normal numbers by linear algebra."""

from __future__ import annotations

from typing import Any

from xpr.control.compiled import compiled
from xpr.core.avals import aval_of
from xpr.numpy.arithmetic import absolute
from xpr.numpy.axes import broadcasts_to
from xpr.numpy.decompositions import cholesky, eigh, qr, svd
from xpr.numpy.einstein import einsum
from xpr.numpy.powers import sqrt
from xpr.numpy.promotion import asarray_like, convert, promote_inexact
from xpr.numpy.reshaping import matrix_transpose
from xpr.numpy.where_select import where
from xpr.primitives.composites import broadcast_shapes
from xpr.primitives.linalg.matrices import diagonal_of
from xpr.primitives.shapes import shape_of
from xpr.primitives.sharding_constraint import decided
from xpr.random.keys import one_key
from xpr.random.normals import normal
from xpr.random.parameters import float_dtype, float_or_complex_dtype

__all__ = ["multivariate_normal", "orthogonal"]


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Any:
    """Random vectors from the normal distribution with a mean and a covariance matrix.

    Args:
      key: a key.
      mean: [..., n].
      cov: [..., n, n], symmetric and positive definite; semidefinite for "svd" and "eigh".
      shape: the shape of the result without its last axis; None for that to which mean and cov broadcast.
      dtype: a float dtype to draw in; None for that of mean and cov. The result has the dtype to which they promote.
      method: the factorization of the covariance: "cholesky", "eigh" or "svd".
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      [*shape, n].

    Raises:
      ValueError: there is no such method, or the shapes don't fit.

    >>> import xpr.numpy as jnp
    >>> from xpr import random
    >>> random.multivariate_normal(random.key(0), jnp.zeros(2), jnp.eye(2), (3,)).shape
    (3, 2)
    """
    key = one_key(key, "multivariate_normal")
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
    if not broadcasts_to(least, shape):
        raise ValueError(f"multivariate_normal: the mean and the covariance have shape {least}, not that of {shape}.")
    drawn = normal(key, (*shape, n), dtype)
    return decided(out_sharding, "multivariate_normal", lambda: _correlated(mean, cov, drawn, method=method))


@compiled
def _correlated(mean: Any, cov: Any, drawn: Any, *, method: str) -> Any:
    """Vectors of standard normal numbers with a mean and a covariance."""
    return mean + einsum("...ij,...j->...i", _root(cov, method), drawn)


def _root(cov: Any, method: str) -> Any:
    """A root of the covariance: a matrix whose product with its transpose is the covariance."""
    if method == "cholesky":
        return cholesky(cov)
    if method == "eigh":
        values, vectors = eigh(cov)
    else:
        vectors, values, _ = svd(cov)
    return vectors * sqrt(values[..., None, :])


def orthogonal(
    key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None, *, out_sharding: Any = None
) -> Any:
    """Random matrices, uniform among those with orthonormal columns (or rows, if these are fewer).

    Args:
      key: a key.
      n: the number of rows.
      shape: the shape of the stack of matrices.
      dtype: a float dtype, or a complex one for unitary matrices; None for the default float dtype.
      m: the number of columns; None for n.
      out_sharding: a sharding for the result; None for the compiler's choice.

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
    return decided(out_sharding, "orthogonal", lambda: matrix_transpose(q) if n < m else q)
