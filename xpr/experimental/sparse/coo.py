"""COO: sparse matrices that store a row and a column for each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.experimental.sparse.base import register
from xpr.experimental.sparse.coordinates import BCOO
from xpr.experimental.sparse.matrices import Matrix, check_matrix, diagonal, found_in, nothing, product

__all__ = ["COO", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense"]


@register
class COO(Matrix):
    """A sparse matrix in coordinate format.

    Args:
      args: `(data, row, col)`: the stored elements, and their rows and columns, each [nse].
      shape: of the matrix.
      rows_sorted: whether the elements are sorted by rows.
      cols_sorted: whether they are sorted by columns.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.COO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]])) @ jnp.array([1.0, 10.0])
    Array([20.,  3.], dtype=float32)
    """

    row: Any
    col: Any

    def __init__(
        self, args: tuple[Any, Any, Any], *, shape: Sequence[int], rows_sorted: bool = False, cols_sorted: bool = False
    ):
        self.data, self.row, self.col = map(jnp.asarray, args)
        self.shape = tuple(shape)
        self.rows_sorted, self.cols_sorted = rows_sorted, cols_sorted

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """The sparse matrix of a dense one; see `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        check_matrix(shape)
        data, indices = nothing(dtype, index_dtype)
        return cls((data, indices, indices), shape=shape, rows_sorted=True, cols_sorted=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        return cls(diagonal(N, M, k, dtype, index_dtype), shape=(N, M), rows_sorted=True, cols_sorted=True)

    def to_bcoo(self) -> BCOO:
        """The same matrix as a BCOO array."""
        return BCOO((self.data, jnp.stack([self.row, self.col], 1)), shape=self.shape, indices_sorted=self.rows_sorted)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """The transpose."""
        check_matrix(self.shape, axes)
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self.cols_sorted,
            cols_sorted=self.rows_sorted,
        )

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what describes them."""
        return (self.data, self.row, self.col), (self.shape, self.rows_sorted, self.cols_sorted)

    @classmethod
    def tree_unflatten(cls, about: Any, children: Any) -> COO:
        """The matrix of other arrays."""
        new = object.__new__(cls)
        new.data, new.row, new.col = children
        new.shape, new.rows_sorted, new.cols_sorted = about
        return new


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """The sparse matrix of a dense one.

    Args:
      mat: matrix.
      nse: how many elements are stored; inside `jit` it must be given. The remainder is padding.
      index_dtype: the dtype of rows and columns.

    Returns:
      The matrix.

    >>> from xpr.experimental import sparse
    >>> sparse.coo_fromdense([[0.0, 2.0]])
    COO(float32[1, 2], nse=1)
    """
    return COO(found_in(mat, nse, index_dtype), shape=jnp.shape(mat), rows_sorted=True)


def coo_todense(mat: COO) -> Any:
    """The dense matrix of a sparse one.

    >>> from xpr.experimental import sparse
    >>> sparse.coo_todense(sparse.coo_fromdense([[0.0, 2.0]]))
    Array([[0., 2.]], dtype=float32)
    """
    return mat.todense()


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """The product of a matrix with a dense vector.

    Args:
      mat: matrix.
      v: vector.
      transpose: whether the matrix is transposed.

    Returns:
      A dense vector.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.coo_matvec(sparse.coo_fromdense([[0.0, 2.0]]), jnp.ones(1), transpose=True)
    Array([0., 2.], dtype=float32)
    """
    return product(mat, v, transpose)


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """The product of a matrix with a dense matrix.

    Args:
      mat: matrix.
      B: matrix.
      transpose: whether the first one is transposed.

    Returns:
      A dense matrix.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.coo_matmat(sparse.coo_fromdense([[0.0, 2.0]]), jnp.eye(2))
    Array([[0., 2.]], dtype=float32)
    """
    return product(mat, B, transpose)
