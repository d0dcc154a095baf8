"""argmax and argmin: the index of the greatest or least element along an axis; the first of several, nan before all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import native
from xpr.backend.communication import Collective
from xpr.backend.mlir_text import int_array
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dimensions.expressions import surely_at_least
from xpr.dtypes import BOOL, FLOATS, INTEGERS, REAL, greatest, least, short_name
from xpr.primitives import native_calls
from xpr.primitives.communication import of_reduced_axes
from xpr.primitives.comparison_lowering import is_nan, lower_comparison
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.flops import reducing
from xpr.primitives.reduction_lowering import lower_reduction
from xpr.primitives.shapes import axis_number, kept_dim, reduced, shifted_axes
from xpr.primitives.sharding_rules import parts_of, without

__all__ = ["argmax", "argmax_p", "argmin", "argmin_p"]

# -- Typing


def _abstract(name: str) -> Callable[..., list[ShapedArray]]:
    def abstract(avals: Sequence[ShapedArray], *, axes: tuple[int, ...], index_dtype: np.dtype) -> list[ShapedArray]:
        (aval,) = avals
        if aval.dtype not in REAL | BOOL:
            raise TypeError(f"{name}: takes real numbers and booleans, and got {aval.str_short()}.")
        if index_dtype not in INTEGERS:
            raise TypeError(f"{name}: index_dtype must be an integer type, and is {short_name(index_dtype)}.")
        result = reduced(aval, axes)
        if len(axes) != 1 or not aval.shape[axes[0]]:
            raise ValueError(
                f"{name}: argmax and argmin require non-empty reduced dimension, one alone; got {aval.str_short()} and "
                f"axes {axes}."
            )
        return [ShapedArray(result.shape, index_dtype)]

    return abstract


# -- Lowering

# One reduction of pairs (value, index) takes XLA:CPU 1.2 to 3 ms for f32[1000000], since it is not vectorized. Finding
# the maximum of all but nans, and then its least index takes 0.4 to 0.7 ms. Over axes this short the former is faster.
# NumPy's functions take 0.1 ms, where rows are contiguous and so long as this.
_SHORT = 32
_LONG_ROW = 256  # bytes
_MANY = (
    256  # contiguous elements, of which NumPy finds the maximum sooner than XLA where an operation is called eagerly
)


def _lower(name: str, direction: str, operation: str, start: Callable[[np.dtype], Any]) -> Callable[..., list[Value]]:
    def lower(
        b: Builder, operands: list[Value], avals: list[ShapedArray], *, axes: tuple[int, ...], index_dtype: np.dtype
    ) -> list[Value]:
        (x,), (axis,) = operands, axes
        first = np.asarray(start(x.aval.dtype), x.aval.dtype)[()]
        if axis == x.aval.ndim - 1 and native_calls.are_possible(b, x.aval) and _is_long_row(x.aval):
            return [_lower_natively(b, x, avals[0], name)]
        if b.platform == "cpu" and surely_at_least(x.aval.shape[axis], _SHORT + 1):
            return [_lower_in_two(b, x, avals[0], axis, operation, first)]
        return [_lower_in_pairs(b, x, avals[0], axis, direction, first)]

    return lower


def _is_long_row(aval: ShapedArray) -> bool:
    return aval.shape[-1] * aval.dtype.itemsize >= _LONG_ROW and aval.size > 0


def _lower_natively(b: Builder, x: Value, result: ShapedArray, name: str) -> Value:
    """Calls NumPy's function for each row; dtypes for which that is slow, of 16 bits and fewer, are converted."""
    if x.aval.dtype not in native.INDEXED:
        x = b.convert(x, dtypes.float32 if x.aval.dtype in FLOATS else dtypes.int8)
    rows, n = native_calls.rows_of(x)
    wide = dtypes.int64 if n > dtypes.iinfo(dtypes.int32).max or result.dtype.itemsize > 4 else dtypes.int32
    sizes = [rows, n, x.aval.dtype.itemsize, native.index_function(name, x.aval.dtype), int(wide == dtypes.int64)]
    (index,) = native_calls.call(b, native.INDEX, sizes, [x], [result.update(dtype=wide)])
    return b.convert(index, result.dtype)


