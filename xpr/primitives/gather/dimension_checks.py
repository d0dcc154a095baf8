"""The checks of a gather's or scatter's dimension numbers and window sizes: each fault is told with its field's name.

The phrases are those of XLA's own checks, which users search for.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import surely_below
from xpr.dtypes import INTEGERS
from xpr.primitives.gather import windows
from xpr.primitives.gather.windows import GatherDimensionNumbers, ScatterDimensionNumbers

DimensionNumbers = GatherDimensionNumbers | ScatterDimensionNumbers


def check_gather(
    numbers: GatherDimensionNumbers, operand: ShapedArray, indices: ShapedArray, sizes: Sequence[int]
) -> None:
    """Raises TypeError where dimension numbers and window sizes don't fit an operand and indices."""
    if len(sizes) != operand.ndim:
        raise TypeError(
            f"gather: Gather op must have one slice size for every input dimension, and slice_sizes is {tuple(sizes)} "
            f"for an operand {operand.str_short()}."
        )
    check_numbers("gather", numbers, operand, indices, len(numbers.offset_dims) + indices.ndim - 1)
    for axis, size in enumerate(sizes):
        if surely_below(size, 0) or surely_below(operand.shape[axis], size):
            raise TypeError(
                f"gather: Slice size at index {axis} in gather op is out of range: slice_sizes is {tuple(sizes)}, for "
                f"an operand {operand.str_short()}."
            )
    for rule, axes, allowed in (
        ("1 along collapsed_slice_dims", numbers.collapsed_slice_dims, (1,)),
        ("0 or 1 along operand_batching_dims", numbers.operand_batching_dims, (0, 1)),
    ):
        for position, axis in enumerate(axes):
            if sizes[axis] not in allowed:
                raise TypeError(
                    f"gather: slice sizes must be {rule}, and that of axis {axis}, at position {position}, is "
                    f"{sizes[axis]}: slice_sizes is {tuple(sizes)}, for an operand {operand.str_short()}."
                )


def check_scatter(
    name: str, numbers: ScatterDimensionNumbers, operand: ShapedArray, indices: ShapedArray, updates: ShapedArray
) -> None:
    """Raises TypeError where dimension numbers don't fit an operand, indices and updates."""
    check_numbers(name, numbers, operand, indices, updates.ndim)
    rank = indices.ndim - 1 + len(numbers.update_window_dims)
    if updates.ndim != rank:
        raise TypeError(
            f"{name}: Updates tensor must be of rank {rank}; got {updates.ndim}. It has an axis for each axis of the "
            "indices but the last and for each of update_window_dims, and the updates are "
            f"{updates.str_short()}. {_types(numbers, operand, indices)}"
        )
    as_gather, sizes = windows.gather_of(numbers, operand.shape, updates.shape)
    if 0 not in updates.shape and any(surely_below(n, size) for size, n in zip(sizes, operand.shape)):
        raise TypeError(
            f"{name}: Bounds of the window dimensions of the updates {updates.str_short()}, {sizes} in the operand's "
            f"axes, must not be greater than the operand's. {_types(numbers, operand, indices)}"
        )
    expected = windows.result_shape(as_gather, operand.shape, indices.shape, sizes)
    if expected != updates.shape:
        raise TypeError(
            f"{name}: Bounds of the scatter dimensions of the updates {updates.str_short()} must be those of the "
            f"indices, which makes them {list(expected)}. {_types(numbers, operand, indices)}"
        )


def check_numbers(name: str, numbers: DimensionNumbers, operand: ShapedArray, indices: ShapedArray, rank: int) -> None:
    """Raises TypeError where dimension numbers don't fit; `rank` is the number of the result's or updates' axes."""
    op = "Gather op" if type(numbers) is GatherDimensionNumbers else "Scatter op"
    fault = (
        _fault_of_types(indices)
        or _fault_of_fields(op, numbers, operand.ndim, indices.ndim, rank)
        or _fault_of_sizes(op, numbers, operand, indices)
    )
    if fault:
        raise TypeError(f"{name}: {fault}. {_types(numbers, operand, indices)}")


def _types(numbers: DimensionNumbers, operand: ShapedArray, indices: ShapedArray) -> str:
    return f"The operand is {operand.str_short()}, the indices are {indices.str_short()}, with {numbers}."


def _fault_of_types(indices: ShapedArray) -> str:
    if indices.dtype in INTEGERS and indices.ndim:
        return ""
    return "the indices must be integers, with the index vectors along the last axis"


def _fault_of_fields(op: str, numbers: DimensionNumbers, operand: int, indices: int, rank: int) -> str:
    """What is wrong with the fields by themselves, given how many axes there are."""
    names = numbers._fields
    bounds = (rank, operand, operand, operand, indices - 1)
    is_ordered = (True, True, False, True, False)
    for name, axes, bound, ordered in zip(names, numbers, bounds, is_ordered):
        if ordered and list(axes) != sorted(axes):
            return f"{name} in {op.lower()} must be sorted, and is {axes}"
        if len(set(axes)) != len(axes):
            return f"{name} in {op.lower()} must not repeat an axis, and is {axes}"
        if name == names[4] and bound in axes:
            return (
                f"{op} cannot have the index vector dimension as a batching dimension, and {name}, which is {axes}, "
                f"names it, {bound}"
            )
        if outside := [i for i, d in enumerate(axes) if not 0 <= d < bound]:
            if name == "offset_dims":
                return (
                    f"Offset dimension {outside[0]} in gather op is out of bounds: offset_dims names axes of the "
                    f"result; valid range is [0, {bound}), and it is {axes}"
                )
            kind = "mapping" if name == "scatter_dims_to_operand_dims" else "set"
            return f"Invalid {name} {kind} in {op.lower()}; valid range is [0, {bound}), and it is {axes}"
    for i in (1, 2):
        if shared := sorted({*numbers[i]} & {*numbers[3]}):
            return f"{names[i]} and {names[3]} in {op.lower()} must be disjoint, and both name {shared}"
    return ""


def _fault_of_sizes(op: str, numbers: DimensionNumbers, operand: ShapedArray, indices: ShapedArray) -> str:
    """What is wrong with valid fields for an operand and indices."""
    offset, collapsed, mapped, batching, indices_batching = numbers
    names, size = numbers._fields, indices.shape[-1]
    if len(mapped) != size:
        return (
            f"{op} has {len(mapped)} elements in {names[2]}, which is {mapped}, and index vectors of {size} numbers, "
            f"along axis {indices.ndim - 1} of the indices: there must be as many elements as numbers"
        )
    if len(batching) != len(indices_batching):
        return f"{op} requires equal numbers of {names[3]} and {names[4]}, which are {batching} and {indices_batching}"
    sizes, others = [operand.shape[d] for d in batching], [indices.shape[d] for d in indices_batching]
    if sizes != others:
        return f"{op} requires batching dimensions of the same sizes: {names[3]} have {sizes}, and {names[4]} {others}"
    window = len(offset) + len(collapsed) + len(batching)
    if window == operand.ndim:
        return ""
    whole = f"{names[0]}, {names[1]} and {names[3]} name {window} axes in all, and the operand has {operand.ndim}"
    if op == "Gather op":
        return (
            "each axis of the operand of a gather op must be one of the offset, collapsed or batching dimensions: "
            f"{whole}"
        )
    return f"Scatter op has window of size {window}; doesn't match operand of rank {operand.ndim}. {whole}"
