"""The indices of the true elements of each row, as many as a static size says.

XLA:CPU scatters each index to its rank by itself: 7 to 15 ms for a million booleans, where C takes 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import native
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.primitives import native_calls
from xpr.primitives.comparison_lowering import lower_comparison
from xpr.primitives.cumulative import cumsum_p
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.flops import per_operand
from xpr.primitives.gather.scatter import scatter_p
from xpr.primitives.gather.windows import FILL_OR_DROP, ScatterDimensionNumbers, tupled
from xpr.primitives.shapes import move_axis
from xpr.primitives.sharding_rules import along_unsharded

__all__ = ["true_indices", "true_indices_p"]

_POINTS = tupled(ScatterDimensionNumbers((), (0,), (0,)))


def _abstract(avals: Sequence[ShapedArray], *, size: int, fill_value: int) -> list[ShapedArray]:
    (aval,) = avals
    if aval.dtype != dtypes.bool_ or not aval.ndim:
        raise TypeError(f"true_indices: takes booleans with at least one axis, and got {aval.str_short()}.")
    return [ShapedArray((*aval.shape[:-1], size), dtypes.int32)]


def _reference(values: Sequence[Any], *, size: int, fill_value: int) -> list[Any]:
    (mask,) = values
    result = np.full((*np.shape(mask)[:-1], size), fill_value, np.int32)
    for row in np.ndindex(*np.shape(mask)[:-1]):
        (indices,) = np.nonzero(np.asarray(mask)[row])
        result[row][: len(indices)] = indices[:size]
    return [result]


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, size: int, fill_value: int) -> list[Value]:
    (mask,), (out,) = operands, avals
    if not (size and mask.aval.shape[-1]):
        return [b.constant(fill_value, out)]
    if fill_value >= 0 and native_calls.are_possible(b, mask.aval) and mask.aval.size:
        return native_calls.call(b, native.TRUE_INDICES, [*native_calls.rows_of(mask), size, fill_value], [mask], [out])
    return [_scattered(b, mask, out, size, fill_value)]


def _scattered(b: Builder, mask: Value, out: ShapedArray, size: int, fill_value: int) -> Value:
    """Each true element scatters its index to its rank among those of its row; others go beyond the end."""
    last = mask.aval.ndim - 1
    integers = mask.aval.update(dtype=dtypes.int32)
    (counts,) = cumsum_p.lower(b, [b.convert(mask, dtypes.int32)], [integers], axis=last, reverse=False)
    ranks = b.op("stablehlo.subtract", [counts, b.constant(1, integers)], integers)
    is_kept = b.op("stablehlo.and", [mask, lower_comparison(b, ranks, b.constant(size, integers), "LT")], mask.aval)
    for axis in range(last):  # the rank among all results, those of the rows before come first
        stride = size
        for n in out.shape[axis + 1 : -1]:
            stride = stride * n
        row = b.op("stablehlo.iota", [], integers, f"iota_dimension = {axis} : i64")
        start = b.op("stablehlo.multiply", [row, b.size(stride, integers)], integers)
        ranks = b.op("stablehlo.add", [ranks, start], integers)
    total = out.size
    places = b.op("stablehlo.select", [is_kept, ranks, b.size(total, integers)], integers)
    count = mask.aval.size
    vector = ShapedArray((count,), dtypes.int32)
    indices = b.op("stablehlo.iota", [], integers, f"iota_dimension = {last} : i64")
    written = scatter_p.lower(
        b,
        [b.constant(fill_value, ShapedArray((total,), dtypes.int32)), b.reshape(places, (count, 1)),
         b.reshape(indices, vector.shape)],
        [ShapedArray((total,), dtypes.int32)],
        dimension_numbers=_POINTS, indices_are_sorted=False, unique_indices=True, mode=FILL_OR_DROP,
    )  # fmt: skip
    return b.reshape(written[0], out.shape)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out = true_indices_p.bind(*primals, **params)
    return [out], [Zero.from_primal_value(out)]


def _batch(rows: int, values: Sequence[Any], dims: Sequence[int], /, **params: Any) -> Any:
    (mask,), (dim,) = values, dims
    return [true_indices_p.bind(move_axis(mask, dim, 0), **params)], [0]


true_indices_p = register(
    Primitive(
        "true_indices",
        abstract=_abstract,
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=_batch,
        exact=True,
        flops=per_operand,
        sharding=lambda avals, outs, **params: along_unsharded(avals, outs, avals[0].ndim - 1),
    )
)


def true_indices(mask: Any, size: int, fill_value: int) -> Any:
    """The indices of the first `size` true elements along the last axis.

    Args:
      mask: booleans with at least one axis.
      size: how many, a static integer.
      fill_value: stands in their place where there are fewer, a static integer.

    Returns:
      int32 of the shape of `mask`, with the last axis of `size`.

    Raises:
      TypeError: the mask is not of booleans, or has no axes.

    >>> from xpr import numpy as jnp
    >>> true_indices(jnp.array([True, False, True]), 3, -1)
    Array([ 0,  2, -1], dtype=int32)
    """
    return true_indices_p.bind(mask, size=size, fill_value=fill_value)
