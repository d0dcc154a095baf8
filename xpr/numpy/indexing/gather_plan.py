"""How an index with computed places becomes a gather or a scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core.avals import aval_of
from xpr.numpy.indexing.normalize import APART, Flag, cut
from xpr.primitives.dynamic_slices import one_dtype, wrapped
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.gather.windows import GatherDimensionNumbers
from xpr.primitives.shapes import broadcast_in_dim, reshape
from xpr.primitives.slicing import concatenate

Shape = tuple[int, ...]


class Places(NamedTuple):
    """The layout of a gather or scatter for an index."""

    numbers: GatherDimensionNumbers
    sizes: Shape
    indices: Any
    shape: Shape  # of the result as the gather gives it
    flipped: list[int]  # axes of that which run backwards
    result: Shape  # the shape with new axes
    inside: bool  # all places are known to lie inside
    unique: bool  # no place is named twice, as far as can be told


class _Column(NamedTuple):
    """One entry of the index vectors: starts along `axis`, varying along `dims` of the axes over the windows."""

    axis: int
    starts: Any
    dims: Sequence[int]


def places(entries: Sequence[Any], shape: Shape, wraps: bool = True) -> Places:
    """Works out where each entry of the result lies.

    The result's axes come in the order of the entries; those of index arrays, which broadcast against each other, stand
    together where the first of them is, or in front where other entries stand between them.

    Raises:
      IndexError: the index arrays don't broadcast.
    """
    block = _block_shape(entries)
    at = None if block is None else _block_position(entries)
    layout = _Layout(shape, block or ())
    if at == -1:
        layout.place_block()
    for position, entry in enumerate(entries):
        if position == at:
            layout.place_block()
        if entry is None:
            layout.result.append(1)
        elif type(entry) is slice:
            layout.place_slice(entry)
        elif entry is not APART and type(entry) is not Flag:
            layout.place_indices(entry)
    return layout.finish(wraps)


class _Layout:
    """The axes of the result so far, and of the windows."""

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
        self.of_block: list[int] = []  # the columns of index arrays, whose dims are known once the block is placed
        self.block_start = 0

    def place_block(self) -> None:
        """The axes of the index arrays."""
        self.block_start = len(self.across)
        for sizes in (self.across, self.gathered, self.result):
            sizes.extend(self.block)

    def place_slice(self, entry: slice) -> None:
        """An axis along the windows; or, for entries apart from each other, one over the windows."""
        axis = len(self.sizes)
        n = self.shape[axis]
        one = cut(entry, n, axis)
        if one.step == 1 or one.size <= 1:
            if one.size != n:
                self.columns.append(_Column(axis, one.start, ()))
            if one.flipped and one.size > 1:
                self.flipped.append(len(self.gathered))
            self.offset.append(len(self.gathered))
            self.sizes.append(one.size)
        else:
            run = one.start + one.step * np.arange(one.size)
            self.columns.append(_Column(axis, run[::-1] if one.flipped else run, (len(self.across),)))
            self.across.append(one.size)
            self.collapsed.append(axis)
            self.sizes.append(1)
        self.gathered.append(one.size)
        self.result.append(one.size)

    def place_indices(self, entry: Any) -> None:
        """An integer or an index array, whose axis is dropped."""
        axis = len(self.sizes)
        self.of_block.append(len(self.columns))
        self.columns.append(_Column(axis, entry, ()))
        self.collapsed.append(axis)
        self.sizes.append(1)

    def finish(self, wraps: bool) -> Places:
        end = self.block_start + len(self.block)
        for i in self.of_block:
            starts = self.columns[i].starts
            rank = 0 if type(starts) is int else aval_of(starts).ndim
            self.columns[i] = self.columns[i]._replace(dims=range(end - rank, end))
        mapped = tuple([c.axis for c in self.columns])
        numbers = GatherDimensionNumbers(tuple(self.offset), tuple(self.collapsed), mapped)
        indices, inside = _vectors(self.columns, tuple(self.across), self.shape, self.sizes, wraps)
        unique = math.prod(self.block) <= 1
        shapes = tuple(self.gathered), self.flipped, tuple(self.result)
        return Places(numbers, tuple(self.sizes), indices, *shapes, inside, unique)


def _is_array(entry: Any) -> bool:
    return type(entry) is Flag or (type(entry) is not slice and hasattr(entry, "shape"))


def _block_shape(entries: Sequence[Any]) -> Shape | None:
    """The shape index arrays broadcast to; None where there are none."""
    shapes = [aval_of(e.value if type(e) is Flag else e).shape for e in entries if _is_array(e)]
    if not shapes:
        return None
    if all(s == shapes[0] for s in shapes):
        return shapes[0]
    try:
        return tuple(map(int, np.broadcast_shapes(*shapes)))
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise IndexError(f"Index arrays must broadcast against each other, and have the shapes {listed}.") from None


def _block_position(entries: Sequence[Any]) -> int:
    """Which entry the axes of the index arrays stand for; -1 for in front of all. Integers count as arrays here."""
    among = [i for i, e in enumerate(entries) if _is_array(e) or type(e) is int]
    return among[0] if among[-1] - among[0] + 1 == len(among) else -1


def _vectors(
    columns: Sequence[_Column], across: Shape, shape: Shape, sizes: Sequence[int], wraps: bool
) -> tuple[Any, bool]:
    """The index vectors, and whether all windows are known to lie inside."""
    if all(type(c.starts) in (int, np.ndarray) for c in columns):
        return _known_vectors(columns, across, shape, sizes)
    dtype = aval_of(one_dtype([c.starts for c in columns if type(c.starts) not in (int, np.ndarray)])[0]).dtype
    parts = [_column(c, across, shape[c.axis], dtype, wraps) for c in columns]
    return concatenate(parts, len(across)), False


def _known_vectors(
    columns: Sequence[_Column], across: Shape, shape: Shape, sizes: Sequence[int]
) -> tuple[np.ndarray, bool]:
    out = np.zeros((*across, len(columns)), np.int32 if max(shape, default=0) < 1 << 31 else np.int64)
    inside = True
    for position, (axis, starts, dims) in enumerate(columns):
        last = shape[axis] - sizes[axis]
        if type(starts) is int:
            out[..., position] = starts
            inside = inside and 0 <= starts <= last
        else:
            out[..., position] = _along(starts, dims, len(across))
            inside = inside and bool(((0 <= starts) & (starts <= last)).all())
    return out, inside


def _column(column: _Column, across: Shape, n: int, dtype: np.dtype, wraps: bool) -> Any:
    """One entry of all index vectors, of shape (*across, 1)."""
    _, starts, dims = column
    if type(starts) in (int, np.ndarray):
        starts = np.asarray(starts, dtype)
    else:
        starts = convert_element_type(starts, dtype)
        starts = wrapped(starts, n) if wraps else starts
    own = aval_of(starts).shape
    kept = [d for d, size in zip(dims, own) if size == across[d]]
    if len(kept) != len(own):  # an index array of size 1 along an axis of the block
        starts = reshape(starts, [across[d] for d in kept])
    return broadcast_in_dim(starts, (*across, 1), kept)


def _along(starts: np.ndarray, dims: Sequence[int], rank: int) -> np.ndarray:
    """Starts shaped to broadcast against the axes over the windows."""
    shape = [1] * rank
    for d, n in zip(dims, starts.shape):
        shape[d] = n
    return starts.reshape(shape)
