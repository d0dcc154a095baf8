"""Dimension numbers of gather and scatter: which windows of an array they read and write.

An array of start indices holds one vector of starts for each window. The dimension numbers say which axes of the
operand the vector's elements belong to (the *mapped* axes; elsewhere a window starts at 0), which axes of the operand
are dropped because windows have size 1 there, and which axes of the result run along a window. The other axes of the
result, in order, are those of the start indices. The last axis of the start indices holds the vectors.

A *batching* axis of the operand goes along with an axis of the start indices: window i is at index i of it.

The NumPy reference of both is here: `operand_index` is the index into the operand for the elements of the result.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.text.parameters import register_parameter

__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers"]

Shape = tuple[int, ...]


@register_parameter
class GatherScatterMode(enum.Enum):
    """The treatment of windows that are partly out of bounds.

    CLIP moves them inside. FILL_OR_DROP reads a fill value instead, and doesn't write. PROMISE_IN_BOUNDS says that
    there are none: what is read and written then is up to the compiler.
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of a name: "clip", "fill", "drop", "promise_in_bounds"; FILL_OR_DROP for None.

        Raises:
          ValueError: there is no such mode.
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        try:
            return _MODES[mode]
        except (KeyError, TypeError):
            names = ", ".join(repr(name) for name in _MODES if name)
            raise ValueError(f"Unknown gather or scatter mode {mode!r}; the modes are {names}.") from None


CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS = GatherScatterMode
_MODES: dict[Any, GatherScatterMode] = {
    None: FILL_OR_DROP,
    "fill": FILL_OR_DROP,
    "drop": FILL_OR_DROP,
    "clip": CLIP,
    "promise_in_bounds": PROMISE_IN_BOUNDS,
}


@register_parameter
class GatherDimensionNumbers(NamedTuple):
    """Which axes are which in `lax.gather(operand, start_indices, ...)`.

    Args:
      offset_dims: axes of the result that run along windows, in order of the operand's axes that are not dropped.
      collapsed_slice_dims: axes of the operand that are dropped, where windows have size 1.
      start_index_map: for each element of an index vector, the axis of the operand that it is a start in.
      operand_batching_dims: axes of the operand that go along with `start_indices_batching_dims`; dropped, too.
      start_indices_batching_dims: axes of the start indices, matching `operand_batching_dims` one by one.
    """

    offset_dims: Shape
    collapsed_slice_dims: Shape
    start_index_map: Shape
    operand_batching_dims: Shape = ()
    start_indices_batching_dims: Shape = ()


@register_parameter
class ScatterDimensionNumbers(NamedTuple):
    """Which axes are which in `lax.scatter(operand, scatter_indices, updates, ...)`, which writes what a gather reads.

    Args:
      update_window_dims: axes of the updates that run along windows.
      inserted_window_dims: axes of the operand that the updates lack, where windows have size 1.
      scatter_dims_to_operand_dims: for each element of an index vector, the axis of the operand that it is a start in.
      operand_batching_dims: axes of the operand that go along with `scatter_indices_batching_dims`.
      scatter_indices_batching_dims: axes of the scatter indices, matching `operand_batching_dims` one by one.
    """

    update_window_dims: Shape
    inserted_window_dims: Shape
    scatter_dims_to_operand_dims: Shape
    operand_batching_dims: Shape = ()
    scatter_indices_batching_dims: Shape = ()


def tupled(numbers: Any) -> Any:
    """Dimension numbers, whose fields may be lists, with hashable fields.

    Raises:
      TypeError: they are none.
    """
    if not isinstance(numbers, tuple):
        raise TypeError(f"dimension_numbers are Gather- or ScatterDimensionNumbers, and got {numbers!r}.")
    if any(type(field) is not tuple for field in numbers):
        return type(numbers)(*(tuple(map(int, field)) for field in numbers))
    return numbers


