"""Reading and writing refs under masks, and reading and writing in one step.

An element that a mask leaves out is not written, also where an array of indices names it a second time. An atomic
update of an element that is named several times combines all of its values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core.ref_views import RefView
from xpr.core.sized_slices import Slice
from xpr.numpy.indexing.at import at
from xpr.numpy.indexing.sized import sized_index
from xpr.numpy.refs import get, new_ref, set
from xpr.numpy.where_select import where
from xpr.primitives.shapes import reshape
from xpr.primitives.slicing import broadcasted_iota

__all__ = ["load", "store", "updated"]


def _elements(index: Any) -> tuple[Any, ...]:
    return index if type(index) is tuple else (index,)


def _by_position(ref: Any) -> Any:
    """A view in which arrays of positions replace slices with traced starts, which would be moved into bounds.

    At positions out of bounds any element is read, and none is written.
    """
    if type(ref) is not RefView:
        return ref
    view, index = _by_position(ref.ref), _elements(ref.index)
    if not any(type(e) is Slice and e.is_dynamic_start for e in index):
        return RefView(view, ref.index)
    sized: Any = sized_index(index, view.shape)
    for axis, (start, size) in enumerate(zip(sized.starts, sized.sizes)):
        if not isinstance(start, int) or size != view.shape[axis]:
            positions = start + broadcasted_iota(np.int32, (size,), 0)
            view = RefView(view, (slice(None),) * axis + (positions,))
    return RefView(view, sized.inner)


def _has_arrays(ref: Any) -> bool:
    """Whether a view names elements by arrays of indices, which may name one several times."""
    return type(ref) is RefView and (
        any(len(getattr(e, "shape", ())) for e in _elements(ref.index)) or _has_arrays(ref.ref)
    )


def _scattered(view: Any, value: Any, mask: Any, method: str) -> None:
    """Updates the elements of a view at a mask, by a method of `x.at`."""
    chain, ref = [], view
    while type(ref) is RefView:
        chain.append(ref.index)
        ref = ref.ref
    numbers: Any = new_ref(reshape(broadcasted_iota(np.int32, (ref.size,), 0), ref.shape))
    for index in reversed(chain):
        numbers = RefView(numbers, index)
    numbers = get(numbers)
    if mask is not None:
        numbers = where(mask, numbers, ref.size)  # which is out of bounds, and dropped
    flat = at(reshape(get(ref), (math.prod(ref.shape),)))[numbers]
    set(ref, None, reshape(getattr(flat, method)(value, mode="drop"), ref.shape))


def load(ref: Any, mask: Any, other: Any) -> Any:
    """What a ref or view holds; with `other` elsewhere than at a mask."""
    if mask is None:
        return get(ref)
    value = get(_by_position(ref))
    return value if other is None else where(mask, value, other).astype(value.dtype)


def store(ref: Any, value: Any, mask: Any) -> None:
    """Writes the elements of a ref or view at a mask."""
    if mask is None:
        set(ref, None, value)
        return
    view = _by_position(ref)
    before = get(view)
    if _has_arrays(view):
        _scattered(view, value, mask, "set")
    else:
        set(view, None, where(mask, value, before).astype(before.dtype))


def updated(
    ref: Any, index: Any, value: Any, mask: Any, combine: Callable[[Any, Any], Any], method: str | None = None
) -> Any:
    """Combines the elements of a ref at an index with values, and returns those from before.

    `method` is the one of `x.at` that combines all values for an element; None where there is none.
    """
    view = RefView(ref, index)
    before = load(view, mask, None)
    if method is not None and _has_arrays(_by_position(view)):
        _scattered(_by_position(view), value, mask, method)
    else:
        store(view, combine(before, value), mask)
    return before
