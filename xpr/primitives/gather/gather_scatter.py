"""Reading and writing at computed indices: gather, and the scatters that add. The other scatters are in scatter.py.

Gather is linear in its operand and its transpose adds: elements read twice get the sum of both cotangents. Adding is
linear in operand and updates, and its transpose for the updates is reading. A mapped operand whose indices are
mapped, too, becomes an operand with one more batching axis, and where only one of them is mapped the windows grow, or
there are more of them; so vmap costs no copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray, Zero, aval_of, is_key
from xpr.core.interpreter import Tracer
from xpr.core.primitive import Primitive, is_linear, register
from xpr.dimensions.expressions import as_size, surely_below
from xpr.primitives.bytes_moved import reading, updating_each
from xpr.primitives.elementwise import clamp, convert_element_type, eq, neg
from xpr.primitives.flops import per_update
from xpr.primitives.gather import windows
from xpr.primitives.gather.bounds_checks import INDEX, outside
from xpr.primitives.gather.dimension_checks import check_gather, check_numbers, check_scatter
from xpr.primitives.gather.lowering import combiner, lower_gather, scatter_lowering
from xpr.primitives.gather.sharding import (
    gather_collectives,
    gather_sharding,
    scatter_collectives,
    scatter_sharding,
    scatter_summed,
)
from xpr.primitives.gather.windows import (
    CLIP,
    FILL_OR_DROP,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    fill_of,
    shifted,
)
from xpr.primitives.shapes import (
    broadcast_in_dim,
    full,
    instantiate,
    mapped_to,
    reshape,
    to_front,
    transpose,
    zeros_like_aval,
)
from xpr.primitives.slicing import broadcasted_iota, select, select_n, slice_

__all__ = ["gather", "gather_p", "scatter_add", "scatter_add_p", "scatter_sub", "scatter_sub_p"]


def _batched_numbers(
    numbers: GatherDimensionNumbers, operand_mapped: bool, indices_mapped: bool
) -> GatherDimensionNumbers:
    """The dimension numbers once a mapped axis is added in front of the operand, the indices, or both."""
    offset, collapsed, mapped, batching, indices_batching = numbers
    offset = shifted(offset)
    if operand_mapped:
        collapsed, mapped, batching = shifted(collapsed), shifted(mapped), shifted(batching)
    if indices_mapped:
        indices_batching = shifted(indices_batching)
    if operand_mapped and indices_mapped:
        batching, indices_batching = (0, *batching), (0, *indices_batching)
    elif operand_mapped:
        offset = (0, *offset)
    return GatherDimensionNumbers(offset, collapsed, mapped, batching, indices_batching)


# -- gather


def _gather_abstract(
    avals: Sequence[ShapedArray], *, dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...], **_: Any
) -> list[ShapedArray]:
    operand, indices = avals
    check_gather(dimension_numbers, operand, indices, slice_sizes)
    return [operand.update(shape=windows.result_shape(dimension_numbers, operand.shape, indices.shape, slice_sizes))]


def _gather_reference(
    values: Sequence[Any], *, dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...],
    mode: GatherScatterMode, fill_value: Any, **_: Any,
) -> list[Any]:  # fmt: skip
    operand, indices = np.asarray(values[0]), windows.signed(values[1])
    inside = windows.inside(dimension_numbers, operand.shape, indices, slice_sizes)
    if inside.all():
        return [windows.read(operand, dimension_numbers, indices, slice_sizes)]
    starts = windows.clipped(dimension_numbers, operand.shape, indices, slice_sizes)
    result = windows.read(operand, dimension_numbers, starts, slice_sizes)
    if mode is not FILL_OR_DROP:
        return [result]
    chosen = windows.broadcast_to_result(inside, dimension_numbers, operand.shape, slice_sizes, indices.shape[-1])
    return [np.where(chosen, result, fill_of(operand.dtype, fill_value))]


def _gather_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, fill_value: Any, **params: Any) -> Any:
    out = gather_p.bind(*primals, fill_value=fill_value, **params)
    if type(tangents[0]) is Zero:
        return [out], [Zero.from_primal_value(out)]
    return [out], [gather_p.bind(tangents[0], primals[1], fill_value=0, **params)]


def _gather_transpose(
    cts: Sequence[Any], operands: Sequence[Any], *, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...], fill_value: Any, **params: Any,
) -> list[Any]:  # fmt: skip
    operand, indices = operands
    if _takes_one(dimension_numbers, slice_sizes, operand.aval, aval_of(indices)):
        return [_put_one(cts[0], indices, dimension_numbers, operand.aval, params["mode"]), None]
    nothing = zeros_like_aval(operand.aval)
    numbers = windows.scatter_of(dimension_numbers)
    return [scatter_add_p.bind(nothing, indices, cts[0], dimension_numbers=numbers, **params), None]


_SHORT_ROW = 1024  # for longer ones a scatter is faster, which in a loop adds to the accumulated cotangents in place


def _takes_one(
    numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...], operand: ShapedArray, indices: ShapedArray
) -> bool:
    """Whether one element is read of each short row, along one axis: the score of each example's class."""
    if len(numbers.start_index_map) != 1 or indices.dtype not in (dtypes.int32, dtypes.int64):
        return False
    (axis,), rows = numbers.start_index_map, numbers.operand_batching_dims
    n_rows = math.prod(indices.shape[d] for d in numbers.start_indices_batching_dims)
    reads_one = slice_sizes[axis] == 1 and math.prod(indices.shape) == n_rows > 0
    return reads_one and len(rows) == operand.ndim - 1 and surely_below(operand.shape[axis], _SHORT_ROW + 1)


