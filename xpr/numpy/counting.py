"""Counting: bincount and histograms in one, two and more dimensions."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.core.specs import axes_of
from xpr.dimensions.expressions import as_size
from xpr.errors import ShardingTypeError
from xpr.numpy import comparisons, creation, ranges, reductions
from xpr.numpy.calculus import diff
from xpr.numpy.concrete import concrete_value
from xpr.numpy.indexing.along_axis import added_at
from xpr.numpy.promotion import as_operand, convert, promote_dtypes, promote_inexact, select_scalar
from xpr.numpy.sorting import searchsorted
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, full, reshape
from xpr.primitives.sharding_constraint import constrain_to, decided, sharding_of
from xpr.primitives.slicing import select, slice_in_dim

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

Bins = Any  # a number of bins, or a vector of their edges


def bincount(
    x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None, out_sharding: Any = None
) -> Any:
    """The number of occurrences of 0, 1, 2, ... in a vector of integers; negative ones count as 0.

    Args:
      x: a vector of integers.
      weights: the weight of each element; None for 1.
      minlength: the least length of the result, without `length`.
      length: the length of the result, needed where `x` is traced; greater elements are not counted.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      A vector of integers, or of the dtype of `weights`.

    Raises:
      ConcretizationTypeError: `x` is traced and there is no `length`.
      TypeError: elements are not integers.
      ValueError: `x` is not a vector, or the weights don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.bincount(jnp.array([1, 1, 3]))
    Array([0, 2, 0, 1], dtype=int32)
    """
    x = as_operand(x)
    aval = aval_of(x)
    if aval.dtype not in dtypes.INTEGERS and aval.dtype != dtypes.bool_:
        raise TypeError(f"bincount: counts integers, and got {aval.str_short()}.")
    if aval.ndim != 1:
        raise ValueError(f"bincount: takes a vector, and got {aval.str_short()}.")
    x = convert(x, dtypes.int32 if aval.dtype.itemsize < 4 else aval.dtype)
    if length is None:
        value = concrete_value(x, "bincount", "Give length=, the length of the result.")
        length = max(int(value.max()) + 1 if value.size else 0, minlength)
    if weights is None:
        ones = full(aval.shape, 1, dtypes.of_python(int))
        weights = constrain_to(ones, aval_of(ones).with_explicit(aval.explicit))
    weights = as_operand(weights)
    weights = convert(weights, aval_of(weights).dtype)
    if aval_of(weights).shape != aval.shape:
        raise ValueError(f"bincount: weights are {aval_of(weights).str_short()}, and the vector is {aval.str_short()}.")
    index = x if aval.dtype in dtypes.UNSIGNED else e.max(x, e.scalar(0, x))
    _refuse_partitions(out_sharding)
    return decided(out_sharding, "bincount", lambda: added_at(as_size(length), index, weights))


def _refuse_partitions(out_sharding: Any) -> None:
    """Raises ShardingTypeError where counts are asked for that are partitioned over Explicit axes of a mesh."""
    if out_sharding is None:
        return
    sharding = sharding_of("bincount", out_sharding)
    if any(name in sharding.mesh.explicit_axes for part in sharding.spec for name in axes_of(part)):
        raise ShardingTypeError(
            f"bincount: out_sharding={out_sharding!r}, and counts can only be fully replicated or fully unreduced: "
            "each device counts elements of all values. Reshard the result: xpr.sharding.reshard(result, P(...))."
        )


def histogram_bin_edges(a: Any, bins: Bins = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of histogram bins of equal width.

    Args:
      a: array of real numbers.
      bins: the number of bins, or their edges, which are then returned.
      range: `(first, last)`; None for the minimum and maximum of `a`.
      weights: not used.

    Returns:
      A vector of floats, one more than bins.

    Raises:
      TypeError: `bins` is neither a number nor edges.
      ValueError: `bins` is less than 1.

    >>> import xpr.numpy as jnp
    >>> jnp.histogram_bin_edges(jnp.array([1.0, 5.0]), bins=2)
    Array([1., 3., 5.], dtype=float32)
    """
    if isinstance(bins, str):
        raise TypeError(f"histogram: bins is {bins!r}; it must be a number of bins, or their edges.")
    a = as_operand(a)
    dtype = dtypes.to_inexact(aval_of(a).dtype)
    if np.ndim(bins) == 1 if not hasattr(bins, "aval") else bins.aval.ndim == 1:
        return convert(creation.asarray(bins), dtype)
    count = operator.index(bins)
    if count < 1:
        raise ValueError(f"histogram: bins is {count}, and must be at least 1.")
    a = convert(a, dtype)
    if range is None:
        low, high = reductions.min(a), reductions.max(a)
    else:
        low, high = (convert(creation.asarray(v), dtype) for v in range)
    half, empty = dtype.type(0.5), comparisons.equal(low, high)
    low, high = (select_scalar(empty, f(v, half), v) for f, v in ((e.sub, low), (e.add, high)))
    return ranges.linspace(low, high, count + 1, dtype=dtype)


