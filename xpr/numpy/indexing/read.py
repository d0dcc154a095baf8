"""x[index]: reading by NumPy's rules.

Integers and slices alone are a slice, a reversal and a reshape. Traced scalars make it a dynamic slice, arrays of
indices a gather. Arrays on the host are read by NumPy itself.

A static index out of bounds is an IndexError, unless the setting `check_static_indices` is off. The values of traced
ones are unknown: by default they are clipped when reading and dropped when writing; `mode` changes that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend.array import Array, from_words
from xpr.compile.evaluate import EvalTrace
from xpr.compile.host import HOST_LIMIT
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer, context
from xpr.dimensions.expressions import is_symbolic_dim, surely_below
from xpr.dimensions.slices import is_decided
from xpr.numpy.creation import asarray
from xpr.numpy.indexing.gather_plan import GatherPlan, gather_plan
from xpr.numpy.indexing.masked import select_by, unknown_mask
from xpr.numpy.indexing.normalize import (
    APART,
    AxisSlice,
    Flag,
    axis_slices,
    expanded,
    host_index,
    host_of,
    host_to_index,
    is_plain,
    normal_form,
)  # fmt: skip
from xpr.numpy.indexing.sized import sized_index
from xpr.numpy.promotion import as_operand, convert
from xpr.primitives.dynamic_slices import dynamic_slice, dynamic_slice_p, one_dtype, wrapped
from xpr.primitives.gather.gather_scatter import gather_or_fill
from xpr.primitives.gather.windows import CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS, GatherScatterMode, fill_of
from xpr.primitives.shapes import broadcast_in_dim, full, reshape, rev, squeeze_p
from xpr.primitives.slicing import broadcasted_iota, slice_p

Shape = tuple[int, ...]


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`, by NumPy's rules.

    Raises:
      IndexError: a static index is out of range, or there are more indices than axes.
      NonConcreteBooleanIndexError: the index holds a traced mask, so that the result's size depends on values, and the
        result is used by more than elementwise functions, reductions and updates at the mask.
      TypeError: the index holds an object of another type.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(6).reshape(2, 3)
    >>> x[1, ::-1]
    Array([5, 4, 3], dtype=int32)
    >>> x[:, jnp.array([0, 0, 2])]
    Array([[0, 0, 2],
           [3, 3, 5]], dtype=int32)
    >>> import xpr
    >>> xpr.jit(lambda x: x[x > 1].sum())(x)
    Array(14, dtype=int32)
    """
    plain = is_plain(index)
    if type(x) is Array:
        host = host_of(x) if x._device is None else host_to_index(x)
        if host is not None:
            on_host = index if plain else host_index(index)
            if on_host is not None:
                try:
                    return _viewed(x, host, on_host)
                except IndexError:
                    pass  # arrays of indices out of bounds, which are no error; or an error that is explained below
    if plain:
        shape = x.aval.shape
        try:
            return read_static(x, shape, expanded(index if type(index) is tuple else (index,), shape))
        except IndexError:
            if settings.check_static_indices:
                raise
    mask = unknown_mask(index)
    selected = None if mask is None else select_by(x, index, mask, getitem)
    return read(x, index) if selected is None else selected


def _viewed(x: Array, host: Any, index: Any) -> Array:
    """An `Array` of a view of the host value, copied if the view would keep a large array alive."""
    aval = x.aval
    if aval.physical is not aval:
        return _keys_viewed(x, host, index)
    result = host[index] if aval.ndim else np.asarray(host)[index]
    if aval.size > HOST_LIMIT and 2 * result.size < aval.size:
        result = np.array(result)
    return Array(ShapedArray(result.shape, aval.dtype, aval.weak_type), result, None, x._device and x.device_of_parts)


def _keys_viewed(x: Array, host: Any, index: Any) -> Array:
    """`x[index]` of an array of random keys as a view of the same words."""
    index = index if type(index) is tuple else (index,)
    inside: tuple[Any, ...] = (slice(None),) * (host.ndim - x.aval.ndim)
    whole = inside if any(i is Ellipsis for i in index) else (Ellipsis, *inside)
    return from_words(host[(*index, *whole)], x.aval.dtype, x._device and x.device_of_parts)


# -- Integers and slices alone


