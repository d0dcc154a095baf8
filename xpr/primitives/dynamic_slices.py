"""Slices at computed indices: dynamic_slice reads one, dynamic_update_slice writes one.

Only the sizes are static. A slice that would reach beyond the array is moved inside. Both are linear in the arrays and
each is the other's transpose, up to the zeros that are written. With mapped starts they are a gather and a
scatter of one slice for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, is_linear, register
from xpr.primitives.bytes_moved import reading, updating
from xpr.primitives.dimension_values import size_as
from xpr.primitives.elementwise import add, convert_element_type, lt
from xpr.primitives.gather.bounds_checks import INDEX, outside
from xpr.primitives.gather.gather_scatter import gather_p
from xpr.primitives.gather.scatter import scatter_p
from xpr.primitives.gather.windows import (
    CLIP,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)  # fmt: skip
from xpr.primitives.shapes import (
    broadcast_in_dim,
    instantiate,
    mapped_to,
    move_mapped_axis,
    reshape,
    shape_of,
    squeeze,
    tuple_of,
    zeros_like_aval,
)
from xpr.primitives.sharding_rules import joined, resizing, sums_of_first
from xpr.primitives.slicing import concatenate, select, slice_

__all__ = ["dynamic_slice", "dynamic_slice_p", "dynamic_update_slice", "dynamic_update_slice_p"]

# -- What both share


def _check(name: str, operand: ShapedArray, sizes: Sequence[int], starts: Sequence[ShapedArray]) -> None:
    if len(sizes) != operand.ndim or len(starts) != operand.ndim:
        raise TypeError(
            f"{name}: {operand.str_short()} needs a size and a start for each axis, and got {len(sizes)} sizes and "
            f"{len(starts)} starts."
        )
    if any(not 0 <= size <= n for size, n in zip(sizes, operand.shape)):
        raise TypeError(f"{name}: a slice of sizes {tuple(sizes)} does not fit into {operand.str_short()}.")
    if any(s.ndim or s.dtype not in dtypes.INTEGERS or s.dtype != starts[0].dtype for s in starts):
        types = ", ".join(s.str_short() for s in starts)
        raise TypeError(f"{name}: the starts must be integer scalars of one dtype, and are {types}.")


def _clamped_slice(shape: Sequence[int], sizes: Sequence[int], starts: Sequence[Any]) -> tuple[slice, ...]:
    """The slice, with starts clamped so that it is inside the array."""
    inside = [min(max(int(start), 0), n - size) for start, n, size in zip(starts, shape, sizes)]
    return tuple([slice(start, start + size) for start, size in zip(inside, sizes)])


def _zero_start(starts: Sequence[Any]) -> Any:
    return aval_of(starts[0]).dtype.type(0) if starts else np.int32(0)


def _vectors(
    size: int, starts: Sequence[Any], dims: Sequence[int | None], shape: Sequence[int], sizes: Sequence[int]
) -> tuple[Any, list[int]]:
    """The starts of each row as index vectors, and the axes they belong to; where only one start is possible, none."""
    axes = [d for d, (n, width) in enumerate(zip(shape, sizes)) if n != width]
    columns = []
    for d in axes:
        start, dim = starts[d], dims[d]
        columns.append(broadcast_in_dim(start, (size, 1), () if dim is None else (0,)))
    if not columns:
        return np.zeros((size, 0), np.int32), axes
    return concatenate(columns, 1), axes


# -- dynamic_slice


def _slice_abstract(avals: Sequence[ShapedArray], *, slice_sizes: tuple[int, ...]) -> list[ShapedArray]:
    operand, *starts = avals
    _check("dynamic_slice", operand, slice_sizes, starts)
    return [operand.update(shape=slice_sizes)]


def _slice_reference(values: Sequence[Any], *, slice_sizes: tuple[int, ...]) -> list[Any]:
    operand, *starts = values
    return [operand[_clamped_slice(operand.shape, slice_sizes, starts)]]


def _slice_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, slice_sizes: tuple[int, ...]) -> Any:
    out = dynamic_slice_p.bind(*primals, slice_sizes=slice_sizes)
    if type(tangents[0]) is Zero:
        return [out], [Zero.from_primal_value(out)]
    return [out], [dynamic_slice_p.bind(tangents[0], *primals[1:], slice_sizes=slice_sizes)]


def _slice_transpose(cts: Sequence[Any], operands: Sequence[Any], *, slice_sizes: tuple[int, ...]) -> list[Any]:
    operand, *starts = operands
    nothing = zeros_like_aval(operand.aval)
    return [dynamic_update_slice_p.bind(nothing, cts[0], *starts), *(None for _ in starts)]


def _slice_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], *, slice_sizes: tuple[int, ...]) -> Any:
    (operand, *starts), (dim, *start_dims) = values, dims
    if all(d is None for d in start_dims):
        assert dim is not None  # something is mapped
        starts.insert(dim, _zero_start(starts))
        sizes = (*slice_sizes[:dim], size, *slice_sizes[dim:])
        return [dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes)], [dim]
    operand = move_mapped_axis(operand, dim)
    shape = aval_of(operand).shape if dim is None else aval_of(operand).shape[1:]
    vectors, axes = _vectors(size, starts, start_dims, shape, slice_sizes)
    shift = dim is not None
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, len(shape) + 1)),
        collapsed_slice_dims=(),
        start_index_map=tuple([d + shift for d in axes]),
        operand_batching_dims=(0,) if shift else (),
        start_indices_batching_dims=(0,) if shift else (),
    )
    if shift and size == 0:
        return [reshape(operand, (0, *slice_sizes))], [0]
    out = gather_p.bind(
        operand, vectors, dimension_numbers=numbers, slice_sizes=(1, *slice_sizes) if shift else slice_sizes,
        indices_are_sorted=shift, unique_indices=shift, mode=CLIP, fill_value=None,
    )  # fmt: skip
    return [out], [0]


def _hazard(operand: Any, sizes: Sequence[int], starts: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Whether the window is partly out of bounds."""
    shape = aval_of(operand).shape
    return outside([(start, n - size, d) for d, (start, n, size) in enumerate(zip(starts, shape, sizes))])