def _put_one(
    ct: Any, indices: Any, numbers: GatherDimensionNumbers, operand: ShapedArray, mode: GatherScatterMode
) -> Any:
    """Each row's cotangent where its element was read, zero elsewhere.

    It is written element by element, in one pass that fuses with its readers; a scatter is two, and one of XLA's
    slowest.
    """
    (axis,), rows = numbers.start_index_map, numbers.operand_batching_dims
    order = np.argsort(numbers.start_indices_batching_dims).tolist()  # in which the indices have the rows' axes

    def by_rows(x: Any) -> Any:
        return transpose(reshape(x, [operand.shape[rows[i]] for i in order]), np.argsort(order).tolist())

    row_indices = by_rows(indices)
    dtype = aval_of(row_indices).dtype
    if mode is CLIP:
        row_indices = clamp(np.zeros((), dtype), row_indices, np.asarray(operand.shape[axis] - 1, dtype))
    is_selected = eq(broadcasted_iota(dtype, operand.shape, axis), broadcast_in_dim(row_indices, operand.shape, rows))
    filled = broadcast_in_dim(by_rows(ct), operand.shape, rows)
    return select_n(is_selected, full(operand.shape, 0, aval_of(ct).dtype), filled)


def _gather_batch(
    size: int, values: Sequence[Any], dims: Sequence[int | None], *, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...], indices_are_sorted: bool, unique_indices: bool, **params: Any,
) -> Any:  # fmt: skip
    (operand, indices), (dim, indices_dim) = values, dims
    aval = aval_of(operand)
    if dim is not None and indices_dim is not None and size == 0:
        row = aval.shape[:dim] + aval.shape[dim + 1 :]
        each = tuple(n for i, n in enumerate(aval_of(indices).shape) if i != indices_dim)
        return [full((0, *windows.result_shape(dimension_numbers, row, each, slice_sizes)), 0, aval.dtype)], [0]
    if dim is not None:
        operand = to_front(operand, dim)
        slice_sizes = (size if indices_dim is None else 1, *slice_sizes)
    if indices_dim is not None:
        indices = to_front(indices, indices_dim)
        indices_are_sorted = False
        unique_indices = unique_indices and dim is not None
    numbers = _batched_numbers(dimension_numbers, dim is not None, indices_dim is not None)
    flags = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices}
    out = gather_p.bind(operand, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **flags, **params)
    return [out], [0]