def read_static(x: Any, shape: Shape, indexers: Sequence[Any]) -> Any:
    """`x[index]` for integers, slices and new axes: a slice, a reversal and a reshape, where they are needed."""
    slices, result = axis_slices(indexers, shape)
    undecided = _undecided(slices, shape)
    inside = [AxisSlice(0, shape[axis], 1, False, False) if axis in undecided else c for axis, c in enumerate(slices)]
    starts = tuple([c.start for c in inside])
    limits = tuple([c.start + (c.size - 1) * c.step + 1 if c.size else c.start for c in inside])
    if limits != shape or any(starts) or any(c.step > 1 for c in inside):
        x = _sliced(x, starts, limits, tuple([c.step for c in inside]))
    for axis in undecided:
        start, size, step = slices[axis][:3]
        positions = asarray(start) + asarray(step) * broadcasted_iota(np.int32, (size,), 0)
        x = read(x, (slice(None),) * axis + (positions,), mode=PROMISE_IN_BOUNDS)
    return _in_shape(x, slices, result)


def _in_shape(x: Any, slices: Sequence[AxisSlice], result: Shape) -> Any:
    """What was sliced along each axis, reversed where slices have negative steps, in the shape of the result."""
    flipped = [axis for axis, c in enumerate(slices) if c.flipped and not surely_below(c.size, 2)]
    if flipped:
        x = rev(x, flipped)
    return shaped(x, result, [axis for axis, c in enumerate(slices) if c.dropped])


def _undecided(slices: Sequence[AxisSlice], shape: Shape) -> list[int]:
    """The axes whose slices aren't known to be inside of them, since dimensions are symbolic: elements are gathered."""
    return [
        axis
        for axis, (c, n) in enumerate(zip(slices, shape))
        if any(map(is_symbolic_dim, (c.start, c.size, c.step, n)))
        and not is_decided(c.start, c.start + (c.size - 1) * c.step + 1, c.step, n)
    ]


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
    """`x[index]`, where `mode` says what indices out of bounds read, see `Array.at`."""
    x = as_operand(x)
    shape = aval_of(x).shape
    sized = sized_index(index, shape)
    if sized is not None:
        x, index = x if sized.starts is None else dynamic_slice(x, sized.starts, sized.sizes), sized.inner
        shape = aval_of(x).shape
    mode = None if mode is None else GatherScatterMode.from_any(mode)
    indexers = normal_form(index, shape, mode, wrap_negative_indices)
    if mode is None and not any(type(e) in (np.ndarray, Flag) or len(getattr(e, "shape", ())) for e in indexers):
        return _read_scalars(x, shape, indexers, wrap_negative_indices)
    plan = gather_plan(indexers, shape, wrap_negative_indices)
    gather_mode = PROMISE_IN_BOUNDS if mode is None or plan.inside else GatherScatterMode.from_any(mode)
    return _gathered(x, plan, gather_mode, fill_value, indices_are_sorted, unique_indices)


def _gathered(
    x: Any, plan: GatherPlan, mode: GatherScatterMode, fill_value: Any, indices_are_sorted: bool, unique_indices: bool
) -> Any:
    aval = aval_of(x)
    if 0 in plan.result:
        return full(plan.result, 0, aval.dtype)
    empty = [axis for axis in plan.numbers.collapsed_slice_dims if not aval.shape[axis]]
    if empty:
        if mode is FILL_OR_DROP:
            fill = (
                convert(fill_value, aval.dtype) if isinstance(fill_value, Tracer) else fill_of(aval.dtype, fill_value)
            )
            return broadcast_in_dim(fill, plan.result, ())
        raise IndexError(f"index is out of bounds for axis {empty[0]} with size 0")
    out = gather_or_fill(
        x,
        plan.indices,
        dimension_numbers=plan.numbers,
        slice_sizes=plan.sizes,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices or plan.unique),
        mode=mode,
        fill_value=fill_value,
    )
    if plan.flipped:
        out = rev(out, plan.flipped)
    return out if plan.shape == plan.result else reshape(out, plan.result)


def _read_scalars(x: Any, shape: Shape, indexers: list[Any], wraps: bool) -> Any:
    """`x[index]` for slices and integers, some of them traced: a dynamic slice."""
    of_axes = [e for e in indexers if e is not None and e is not APART]
    traced = {axis: e for axis, e in enumerate(of_axes) if hasattr(e, "aval")}
    if not traced:
        return read_static(x, shape, indexers)
    for axis in traced:
        if not shape[axis]:
            raise IndexError(f"index is out of bounds for axis {axis} with size 0")
    slices, result = axis_slices([0 if hasattr(e, "aval") else e for e in indexers], shape)
    if any(c.step > 1 for c in slices):
        return _gathered(x, gather_plan(indexers, shape, wraps), CLIP, None, False, False)
    starts = one_dtype([traced.get(axis, c.start) for axis, c in enumerate(slices)])
    if wraps:
        starts = [wrapped(s, shape[axis]) if axis in traced else s for axis, s in enumerate(starts)]
    x = dynamic_slice_p.bind(x, *starts, slice_sizes=tuple([c.size for c in slices]))
    return _in_shape(x, slices, result)
