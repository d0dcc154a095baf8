"""Updates at an index, as functions that return the updated array.

A region made of integers and slices is read, combined and put back, or the whole array combined with padded values. A
mask selects between old and new elements. Arrays of indices make it a scatter. Where an element is named several times,
`set` keeps one of the values, and the others combine them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, from_host
from xpr.compile.evaluate import EvalTrace
from xpr.compile.host import HOST_LIMIT
from xpr.config import settings
from xpr.control.scatter_apply import scatter_apply
from xpr.core.avals import ShapedArray, aval_of, is_key
from xpr.core.interpreter import Tracer, context
from xpr.dimensions.expressions import surely_at_least, surely_below
from xpr.errors import NonConcreteBooleanIndexError
from xpr.numpy.indexing.gather_plan import GatherPlan, gather_plan
from xpr.numpy.indexing.masked import MaskedTracer, all_elements
from xpr.numpy.indexing.normalize import (
    AxisSlice,
    axis_slices,
    expanded,
    host_index,
    host_of,
    is_plain,
    mask_message,
    normal_form,
)
from xpr.numpy.indexing.sized import sized_index
from xpr.numpy.indexing.update_operations import (
    SET,
    Operation,
    broadcast_values,
    converted_values,
    filled,
    warn_unsafe,
    whole,
    whole_and_fraction,
    with_fraction,
)
from xpr.numpy.promotion import SCALARS, as_operand, convert, converter, refuse_in_strict_mode
from xpr.primitives.dimension_values import size_as
from xpr.primitives.dynamic_slices import dynamic_slice, dynamic_update_slice, dynamic_update_slice_p
from xpr.primitives.gather.gather_scatter import gather_p
from xpr.primitives.gather.scatter import scatter_mul_p, scatter_p
from xpr.primitives.gather.windows import (
    PROMISE_IN_BOUNDS,
    GatherScatterMode,
    ScatterDimensionNumbers,
    scatter_of,
)
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, full, reshape, rev
from xpr.primitives.slicing import concatenate as join
from xpr.primitives.slicing import pad, select, slice_

Shape = tuple[int, ...]

# -- Small arrays on the host, by NumPy itself


def _updated_on_host(x: Array, index: Any, values: Any, operation: Operation) -> Array | None:
    """The update as NumPy computes it; None where indices are out of bounds, or the values are not on the host."""
    aval = x.aval
    if x._device is not None or aval.size > HOST_LIMIT or aval.physical is not aval:
        return None
    host = host_of(x)
    new = _host_values(aval, values)
    if host is None or new is None:
        return None
    plain = is_plain(index)
    on_host = index if plain else host_index(index)
    if on_host is None:
        return None
    out = np.array(host)
    try:
        if operation.ufunc is np.positive:
            out[on_host] = new
        else:
            with np.errstate(all="ignore"):
                if plain:
                    out[on_host] = operation.ufunc(out[on_host], new)
                else:  # NumPy 2.4 itself does not broadcast to an index of two axes in an array of one
                    operation.ufunc.at(out, on_host, np.broadcast_to(new, out[on_host].shape))
    except (IndexError, ValueError, TypeError):
        return None
    return Array(aval, out)


def _host_values(aval: ShapedArray, values: Any) -> Any:
    kind = type(values)
    if kind in SCALARS:
        take = converter(aval, kind)
        return None if take is None else take(values)
    if kind is Array:
        return host_of(values) if values.aval.dtype == aval.dtype else None
    return values if isinstance(values, (np.ndarray, np.generic)) and values.dtype == aval.dtype else None


# -- Regions of integers and slices


# From an eighth of the array on it is quicker to combine all of it with padded values, in one fused pass that is easy
# to differentiate, than to copy it and change the copy. Smaller parts are changed in place inside loops.
_LARGE_PART = 8


def _update_static(x: Any, indexers: Sequence[Any], values: Any, operation: Operation) -> Any:
    shape = aval_of(x).shape
    slices, result = axis_slices(indexers, shape)
    window = tuple([c.size for c in slices])
    values = broadcast_values(values, result)
    if 0 in window:
        return x
    if len(getattr(values, "shape", ())):
        values = reshape(values, window)
        flipped = [axis for axis, c in enumerate(slices) if c.flipped and not surely_below(c.size, 2)]
        values = rev(values, flipped) if flipped else values
    elif operation.name == "set":
        values = filled(values, window)
    starts = [c.start for c in slices]
    spanned = math.prod([(c.size - 1) * c.step + 1 for c in slices])
    if window != shape and operation.neutral is not None and surely_at_least(spanned * _LARGE_PART, aval_of(x).size):
        edges = [(c.start, n - c.start - (c.size - 1) * c.step - 1, c.step - 1) for c, n in zip(slices, shape)]
        return operation.combine(x, pad(filled(values, window), operation.neutral(aval_of(x).dtype), edges))
    if any(c.step > 1 for c in slices):
        return _update_strided(x, slices, values, operation)
    if window == shape:
        new = operation.combine(x, values)
        return from_host(np.asarray(new)) if isinstance(new, np.generic) else new
    if operation.name in ("add", "subtract") and aval_of(x).dtype != dtypes.bool_:
        return _add_window(x, starts, window, filled(values, window), operation)
    if operation.name != "set":
        values = operation.combine(slice_(x, starts, [a + n for a, n in zip(starts, window)]), values)
    return dynamic_update_slice_p.bind(x, values, *[size_as(start, dtypes.int32) for start in starts])


def _add_window(x: Any, starts: Sequence[int], window: Shape, values: Any, operation: Operation) -> Any:
    """`x.at[slices].add`, as a scatter: its transpose for x is the identity, that of dynamic_update_slice is not."""
    axes = [axis for axis, (n, size) in enumerate(zip(aval_of(x).shape, window)) if n != size]
    numbers = ScatterDimensionNumbers(tuple(range(len(window))), (), tuple(axes))
    return operation.scatter(aval_of(x).dtype).bind(
        x,
        _vector([starts[axis] for axis in axes]),
        values,
        dimension_numbers=numbers,
        indices_are_sorted=True,
        unique_indices=True,
        mode=PROMISE_IN_BOUNDS,
    )


def _vector(numbers: Sequence[int]) -> Any:
    """A vector of integers; while staging, one made of literals, so that it is no constant of the program."""
    if type(context.trace) is EvalTrace:
        return np.array(numbers, np.int32)
    return join([broadcast_in_dim(size_as(n, dtypes.int32), (1,), ()) for n in numbers], 0)


def _update_strided(x: Any, slices: Sequence[AxisSlice], values: Any, operation: Operation) -> Any:
    """The region that the strided slices span is updated as a whole, with the values padded to their positions."""
    window = tuple([c.size for c in slices])
    starts = [c.start for c in slices]
    gaps = [(0, 0, c.step - 1) for c in slices]
    span = tuple([(c.size - 1) * c.step + 1 for c in slices])
    ends = [start + n for start, n in zip(starts, span)]
    if operation.neutral is not None:
        padded = pad(filled(values, window), operation.neutral(aval_of(x).dtype), gaps)
        return _update_static(x, list(map(slice, starts, ends)), padded, operation)
    old = slice_(x, starts, ends)
    if len(getattr(values, "shape", ())):
        first = reshape(slice_(values, [0] * len(window), [1] * len(window)), ())
        values = pad(values, first, gaps)  # the padding between them is not selected
    chosen = pad(full(window, True, bool), np.False_, gaps)
    new = select(chosen, filled(operation.combine(old, values), span), old)
    return dynamic_update_slice_p.bind(x, new, *[size_as(start, dtypes.int32) for start in starts])


# -- Masks


def _leading_mask(index: Any, shape: Shape) -> Any:
    """The mask of an index that consists of a mask alone; else None."""
    indexers = index if type(index) is tuple else (index,)
    if not indexers or not isinstance(getattr(indexers[0], "dtype", None), np.dtype):
        return None
    mask = indexers[0]
    if mask.dtype != dtypes.bool_ or not mask.ndim or shape[: mask.ndim] != mask.shape:
        return None
    if any(not (i is Ellipsis or (type(i) is slice and i == slice(None))) for i in indexers[1:]):
        return None
    return mask


def _update_masked(x: Any, mask: Any, values: Any, operation: Operation) -> Any:
    """A select by the mask, which needs no indices; None where each true element has a value of its own."""
    aval = aval_of(x)
    if type(values) is MaskedTracer:
        return _combined_where(mask, x, all_elements(values, mask, aval.shape), operation)
    values_shape: Shape = getattr(values, "shape", ())
    rows = aval.shape[aval_of(mask).ndim :]
    if len(values_shape) > len(rows):
        if len(values_shape) > len(rows) + 1 or values_shape[0] != 1:
            return None
        values = reshape(values, values_shape[1:])
    values = None if values is None else broadcast_to(broadcast_values(values, rows), aval.shape)
    return _combined_where(mask, x, values, operation)


def _combined_where(mask: Any, x: Any, values: Any, operation: Operation) -> Any:
    """Old elements combined with new ones, one for each, where the mask of the leading axes is true."""
    aval = aval_of(x)
    mask = as_operand(mask)
    if aval_of(mask).ndim < aval.ndim:
        mask = broadcast_in_dim(mask, aval.shape, range(aval_of(mask).ndim))
    if operation.neutral is None:
        return select(mask, filled(operation.combine(x, values), aval.shape), x)
    # Selected before they are combined, so that the derivative of elements that are not selected can't be nan.
    return operation.combine(x, select(mask, values, full(aval.shape, operation.neutral(aval.dtype), aval.dtype)))


# -- Arrays of indices


def _scatter_update(x: Any, plan: GatherPlan, values: Any, operation: Operation, flags: dict[str, Any]) -> Any:
    aval = aval_of(x)
    values = broadcast_values(values, plan.result)
    if 0 in plan.result or any(not aval.shape[axis] for axis in plan.numbers.collapsed_slice_dims):
        return x
    numbers = scatter_of(plan.numbers)
    if values is None:
        function = lambda old: operation.combine(old, None)  # noqa: E731  # an `apply`, which looks at old elements only
        return scatter_apply(x, plan.indices, function, numbers, update_shape=plan.shape, **flags)
    values = reshape(filled(values, plan.result), plan.shape)
    if plan.flipped:
        values = rev(values, plan.flipped)
    if operation.scatter is not None:
        bind = operation.scatter(aval.dtype).bind
        return bind(x, plan.indices, values, dimension_numbers=numbers, **flags)
    if flags["unique_indices"]:
        old = gather_p.bind(
            x, plan.indices, dimension_numbers=plan.numbers, slice_sizes=plan.sizes, fill_value=0, **flags
        )
        new = operation.combine(old, values)
        return scatter_p.bind(x, plan.indices, new, dimension_numbers=numbers, **flags)
    ones = full(aval.shape, 1, aval.dtype)
    factors = scatter_mul_p.bind(ones, plan.indices, values, dimension_numbers=numbers, **flags)
    return operation.combine(x, factors)


def _are_distinct(plan: GatherPlan, shape: Shape) -> bool:
    """Whether the indices are distinct; compared where they are known, few, and the answer changes the scatter."""
    indices = plan.indices
    if plan.unique:
        return True
    if type(indices) is not np.ndarray or indices.size > 4096 or type(context.trace) is EvalTrace:
        return False
    if plan.sizes and any(n > 1 for n in plan.sizes) and not plan.inside:
        return False
    if not indices.size or not math.prod(shape):
        return True
    extents = [shape[axis] for axis in plan.numbers.start_index_map]
    flat = (
        np.ravel_multi_index(tuple(np.moveaxis(indices, -1, 0)), extents, mode="wrap") if extents else indices[..., 0]
    )
    return plan.inside and len(np.unique(flat)) == flat.size


def update(
    x: Any,
    index: Any,
    values: Any,
    operation: Operation,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
    wrap_negative_indices: bool = True,
) -> Any:
    """`x` with the elements at `index` combined with values."""
    if values is not None and settings.numpy_dtype_promotion == "strict":
        refuse_in_strict_mode([(a.dtype, a.weak_type) for a in map(aval_of, map(as_operand, (x, values)))])
    if type(x) is Array and operation.ufunc is not None and mode is None and wrap_negative_indices:
        done = _updated_on_host(x, index, values, operation)
        if done is not None:
            return done
    mode = None if mode is None else GatherScatterMode.from_any(mode)
    x = as_operand(x)
    aval = aval_of(x)
    if is_key(aval) and operation.name not in ("set", "apply"):
        raise TypeError(f"x.at[...].{operation.name}: {dtypes.NO_NUMBERS} x.at[...].set(keys) replaces keys.")
    values = None if values is None else converted_values(x, values)
    flags = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices, "mode": mode}
    if values is not None and aval_of(values).dtype != aval.dtype:
        warn_unsafe(x, values)
        if operation.name == "set":
            values = convert(values, aval.dtype)
        elif aval.dtype in dtypes.INTEGERS and aval_of(values).dtype in dtypes.INEXACT:
            return _updated_integers(
                x, values, operation, lambda x, values, by: _updated(x, index, values, by, flags, wrap_negative_indices)
            )
        else:
            dtype, _ = dtypes.promote_pair(aval.dtype, aval.weak_type, aval_of(values).dtype, aval_of(values).weak_type)
            x, values = convert(x, dtype), convert(values, dtype)
    return convert(_updated(x, index, values, operation, flags, wrap_negative_indices), aval.dtype, aval.weak_type)


def _updated_integers(x: Any, values: Any, operation: Operation, updated: Callable[[Any, Any, Operation], Any]) -> Any:
    """Integers combined with floats; elements that aren't indexed are not converted, as floats can't hold all integers.

    Minima, maxima and sums are computed in integers, sums of fractions separately. The others are computed in floats.
    """
    aval = aval_of(x)
    match operation.name:
        case "min" | "max":
            result = updated(x, whole(values, aval.dtype), operation)
        case "add" | "subtract":
            number, fraction = whole_and_fraction(values, aval.dtype)
            fractions = updated(full(aval.shape, 0, aval_of(fraction).dtype), fraction, operation)
            result = with_fraction(updated(x, number, operation), fractions)
        case _:
            dtype, _ = dtypes.promote_pair(aval.dtype, aval.weak_type, aval_of(values).dtype, aval_of(values).weak_type)
            named = updated(full(aval.shape, False, dtypes.bool_), np.True_, SET)
            computed = updated(convert(x, dtype), convert(values, dtype), operation)
            result = select(named, convert(computed, aval.dtype), convert(x, aval.dtype))
    return convert(result, aval.dtype, aval.weak_type)


def _updated(x: Any, index: Any, values: Any, operation: Operation, flags: dict[str, Any], wraps: bool) -> Any:
    shape = aval_of(x).shape
    sized = sized_index(index, shape)
    if sized is not None:
        if sized.starts is None:
            return _updated(x, sized.inner, values, operation, flags, wraps)
        window = dynamic_slice(x, sized.starts, sized.sizes)
        return dynamic_update_slice(x, _updated(window, sized.inner, values, operation, flags, wraps), sized.starts)
    plain = is_plain(index) and flags["mode"] is None and wraps
    if plain and not aval_of(x).is_symbolic:
        try:
            return _update_static(x, expanded(index if type(index) is tuple else (index,), shape), values, operation)
        except IndexError:
            if settings.check_static_indices:
                raise
    mask = _leading_mask(index, shape)
    if mask is not None:
        done = _update_masked(x, mask, values, operation)
        if done is not None:
            return done
        if isinstance(mask, Tracer) and mask.concrete() is None:
            raise NonConcreteBooleanIndexError(mask_message(mask))
    indexers = normal_form(index, shape, flags["mode"], wraps)
    if all(type(indexer) in (int, slice) or indexer is None for indexer in indexers):
        return _update_static(x, indexers, values, operation)
    plan = gather_plan(indexers, shape, wraps)
    return _scatter_update(
        x,
        plan,
        values,
        operation,
        {
            "indices_are_sorted": bool(flags["indices_are_sorted"]),
            "unique_indices": bool(flags["unique_indices"]) or _are_distinct(plan, shape),
            "mode": PROMISE_IN_BOUNDS if plan.inside else GatherScatterMode.from_any(flags["mode"]),
        },
    )
