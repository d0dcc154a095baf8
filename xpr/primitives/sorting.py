"""Sorting along an axis, selecting by rank, and top_k. The order is that of ordering.py.

Sorting permutes elements, so tangents need only the permutation, which comes from sorting the indices with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import native
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dimensions.expressions import as_size, is_symbolic_dim, surely_at_least
from xpr.dtypes import BOOL, COMPLEX, FLOATS, REAL, float32, float64, int32, int64
from xpr.primitives import native_calls, ordering
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.flops import per_operand, sorting
from xpr.primitives.gather.gather_scatter import gather_p
from xpr.primitives.gather.windows import PROMISE_IN_BOUNDS, GatherDimensionNumbers
from xpr.primitives.shapes import broadcast_in_dim, expand_dims, from_front, full, mapped_to
from xpr.primitives.sharding_rules import along_unsharded
from xpr.primitives.slicing import broadcasted_iota

__all__ = ["order_statistics", "order_statistics_p", "sort", "sort_key_val", "sort_p", "top_k", "top_k_p"]


def _read_rows(x: Any, indices: Any, axis: int) -> Any:
    """For each row along an axis, its elements at that row's indices, which differ."""
    ndim = aval_of(x).ndim
    if not aval_of(x).size:
        return full(aval_of(indices).shape, 0, aval_of(x).dtype)
    others = tuple([i for i in range(ndim) if i != axis])
    return gather_p.bind(
        x,
        expand_dims(indices, [ndim]),
        dimension_numbers=GatherDimensionNumbers((), (axis,), (axis,), others, others),
        slice_sizes=(1,) * ndim,
        indices_are_sorted=False,
        unique_indices=True,
        mode=PROMISE_IN_BOUNDS,
        fill_value=None,
    )


def _moved(tangents: Sequence[Any], outs: Sequence[Any], order: Any, axis: int) -> list[Any]:
    """The tangents of results whose elements come from the indices `order`."""
    return [
        Zero.from_primal_value(out) if type(t) is Zero else _read_rows(t, order, axis) for t, out in zip(tangents, outs)
    ]


# -- sort: rows along `dimension` are put in order by the first `num_keys` operands, the same order for all operands


def _sort_abstract(
    avals: Sequence[ShapedArray], *, dimension: int, is_stable: bool, num_keys: int
) -> list[ShapedArray]:
    types = ", ".join(a.str_short() for a in avals)
    if any(a.shape != avals[0].shape for a in avals):
        raise TypeError(f"sort: the operands must have one shape, and are {types}.")
    if not 0 <= dimension < avals[0].ndim:
        raise ValueError(f"sort: {avals[0].str_short()} has no axis {dimension}.")
    if not 1 <= num_keys <= len(avals):
        raise ValueError(f"sort: num_keys must be from 1 to the number of operands, {len(avals)}, and is {num_keys}.")
    return list(avals)


_SORTED_BY_NUMPY = frozenset({*BOOL, dtypes.float16, dtypes.float32, dtypes.float64}) | {
    np.dtype(f"{kind}{n}") for kind in ("int", "uint") for n in (8, 16, 32, 64)
}


def _sort_reference(values: Sequence[Any], *, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    values = [np.asarray(x) for x in values]
    if len(values) == 1 and values[0].dtype in _SORTED_BY_NUMPY:
        return [np.sort(values[0], dimension)]
    is_last = dimension == values[0].ndim - 1
    rows = values if is_last else [np.moveaxis(x, dimension, -1) for x in values]
    keys = [part for x in rows[:num_keys] for part in ordering.np_real_keys(x)]
    if keys[0].size < 4096 and all(key.dtype in _SORTED_BY_NUMPY for key in keys):  # faster for few elements
        order = np.lexsort(keys[::-1]) if len(keys) > 1 else np.argsort(keys[0], -1, kind="stable")
    else:
        order = ordering.np_order_of([ordering.np_ordered(key) for key in keys])
    outs = [ordering.np_read_rows(x, order) for x in rows]
    return outs if is_last else [np.moveaxis(x, -1, dimension) for x in outs]


def _sort_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, dimension: int, is_stable: bool, num_keys: int
) -> list[Value]:
    if avals[0].size == 0 or avals[0].shape[dimension] == 1:
        return operands
    if len(operands) == 1 and avals[0].dtype not in COMPLEX:
        integers = ordering.ordered(b, operands[0], merge_zeros=False)
        return [ordering.restored(b, ordering.sort_ordered(b, integers, dimension), avals[0])]
    keys = [ordering.ordered(b, part) for x in operands[:num_keys] for part in ordering.real_keys(b, x)]
    order = ordering.order_of(b, keys, dimension)
    return [ordering.read_rows(b, x, order, dimension) for x in operands]


