"""Differences, gradients and integrals of sampled functions, and interpolation between samples."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import surely_at_least
from xpr.numpy import arithmetic, comparisons, division, reductions
from xpr.numpy.axes import reduced_axes
from xpr.numpy.cumulative import cumsum
from xpr.numpy.indexing.along_axis import read
from xpr.numpy.promotion import as_operand, asarray_like, convert, promote_dtypes, promote_inexact, select_scalar
from xpr.numpy.sorting import argsort, searchsorted
from xpr.numpy.where_select import where
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import broadcast_in_dim, expand_dims, one_axis, reshape, squeeze
from xpr.primitives.slicing import concatenate, slice_in_dim

__all__ = ["diff", "ediff1d", "gradient", "interp", "trapezoid", "unwrap"]

# -- Differences


@compiled_eagerly("n", "axis")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of consecutive elements along an axis, taken n times.

    Of booleans, whether they differ.

    Args:
      a: array with at least one axis.
      n: how many times.
      axis: the axis.
      prepend: joined before the elements first: a scalar, or an array that fits; None for nothing.
      append: joined after the elements first: a scalar, or an array that fits; None for nothing.

    Returns:
      An array of the dtype of `a`, shorter by n along the axis.

    Raises:
      ValueError: there is no such axis, or `n` is negative.

    >>> import xpr.numpy as jnp
    >>> jnp.diff(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    a = as_operand(a)
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"diff: can be taken 0 times or more, and n is {n}.")
    shape = aval_of(a).shape
    axis = one_axis(axis, len(shape))
    if n == 0:
        return asarray_like(a)
    parts = [_edge(part, shape, axis) for part in (prepend, a, append) if part is not None]
    a = concatenate(promote_dtypes(*parts), axis)
    unlike = aval_of(a).dtype == dtypes.bool_
    for _ in np.arange(n):
        left, right = neighbours(a, axis)
        a = e.ne(right, left) if unlike else e.sub(right, left)
    return a


def neighbours(a: Any, axis: int) -> tuple[Any, Any]:
    """All elements along an axis but the last, and all but the first, for differences."""
    size = aval_of(a).shape[axis]
    return slice_in_dim(a, 0, max(size - 1, 0), axis=axis), slice_in_dim(a, min(1, size), size, axis=axis)


def _edge(part: Any, shape: tuple[int, ...], axis: int) -> Any:
    part = as_operand(part)
    if aval_of(part).ndim:
        return part
    return broadcast_in_dim(part, tuple(1 if i == axis else n for i, n in enumerate(shape)), ())


@compiled_eagerly()
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of consecutive elements of the flattened array.

    Args:
      ary: array or number.
      to_end: values appended to the result; None for none.
      to_begin: values prepended to the result; None for none.

    Returns:
      A vector of the dtype of `ary`.

    >>> import xpr.numpy as jnp
    >>> jnp.ediff1d(jnp.array([1, 4, 9]), to_begin=0)
    Array([0, 3, 5], dtype=int32)
    """
    ary = as_operand(ary)
    dtype, weak = aval_of(ary).dtype, aval_of(ary).weak_type and to_begin is None and to_end is None
    parts = [to_begin, diff(reshape(ary, (aval_of(ary).size,))), to_end]
    flat = [convert(as_operand(part), dtype, weak) for part in parts if part is not None]
    return concatenate([reshape(part, (aval_of(part).size,)) for part in flat], 0)


