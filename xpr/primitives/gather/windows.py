"""Windows: how gather and scatter name parts of an array.

An array of start indices holds one vector of starts for each window. The dimension numbers say which axes of the
operand the vector's entries belong to (the *mapped* axes; elsewhere a window starts at 0), which axes of the operand
are dropped because windows have size 1 there, and which axes of the result run along a window. The other axes of the
result, in order, are those of the start indices. The last axis of the start indices holds the vectors.

A *batching* axis of the operand goes along with an axis of the start indices: window i lies at place i of it.

What gather reads, and what scatter writes, is said here once, in NumPy: `entries` gives the index of every entry of the
result in the operand.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray
from xpr.dtypes import INTEGERS
from xpr.text.parameters import register_parameter

Shape = tuple[int, ...]


@register_parameter
class GatherScatterMode(enum.Enum):
    """What happens to windows that lie partly outside of the operand.

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
      start_index_map: for each entry of an index vector, the axis of the operand that it is a start in.
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
      scatter_dims_to_operand_dims: for each entry of an index vector, the axis of the operand that it is a start in.
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
        raise TypeError(f"dimension_numbers are Gather- or ScatterDimensionNumbers, and {numbers!r} was given.")
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
    """The same axes where one more stands in front."""
    return tuple([d + 1 for d in axes])


def default_fill(dtype: np.dtype) -> Any:
    """What FILL_OR_DROP reads outside: nan, the least signed integer, the greatest unsigned one, True."""
    if dtype in dtypes.INEXACT:
        return np.asarray(np.nan, dtype)[()]
    if dtype == dtypes.bool_:
        return np.True_
    bounds = dtypes.iinfo(dtype)
    return np.asarray(bounds.max if dtype in dtypes.UNSIGNED else bounds.min, dtype)[()]


def fill_of(dtype: np.dtype, fill_value: Any) -> Any:
    """The fill value in the operand's dtype."""
    return default_fill(dtype) if fill_value is None else np.asarray(fill_value).astype(dtype)[()]


# -- Typing


def check_numbers(name: str, numbers: GatherDimensionNumbers, operand: ShapedArray, indices: ShapedArray) -> None:
    """Raises TypeError where dimension numbers don't fit an operand and indices."""
    offset, collapsed, mapped, batching, indices_batching = numbers
    last = indices.ndim - 1
    if indices.dtype not in INTEGERS or last < 0:
        _refuse(
            name, numbers, operand, indices, "the indices must be integers, with the index vectors along the last axis"
        )
    if len(mapped) != indices.shape[last]:
        _refuse(
            name, numbers, operand, indices, "the last axis of the indices must have one entry for each mapped axis"
        )
    dropped = (*collapsed, *batching)
    for axes, ndim, ordered in (
        (mapped, operand.ndim, False), (dropped, operand.ndim, False), (collapsed, operand.ndim, True),
        (batching, operand.ndim, True), (indices_batching, last, False),
        (offset, last + operand.ndim - len(dropped), True),
    ):  # fmt: skip
        if (
            len(set(axes)) != len(axes)
            or not all(0 <= d < ndim for d in axes)
            or (ordered and list(axes) != sorted(axes))
        ):
            _refuse(
                name, numbers, operand, indices, f"{axes} are not different axes, in order, of the {ndim} there are"
            )
    if len(offset) != operand.ndim - len(dropped):
        _refuse(name, numbers, operand, indices, "every axis of the operand must be dropped or have one along windows")
    if set(batching) & set(mapped) or [operand.shape[d] for d in batching] != [
        indices.shape[d] for d in indices_batching
    ]:
        _refuse(name, numbers, operand, indices, "batching axes must agree in size, and can't be mapped")


def _refuse(name: str, numbers: Any, operand: ShapedArray, indices: ShapedArray, why: str) -> None:
    kind = ScatterDimensionNumbers if name != "gather" else GatherDimensionNumbers
    raise TypeError(
        f"{name}: {why}. The operand is {operand.str_short()}, the indices are {indices.str_short()}, "
        f"with {kind(*numbers)}."
    )


def result_shape(numbers: GatherDimensionNumbers, operand: Shape, indices: Shape, sizes: Shape) -> Shape:
    """The shape of what a gather reads, which is that of a scatter's updates."""
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    along = iter([n for d, n in enumerate(sizes) if d not in dropped])
    across = iter(indices[:-1])
    rank = len(numbers.offset_dims) + len(indices) - 1
    return tuple([next(along) if d in numbers.offset_dims else next(across) for d in range(rank)])


# -- The meaning, in NumPy


class _Layout(NamedTuple):
    """What of a gather depends on shapes alone."""

    limits: np.ndarray  # the greatest start inside, for each mapped axis
    spread: Shape | None  # how an array over the windows is shaped to stand beside the result; None: as it is
    windows: list[tuple[int | None, Any]]  # for each axis of the operand: its entry in the vectors, and what is added
    take: int | None  # the axis where the gather is `np.take` along one axis
    across: list[int]  # the axes of the result that run over the windows


