"""StableHLO for gather and scatter: windows inside and outside, one window or many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.mlir_text import int_array, int_list
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import is_symbolic_dim, min_dim
from xpr.primitives.comparison_lowering import lower_comparison
from xpr.primitives.gather import windows
from xpr.primitives.gather.windows import (
    CLIP,
    FILL_OR_DROP,
    PROMISE_IN_BOUNDS,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    fill_of,
    shifted,
)
from xpr.primitives.reduction_lowering import lower_reduction

Combine = Callable[[Builder, list[Value]], list[Value]]  # from an element of the operand and one of the updates


def _starts(b: Builder, indices: Value) -> Value:
    """Indices of a type and sharding for which XLA can partition a gather: it crashes for 8-bit and 16-bit integers."""
    if b.may_be_partitioned and indices.aval.dtype.itemsize < 4:
        indices = b.convert(indices, dtypes.int32)
    return b.whole(indices, [indices.aval.ndim - 1])


def _flag(name: str, value: bool) -> str:
    return f"{name} = {str(value).lower()}"


def _limits(
    numbers: GatherDimensionNumbers, operand: tuple[int, ...], sizes: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """The greatest starts inside the operand, as far as the indices' dtype can tell."""
    largest = int(dtypes.iinfo(dtype).max)
    limits = [operand[d] - sizes[d] for d in numbers.start_index_map]
    if any(map(is_symbolic_dim, limits)):
        return np.array([min_dim(limit, largest) for limit in limits], object)
    return np.array([min(limit, largest) for limit in limits], dtype)


def _bounds(b: Builder, indices: Value, limits: np.ndarray) -> Value:
    aval = ShapedArray(limits.shape, indices.aval.dtype)
    row = b.convert(b.shape(list(limits)), aval.dtype) if limits.dtype == object else b.constant(limits, aval)
    return b.broadcast(row, indices.aval.shape, [indices.aval.ndim - 1])


def _lower_inside(b: Builder, indices: Value, limits: np.ndarray) -> Value:
    """For each window whether it is inside the operand."""
    flags = indices.aval.update(dtype=dtypes.bool_, weak_type=False)
    result = flags.update(shape=flags.shape[:-1])
    if not len(limits):
        return b.constant(True, result)
    zeros = b.broadcast(b.constant(0, ShapedArray((), indices.aval.dtype)), indices.aval.shape)
    low = lower_comparison(b, indices, zeros, "GE")
    both = b.op("stablehlo.and", [low, lower_comparison(b, indices, _bounds(b, indices, limits), "LE")], flags)
    return lower_reduction(b, both, result, [flags.ndim - 1], "stablehlo.and", True)


def _lower_clipped(b: Builder, indices: Value, limits: np.ndarray) -> Value:
    zero = b.broadcast(b.constant(0, ShapedArray((), indices.aval.dtype)), indices.aval.shape)
    return b.op("stablehlo.clamp", [zero, indices, _bounds(b, indices, limits)], indices.aval)


def _moved_inside(b: Builder, indices: Value, limits: np.ndarray) -> Value:
    """The starts of windows, clamped to the operand where XLA doesn't do so itself: if operands may be partitioned."""
    return _lower_clipped(b, indices, limits) if b.may_be_partitioned else indices


# -- gather


def lower_gather(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...], mode: GatherScatterMode, fill_value: Any, indices_are_sorted: bool, **_: Any,
) -> list[Value]:  # fmt: skip
    """A StableHLO gather, which clamps windows to the operand, and the fill value where a window was outside."""
    operand, indices = operands[0], _starts(b, operands[1])
    offset, collapsed, mapped, batching, indices_batching = dimension_numbers
    numbers = (
        f"#stablehlo.gather<offset_dims = {int_list(offset)}, collapsed_slice_dims = {int_list(collapsed)}, "
        f"operand_batching_dims = {int_list(batching)}, start_indices_batching_dims = {int_list(indices_batching)}, "
        f"start_index_map = {int_list(mapped)}, index_vector_dim = {indices.aval.ndim - 1}>"
    )
    properties = f"dimension_numbers = {numbers}, {_flag('indices_are_sorted', indices_are_sorted)}"
    limits = _limits(dimension_numbers, operand.aval.shape, slice_sizes, indices.aval.dtype)
    gathered = [operand, _moved_inside(b, indices, limits)]
    if any(map(is_symbolic_dim, slice_sizes)):
        result = b.op("stablehlo.dynamic_gather", [*gathered, b.shape(slice_sizes)], avals[0], properties)
    else:
        result = b.op("stablehlo.gather", gathered, avals[0], f"{properties}, slice_sizes = {int_array(slice_sizes)}")
    if mode is not FILL_OR_DROP:
        return [result]
    inside = _lower_inside(b, indices, limits)
    flags = avals[0].update(dtype=dtypes.bool_, weak_type=False)
    chosen = b.broadcast(inside, flags.shape, [d for d in range(flags.ndim) if d not in offset])
    fill = b.constant(fill_of(avals[0].dtype, fill_value), avals[0])
    return [b.op("stablehlo.select", [chosen, result, fill], avals[0])]


# -- scatter


def combiner(operation: str | None) -> Combine:
    """The body of a scatter: from the operand's element and the update to the result."""
    if operation is None:
        return lambda inner, args: [args[1]]
    return lambda inner, args: [inner.op(operation, args, args[0].aval)]