_MANY = 10_000  # elements, that the functions in C sort faster than NumPy; it is up to 20 times faster than XLA


def _sort_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int, **params: Any) -> Any:
    params["dimension"] = dimension
    if all(type(t) is Zero for t in tangents):
        outs = sort_p.bind(*primals, **params)
        return outs, [Zero.from_primal_value(out) for out in outs]
    indices = broadcasted_iota(int32, aval_of(primals[0]).shape, dimension)
    *outs, order = sort_p.bind(*primals, indices, **params)
    return outs, _moved(tangents, outs, order, dimension)


def _sort_batch(
    size: int, values: Sequence[Any], dims: Sequence[int | None], *, dimension: int, is_stable: bool, num_keys: int
) -> Any:
    dim = next(d for d in dims if d is not None)
    rows = [mapped_to(x, d, size, dim) if d != dim else x for x, d in zip(values, dims)]
    outs = sort_p.bind(*rows, dimension=dimension + (dimension >= dim), is_stable=is_stable, num_keys=num_keys)
    return outs, [dim] * len(outs)


sort_p = register(
    Primitive(
        "sort",
        abstract=_sort_abstract,
        reference=_sort_reference,
        lower=_sort_lower,
        jvp=_sort_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=_sort_batch,
        multiple_results=True,
        exact=True,
        faster_in_numpy=lambda avals, **params: avals[0].size < _MANY or not native.available(),
        flops=sorting,
        sharding=lambda avals, outs, *, dimension, **params: along_unsharded(
            avals, outs, dimension, "Arguments to sort must be unsharded"
        ),
    )
)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """One or several arrays sorted along an axis.

    Several arrays are sorted together, by the first `num_keys` of them. The order is -inf to inf, then nan; -0 and 0
    are equal; complex numbers are compared by real, then by imaginary part. Zeros of both signs in a single array are
    in no particular order.

    Args:
      operand: an array, or a sequence of arrays of one shape.
      dimension: the axis.
      is_stable: whether equal keys stay in their order; they always do.
      num_keys: the number of operands that are compared, the first one first.

    Returns:
      The sorted array, or a tuple of them.

    Raises:
      TypeError: the shapes differ.
      ValueError: there is no such axis, or not as many operands as keys.

    >>> from xpr import lax, numpy as jnp
    >>> lax.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    operands = list(operand) if isinstance(operand, (tuple, list)) else [operand]
    if not operands:
        raise TypeError("sort: takes an array, or at least one in a sequence.")
    dimension = from_front(dimension, aval_of(operands[0]).ndim)
    outs = sort_p.bind(*operands, dimension=dimension, is_stable=bool(is_stable), num_keys=num_keys)
    return tuple(outs) if isinstance(operand, (tuple, list)) else outs[0]


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """Keys sorted along an axis, and values of the same shape in the order of their keys.

    Args:
      keys: an array.
      values: an array of the same shape.
      dimension: the axis.
      is_stable: whether equal keys stay in their order; they always do.

    Returns:
      `(sorted keys, values)`.

    Raises:
      TypeError: the shapes differ.
      ValueError: there is no such axis.

    >>> from xpr import lax, numpy as jnp
    >>> lax.sort_key_val(jnp.array([3, 1, 2]), jnp.array([30, 10, 20]))[1]
    Array([10, 20, 30], dtype=int32)
    """
    keys, values = sort((keys, values), dimension, is_stable, 1)
    return keys, values


# -- order_statistics: the elements at known indices, which ascend, of the rows along an axis if they were sorted


def _order_statistics_abstract(avals: Sequence[ShapedArray], *, ranks: tuple[int, ...], axis: int) -> list[ShapedArray]:
    (aval,) = avals
    if aval.dtype not in REAL | BOOL:
        raise TypeError(f"order_statistics: takes real numbers, which have an order, and got {aval.str_short()}.")
    if not 0 <= axis < aval.ndim:
        raise ValueError(f"order_statistics: {aval.str_short()} has no axis {axis}.")
    if list(ranks) != sorted(set(ranks)) or (ranks and not 0 <= ranks[0] <= ranks[-1] < aval.shape[axis]):
        raise ValueError(
            f"order_statistics: ranks must ascend, and be indices along axis {axis} of {aval.str_short()}; they are "
            f"{ranks}."
        )
    return [aval.update(shape=(*aval.shape[:axis], len(ranks), *aval.shape[axis + 1 :]))]


def _order_statistics_reference(values: Sequence[Any], *, ranks: tuple[int, ...], axis: int) -> list[Any]:
    x = np.asarray(values[0])
    if not ranks or x.dtype not in _SORTED_BY_NUMPY:
        (x,) = _sort_reference([x], dimension=axis, is_stable=False, num_keys=1)
    else:
        x = np.partition(x, ranks, axis)
    return [np.take(x, np.array(ranks, int), axis)]


def _order_statistics_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, ranks: tuple[int, ...], axis: int
) -> list[Value]:
    if not avals[0].size:
        return [b.constant(0, avals[0])]
    integers = ordering.ordered(b, operands[0], merge_zeros=False)
    return [ordering.restored(b, ordering.select_ordered(b, integers, ranks, axis), avals[0])]


def _order_statistics_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, ranks: tuple[int, ...], axis: int) -> Any:
    (x,), (t,) = primals, tangents
    if type(t) is Zero:
        out = order_statistics_p.bind(x, ranks=ranks, axis=axis)
        return [out], [Zero.from_primal_value(out)]
    shape = aval_of(x).shape
    sorted_x, order = sort((x, broadcasted_iota(int32, shape, axis)), axis)
    indices = broadcast_in_dim(np.array(ranks, int32), (*shape[:axis], len(ranks), *shape[axis + 1 :]), [axis])
    return [_read_rows(sorted_x, indices, axis)], [_read_rows(t, _read_rows(order, indices, axis), axis)]


def _order_statistics_batch(
    size: int, values: Sequence[Any], dims: Sequence[int], *, ranks: tuple[int, ...], axis: int
) -> Any:
    (dim,) = dims
    return [order_statistics_p.bind(*values, ranks=ranks, axis=axis + (axis >= dim))], [dim]


order_statistics_p = register(
    Primitive(
        "order_statistics",
        abstract=_order_statistics_abstract,
        reference=_order_statistics_reference,
        lower=_order_statistics_lower,
        jvp=_order_statistics_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=_order_statistics_batch,
        exact=True,
        faster_in_numpy=lambda avals, **params: avals[0].size < _MANY or not native.available(),
        flops=per_operand,
        sharding=lambda avals, outs, *, ranks, axis: along_unsharded(avals, outs, axis),
    )
)


def order_statistics(operand: Any, ranks: Sequence[int], axis: int = -1) -> Any:
    """The elements that would be at some indices along an axis if they were sorted, found without sorting on CPU.

    Args:
      operand: an array of real numbers or booleans.
      ranks: the indices, which ascend.
      axis: the axis.

    Returns:
      An array with the size `len(ranks)` along the axis.

    Raises:
      TypeError: the operand is complex.
      ValueError: there is no such axis, or no such index along it, or indices don't ascend.

    >>> from xpr import numpy as jnp
    >>> order_statistics(jnp.array([3.0, 1.0, 2.0]), [0, 2])
    Array([1., 3.], dtype=float32)
    """
    return order_statistics_p.bind(operand, ranks=tuple(ranks), axis=from_front(axis, aval_of(operand).ndim))


# -- top_k: the k greatest elements along an axis, the greatest first, and their indices; of equal ones the first. 0 is
# greater than -0 here.


def _top_k_abstract(avals: Sequence[ShapedArray], *, k: int, axis: int) -> list[ShapedArray]:
    (aval,) = avals
    if aval.dtype not in REAL | BOOL:
        raise TypeError(f"top_k: takes real numbers, which have an order, and got {aval.str_short()}.")
    if not 0 <= axis < aval.ndim:
        raise ValueError(f"top_k: {aval.str_short()} has no axis {axis}.")
    if not 0 <= k <= aval.shape[axis]:
        raise ValueError(f"top_k: k must be from 0 to the size of axis {axis} of {aval.str_short()}, and is {k}.")
    shape = (*aval.shape[:axis], k, *aval.shape[axis + 1 :])
    return [aval.update(shape=shape), ShapedArray(shape, int32, aval.weak_type)]


def _top_k_reference(values: Sequence[Any], *, k: int, axis: int) -> list[Any]:
    x, last = np.asarray(values[0]), np.ndim(values[0]) - 1
    x = x if axis == last else np.moveaxis(x, axis, last)
    order = ordering.np_order_of([~ordering.np_ordered(x, merge_zeros=False)])[..., :k]
    outs = [ordering.np_read_rows(x, order), order]
    return outs if axis == last else [np.moveaxis(out, last, axis) for out in outs]


def _top_k_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, k: int, axis: int) -> list[Value]:
    """Of f32[1000000] the function in C takes 0.1 ms, XLA's own top_k 1.5, a sort 60, where k is 10."""
    (x,) = operands
    if not avals[0].size:
        return [b.constant(0, aval) for aval in avals]
    last = x.aval.ndim - 1
    order = [*(i for i in range(last + 1) if i != axis), axis]
    x = b.transpose(x, order) if axis != last else x
    exact_as_float = x.aval.dtype.itemsize <= 4 or x.aval.dtype in FLOATS
    is_native = native_calls.are_possible(b, x.aval)
    if is_native and k <= max(_FEW, x.aval.shape[last] // _FEW_OF) and x.aval.dtype != dtypes.uint64:
        outs = _found_in_c(b, x, k)
    elif is_native or not exact_as_float or is_symbolic_dim(k):
        outs = _sort_and_slice(b, x, k)
    else:
        outs = _select(b, x, k)
    return [b.transpose(y, [order.index(i) for i in range(last + 1)]) if axis != last else y for y in outs]


_DTYPES_OF_C = (float32, float64, int32, int64)  # by their numbers in backend/c/top_k.c
_FEW, _FEW_OF = 4, 16  # so many are found sooner than all are sorted, or one of so many


def _found_in_c(b: Builder, x: Value, k: int) -> list[Value]:
    """By a function in C, in a dtype to which others convert exactly."""
    dtype = x.aval.dtype
    if dtype in FLOATS:
        wide = float64 if dtype == float64 else float32
    else:
        wide = int64 if dtype in (int64, dtypes.uint32) else int32
    x = b.convert(x, wide)
    shape = (*x.aval.shape[:-1], k)
    results = [x.aval.update(shape=shape), ShapedArray(shape, int32), ShapedArray((2 * k,), int64)]
    sizes = [*native_calls.rows_of(x), k, _DTYPES_OF_C.index(wide)]
    values, indices, _ = native_calls.call(b, native.TOP_K, sizes, [x], results)
    return [b.convert(values, dtype), indices]


def _select(b: Builder, x: Value, k: int) -> list[Value]:
    """Selects in float32 or float64, to which smaller dtypes convert exactly; every nan becomes the same one."""
    dtype = x.aval.dtype
    as_float = b.convert(x, dtypes.float64 if dtype.itemsize * (1 if dtype in FLOATS else 2) > 4 else dtypes.float32)
    if dtype in FLOATS:
        as_float = ordering.with_one_nan(b, as_float)
    shape = (*x.aval.shape[:-1], k)
    results = [as_float.aval.update(shape=shape), ShapedArray(shape, int32)]
    values, indices = b.ops("chlo.top_k", [as_float], results, f"k = {k} : i64")
    return [b.convert(values, dtype), indices]


def _sort_and_slice(b: Builder, x: Value, k: int) -> list[Value]:
    dimension = x.aval.ndim - 1
    key = ordering.ordered(b, x, merge_zeros=False)
    order = ordering.order_of(b, [b.op("stablehlo.not", [key], key.aval)], dimension)
    shape = (*x.aval.shape[:-1], k)
    order = b.slice(order, [0] * len(shape), shape)
    return [ordering.read_rows(b, x, order, dimension), order]


def _top_k_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, k: int, axis: int) -> Any:
    outs = top_k_p.bind(*primals, k=k, axis=axis)
    return outs, [*_moved(tangents, outs[:1], outs[1], axis), Zero(aval_of(outs[1]).to_tangent_aval())]