def scatter_of(numbers: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """The scatter that writes where a gather reads."""
    return ScatterDimensionNumbers(*numbers)


def gather_of(numbers: ScatterDimensionNumbers, operand: Shape, updates: Shape) -> tuple[GatherDimensionNumbers, Shape]:
    """The gather that reads where a scatter writes, and its window sizes."""
    dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    along = iter(numbers.update_window_dims)
    sizes = tuple(1 if d in dropped else updates[next(along)] for d in range(len(operand)))
    return GatherDimensionNumbers(*numbers), sizes


def shifted(axes: Sequence[int]) -> Shape:
    """The same axes after another one is added in front."""
    return tuple([d + 1 for d in axes])


def default_fill(dtype: np.dtype) -> Any:
    """The value of FILL_OR_DROP out of bounds: nan, the least signed integer, the greatest unsigned one, True."""
    if dtype in dtypes.INEXACT:
        return np.asarray(np.nan, dtype)[()]
    if dtype == dtypes.bool_:
        return np.True_
    bounds = dtypes.iinfo(dtype)
    return np.asarray(bounds.max if dtype in dtypes.UNSIGNED else bounds.min, dtype)[()]


def static_fill(fill_value: Any) -> Any:
    """The fill value of an operation as its parameter: a number that equals itself as a key; None where it is traced.

    Raises:
      ValueError: it is an array of one axis or more.
    """
    if isinstance(fill_value, (np.ndarray, Array, Tracer)):
        shape = aval_of(fill_value).shape
        if shape:
            raise ValueError(f"fill_value must be a number, and is an array of shape {shape}.")
        fill_value = None if isinstance(fill_value, Tracer) else np.asarray(fill_value)[()]
    return np.nan if isinstance(fill_value, (float, np.floating)) and fill_value != fill_value else fill_value


def fill_of(dtype: np.dtype, fill_value: Any) -> Any:
    """The fill value in the operand's dtype."""
    return default_fill(dtype) if fill_value is None else np.asarray(fill_value).astype(dtype)[()]


# -- Shapes


def result_shape(numbers: GatherDimensionNumbers, operand: Shape, indices: Shape, sizes: Shape) -> Shape:
    """The shape of a gather's result, or of a scatter's updates."""
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    along = iter([n for d, n in enumerate(sizes) if d not in dropped])
    across = iter(indices[:-1])
    rank = len(numbers.offset_dims) + len(indices) - 1
    return tuple([next(along) if d in numbers.offset_dims else next(across) for d in range(rank)])


# -- Reference, in NumPy


class _WindowPlan(NamedTuple):
    """The parts of a gather's indices that depend on shapes alone."""

    limits: np.ndarray  # the greatest start inside, for each mapped axis
    expanded: Shape | None  # the shape in which an array over the windows broadcasts to the result; None: its own
    windows: list[tuple[int | None, Any]]  # for each axis of the operand: its element in the vectors, and what is added
    take: int | None  # the axis where the gather is `np.take` along one axis
    across: list[int]  # the axes of the result that run over the windows


@lru_cache(maxsize=1024)
def _window_plan(numbers: GatherDimensionNumbers, operand: Shape, indices: Shape, sizes: Shape) -> _WindowPlan:
    offset, collapsed, mapped, batching, indices_batching = numbers
    rank = len(offset) + len(indices) - 1
    across = [d for d in range(rank) if d not in offset]
    along = iter(offset)
    windows: list[tuple[int | None, Any]] = []
    for d, n in enumerate(sizes):
        shape = [1] * rank
        if d in batching:
            shape[across[indices_batching[batching.index(d)]]] = operand[d]
            windows.append((None, np.arange(operand[d]).reshape(shape)))
            continue
        added = None
        if d not in collapsed:
            shape[next(along)] = n
            added = np.arange(n).reshape(shape)
        elif d not in mapped:
            added = np.zeros(shape, np.int64)
        windows.append((mapped.index(d) if d in mapped else None, added))
    batch = iter(indices[:-1])
    expanded = tuple([1 if d in offset else next(batch) for d in range(rank)])
    axis = mapped[0] if len(mapped) == 1 and collapsed == mapped and not batching else None
    if axis is not None and any(n != size for d, (n, size) in enumerate(zip(operand, sizes)) if d != axis):
        axis = None
    limits = np.array([operand[d] - sizes[d] for d in mapped], np.int64)
    return _WindowPlan(limits, None if expanded == indices[:-1] else expanded, windows, axis, across)


def signed(indices: Any) -> np.ndarray:
    """Starts as 64-bit signed integers; those too great for it are outside of any array anyway."""
    indices = np.asarray(indices)
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(1 << 62))
    return indices.astype(np.int64, copy=False)


