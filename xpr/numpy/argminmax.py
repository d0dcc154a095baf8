"""Where the extremes are: argmax, argmin, and those that pass over nan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.dtypes import greatest, least
from xpr.numpy import reductions
from xpr.numpy.axes import no_out, one_axis
from xpr.numpy.promotion import as_operand, select_scalar
from xpr.primitives import argminmax
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import expand_dims, full, reshape
from xpr.primitives.slicing import select


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the greatest entry along an axis, of all entries in row-major order where no axis is said.

    Of equal ones it is the first; a nan counts as the greatest.

    Raises:
      ValueError: there is no such axis, or no entry.
      TypeError: entries are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.argmax(jnp.array([[1, 5], [3, 2]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    return _place("argmax", argminmax.argmax, a, axis, out, keepdims)


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the least entry along an axis, of all entries in row-major order where no axis is said.

    Of equal ones it is the first; a nan counts as the least.

    Raises:
      ValueError: there is no such axis, or no entry.
      TypeError: entries are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.argmin(jnp.array([[1, 5], [3, 2]]), axis=1)
    Array([0, 1], dtype=int32)
    """
    return _place("argmin", argminmax.argmin, a, axis, out, keepdims)


def nanargmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the greatest entry that is not nan; -1 where all are.

    Raises:
      ValueError: there is no such axis, or no entry.
      TypeError: entries are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 2.0]))
    Array(2, dtype=int32)
    """
    return _place_without_nan("nanargmax", argminmax.argmax, least, a, axis, out, keepdims)


def nanargmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the least entry that is not nan; -1 where all are.

    Raises:
      ValueError: there is no such axis, or no entry.
      TypeError: entries are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.nanargmin(jnp.array([1.0, jnp.nan, 2.0]))
    Array(0, dtype=int32)
    """
    return _place_without_nan("nanargmin", argminmax.argmin, greatest, a, axis, out, keepdims)


def _place(name: str, place: Callable[..., Any], a: Any, axis: int | None, out: None, keepdims: bool | None) -> Any:
    no_out(name, out)
    a = as_operand(a)
    shape, size = aval_of(a).shape, aval_of(a).size
    if axis is None or not shape:
        along, row, axes = reshape(a, (size,)), 0, range(len(shape))
        if axis is not None:
            one_axis(axis, 1)  # a scalar counts as a vector of one entry
    else:
        along, row = a, one_axis(axis, len(shape))
        axes = range(row, row + 1)
    if aval_of(along).shape[row] == 0:
        raise ValueError(f"{name} of no entries: {aval_of(a).str_short()} along axis {axis}.")
    result = place(along, row, dtypes.of_python(int))
    return expand_dims(result, axes) if keepdims else result


def _place_without_nan(
    name: str,
    place: Callable[..., Any],
    fill: Callable[[np.dtype], Any],
    a: Any,
    axis: int | None,
    out: None,
    keepdims: bool | None,
) -> Any:
    a = as_operand(a)
    aval = aval_of(a)
    if aval.dtype not in dtypes.FLOATS:
        return _place(name, place, a, axis, out, keepdims)
    is_nan = e.ne(a, a)
    filled = select(is_nan, full(aval.shape, fill(aval.dtype), aval.dtype), a)
    result = _place(name, place, filled, axis, out, keepdims)
    nothing = reductions.all(is_nan, axis, keepdims=bool(keepdims))
    return select_scalar(nothing, aval_of(result).dtype.type(-1), result)