@compiled_eagerly("axis", "edge_order")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any:
    """The derivative along axes by second-order central differences, one-sided at the ends.

    Args:
      f: values of a function on a grid.
      *varargs: the spacing of the grid: one for all axes, or for each axis a scalar or a vector of coordinates; 1 by
        default.
      axis: the axis or axes; None for all.
      edge_order: must be None.

    Returns:
      An array of the shape of `f`; a list of them for several axes.

    Raises:
      ValueError: an axis has less than two elements, or spacings don't fit.
      NotImplementedError: `edge_order` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.gradient(jnp.array([0.0, 1.0, 4.0, 9.0]))
    Array([1., 2., 4., 5.], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError("gradient: edge_order is not supported; ends have first order.")
    (f,) = promote_inexact(f)
    axes = reduced_axes(axis, aval_of(f).ndim)
    spacings = list(varargs) if len(varargs) > 1 else list(varargs or (1.0,)) * len(axes)
    if len(spacings) != len(axes):
        raise ValueError(f"gradient: distances are given for {len(spacings)} axes, and there are {len(axes)}.")
    are_real = [aval_of(as_operand(spacing)).dtype not in dtypes.COMPLEX for spacing in spacings]
    f, *spacings = promote_inexact(f, *spacings)
    slopes = [_slope(f, *each) for each in zip(axes, spacings, are_real)]
    return slopes if len(slopes) != 1 else slopes[0]


def _slope(f: Any, axis: int, spacing: Any, is_real: bool) -> Any:
    shape, dtype, weak = aval_of(f).shape, aval_of(f).dtype, aval_of(f).weak_type
    n = shape[axis]
    if n < 2:
        raise ValueError(f"gradient: axis {axis} of {aval_of(f).str_short()} has less than two elements.")
    spacing = convert(as_operand(spacing), dtypes.real_part_of(dtype) if is_real else dtype, weak)
    rise = diff(f, axis=axis)
    if aval_of(spacing).ndim:
        if aval_of(spacing).shape != (n,):
            raise ValueError(f"gradient: axis {axis} has {n} elements, and its coordinates are {aval_of(spacing)}.")
        spacing = broadcast_in_dim(convert(diff(spacing), dtype, weak), aval_of(rise).shape, (axis,))
    one_sided = e.div(rise, convert(spacing, dtype, weak))
    if aval_of(spacing).ndim:  # the nearer side counts more: weights are the distances to the other one
        before, after = neighbours(one_sided, axis)
        left, right = neighbours(spacing, axis)
        inner = e.div(e.add(e.mul(before, right), e.mul(after, left)), e.add(left, right))
    else:
        across = e.sub(slice_in_dim(f, 2, n, axis=axis), slice_in_dim(f, 0, n - 2, axis=axis))
        inner = e.div(e.mul(across, convert(0.5, dtype, weak)), convert(spacing, dtype, weak))
    first, last = slice_in_dim(one_sided, 0, 1, axis=axis), slice_in_dim(one_sided, n - 2, n - 1, axis=axis)
    return concatenate([first, inner, last], axis)


# -- Integrals


@compiled_eagerly("axis")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule.

    Args:
      y: values of a function.
      x: the coordinates of the values: a vector, or an array that broadcasts against `y`; None for equal distances.
      dx: the distance between values without `x`: a scalar, or an array that broadcasts against the differences of `y`.
      axis: the axis.

    Returns:
      Floats of the shape of `y` without the axis.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.trapezoid(jnp.array([0.0, 1.0, 4.0]))
    Array(3., dtype=float32)
    """
    if x is not None:
        y, x = promote_inexact(y, x)
        along = one_axis(axis, aval_of(y).ndim)
        width = diff(x, axis=axis) if aval_of(x).ndim > 1 else expand_dims(diff(x), range(1, aval_of(y).ndim - along))
    else:
        (y,) = promote_inexact(y)
        along = one_axis(axis, aval_of(y).ndim)
        width = convert(as_operand(dx), aval_of(y).dtype)
        n = aval_of(y).shape[along]
        if aval_of(width).ndim == 0 and surely_at_least(n, 2):  # one reduction, of an array that is there already
            first, last = slice_in_dim(y, 0, 1, axis=along), slice_in_dim(y, n - 1, n, axis=along)
            ends = arithmetic.multiply(0.5, e.add(first, last))
            total = reductions.sum(y, along, keepdims=True)
            return squeeze(arithmetic.multiply(width, e.sub(total, ends)), (along,))
    left, right = neighbours(y, along)
    areas = arithmetic.multiply(width, e.add(left, right))
    return arithmetic.multiply(0.5, reductions.sum(areas, along - aval_of(y).ndim))


# -- Between samples


@compiled_eagerly("period")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """The piecewise linear interpolation of the points (xp, fp) at `x`.

    Args:
      x: where to evaluate; of any shape.
      xp: the points' coordinates: an increasing vector, in any order with a `period`.
      fp: their values, a vector of the same length.
      left: the value before the first point; None for the first value, "extrapolate" for the first line.
      right: the value after the last point; None for the last value, "extrapolate" for the last line.
      period: the period of the function; None for none.

    Returns:
      Floats of the shape of `x`.

    Raises:
      ValueError: `xp` and `fp` are not vectors of one length of at least 1, or the period is 0.

    >>> import xpr.numpy as jnp
    >>> jnp.interp(jnp.array([0.5, 9.0]), jnp.array([0.0, 1.0]), jnp.array([10.0, 20.0]))
    Array([15., 20.], dtype=float32)
    """
    if aval_of(as_operand(xp)).ndim != 1 or aval_of(as_operand(xp)).shape != aval_of(as_operand(fp)).shape:
        raise ValueError(f"interp: xp and fp must be vectors of one length, and are {aval_of(xp)} and {aval_of(fp)}.")
    for name, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            raise ValueError(f'interp: {name} must be a number or "extrapolate", and is {value!r}.')
    x, xp = promote_inexact(x, xp)
    (fp,) = promote_inexact(fp)
    if period is not None:
        x, xp, fp = _one_period(x, xp, fp, period)
        left = right = "extrapolate"
    if aval_of(xp).size == 0:
        raise ValueError("interp: there are no points to go through.")
    ends = [end for end in (left, right) if end is not None and not isinstance(end, str)]
    kinds = tuple(end if end is None or isinstance(end, str) else "given" for end in (left, right))
    return _interp(x, xp, fp, *ends, kinds=kinds)


