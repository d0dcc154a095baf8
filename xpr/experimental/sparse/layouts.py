"""The same elements stored in another way: sorted, without duplicates, with other batch and dense axes."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.errors import ArgumentError
from xpr.experimental.sparse.base import over_batch
from xpr.experimental.sparse.coordinates import BCOO, columns, most_stored, parts, size_array, split_shape
from xpr.experimental.sparse.util import SparseEfficiencyError, SparseEfficiencyWarning

__all__ = [
    "bcoo_eliminate_zeros", "bcoo_sort_indices", "bcoo_sum_duplicates", "bcoo_transpose", "bcoo_update_layout",
]  # fmt: skip


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The array with its indices sorted lexicographically.

    >>> import numpy as np
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO((np.array([1.0, 2.0], "float32"), np.array([[2], [0]])), shape=(3,))
    >>> sparse.bcoo_sort_indices(m).data
    Array([2., 1.], dtype=float32)
    """
    if mat.indices_sorted:
        return mat
    about: dict[str, Any] = {"shape": mat.shape, "indices_sorted": True, "unique_indices": mat.unique_indices}
    if not mat.n_sparse:
        return BCOO((mat.data, mat.indices), **about)

    # Batch axes of size 1 stay in the indices, and in the data where they are of size 1 in both.
    batch, data_batch = mat.indices.shape[: mat.n_batch], mat.data.shape[: mat.n_batch]
    order = over_batch(lambda indices: jnp.lexsort(columns(indices)[::-1]), mat.n_batch)(mat.indices)
    sizes = jnp.broadcast_shapes(batch, data_batch)
    operands = (jnp.broadcast_to(x, (*sizes, *x.shape[mat.n_batch :])) for x in (mat.data, order))
    data = over_batch(lambda data, order: data[order], mat.n_batch)(*operands)
    indices = over_batch(lambda indices, order: indices[order], mat.n_batch)(mat.indices, order)
    return BCOO((data, indices), **about)


def within(indices: Any, sparse_shape: Sequence[int]) -> Any:
    """Which indices [..., nse, n_sparse] are in bounds, [..., nse]."""
    return jnp.all(indices < size_array(sparse_shape, indices.dtype), -1)


