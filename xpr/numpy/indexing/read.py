"""x[index]: reading by NumPy's rules.

Integers and slices alone are a slice, a reversal and a reshape. Computed scalars make it a dynamic slice, arrays of
indices a gather. What is in memory is left to NumPy itself.

A static index out of range is an IndexError. Computed ones can't be looked at: by default they are moved inside when
reading and dropped when writing, and `mode` says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend.array import Array
from xpr.compile.evaluate import HOST_LIMIT, EvalTrace
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import context
from xpr.numpy.indexing.gather_plan import Places, places
from xpr.numpy.indexing.normalize import APART, Flag, cuts, expanded, host_index, host_of, is_plain, normal_form
from xpr.numpy.promotion import as_operand
from xpr.primitives.dynamic_slices import dynamic_slice_p, one_dtype, wrapped
from xpr.primitives.gather.gather_scatter import gather_p
from xpr.primitives.gather.windows import CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS, GatherScatterMode, fill_of
from xpr.primitives.shapes import full, reshape, rev, squeeze_p
from xpr.primitives.slicing import slice_p

Shape = tuple[int, ...]


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`, by NumPy's rules.

    Raises:
      IndexError: a static index is out of range, or there are more indices than axes.
      NonConcreteBooleanIndexError: the index holds a traced mask, so that the result's size depends on values.
      TypeError: the index holds something that is no index.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(6).reshape(2, 3)
    >>> x[1, ::-1]
    Array([5, 4, 3], dtype=int32)
    >>> x[:, jnp.array([0, 0, 2])]
    Array([[0, 0, 2],
           [3, 3, 5]], dtype=int32)
    """
    plain = is_plain(index)
    if type(x) is Array:
        host = host_of(x)
        if host is not None:
            if plain:
                return _viewed(x, host, index)
            ready = host_index(index)
            if ready is not None:
                try:
                    return _viewed(x, host, ready)
                except IndexError:
                    pass  # computed places outside, which are no error; or one that is explained below
    if plain:
        shape = x.aval.shape
        return read_static(x, shape, expanded(index if type(index) is tuple else (index,), shape))
    return read(x, index)


def _viewed(x: Array, host: Any, index: Any) -> Array:
    """A view of the host value, copied where it would keep a large array alive."""
    aval = x.aval
    found = host[index] if aval.ndim else np.asarray(host)[index]
    if aval.size > HOST_LIMIT and 2 * found.size < aval.size:
        found = np.array(found)
    return Array(ShapedArray(found.shape, aval.dtype, aval.weak_type), found, None, x._device and x.device_of_parts)


# -- Integers and slices alone


def read_static(x: Any, shape: Shape, entries: Sequence[Any]) -> Any:
    """Integers, slices and new axes: a slice, a reversal and a reshape, as far as they change anything."""
    found, result = cuts(entries, shape)
    starts = tuple([c.start for c in found])
    limits = tuple([c.start + (c.size - 1) * c.step + 1 if c.size else c.start for c in found])
    if limits != shape or any(starts) or any(c.step > 1 for c in found):
        x = _sliced(x, starts, limits, tuple([c.step for c in found]))
    flipped = [axis for axis, c in enumerate(found) if c.flipped and c.size > 1]
    if flipped:
        x = rev(x, flipped)
    return shaped(x, result, [axis for axis, c in enumerate(found) if c.dropped])


def _sliced(x: Any, starts: Shape, limits: Shape, steps: Shape) -> Any:
    strided = any(s != 1 for s in steps)
    if type(x) is Array and not strided and type(context.trace) is EvalTrace:
        # With starts as operands one program serves all of them.
        sizes = tuple([limit - start for start, limit in zip(starts, limits)])
        return dynamic_slice_p.bind(x, *map(np.int32, starts), slice_sizes=sizes)
    return slice_p.bind(x, start_indices=starts, limit_indices=limits, strides=steps if strided else None)


