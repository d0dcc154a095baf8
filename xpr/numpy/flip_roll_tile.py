"""Elements reversed, shifted, repeated, inserted and deleted: flip, roll, tile, repeat, resize, insert, delete.

Where the indices along an axis are known while tracing, they are computed on the host, in NumPy, and split into *runs*
in which they count up, count down, or stay. Each run is a slice, a reversed slice, or a repeated element, so deleting
an element is two slices joined. Indices of many runs are a gather.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, from_host
from xpr.backend.sharding import NamedSharding
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import array_in, aval_of, describe
from xpr.core.interpreter import Tracer
from xpr.dimensions.expressions import is_symbolic_dim, max_dim
from xpr.numpy.axes import listed_axes, reduced_axes
from xpr.numpy.concrete import concrete_value, is_known
from xpr.numpy.creation import zeros
from xpr.numpy.division import remainder
from xpr.numpy.indexing.along_axis import added_at, read, true_indices
from xpr.numpy.promotion import asarray_like, convert
from xpr.numpy.reshaping import broadcast_to, moveaxis, ravel
from xpr.numpy.rounding import clip
from xpr.numpy.sorting import argsort
from xpr.numpy.where_select import where
from xpr.primitives import concatenation, slicing
from xpr.primitives import elementwise as e
from xpr.primitives.cumulative import cumsum_p
from xpr.primitives.dimension_values import size_as
from xpr.primitives.shapes import broadcast_in_dim, expand_dims, full, one_axis, reshape, rev, shape_of, transpose
from xpr.primitives.sharding_constraint import decided
from xpr.primitives.slicing import slice_in_dim

__all__ = ["delete", "flip", "fliplr", "flipud", "insert", "repeat", "resize", "roll", "rot90", "tile", "trim_zeros"]

_SLICE_INSTEAD = "Use a slice of static bounds instead."
MOST_RUNS = 16  # indices of more runs are gathered

# -- Runs


def runs(index: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """The runs of consecutive indices with one step, as (first, length, step)."""
    start, n = 0, len(index)
    steps = np.diff(index)
    changes = np.flatnonzero(np.diff(steps)) + 1
    while start < n:
        later = changes[np.searchsorted(changes, start, "right") :]
        end = int(later[0]) + 1 if len(later) else n
        step = int(steps[start]) if start < n - 1 else 1
        if abs(step) > 1 and end - start == 2 < n - start:  # two elements followed by others are no run
            step, end = 1, start + 1
        yield int(index[start]), end - start, step
        start = end


def taken(x: Any, index: np.ndarray, axis: int) -> Any:
    """The elements of `x` along an axis at indices known on the host, which are in bounds."""
    if np.count_nonzero(np.diff(index, 2)) > 2 * MOST_RUNS:
        return read(x, from_host(index.astype(np.int32)), axis)
    parts = [_run(x, first, length, step, axis) for first, length, step in runs(index)]
    return slicing.concatenate(parts, axis) if parts else slice_in_dim(x, 0, 0, axis=axis)


def _run(x: Any, first: int, length: int, step: int, axis: int) -> Any:
    last = first + (length - 1) * step
    if step > 0:
        return slice_in_dim(x, first, last + 1, step, axis)
    if step < 0:
        return rev(slice_in_dim(x, last, first + 1, -step, axis), (axis,))
    shape = list(aval_of(x).shape)
    shape[axis] = length
    return broadcast_in_dim(slice_in_dim(x, first, first + 1, axis=axis), shape, range(len(shape)))


# -- flip, rot90, roll


@compiled_eagerly("axis")
def flip(m: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The array reversed along axes.

    Args:
      m: an array.
      axis: the axis or axes; None for all.

    Returns:
      An array of the shape and dtype of `m`.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    m = asarray_like(m)
    axes = reduced_axes(axis, m.aval.ndim)
    return rev(m, axes) if axes else m


def flipud(m: Any) -> Any:
    """The array reversed along its first axis.

    >>> import xpr.numpy as jnp
    >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return flip(m, 0)


def fliplr(m: Any) -> Any:
    """The array reversed along its second axis.

    >>> import xpr.numpy as jnp
    >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return flip(m, 1)


@compiled_eagerly("k")
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """The array rotated by k times 90 degrees in the plane of two axes, from the first towards the second.

    Args:
      m: an array with at least two axes.
      k: the number of rotations; negative ones go the other way.
      axes: the two axes.

    Returns:
      An array of the dtype of `m`; its two sizes are exchanged for an odd k.

    Raises:
      ValueError: the array has fewer than two axes, `axes` are not two, or there are no such axes.

    >>> import xpr.numpy as jnp
    >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    m = asarray_like(m)
    ndim = m.aval.ndim
    if ndim < 2:
        raise ValueError(f"rot90: takes an array of at least two axes, and its shape is {m.aval.shape}.")
    if len(axes) != 2:
        raise ValueError(f"rot90: axes are two, as (0, 1), and are {tuple(axes)}.")
    first, second = reduced_axes(tuple(axes), ndim)
    order = list(range(ndim))
    order[first], order[second] = second, first
    match k % 4:
        case 1:
            return transpose(rev(m, (second,)), order)
        case 2:
            return rev(m, (first, second))
        case 3:
            return rev(transpose(m, order), (second,))
    return m