dynamic_slice_p = register(
    Primitive(
        "dynamic_slice",
        fusion="cheap",
        bytes_moved=reading,
        physical="moved",
        abstract=_slice_abstract,
        reference=_slice_reference,
        lower=lambda b, operands, avals, *, slice_sizes: [b.window(operands[0], operands[1:], slice_sizes)],
        jvp=_slice_jvp,
        transpose=_slice_transpose,
        batch=_slice_batch,
        exact=True,
        sharding=resizing,
        sums=sums_of_first,
        hazard=(INDEX, lambda values, *, slice_sizes: _hazard(values[0], slice_sizes, values[1:])),
    )
)

# -- dynamic_update_slice


def _update_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    operand, update, *starts = avals
    if operand.dtype != update.dtype:
        raise TypeError(
            f"dynamic_update_slice: the operand {operand.str_short()} and the update {update.str_short()} must have "
            "one dtype. Convert the update with .astype() first."
        )
    _check("dynamic_update_slice", operand, update.shape, starts)
    return [operand]


def _update_reference(values: Sequence[Any]) -> list[Any]:
    operand, update, *starts = values
    out = np.array(operand)
    out[_clamped_slice(out.shape, np.shape(update), starts)] = update
    return [out]


def _update_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    out = dynamic_update_slice_p.bind(*primals)
    operand_dot, update_dot = tangents[:2]
    if type(operand_dot) is Zero and type(update_dot) is Zero:
        return [out], [Zero.from_primal_value(out)]
    return [out], [dynamic_update_slice_p.bind(instantiate(operand_dot), instantiate(update_dot), *primals[2:])]


def _update_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (operand, update, *starts) = cts, operands
    to_operand = to_update = None
    if is_linear(operand):
        to_operand = dynamic_update_slice_p.bind(ct, zeros_like_aval(aval_of(update)), *starts)
    if is_linear(update):
        to_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=update.aval.shape)
    return [to_operand, to_update, *(None for _ in starts)]


def _update_batch(size: int, values: Sequence[Any], dims: Sequence[int | None]) -> Any:
    (operand, update, *starts), (dim, update_dim, *start_dims) = values, dims
    operand, update = mapped_to(operand, dim, size), mapped_to(update, update_dim, size)
    if all(d is None for d in start_dims):
        return [dynamic_update_slice_p.bind(operand, update, _zero_start(starts), *starts)], [0]
    if size == 0:
        return [operand], [0]
    row = aval_of(update).shape[1:]
    vectors, axes = _vectors(size, starts, start_dims, aval_of(operand).shape[1:], row)
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, len(row) + 1)),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=tuple([d + 1 for d in axes]),
        operand_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
    )
    out = scatter_p.bind(
        operand, vectors, update, dimension_numbers=numbers, indices_are_sorted=True, unique_indices=True, mode=CLIP
    )
    return [out], [0]


dynamic_update_slice_p = register(
    Primitive(
        "dynamic_update_slice",
        fusion="cheap",
        bytes_moved=updating,
        physical="moved",
        abstract=_update_abstract,
        reference=_update_reference,
        lower=lambda b, operands, avals: [b.op("stablehlo.dynamic_update_slice", operands, avals[0])],
        jvp=_update_jvp,
        transpose=_update_transpose,
        batch=_update_batch,
        exact=True,
        sharding=lambda avals, outs: [joined(avals[:2], outs[0].ndim)],
        hazard=(INDEX, lambda values: _hazard(values[0], aval_of(values[1]).shape, values[2:])),
    )
)

# -- What users call