def histogram(
    a: Any, bins: Bins = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, Any]:
    """The number of elements in each bin, and the edges of the bins; the last bin includes its right edge.

    Args:
      a: array of real numbers.
      bins: the number of bins, or their edges.
      range: `(first, last)`; None for the minimum and maximum of `a`.
      weights: the weight of each element; None for 1.
      density: whether to divide by the number of elements and the widths of the bins.

    Returns:
      `(counts, edges)`, vectors of floats.

    Raises:
      TypeError: `bins` is neither a number nor edges.
      ValueError: `bins` is less than 1, or the weights don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.histogram(jnp.array([0.0, 1.0, 4.0]), bins=2)
    (Array([2., 1.], dtype=float32), Array([0., 2., 4.], dtype=float32))
    """
    a = as_operand(a)
    size = aval_of(a).size
    if weights is None:
        (a,) = promote_inexact(a)
        weights = full((size,), 1, aval_of(a).dtype)
    else:
        if aval_of(as_operand(weights)).shape != aval_of(a).shape:
            raise ValueError(f"histogram: weights have shape {aval_of(weights).shape}, and `a` {aval_of(a).shape}.")
        a, weights = promote_inexact(a, weights)
    a, weights = reshape(a, (size,)), reshape(weights, (size,))
    edges = histogram_bin_edges(a, bins, range)
    counts = added_at(aval_of(edges).size - 1, _bin_of(a, edges), weights)
    if density:
        counts = e.div(e.div(counts, diff(edges)), broadcast_to(reductions.sum(counts), aval_of(counts).shape))
    return counts, edges


