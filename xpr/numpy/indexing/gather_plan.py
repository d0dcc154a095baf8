"""The operands of a gather or scatter that reads or writes `x[index]`, for an index with arrays of indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import surely_at_least, surely_below
from xpr.numpy.indexing.normalize import APART, Flag, axis_slice
from xpr.primitives.dynamic_slices import common_dtype, wrapped
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.gather.windows import GatherDimensionNumbers
from xpr.primitives.shapes import broadcast_in_dim, reshape
from xpr.primitives.slicing import concatenate

Shape = tuple[int, ...]


class GatherPlan(NamedTuple):
    """Dimension numbers, index vectors and result shape of the gather or scatter for an index."""

    numbers: GatherDimensionNumbers
    sizes: Shape
    indices: Any
    shape: Shape  # of the gather's result
    flipped: list[int]  # axes of that which run backwards
    result: Shape  # the shape with new axes
    inside: bool  # all indices are known to be in bounds
    unique: bool  # the indices are known to be distinct


class _Column(NamedTuple):
    """A component of the index vectors: starts along `axis`, varying along `dims` of the axes over the windows."""

    axis: int
    starts: Any
    dims: Sequence[int]


def gather_plan(indexers: Sequence[Any], shape: Shape, wraps: bool = True) -> GatherPlan:
    """The gather that reads the elements an index in normal form selects.

    The result's axes come in the order of the indexers; those of index arrays, which broadcast against each other,
    are together at the first of them, or in front where other indexers stand between them.

    Raises:
      IndexError: the index arrays don't broadcast.
    """
    block = _block_shape(indexers)
    at = None if block is None else _block_position(indexers)
    layout = _GatherAxes(shape, block or ())
    if at == -1:
        layout.add_block()
    for position, indexer in enumerate(indexers):
        if position == at:
            layout.add_block()
        if indexer is None:
            layout.result.append(1)
        elif type(indexer) is slice:
            layout.add_slice(indexer)
        elif indexer is not APART and type(indexer) is not Flag:
            layout.add_indices(indexer)
    return layout.finish(wraps)


class _GatherAxes:
    """The axes of the result and of the windows, built indexer by indexer."""

    def __init__(self, shape: Shape, block: Shape):
        self.shape, self.block = shape, block
        self.columns: list[_Column] = []
        self.across: list[int] = []  # sizes of the axes over the windows
        self.gathered: list[int] = []  # sizes of the axes of what is gathered
        self.result: list[int] = []
        self.offset: list[int] = []
        self.collapsed: list[int] = []
        self.flipped: list[int] = []
        self.sizes: list[int] = []
        self.of_block: list[int] = []  # the columns of index arrays, whose dims are known after `add_block`
        self.block_start = 0

    def add_block(self) -> None:
        """Adds the axes of the index arrays."""
        self.block_start = len(self.across)
        for sizes in (self.across, self.gathered, self.result):
            sizes.extend(self.block)

    def add_slice(self, indexer: slice) -> None:
        """Adds an axis along the windows; or, for a step other than 1 or -1, one over the windows."""
        axis = len(self.sizes)
        n = self.shape[axis]
        selected = axis_slice(indexer, n, axis)
        if selected.step == 1 or selected.size <= 1:
            if selected.size != n:
                self.columns.append(_Column(axis, selected.start, ()))
            if selected.flipped and selected.size > 1:
                self.flipped.append(len(self.gathered))
            self.offset.append(len(self.gathered))
            self.sizes.append(selected.size)
        else:
            run = selected.start + selected.step * np.arange(selected.size)
            self.columns.append(_Column(axis, run[::-1] if selected.flipped else run, (len(self.across),)))
            self.across.append(selected.size)
            self.collapsed.append(axis)
            self.sizes.append(1)
        self.gathered.append(selected.size)
        self.result.append(selected.size)

    def add_indices(self, indexer: Any) -> None:
        """Adds an integer or an index array, whose axis is dropped."""
        axis = len(self.sizes)
        self.of_block.append(len(self.columns))
        self.columns.append(_Column(axis, indexer, ()))
        self.collapsed.append(axis)
        self.sizes.append(1)

    def finish(self, wraps: bool) -> GatherPlan:
        """The plan, once all indexers are added; index arrays are aligned at the end of their block."""
        end = self.block_start + len(self.block)
        for i in self.of_block:
            starts = self.columns[i].starts
            rank = 0 if type(starts) is int else aval_of(starts).ndim
            self.columns[i] = self.columns[i]._replace(dims=range(end - rank, end))
        mapped = tuple([c.axis for c in self.columns])
        numbers = GatherDimensionNumbers(tuple(self.offset), tuple(self.collapsed), mapped)
        indices, inside = _vectors(self.columns, tuple(self.across), self.shape, self.sizes, wraps)
        unique = surely_below(math.prod(self.block), 2)
        shapes = tuple(self.gathered), self.flipped, tuple(self.result)
        return GatherPlan(numbers, tuple(self.sizes), indices, *shapes, inside, unique)


def _is_array(indexer: Any) -> bool:
    return type(indexer) is Flag or (type(indexer) is not slice and hasattr(indexer, "shape"))


def _block_shape(indexers: Sequence[Any]) -> Shape | None:
    """The shape index arrays broadcast to; None where there are none."""
    shapes = [aval_of(e.value if type(e) is Flag else e).shape for e in indexers if _is_array(e)]
    if not shapes:
        return None
    if all(s == shapes[0] for s in shapes):
        return shapes[0]
    try:
        return tuple(map(int, np.broadcast_shapes(*shapes)))
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise IndexError(f"Index arrays must broadcast against each other, and have the shapes {listed}.") from None


def _block_position(indexers: Sequence[Any]) -> int:
    """The position of the axes of the index arrays among the indexers; -1 in front of all. Integers count as arrays."""
    among = [i for i, e in enumerate(indexers) if _is_array(e) or type(e) is int]
    return among[0] if among[-1] - among[0] + 1 == len(among) else -1


def _vectors(
    columns: Sequence[_Column], across: Shape, shape: Shape, sizes: Sequence[int], wraps: bool
) -> tuple[Any, bool]:
    """The index vectors, and whether all windows are known to be in bounds."""
    if all(type(c.starts) in (int, np.ndarray) for c in columns):
        return _known_vectors(columns, across, shape, sizes)
    dtype = common_dtype([c.starts for c in columns if type(c.starts) not in (int, np.ndarray)])
    dtype = {dtypes.uint32: dtypes.int32, dtypes.uint64: dtypes.int64}.get(dtype, dtype)
    parts = [_column(c, across, shape[c.axis], dtype, wraps) for c in columns]
    return concatenate(parts, len(across)), False


def _known_vectors(
    columns: Sequence[_Column], across: Shape, shape: Shape, sizes: Sequence[int]
) -> tuple[np.ndarray, bool]:
    out = np.zeros((*across, len(columns)), np.int64 if any(surely_at_least(n, 1 << 31) for n in shape) else np.int32)
    inside = True
    for position, (axis, starts, dims) in enumerate(columns):
        last = shape[axis] - sizes[axis]
        if type(starts) is int:
            out[..., position] = starts
            inside = inside and starts >= 0 and surely_at_least(last, starts)
        else:
            out[..., position] = _along(starts, dims, len(across))
            inside = inside and bool((starts >= 0).all()) and surely_at_least(last, int(starts.max(initial=0)))
    return out, inside


def _column(column: _Column, across: Shape, n: int, dtype: np.dtype, wraps: bool) -> Any:
    """A component of all index vectors, of shape (*across, 1)."""
    _, starts, dims = column
    if type(starts) in (int, np.ndarray):
        starts = np.asarray(starts, dtype)
    else:
        counted = wraps and aval_of(starts).dtype not in dtypes.UNSIGNED
        starts = convert_element_type(starts, dtype)
        starts = wrapped(starts, n) if counted else starts
    starts_shape = aval_of(starts).shape
    kept = [d for d, size in zip(dims, starts_shape) if size == across[d]]
    if len(kept) != len(starts_shape):  # an index array of size 1 along an axis of the block
        starts = reshape(starts, [across[d] for d in kept])
    return broadcast_in_dim(starts, (*across, 1), kept)


def _along(starts: np.ndarray, dims: Sequence[int], rank: int) -> np.ndarray:
    """Starts reshaped to broadcast against the axes over the windows."""
    shape = [1] * rank
    for d, n in zip(dims, starts.shape):
        shape[d] = n
    return starts.reshape(shape)
