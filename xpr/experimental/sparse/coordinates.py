"""BCOO: arrays of which the elements that may differ from zero are stored, each with its indices.

The axes are `batch | sparse | dense`, of which a stored element has indices in the sparse axes alone:

    data     [*batch, nse, *dense]
    indices  [*batch, nse, n_sparse]

Elements with the same indices add up; indices out of bounds are padding, whose data is ignored. A batch axis of size 1
in `data` or `indices` stands for any size. The number of stored elements, `nse`, is static, so that programs over
sparse arrays compile. Axes that `vmap` maps are batch axes, and the shape follows the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.dimensions.expressions import as_size, is_constant_shape
from xpr.errors import ConcretizationTypeError
from xpr.experimental.sparse.base import JAXSparse, over_batch, register
from xpr.transforms.vmappable import batch_axes as batch_axes_of_types

__all__ = ["BCOO", "bcoo_extract", "bcoo_fromdense", "bcoo_todense"]


@register
class BCOO(JAXSparse):
    """A sparse array in coordinate format.

    Args:
      args: `(data, indices)`: the stored elements, [*batch, nse, *dense], and their indices in the sparse axes,
        integers [*batch, nse, n_sparse].
      shape: of the array.
      indices_sorted: whether the indices are sorted lexicographically.
      unique_indices: whether no indices occur twice.

    Raises:
      ValueError: data, indices and shape don't fit.
      TypeError: the indices are no integers.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> m
    BCOO(float32[2, 2], nse=2)
    >>> m @ jnp.array([1.0, 10.0])
    Array([20.,  3.], dtype=float32)
    """

    indices: Any

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        self.data, self.indices = map(jnp.asarray, args)
        self.shape = tuple(map(as_size, shape))
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        _check(self)

    @property
    def nse(self) -> int:
        """The number of stored elements, in each row of the batch axes."""
        return int(self.indices.shape[-2])

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return int(self.indices.ndim) - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes."""
        return int(self.indices.shape[-1])

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return int(self.data.ndim) - 1 - self.n_batch

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """The sparse array of a dense one; see `bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """The array of one of `scipy.sparse`, which has neither batch nor dense axes."""
        if n_dense or n_batch:
            raise NotImplementedError("BCOO.from_scipy_sparse: arrays of scipy.sparse have sparse axes alone.")
        mat = mat.tocoo()
        return cls((mat.data, np.stack([mat.row, mat.col], 1).astype(index_dtype or np.int32)), shape=mat.shape)

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
    ) -> BCOO:
        if min(n_dense, n_batch, nse, len(shape) - n_dense - n_batch) < 0:
            raise ValueError(f"sparse.empty: no {n_batch=}, {n_dense=}, {nse=} for an array of {shape=}.")
        batch, sparse, dense = split_shape(shape, n_batch, len(shape) - n_batch - n_dense)
        indices = jnp.broadcast_to(size_array(sparse, index_dtype), (*batch, nse, len(sparse)))
        data = jnp.zeros((*batch, nse, *dense), dtype)
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_batch: int = 0,
        n_dense: int = 0,
    ) -> BCOO:
        if n_batch or n_dense:
            return bcoo_fromdense(jnp.eye(N, M, k, dtype), index_dtype=index_dtype, n_batch=n_batch, n_dense=n_dense)
        rows = np.arange(max(0, -k), max(0, -k, min(N, M - k)), dtype=index_dtype)
        indices = np.stack([rows, rows + np.asarray(k, rows.dtype)], 1)
        return cls((jnp.ones(len(rows), dtype), indices), shape=(N, M), indices_sorted=True, unique_indices=True)

    def todense(self) -> Any:
        """The dense array."""
        return bcoo_todense(self)

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what describes them."""
        n_batch = batch_axes(self, self.indices, 2)
        return (self.data, self.indices), (self.shape, n_batch, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, about: Any, children: Any) -> BCOO:
        """The array of other arrays, with more or fewer batch axes where they have."""
        new = object.__new__(cls)
        new.data, new.indices = children
        new.shape, n_batch, new.indices_sorted, new.unique_indices = about
        follow_arrays(new, n_batch, new.indices, 2)
        return new