def _separate(name: str, start_indices: Any, ndim: int) -> list[Any]:
    """Starts, from one vector or one by one, as a list of scalars."""
    if hasattr(start_indices, "shape"):
        if len(start_indices.shape) != 1:
            raise ValueError(
                f"Starts are one vector or a sequence of scalars, not an array of shape {start_indices.shape}."
            )
        if isinstance(start_indices, np.ndarray):
            start_indices = start_indices.tolist()
        else:
            count = start_indices.shape[0]
            start_indices = [squeeze(slice_(start_indices, (i,), (i + 1,)), (0,)) for i in range(count)]
    starts = list(tuple_of(start_indices, name, "start_indices"))
    if len(starts) != ndim:
        raise ValueError(f"An array of {ndim} axes needs {ndim} starts, and got {len(starts)}.")
    return starts


def wrapped(index: Any, n: int) -> Any:
    """A computed index or indices, counted from the end where negative."""
    aval = aval_of(index)
    if aval.dtype in dtypes.UNSIGNED:
        return index
    of = aval.dtype.type
    return select(lt(index, of(0)), add(index, size_as(n, aval.dtype)), index)


def common_dtype(starts: Sequence[Any]) -> np.dtype:
    """The integer dtype that starts are converted to, no narrower than int32.

    Raises:
      TypeError: one of them is no integer.
    """
    traced = {aval_of(s).dtype for s in starts if type(s) is not int}
    bad = traced - dtypes.INTEGERS
    if bad:
        raise TypeError(
            f"Starts must be integers, and one is {', '.join(d.name for d in bad)}. Convert it with .astype(int)."
        )
    wide = {d for d in traced if d.itemsize == 8}
    if len(traced) == 1 and max(d.itemsize for d in traced) >= 4:
        return traced.pop()
    return np.dtype("int64" if wide else "int32")


def one_dtype(starts: Sequence[Any]) -> list[Any]:
    """Starts in one integer dtype, that of `common_dtype`."""
    dtype = common_dtype(starts)
    return [dtype.type(s) if type(s) is int else convert_element_type(s, dtype) for s in starts]


def _check_index_dtypes(name: str, starts: Sequence[Any]) -> None:
    """Raises an error if starts, but for Python's integers and what is as weakly typed, have several dtypes."""
    avals = [aval_of(s) for s in starts if type(s) is not int]
    if len({aval.dtype for aval in avals if not aval.weak_type}) > 1:
        types = ", ".join(aval_of(s).str_short() for s in starts)
        raise TypeError(
            f"index arguments to {name} must be integers of the same type, and are {types}. Convert them to one dtype "
            "with .astype, or pass Python's integers."
        )


def _start_operands(name: str, operand: Any, start_indices: Any, allow_negative: bool | Sequence[bool]) -> list[Any]:
    """Start indices as operands: of one dtype, with negative ones counted from the end of their axes."""
    shape = aval_of(operand).shape
    starts = _separate(name, start_indices, len(shape))
    allowed = [allow_negative] * len(starts) if isinstance(allow_negative, bool) else list(allow_negative)
    _check_index_dtypes(name, starts)
    counted: list[Any] = []  # Python integers counted from the start of their axes; traced ones as they are
    for start, n, wraps in zip(starts, shape, allowed):
        if isinstance(start, (int, np.integer)) and not isinstance(start, bool):
            start = int(start)
            if start < 0 and not wraps:
                raise ValueError(f"{name}: start {start} is out of bounds, and allow_negative_indices is False.")
            counted.append(start + n if start < 0 else start)
        else:
            counted.append(start)
    counted = one_dtype(counted)
    return [
        wrapped(start, n) if wraps and not isinstance(start, np.integer) else start
        for start, n, wraps in zip(counted, shape, allowed)
    ]


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """The slice of static sizes that begins at given indices, which may be traced.

    Args:
      operand: an array.
      start_indices: an integer for each axis, separate or as a vector; they are clipped so that the slice is in bounds.
      slice_sizes: the size of the slice along each axis.
      allow_negative_indices: negative starts count from the end.

    Returns:
      An array of the shape `slice_sizes`.

    Raises:
      TypeError: the slice is larger than the array, a start is no integer, or starts have several dtypes.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dynamic_slice(jnp.arange(5), (3,), (3,))
    Array([2, 3, 4], dtype=int32)
    """
    sizes = shape_of(slice_sizes)
    starts = _start_operands("dynamic_slice", operand, start_indices, allow_negative_indices)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes)


def dynamic_update_slice(
    operand: Any, update: Any, start_indices: Any, *, allow_negative_indices: bool | Sequence[bool] = True
) -> Any:
    """The array with a slice replaced that begins at given indices, which may be traced.

    Args:
      operand: an array.
      update: an array of the same dtype and number of axes.
      start_indices: an integer for each axis, separate or as a vector; they are clipped so that the slice is in bounds.
      allow_negative_indices: negative starts count from the end.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: dtypes differ, those of starts too, or the update is larger than the array.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dynamic_update_slice(jnp.zeros(3), jnp.ones(2), (-1,))
    Array([0., 1., 1.], dtype=float32)
    """
    starts = _start_operands("dynamic_update_slice", operand, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)