def _either(b: Builder, x: Value, y: Value) -> Value:
    return b.op("stablehlo.or", [x, y], x.aval)


def _both(b: Builder, x: Value, y: Value) -> Value:
    return b.op("stablehlo.and", [x, y], x.aval)


def _indices(b: Builder, x: Value, axis: int, dtype: np.dtype) -> Value:
    return b.op("stablehlo.iota", [], ShapedArray(x.aval.shape, dtype), f"iota_dimension = {axis} : i64")


def _lower_in_two(b: Builder, x: Value, result: ShapedArray, axis: int, operation: str, first: Any) -> Value:
    """The least index of the elements that equal the maximum (or minimum); that of a nan counts as negative."""
    best = b.fusion_barrier(lower_reduction(b, x, reduced(x.aval, [axis]), [axis], operation, first))
    kept = [i for i in range(x.aval.ndim) if i != axis]
    attains = lower_comparison(b, x, b.broadcast(best, x.aval.shape, kept), "EQ")
    length, beyond = x.aval.shape[axis], dtypes.iinfo(dtypes.int32).max
    indices = _indices(b, x, axis, dtypes.int32)
    chosen = b.op("stablehlo.select", [attains, indices, b.constant(beyond, indices.aval)], indices.aval)
    if x.aval.dtype in FLOATS:
        negative = b.op("stablehlo.subtract", [indices, b.constant(length, indices.aval)], indices.aval)
        chosen = b.op("stablehlo.select", [is_nan(b, x), negative, chosen], indices.aval)
    least_index = lower_reduction(
        b, chosen, result.update(dtype=dtypes.int32), [axis], "stablehlo.minimum", np.int32(beyond)
    )
    nan_index = b.op("stablehlo.add", [least_index, b.constant(length, least_index.aval)], least_index.aval)
    has_nan = lower_comparison(b, least_index, b.constant(0, least_index.aval), "LT")
    return b.convert(b.op("stablehlo.select", [has_nan, nan_index, least_index], least_index.aval), result.dtype)


def _lower_in_pairs(b: Builder, x: Value, result: ShapedArray, axis: int, direction: str, first: Any) -> Value:
    """A reduction of pairs (value, index): by XLA:CPU in order; elsewhere in any, so nan may be compared with nan."""
    b.module.work.has_hot_loops = True
    b.module.work.add_reduction((direction, x.aval, axis), x.aval.shape[axis])
    in_order = b.platform == "cpu" or x.aval.dtype not in FLOATS
    value, index = ShapedArray((), x.aval.dtype), ShapedArray((), result.dtype)

    def better(inner: Builder, args: list[Value]) -> list[Value]:
        x, i, y, j = args
        first_is_nan = is_nan(inner, x)
        wins = _either(inner, lower_comparison(inner, x, y, direction), first_is_nan)
        tie = _both(inner, lower_comparison(inner, x, y, "EQ"), lower_comparison(inner, i, j, "LT"))
        is_chosen = _either(inner, wins, tie)
        if not in_order:
            both_are_nan = _both(inner, first_is_nan, is_nan(inner, y))
            is_second = _both(inner, both_are_nan, lower_comparison(inner, i, j, "GT"))
            is_chosen = _both(inner, is_chosen, inner.op("stablehlo.not", [is_second], is_second.aval))
        return [
            inner.op("stablehlo.select", [wins, x, y], value), inner.op("stablehlo.select", [is_chosen, i, j], index)
        ]  # fmt: skip

    return b.ops(
        "stablehlo.reduce",
        [x, _indices(b, x, axis, result.dtype), b.constant(first, value), b.constant(0, index)],
        [result.update(dtype=x.aval.dtype), result],
        f"dimensions = {int_array([axis])}",
        [b.region([value, index, value, index], better)],
    )[1]


# -- The primitives


def _faster_in_numpy(avals: Sequence[ShapedArray], *, axes: tuple[int, ...], index_dtype: np.dtype) -> bool:
    """NumPy is faster where many elements are contiguous; else it is far slower."""
    (aval,) = avals
    contiguous = axes[0] == aval.ndim - 1 and aval.shape[-1] >= _MANY
    return contiguous and aval.dtype.kind in "biuf" and aval.dtype != dtypes.float16


