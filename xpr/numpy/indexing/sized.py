"""Indices with slices by start and size, `x[ds(i, 4)]`: a dynamic slice of the array, and an index into that.

Where all starts are known the index is one of Python slices.
"""

from __future__ import annotations

from typing import Any

from xpr.core.avals import describe
from xpr.core.sized_slices import Slice
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.dtypes import INTEGERS
from xpr.numpy.indexing.normalize import APART, Flag, Shape, axis_slice, expanded


class SizedIndex:
    """An index with slices by start and size, of an array of a shape.

    Attributes:
      starts: where the dynamic slice starts; None where there is none, since all starts are known.
      sizes: its sizes.
      inner: the index into it, which has no such slices.
    """

    __slots__ = ("inner", "sizes", "starts")

    def __init__(self, index: tuple[Any, ...], shape: Shape):
        indexers = expanded(index, shape)
        dynamic = any(type(e) is Slice and e.is_dynamic_start for e in indexers)
        inner: list[Any] = []
        starts: list[Any] = []
        sizes: list[int] = []
        for e in indexers:
            if e is None or e is APART or type(e) is Flag:
                inner.append(Ellipsis if e is APART else e)
                continue
            n = shape[len(starts)]
            start, size, within = _window(e, n, len(starts)) if dynamic or type(e) is Slice else (0, n, e)
            starts.append(start)
            sizes.append(size)
            inner.append(within if dynamic or type(e) is not Slice else slice(start, start + size, e.stride))
        self.starts, self.sizes, self.inner = (starts if dynamic else None), tuple(sizes), tuple(inner)


def sized_index(index: Any, shape: Shape) -> SizedIndex | None:
    """The parts of an index with slices by start and size; None for one without.

    Raises:
      IndexError: a slice with a known start is out of range, or there are too many indices.
      TypeError: the size of a slice is traced.
    """
    elements = index if type(index) is tuple else (index,)
    return SizedIndex(elements, shape) if Slice in map(type, elements) else None


def _window(indexer: Any, n: int, axis: int) -> tuple[Any, int, Any]:
    """Where the window that an indexer needs starts along an axis of size n, its size, and the indexer inside of it."""
    if type(indexer) is Slice:
        return _of_slice(indexer, n, axis)
    aval = getattr(indexer, "aval", None)
    if aval is not None and not aval.ndim and aval.dtype in INTEGERS:
        return indexer, 1, 0
    is_static = type(indexer) is slice or (type(indexer) is int and not is_symbolic_dim(n) and -n <= indexer < n)
    if is_static and not is_symbolic_dim(n):
        start, size, step, flipped, dropped = axis_slice(indexer, n, axis)
        if step == 1 and not flipped:
            return start, size, 0 if dropped else slice(None)
    return 0, n, indexer


def _of_slice(x: Slice, n: int, axis: int) -> tuple[Any, int, Any]:
    if x.is_dynamic_size:
        raise TypeError(
            f"ds: the size of a slice is that of the result, and must be an integer; it is {describe(x.size)}."
        )
    size = (x.size - 1) * x.stride + 1 if x.size else 0
    start = x.start
    if not x.is_dynamic_start:
        start += n if start < 0 else 0
        if start < 0 or start + size > n:
            raise IndexError(
                f"Out of bound slice: {x.size} elements from {x.start}{f' by {x.stride}' * (x.stride > 1)} of axis "
                f"{axis}, which has size {n}."
            )
    elif size > n:
        raise IndexError(f"Out of bound slice: {x.size} elements of axis {axis}, which has size {n}.")
    return start, size, slice(None, None, x.stride)
