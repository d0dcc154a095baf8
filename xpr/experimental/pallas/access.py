"""Reading and writing refs under masks, and reading and writing in one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core.ref_views import RefView
from xpr.core.sized_slices import Slice
from xpr.numpy.indexing.sized import sized_index
from xpr.numpy.refs import get, set
from xpr.numpy.where_select import where
from xpr.primitives.slicing import broadcasted_iota

__all__ = ["load", "store", "updated"]


def _by_position(ref: Any) -> Any:
    """A view whose slices with traced starts are arrays of positions, which are not moved into bounds.

    Of positions out of bounds any element is read, and none is written.
    """
    if type(ref) is not RefView:
        return ref
    of, index = _by_position(ref.ref), ref.index if type(ref.index) is tuple else (ref.index,)
    if not any(type(e) is Slice and e.is_dynamic_start for e in index):
        return RefView(of, ref.index)
    sized: Any = sized_index(index, of.shape)
    for axis, (start, size) in enumerate(zip(sized.starts, sized.sizes)):
        if not isinstance(start, int) or size != of.shape[axis]:
            positions = start + broadcasted_iota(np.int32, (size,), 0)
            of = RefView(of, (slice(None),) * axis + (positions,))
    return RefView(of, sized.inner)


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
    set(view, None, where(mask, value, before).astype(before.dtype))


def updated(ref: Any, index: Any, value: Any, mask: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Combines the elements of a ref at an index with values, and returns those from before."""
    view = RefView(ref, index)
    before = load(view, mask, None)
    store(view, combine(before, value), mask)
    return before