def inside(numbers: GatherDimensionNumbers, operand: Shape, indices: np.ndarray, sizes: Shape) -> np.ndarray:
    """For each window, whether it is inside the operand."""
    limits = _window_plan(numbers, operand, indices.shape, sizes).limits
    return np.asarray(((indices >= 0) & (indices <= limits)).all(-1))


def broadcast_to_result(
    windows: np.ndarray, numbers: GatherDimensionNumbers, operand: Shape, sizes: Shape, vector: int
) -> np.ndarray:
    """An array over the windows, shaped to broadcast against the result."""
    expanded = _window_plan(numbers, operand, (*windows.shape, vector), sizes).expanded
    return windows if expanded is None else windows.reshape(expanded)


def clipped(numbers: GatherDimensionNumbers, operand: Shape, indices: np.ndarray, sizes: Shape) -> np.ndarray:
    """The starts, clamped so that every window is inside."""
    limits = _window_plan(numbers, operand, indices.shape, sizes).limits
    return np.minimum(np.maximum(indices, 0), limits)


def operand_index(
    numbers: GatherDimensionNumbers, operand: Shape, indices: np.ndarray, sizes: Shape
) -> tuple[Any, ...]:
    """A NumPy index into the operand that reads the windows, in the axis order of the result or one window's.

    All starts must be inside. For a single window it is a tuple of slices, which reads an array of shape `sizes`.
    """
    if indices.ndim == 1:
        starts = [0] * len(operand)
        for d, start in zip(numbers.start_index_map, indices.tolist()):
            starts[d] = start
        return tuple([slice(start, start + n) for start, n in zip(starts, sizes)])
    plan = _window_plan(numbers, operand, indices.shape, sizes)
    index = []
    for position, added in plan.windows:
        if position is None:
            index.append(added)
            continue
        start = indices[..., position]
        if plan.expanded is not None:
            start = start.reshape(plan.expanded)
        index.append(start if added is None else start + added)
    if not numbers.start_index_map and index:  # all windows are the same one
        index[0] = index[0] + np.zeros(plan.expanded or indices.shape[:-1], np.int64)
    return tuple(index)


def read(operand: np.ndarray, numbers: GatherDimensionNumbers, indices: np.ndarray, sizes: Shape) -> np.ndarray:
    """The windows at starts that are all inside."""
    shape = operand.shape
    if indices.ndim == 1:
        result = operand[operand_index(numbers, shape, indices, sizes)]
        return result.reshape(result_shape(numbers, shape, indices.shape, sizes))
    plan = _window_plan(numbers, shape, indices.shape, sizes)
    if not shape:
        return np.broadcast_to(operand, indices.shape[:-1])
    if plan.take is None:
        return operand[operand_index(numbers, shape, indices, sizes)]
    rows = np.take(operand, indices[..., 0], plan.take)
    first, count = plan.take, len(plan.across)
    if plan.across == list(range(first, first + count)):
        return rows
    return np.moveaxis(rows, range(first, first + count), plan.across)


def write(
    ufunc: np.ufunc | None,
    operand: np.ndarray,
    numbers: GatherDimensionNumbers,
    indices: np.ndarray,
    sizes: Shape,
    updates: np.ndarray,
    valid: np.ndarray | None,
) -> np.ndarray:
    """A copy of the operand with updates combined into the windows by `ufunc`, or set where it is None.

    `valid` says which windows to write, which must all be inside; None for all.
    """
    out = np.array(operand)
    if valid is not None and not valid.any():
        return out
    shape = operand.shape
    if indices.ndim == 1:
        index = operand_index(numbers, shape, indices, sizes)
        new = updates.reshape(sizes)
        out[index] = new if ufunc is None else ufunc(out[index], new)
        return out
    index = operand_index(numbers, shape, clipped(numbers, shape, indices, sizes), sizes)
    if valid is not None:
        chosen = np.broadcast_to(broadcast_to_result(valid, numbers, shape, sizes, indices.shape[-1]), updates.shape)
        index = tuple([np.broadcast_to(p, updates.shape)[chosen] for p in index])
        updates = updates[chosen]
    if not shape:
        return _write_scalar(ufunc, out, updates)
    if ufunc is None:
        out[index] = updates
    else:
        ufunc.at(out, index, updates)
    return out


def _write_scalar(ufunc: np.ufunc | None, out: np.ndarray, updates: np.ndarray) -> np.ndarray:
    for update in updates.reshape(-1):
        out = update if ufunc is None else ufunc(out, update)
    return np.asarray(out)