@compiled_eagerly("shift", "axis")
def roll(a: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The elements shifted cyclically along axes.

    Args:
      a: array or number.
      shift: an integer, or one for each axis; may be traced.
      axis: the axis or axes; None to shift the flattened array.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: there is no such axis, or there are not as many shifts as axes.

    >>> import xpr.numpy as jnp
    >>> jnp.roll(jnp.arange(5), 2)
    Array([3, 4, 0, 1, 2], dtype=int32)
    """
    a = asarray_like(a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.aval.shape)
    axes = [one_axis(i, a.aval.ndim) for i in listed_axes(axis)]
    shifts = _shifts(shift, len(axes))
    if len(axes) == 1:
        axes = axes * len(shifts)
    if type(a) is Array and type(a._device) is NamedSharding and not any(isinstance(by, Tracer) for by in shifts):
        return _rolled_on_several(a, axes=tuple(axes), shifts=tuple(shifts))
    return _rolled(a, axes, shifts)


@compiled
def _rolled_on_several(a: Any, *, axes: Sequence[int], shifts: Sequence[int]) -> Any:
    """One program, in which the compiler keeps the axes partitioned that operations one by one would gather."""
    return _rolled(a, axes, shifts)


def _rolled(a: Any, axes: Sequence[int], shifts: Sequence[Any]) -> Any:
    for position, by in zip(axes, shifts):
        size = aval_of(a).shape[position]
        if isinstance(by, Tracer):
            by = convert(by, dtypes.int32)
            a = read(a, remainder(e.sub(_numbers(size), by), size_as(max_dim(size, 1), dtypes.int32)), position)
        elif size and by % size:
            start = size - by % size
            parts = [slice_in_dim(a, start, size, axis=position), slice_in_dim(a, 0, start, axis=position)]
            a = slicing.concatenate(parts, position)
    return a


def _numbers(n: Any) -> Any:
    """0, 1, ... below a size, as int32."""
    shape: Any = (n,)
    return (
        slicing.broadcasted_iota(dtypes.int32, shape, 0)
        if is_symbolic_dim(n)
        else from_host(np.arange(n, dtype=np.int32))
    )


def _shifts(shift: Any, count: int) -> list[Any]:
    shift = array_in(shift)
    if isinstance(shift, (tuple, list)):
        shifts = [s if isinstance(s, Tracer) else operator.index(s) for s in map(array_in, shift)]
    elif isinstance(shift, Tracer):
        shifts = [shift] if not shift.aval.ndim else list(shift)
    else:
        shifts = [operator.index(s) for s in np.atleast_1d(np.asarray(shift))]
    if len(shifts) == 1:
        return shifts * count
    if count not in (1, len(shifts)):
        raise ValueError(f"roll: {len(shifts)} shifts were given for {count} axes.")
    return shifts


# -- tile, repeat, resize


@compiled_eagerly("reps")
def tile(A: Any, reps: Any) -> Any:
    """The array repeated as a whole, a number of times along each axis.

    Args:
      A: array or number.
      reps: an integer, or one for each axis; missing axes are added in front.

    Returns:
      An array of the dtype of `A`, whose sizes are multiplied by `reps`.

    >>> import xpr.numpy as jnp
    >>> jnp.tile(jnp.arange(2), 3)
    Array([0, 1, 0, 1, 0, 1], dtype=int32)
    """
    A = asarray_like(A)
    counts = shape_of(reps)
    shape = (1,) * (len(counts) - A.aval.ndim) + A.aval.shape
    counts = (1,) * (len(shape) - len(counts)) + counts
    A = reshape(A, shape)
    return concatenation.tile(A, counts) if any(c != 1 for c in counts) else A


def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None, out_sharding: Any = None
) -> Any:
    """Each element repeated along an axis.

    Args:
      a: array or number.
      repeats: an integer, or one for each element of the axis; traced ones need `total_repeat_length`.
      axis: the axis; None for the flattened array.
      total_repeat_length: the size of the result's axis: longer results are truncated, shorter ones repeat the last
        element.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ConcretizationTypeError: `repeats` is traced and there is no `total_repeat_length`.
      ValueError: `repeats` is negative, or does not broadcast to the axis.
      TypeError: `repeats` are not integers.

    >>> import xpr.numpy as jnp
    >>> jnp.repeat(jnp.array([7, 8]), jnp.array([1, 2]))
    Array([7, 8, 8], dtype=int32)
    """
    if out_sharding is not None:
        return decided(
            out_sharding, "repeat", lambda: repeat(a, repeats, axis, total_repeat_length=total_repeat_length)
        )
    a = asarray_like(a)
    if axis is None:
        a, axis = ravel(a), 0
    a = expand_dims(a, (0,)) if not a.aval.ndim else a
    axis = one_axis(axis, a.aval.ndim)
    size = a.aval.shape[axis]
    if is_symbolic_dim(repeats) and total_repeat_length is None:
        return _each_repeated(a, repeats, axis)
    repeats = asarray_like(repeats) if is_symbolic_dim(repeats) else repeats
    if isinstance(repeats, Tracer):
        if total_repeat_length == 0 or (total_repeat_length is not None and size == 0):
            return taken(a, np.full(total_repeat_length, -1), axis)
        if total_repeat_length is not None:
            return read(a, _repeated_index(repeats, size, total_repeat_length), axis, indices_are_sorted=True)
        repeats = concrete_value(repeats, "repeat", "Give total_repeat_length, or make the repeats static.")
    counts = np.asarray(repeats)
    if counts.dtype.kind not in "biu" and counts.size:
        raise TypeError(f"repeat: repeats are integers, and are {describe(repeats)}. Convert them with .astype(int).")
    if counts.size == 1 and total_repeat_length is None:
        return _each_repeated(a, int(counts.reshape(())), axis)
    if (counts < 0).any():
        raise ValueError("repeat: elements can't be repeated a negative number of times.")
    try:
        index = np.repeat(np.arange(size), counts)
    except ValueError:
        raise ValueError(f"repeat: {counts.size} repeats were given for an axis of size {size}.") from None
    if total_repeat_length is not None:
        missing = max(total_repeat_length - len(index), 0)
        index = np.concatenate([index[:total_repeat_length], np.full(missing, size - 1)])
    return taken(a, index, axis)


def _repeated_index(repeats: Any, size: int, length: int) -> Any:
    """The index of the element that each of `length` positions repeats; positions past the end repeat the last."""
    repeats = broadcast_to(convert(ravel(repeats), dtypes.int32), (size,))
    ends = cumsum_p.bind(repeats, axis=0, reverse=False)
    ended = added_at(length, slice_in_dim(ends, 0, size - 1), full((size - 1,), 1, dtypes.int32))
    return cumsum_p.bind(ended, axis=0, reverse=False)


def _each_repeated(a: Any, count: Any, axis: int) -> Any:
    shape = aval_of(a).shape
    (count,) = shape_of(count)
    positions = [i if i <= axis else i + 1 for i in range(len(shape))]
    interleaved = broadcast_in_dim(a, (*shape[: axis + 1], count, *shape[axis + 1 :]), positions)
    return reshape(interleaved, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


def resize(a: Any, new_shape: Any) -> Any:
    """The elements in another shape, repeated or truncated to fill it.

    Args:
      a: array or number.
      new_shape: the shape, an integer or a sequence of them.

    Returns:
      An array of that shape, and the dtype of `a`.

    >>> import xpr.numpy as jnp
    >>> jnp.resize(jnp.arange(3), (2, 2))
    Array([[0, 1],
           [2, 0]], dtype=int32)
    """
    flat = ravel(a)
    shape = shape_of(new_shape)
    total, size = math.prod(shape), flat.aval.shape[0]
    if not size:
        return zeros(shape, flat.aval.dtype)
    if is_symbolic_dim(total) or is_symbolic_dim(size):
        return reshape(read(flat, remainder(_numbers(total), size_as(size, dtypes.int32))), shape)
    tiled = flat if total <= size else tile(flat, -(-total // size))
    return reshape(slice_in_dim(tiled, 0, total), shape)


# -- insert, delete


def _is_integers(obj: Any, n: Any) -> bool:
    """Whether an index is integers to compute with: traced ones, or any along an axis of symbolic size n."""
    if isinstance(obj, slice) or (is_known(obj) and not is_symbolic_dim(n)):
        return False
    return aval_of(obj).dtype in dtypes.INTEGERS


def _known_index(name: str, obj: Any, instead: str) -> Any:
    """The value of an index on which the shape of the result depends."""
    return obj if isinstance(obj, slice) else concrete_value(obj, name, instead)


def _inside(obj: Any, n: int) -> Any:
    """Traced indices as a vector, counted from the start of the axis and clipped to 0 .. n."""
    index, size = convert(ravel(obj), np.dtype(np.int32)), size_as(n, dtypes.int32)
    return clip(where(e.lt(index, np.int32(0)), e.add(index, size), index), 0, size)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with values inserted before the elements that indices name.

    Args:
      arr: array or number.
      obj: an integer, a slice or integers; traced ones are clipped to the axis.
      values: values that broadcast along the axis, converted to the array's dtype.
      axis: the axis; None for the flattened array.

    Returns:
      An array of the dtype of `arr`, longer along the axis.

    Raises:
      IndexError: an index is out of bounds.

    >>> import xpr.numpy as jnp
    >>> jnp.insert(jnp.arange(3), 1, 7)
    Array([0, 7, 1, 2], dtype=int32)
    """
    arr, values = asarray_like(arr), asarray_like(values)
    if axis is None:
        arr, axis = ravel(arr), 0
    ndim, shape = arr.aval.ndim, arr.aval.shape
    axis = one_axis(axis, ndim)
    obj = array_in(obj)
    is_computed = _is_integers(obj, shape[axis])
    instead = "Give integers, or make the mask in NumPy."
    index = asarray_like(obj) if is_computed else _known_index("insert", obj, instead)
    index = np.arange(shape[axis])[index] if isinstance(index, slice) or index.dtype == bool else index
    values = convert(values, arr.aval.dtype, arr.aval.weak_type)
    values = expand_dims(values, range(ndim - values.aval.ndim)) if values.aval.ndim < ndim else values
    values = values if index.ndim else moveaxis(values, 0, axis)
    count = aval_of(values).shape[axis] if index.size == 1 else index.size
    values = broadcast_to(values, (*shape[:axis], count, *shape[axis + 1 :]))
    joined = slicing.concatenate([arr, values], axis)
    if is_computed:
        before = broadcast_to(_inside(index, shape[axis]), (count,))
        odd = e.add(e.mul(_numbers(shape[axis]), np.int32(2)), np.int32(1))
        ranks = slicing.concatenate([odd, e.mul(before, np.int32(2))], 0)
        return read(joined, argsort(ranks), axis)
    order = np.insert(np.arange(shape[axis]), index, shape[axis] + np.arange(count))
    return taken(joined, order, axis)


def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Any:
    """The array without the elements that indices name.

    Args:
      arr: array or number.
      obj: an integer, a slice, integers or a boolean mask, with known values.
      axis: the axis; None for the flattened array.
      assume_unique_indices: a promise that the indices differ, which allows traced ones, clipped to the axis; a single
        integer may always be traced.

    Returns:
      An array of the dtype of `arr`, shorter along the axis.

    Raises:
      IndexError: an index is out of bounds.
      ConcretizationTypeError: the indices are traced, and the size of the result depends on them.

    >>> import xpr.numpy as jnp
    >>> jnp.delete(jnp.arange(4), 1)
    Array([0, 2, 3], dtype=int32)
    """
    arr = asarray_like(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = one_axis(axis, arr.aval.ndim)
    n, obj = arr.aval.shape[axis], array_in(obj)
    if _is_integers(obj, n) and (assume_unique_indices or aval_of(obj).size == 1):
        deleted = _inside(obj, n)
        kept = e.eq(added_at(n, deleted, full((aval_of(deleted).size,), 1, np.int32)), np.int32(0))
        return read(arr, true_indices(kept, n - aval_of(deleted).size, 0), axis, indices_are_sorted=True)
    index = _known_index("delete", obj, "Say assume_unique_indices=True of different integers, or make it in NumPy.")
    return taken(arr, np.delete(np.arange(n), index), axis)


def trim_zeros(filt: Any, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Any:
    """The array without leading and trailing slices of zeros.

    The values must be known, since the size of the result depends on them.

    Args:
      filt: an array.
      trim: "f" for leading zeros, "b" for trailing ones, "fb" for both.
      axis: the axis or axes to trim; None for all.

    Returns:
      An array of the dtype of `filt`.

    Raises:
      ConcretizationTypeError: the array is traced.

    >>> import xpr.numpy as jnp
    >>> jnp.trim_zeros(jnp.array([0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    filt = asarray_like(filt)
    for position in reduced_axes(axis, filt.aval.ndim):
        others = tuple(i for i in range(aval_of(filt).ndim) if i != position)
        nonzero = np.flatnonzero(np.any(concrete_value(filt, "trim_zeros", _SLICE_INSTEAD) != 0, axis=others))
        size = aval_of(filt).shape[position]
        first, last = (nonzero[0], nonzero[-1] + 1) if len(nonzero) else (size, 0)
        start = int(first) if "f" in trim.lower() else 0
        end = int(last) if "b" in trim.lower() else size
        filt = slice_in_dim(filt, start, max(start, end), axis=position)
    return filt