def _collectives(operands: Any, results: Any, sizes: Any, *, axes: tuple[int, ...], **_: Any) -> list[Collective]:
    """Reductions over the devices' parts: of their maxima or minima, and of the indices of these."""
    of_values = [results[0].update(dtype=operands[0].dtype)]
    kinds = (of_values, results)
    return [collective for outs in kinds for collective in of_reduced_axes(operands, outs, sizes, axes=axes)]


def arg_reduction(
    name: str, *, direction: str, lowers_to: str, start: Callable[[np.dtype], Any], reference: Callable[..., Any]
) -> Primitive:
    """argmax or argmin: `direction` is how the result compares with other elements; the rest is as in reductions.py."""

    def along(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        return [out], [Zero.from_primal_value(out)]

    def find(values: Sequence[Any], *, axes: tuple[int, ...], index_dtype: np.dtype) -> list[Any]:
        return [np.asarray(reference(values[0], axes[0])).astype(index_dtype)]

    def batch(size: int, values: Sequence[Any], dims: Sequence[int], *, axes: tuple[int, ...], index_dtype: Any) -> Any:
        (x,), (dim,) = values, dims
        return [primitive.bind(x, axes=shifted_axes(axes, dim), index_dtype=index_dtype)], [kept_dim(axes, dim)]

    primitive = register(
        Primitive(
            name,
            abstract=_abstract(name),
            reference=find,
            lower=_lower(name, direction, lowers_to, start),
            jvp=along,
            transpose=Unsupported(NOT_LINEAR),
            batch=batch,
            exact=True,
            faster_in_numpy=_faster_in_numpy,
            sharding=lambda avals, outs, *, axes, **params: [without(parts_of(avals[0]), axes)],
            flops=reducing,
            collectives=_collectives,
        )
    )
    return primitive


argmax_p = arg_reduction("argmax", direction="GT", lowers_to="stablehlo.maximum", start=least, reference=np.argmax)
argmin_p = arg_reduction("argmin", direction="LT", lowers_to="stablehlo.minimum", start=greatest, reference=np.argmin)


def _checked_axis(name: str, operand: Any, axis: int) -> int:
    aval, axis = aval_of(operand), axis_number(axis)
    if not 0 <= axis < aval.ndim:
        raise ValueError(
            f"{name}: Invalid axis {axis} for operand {aval.str_short()}, whose axes are counted from the front."
        )
    return axis


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the maximum along an axis; of equal ones the first, and nan counts as the maximum.

    Args:
      operand: an array of real numbers or booleans.
      axis: the axis, counted from the front.
      index_dtype: the integer dtype of the result.

    Returns:
      Integers of the shape of `operand` without the axis.

    Raises:
      TypeError: the operand is complex, or `index_dtype` is not an integer dtype.
      ValueError: there is no such axis, or it has no elements.

    >>> from xpr import lax, numpy as jnp
    >>> lax.argmax(jnp.array([[1, 4, 4], [3, 2, 0]]), 1, jnp.int32)
    Array([1, 0], dtype=int32)
    """
    axis = _checked_axis("argmax", operand, axis)
    return argmax_p.bind(operand, axes=(axis,), index_dtype=dtypes.requested(index_dtype))


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the minimum along an axis; of equal ones the first, and nan counts as the minimum.

    Args:
      operand: an array of real numbers or booleans.
      axis: the axis, counted from the front.
      index_dtype: the integer dtype of the result.

    Returns:
      Integers of the shape of `operand` without the axis.

    Raises:
      TypeError: the operand is complex, or `index_dtype` is not an integer dtype.
      ValueError: there is no such axis, or it has no elements.

    >>> from xpr import lax, numpy as jnp
    >>> lax.argmin(jnp.array([[1, 0, 0], [3, 2, 4]]), 1, jnp.int32)
    Array([1, 1], dtype=int32)
    """
    axis = _checked_axis("argmin", operand, axis)
    return argmin_p.bind(operand, axes=(axis,), index_dtype=dtypes.requested(index_dtype))
