"""pad: arrays padded with a constant, with elements of the array, or with statistics of them.

Axes are padded one after the other, so corners are padded from padding. Along one axis the modes edge, reflect,
symmetric and wrap take elements at indices, which are NumPy's own `pad` of 0 .. n - 1, split into runs (see
flip_roll_tile.py). The others compute the padding: a constant, a ramp, a statistic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.numpy import quantiles, reductions, statistics
from xpr.numpy.arithmetic import maximum, minimum, multiply, subtract
from xpr.numpy.creation import asarray
from xpr.numpy.division import remainder
from xpr.numpy.flip_roll_tile import taken
from xpr.numpy.indexing.along_axis import read
from xpr.numpy.mapping import apply_along_axis
from xpr.numpy.promotion import as_operand, asarray_like, convert
from xpr.numpy.ranges import linspace
from xpr.numpy.reshaping import broadcast_to
from xpr.numpy.rounding import clip, round
from xpr.primitives import slicing
from xpr.primitives.shapes import one_axis, reshape, rev
from xpr.primitives.slicing import broadcasted_iota, slice_in_dim

__all__ = ["pad"]

_OPTIONS = {
    "constant": {"constant_values"}, "edge": set(), "empty": set(), "wrap": set(), "linear_ramp": {"end_values"},
    "maximum": {"stat_length"}, "mean": {"stat_length"}, "median": {"stat_length"}, "minimum": {"stat_length"},
    "reflect": {"reflect_type"}, "symmetric": {"reflect_type"},
}  # fmt: skip


def pad(array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Any:
    """The array padded along its axes.

    Args:
      array: array or number.
      pad_width: how many elements before and after each axis: ((before, after), ...), one pair or number for all axes,
        or a dict from axes to these; known while tracing.
      mode: "constant" (`constant_values`, shaped like `pad_width`; 0 by default), "edge", "empty" (zeros),
        "linear_ramp" (to `end_values`), "maximum", "mean", "median", "minimum" (of the `stat_length` elements next to
        the edge; all by default), "reflect" and "symmetric" (with `reflect_type="odd"`, reflected about the edge's
        value), "wrap"; or a function `f(vector, (before, after), axis, kwargs)` of vectors padded with zeros, which
        returns the padded vector.
      **kwargs: the mode's keywords; those of a function are passed on.

    Returns:
      An array of the dtype of `array`.

    Raises:
      ValueError: widths are negative or of an axis that is not there, an empty axis has no elements to pad with, or
        keywords are unknown.
      NotImplementedError: there is no such mode.
      TypeError: widths are not integers.

    >>> import xpr.numpy as jnp
    >>> jnp.pad(jnp.array([1, 2, 3]), (1, 2), mode="reflect")
    Array([2, 1, 2, 3, 2, 1], dtype=int32)
    """
    array = asarray_like(array)
    widths = _widths(pad_width, array.aval.ndim)
    if callable(mode):
        return _by_function(array, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(
            f"pad: Unimplemented padding mode '{mode}' for np.pad. Modes are {', '.join(_OPTIONS)}, and functions."
        )
    if unknown := set(kwargs) - _OPTIONS[mode]:
        raise ValueError(
            f"pad: unsupported keyword arguments for mode {mode!r}: {sorted(unknown)}. It takes "
            f"{sorted(_OPTIONS[mode])}."
        )
    if mode in ("constant", "empty"):
        return _constant(array, widths, kwargs.get("constant_values", 0))
    along = _AXIS_RULES.get(mode, _indexed)
    for axis, width in enumerate(widths):
        if any(width):
            if not aval_of(array).shape[axis]:
                raise ValueError(f"pad: mode {mode!r} makes elements from those of an axis, and axis {axis} has none.")
            array = along(array, axis, width, mode, **kwargs)
    return array


# -- What is said for each axis and side


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        width_of = {one_axis(axis, ndim): width for axis, width in pad_width.items()}
        pad_width = [np.broadcast_to(np.asarray(width_of.get(axis, 0)), (2,)) for axis in range(ndim)]
    if type(pad_width) is int and pad_width >= 0:
        return [(pad_width, pad_width)] * ndim
    widths = np.asarray(pad_width)
    symbolic = any(map(is_symbolic_dim, widths.ravel()))
    if widths.dtype.kind not in "iu" and widths.size and not symbolic:
        raise TypeError(f"pad: widths are integers, and {pad_width!r} was given.")
    if (widths < 0).any():
        raise ValueError(f"pad: widths can't be negative, and {pad_width!r} was given. To remove elements, slice.")
    number = (lambda n: n) if symbolic else int
    return [tuple(map(number, pair)) for pair in _pairs("pad_width", widths, ndim)]  # type: ignore[misc]  # two of them


def _pairs(name: str, value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A pair (before, after) for each axis, from a value for all, a pair for all, or a pair for each."""
    if value is None or (not isinstance(value, (list, tuple)) and not np.ndim(value)):
        return [(value, value)] * ndim
    elements = [tuple(x) if np.ndim(x) or isinstance(x, (list, tuple)) else x for x in value]
    if not any(isinstance(x, tuple) for x in elements):
        elements = [tuple(elements)] * (ndim if len(elements) < 3 else 1)
    pairs = [x * 2 if len(x) == 1 else x for x in elements]  # type: ignore[arg-type]  # all are tuples now
    pairs = pairs * ndim if len(pairs) == 1 else pairs
    if len(pairs) != ndim or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"pad: {name} is a value, a (before, after), or one for each of {ndim} axes; it is {value!r}.")
    return pairs


