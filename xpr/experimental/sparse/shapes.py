"""Sparse arrays of other shapes: broadcast, reshaped, reversed, sliced, concatenated, summed over axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import lax
from xpr import numpy as jnp
from xpr.api.make_jaxpr import ShapeDtypeStruct, eval_shape
from xpr.api.vmap import vmap
from xpr.experimental.sparse.base import over_batch
from xpr.experimental.sparse.coordinates import BCOO, check_coordinates, columns, parts, size_array, split_shape
from xpr.experimental.sparse.layouts import (
    axes_by_kind,
    bcoo_sum_duplicates,
    bcoo_transpose,
    bcoo_update_layout,
    index_grid,
    moved_out,
    within,
)
from xpr.primitives.shapes import one_axis

__all__ = [
    "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_dynamic_slice", "bcoo_gather", "bcoo_reduce_sum", "bcoo_reshape",
    "bcoo_rev", "bcoo_slice", "bcoo_squeeze",
]  # fmt: skip


def _dense_type(mat: BCOO) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(mat.shape, mat.dtype)


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """The array broadcast to a shape, as `lax.broadcast_in_dim` does it.

    Args:
      mat: array.
      shape: of the result. Axes before the first sparse or dense one are batch axes; elements are copied along sparse
        axes that become longer.
      broadcast_dimensions: the axis of the result that each axis of `mat` becomes.
      sharding: not used.

    Returns:
      The array.

    Raises:
      ValueError: batch, sparse and dense axes would mix.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([0.0, 2.0]))
    >>> sparse.bcoo_broadcast_in_dim(m, shape=(3, 2), broadcast_dimensions=(1,))
    BCOO(float32[3, 2], nse=1, n_batch=1)
    """
    shape = tuple(shape)
    if len(broadcast_dimensions) != mat.ndim:
        raise ValueError(
            f"bcoo_broadcast_in_dim: an array of shape {mat.shape} needs {mat.ndim} broadcast_dimensions, and has "
            f"{tuple(broadcast_dimensions)}."
        )
    batch, sparse, dense = split_shape(broadcast_dimensions, mat.n_batch, mat.n_sparse)
    if max(batch, default=-1) > min((*sparse, *dense), default=len(shape)) or max(sparse, default=-1) > min(
        dense, default=len(shape)
    ):
        raise ValueError(
            f"bcoo_broadcast_in_dim: {tuple(broadcast_dimensions)} mixes batch, sparse and dense axes, of which there "
            f"are {mat.n_batch}, {mat.n_sparse} and {mat.n_dense}."
        )
    n_batch = min((*sparse, *dense), default=len(shape))
    n_dense = len(shape) - min(dense) if dense else 0
    new_batch, new_sparse, new_dense = split_shape(shape, n_batch, len(shape) - n_batch - n_dense)
    data, indices = parts(mat)
    positions = (*batch, n_batch)
    data = lax.broadcast_in_dim(
        data, (*new_batch, mat.nse, *new_dense), (*positions, *[d - len(new_sparse) + 1 for d in dense])
    )
    indices = lax.broadcast_in_dim(indices, (*new_batch, mat.nse, mat.n_sparse), (*positions, n_batch + 1))
    kept = [d - n_batch for d in sparse]
    inside = within(indices, split_shape(mat.shape, mat.n_batch, mat.n_sparse)[1])
    zeros = jnp.zeros((*new_batch, mat.nse, len(new_sparse)), indices.dtype)
    indices = moved_out(zeros.at[..., np.array(kept, int)].set(indices), inside, new_sparse)
    sizes = dict(zip(kept, split_shape(mat.shape, mat.n_batch, mat.n_sparse)[1]))
    grown = [i for i, n in enumerate(new_sparse) if sizes.get(i, 1) != n]
    if grown:
        data, indices = over_batch(lambda x, i: _copied(x, i, grown, new_sparse), n_batch)(data, indices)
    return BCOO((data, indices), shape=shape)


def _copied(data: Any, indices: Any, grown: Sequence[int], sizes: Sequence[int]) -> tuple[Any, Any]:
    """A copy of each stored element for each position along sparse axes that grow, at which its indices are 0."""
    grid = index_grid([sizes[i] for i in grown], indices.dtype)
    inside = within(indices, sizes)
    copies = jnp.repeat(indices, len(grid), 0).at[:, np.array(grown)].set(jnp.tile(grid, (len(indices), 1)))
    return jnp.repeat(data, len(grid), 0), moved_out(copies, jnp.repeat(inside, len(grid)), sizes)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays one after another along a batch or sparse axis.

    Args:
      operands: arrays with as many batch, sparse and dense axes, and of one shape but for the axis.
      dimension: the axis.

    Returns:
      The array.

    Raises:
      TypeError: an operand is dense.
      ValueError: the operands don't fit each other.
      NotImplementedError: the axis is dense.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_concatenate([sparse.eye(2), sparse.eye(2)], dimension=0)
    BCOO(float32[4, 2], nse=4)
    """
    dimension = operator.index(dimension)
    if not all(isinstance(x, BCOO) for x in operands):
        kinds = ", ".join(type(x).__name__ for x in operands)
        raise TypeError(f"bcoo_concatenate: all operands must be BCOO arrays, and are {kinds}.")
    shape = eval_shape(lambda *xs: lax.concatenate(xs, dimension), *map(_dense_type, operands)).shape
    n_batches = {x.n_batch for x in operands}
    if len(n_batches) == 2 and max(n_batches) == 1:  # as x[None] has it beside an array without batch axes
        wanted = 1 if all(x.shape[0] == 1 for x in operands if not x.n_batch) else 0
        if wanted or all(x.shape[0] == 1 for x in operands if x.n_batch):
            operands = [bcoo_update_layout(x, n_batch=wanted) for x in operands]
    if len({(x.n_batch, x.n_dense) for x in operands}) != 1:
        layouts = ", ".join(f"{x.n_batch} and {x.n_dense}" for x in operands)
        raise ValueError(
            f"bcoo_concatenate: all operands must have as many batch and dense axes, and have {layouts}. Change them "
            "by update_layout."
        )
    n_batch, n_sparse = operands[0].n_batch, operands[0].n_sparse
    if dimension >= n_batch + n_sparse:
        raise NotImplementedError(f"bcoo_concatenate: axis {dimension} is dense. Change that by update_layout.")
    if dimension < n_batch:
        nse = max(x.nse for x in operands)
        arrays = [parts(_padded(x, nse)) for x in operands]
        along = dimension
    else:
        ends = np.cumsum([x.shape[dimension] for x in operands])
        arrays = [_shifted(x, dimension, end, shape) for x, end in zip(operands, ends)]
        along = n_batch
    data, indices = (lax.concatenate(list(each), along) for each in zip(*arrays))
    return BCOO((data, indices), shape=shape)