def _gather_hazard(
    values: Sequence[Any], *, dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...], **_: Any
) -> tuple[Any, list[Any]]:
    """Whether a window is partly out of bounds."""
    operand, indices = values
    shape, indices_shape = aval_of(operand).shape, aval_of(indices).shape
    columns = []
    for i, axis in enumerate(dimension_numbers.start_index_map):
        last = len(indices_shape) - 1
        column = slice_(indices, (*[0] * last, i), (*indices_shape[:-1], i + 1))
        columns.append((column, shape[axis] - slice_sizes[axis], axis))
    return outside(columns)


def _gather_flops(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, mode: GatherScatterMode, **params: Any
) -> int:
    """Each index is compared with both ends, both with `and`, those of a window reduced; then elements are selected.

    Only filling windows out of bounds takes this.
    """
    return 4 * operands[1].size + results[0].size if mode is FILL_OR_DROP else 0


gather_p = register(
    Primitive(
        "gather",
        fusion="expensive",
        flops=_gather_flops,
        bytes_moved=reading,
        abstract=_gather_abstract,
        params=("dimension_numbers", "slice_sizes", "indices_are_sorted", "unique_indices", "mode", "fill_value"),
        reference=_gather_reference,
        lower=lower_gather,
        jvp=_gather_jvp,
        transpose=_gather_transpose,
        batch=_gather_batch,
        exact=True,
        any_params=True,  # `fill_value`
        physical="moved",
        hazard=(INDEX, _gather_hazard),
        sharding=gather_sharding,
        collectives=gather_collectives,
    )
)


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """Windows of an array, all of one size, that begin at given indices.

    Args:
      operand: an array.
      start_indices: integers; the last axis holds, for each window, its starts along `start_index_map`.
      dimension_numbers: the roles of axes, `GatherDimensionNumbers`.
      slice_sizes: the size of a window along every axis of the operand.
      unique_indices: a promise that no two windows overlap, which makes the transpose faster.
      indices_are_sorted: a promise that the starts are sorted.
      mode: for windows that are partly out of bounds, see `GatherScatterMode`; None to promise that
        there are none.
      fill_value: a number that fills windows out of bounds, which may be traced; None for nan, the least number of
        signed integers and the greatest of unsigned ones.

    Returns:
      An array with the axes of the windows and of the indices, as the dimension numbers say.

    Raises:
      TypeError: shapes and dimension numbers don't fit together.
      ValueError: `fill_value` has an axis.

    >>> from xpr import lax, numpy as jnp
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(jnp.array([[1, 2], [3, 4]]), jnp.array([[1], [1]]), rows, slice_sizes=(1, 2))
    Array([[3, 4],
           [3, 4]], dtype=int32)
    """
    numbers, sizes = windows.tupled(dimension_numbers), tuple(map(as_size, slice_sizes))
    aval, indices = aval_of(operand), aval_of(start_indices)
    if 0 in indices.shape[:-1] and len(sizes) == aval.ndim:  # no windows at all, which may then be of any size
        check_numbers("gather", numbers, aval, indices, len(numbers.offset_dims) + indices.ndim - 1)
        return full(windows.result_shape(numbers, aval.shape, indices.shape, sizes), 0, aval.dtype)
    return gather_or_fill(
        operand,
        start_indices,
        dimension_numbers=numbers,
        slice_sizes=sizes,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode),
        fill_value=fill_value,
    )


def gather_or_fill(operand: Any, indices: Any, *, mode: GatherScatterMode, fill_value: Any, **params: Any) -> Any:
    """A gather whose fill value may be traced: where windows are out of bounds, it is selected instead of them."""
    if mode is not FILL_OR_DROP or not isinstance(fill_value, Tracer) or fill_value.aval.ndim:
        return gather_p.bind(operand, indices, mode=mode, fill_value=windows.static_fill(fill_value), **params)
    aval = aval_of(operand)
    inside = gather_p.bind(full(aval.shape, True, dtypes.bool_), indices, mode=mode, fill_value=False, **params)
    windows_inside = gather_p.bind(operand, indices, mode=mode, fill_value=0, **params)
    fill = broadcast_in_dim(convert_element_type(fill_value, aval.dtype), aval_of(windows_inside).shape, ())
    return select(inside, windows_inside, fill)


# -- What the scatters share. Their updates have the layout of what a gather with the same numbers reads.