# -- The modes


def _constant(array: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    aval = array.aval
    if not isinstance(values, (list, tuple)) and not np.ndim(values):
        return _pad_constant(array, widths, values)
    for axis, (width, fills) in enumerate(zip(widths, _pairs("constant_values", values, aval.ndim))):
        for side, fill in enumerate(fills):
            pad_widths = [(0, 0)] * aval.ndim
            pad_widths[axis] = (width[0], 0) if side == 0 else (0, width[1])
            array = _pad_constant(array, pad_widths, fill) if width[side] else array
    return array


def _pad_constant(array: Any, widths: list[tuple[int, int]], value: Any) -> Any:
    fill = convert(as_operand(value), array.aval.dtype, array.aval.weak_type)
    return slicing.pad_with(array, fill, tuple([(low, high, 0) for low, high in widths]))


def _indexed(array: Any, axis: int, width: tuple[int, int], mode: str, reflect_type: str = "even") -> Any:
    """Padding by indices into the axis; for reflect_type="odd", reflected about the value at the edge."""
    size = aval_of(array).shape[axis]
    if reflect_type == "even" and any(map(is_symbolic_dim, (size, *width))):
        return read(array, _positions(size, width, mode), axis)
    if reflect_type == "even" or size == 1:
        return taken(array, np.pad(np.arange(size), width, mode=mode), axis)  # type: ignore[call-overload]  # a known mode
    if reflect_type != "odd":
        raise ValueError(f'pad: reflect_type is "even" or "odd", and {reflect_type!r} was given.')
    step = size - 1 if mode == "reflect" else size
    before, after = width
    while before or after:
        size = aval_of(array).shape[axis]
        low, high = min(before, step), min(after, step)
        near = 1 if mode == "reflect" else 0
        parts = [_turned(array, 0, near, low, axis)] if low else []
        parts.append(array)
        parts += [_turned(array, size - 1, size - near - high, high, axis)] if high else []
        array = slicing.concatenate(parts, axis)
        before, after = before - low, after - high
    return array


def _positions(size: Any, width: tuple[Any, Any], mode: str) -> Any:
    """The index of the element at each position of a padded axis, whose size may be symbolic."""
    length = width[0] + size + width[1]
    i, n = broadcasted_iota(np.int32, (length,), 0) - asarray(width[0]), asarray(size)
    if mode == "edge":
        return clip(i, 0, n - 1)
    if mode == "wrap":
        return remainder(i, n)
    repeats = 0 if mode == "symmetric" else 1  # how often an edge occurs less than twice in a period
    period = maximum(2 * (n - repeats), 1)
    j = remainder(i, period)
    return minimum(j, period - 1 + repeats - j)


def _turned(array: Any, edge: int, start: int, length: int, axis: int) -> Any:
    pivot = slice_in_dim(array, edge, edge + 1, axis=axis)
    reflected = rev(slice_in_dim(array, start, start + length, axis=axis), (axis,))
    return subtract(multiply(2, pivot), reflected)


def _ramp(array: Any, axis: int, width: tuple[int, int], mode: str, end_values: Any = 0) -> Any:
    aval = aval_of(array)
    ends = _pairs("end_values", end_values, aval.ndim)[axis]
    low = slice_in_dim(array, 0, 1, axis=axis)
    high = slice_in_dim(array, aval.shape[axis] - 1, aval.shape[axis], axis=axis)

    def side(end: Any, edge: Any, count: int) -> Any:
        flat = linspace(end, edge, count, endpoint=False, dtype=aval.dtype, axis=axis)
        shape = aval_of(flat).shape
        return reshape(flat, (*shape[: axis + 1], *shape[axis + 2 :]))

    before = side(ends[0], low, width[0])
    after = rev(side(ends[1], high, width[1]), (axis,))
    return slicing.concatenate([before, array, after], axis)


_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": reductions.max, "minimum": reductions.min, "mean": statistics.mean, "median": quantiles.median,
}  # fmt: skip


def _statistic(array: Any, axis: int, width: tuple[int, int], mode: str, stat_length: Any = None) -> Any:
    aval = aval_of(array)
    size = aval.shape[axis]
    lengths = _pairs("stat_length", stat_length, aval.ndim)[axis]

    def side(count: int, length: int | None, at_end: bool) -> Any:
        length = size if length is None else min(length, size)
        if length < 1:
            raise ValueError(f"pad: stat_length must be at least 1, and is {length}.")
        start = size - length if at_end else 0
        value = _STATISTICS[mode](slice_in_dim(array, start, start + length, axis=axis), axis=axis, keepdims=True)
        if aval.dtype in dtypes.INTEGERS:
            value = round(value)
        shape = (*aval.shape[:axis], count, *aval.shape[axis + 1 :])
        return broadcast_to(convert(value, aval.dtype, aval.weak_type), shape)

    parts = (side(width[0], lengths[0], False), array, side(width[1], lengths[1], True))
    return slicing.concatenate(parts, axis)


_AXIS_RULES: dict[str, Callable[..., Any]] = {"linear_ramp": _ramp, **dict.fromkeys(_STATISTICS, _statistic)}


def _by_function(
    array: Any, widths: list[tuple[int, int]], function: Callable[..., Any], options: dict[str, Any]
) -> Any:
    """Padding by the user's function of vectors padded with zeros, along each axis in turn."""
    array = _constant(array, widths, 0)
    for axis, width in enumerate(widths):
        array = apply_along_axis(function, axis, array, width, axis, options)
    return array
