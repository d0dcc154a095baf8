"""CSR and CSC: sparse matrices that store a column for each element, and where each row begins, or the reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.experimental.sparse.base import register
from xpr.experimental.sparse.coordinates import BCOO
from xpr.experimental.sparse.matrices import (
    Matrix,
    check_matrix,
    diagonal,
    found_in,
    nothing,
    pointers_of,
    product,
    rows_of,
)

__all__ = ["CSC", "CSR", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense"]


class _Compressed(Matrix):
    """A matrix of `(data [nse], indices [nse], indptr [lines + 1])`, by rows or by columns."""

    indices: Any
    indptr: Any

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int]):
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.shape = tuple(shape)

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what describes them."""
        return (self.data, self.indices, self.indptr), self.shape

    @classmethod
    def tree_unflatten(cls, about: Any, children: Any) -> Any:
        """The matrix of other arrays."""
        new = object.__new__(cls)
        new.data, new.indices, new.indptr = children
        new.shape = about
        return new


@register
class CSR(_Compressed):
    """A sparse matrix stored row by row.

    Args:
      args: `(data, indices, indptr)`: the stored elements and their columns, each [nse], and where each row begins,
        [rows + 1].
      shape: of the matrix.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.CSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]])) @ jnp.array([1.0, 10.0])
    Array([20.,  3.], dtype=float32)
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
        """The sparse matrix of a dense one; see `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        check_matrix(shape)
        return cls((*nothing(dtype, index_dtype), jnp.zeros(shape[0] + 1, index_dtype)), shape=shape)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        data, rows, cols = diagonal(N, M, k, dtype, index_dtype)
        return cls((data, cols, pointers_of(rows, N)), shape=(N, M))

    def to_bcoo(self) -> BCOO:
        """The same matrix as a BCOO array."""
        return BCOO((self.data, jnp.stack([rows_of(self.indptr, self.nse), self.indices], 1)), shape=self.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        """The transpose, a CSC matrix of the same arrays."""
        check_matrix(self.shape, axes)
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@register
class CSC(_Compressed):
    """A sparse matrix stored column by column.

    Args:
      args: `(data, indices, indptr)`: the stored elements and their rows, each [nse], and where each column begins,
        [columns + 1].
      shape: of the matrix.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.CSC.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]])).data
    Array([3., 2.], dtype=float32)
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        """The sparse matrix of a dense one."""
        return CSR.fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).transpose()

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        check_matrix(shape)
        return CSR._empty(tuple(shape)[::-1], dtype=dtype, index_dtype=index_dtype).transpose()

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        return CSR._eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).transpose()

    def to_bcoo(self) -> BCOO:
        """The same matrix as a BCOO array."""
        return BCOO((self.data, jnp.stack([self.indices, rows_of(self.indptr, self.nse)], 1)), shape=self.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """The transpose, a CSR matrix of the same arrays."""
        check_matrix(self.shape, axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """The sparse matrix of a dense one.

    Args:
      mat: matrix.
      nse: how many elements are stored; inside `jit` it must be given. The remainder is padding.
      index_dtype: the dtype of the indices.

    Returns:
      The matrix.

    >>> from xpr.experimental import sparse
    >>> sparse.csr_fromdense([[0.0, 2.0], [3.0, 0.0]]).indptr
    Array([0, 1, 2], dtype=int32)
    """
    data, rows, cols = found_in(mat, nse, index_dtype)
    shape = jnp.shape(mat)
    return CSR((data, cols, pointers_of(rows, shape[0])), shape=shape)


def csr_todense(mat: CSR) -> Any:
    """The dense matrix of a sparse one.

    >>> from xpr.experimental import sparse
    >>> sparse.csr_todense(sparse.csr_fromdense([[0.0, 2.0]]))
    Array([[0., 2.]], dtype=float32)
    """
    return mat.todense()


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """The product of a matrix with a dense vector.

    Args:
      mat: matrix.
      v: vector.
      transpose: whether the matrix is transposed.

    Returns:
      A dense vector.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.csr_matvec(sparse.csr_fromdense([[0.0, 2.0]]), jnp.ones(2))
    Array([2.], dtype=float32)
    """
    return product(mat, v, transpose)


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """The product of a matrix with a dense matrix.

    Args:
      mat: matrix.
      B: matrix.
      transpose: whether the first one is transposed.

    Returns:
      A dense matrix.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.csr_matmat(sparse.csr_fromdense([[0.0, 2.0]]), jnp.eye(2))
    Array([[0., 2.]], dtype=float32)
    """
    return product(mat, B, transpose)
