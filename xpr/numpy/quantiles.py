"""Medians, quantiles and percentiles: select or sort elements, then interpolate between them.

Where the values of `q` are known (they nearly always are), so are the ranks of the elements, which are selected.
Otherwise rows are sorted, indices are computed, and elements gathered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import CompiledFunction
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.numpy import creation, reductions
from xpr.numpy.arithmetic import multiply
from xpr.numpy.axes import no_out, reduced_axes
from xpr.numpy.indexing.along_axis import read, read_rows
from xpr.numpy.indexing.masked import MaskedTracer, with_unselected_as
from xpr.numpy.promotion import as_operand, convert, promote_inexact
from xpr.numpy.reductions import computed_in, elements_along
from xpr.primitives import elementwise as e
from xpr.primitives.cumulative import cumsum
from xpr.primitives.dimension_values import size_as
from xpr.primitives.reductions import reduce_or_p
from xpr.primitives.shapes import (
    broadcast_in_dim,
    broadcast_to,
    expand_dims,
    full,
    move_axis,
    reduce_sum,
    reshape,
    transpose,
)  # fmt: skip
from xpr.primitives.sharding_constraint import decided
from xpr.primitives.slicing import select, slice_in_dim
from xpr.primitives.sorting import order_statistics, sort

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


@compiled_eagerly("axis")
def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The median over axes: the middle element, or the mean of the two in the middle; nan where an element is nan.

    Args:
      a: array of real numbers.
      axis: the axis or axes to reduce; None for all.
      out: must be None; arrays are immutable.
      overwrite_input: must be False; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.

    Returns:
      Floats without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, elements are complex, or `overwrite_input` is set.

    >>> import xpr.numpy as jnp
    >>> jnp.median(jnp.array([5.0, 1.0, 2.0]))
    Array(2., dtype=float32)
    """
    return _quantile("median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, False)


@compiled_eagerly("axis")
def nanmedian(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The median over axes of the elements that are not nan; nan where there is none.

    Args:
      a: array of real numbers.
      axis: the axis or axes to reduce; None for all.
      out: must be None; arrays are immutable.
      overwrite_input: must be False; arrays are immutable.
      keepdims: whether the reduced axes stay, with size 1.

    Returns:
      Floats without the reduced axes (of size 1 with `keepdims`).

    Raises:
      ValueError: there is no such axis, elements are complex, or `overwrite_input` is set.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmedian(jnp.array([5.0, jnp.nan, 2.0]))
    Array(3.5, dtype=float32)
    """
    return _quantile("nanmedian", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, True)


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The q-th quantile over axes: the value below which the fraction q of the elements lies; nan where one is nan.

    Args:
      a: array of real numbers.
      q: the quantiles, from 0 to 1: a scalar or a vector.
      axis: the axis or axes to reduce; None for all.
      out: must be None; arrays are immutable.
      overwrite_input: must be False; arrays are immutable.
      method: how to interpolate: "linear", "lower", "higher", "midpoint", "nearest" or "inverted_cdf".
      keepdims: whether the reduced axes stay, with size 1.
      weights: weights of elements, with method "inverted_cdf": of the shape of `a`, or of its axes in `axis`.

    Returns:
      Floats without the reduced axes (of size 1 with `keepdims`), behind the axis of `q` if that is a vector.

    Raises:
      ValueError: there is no such axis or method, elements are complex, or `q` has more than one axis.
      NotImplementedError: weights with another method.

    >>> import xpr.numpy as jnp
    >>> jnp.quantile(jnp.array([0.0, 1.0, 2.0, 3.0]), jnp.array([0.25, 0.5]))
    Array([0.75, 1.5 ], dtype=float32)
    """
    return _quantile("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, False)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The q-th quantile over axes of the elements that are not nan; nan where there is none.

    Args:
      a: array of real numbers.
      q: the quantiles, from 0 to 1: a scalar or a vector.
      axis: the axis or axes to reduce; None for all.
      out: must be None; arrays are immutable.
      overwrite_input: must be False; arrays are immutable.
      method: how to interpolate: "linear", "lower", "higher", "midpoint", "nearest" or "inverted_cdf".
      keepdims: whether the reduced axes stay, with size 1.
      weights: weights of elements, with method "inverted_cdf": of the shape of `a`, or of its axes in `axis`.

    Returns:
      Floats without the reduced axes (of size 1 with `keepdims`), behind the axis of `q` if that is a vector.

    Raises:
      ValueError: there is no such axis or method, elements are complex, or `q` has more than one axis.
      NotImplementedError: weights with another method.

    >>> import xpr.numpy as jnp
    >>> jnp.nanquantile(jnp.array([0.0, jnp.nan, 2.0]), 0.25)
    Array(0.5, dtype=float32)
    """
    return _quantile("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The q-th percentile over axes: `quantile` with q from 0 to 100.

    Args:
      a: array of real numbers.
      q: the percentiles, from 0 to 100: a scalar or a vector.
      axis: the axis or axes to reduce; None for all.
      out: must be None; arrays are immutable.
      overwrite_input: must be False; arrays are immutable.
      method: how to interpolate: "linear", "lower", "higher", "midpoint", "nearest" or "inverted_cdf".
      keepdims: whether the reduced axes stay, with size 1.
      weights: weights of elements, with method "inverted_cdf": of the shape of `a`, or of its axes in `axis`.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Floats without the reduced axes (of size 1 with `keepdims`), behind the axis of `q` if that is a vector.

    Raises:
      ValueError: there is no such axis or method, elements are complex, or `q` has more than one axis.
      NotImplementedError: weights with another method.

    >>> import xpr.numpy as jnp
    >>> jnp.percentile(jnp.array([0.0, 1.0, 2.0]), 75)
    Array(1.5, dtype=float32)
    """
    options = (axis, out, overwrite_input, method, keepdims, weights, False)
    return decided(out_sharding, "percentile", lambda: _quantile("percentile", a, _hundredth(q), *options))


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The q-th percentile over axes of the elements that are not nan; nan where there is none.

    Args:
      a: array of real numbers.
      q: the percentiles, from 0 to 100: a scalar or a vector.
      axis: the axis or axes to reduce; None for all.
      out: must be None; arrays are immutable.
      overwrite_input: must be False; arrays are immutable.
      method: how to interpolate: "linear", "lower", "higher", "midpoint", "nearest" or "inverted_cdf".
      keepdims: whether the reduced axes stay, with size 1.
      weights: weights of elements, with method "inverted_cdf": of the shape of `a`, or of its axes in `axis`.

    Returns:
      Floats without the reduced axes (of size 1 with `keepdims`), behind the axis of `q` if that is a vector.

    Raises:
      ValueError: there is no such axis or method, elements are complex, or `q` has more than one axis.
      NotImplementedError: weights with another method.

    >>> import xpr.numpy as jnp
    >>> jnp.nanpercentile(jnp.array([0.0, jnp.nan, 2.0]), 75)
    Array(1.5, dtype=float32)
    """
    return _quantile("nanpercentile", a, _hundredth(q), axis, out, overwrite_input, method, keepdims, weights, True)


def _hundredth(q: Any) -> Any:
    if isinstance(q, Tracer):
        return multiply(q, 0.01)
    return np.asarray(q) / np.float64(100)


# -- Computing them


def _quantile(
    name: str,
    a: Any,
    q: Any,
    axis: Any,
    out: None,
    overwrite_input: bool,
    method: str,
    keepdims: bool,
    weights: Any,
    ignore_nan: bool,
) -> Any:
    no_out(name, out)
    if overwrite_input:
        raise ValueError(f"{name}: overwrite_input is not supported, because arrays are immutable.")
    if method not in METHODS:
        raise ValueError(f"{name}: method must be one of {', '.join(METHODS)}, and is {method!r}.")
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(f'{name}: weights go with method="inverted_cdf" alone, and the method is {method!r}.')
    (a,) = promote_inexact(a)
    aval = aval_of(a)
    a = convert(a, aval.dtype)
    if aval.dtype in dtypes.COMPLEX:
        raise ValueError(f"{name}: complex numbers are not ordered. Take it of the real and imaginary parts.")
    axes = reduced_axes(axis, aval.ndim)
    if type(a) is MaskedTracer and weights is None:
        return _of_selected(name, a, q, axes, method, keepdims, ignore_nan)
    is_known = not isinstance(q, Tracer)
    q = np.asarray(q) if is_known else q
    if q.ndim > 1:
        raise ValueError(f"{name}: q must be a scalar or a vector, and has shape {q.shape}.")
    if is_known and not all(0 <= each <= 1 for each in q.ravel().tolist()):
        most = 100 if name.endswith("percentile") else 1
        raise ValueError(f"{name}: q must lie between 0 and {most}, and is {q * most}.")
    size = elements_along(aval.shape, axes)
    if is_known and not ignore_nan and weights is None and not is_symbolic_dim(size):
        numbers = tuple(q.tolist()) if q.ndim else float(q)
        return _selected_quantile(a, q=numbers, precision=q.dtype, axes=axes, keepdims=keepdims, method=method)
    q = as_operand(q.astype(dtypes.canonical(q.dtype)) if is_known else q)
    if weights is not None:
        weights = _rows_last(_weights(convert(as_operand(weights), aval.dtype), aval.shape, axes), axes)
        return _weighted_quantile(a, q, weights, axes=axes, keepdims=keepdims, ignore_nan=ignore_nan)
    return _sorted_quantile(a, q, axes=axes, keepdims=keepdims, method=method, ignore_nan=ignore_nan)


def _of_selected(
    name: str, a: MaskedTracer, q: Any, axes: tuple[int, ...], method: str, keepdims: bool, ignore_nan: bool
) -> Any:
    """Quantiles of the elements that a mask selects: the other elements are replaced by nan, and ignored."""
    values = with_unselected_as(a, axes, np.nan)
    result = _quantile(name, values, q, axes, None, False, method, keepdims, None, True)
    if ignore_nan:
        return result
    return _nan_where(reductions.any(e.ne(a, a), axes, keepdims=keepdims), result)


def _quantile_function(quantile_of_rows: Callable[..., Any]) -> CompiledFunction:
    """A compiled function of quantiles over axes, from a function of quantiles along the last axis."""

    def run(a: Any, *operands: Any, axes: tuple[int, ...], keepdims: bool, **options: Any) -> Any:
        result = quantile_of_rows(_rows_last(a, axes), *operands, **options)
        if not keepdims:
            return result
        offset = aval_of(result).ndim + len(axes) - aval_of(a).ndim
        return expand_dims(result, [offset + i for i in axes])

    return CompiledFunction(run, "quantile")


def _rows_last(x: Any, axes: tuple[int, ...]) -> Any:
    """The array with `axes` joined into one, its last."""
    shape = aval_of(x).shape
    kept = [i for i in range(len(shape)) if i not in axes]
    moved = transpose(x, (*kept, *sorted(axes)))
    return reshape(moved, (*(shape[i] for i in kept), elements_along(shape, axes)))


def _by_selection(rows: Any, *, q: Any, precision: np.dtype, method: str) -> Any:
    """Quantiles for known `q`: elements of rows, selected by rank, or interpolations between two of them."""
    q = np.asarray(q, precision)
    *row_shape, n = aval_of(rows).shape
    dtype = aval_of(rows).dtype
    if n == 0:
        return creation.full((*q.shape, *row_shape), np.nan, dtype)
    low, high, fraction = _ranks_between(q, n, method)
    ranks = np.unique([*low.flat, *high.flat, n - 1])
    elements = order_statistics(rows, ranks.tolist())

    def at(positions: Any) -> Any:
        indices = np.searchsorted(ranks, positions)
        if indices.ndim:
            return read(elements, indices.astype(np.int32), len(row_shape))
        return reshape(slice_in_dim(elements, int(indices), int(indices) + 1, axis=-1), row_shape)

    if np.all(low == high):
        result = at(low)
    elif method == "midpoint":
        result = e.mul(e.add(at(low), at(high)), dtype.type(0.5))
    else:
        result = _mixed(at(low), at(high), (1 - fraction).astype(dtype)[()], fraction.astype(dtype)[()])
    greatest = at(n - 1)  # nan, if any element is: nan sorts last
    return _nan_where(e.ne(greatest, greatest), _q_first(result) if q.ndim else result)


def _ranks_between(q: np.ndarray, n: int, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The indices of the two elements that each quantile lies between, and its fraction of the way from the first."""
    position = np.ceil(q * n) - 1 if method == "inverted_cdf" else q * (n - 1)
    low, high = (np.clip(f(position), 0, n - 1).astype(np.int32) for f in (np.floor, np.ceil))
    fraction = position - low
    if method == "midpoint":
        return low, high, np.full_like(fraction, 0.5)
    if method == "nearest":
        low = high = np.where(fraction <= 0.5, low, high)
    return (high, high, fraction) if method == "higher" else (low, low if method == "lower" else high, fraction)


def _by_sorting(rows: Any, q: Any, *, method: str, ignore_nan: bool) -> Any:
    """Quantiles whose indices are known only when the program runs, as `q` or the number of elements is."""
    row_shape, n = aval_of(rows).shape[:-1], aval_of(rows).shape[-1]
    dtype, q_shape = aval_of(rows).dtype, aval_of(as_operand(q)).shape
    if n == 0:
        return creation.full((*q_shape, *row_shape), np.nan, dtype)
    ordered = sort(rows)
    work = computed_in(dtype)
    shape = (*row_shape, *(q_shape or (1,)))
    q = broadcast_to(convert(as_operand(q), work), shape)
    count = _count(ordered, shape, work) if ignore_nan else broadcast_to(size_as(n, work), shape)
    low, high, fraction = _computed_ranks_between(q, count, method)
    lower = read_rows(ordered, convert(low, dtypes.int32), len(row_shape))
    result = lower
    if high is not low:
        higher = read_rows(ordered, convert(high, dtypes.int32), len(row_shape))
        result = _mixed(lower, higher, convert(e.sub(e.scalar(1, fraction), fraction), dtype), convert(fraction, dtype))
    result = _q_first(result) if q_shape else reshape(result, row_shape)
    if ignore_nan:
        return result  # in a row without elements it is nan
    greatest = reshape(slice_in_dim(ordered, n - 1, n, axis=-1), row_shape)
    return _nan_where(e.ne(greatest, greatest), result)


def _count(ordered: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """The number of elements of each row that are not nan, as floats, repeated along the last axis."""
    row_axes = range(len(shape) - 1)
    count = reduce_sum(convert(e.eq(ordered, ordered), dtype), [len(shape) - 1])
    return broadcast_in_dim(count, shape, list(row_axes))


def _computed_ranks_between(q: Any, count: Any, method: str) -> tuple[Any, Any, Any]:
    """`_ranks_between`, of arrays of one shape."""
    zero, one = (aval_of(q).dtype.type(i) for i in (0, 1))
    last = e.max(e.sub(count, one), zero)
    position = e.sub(e.ceil(e.mul(q, count)), one) if method == "inverted_cdf" else e.mul(q, e.sub(count, one))
    low, high = (e.clamp(zero, f(position), last) for f in (e.floor, e.ceil))
    fraction = e.sub(position, low)
    if method == "midpoint":
        return low, high, full(aval_of(q).shape, 0.5, aval_of(q).dtype)
    if method == "nearest":
        low = high = select(e.le(fraction, one.dtype.type(0.5)), low, high)
    if method == "higher":
        return high, high, fraction
    return low, high if method == "linear" else low, fraction


def _mixed(low: Any, high: Any, of_low: Any, of_high: Any) -> Any:
    """The weighted sum of two arrays; weights are scalars, arrays of their shape, or vectors along the last axis."""
    shape = aval_of(low).shape
    of_low, of_high = (broadcast_to(w, shape) if aval_of(w).ndim else w for w in (of_low, of_high))
    return e.add(e.mul(low, of_low), e.mul(high, of_high))


def _q_first(x: Any) -> Any:
    return move_axis(x, aval_of(x).ndim - 1, 0)


def _nan_where(condition: Any, x: Any) -> Any:
    shape = aval_of(x).shape
    return select(broadcast_to(condition, shape), full(shape, np.nan, aval_of(x).dtype), x)


def _weights(weights: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    weights_shape = aval_of(weights).shape
    if weights_shape == shape:
        return weights
    if weights_shape == tuple(shape[i] for i in axes):
        ordered = sorted(range(len(axes)), key=axes.__getitem__)
        return broadcast_in_dim(transpose(weights, ordered), shape, sorted(axes))
    raise ValueError(f"weights have shape {weights_shape}; they need the array's, {shape}, or that of its axes {axes}.")


def _by_weights(rows: Any, q: Any, weights: Any, *, ignore_nan: bool) -> Any:
    """The first element at which the cumulative weights reach the fraction `q` of their total."""
    row_shape, n = aval_of(rows).shape[:-1], aval_of(rows).shape[-1]
    dtype, last = aval_of(rows).dtype, len(row_shape)
    weights = reshape(weights, aval_of(rows).shape)
    if ignore_nan:
        weights = select(e.eq(rows, rows), weights, full(aval_of(rows).shape, 0, dtype))
    ordered, weights = sort((rows, weights), num_keys=1)
    q_shape = aval_of(as_operand(q)).shape
    shape = (*row_shape, n, *(q_shape or (1,)))
    so_far = cumsum(weights, last)
    total = broadcast_in_dim(reduce_sum(weights, [last]), shape, list(range(last)))
    target = e.mul(total, broadcast_to(convert(as_operand(q), dtype), shape))
    before = e.lt(broadcast_in_dim(so_far, shape, list(range(last + 1))), target)
    position = e.min(reduce_sum(convert(before, dtypes.int32), [last]), np.int32(n - 1))
    result = read_rows(ordered, position, last)
    result = _q_first(result) if q_shape else reshape(result, row_shape)
    if ignore_nan:
        return result
    return _nan_where(reduce_or_p.bind(e.ne(rows, rows), axes=(last,)), result)


_selected_quantile = _quantile_function(_by_selection)
_sorted_quantile = _quantile_function(_by_sorting)
_weighted_quantile = _quantile_function(_by_weights)