def _windows_of(
    operand: Any, updates: Any, numbers: ScatterDimensionNumbers
) -> tuple[GatherDimensionNumbers, tuple[int, ...]]:
    return windows.gather_of(numbers, aval_of(operand).shape, aval_of(updates).shape)


def read_back(x: Any, indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, **params: Any) -> Any:
    """The elements of `x` where a scatter writes `updates`; zero elsewhere."""
    numbers, sizes = _windows_of(x, updates, dimension_numbers)
    return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=sizes, fill_value=0, **params)


def _scatter_abstract(name: str, over: frozenset[np.dtype], keys: bool) -> Callable[..., list[ShapedArray]]:
    def abstract(
        avals: Sequence[ShapedArray], *, dimension_numbers: ScatterDimensionNumbers, **_: Any
    ) -> list[ShapedArray]:
        operand, indices, updates = avals
        if operand.dtype != updates.dtype or (operand.dtype not in over and not (keys and is_key(operand))):
            raise TypeError(
                f"{name}: operand {operand.str_short()} and updates {updates.str_short()} must have one dtype"
                f"{', a numeric one' if dtypes.bool_ not in over else ''}. Convert with .astype() first."
            )
        check_scatter(name, dimension_numbers, operand, indices, updates)
        return [operand]

    return abstract


def _scatter_reference(ufunc: np.ufunc | None) -> Callable[..., list[Any]]:
    def reference(
        values: Sequence[Any], *, dimension_numbers: ScatterDimensionNumbers, mode: GatherScatterMode, **_: Any
    ) -> list[Any]:
        operand, indices, updates = np.asarray(values[0]), windows.signed(values[1]), np.asarray(values[2])
        if not updates.size:
            return [operand]
        numbers, sizes = windows.gather_of(dimension_numbers, operand.shape, updates.shape)
        valid = None
        if mode is CLIP:
            indices = windows.clipped(numbers, operand.shape, indices, sizes)
        else:
            valid = windows.inside(numbers, operand.shape, indices, sizes)
            valid = None if valid.all() else valid
        return [windows.write(ufunc, operand, numbers, indices, sizes, updates, valid)]

    return reference


def _scatter_hazard(
    values: Sequence[Any], *, dimension_numbers: ScatterDimensionNumbers, **_: Any
) -> tuple[Any, list[Any]]:
    """Whether a window is partly out of bounds."""
    operand, indices, updates = values
    numbers, sizes = _windows_of(operand, updates, dimension_numbers)
    return _gather_hazard([operand, indices], dimension_numbers=numbers, slice_sizes=sizes)


def scatter_batch(bind: Callable[..., Any]) -> Callable[..., Any]:
    """The batching rule of a scatter that `bind` applies."""

    def batch(
        size: int, values: Sequence[Any], dims: Sequence[int | None], *, dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool, unique_indices: bool, **params: Any,
    ) -> Any:  # fmt: skip
        operand, indices, updates = values
        operand, updates = mapped_to(operand, dims[0], size), mapped_to(updates, dims[2], size)
        if size == 0:
            return [operand], [0]
        if dims[1] is not None:
            indices = to_front(indices, dims[1])
            one_each = aval_of(indices).ndim == 2  # a single window in each row, so still sorted by row
            indices_are_sorted, unique_indices = one_each, unique_indices or one_each
        numbers = _batched_numbers(GatherDimensionNumbers(*dimension_numbers), True, dims[1] is not None)
        flags = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices}
        return [bind(operand, indices, updates, dimension_numbers=windows.scatter_of(numbers), **flags, **params)], [0]

    return batch


