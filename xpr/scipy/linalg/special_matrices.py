"""Matrices of a form that vectors determine: block diagonal, Toeplitz, Hankel, companion matrices and others."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import is_symbolic_dim, max_dim
from xpr.numpy.promotion import asarray_like, promote_dtypes, promote_inexact, strong_unless_scalar
from xpr.primitives.linalg.matrices import conjugated
from xpr.primitives.shapes import broadcast_to
from xpr.primitives.slicing import concatenate, pad


def _indices(n: int) -> Any:
    """0, 1, ..., n - 1; as an array of NumPy, and so a constant of programs, unless the size is symbolic."""
    return jnp.arange(n) if is_symbolic_dim(n) else np.arange(n)


def _promoted(xs: Sequence[Any]) -> list[Any]:
    return promote_dtypes(*map(asarray_like, xs))


def _vectors(name: str, x: Any, least: int = 0, argument: str = "`a`") -> Any:
    """An array whose last axis holds vectors of at least so many elements; a number is a vector of one."""
    x = jnp.atleast_1d(x)
    if x.shape[-1] < least:
        needed = "nonzero" if least == 1 else f"{least} or more"
        raise ValueError(
            f"{name}: the length of {argument} along the last axis must be {needed}, and it is {x.aval.str_short()}."
        )
    return x


@compiled_eagerly()
def block_diag(*arrs: Any) -> Any:
    """The matrix with the given matrices along its diagonal, and zeros elsewhere; vectors and scalars count as rows.

    Raises:
      ValueError: one has more than two axes.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.block_diag(jnp.ones((1, 2)), 3.0)
    Array([[1., 1., 0.],
           [0., 0., 3.]], dtype=float32)
    """
    blocks = [jnp.atleast_2d(x) for x in _promoted(arrs or [jnp.zeros((1, 0))])]
    if any(x.ndim != 2 for x in blocks):
        raise ValueError(f"block_diag: takes matrices, and got {', '.join(x.aval.str_short() for x in blocks)}.")
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(pad(x, np.zeros((), x.dtype)[()], [(0, 0, 0), (before, after, 0)]))
        before += x.shape[1]
    return concatenate(rows, 0)


# -- Matrices of one vector read along diagonals


def _joined(c: Any, r: Any) -> Any:
    """The elements of c followed by those of r but its first, for leading axes that broadcast."""
    stack = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    c, r = broadcast_to(c, (*stack, c.shape[-1])), broadcast_to(r, (*stack, r.shape[-1]))
    return jnp.concatenate([c, r[..., 1:]], -1)


def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with constant diagonals whose first column is c and first row r.

    Args:
      c: the first column [..., m], or a number.
      r: the first row [..., n], of which the first element is not used; None for c conjugated.

    Returns:
      [..., m, n], where the leading axes of both broadcast.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.toeplitz(jnp.array([1, 2, 3]), jnp.array([1, 5, 6]))
    Array([[1, 5, 6],
           [2, 1, 5],
           [3, 2, 1]], dtype=int32)
    """
    c = jnp.atleast_1d(c)
    c, r = map(strong_unless_scalar, _promoted([c, conjugated(c) if r is None else jnp.atleast_1d(r)]))
    along = _joined(c[..., ::-1], r)
    return along[..., _indices(c.shape[-1])[::-1, None] + _indices(r.shape[-1])]


def hankel(c: Any, r: Any = None) -> Any:
    """The matrix with constant antidiagonals whose first column is c and last row r.

    Args:
      c: the first column [..., m].
      r: the last row [..., n], of which the first element is not used; None for zeros.

    Returns:
      [..., m, n], where the leading axes of both broadcast.

    Raises:
      ValueError: `c` or `r` is a number.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.hankel(jnp.array([1, 2, 3]), jnp.array([3, 4]))
    Array([[1, 2],
           [2, 3],
           [3, 4]], dtype=int32)
    """
    c, r = map(strong_unless_scalar, _promoted([c, jnp.zeros_like(c) if r is None else r]))
    if not jnp.ndim(c) or not jnp.ndim(r):
        types = f"{aval_of(c).str_short()} and {aval_of(r).str_short()}"
        raise ValueError(f"hankel: takes vectors, and got {types}.")
    return _joined(c, r)[..., _indices(c.shape[-1])[:, None] + _indices(r.shape[-1])]


