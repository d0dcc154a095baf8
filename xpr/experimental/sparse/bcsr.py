"""BCSR: arrays stored row by row, with batch and dense axes.

data     [*batch, nse, *dense]
indices  [*batch, nse], the columns
indptr   [*batch, rows + 1], where each row begins
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.experimental.sparse.base import JAXSparse, over_batch, register
from xpr.experimental.sparse.coordinates import (
    BCOO,
    batch_axes,
    bcoo_extract,
    bcoo_fromdense,
    follow_arrays,
    parts,
    split_shape,
)
from xpr.experimental.sparse.layouts import bcoo_eliminate_zeros, bcoo_sort_indices, bcoo_sum_duplicates
from xpr.experimental.sparse.matrices import pointers_of, rows_of
from xpr.experimental.sparse.products import DimensionNumbers, bcoo_dot_general
from xpr.experimental.sparse.shapes import bcoo_broadcast_in_dim, bcoo_concatenate
from xpr.transforms.vmappable import batch_axes as batch_axes_of_types

__all__ = [
    "BCSR", "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general", "bcsr_extract", "bcsr_fromdense",
    "bcsr_sum_duplicates", "bcsr_todense",
]  # fmt: skip


@register
class BCSR(JAXSparse):
    """A sparse array in the format of compressed rows.

    Args:
      args: `(data, indices, indptr)`: the stored elements, [*batch, nse, *dense], their columns, [*batch, nse], and
        where each row begins, [*batch, rows + 1].
      shape: of the array, [*batch, rows, columns, *dense].
      indices_sorted: whether the columns of each row are sorted.
      unique_indices: whether no indices occur twice.

    Raises:
      ValueError: the arrays and the shape don't fit.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> m
    BCSR(float32[2, 2], nse=2)
    >>> m @ jnp.array([1.0, 10.0])
    Array([20.,  3.], dtype=float32)
    """

    indices: Any
    indptr: Any
    n_sparse = 2

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.shape = tuple(shape)
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        n = self.n_batch
        fits = len(self.shape) >= n + 2 and self.indptr.ndim == n + 1 and self.indptr.shape[n] == self.shape[n] + 1
        fits = fits and self.data.shape[n:] == (self.nse, *self.shape[n + 2 :])
        for array in (self.data, self.indices, self.indptr):
            fits = fits and all(k in (1, size) for k, size in zip(array.shape[:n], self.shape))
        if not fits:
            raise ValueError(
                f"BCSR: an array of shape {self.shape} can't have data of shape {self.data.shape}, indices of shape "
                f"{self.indices.shape} and indptr of shape {self.indptr.shape}. The shapes are: data [*batch, nse, "
                "*dense], indices [*batch, nse], indptr [*batch, rows + 1]."
            )

    @property
    def nse(self) -> int:
        """The number of stored elements, in each row of the batch axes."""
        return int(self.indices.shape[-1])

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return int(self.indices.ndim) - 1

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return int(self.data.ndim) - 1 - self.n_batch

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """The sparse array of a dense one; see `bcsr_fromdense`."""
        return bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """The array of one of `scipy.sparse`, which has neither batch nor dense axes."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR.from_scipy_sparse: arrays of scipy.sparse have sparse axes alone.")
        mat = mat.tocsr()
        dtype = index_dtype or np.int32
        return cls((mat.data, mat.indices.astype(dtype), mat.indptr.astype(dtype)), shape=mat.shape)

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCSR:
        if len(shape) - n_dense - n_batch != 2:
            raise ValueError(f"sparse.empty: BCSR arrays have two sparse axes, and {shape=}, {n_batch=}, {n_dense=}.")
        mat = BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch, nse=nse)
        return cls.from_bcoo(mat)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The same array of a BCOO array with two sparse axes."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"BCSR.from_bcoo: the array must have two sparse axes, and has {arr.n_sparse}.")
        arr = bcoo_sort_indices(arr)
        data, indices = parts(arr)
        rows = arr.shape[arr.n_batch]
        indptr = over_batch(lambda i: pointers_of(i[:, 0], rows), arr.n_batch)(indices)
        about = {"indices_sorted": arr.indices_sorted, "unique_indices": arr.unique_indices}
        return cls((data, indices[..., 1], indptr), shape=arr.shape, **about)

    def to_bcoo(self) -> BCOO:
        """The same array as a BCOO array."""
        batch, _, _ = split_shape(self.shape, self.n_batch, 2)
        indptr, columns = (jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (self.indptr, self.indices))
        rows = over_batch(lambda p: rows_of(p, self.nse), self.n_batch)(indptr)
        about = {"indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}
        return BCOO((self.data, jnp.stack([rows.astype(columns.dtype), columns], -1)), shape=self.shape, **about)

    def todense(self) -> Any:
        """The dense array."""
        return bcsr_todense(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The array with each index stored once, in order; inside `jit`, `nse` must be given."""
        mat = self.to_bcoo()
        return BCSR.from_bcoo(bcoo_eliminate_zeros(mat, nse) if remove_zeros else bcoo_sum_duplicates(mat, nse))

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what describes them."""
        n_batch = batch_axes(self, self.indices, 1)
        return (self.data, self.indices, self.indptr), (self.shape, n_batch, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, about: Any, children: Any) -> BCSR:
        """The array of other arrays, with more or fewer batch axes where they have."""
        new = object.__new__(cls)
        new.data, new.indices, new.indptr = children
        new.shape, n_batch, new.indices_sorted, new.unique_indices = about
        follow_arrays(new, n_batch, new.indices, 1)
        return new


batch_axes_of_types[BCSR] = lambda mat: mat.n_batch


def bcsr_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCSR:
    """The sparse array of a dense one.

    Args:
      mat: array of which all but two axes are batch or dense axes.
      nse: how many elements are stored; inside `jit` it must be given. The remainder is padding.
      n_batch: how many of the first axes are batch axes.
      n_dense: how many of the last axes are dense.
      index_dtype: the dtype of the indices.

    Returns:
      The array.

    Raises:
      ValueError: there are not two sparse axes.

    >>> from xpr.experimental import sparse
    >>> sparse.bcsr_fromdense([[0.0, 2.0], [3.0, 0.0]]).indptr
    Array([0, 1, 2], dtype=int32)
    """
    mat = jnp.asarray(mat)
    if mat.ndim != 2 + n_batch + n_dense:
        raise ValueError(
            f"bcsr_fromdense: two axes must be left as sparse ones, and of an array of shape {mat.shape} with "
            f"{n_batch} batch and {n_dense} dense axes {mat.ndim - n_batch - n_dense} are."
        )
    coordinates = bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return BCSR.from_bcoo(coordinates)


def bcsr_todense(mat: BCSR) -> Any:
    """The dense array of a sparse one.

    >>> from xpr.experimental import sparse
    >>> sparse.bcsr_todense(sparse.bcsr_fromdense([[0.0, 2.0]]))
    Array([[0., 2.]], dtype=float32)
    """
    return mat.to_bcoo().todense()


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The elements of a dense array at the indices of a BCSR array.

    Args:
      indices: columns [*batch, nse].
      indptr: where each row begins, [*batch, rows + 1].
      mat: array.

    Returns:
      The elements, [*batch, nse, *dense].

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.bcsr_extract(jnp.array([1, 0]), jnp.array([0, 1, 2]), jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([2., 3.], dtype=float32)
    """
    mat, indices = jnp.asarray(mat), jnp.asarray(indices)
    n_batch = indices.ndim - 1
    zeros = jnp.zeros((*indices.shape, *mat.shape[n_batch + 2 :]), mat.dtype)
    pattern = BCSR((zeros, indices, indptr), shape=mat.shape)
    return bcoo_extract(pattern.to_bcoo(), mat, assume_unique=True).data


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array with each index stored once, in order.

    Args:
      mat: array.
      nse: how many elements are stored; inside `jit` it must be given.

    Returns:
      The array.

    >>> from xpr.experimental import sparse
    >>> sparse.bcsr_sum_duplicates(sparse.bcsr_fromdense([[0.0, 2.0]]))
    BCSR(float32[1, 2], nse=1)
    """
    return mat.sum_duplicates(nse, remove_zeros=False)


def bcsr_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: DimensionNumbers, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """A contraction of a sparse array with a dense one, as `lax.dot_general` does it.

    Args:
      lhs: sparse array.
      rhs: dense array.
      dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`, axes.
      precision: not used.
      preferred_element_type: the dtype of the result; None for that of the operands.
      out_sharding: not used.

    Returns:
      A dense array.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.bcsr_fromdense([[0.0, 2.0]])
    >>> sparse.bcsr_dot_general(m, jnp.ones(2), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([2.], dtype=float32)
    """
    lhs, rhs = (x.to_bcoo() if isinstance(x, BCSR) else x for x in (lhs, rhs))
    return bcoo_dot_general(
        lhs, rhs, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type
    )


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """The array broadcast to a shape; see `bcoo_broadcast_in_dim`.

    Args:
      mat: array.
      shape: of the result.
      broadcast_dimensions: the axis of the result that each axis of `mat` becomes.
      sharding: not used.

    Returns:
      The array.

    >>> from xpr.experimental import sparse
    >>> m = sparse.bcsr_fromdense([[0.0, 2.0]])
    >>> sparse.bcsr_broadcast_in_dim(m, shape=(3, 1, 2), broadcast_dimensions=(1, 2))
    BCSR(float32[3, 1, 2], nse=1, n_batch=1)
    """
    coordinates = bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions)
    return BCSR.from_bcoo(coordinates)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Arrays one after another along a batch or sparse axis; see `bcoo_concatenate`.

    Args:
      operands: arrays.
      dimension: the axis.

    Returns:
      The array.

    >>> from xpr.experimental import sparse
    >>> m = sparse.bcsr_fromdense([[0.0, 2.0]])
    >>> sparse.bcsr_concatenate([m, m], dimension=0)
    BCSR(float32[2, 2], nse=2)
    """
    return BCSR.from_bcoo(bcoo_concatenate([x.to_bcoo() for x in operands], dimension=dimension))
