"""Slices by start and size, `ds(start, size)`: the start may be traced, the size is that of the result.

A pytree node of a traced start; everything else is part of the structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.tree_nodes import GetAttrKey, register_pytree_with_keys

__all__ = ["Slice", "ds", "dslice"]


@dataclass(frozen=True, slots=True)
class Slice:
    """The indices `start`, `start + stride`, ..., `size` in number, which `ds` makes.

    Args:
      start: an integer, which may be traced.
      size: an integer, not negative; one that is traced is for block specs alone.
      stride: a positive integer.

    Raises:
      ValueError: the stride is not positive, or the size is negative.

    >>> import xpr
    >>> xpr.ds(2, 3)
    Slice(start=2, size=3, stride=1)
    """

    start: Any
    size: Any
    stride: int = 1

    def __post_init__(self) -> None:
        if self.stride < 1:
            raise ValueError(f"ds: the stride must be positive, and is {self.stride}.")
        if not self.is_dynamic_size and self.size < 0:
            raise ValueError(f"ds: the size must not be negative, and is {self.size}.")

    is_dynamic_start = property(lambda self: not isinstance(self.start, _STATIC))
    is_dynamic_size = property(lambda self: not isinstance(self.size, _STATIC))


_STATIC = (int, np.integer)


def _flatten(x: Slice) -> tuple[list[tuple[Any, Any]], Any]:
    parts = (("start", x.start, x.is_dynamic_start), ("size", x.size, x.is_dynamic_size))
    children = [(GetAttrKey(name), value) for name, value, dynamic in parts if dynamic]
    return children, (*[None if dynamic else value for _, value, dynamic in parts], x.stride)


def _unflatten(structure: Any, children: Sequence[Any]) -> Slice:
    start, size, stride = structure
    values = iter(children)
    return Slice(next(values) if start is None else start, next(values) if size is None else size, stride)


register_pytree_with_keys(Slice, _flatten, _unflatten)


def dslice(start: Any, size: Any = None, stride: int | None = None) -> slice | Slice:
    """An index along one axis: `size` elements from `start`, which may be traced.

    Args:
      start: an integer; None for all elements. Without a size it is the size, and the slice starts at 0.
      size: how many elements; an integer that is not traced.
      stride: the distance of the elements; None is 1.

    Returns:
      What stands in an index: `x[ds(i, 4)]`. Where the start is traced the slice is moved into bounds, as
      `lax.dynamic_slice` does.

    Raises:
      ValueError: the stride is traced, or not positive, or the size is negative.

    >>> import xpr, xpr.numpy as jnp
    >>> x = jnp.arange(10)
    >>> xpr.jit(lambda x, i: x[xpr.ds(i, 3)])(x, 4)
    Array([4, 5, 6], dtype=int32)
    >>> x[xpr.ds(1, 3, 2)]
    Array([1, 3, 5], dtype=int32)
    """
    if start is None:
        return slice(None)
    if stride is not None and not isinstance(stride, _STATIC):
        raise ValueError("ds: the stride must be an integer, and is traced. Make the argument it comes from static.")
    first, count = (0, start) if size is None else (start, size)
    return Slice(first, count, 1 if stride is None else int(stride))


ds = dslice