def _bin_of(x: Any, edges: Any) -> Any:
    """The index of each element's bin, out of bounds for elements in no bin."""
    count = aval_of(edges).size - 1
    x = convert(x, aval_of(edges).dtype)
    position = searchsorted(edges, x, "right")
    last = broadcast_in_dim(slice_in_dim(edges, count, count + 1), aval_of(x).shape, (0,)) if aval_of(x).size else x
    dtype = aval_of(position).dtype
    inside = e.bitwise_and(e.gt(position, dtype.type(0)), e.le(x, last))
    bin_of = e.min(e.sub(position, dtype.type(1)), dtype.type(count - 1))
    return select(inside, bin_of, full(aval_of(x).shape, count, dtype))


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, Any, Any]:
    """The number of points (x, y) in each bin of the plane, and the edges of the bins along x and along y.

    Args:
      x: a vector of coordinates.
      y: a vector of as many.
      bins: the number of bins or a vector of edges, for both axes; or a pair of these.
      range: `((first, last), (first, last))`, or None for either.
      weights: the weight of each point; None for 1.
      density: whether to divide by the number of points and the areas of the bins.

    Returns:
      `(counts [bins of x, bins of y], edges of x, edges of y)`.

    Raises:
      ValueError: x and y are not vectors of one length.

    >>> import xpr.numpy as jnp
    >>> jnp.histogram2d(jnp.array([0.0, 4.0]), jnp.array([1.0, 3.0]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    x, y = promote_dtypes(x, y)
    if aval_of(x).ndim != 1 or aval_of(x).shape != aval_of(y).shape:
        raise ValueError(f"histogram2d: takes vectors of one length, and got {aval_of(x)} and {aval_of(y)}.")
    both = bins if _number_of(bins) == 2 else [bins, bins]
    counts, edges = _histogram_of([x, y], both, range, weights, density)
    return counts, *edges


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, list[Any]]:
    """The number of points in each bin of a space, and the edges of the bins along each axis.

    Args:
      sample: [points, axes].
      bins: the number of bins along every axis; or for each axis their number, or a vector of edges.
      range: for each axis `(first, last)` or None; None for all.
      weights: the weight of each point; None for 1.
      density: whether to divide by the number of points and the volumes of the bins.

    Returns:
      `(counts, list of edges)`; counts have an axis for each of the sample's.

    Raises:
      ValueError: `sample` has not two axes, or bins and ranges don't fit them.

    >>> import xpr.numpy as jnp
    >>> jnp.histogramdd(jnp.array([[0.0, 1.0], [4.0, 3.0]]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    sample = as_operand(sample)
    if aval_of(sample).ndim != 2:
        raise ValueError(f"histogramdd: takes points as rows, and got {aval_of(sample).str_short()}.")
    columns = _columns(sample)
    bins_of_axes = [bins] * len(columns) if _number_of(bins) is None else list(bins)
    if len(bins_of_axes) != len(columns):
        raise ValueError(
            f"histogramdd: bins are given for {len(bins_of_axes)} axes, and the points have {len(columns)}."
        )
    return _histogram_of(columns, bins_of_axes, range, weights, density)


def _columns(matrix: Any) -> list[Any]:
    n_rows, n_columns = aval_of(matrix).shape
    return [reshape(slice_in_dim(matrix, i, i + 1, axis=1), (n_rows,)) for i in range(n_columns)]


def _number_of(bins: Any) -> int | None:
    """The length of `bins` if it is a sequence; None for a number."""
    if isinstance(bins, (list, tuple)):
        return len(bins)
    shape = bins.aval.shape if hasattr(bins, "aval") else np.shape(bins)
    return shape[0] if shape else None


def _histogram_of(
    columns: Sequence[Any], bins: Sequence[Any], range: Any, weights: Any, density: bool | None
) -> tuple[Any, list[Any]]:
    ranges_of = [None] * len(columns) if range is None else list(range)
    if len(ranges_of) != len(columns):
        raise ValueError(f"histogram: ranges are given for {len(ranges_of)} axes, and the points have {len(columns)}.")
    operands = promote_inexact(*columns, *([] if weights is None else [weights]))
    columns, given_weights = operands[: len(columns)], operands[len(columns) :]
    edges = [histogram_bin_edges(x, b, r) for x, b, r in zip(columns, bins, ranges_of)]
    shape = tuple(aval_of(edge).size - 1 for edge in edges)
    index: Any = None
    for x, edge, n in zip(columns, edges, shape):
        position = _bin_of(x, edge)
        outside = e.eq(position, e.scalar(n, position))
        position = select(outside, full(aval_of(position).shape, math.prod(shape), aval_of(position).dtype), position)
        index = position if index is None else e.add(e.mul(index, e.scalar(n, index)), position)
        index = e.min(index, e.scalar(math.prod(shape), index))
    (weights,) = given_weights or [full(aval_of(index).shape, 1, dtypes.of_python(int))]
    if aval_of(weights).shape != aval_of(index).shape:
        raise ValueError(
            f"histogram: weights have shape {aval_of(weights).shape}, and there are {aval_of(index).size} points."
        )
    counts = reshape(added_at(math.prod(shape), index, convert(weights, aval_of(weights).dtype)), shape)
    if density:
        counts = convert(counts, aval_of(edges[0]).dtype)
        counts = e.div(counts, broadcast_to(reductions.sum(counts), shape))
        for axis, edge in enumerate(edges):
            counts = e.div(counts, broadcast_in_dim(diff(edge), shape, (axis,)))
    return counts, edges
