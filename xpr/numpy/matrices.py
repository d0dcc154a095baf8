"""Matrices with a structure: identity, triangular, diagonal, Vandermonde.

A diagonal of a matrix in row-major order is every (n + 1)-th element, so taking it is a strided slice, and making a
matrix of it is padding between the elements.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer
from xpr.dimensions.expressions import is_symbolic_dim, max_dim, min_dim
from xpr.numpy.creation import LARGEST_ON_HOST, asarray, chosen_dtype, is_eager, on_device, ones, to_device, zeros
from xpr.numpy.flip_roll_tile import resize
from xpr.numpy.indexing.read import getitem
from xpr.numpy.promotion import asarray_like, convert, strong_unless_scalar
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import (
    broadcast_in_dim,
    broadcast_to,
    expand_dims,
    one_axis,
    reshape,
    rev,
    shape_of,
    transpose,
    zeros_like_aval,
)
from xpr.primitives.slicing import broadcasted_iota, concatenate, pad_with, select, slice_

__all__ = ["diag", "diagflat", "diagonal", "eye", "fill_diagonal", "identity", "tri", "tril", "triu", "vander"]


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = None, *, device: Any = None) -> Any:
    """The N x M matrix with ones on the k-th diagonal, and zeros elsewhere.

    Args:
      N: the number of rows.
      M: the number of columns; None for N.
      k: the diagonal; 0 is the main one, positive ones are above it.
      dtype: of the result; None for the default float dtype.
      device: a device or sharding for the result; None for the default device.

    Returns:
      [N, M].

    >>> import xpr.numpy as jnp
    >>> jnp.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    target = chosen_dtype(dtype)
    shape = shape_of((N, N if M is None else M))
    if is_eager() and shape[0] * shape[1] <= LARGEST_ON_HOST:
        return on_device(ShapedArray(shape, target), np.eye(*shape, int(k), target), device)
    rows, columns = _shifted_rows(shape, k), broadcasted_iota(dtypes.int32, shape, 1)
    return to_device(convert(e.eq(rows, columns), target), device)


def _shifted_rows(shape: tuple[int, ...], k: Any) -> Any:
    """The row of each element, plus k."""
    rows = broadcasted_iota(dtypes.int32, shape, 0)
    if is_symbolic_dim(k):
        k = asarray(k)
    if not isinstance(k, Tracer):
        k = int(k)
    return rows if type(k) is int and k == 0 else e.add(rows, convert(k, dtypes.int32))


def identity(n: Any, dtype: Any = None) -> Any:
    """The n x n identity matrix.

    Args:
      n: the number of rows and columns.
      dtype: of the result; None for the default float dtype.

    Returns:
      [n, n].

    >>> import xpr.numpy as jnp
    >>> jnp.identity(2, int)
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


# -- Triangles


def _lower(shape: tuple[int, ...], k: Any) -> Any:
    """Whether each element lies on or below the k-th diagonal."""
    if is_eager() and shape[0] * shape[1] <= LARGEST_ON_HOST:
        return Array(ShapedArray(shape, dtypes.bool_), np.tri(*shape, int(k), bool))
    return e.ge(_shifted_rows(shape, k), broadcasted_iota(dtypes.int32, shape, 1))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """The N x M matrix with ones on and below the k-th diagonal, and zeros above.

    Args:
      N: the number of rows.
      M: the number of columns; None for N.
      k: the diagonal; 0 is the main one, positive ones are above it.
      dtype: of the result; None for the default float dtype.

    Returns:
      [N, M].

    >>> import xpr.numpy as jnp
    >>> jnp.tri(2)
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return convert(_lower(shape_of((N, N if M is None else M)), k), chosen_dtype(dtype))


def _split_at(name: str, m: Any, k: Any, lower: bool) -> Any:
    m = asarray_like(m)
    aval = m.aval
    if aval.ndim < 2:
        raise ValueError(f"{name}: takes an array of at least two axes, and its shape is {aval.shape}.")
    mask = broadcast_to(_lower(aval.shape[-2:], k), aval.shape)
    zeros = zeros_like_aval(aval)
    return select(mask, m, zeros) if lower else select(mask, zeros, m)