batch_axes_of_types[BCOO] = lambda mat: mat.n_batch


def batch_axes(mat: Any, indices: Any, others: int) -> int:
    """The number of batch axes, of which an array of indices has `others` more; as it was in a pytree of others."""
    return int(indices.ndim) - others if hasattr(indices, "ndim") else mat.batch_axes


def follow_arrays(mat: Any, n_batch: int, indices: Any, others: int) -> None:
    """Gives a new array, whose shape has `n_batch` batch axes, the batch axes of its arrays."""
    mat.batch_axes = n_batch
    mat.batch_axes = count = batch_axes(mat, indices, others)
    if count != n_batch and hasattr(mat.data, "shape"):
        sizes = np.broadcast_shapes(mat.data.shape[:count], indices.shape[:count])
        mat.shape = (*sizes, *split_shape(mat.shape, n_batch, mat.ndim - n_batch)[1])


def split_shape(values: Sequence[Any], n_batch: int, n_sparse: int) -> tuple[Any, Any, Any]:
    """What belongs to the batch, the sparse and the dense axes."""
    values = tuple(values)
    return values[:n_batch], values[n_batch : n_batch + n_sparse], values[n_batch + n_sparse :]


def size_array(sizes: Sequence[Any], dtype: Any) -> Any:
    """Sizes as an array: one of NumPy, or a traced one where some are symbolic."""
    return (np if is_constant_shape(sizes) else jnp).array(sizes, dtype)


def _check(mat: BCOO) -> None:
    data, indices, shape = mat.data, mat.indices, mat.shape
    if indices.dtype.kind not in "iu":
        raise TypeError(f"BCOO: indices must be integers, and are {indices.dtype}.")
    fits = indices.ndim >= 2 and len(shape) >= mat.n_batch + mat.n_sparse
    if fits:
        batch, _, dense = split_shape(shape, mat.n_batch, mat.n_sparse)
        expected = (*batch, mat.nse, *dense)
        fits = data.ndim == len(expected) and data.shape[mat.n_batch :] == expected[mat.n_batch :]
        for array in (data, indices):
            fits = fits and all(n in (1, size) for n, size in zip(array.shape[: mat.n_batch], batch))
    if not fits:
        raise ValueError(
            f"BCOO: an array of shape {shape} with indices of shape {indices.shape} can't have data of shape "
            f"{data.shape}. The shapes are: indices [*batch, nse, n_sparse], data [*batch, nse, *dense], where the "
            "array has shape [*batch, *sparse, *dense]."
        )


def like(mat: BCOO, data: Any) -> BCOO:
    """The array with other elements at the same indices."""
    about = {"indices_sorted": mat.indices_sorted, "unique_indices": mat.unique_indices}
    return BCOO((data, mat.indices), shape=mat.shape, **about)


def parts(mat: BCOO) -> tuple[Any, Any]:
    """Data and indices with batch axes of their whole size."""
    batch, _, _ = split_shape(mat.shape, mat.n_batch, 0)
    return tuple([jnp.broadcast_to(x, (*batch, *x.shape[mat.n_batch :])) for x in (mat.data, mat.indices)])


def columns(indices: Any) -> tuple[Any, ...]:
    """Indices as what `x.at[...]` takes: a vector for each axis."""
    return tuple([indices[..., i] for i in range(indices.shape[-1])])


