"""Sharding rules of gather and scatter: the Explicit axes of a mesh over which their results are partitioned.

Axes that are read or written whole keep the parts of the operand, and batching axes those of operand and indices.
Anything else would need communication, so that the program has to say what it wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.communication import Collective
from xpr.core.avals import ShapedArray
from xpr.core.specs import axes_of
from xpr.errors import ShardingTypeError
from xpr.primitives.communication import of_contraction
from xpr.primitives.gather import windows
from xpr.primitives.gather.windows import GatherDimensionNumbers, ScatterDimensionNumbers
from xpr.primitives.sharding_rules import common, parts_of

_GET = "Say how the result is to be partitioned: x.at[indices].get(out_sharding=P(...)); or reshard first."
_PUT = "Say how the result is to be partitioned: x.at[indices].set(y, out_sharding=P(...)); or reshard first."


def gather_sharding(
    avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], *, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...], **_: Any,
) -> list[Any]:  # fmt: skip
    """The parts of the operand's axes that are read whole, and of the batching axes."""
    numbers, (operand, indices) = dimension_numbers, avals
    parts, index_parts = parts_of(operand), list(parts_of(indices))
    for axis in numbers.start_index_map:
        if parts[axis] is not None and slice_sizes[axis] != operand.shape[axis]:
            raise ShardingTypeError(f"axis {axis}, which is indexed, is partitioned over {parts[axis]!r}. {_GET}")
    _join_batch(numbers.operand_batching_dims, numbers.start_indices_batching_dims, parts, index_parts, _GET)
    _refuse_partitioned_indices(index_parts, numbers.start_indices_batching_dims, _GET)
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    of_windows = iter([part for axis, part in enumerate(parts) if axis not in dropped])
    of_indices = iter(index_parts)
    return [tuple([next(of_windows if i in numbers.offset_dims else of_indices) for i in range(outs[0].ndim)])]


def scatter_sharding(
    avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], *, dimension_numbers: ScatterDimensionNumbers,
    unreduced: Sequence[Any] = (), **_: Any,
) -> list[Any]:  # fmt: skip
    """The parts of the operand and of the updates along axes that are written whole, and of the batching axes.

    Indices may be partitioned over axes of the mesh over which the result is unreduced.
    """
    operand, indices, updates = avals
    numbers, sizes = windows.gather_of(dimension_numbers, operand.shape, updates.shape)
    parts, index_parts, update_parts = list(parts_of(operand)), list(parts_of(indices)), parts_of(updates)
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    window_axes = [axis for axis in range(operand.ndim) if axis not in dropped]
    for axis in numbers.collapsed_slice_dims:
        if parts[axis] is not None:
            raise ShardingTypeError(f"axis {axis}, which is indexed, is partitioned over {parts[axis]!r}. {_PUT}")
    for axis, i in zip(window_axes, numbers.offset_dims):
        part = common([parts[axis], update_parts[i]], f"axis {axis} of the operand, axis {i} of the updates,", _PUT)
        if part is not None and sizes[axis] != operand.shape[axis]:
            raise ShardingTypeError(f"axis {axis}, which is indexed, is partitioned over {part!r}. {_PUT}")
        parts[axis] = part
    of_indices = [i for i in range(updates.ndim) if i not in numbers.offset_dims]
    for axis, i in enumerate(of_indices):
        index_parts[axis] = common([index_parts[axis], update_parts[i]], f"axis {i} of the updates", _PUT)
    _refuse_partitioned_indices(index_parts, numbers.start_indices_batching_dims, _PUT, unreduced)
    for axis, i in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
        parts[axis] = common([parts[axis], index_parts[i]], f"the batch, axis {axis} of the operand,", _PUT)
    return [tuple(parts)]


def scatter_summed(avals: Sequence[ShapedArray], *, dimension_numbers: ScatterDimensionNumbers, **_: Any) -> list[Any]:
    """The parts of axes along which indices and updates are partitioned alike: each device adds what it has."""
    indices, updates = avals[1:]
    numbers, of_updates = dimension_numbers, parts_of(updates)
    along = [part for i, part in enumerate(of_updates) if i not in numbers.update_window_dims]
    return [
        part
        for axis, (of_index, part) in enumerate(zip(parts_of(indices), along))
        if of_index == part and axis not in numbers.scatter_indices_batching_dims
    ]


def gather_collectives(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], sizes: Any, *,
    dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...], **_: Any,
) -> list[Collective]:  # fmt: skip
    """A sum over devices, of which each has some windows of an operand that is partitioned along indexed axes."""
    operand, indices = operands
    indexed = [axis for axis in dimension_numbers.start_index_map if slice_sizes[axis] != operand.shape[axis]]
    return of_contraction([(operand, indexed), (indices, [])], results[0])


def scatter_collectives(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], sizes: Any, *,
    dimension_numbers: ScatterDimensionNumbers, **_: Any,
) -> list[Collective]:  # fmt: skip
    """Updates that are partitioned along the axes of their indices are combined by each device, and then by all."""
    updates, batching = operands[2], dimension_numbers.scatter_indices_batching_dims
    summed = [i for i in range(updates.ndim) if i not in dimension_numbers.update_window_dims]
    return of_contraction([(updates, [axis for i, axis in enumerate(summed) if i not in batching])], results[0])


def _join_batch(
    operand_axes: Sequence[int], index_axes: Sequence[int], parts: Sequence[Any], index_parts: list[Any], way_out: str
) -> None:
    for axis, i in zip(operand_axes, index_axes):
        what = f"the batch, axis {axis} of the operand and axis {i} of the indices,"
        index_parts[i] = common([parts[axis], index_parts[i]], what, way_out)


def _refuse_partitioned_indices(
    parts: Sequence[Any], batching: Sequence[int], way_out: str, unreduced: Sequence[Any] = ()
) -> None:
    for axis, part in enumerate(parts):
        if axis not in batching and not set(axes_of(part)) <= set(unreduced):
            raise ShardingTypeError(f"axis {axis} of the indices is partitioned over {part!r}. {way_out}")