@compiled_eagerly("k")
def tril(m: Any, k: int = 0) -> Any:
    """The lower triangles of matrices: elements above the k-th diagonal are 0.

    Args:
      m: matrices [..., m, n].
      k: the diagonal; 0 is the main one, positive ones are above it.

    Returns:
      An array of the shape and dtype of `m`.

    Raises:
      ValueError: the array has fewer than two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.tril(jnp.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _split_at("tril", m, k, True)


@compiled_eagerly("k")
def triu(m: Any, k: int = 0) -> Any:
    """The upper triangles of matrices: elements below the k-th diagonal are 0.

    Args:
      m: matrices [..., m, n].
      k: the diagonal; 0 is the main one, positive ones are above it.

    Returns:
      An array of the shape and dtype of `m`.

    Raises:
      ValueError: the array has fewer than two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.triu(jnp.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return _split_at("triu", m, k - 1, False)


# -- Diagonals


@compiled_eagerly("offset", "axis1", "axis2")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonals of matrices that lie along two axes of an array.

    Args:
      a: an array with at least two axes.
      offset: which diagonal; 0 is the main one, positive ones are above it.
      axis1: the axis of the matrices' rows.
      axis2: the axis of their columns.

    Returns:
      The other axes of `a`, and behind them that of the diagonal.

    Raises:
      ValueError: the array has fewer than two axes, or both axes are the same.

    >>> import xpr.numpy as jnp
    >>> jnp.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    a = asarray_like(a)
    ndim = a.aval.ndim
    if ndim < 2:
        raise ValueError(f"diagonal: takes an array of at least two axes, and its shape is {a.aval.shape}.")
    axis1, axis2 = one_axis(axis1, ndim), one_axis(axis2, ndim)
    if axis1 == axis2:
        raise ValueError(f"diagonal: axis1 and axis2 can not be same, and are both {axis1}.")
    a = transpose(strong_unless_scalar(a), (*(i for i in range(ndim) if i not in (axis1, axis2)), axis1, axis2))
    *batch, rows, columns = aval_of(a).shape
    if is_symbolic_dim(rows) or is_symbolic_dim(columns):
        above, below = max(offset, 0), max(-offset, 0)
        steps = broadcasted_iota(np.int32, (max_dim(min_dim(rows - below, columns - above), 0),), 0)
        return getitem(a, (..., e.add(steps, np.int32(below)), e.add(steps, np.int32(above))))
    size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = min(offset if offset >= 0 else -offset * columns, rows * columns)
    limit = start + (size - 1) * (columns + 1) + 1 if size else start
    flat = reshape(a, (*batch, rows * columns))
    none, steps = [0] * len(batch), [1] * len(batch)
    return slice_(flat, (*none, start), (*batch, limit), (*steps, columns + 1))


@compiled_eagerly("k")
def diag(v: Any, k: int = 0) -> Any:
    """The k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal and zeros elsewhere.

    Args:
      v: a matrix or a vector.
      k: the diagonal; 0 is the main one, positive ones are above it.

    Returns:
      A vector for a matrix, a square matrix for a vector.

    Raises:
      ValueError: `v` is neither a vector nor a matrix.

    >>> import xpr.numpy as jnp
    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    v = asarray_like(v)
    if v.aval.ndim not in (1, 2):
        raise ValueError(f"diag: takes a vector or a matrix, and its shape is {v.aval.shape}.")
    return diagonal(v, k) if v.aval.ndim == 2 else _with_diagonal(v, k)


def _with_diagonal(v: Any, k: int) -> Any:
    size, k = v.aval.shape[0], operator.index(k)
    n = size + abs(k)
    if not size:
        return zeros((n, n), v.aval.dtype)
    start = k if k >= 0 else -k * n
    end = n * n - start - ((size - 1) * (n + 1) + 1)
    return reshape(pad_with(v, convert(0, v.aval.dtype, v.aval.weak_type), ((start, end, n),)), (n, n))


@compiled_eagerly("k")
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with all elements of an array on its k-th diagonal, and zeros elsewhere.

    Args:
      v: array or number.
      k: the diagonal; 0 is the main one, positive ones are above it.

    Returns:
      A square matrix of the dtype of `v`.

    >>> import xpr.numpy as jnp
    >>> jnp.diagflat(jnp.array([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    v = asarray_like(v)
    return _with_diagonal(reshape(convert(v, v.aval.dtype), (v.aval.size,)), k)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """A copy of the array with a value on its main diagonal.

    Args:
      a: a matrix, or an array whose axes are all of one size.
      val: a scalar, or values for the diagonal in order; fewer are repeated, and more are left out.
      wrap: must be False.
      inplace: must be False; arrays are immutable.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      NotImplementedError: `inplace` or `wrap` is True.
      ValueError: the array has fewer than two axes, or more of different sizes.

    >>> import xpr.numpy as jnp
    >>> jnp.fill_diagonal(jnp.ones((2, 2)), 5, inplace=False)
    Array([[5., 1.],
           [1., 5.]], dtype=float32)
    """
    if inplace or wrap:
        raise NotImplementedError("fill_diagonal: arrays are immutable, so pass inplace=False; wrap must be False too.")
    a, val = asarray_like(a), asarray_like(val)
    shape = a.aval.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ValueError(f"fill_diagonal: takes a matrix, or an array whose sizes are equal, and they are {shape}.")
    values = convert(val, a.aval.dtype, a.aval.weak_type)
    if values.aval.ndim:
        values = broadcast_in_dim(resize(values, shape[:1]), shape, (0,))
    first, *others = (broadcasted_iota(dtypes.int32, shape, axis) for axis in range(len(shape)))
    on_diagonal = functools.reduce(e.bitwise_and, [e.eq(first, index) for index in others])
    return select(on_diagonal, broadcast_to(values, shape), a)


@compiled_eagerly("N")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The Vandermonde matrix of a vector: each row holds the powers of an element.

    The columns are made by doubling: those for the powers below 2k are those below k, and those times x^k.

    Args:
      x: a vector.
      N: the number of columns; None for the length of `x`.
      increasing: whether powers go from 0 to N - 1 instead of down from N - 1 to 0.

    Returns:
      [n, N], of the dtype of `x`.

    Raises:
      ValueError: `x` is not a vector.

    >>> import xpr.numpy as jnp
    >>> jnp.vander(jnp.array([1, 2, 3]))
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    x = asarray_like(x)
    if x.aval.ndim != 1:
        raise ValueError(f"vander: takes a vector, and its shape is {x.aval.shape}.")
    size = x.aval.shape[0]
    columns = size if N is None else shape_of(N)[0]
    if x.aval.dtype == dtypes.bool_:
        x = convert(x, dtypes.of_python(int))
    powers, width, step = ones((size, 1), x.aval.dtype), 1, x
    while width < columns:
        powers = concatenate([powers, e.mul(powers, broadcast_to(expand_dims(step, (1,)), (size, width)))], 1)
        width *= 2
        step = e.mul(step, step) if width < columns else step
    powers = slice_(powers, (0, 0), (size, columns))
    return powers if increasing else rev(powers, (1,))