@compiled
def _interp(x: Any, xp: Any, fp: Any, *end_values: Any, kinds: tuple[str | None, ...]) -> Any:
    values, n, ends = _on_lines(x, xp, fp), aval_of(xp).size, iter(end_values)
    for kind, position, beyond in zip(kinds, (0, n - 1), (comparisons.less, comparisons.greater)):
        if kind != "extrapolate":
            at_end = read(fp, np.int32(position)) if kind is None else next(ends)
            values = where(beyond(x, read(xp, np.int32(position))), at_end, values)
    return values


def _on_lines(x: Any, xp: Any, fp: Any) -> Any:
    """The values on the lines between consecutive points; the first and the last line are extended."""
    n = aval_of(xp).size
    position = searchsorted(xp, x, "right")
    dtype = aval_of(position).dtype
    position = e.max(e.min(position, dtype.type(n - 1)), dtype.type(min(1, n - 1)))
    before = e.max(e.sub(position, dtype.type(1)), dtype.type(0))
    x_before, f_before = read(xp, before), read(fp, before)
    width, rise = e.sub(read(xp, position), x_before), e.sub(read(fp, position), f_before)
    kind, weak = aval_of(width).dtype, aval_of(width).weak_type
    is_step = e.le(e.abs(width), kind.type(np.spacing(dtypes.finfo(kind).eps)))
    fraction = e.div(e.sub(x, x_before), select_scalar(is_step, convert(1, kind, weak), width))
    return where(is_step, f_before, arithmetic.add(f_before, arithmetic.multiply(fraction, rise)))


def _one_period(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """The points and coordinates moved into one period, with a point added on either side of it."""
    if type(period) in (int, float) and period == 0:
        raise ValueError("interp: the period must not be 0.")
    period = arithmetic.absolute(period)
    x, xp = division.remainder(x, period), division.remainder(xp, period)
    order = argsort(xp)
    xp, fp = read(xp, order), read(fp, order)
    n = aval_of(xp).size
    first, last = (slice_in_dim(xp, i, i + 1) for i in (0, n - 1))
    xp = concatenate(promote_dtypes(arithmetic.subtract(last, period), xp, arithmetic.add(first, period)), 0)
    return x, xp, concatenate([slice_in_dim(fp, n - 1, n), fp, slice_in_dim(fp, 0, 1)], 0)


@compiled_eagerly("axis")
def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Any:
    """The elements shifted by multiples of the period, so that consecutive ones differ by half a period at most.

    Args:
      p: array of real numbers.
      discont: the greatest difference that is left as it is, if more than half a period; None for half a period.
      axis: the axis.
      period: the period.

    Returns:
      Floats of the shape of `p`; integers stay integers for an integer period.

    Raises:
      ValueError: there is no such axis, or elements are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.unwrap(jnp.array([0.0, 3.0, 7.0]), period=4.0)
    Array([ 0., -1., -1.], dtype=float32)
    """
    p = as_operand(p)
    if aval_of(p).dtype in dtypes.COMPLEX:
        raise ValueError("unwrap: complex numbers have no order. Unwrap their angles.")
    p, period = promote_dtypes(p, period)
    dtype = aval_of(p).dtype
    axis = one_axis(axis, aval_of(p).ndim)
    if aval_of(p).shape[axis] == 0:
        return p
    steps = diff(p, axis=axis)
    whole = dtype in dtypes.INTEGERS
    half = division.floor_divide(period, 2) if whole else arithmetic.true_divide(period, 2)
    low = arithmetic.negative(half)
    moved = arithmetic.add(division.remainder(arithmetic.subtract(steps, low), period), low)
    if not whole or type(period) is not int or period % 2 == 0:
        at_low = comparisons.logical_and(comparisons.equal(moved, low), comparisons.greater(steps, 0))
        moved = where(at_low, half, moved)
    size = arithmetic.absolute(steps)
    small = comparisons.less(size, half if discont is None else arithmetic.maximum(discont, half))
    correction = where(small, 0, arithmetic.subtract(moved, steps))
    following = slice_in_dim(p, 1, aval_of(p).shape[axis], axis=axis)
    first = slice_in_dim(p, 0, 1, axis=axis)
    return concatenate(promote_dtypes(first, arithmetic.add(following, cumsum(correction, axis))), axis)