def circulant(c: Any) -> Any:
    """The matrix whose columns are c, each one shifted cyclically by one more row.

    Args:
      c: the first column [..., n], or a number.

    Returns:
      [..., n, n].

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    c = _vectors("circulant", c)
    n = c.shape[-1]
    return c[..., (_indices(n)[:, None] - _indices(n)) % max_dim(n, 1)]


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """The matrix whose product with a vector of n elements is their convolution with a.

    Args:
      a: vectors [..., m].
      n: the number of columns.
      mode: "full" for all m + n - 1 rows, "same" for the middle max(m, n), "valid" for those of full overlap.

    Returns:
      [..., rows, n].

    Raises:
      ValueError: `a` is a number or empty, `n` is not positive, or there is no such mode.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.convolution_matrix(jnp.array([1, 2]), 3, mode="same")
    Array([[1, 0, 0],
           [2, 1, 0],
           [0, 2, 1]], dtype=int32)
    """
    n, a = operator.index(n), asarray_like(a)
    if n <= 0:
        raise ValueError(f"convolution_matrix: n must be a positive integer, the number of columns, and is {n}.")
    if not jnp.ndim(a):
        raise ValueError(f"convolution_matrix: a must be at least 1-dimensional, and is {a.aval.str_short()}.")
    if not a.shape[-1]:
        raise ValueError(f"convolution_matrix: len(a) must be at least 1, and a is {a.aval.str_short()}.")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"convolution_matrix: mode must be one of 'full', 'same' and 'valid', and is {mode!r}.")
    shorter = min(a.shape[-1], n) - 1
    above = {"full": 0, "same": shorter // 2, "valid": shorter}[mode]
    below = {"full": 0, "same": shorter - above, "valid": shorter}[mode]
    column = jnp.concatenate([a, jnp.zeros((*a.shape[:-1], n - 1), a.dtype)], -1)
    row = jnp.multiply(a[..., :1], np.eye(1, n, dtype=a.dtype)[0])
    return toeplitz(column, row)[..., above : column.shape[-1] - below, :]


# -- Matrices of polynomials and populations


def companion(a: Any) -> Any:
    """The companion matrix of a polynomial, whose eigenvalues are its roots.

    Args:
      a: the coefficients [..., n], of the highest power first, which is not 0.

    Returns:
      [..., n - 1, n - 1], floating.

    Raises:
      ValueError: there are fewer than two coefficients.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.companion(jnp.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    a = _vectors("companion", promote_inexact(a)[0], least=2)
    n = a.shape[-1] - 1
    row = jnp.negative(a[..., 1:] / a[..., :1])
    below = broadcast_to(jnp.eye(n - 1, n, dtype=a.dtype), (*a.shape[:-1], n - 1, n))
    return jnp.concatenate([row[..., None, :], below], -2)


def fiedler_companion(a: Any) -> Any:
    """The companion matrix of a polynomial by Fiedler, which has five diagonals.

    Source: M. Fiedler, A note on companion matrices, Linear Algebra and its Applications, 2003.

    Args:
      a: the coefficients [..., n], of the highest power first, which is not 0.

    Returns:
      [..., n - 1, n - 1], floating.

    Raises:
      ValueError: there are no coefficients.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.fiedler_companion(jnp.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    a = _vectors("fiedler_companion", promote_inexact(a)[0], least=1)
    n = a.shape[-1] - 1
    # Of the elements that are not 0 each is one of 1, -a_1, ..., -a_n, and `source` says which: 0 for 0, 1 for one.
    source = np.zeros((n, n), int)
    i, j = np.indices((n, n))
    source[(i % 2 == 0) & (j == i + 2) | (i % 2 == 1) & (j == i - 2)] = 1
    source[(i == 1) & (j == 0)] = 1
    for row, column in zip(*np.nonzero((i % 2 == 0) & (abs(i - j) == 1))):
        source[row, column] = 2 + min(row, column) + 1
    source[:1, :1] = 2
    ends = broadcast_to(jnp.array([0, 1], a.dtype), (*a.shape[:-1], 2))
    values = jnp.concatenate([ends, jnp.negative(a[..., 1:] / a[..., :1])], -1)
    return values[..., source]


def fiedler(a: Any) -> Any:
    """The symmetric matrix of the absolute differences |a_i - a_j|.

    Args:
      a: vectors [..., n], or a number.

    Returns:
      [..., n, n].

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.fiedler(jnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    a = _vectors("fiedler", a)
    return jnp.abs(a[..., :, None] - a[..., None, :])


def leslie(f: Any, s: Any) -> Any:
    """The matrix of a population by age: births in the first row, survival below the diagonal.

    Source: P. H. Leslie, On the use of matrices in certain population mathematics, Biometrika, 1945.

    Args:
      f: births for each age [..., n].
      s: the rates of survival from each age to the next [..., n - 1].

    Returns:
      [..., n, n], where the leading axes of both broadcast.

    Raises:
      ValueError: there are fewer than two ages, or the numbers of elements don't fit.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.leslie(jnp.array([0., 2.]), jnp.array([0.5]))
    Array([[0. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    f, s = _promoted([_vectors("leslie", f, least=2, argument="f"), jnp.atleast_1d(s)])
    n = f.shape[-1]
    if s.shape[-1] != n - 1:
        raise ValueError(
            f"leslie: Incorrect lengths for f and s: {n} ages have {n - 1} rates of survival, and {s.shape[-1]} are "
            "given."
        )
    stack = jnp.broadcast_shapes(f.shape[:-1], s.shape[:-1])
    births, rates = broadcast_to(f, (*stack, n)), broadcast_to(s, (*stack, n - 1))
    below = jnp.multiply(rates[..., None], np.eye(n - 1, n, dtype=f.dtype))
    return jnp.concatenate([births[..., None, :], below], -2)