def shaped(x: Any, result: Shape, dropped: Sequence[int]) -> Any:
    """`x` in the shape `result`, which lacks the axes `dropped` and may have new ones."""
    shape = aval_of(x).shape
    if shape == result:
        return x
    if len(shape) - len(dropped) == len(result):
        return squeeze_p.bind(x, dimensions=tuple(dropped))
    return reshape(x, result)


# -- Reading


def read(
    x: Any,
    index: Any,
    *,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap_negative_indices: bool = True,
) -> Any:
    """`x[index]`, and what happens to places outside said by `mode`, see `Array.at`."""
    x = as_operand(x)
    shape = aval_of(x).shape
    mode = None if mode is None else GatherScatterMode.from_any(mode)
    entries = normal_form(index, shape, mode, wrap_negative_indices)
    if mode is None and not any(type(e) in (np.ndarray, Flag) or len(getattr(e, "shape", ())) for e in entries):
        return _read_scalars(x, shape, entries, wrap_negative_indices)
    found = places(entries, shape, wrap_negative_indices)
    how = PROMISE_IN_BOUNDS if mode is None or found.inside else GatherScatterMode.from_any(mode)
    return _gathered(x, found, how, fill_value, indices_are_sorted, unique_indices)


def _gathered(
    x: Any, found: Places, mode: GatherScatterMode, fill_value: Any, indices_are_sorted: bool, unique_indices: bool
) -> Any:
    aval = aval_of(x)
    if 0 in found.result:
        return full(found.result, 0, aval.dtype)
    empty = [axis for axis in found.numbers.collapsed_slice_dims if not aval.shape[axis]]
    if empty:
        if mode is FILL_OR_DROP:
            return full(found.result, fill_of(aval.dtype, fill_value), aval.dtype)
        raise IndexError(f"index is out of bounds for axis {empty[0]} with size 0")
    out = gather_p.bind(
        x,
        found.indices,
        dimension_numbers=found.numbers,
        slice_sizes=found.sizes,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices or found.unique),
        mode=mode,
        fill_value=np.nan if isinstance(fill_value, float) and fill_value != fill_value else fill_value,
    )
    if found.flipped:
        out = rev(out, found.flipped)
    return out if found.shape == found.result else reshape(out, found.result)


def _read_scalars(x: Any, shape: Shape, entries: list[Any], wraps: bool) -> Any:
    """Integers, computed ones too, and slices: a slice of static size, dynamic where a start is computed."""
    computed = [(i, e) for i, e in enumerate(entries) if hasattr(e, "aval")]
    if not computed:
        return read_static(x, shape, entries)
    known = [0 if hasattr(e, "aval") else e for e in entries]
    axes = {i: axis for axis, i in enumerate([i for i, e in enumerate(entries) if e is not None and e is not APART])}
    _no_empty([shape[axes[i]] for i, _ in computed], [axes[i] for i, _ in computed])
    found, result = cuts(known, shape)
    if any(c.step > 1 for c in found):
        return _gathered(x, places(entries, shape, wraps), CLIP, None, False, False)
    starts: list[Any] = [c.start for c in found]
    for i, entry in computed:
        starts[axes[i]] = entry
    starts = one_dtype(starts)
    for i, _ in computed:
        if wraps:
            starts[axes[i]] = wrapped(starts[axes[i]], shape[axes[i]])
    x = dynamic_slice_p.bind(x, *starts, slice_sizes=tuple([c.size for c in found]))
    flipped = [axis for axis, c in enumerate(found) if c.flipped and c.size > 1]
    if flipped:
        x = rev(x, flipped)
    return shaped(x, result, [axis for axis, c in enumerate(found) if c.dropped])


def _no_empty(sizes: Sequence[int], axes: Sequence[int]) -> None:
    for n, axis in zip(sizes, axes):
        if not n:
            raise IndexError(f"index is out of bounds for axis {axis} with size 0")
