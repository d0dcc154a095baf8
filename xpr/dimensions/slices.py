"""Slices and broadcasts of axes whose sizes may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.dimensions.expressions import DimExpr, is_symbolic_dim, max_dim, min_dim
from xpr.errors import InconclusiveDimensionOperation


def slice_bounds(indexer: slice, n: Any) -> tuple[Any, Any, Any, Any]:
    """The start, stop and step of a slice of an axis of n elements, and the number of its elements.

    Raises:
      InconclusiveDimensionOperation: whether a bound or the step is negative depends on dimension variables.
    """
    if type(n) is int and not any(isinstance(i, DimExpr) for i in (indexer.start, indexer.stop, indexer.step)):
        start, stop, step = indexer.indices(n)
        return start, stop, step, len(range(start, stop, step))
    step = 1 if indexer.step is None else indexer.step
    lowest, highest = (0, n) if step > 0 else (-1, n - 1)

    def bound(i: Any, default: Any) -> Any:
        if i is None:
            return default
        return max_dim(i + n, lowest) if i < 0 else min_dim(i, highest)

    start = bound(indexer.start, lowest if step > 0 else highest)
    stop = bound(indexer.stop, highest if step > 0 else lowest)
    distance, length = (stop - start, step) if step > 0 else (start - stop, -step)
    return start, stop, step, max_dim(-(-distance // length), 0)


def is_decided(start: Any, limit: Any, step: Any, n: Any) -> bool:
    """Whether it is known that a slice with a constant step is inside of its axis."""
    try:
        return type(step) is int and bool(0 <= start <= limit <= n)
    except InconclusiveDimensionOperation:
        return False


def broadcast_sizes(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The shape that these shapes broadcast to.

    Raises:
      ValueError: they don't broadcast.
    """
    first, *others = [tuple(shape) for shape in shapes if shape] or [()]
    if all(other == first for other in others) and all(type(n) is int and n >= 0 for n in first):
        return first
    if not any(is_symbolic_dim(n) for shape in shapes for n in shape):
        return tuple(map(int, np.broadcast_shapes(*map(tuple, shapes))))
    ndim = max(map(len, shapes))
    result = []
    for column in zip(*[(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]):
        sizes = list(dict.fromkeys(n for n in column if n != 1))
        if len(sizes) > 1:
            raise ValueError(f"sizes {sizes[0]} and {sizes[1]} don't broadcast")
        result.append(sizes[0] if sizes else 1)
    return tuple(result)