def moved_out(indices: Any, kept: Any, sparse_shape: Sequence[int]) -> Any:
    """Indices out of bounds, where they are not kept."""
    return jnp.where(kept[..., None], indices, size_array(sparse_shape, indices.dtype))


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array with each index stored once, in order.

    Args:
      mat: array.
      nse: how many elements are stored; inside `jit` it must be given. Of more indices the last ones are lost.

    Returns:
      The array.

    Raises:
      ValueError: `nse` is None, and the array is traced.

    >>> import numpy as np
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO((np.array([1.0, 2.0], "float32"), np.array([[2], [2]])), shape=(3,))
    >>> sparse.bcoo_sum_duplicates(m).data
    Array([3.], dtype=float32)
    """
    _, sparse_shape, _ = split_shape(mat.shape, mat.n_batch, mat.n_sparse)
    if not sparse_shape:
        data, indices = parts(mat)
        count = 1 if nse is None else operator.index(nse)
        total = jnp.sum(data, mat.n_batch, keepdims=True, dtype=data.dtype)
        padded = jnp.zeros((*data.shape[: mat.n_batch], count, *data.shape[mat.n_batch + 1 :]), data.dtype)
        padded = padded.at[(*[slice(None)] * mat.n_batch, slice(1))].set(total) if count else padded
        shape = (*indices.shape[: mat.n_batch], count, 0)
        empty = jnp.zeros(shape, indices.dtype)
        return BCOO((padded, empty), shape=mat.shape, indices_sorted=True, unique_indices=True)
    indices = moved_out(mat.indices, within(mat.indices, sparse_shape), sparse_shape)

    def numbered(indices: Any) -> Any:
        """The order of the indices, the number of each among those that differ, and how many there are."""
        order = jnp.lexsort(columns(indices)[::-1])
        in_order = indices[order]
        differs = jnp.any(in_order[1:] != in_order[:-1], 1)
        numbers = jnp.concatenate([jnp.zeros(min(1, len(order)), int), jnp.cumsum(differs)])
        starts = jnp.concatenate([jnp.ones(min(1, len(order)), bool), differs])
        return order, numbers, jnp.sum(starts & within(in_order, sparse_shape))

    order, numbers, counts = over_batch(numbered, mat.n_batch)(indices)
    size = most_stored("bcoo_sum_duplicates", counts, ArgumentError) if nse is None else operator.index(nse)

    def summed(data: Any, order: Any, numbers: Any) -> Any:
        return jnp.zeros((size, *data.shape[1:]), data.dtype).at[numbers].add(data[order], mode="drop")

    def listed(indices: Any, order: Any, numbers: Any) -> Any:
        padding = jnp.broadcast_to(size_array(sparse_shape, indices.dtype), (size, len(sparse_shape)))
        return padding.at[numbers].set(indices[order], mode="drop")

    # A batch axis keeps size 1 in the indices if it has that there, and in the data if it has that in both.
    batch = jnp.broadcast_shapes(mat.data.shape[: mat.n_batch], indices.shape[: mat.n_batch])
    operands = (jnp.broadcast_to(x, (*batch, *x.shape[mat.n_batch :])) for x in (mat.data, order, numbers))
    data = over_batch(summed, mat.n_batch)(*operands)
    indices = over_batch(listed, mat.n_batch)(indices, order, numbers)
    kept = within(indices, sparse_shape)
    data = jnp.where(kept.reshape(*kept.shape, *[1] * mat.n_dense), data, 0)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array with each index stored once, in order, and no zeros.

    Args:
      mat: array.
      nse: how many elements are stored; inside `jit` it must be given.

    Returns:
      The array.

    >>> import numpy as np
    >>> from xpr.experimental.sparse.layouts import bcoo_eliminate_zeros
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO((np.array([0.0, 2.0], "float32"), np.array([[0], [2]])), shape=(3,))
    >>> bcoo_eliminate_zeros(m).nse
    1
    """
    data, indices = parts(mat)
    _, sparse_shape, _ = split_shape(mat.shape, mat.n_batch, mat.n_sparse)
    kept = jnp.any(data != 0, tuple(range(mat.n_batch + 1, data.ndim)))
    return bcoo_sum_duplicates(BCOO((data, moved_out(indices, kept, sparse_shape)), shape=mat.shape), nse)


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its axes in another order, in which batch, sparse and dense axes stay among themselves.

    Args:
      mat: array.
      permutation: the axis that each axis of the result was.

    Returns:
      The array.

    Raises:
      NotImplementedError: the order mixes batch, sparse and dense axes.
      TypeError: it is no permutation of the axes.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0]]))
    >>> sparse.bcoo_transpose(m, permutation=(1, 0)).shape
    (2, 1)
    """
    batch, sparse, dense = axes_by_kind(mat, permutation, "bcoo_transpose")
    n_batch = mat.n_batch
    data = jnp.transpose(mat.data, (*batch, n_batch, *[a - mat.n_sparse + 1 for a in dense]))
    indices = jnp.transpose(mat.indices, (*batch, n_batch, n_batch + 1))
    indices = indices[..., np.array([a - n_batch for a in sparse], int)]
    shape = tuple([mat.shape[a] for a in permutation])
    ordered = mat.indices_sorted and list(sparse) == sorted(sparse)
    return BCOO((data, indices), shape=shape, indices_sorted=ordered, unique_indices=mat.unique_indices)


def axes_by_kind(mat: BCOO, permutation: Sequence[int], name: str) -> tuple[Any, Any, Any]:
    """The batch, sparse and dense axes of a permutation."""
    axes = tuple([operator.index(a) for a in permutation])
    if sorted(axes) != list(range(mat.ndim)):
        raise ArgumentError(f"{name}: {permutation} is no permutation of the axes of an array of shape {mat.shape}.")
    groups = split_shape(axes, mat.n_batch, mat.n_sparse)
    expected = split_shape(range(mat.ndim), mat.n_batch, mat.n_sparse)
    if any(sorted(group) != list(each) for group, each in zip(groups, expected)):
        raise NotImplementedError(
            f"{name}: {permutation} mixes batch, sparse and dense axes, of which there are {mat.n_batch}, "
            f"{mat.n_sparse} and {mat.n_dense}. Change them first by update_layout."
        )
    return groups


def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> BCOO:
    """The array with another number of batch and of dense axes.

    Args:
      mat: array.
      n_batch: how many of the first axes become batch axes; None for as many as there are.
      n_dense: how many of the last axes become dense; None for as many as there are.
      on_inefficient: what happens where a sparse axis longer than 1 becomes a batch or dense axis, so that many zeros
        are stored: "error", "warn" or None.

    Returns:
      The array.

    Raises:
      SparseEfficiencyError: many zeros would be stored.
      ValueError: there are no such numbers of axes.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(2), n_batch=1)
    >>> sparse.bcoo_update_layout(m, n_batch=0)
    BCOO(float32[2, 2], nse=2)
    """
    n_batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    n_dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(f'bcoo_update_layout: on_inefficient is "error", "warn" or None, not {on_inefficient!r}.')
    if min(n_batch, n_dense, mat.ndim - n_batch - n_dense) < 0:
        raise ValueError(f"bcoo_update_layout: no {n_batch=}, {n_dense=} for an array of shape {mat.shape}.")
    end = mat.ndim - mat.n_dense
    stored = [*range(mat.n_batch, n_batch), *range(mat.ndim - n_dense, end)]
    if any(mat.shape[a] > 1 for a in stored):
        _complain(mat, n_batch, n_dense, on_inefficient)
    if n_dense < mat.n_dense:
        mat = _fewer_dense(mat, mat.n_dense - n_dense)
    if n_batch < mat.n_batch:
        mat = _fewer_batch(mat, n_batch)
    if n_dense > mat.n_dense:
        mat = _more_dense(mat, n_dense)
    if n_batch > mat.n_batch:
        mat = _more_batch(mat, n_batch)
    return mat


def _complain(mat: BCOO, n_batch: int, n_dense: int, on_inefficient: str | None) -> None:
    text = (
        f"bcoo_update_layout: an array of shape {mat.shape} with {mat.n_batch} batch and {mat.n_dense} dense axes "
        f"would store many zeros with {n_batch} and {n_dense}. If that is wanted, set on_inefficient to None."
    )
    if on_inefficient == "error":
        raise SparseEfficiencyError(text)
    if on_inefficient == "warn":
        warnings.warn(text, SparseEfficiencyWarning, stacklevel=3)


def index_grid(sizes: Sequence[int], dtype: Any) -> np.ndarray:
    """All indices of an array of these sizes, [size, axes]."""
    return np.indices(sizes, dtype).reshape(len(sizes), math.prod(sizes)).T


def _fewer_dense(mat: BCOO, count: int) -> BCOO:
    """The first `count` dense axes become sparse."""

    def spread(data: Any, indices: Any) -> Any:
        nse, sizes = data.shape[0], data.shape[1 : 1 + count]
        grid = index_grid(sizes, indices.dtype)
        new = jnp.concatenate([jnp.repeat(indices, len(grid), 0), jnp.tile(grid, (nse, 1))], 1)
        return data.reshape(nse * len(grid), *data.shape[1 + count :]), new

    return BCOO(over_batch(spread, mat.n_batch)(*parts(mat)), shape=mat.shape)


def _fewer_batch(mat: BCOO, n_batch: int) -> BCOO:
    """The batch axes after the first `n_batch` become sparse."""
    count = mat.n_batch - n_batch

    def joined(data: Any, indices: Any) -> Any:
        sizes, nse = indices.shape[:count], indices.shape[count]
        grid = np.repeat(index_grid(sizes, indices.dtype), nse, 0)
        new = jnp.concatenate([grid, indices.reshape(len(grid), indices.shape[-1])], 1)
        return data.reshape(len(grid), *data.shape[count + 1 :]), new

    return BCOO(over_batch(joined, n_batch)(*parts(mat)), shape=mat.shape)


def _more_dense(mat: BCOO, n_dense: int) -> BCOO:
    count = n_dense - mat.n_dense
    _, _, dense_shape = split_shape(mat.shape, 0, mat.ndim - n_dense)

    def scattered(data: Any, indices: Any) -> Any:
        kept, moved = indices[: indices.shape[0] - count], indices[indices.shape[0] - count :]
        return jnp.zeros(dense_shape, data.dtype).at[tuple(moved)].set(data, mode="drop"), kept

    return BCOO(over_batch(scattered, mat.n_batch + 1)(*parts(mat)), shape=mat.shape)


def _more_batch(mat: BCOO, n_batch: int) -> BCOO:
    count = n_batch - mat.n_batch
    sizes = mat.shape[mat.n_batch : n_batch]

    def scattered(data: Any, indices: Any) -> Any:
        nse = data.shape[0]
        rows = jnp.zeros((*sizes, *data.shape), data.dtype)
        rows = rows.at[(*columns(indices[:, :count]), jnp.arange(nse))].set(data, mode="drop")
        return rows, jnp.broadcast_to(indices[:, count:], (*sizes, nse, indices.shape[1] - count))

    return BCOO(over_batch(scattered, mat.n_batch)(*parts(mat)), shape=mat.shape)