def _padded(mat: BCOO, nse: int) -> BCOO:
    """The array with at least `nse` stored elements."""
    data, indices = parts(mat)
    missing = nse - mat.nse
    batch, sparse, dense = split_shape(mat.shape, mat.n_batch, mat.n_sparse)
    more = jnp.broadcast_to(size_array(sparse, indices.dtype), (*batch, missing, mat.n_sparse))
    data = lax.concatenate([data, jnp.zeros((*batch, missing, *dense), data.dtype)], mat.n_batch)
    return BCOO((data, lax.concatenate([indices, more], mat.n_batch)), shape=mat.shape)


def _shifted(mat: BCOO, dimension: int, end: int, shape: Sequence[int]) -> tuple[Any, Any]:
    """Data and indices as a part of a longer array along a sparse axis, which ends there at `end`."""
    data, indices = parts(mat)
    _, sparse, _ = split_shape(mat.shape, mat.n_batch, mat.n_sparse)
    _, new_sparse, _ = split_shape(shape, mat.n_batch, mat.n_sparse)
    inside = within(indices, sparse)
    offset = np.asarray(end - mat.shape[dimension], indices.dtype)
    return data, moved_out(indices.at[..., dimension - mat.n_batch].add(offset), inside, new_sparse)


def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None
) -> BCOO:
    """The array with another shape, in which batch, sparse and dense axes don't mix.

    Args:
      mat: array.
      new_sizes: the shape.
      dimensions: the order in which the axes are read; None for theirs.
      sharding: not used.

    Returns:
      The array.

    Raises:
      ValueError: the shape has another size, or mixes batch, sparse and dense axes.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_reshape(sparse.eye(2), new_sizes=(4,)).indices
    Array([[0],
           [3]], dtype=int32)
    """
    new_sizes = tuple([operator.index(n) for n in new_sizes])
    axes_by_kind(mat, range(mat.ndim) if dimensions is None else dimensions, "bcoo_reshape")
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    groups = split_shape(mat.shape, mat.n_batch, mat.n_sparse)
    if math.prod(new_sizes) != mat.size:
        raise ValueError(f"bcoo_reshape: an array of shape {mat.shape} can't have shape {new_sizes}.")
    batch_size, sparse_size, _ = map(math.prod, groups)
    sizes = [int(math.prod(new_sizes[: i + 1])) for i in range(len(new_sizes))]
    n_batch = _leading_axes(sizes, batch_size, bool(groups[0]))
    end = _leading_axes(sizes, batch_size * sparse_size, True)
    if n_batch is None or end is None:
        raise ValueError(
            f"bcoo_reshape: from shape {mat.shape} with {mat.n_batch} batch and {mat.n_dense} dense axes to "
            f"{new_sizes}, axes of different kinds would mix. Change them first by update_layout."
        )
    batch, sparse, dense = split_shape(new_sizes, n_batch, end - n_batch)
    data, indices = parts(mat)
    data = data.reshape(*batch, mat.nse, *dense)
    indices = indices.reshape(*batch, mat.nse, mat.n_sparse)
    inside = within(indices, groups[1])
    if not sparse:
        data = jnp.where(inside.reshape(*inside.shape, *[1] * len(dense)), data, 0)
        return BCOO((data, jnp.zeros((*batch, mat.nse, 0), indices.dtype)), shape=new_sizes)
    if groups[1]:
        flat = jnp.ravel_multi_index(columns(indices), groups[1], mode="clip")
        new = jnp.stack(jnp.unravel_index(flat, sparse), -1).astype(indices.dtype)
    else:
        new = jnp.zeros((*batch, mat.nse, len(sparse)), indices.dtype)
    return BCOO((data, moved_out(new, inside, sparse)), shape=new_sizes)