def bcoo_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCOO:
    """The sparse array of a dense one.

    Args:
      mat: array.
      nse: how many elements are stored; inside `jit` it must be given. The remainder is padding.
      n_batch: how many of the first axes are batch axes.
      n_dense: how many of the last axes are dense.
      index_dtype: the dtype of the indices.

    Returns:
      The array, with sorted and unique indices.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]])).indices
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    mat = jnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ValueError(f"bcoo_fromdense: no {n_batch=}, {n_dense=} for an array of shape {mat.shape}.")
    nonzero = mat != 0
    nonzero = jnp.any(nonzero, tuple(range(n_batch + n_sparse, mat.ndim)))
    if nse is None:
        counts = jnp.sum(nonzero, tuple(range(n_batch, n_batch + n_sparse)))
        nse = most_stored("fromdense", counts, ConcretizationTypeError)
    _, sparse_shape, _ = split_shape(mat.shape, n_batch, n_sparse)

    def stored(nonzero: Any) -> Any:
        if not sparse_shape:
            return jnp.zeros((nse, 0), index_dtype)
        by_axis = jnp.nonzero(nonzero, size=nse, fill_value=sparse_shape)
        return jnp.stack(by_axis, 1).astype(index_dtype)

    indices = over_batch(stored, n_batch)(nonzero)
    data = over_batch(values_at, n_batch)(mat, indices)
    if not sparse_shape:  # all stored elements have the same indices, of which the first has the value
        first = jnp.arange(nse) == 0
        data = jnp.where(first.reshape(-1, *[1] * n_dense), data, 0)
    unique = bool(sparse_shape) or nse < 2
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=unique)


def most_stored(name: str, counts: Any, error: type[Exception]) -> int:
    """The greatest of the numbers of stored elements; raises `error` where they are traced."""
    try:
        return int(jnp.max(counts, initial=0))
    except ConcretizationTypeError as unknown:
        raise error(
            f"{name}: nse must be given where the array is traced, as inside jit: the number of stored elements is a "
            "part of the type of the result, and is known only from the values."
        ) from unknown


def check_coordinates(name: str, mat: Any) -> None:
    """Raises a TypeError where a value is no BCOO array."""
    if not isinstance(mat, BCOO):
        raise TypeError(f"{name}: a BCOO array is needed, and the argument is of type {type(mat).__name__}.")


def values_at(mat: Any, indices: Any) -> Any:
    """The elements of an array at indices [nse, n_sparse], which may be out of bounds."""
    if not indices.shape[-1]:
        return jnp.broadcast_to(mat, (indices.shape[0], *mat.shape))
    return mat.at[columns(indices)].get(mode="fill", fill_value=0)


def bcoo_todense(mat: BCOO) -> Any:
    """The dense array of a sparse one.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_todense(sparse.BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]])))
    Array([[0., 2.],
           [3., 0.]], dtype=float32)
    """
    _, sparse_shape, dense_shape = split_shape(mat.shape, mat.n_batch, mat.n_sparse)

    def dense(data: Any, indices: Any) -> Any:
        if not sparse_shape:
            return jnp.sum(data, 0, dtype=data.dtype)
        zeros = jnp.zeros((*sparse_shape, *dense_shape), data.dtype)
        return zeros.at[columns(indices)].add(data, mode="drop")

    return over_batch(dense, mat.n_batch)(*parts(mat))


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array at the indices of a sparse one.

    Args:
      sparr: its indices are taken.
      arr: array of its shape.
      assume_unique: whether an element is read at each index, also where indices occur twice; else at the first of
        them. None for `sparr.unique_indices`.

    Returns:
      A sparse array with the indices of `sparr`.

    Raises:
      ValueError: the shapes differ.
      TypeError: `sparr` is no BCOO array.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_extract(sparse.eye(2), jnp.array([[1.0, 2.0], [3.0, 4.0]])).data
    Array([1., 4.], dtype=float32)
    """
    check_coordinates("bcoo_extract", sparr)
    array = jnp.asarray(arr)
    if array.shape != sparr.shape:
        raise ValueError(f"bcoo_extract: arrays of one shape are needed, and have {sparr.shape} and {array.shape}.")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    _, indices = parts(sparr)
    values = over_batch(values_at, sparr.n_batch)(array, indices)
    if not unique:
        repeated = over_batch(_is_repeated, sparr.n_batch)(indices)
        values = jnp.where(repeated.reshape(*repeated.shape, *[1] * sparr.n_dense), 0, values)
    about = {"indices_sorted": sparr.indices_sorted, "unique_indices": sparr.unique_indices}
    return BCOO((values, indices), shape=sparr.shape, **about)


def _is_repeated(indices: Any) -> Any:
    """Which indices [nse, n_sparse] occurred before, [nse]."""
    order = jnp.lexsort(columns(indices)[::-1]) if indices.shape[1] else jnp.arange(indices.shape[0])
    in_order = indices[order]
    same = jnp.all(in_order[1:] == in_order[:-1], 1)
    return jnp.zeros(indices.shape[0], bool).at[order[1:]].set(same)