def scattering(
    name: str,
    operation: str | None,
    ufunc: np.ufunc | None,
    jvp: Any,
    transpose: Any,
    over: frozenset[np.dtype] = dtypes.NUMBERS,
    physical: Literal["moved"] | None = None,
    adds: bool = False,
) -> Primitive:
    """A scatter primitive that combines elements by `operation` of StableHLO and `ufunc` of NumPy.

    One that `adds` may leave sums over shards of the updates undone.
    """
    optional = ["unreduced"] if adds else []
    primitive = register(
        Primitive(
            name,
            abstract=_scatter_abstract(name, over, physical is not None),
            params=("dimension_numbers", "indices_are_sorted", "unique_indices", "mode", *optional),
            reference=_scatter_reference(ufunc),
            lower=scatter_lowering(combiner(operation), operation),
            jvp=jvp,
            transpose=transpose,
            batch=scatter_batch(lambda *args, **params: primitive.bind(*args, **params)),
            exact=True,
            hazard=(INDEX, _scatter_hazard),
            flops=per_update if operation else None,
            bytes_moved=updating_each,
            physical=physical,
            sharding=scatter_sharding,
            collectives=scatter_collectives,
            summed=scatter_summed if adds else None,
            optional=optional,
        )
    )
    return primitive


def scatter_function(primitive: Primitive, doc: str) -> Callable[..., Any]:
    """The function that users call."""
    bind = primitive.bind

    def function(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        return bind(
            operand,
            scatter_indices,
            updates,
            dimension_numbers=windows.tupled(dimension_numbers),
            indices_are_sorted=bool(indices_are_sorted),
            unique_indices=bool(unique_indices),
            mode=GatherScatterMode.from_any(mode),
        )

    function.__name__ = function.__qualname__ = primitive.name.replace("-", "_")
    function.__doc__ = doc
    function.__module__ = __name__
    return function


ARGUMENTS = """

    Args:
      operand: an array.
      scatter_indices: integers; the last axis holds, for each window, its starts along `scatter_dims_to_operand_dims`.
      updates: an array of the operand's dtype, with the shape of a gather with the same dimension numbers.
      dimension_numbers: the roles of axes, `ScatterDimensionNumbers`.
      indices_are_sorted: a promise that the starts are sorted.
      unique_indices: a promise that no two windows overlap.
      mode: for windows that are partly out of bounds, see `GatherScatterMode`; None to drop them.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: shapes, dtypes and dimension numbers don't fit together.
"""


# -- scatter_add, scatter_sub


def _adding_jvp(find: Callable[[], Primitive]) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        primitive = find()
        out = primitive.bind(*primals, **params)
        operand_dot, _, updates_dot = tangents
        if type(updates_dot) is Zero:
            return [out], [operand_dot]
        return [out], [primitive.bind(instantiate(operand_dot), primals[1], updates_dot, **params)]

    return jvp


def _adding_transpose(back: Callable[[Any], Any]) -> Callable[..., list[Any]]:
    def transpose(
        cts: Sequence[Any], operands: Sequence[Any], *, unreduced: Sequence[Any] = (), **params: Any
    ) -> list[Any]:
        """The cotangent is reduced where the result is unreduced."""
        (ct,), (operand, indices, updates) = cts, operands
        updates_ct = back(read_back(ct, indices, updates, **params)) if is_linear(updates) else None
        return [ct if is_linear(operand) else None, None, updates_ct]

    return transpose


scatter_add_p = scattering(
    "scatter-add",
    "stablehlo.add",
    np.add,
    jvp=_adding_jvp(lambda: scatter_add_p),
    transpose=_adding_transpose(lambda ct: ct),
    adds=True,
)
scatter_add = scatter_function(
    scatter_add_p,
    f"""Adds updates to windows of an array; where several windows overlap, all of them.{ARGUMENTS}
    >>> from xpr import lax, numpy as jnp
    >>> dnums = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter_add(jnp.zeros(3), jnp.array([[1], [1], [7]]), jnp.ones(3), dnums)
    Array([0., 2., 0.], dtype=float32)
    """,
)

scatter_sub_p = scattering(
    "scatter-sub",
    "stablehlo.subtract",
    np.subtract,
    jvp=_adding_jvp(lambda: scatter_sub_p),
    transpose=_adding_transpose(neg),
    adds=True,
)
scatter_sub = scatter_function(
    scatter_sub_p,
    f"""Subtracts updates from windows of an array; where several windows overlap, all of them.{ARGUMENTS}
    >>> from xpr import lax, numpy as jnp
    >>> dnums = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter_sub(jnp.zeros(3), jnp.array([[1], [1], [7]]), jnp.ones(3), dnums)
    Array([ 0., -2.,  0.], dtype=float32)
    """,
)