def scatter_lowering(combine: Combine, operation: str | None = "") -> Callable[..., list[Value]]:
    """The lowering rule of a scatter whose body `combine` writes; `operation` says where it is known to be one."""

    def lower(
        b: Builder, operands: list[Value], avals: list[ShapedArray], *, dimension_numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode, indices_are_sorted: bool, unique_indices: bool, **_: Any,
    ) -> list[Value]:  # fmt: skip
        operand, updates, indices = operands[0], operands[2], _starts(b, operands[1])
        numbers = dimension_numbers
        if not updates.aval.size:
            return [operand]
        if indices.aval.ndim == 1:
            return [_lower_one_window(b, operand, indices, updates, numbers, mode, combine, operation is None)]
        flags = f"{_flag('indices_are_sorted', indices_are_sorted)}, {_flag('unique_indices', unique_indices)}"
        if not numbers.scatter_dims_to_operand_dims:
            return [_lower_unmapped(b, operand, indices, updates, numbers, combine, flags)]
        if operand.aval.dtype == dtypes.complex128 and operation == "stablehlo.add" and b.platform != "cpu":
            return [_lower_by_parts(b, operand, indices, updates, numbers, mode, combine, flags)]
        return [_lower_scatter(b, operand, indices, updates, numbers, mode, combine, flags)]

    return lower


def _lower_unmapped(
    b: Builder, operand: Value, indices: Value, updates: Value, numbers: ScatterDimensionNumbers,
    combine: Combine, flags: str,
) -> Value:  # fmt: skip
    """With empty index vectors XLA writes a single window, so they get an axis of size 1 for starts."""
    along, inserted, _, batching, indices_batching = numbers
    numbers = ScatterDimensionNumbers(along, (0, *shifted(inserted)), (0,), shifted(batching), indices_batching)
    starts = b.constant(0, indices.aval.update(shape=(*indices.aval.shape[:-1], 1)))
    wider = b.reshape(operand, (1, *operand.aval.shape))
    result = _lower_scatter(b, wider, starts, updates, numbers, PROMISE_IN_BOUNDS, combine, flags)
    return b.reshape(result, operand.aval.shape)


def _lower_scatter(
    b: Builder, operand: Value, indices: Value, updates: Value, dimension_numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode, combine: Combine, flags: str,
) -> Value:  # fmt: skip
    """A StableHLO scatter; it drops windows that are out of bounds."""
    along, inserted, mapped, batching, indices_batching = dimension_numbers
    if mode is CLIP:
        numbers, sizes = windows.gather_of(dimension_numbers, operand.aval.shape, updates.aval.shape)
        indices = _lower_clipped(b, indices, _limits(numbers, operand.aval.shape, sizes, indices.aval.dtype))
    numbers_text = (
        f"#stablehlo.scatter<update_window_dims = {int_list(along)}, inserted_window_dims = {int_list(inserted)}, "
        f"input_batching_dims = {int_list(batching)}, scatter_indices_batching_dims = {int_list(indices_batching)}, "
        f"scatter_dims_to_operand_dims = {int_list(mapped)}, index_vector_dim = {indices.aval.ndim - 1}>"
    )
    scalar = ShapedArray((), operand.aval.dtype)
    body = b.region([scalar, scalar], combine)
    properties = f"scatter_dimension_numbers = {numbers_text}, {flags}"
    return b.op("stablehlo.scatter", [operand, indices, updates], operand.aval, properties, [body])


def _lower_one_window(
    b: Builder, operand: Value, indices: Value, updates: Value, dimension_numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode, combine: Combine, is_set: bool,
) -> Value:  # fmt: skip
    """A single window is read, combined and put back as a slice, which XLA fuses and does in place."""
    numbers, sizes = windows.gather_of(dimension_numbers, operand.aval.shape, updates.aval.shape)
    limits = _limits(numbers, operand.aval.shape, sizes, indices.aval.dtype)
    inside = _moved_inside(b, indices, limits)
    scalar = ShapedArray((), indices.aval.dtype)
    starts = [b.constant(0, scalar)] * operand.aval.ndim
    for position, d in enumerate(dimension_numbers.scatter_dims_to_operand_dims):
        starts[d] = b.reshape(b.slice(inside, [position], [position + 1]), ())
    new = b.reshape(updates, sizes)
    if mode is FILL_OR_DROP or not is_set:
        window = operand.aval.update(shape=sizes)
        old = b.window(operand, starts, sizes)
        new = combine(b, [old, new])[0]
        if mode is FILL_OR_DROP:
            new = b.op("stablehlo.select", [_lower_inside(b, indices, limits), new, old], window)
    return b.op("stablehlo.dynamic_update_slice", [operand, new, *starts], operand.aval)


def _lower_by_parts(b: Builder, operand: Value, indices: Value, updates: Value, *how: Any) -> Value:
    """A sum of complex128 as two of float64: accelerators have no atomic addition of 16 bytes."""

    def part(x: Value, kind: str) -> Value:
        return b.op(f"stablehlo.{kind}", [x], x.aval.update(dtype=dtypes.float64))

    parts = [_lower_scatter(b, part(operand, kind), indices, part(updates, kind), *how) for kind in ("real", "imag")]
    return b.op("stablehlo.complex", parts, operand.aval)
