"""Choosing among arrays: where, select, piecewise's kin."""

from __future__ import annotations

from typing import Any

from xpr.core.avals import aval_of
from xpr.numpy.promotion import broadcast_shapes, promote_dtypes
from xpr.numpy.ufuncs import truth
from xpr.primitives.placing import select as select_entries
from xpr.primitives.shapes import broadcast_to


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Entries of x where the condition holds, of y elsewhere; with the condition alone, the indices where it holds.

    >>> import xpr.numpy as jnp
    >>> jnp.where(jnp.array([True, False]), 1.0, jnp.array([5.0, 6.0]))
    Array([1., 6.], dtype=float32)
    """
    if x is None and y is None:
        raise NotImplementedError('where with one argument')
    if x is None or y is None:
        raise ValueError("where: takes either the condition alone, or both x and y.")
    condition = truth(condition)
    x, y = promote_dtypes(x, y)
    shapes = aval_of(condition).shape, aval_of(x).shape, aval_of(y).shape
    shape = shapes[1] if shapes[0] == shapes[1] == shapes[2] else broadcast_shapes(*shapes)
    if shapes[0] not in ((), shape):
        condition = broadcast_to(condition, shape)
    return select_entries(condition, broadcast_to(x, shape), broadcast_to(y, shape))