def _leading_axes(sizes: Sequence[int], size: int, trailing_ones: bool) -> int | None:
    """How many leading axes have `size` elements together, with the axes of size 1 behind them or without."""
    fitting = [i + 1 for i, each in enumerate(sizes) if each == size]
    if size == 1:
        fitting = [0, *fitting]
    if not fitting:
        return None
    return fitting[-1] if trailing_ones else fitting[0]


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array reversed along axes.

    Args:
      operand: array.
      dimensions: the axes.

    Returns:
      The array.

    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_rev(sparse.eye(2), (0,)).indices
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    eval_shape(lambda x: lax.rev(x, dimensions), _dense_type(operand))
    data, indices = parts(operand)
    end = operand.n_batch + operand.n_sparse
    batch = [d for d in dimensions if d < operand.n_batch]
    data = lax.rev(data, (*batch, *[d - operand.n_sparse + 1 for d in dimensions if d >= end]))
    indices = lax.rev(indices, batch)
    _, sparse, _ = split_shape(operand.shape, operand.n_batch, operand.n_sparse)
    inside = within(indices, sparse)
    reverses = np.array([operand.n_batch + i in dimensions for i in range(operand.n_sparse)], bool)
    reversed_ = jnp.where(reverses, size_array(sparse, indices.dtype) - 1 - indices, indices)
    return BCOO((data, moved_out(reversed_, inside, sparse)), shape=operand.shape)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without axes of size 1.

    Args:
      arr: array.
      dimensions: the axes.

    Returns:
      The array.

    Raises:
      ValueError: an axis has another size, or the array has no such axis.

    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_squeeze(sparse.eye(1, 3), dimensions=(0,))
    BCOO(float32[3], nse=1)
    """
    axes = {one_axis(d, arr.ndim) for d in dimensions}
    if any(arr.shape[d] != 1 for d in axes):
        raise ValueError(f"bcoo_squeeze: axes {tuple(dimensions)} of shape {arr.shape} don't all have size 1.")
    end = arr.n_batch + arr.n_sparse
    batch = tuple([d for d in sorted(axes) if d < arr.n_batch])
    dense = tuple([d - arr.n_sparse + 1 for d in sorted(axes) if d >= end])
    kept = np.array([i for i in range(arr.n_sparse) if arr.n_batch + i not in axes], int)
    _, sparse, _ = split_shape(arr.shape, arr.n_batch, arr.n_sparse)
    data = arr.data
    if len(kept) < arr.n_sparse:  # what is padding by a removed axis must be so by its data
        inside = within(arr.indices, sparse)
        data = jnp.where(inside.reshape(*inside.shape, *[1] * arr.n_dense), data, 0)
    arrays = (lax.squeeze(data, (*batch, *dense)), lax.squeeze(arr.indices[..., kept], batch))
    shape = tuple([n for i, n in enumerate(arr.shape) if i not in axes])
    return BCOO(arrays, shape=shape, indices_sorted=arr.indices_sorted)


def bcoo_slice(
    mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> BCOO:
    """A part of the array, as `lax.slice` gives it.

    Args:
      mat: array.
      start_indices: where it starts along each axis.
      limit_indices: where it ends.
      strides: the distance of the elements along each axis; None for 1.

    Returns:
      The array, of as many stored elements, or as many as it has elements where that is fewer.

    Raises:
      ValueError: the bounds or strides don't fit the array.
      TypeError: `mat` is no BCOO array.

    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_slice(sparse.eye(3), start_indices=(1, 1), limit_indices=(3, 3)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_coordinates("bcoo_slice", mat)
    steps = [1] * mat.ndim if strides is None else list(strides)
    if {len(start_indices), len(limit_indices), len(steps)} != {mat.ndim}:
        raise ValueError(
            f"bcoo_slice: an array of shape {mat.shape} needs {mat.ndim} of start_indices, limit_indices and strides, "
            f"and has {len(start_indices)}, {len(limit_indices)} and {len(steps)}."
        )
    bounds = list(zip(start_indices, limit_indices, mat.shape))
    if min(steps, default=1) < 1 or not all(0 <= start <= limit <= size for start, limit, size in bounds):
        raise ValueError(
            f"bcoo_slice: an array of shape {mat.shape} can't be sliced from {tuple(start_indices)} to "
            f"{tuple(limit_indices)} by {tuple(steps)}: 0 <= start <= limit <= size must hold along each axis, and "
            "each stride be at least 1."
        )
    shape = eval_shape(lambda x: lax.slice(x, start_indices, limit_indices, steps), _dense_type(mat)).shape
    slices = [slice(a, b, c) for a, b, c in zip(start_indices, limit_indices, steps)]
    batch, _, dense = split_shape(slices, mat.n_batch, mat.n_sparse)
    data, indices = parts(mat)
    data, indices = data[(*batch, slice(None), *dense)], indices[batch]
    starts, limits, steps_ = (
        size_array(split_shape(each, mat.n_batch, mat.n_sparse)[1], indices.dtype)
        for each in (start_indices, limit_indices, steps)
    )
    offsets = indices - starts
    inside = jnp.all((offsets >= 0) & (indices < limits) & (offsets % steps_ == 0), -1)
    return _part(data, jnp.where(inside[..., None], offsets // steps_, 0), inside, shape, mat)


def _part(data: Any, indices: Any, inside: Any, shape: Sequence[int], mat: BCOO) -> BCOO:
    """The array of the stored elements of `mat` that are inside a part of its sparse axes."""
    _, sparse, _ = split_shape(shape, mat.n_batch, mat.n_sparse)
    data = jnp.where(inside.reshape(*inside.shape, *[1] * mat.n_dense), data, 0)
    part = BCOO((data, moved_out(indices, inside, sparse)), shape=shape)
    return bcoo_sum_duplicates(part, math.prod(sparse)) if mat.nse > math.prod(sparse) else part


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A part of the array that starts at computed indices, as `lax.dynamic_slice` gives it.

    Args:
      mat: array.
      start_indices: integers, one for each axis.
      slice_sizes: the shape of the part.

    Returns:
      The array, of as many stored elements, or as many as it has elements where that is fewer.

    Raises:
      TypeError: `mat` is no BCOO array, or smaller than the part.
      ValueError: there is not one start for each axis.

    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_dynamic_slice(sparse.eye(3), (1, 1), (2, 2)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_coordinates("bcoo_dynamic_slice", mat)
    sizes = tuple([operator.index(n) for n in slice_sizes])
    eval_shape(lambda x: lax.dynamic_slice(x, start_indices, sizes), _dense_type(mat))
    starts = [jnp.asarray(i) for i in start_indices]
    batch, sparse, dense = split_shape(starts, mat.n_batch, mat.n_sparse)
    batch_sizes, sparse_sizes, dense_sizes = split_shape(sizes, mat.n_batch, mat.n_sparse)
    zero = jnp.zeros((), starts[0].dtype) if starts else 0
    data, indices = parts(mat)
    data = lax.dynamic_slice(data, (*batch, zero, *dense), (*batch_sizes, mat.nse, *dense_sizes))
    indices = lax.dynamic_slice(indices, (*batch, zero, zero), (*batch_sizes, mat.nse, mat.n_sparse))
    if not mat.n_sparse:
        return BCOO((data, indices), shape=sizes)
    lengths = size_array(split_shape(mat.shape, mat.n_batch, mat.n_sparse)[1], indices.dtype)
    widths = size_array(sparse_sizes, indices.dtype)
    first = jnp.stack([i.astype(indices.dtype) for i in sparse])
    first = jnp.clip(jnp.where(first < 0, first + lengths, first), 0, lengths - widths)
    inside = jnp.all((indices >= first) & (indices < first + widths), -1)
    return _part(data, indices - first, inside, sizes, mat)


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum over axes, as a sparse array with as many stored elements.

    Args:
      mat: array.
      axes: the axes.

    Returns:
      The array without the axes.

    Raises:
      ValueError: the array has no such axis.

    >>> from xpr.experimental import sparse
    >>> sparse.bcoo_reduce_sum(sparse.eye(2), axes=(0,)).todense()
    Array([1., 1.], dtype=float32)
    """
    summed = sorted({one_axis(a, mat.ndim) for a in axes})
    data, indices = parts(mat)
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    _, sparse, _ = split_shape(mat.shape, n_batch, mat.n_sparse)
    inside = within(indices, sparse)
    data = jnp.where(inside.reshape(*inside.shape, *[1] * mat.n_dense), data, 0)
    data = jnp.sum(data, tuple([a - mat.n_sparse + 1 for a in summed if a >= end]), dtype=data.dtype)
    indices = indices[..., np.array([i for i in range(mat.n_sparse) if n_batch + i not in summed], int)]
    batch = [a for a in range(n_batch) if a not in summed]
    order = (*batch, *[a for a in range(n_batch) if a in summed], n_batch)
    data = jnp.transpose(data, (*order, *range(n_batch + 1, data.ndim)))
    indices = jnp.transpose(indices, (*order, n_batch + 1))
    nse = mat.nse * math.prod([mat.shape[a] for a in range(n_batch) if a in summed])
    sizes = tuple([mat.shape[a] for a in batch])
    data = data.reshape(*sizes, nse, *data.shape[n_batch + 1 :])
    indices = indices.reshape(*sizes, nse, indices.shape[-1])
    return BCOO((data, indices), shape=tuple([n for i, n in enumerate(mat.shape) if i not in summed]))


def bcoo_gather(
    operand: BCOO,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCOO:
    """Parts of the array at computed indices, as `lax.gather` gives them.

    Args:
      operand: array.
      start_indices: integers [..., number of indexed axes].
      dimension_numbers: a `lax.GatherDimensionNumbers`.
      slice_sizes: the size of a part along each axis.
      unique_indices: not used.
      indices_are_sorted: not used.
      mode: None or "promise_in_bounds"; indices out of bounds are moved to the border.
      fill_value: not used.

    Returns:
      The array.

    Raises:
      NotImplementedError: another mode is asked for.

    >>> import xpr.numpy as jnp
    >>> from xpr import lax
    >>> from xpr.experimental import sparse
    >>> rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> sparse.bcoo_gather(sparse.eye(3), jnp.array([[2], [0]]), rows, (1, 3)).todense()
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    start_indices = jnp.asarray(start_indices)
    in_bounds = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    if mode is not None and lax.GatherScatterMode.from_any(mode) != in_bounds:
        raise NotImplementedError(f"bcoo_gather: {mode=} is not there; the mode is promise_in_bounds.")
    batching = getattr(dimension_numbers, "operand_batching_dims", ())
    if batching:
        raise NotImplementedError("bcoo_gather: operand_batching_dims are not there.")
    out = eval_shape(
        lambda x, i: lax.gather(x, i, dimension_numbers, tuple(slice_sizes), mode=in_bounds),
        _dense_type(operand),
        ShapeDtypeStruct(start_indices.shape, start_indices.dtype),
    )
    mapped = dimension_numbers.start_index_map
    zero = jnp.zeros((), start_indices.dtype)

    def one(index: Any) -> BCOO:
        starts = [index[mapped.index(a)] if a in mapped else zero for a in range(operand.ndim)]
        part = bcoo_dynamic_slice(operand, starts, slice_sizes)
        return bcoo_squeeze(part, dimensions=dimension_numbers.collapsed_slice_dims)

    rows = start_indices.reshape(-1, start_indices.shape[-1])
    slices = vmap(one)(rows)
    slices = bcoo_reshape(slices, new_sizes=(*start_indices.shape[:-1], *slices.shape[1:]))
    offsets = dimension_numbers.offset_dims
    axes = [*[d for d in range(len(out.shape)) if d not in offsets], *offsets]
    permutation = [axes.index(d) for d in range(len(axes))]
    if permutation != list(range(len(axes))):
        slices = bcoo_transpose(bcoo_update_layout(slices, n_batch=0), permutation=permutation)
    return slices
