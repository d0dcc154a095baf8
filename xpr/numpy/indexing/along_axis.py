"""Gathers and scatters along one axis by computed indices, which sorting, searching and counting are written with.

The indices are known to be in bounds, but for those of `added_at`, where values at indices out of bounds are dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.primitives.cumulative import cumsum
from xpr.primitives.dimension_values import size_as
from xpr.primitives.elementwise import convert_element_type, sub
from xpr.primitives.gather.gather_scatter import gather_p, scatter_add_p
from xpr.primitives.gather.scatter import scatter_p
from xpr.primitives.gather.windows import (
    FILL_OR_DROP,
    PROMISE_IN_BOUNDS,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    tupled,
)  # fmt: skip
from xpr.primitives.shapes import broadcast_in_dim, expand_dims, full
from xpr.primitives.slicing import broadcasted_iota, select
from xpr.primitives.true_indices import true_indices as true_indices_along_rows

_POINTS = tupled(ScatterDimensionNumbers((), (0,), (0,)))


def read(x: Any, indices: Any, axis: int = 0, *, indices_are_sorted: bool = False) -> Any:
    """The elements of `x` at `indices` along an axis, which becomes the axes of `indices`."""
    shape, count = aval_of(x).shape, aval_of(indices).ndim
    offsets = [i if i < axis else i + count - 1 for i in range(len(shape)) if i != axis]
    return gather_p.bind(
        x,
        expand_dims(indices, [count]),
        dimension_numbers=tupled(GatherDimensionNumbers(tuple(offsets), (axis,), (axis,))),
        slice_sizes=tuple(1 if i == axis else n for i, n in enumerate(shape)),
        indices_are_sorted=indices_are_sorted,
        unique_indices=False,
        mode=PROMISE_IN_BOUNDS,
        fill_value=None,
    )


def read_rows(x: Any, indices: Any, axis: int) -> Any:
    """For each row along an axis, its elements at that row's indices; the other axes of both agree."""
    ndim = aval_of(x).ndim
    others = tuple(i for i in range(ndim) if i != axis)
    return gather_p.bind(
        x,
        expand_dims(indices, [ndim]),
        dimension_numbers=tupled(GatherDimensionNumbers((), (axis,), (axis,), others, others)),
        slice_sizes=(1,) * ndim,
        indices_are_sorted=False,
        unique_indices=False,
        mode=PROMISE_IN_BOUNDS,
        fill_value=None,
    )


def added_at(length: int, indices: Any, values: Any) -> Any:
    """`length` zeros, with each value added at its index (both are vectors); indices out of bounds are dropped."""
    return _written(scatter_add_p, full((length,), 0, aval_of(values).dtype), indices, values, False)


def put_at(x: Any, indices: Any, values: Any) -> Any:
    """The vector `x` with values set at distinct indices; those out of bounds are dropped."""
    return _written(scatter_p, x, indices, values, True)


def true_indices(mask: Any, size: Any, fill_value: Any) -> Any:
    """The indices of the first `size` true elements of a vector; `fill_value` where there are fewer."""
    n = aval_of(mask).size
    if not any(map(is_symbolic_dim, (n, size, fill_value))) and 0 <= fill_value <= dtypes.iinfo(dtypes.int32).max:
        return true_indices_along_rows(mask, size, fill_value)
    ranks = sub(cumsum(convert_element_type(mask, np.int32), 0), np.int32(1))
    beyond, missing = (size_as(each, dtypes.int32) for each in (size, fill_value))
    targets = select(mask, ranks, broadcast_in_dim(beyond, (n,), ()))
    return put_at(broadcast_in_dim(missing, (size,), ()), targets, broadcasted_iota(np.int32, (n,), 0))


def _written(primitive: Any, x: Any, indices: Any, values: Any, unique: bool) -> Any:
    return primitive.bind(
        x,
        expand_dims(indices, [1]),
        values,
        dimension_numbers=_POINTS,
        indices_are_sorted=False,
        unique_indices=unique,
        mode=FILL_OR_DROP,
    )