@lru_cache(maxsize=1024)
def _layout(numbers: GatherDimensionNumbers, operand: Shape, indices: Shape, sizes: Shape) -> _Layout:
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
    spread = tuple([1 if d in offset else next(batch) for d in range(rank)])
    axis = mapped[0] if len(mapped) == 1 and collapsed == mapped and not batching else None
    if axis is not None and any(n != size for d, (n, size) in enumerate(zip(operand, sizes)) if d != axis):
        axis = None
    limits = np.array([operand[d] - sizes[d] for d in mapped], np.int64)
    return _Layout(limits, None if spread == indices[:-1] else spread, windows, axis, across)


def signed(indices: Any) -> np.ndarray:
    """Starts as 64-bit signed integers; those too great for it are outside of any array anyway."""
    indices = np.asarray(indices)
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(1 << 62))
    return indices.astype(np.int64, copy=False)


def inside(numbers: GatherDimensionNumbers, operand: Shape, indices: np.ndarray, sizes: Shape) -> np.ndarray:
    """For each window, whether it lies inside the operand."""
    limits = _layout(numbers, operand, indices.shape, sizes).limits
    return np.asarray(((indices >= 0) & (indices <= limits)).all(-1))


def beside(
    windows: np.ndarray, numbers: GatherDimensionNumbers, operand: Shape, sizes: Shape, vector: int
) -> np.ndarray:
    """An array over the windows, shaped to broadcast against the result."""
    spread = _layout(numbers, operand, (*windows.shape, vector), sizes).spread
    return windows if spread is None else windows.reshape(spread)


def clipped(numbers: GatherDimensionNumbers, operand: Shape, indices: np.ndarray, sizes: Shape) -> np.ndarray:
    """The starts, moved so that every window lies inside."""
    limits = _layout(numbers, operand, indices.shape, sizes).limits
    return np.minimum(np.maximum(indices, 0), limits)


def entries(numbers: GatherDimensionNumbers, operand: Shape, indices: np.ndarray, sizes: Shape) -> tuple[Any, ...]:
    """An index for the operand, in NumPy's sense, that gives the windows, in the layout of the result or one window's.

    All starts must lie inside. For a single window it is a tuple of slices, and what it gives has the shape `sizes`.
    """
    if indices.ndim == 1:
        starts = [0] * len(operand)
        for d, start in zip(numbers.start_index_map, indices.tolist()):
            starts[d] = start
        return tuple([slice(start, start + n) for start, n in zip(starts, sizes)])
    layout = _layout(numbers, operand, indices.shape, sizes)
    found = []
    for position, added in layout.windows:
        if position is None:
            found.append(added)
            continue
        start = indices[..., position]
        if layout.spread is not None:
            start = start.reshape(layout.spread)
        found.append(start if added is None else start + added)
    if not numbers.start_index_map and found:  # all windows are the same one
        found[0] = found[0] + np.zeros(layout.spread or indices.shape[:-1], np.int64)
    return tuple(found)


def read(operand: np.ndarray, numbers: GatherDimensionNumbers, indices: np.ndarray, sizes: Shape) -> np.ndarray:
    """The windows at starts that all lie inside."""
    shape = operand.shape
    if indices.ndim == 1:
        result = operand[entries(numbers, shape, indices, sizes)]
        return result.reshape(result_shape(numbers, shape, indices.shape, sizes))
    layout = _layout(numbers, shape, indices.shape, sizes)
    if not shape:
        return np.broadcast_to(operand, indices.shape[:-1])
    if layout.take is None:
        return operand[entries(numbers, shape, indices, sizes)]
    rows = np.take(operand, indices[..., 0], layout.take)
    first, count = layout.take, len(layout.across)
    if layout.across == list(range(first, first + count)):
        return rows
    return np.moveaxis(rows, range(first, first + count), layout.across)


def write(
    ufunc: np.ufunc | None,
    operand: np.ndarray,
    numbers: GatherDimensionNumbers,
    indices: np.ndarray,
    sizes: Shape,
    updates: np.ndarray,
    kept: np.ndarray | None,
) -> np.ndarray:
    """A copy of the operand with updates combined into the windows by `ufunc`, or set where it is None.

    `kept` says which windows to write; None for all, which then lie inside, as those kept do.
    """
    out = np.array(operand)
    if kept is not None and not kept.any():
        return out
    shape = operand.shape
    if indices.ndim == 1:
        place = entries(numbers, shape, indices, sizes)
        new = updates.reshape(sizes)
        out[place] = new if ufunc is None else ufunc(out[place], new)
        return out
    place = entries(numbers, shape, clipped(numbers, shape, indices, sizes), sizes)
    if kept is not None:
        chosen = np.broadcast_to(beside(kept, numbers, shape, sizes, indices.shape[-1]), updates.shape)
        place = tuple([np.broadcast_to(p, updates.shape)[chosen] for p in place])
        updates = updates[chosen]
    if not shape:
        return _write_scalar(ufunc, out, updates)
    if ufunc is None:
        out[place] = updates
    else:
        ufunc.at(out, place, updates)
    return out


def _write_scalar(ufunc: np.ufunc | None, out: np.ndarray, updates: np.ndarray) -> np.ndarray:
    for update in updates.reshape(-1):
        out = update if ufunc is None else ufunc(out, update)
    return np.asarray(out)
