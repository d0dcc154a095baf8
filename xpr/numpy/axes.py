"""Axis arguments normalized: negative axes, tuples of axes, and None for all; and which shapes broadcast to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.errors import ArgumentError
from xpr.primitives.shapes import one_axis

_ALL_AXES = tuple(tuple(range(n)) for n in range(65))


def listed_axes(axis: Any) -> Any:
    """The axes in a sequence, or in a vector; a single axis as a tuple of it."""
    is_vector = getattr(axis, "ndim", 0) > 0
    return axis if is_vector or isinstance(axis, (tuple, list, range)) else (axis,)


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that `axis` names, counted from the front: all for None, one for an integer, else those listed.

    Raises:
      ValueError: the array has no such axis, or an axis is named twice.
      TypeError: `axis` is neither an integer nor a sequence or a vector of them.
    """
    if axis is None:
        return _ALL_AXES[ndim]
    if type(axis) is int:
        return (one_axis(axis, ndim),)
    axes = tuple(one_axis(a, ndim) for a in listed_axes(axis))
    if len(set(axes)) != len(axes):
        raise ArgumentError(f"duplicate value in 'axis': {tuple(axis)} has a repeated axis; the array has {ndim} axes.")
    return axes


def names_in(axis: Any) -> tuple[str, ...]:
    """The names of mapped axes in an axis argument, which is a name, or a sequence that may have names.

    Raises:
      ValueError: one is named twice.
    """
    if axis is None or type(axis) is int:
        return ()
    if isinstance(axis, str):
        return (axis,)
    names = tuple([name for name in axis if isinstance(name, str)]) if isinstance(axis, (tuple, list)) else ()
    if len(set(names)) != len(names):
        raise ArgumentError(f"duplicate value in 'axis': {tuple(axis)} has a repeated name of a mapped axis.")
    return names


def split_axes(axis: Any, ndim: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The axes of the array that `axis` names, counted from the front, and the names of mapped axes in it.

    Raises:
      ValueError: the array has no such axis, or an axis is named twice.
      TypeError: `axis` is neither an integer, nor a name, nor a sequence or a vector of them.
    """
    names = names_in(axis)
    if not names:
        return reduced_axes(axis, ndim), ()
    numbers = () if isinstance(axis, str) else [i for i in axis if not isinstance(i, str)]
    return reduced_axes(numbers, ndim), names


def broadcasts_to(shape: Sequence[Any], target: Sequence[Any]) -> bool:
    """Whether an array of a shape broadcasts to another shape, its last axes being aligned with those."""
    return len(shape) <= len(target) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(target)))


def no_out(name: str, out: Any) -> None:
    """Raises an error if `out` is given, which NumPy's signatures have.

    Raises:
      NotImplementedError: `out` was given.
    """
    if out is not None:
        raise NotImplementedError(f"{name}: out= is not supported, because arrays are immutable. Use the result.")
