"""Indices of maxima and minima: argmax, argmin, nanargmax, nanargmin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.dtypes import greatest, least
from xpr.numpy import reductions
from xpr.numpy.axes import no_out
from xpr.numpy.promotion import as_operand, select_scalar
from xpr.primitives import argminmax
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import expand_dims, full, one_axis, reshape
from xpr.primitives.slicing import select

__all__ = ["argmax", "argmin", "nanargmax", "nanargmin"]


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the maximum along an axis; of equal ones the first.

    nan counts as the maximum.

    Args:
      a: array of real numbers.
      axis: the axis; None for the flattened array (row-major order).
      out: must be None; arrays are immutable.
      keepdims: whether the axis stays, with size 1.

    Returns:
      Integers of the shape of `a` without `axis` (a scalar for None).

    Raises:
      ValueError: there is no such axis, or no element.
      TypeError: elements are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.argmax(jnp.array([[1, 5], [3, 2]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    return _index_of("argmax", argminmax.argmax, a, axis, out, keepdims)


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the minimum along an axis; of equal ones the first.

    nan counts as the minimum.

    Args:
      a: array of real numbers.
      axis: the axis; None for the flattened array (row-major order).
      out: must be None; arrays are immutable.
      keepdims: whether the axis stays, with size 1.

    Returns:
      Integers of the shape of `a` without `axis` (a scalar for None).

    Raises:
      ValueError: there is no such axis, or no element.
      TypeError: elements are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.argmin(jnp.array([[1, 5], [3, 2]]), axis=1)
    Array([0, 1], dtype=int32)
    """
    return _index_of("argmin", argminmax.argmin, a, axis, out, keepdims)


@compiled_eagerly("axis")
def nanargmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index along an axis of the maximum of the elements that are not nan; -1 where all are.

    Args:
      a: array of real numbers.
      axis: the axis; None for the flattened array (row-major order).
      out: must be None; arrays are immutable.
      keepdims: whether the axis stays, with size 1.

    Returns:
      Integers of the shape of `a` without `axis` (a scalar for None).

    Raises:
      ValueError: there is no such axis, or no element.
      TypeError: elements are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 2.0]))
    Array(2, dtype=int32)
    """
    return _index_ignoring_nan("nanargmax", argminmax.argmax, least, a, axis, out, keepdims)


@compiled_eagerly("axis")
def nanargmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index along an axis of the minimum of the elements that are not nan; -1 where all are.

    Args:
      a: array of real numbers.
      axis: the axis; None for the flattened array (row-major order).
      out: must be None; arrays are immutable.
      keepdims: whether the axis stays, with size 1.

    Returns:
      Integers of the shape of `a` without `axis` (a scalar for None).

    Raises:
      ValueError: there is no such axis, or no element.
      TypeError: elements are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.nanargmin(jnp.array([1.0, jnp.nan, 2.0]))
    Array(0, dtype=int32)
    """
    return _index_ignoring_nan("nanargmin", argminmax.argmin, greatest, a, axis, out, keepdims)


def _index_of(
    name: str, reduction: Callable[..., Any], a: Any, axis: int | None, out: None, keepdims: bool | None
) -> Any:
    no_out(name, out)
    a = as_operand(a)
    shape, size = aval_of(a).shape, aval_of(a).size
    if axis is None or not shape:
        along, row, axes = reshape(a, (size,)), 0, range(len(shape))
        if axis is not None:
            one_axis(axis, 1)  # a scalar counts as a vector of one element
    else:
        along, row = a, one_axis(axis, len(shape))
        axes = range(row, row + 1)
    if aval_of(along).shape[row] == 0:
        raise ValueError(
            f"{name}: attempt to get {name.removeprefix('nan')} of an empty sequence, {aval_of(a).str_short()} along "
            f"axis {axis}."
        )
    result = reduction(along, row, dtypes.of_python(int))
    return expand_dims(result, axes) if keepdims else result


def _index_ignoring_nan(
    name: str,
    reduction: Callable[..., Any],
    fill_value: Callable[[np.dtype], Any],
    a: Any,
    axis: int | None,
    out: None,
    keepdims: bool | None,
) -> Any:
    a = as_operand(a)
    aval = aval_of(a)
    if aval.dtype not in dtypes.FLOATS:
        return _index_of(name, reduction, a, axis, out, keepdims)
    is_nan = e.ne(a, a)
    filled = select(is_nan, full(aval.shape, fill_value(aval.dtype), aval.dtype), a)
    result = _index_of(name, reduction, filled, axis, out, keepdims)
    all_nan = reductions.all(is_nan, axis, keepdims=bool(keepdims))
    return select_scalar(all_nan, aval_of(result).dtype.type(-1), result)
