"""pad: entries put around an array, constant or made from those at its edges.

Axes are padded one after the other, so corners are padded from what was already padded. Along one axis the modes edge,
reflect, symmetric and wrap take entries by an index that NumPy's own `pad` makes of 0 .. n - 1, as runs (see
flip_roll_tile.py). The others make the entries: a constant, a ramp, a statistic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.numpy import quantiles, reductions, statistics
from xpr.numpy.arithmetic import multiply, subtract
from xpr.numpy.flip_roll_tile import taken
from xpr.numpy.mapping import apply_along_axis
from xpr.numpy.promotion import as_operand, asarray_like, convert
from xpr.numpy.ranges import linspace
from xpr.numpy.reshaping import broadcast_to
from xpr.numpy.rounding import round
from xpr.primitives import slicing
from xpr.primitives.shapes import reshape, rev
from xpr.primitives.slicing import slice_in_dim

_OPTIONS = {
    "constant": {"constant_values"}, "edge": set(), "empty": set(), "wrap": set(), "linear_ramp": {"end_values"},
    "maximum": {"stat_length"}, "mean": {"stat_length"}, "median": {"stat_length"}, "minimum": {"stat_length"},
    "reflect": {"reflect_type"}, "symmetric": {"reflect_type"},
}  # fmt: skip


def pad(array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Any:
    """The array with entries put around it.

    Args:
      array: an array.
      pad_width: how many before and after each axis: ((before, after), ...), one pair or one number for all axes, or
        a dict from axes to these. Known while tracing.
      mode: "constant" (`constant_values`, shaped like `pad_width`; 0 by default), "edge", "empty" (zeros),
        "linear_ramp" (to `end_values`), "maximum", "mean", "median", "minimum" (of the `stat_length` entries next to
        the edge, all by default), "reflect" and "symmetric" (with `reflect_type="odd"`, turned about the edge's value),
        "wrap"; or a function `f(vector, (before, after), axis, kwargs)` which gives the padded vector, given one whose
        padding is zero.
    Raises:
      ValueError: negative widths, an empty axis where its entries are needed, unknown keywords.

    >>> import xpr.numpy as jnp
    >>> jnp.pad(jnp.array([1, 2, 3]), (1, 2), mode="reflect")
    Array([2, 1, 2, 3, 2, 1], dtype=int32)
    """
    array = asarray_like(array)
    widths = _widths(pad_width, array.aval.ndim)
    if callable(mode):
        return _by_function(array, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(f"pad: {mode!r} is no mode; they are {', '.join(_OPTIONS)}, and functions.")
    if unknown := set(kwargs) - _OPTIONS[mode]:
        raise ValueError(f"pad: mode {mode!r} takes the keywords {sorted(_OPTIONS[mode])}, not {sorted(unknown)}.")
    if mode in ("constant", "empty"):
        return _constant(array, widths, kwargs.get("constant_values", 0))
    along = _AXIS_RULES.get(mode, _indexed)
    for axis, width in enumerate(widths):
        if any(width):
            if not aval_of(array).shape[axis]:
                raise ValueError(f"pad: mode {mode!r} makes entries from those of an axis, and axis {axis} has none.")
            array = along(array, axis, width, mode, **kwargs)
    return array


# -- What is said for each axis and side


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        given = {axis % ndim: width for axis, width in pad_width.items()}
        pad_width = [np.broadcast_to(np.asarray(given.get(axis, 0)), (2,)) for axis in range(ndim)]
    if type(pad_width) is int and pad_width >= 0:
        return [(pad_width, pad_width)] * ndim
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu" and widths.size:
        raise TypeError(f"pad: widths are integers, and {pad_width!r} was given.")
    if (widths < 0).any():
        raise ValueError(f"pad: widths can't be negative, and {pad_width!r} was given. To cut entries off, slice.")
    return [tuple(map(int, pair)) for pair in _pairs("pad_width", widths, ndim)]  # type: ignore[misc]  # two of them


def _pairs(name: str, value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A (before, after) for each axis, of one for all, one pair for all, or one pair for each."""
    if value is None or (not isinstance(value, (list, tuple)) and not np.ndim(value)):
        return [(value, value)] * ndim
    entries = [tuple(x) if np.ndim(x) or isinstance(x, (list, tuple)) else x for x in value]
    if not any(isinstance(x, tuple) for x in entries):
        entries = [tuple(entries)] * (ndim if len(entries) < 3 else 1)
    pairs = [x * 2 if len(x) == 1 else x for x in entries]  # type: ignore[arg-type]  # all are tuples now
    pairs = pairs * ndim if len(pairs) == 1 else pairs
    if len(pairs) != ndim or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"pad: {name} is a value, a (before, after), or one for each of {ndim} axes; it is {value!r}.")
    return pairs


# -- The modes


def _constant(array: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    aval = array.aval
    if not isinstance(values, (list, tuple)) and not np.ndim(values):
        return _filled_around(array, widths, values)
    for axis, (width, fills) in enumerate(zip(widths, _pairs("constant_values", values, aval.ndim))):
        for side, fill in enumerate(fills):
            own = [(0, 0)] * aval.ndim
            own[axis] = (width[0], 0) if side == 0 else (0, width[1])
            array = _filled_around(array, own, fill) if width[side] else array
    return array


def _filled_around(array: Any, widths: list[tuple[int, int]], value: Any) -> Any:
    fill = convert(as_operand(value), array.aval.dtype, array.aval.weak_type)
    return slicing.pad_p.bind(array, fill, padding_config=tuple([(low, high, 0) for low, high in widths]))


def _indexed(array: Any, axis: int, width: tuple[int, int], mode: str, reflect_type: str = "even") -> Any:
    """By an index into the axis. For reflect_type="odd", what is reflected is turned about the value at the edge."""
    size = aval_of(array).shape[axis]
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
    """The user's function on every vector along each axis in turn, padded with zeros to begin with."""
    array = _constant(array, widths, 0)
    for axis, width in enumerate(widths):
        array = apply_along_axis(function, axis, array, width, axis, options)
    return array