def _top_k_batch(size: int, values: Sequence[Any], dims: Sequence[int], *, k: int, axis: int) -> Any:
    (dim,) = dims
    return top_k_p.bind(*values, k=k, axis=axis + (axis >= dim)), [dim, dim]


top_k_p = register(
    Primitive(
        "top_k",
        abstract=_top_k_abstract,
        reference=_top_k_reference,
        lower=_top_k_lower,
        jvp=_top_k_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=_top_k_batch,
        multiple_results=True,
        exact=True,
        flops=sorting,
        sharding=lambda avals, outs, *, k, axis: along_unsharded(avals, outs, axis),
    )
)


_MOST_COUNTED = 2**31 - 1


def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[Any, Any]:
    """The k greatest elements along an axis, in descending order, and their indices.

    Of equal elements the first come first; nans come before all others.

    Args:
      operand: an array of real numbers or booleans.
      k: how many; at most the size of the axis.
      axis: the axis.

    Returns:
      `(elements, int32 indices)`, with size `k` along the axis.

    Raises:
      TypeError: the operand is complex.
      ValueError: there is no such axis, or it has fewer than `k` elements, or more than int32 can number.

    >>> from xpr import lax, numpy as jnp
    >>> lax.top_k(jnp.array([1., 3., 2.]), 2)
    (Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
    shape = aval_of(operand).shape
    if -len(shape) <= axis < len(shape) and surely_at_least(shape[axis], _MOST_COUNTED + 1):
        raise ValueError(f"top_k returns int32 indices, which will overflow: axis {axis} has {shape[axis]} elements.")
    values, indices = top_k_p.bind(operand, k=as_size(k), axis=from_front(axis, len(shape)))
    return values, indices
