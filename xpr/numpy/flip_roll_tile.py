"""Entries in other places: flip, roll, tile, repeat, resize, insert, delete.

Where the places are known while tracing, an index along one axis is worked out on the host, in NumPy, and taken as its
*runs*: stretches where it counts up, counts down, or stays. Each is a slice, a reversed slice, or a repeated entry, so
deleting an entry is two slices joined. An index of many runs is a gather.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import from_host
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.numpy.axes import one_axis, reduced_axes
from xpr.numpy.concrete import concrete_value, is_known
from xpr.numpy.creation import shape_of, zeros
from xpr.numpy.division import remainder
from xpr.numpy.indexing.along_axis import added_at, read, true_places
from xpr.numpy.key_arrays import moves
from xpr.numpy.promotion import asarray_like, convert
from xpr.numpy.reshaping import broadcast_to, moveaxis, ravel
from xpr.numpy.rounding import clip
from xpr.numpy.sorting import argsort
from xpr.numpy.where_select import where
from xpr.primitives import elementwise as e
from xpr.primitives import slicing
from xpr.primitives.cumulative import cumsum_p
from xpr.primitives.shapes import broadcast_in_dim, expand_dims, full, reshape, rev, transpose
from xpr.primitives.slicing import slice_in_dim

_SLICE_INSTEAD = "Cut with a slice of static bounds instead."
MOST_RUNS = 16  # an index of more is gathered

# -- Runs


def runs(index: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """The stretches of an index that go on at one step: (first, length, step)."""
    start, n = 0, len(index)
    steps = np.diff(index)
    changes = np.flatnonzero(np.diff(steps)) + 1
    while start < n:
        later = changes[np.searchsorted(changes, start, "right") :]
        end = int(later[0]) + 1 if len(later) else n
        step = int(steps[start]) if start < n - 1 else 1
        if abs(step) > 1 and end - start == 2 < n - start:  # two entries, and then others, are no stretch
            step, end = 1, start + 1
        yield int(index[start]), end - start, step
        start = end


def taken(x: Any, index: np.ndarray, axis: int) -> Any:
    """The entries of `x` at an index known on the host, along an axis; indices lie inside."""
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


@moves("m")
def flip(m: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The array reversed along an axis, several, or all.

    >>> import xpr.numpy as jnp
    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    m = asarray_like(m)
    axes = reduced_axes(axis, m.aval.ndim)
    return rev(m, axes) if axes else m


@moves("m")
def flipud(m: Any) -> Any:
    """The array reversed along its first axis.

    >>> import xpr.numpy as jnp
    >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return flip(m, 0)


@moves("m")
def fliplr(m: Any) -> Any:
    """The array reversed along its second axis.

    >>> import xpr.numpy as jnp
    >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return flip(m, 1)


@moves("m")
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """The array turned k times by 90 degrees in the plane of two axes, from the first towards the second.

    >>> import xpr.numpy as jnp
    >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    m = asarray_like(m)
    ndim = m.aval.ndim
    if ndim < 2:
        raise ValueError(f"rot90: takes an array of at least two axes, and its shape is {m.aval.shape}.")
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


@moves("a")
def roll(a: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The entries moved along axes by so many places, those pushed out coming in again at the other end.

    Args:
      a: an array.
      shift: an integer, or one for each axis; may be traced.
      axis: the axis or axes; None to roll all entries as if they were in one.

    >>> import xpr.numpy as jnp
    >>> jnp.roll(jnp.arange(5), 2)
    Array([3, 4, 0, 1, 2], dtype=int32)
    """
    a = asarray_like(a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.aval.shape)
    axes = [one_axis(i, a.aval.ndim) for i in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    shifts = _shifts(shift, len(axes))
    if len(axes) == 1:
        axes = axes * len(shifts)
    for place, by in zip(axes, shifts):
        size = aval_of(a).shape[place]
        if isinstance(by, Tracer):
            by = convert(by, dtypes.int32)
            a = read(a, remainder(e.sub(from_host(np.arange(size, dtype=np.int32)), by), max(size, 1)), place)
        elif size and by % size:
            cut = size - by % size
            parts = [slice_in_dim(a, cut, size, axis=place), slice_in_dim(a, 0, cut, axis=place)]
            a = slicing.concatenate(parts, place)
    return a


def _shifts(shift: Any, count: int) -> list[Any]:
    if isinstance(shift, (tuple, list)):
        shifts = [s if isinstance(s, Tracer) else operator.index(s) for s in shift]
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


@moves("A")
def tile(A: Any, reps: Any) -> Any:
    """The array laid beside itself, so many times along each axis.

    >>> import xpr.numpy as jnp
    >>> jnp.tile(jnp.arange(2), 3)
    Array([0, 1, 0, 1, 0, 1], dtype=int32)
    """
    A = asarray_like(A)
    counts = shape_of(reps)
    shape = (1,) * (len(counts) - A.aval.ndim) + A.aval.shape
    counts = (1,) * (len(shape) - len(counts)) + counts
    spread = [m for count, n in zip(counts, shape) for m in (count, n)]
    places = [2 * i + 1 for i in range(len(shape) - A.aval.ndim, len(shape))]
    tiled = broadcast_in_dim(A, spread, places) if any(c != 1 for c in counts) else A
    return reshape(tiled, tuple([c * n for c, n in zip(counts, shape)]))


@moves("a")
def repeat(a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None) -> Any:
    """Each entry along an axis (of all entries in one axis, for None) so many times.

    Args:
      a: an array.
      repeats: an integer, or one for each entry of the axis. Traced ones need `total_repeat_length`.
      axis: the axis along which to repeat.
      total_repeat_length: the size of the result's axis: what is beyond is cut, what is missing repeats the last entry.
    Raises:
      ConcretizationTypeError: `repeats` is traced, and no `total_repeat_length` was given.

    >>> import xpr.numpy as jnp
    >>> jnp.repeat(jnp.array([7, 8]), jnp.array([1, 2]))
    Array([7, 8, 8], dtype=int32)
    """
    a = asarray_like(a)
    if axis is None:
        a, axis = ravel(a), 0
    a = expand_dims(a, (0,)) if not a.aval.ndim else a
    axis = one_axis(axis, a.aval.ndim)
    size = a.aval.shape[axis]
    if isinstance(repeats, Tracer):
        if total_repeat_length is not None:
            return read(a, _repeated_index(repeats, size, total_repeat_length), axis, indices_are_sorted=True)
        repeats = concrete_value(repeats, "repeat", "Give total_repeat_length, or make the repeats static.")
    counts = np.asarray(repeats)
    if counts.size == 1 and total_repeat_length is None:
        return _each_repeated(a, int(counts.reshape(())), axis)
    if (counts < 0).any():
        raise ValueError("repeat: entries can't be repeated a negative number of times.")
    try:
        index = np.repeat(np.arange(size), counts)
    except ValueError:
        raise ValueError(f"repeat: {counts.size} repeats were given for an axis of size {size}.") from None
    if total_repeat_length is not None:
        missing = max(total_repeat_length - len(index), 0)
        index = np.concatenate([index[:total_repeat_length], np.full(missing, size - 1)])
    return taken(a, index, axis)


def _repeated_index(repeats: Any, size: int, length: int) -> Any:
    """The entry that each of `length` places repeats: the number of entries, but the last, whose repeats have ended."""
    repeats = broadcast_to(convert(ravel(repeats), dtypes.int32), (size,))
    ends = cumsum_p.bind(repeats, axis=0, reverse=False)
    ended = added_at(length, slice_in_dim(ends, 0, size - 1), full((size - 1,), 1, dtypes.int32))
    return cumsum_p.bind(ended, axis=0, reverse=False)


def _each_repeated(a: Any, count: int, axis: int) -> Any:
    shape = aval_of(a).shape
    (count,) = shape_of(count)
    places = [i if i <= axis else i + 1 for i in range(len(shape))]
    spread = broadcast_in_dim(a, (*shape[: axis + 1], count, *shape[axis + 1 :]), places)
    return reshape(spread, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


@moves("a")
def resize(a: Any, new_shape: Any) -> Any:
    """The entries in another shape, repeated from the start or cut off as it takes more or fewer of them.

    >>> import xpr.numpy as jnp
    >>> jnp.resize(jnp.arange(3), (2, 2))
    Array([[0, 1],
           [2, 0]], dtype=int32)
    """
    flat = ravel(a)
    shape = shape_of(new_shape)
    wanted, size = int(np.prod(shape)), flat.aval.shape[0]
    if not size:
        return zeros(shape, flat.aval.dtype)
    tiled = flat if wanted <= size else tile(flat, -(-wanted // size))
    return reshape(slice_in_dim(tiled, 0, wanted), shape)


# -- insert, delete


def _is_integers(obj: Any) -> bool:
    """Whether an index is traced integers, of which the number is known alone."""
    return not isinstance(obj, slice) and not is_known(obj) and aval_of(obj).dtype in dtypes.INTEGERS


def _known_index(name: str, obj: Any, instead: str) -> Any:
    """An index that says which entries there are, so it has to be known while tracing."""
    return obj if isinstance(obj, slice) else concrete_value(obj, name, instead)


def _inside(obj: Any, n: int) -> Any:
    """Traced positions in an axis as a vector, counted from its start and clipped to 0 .. n."""
    index = convert(ravel(obj), np.dtype(np.int32))
    return clip(where(e.lt(index, np.int32(0)), e.add(index, np.int32(n)), index), 0, n)


@moves("arr", "values")
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with values put in before the entries that an index names.

    Args:
      arr: an array.
      obj: an integer, a slice or integers; those that are traced are clipped to the axis.
      values: what to put in; broadcasts along the axis, and is converted to the array's dtype.
      axis: the axis; None for all entries in one axis.
    Raises:
      IndexError: an index is out of range.

    >>> import xpr.numpy as jnp
    >>> jnp.insert(jnp.arange(3), 1, 7)
    Array([0, 7, 1, 2], dtype=int32)
    """
    arr, values = asarray_like(arr), asarray_like(values)
    if axis is None:
        arr, axis = ravel(arr), 0
    ndim, shape = arr.aval.ndim, arr.aval.shape
    axis = one_axis(axis, ndim)
    index = obj if _is_integers(obj) else _known_index("insert", obj, "Give integers, or make the mask in NumPy.")
    index = np.arange(shape[axis])[index] if isinstance(index, slice) or index.dtype == bool else index
    values = convert(values, arr.aval.dtype)
    values = expand_dims(values, range(ndim - values.aval.ndim)) if values.aval.ndim < ndim else values
    values = values if index.ndim else moveaxis(values, 0, axis)
    count = aval_of(values).shape[axis] if index.size == 1 else index.size
    values = broadcast_to(values, (*shape[:axis], count, *shape[axis + 1 :]))
    joined = slicing.concatenate([arr, values], axis)
    if not isinstance(index, np.ndarray):
        before = broadcast_to(_inside(index, shape[axis]), (count,))
        ranks = slicing.concatenate([2 * np.arange(shape[axis], dtype=np.int32) + 1, e.mul(before, np.int32(2))], 0)
        return read(joined, argsort(ranks), axis)
    order = np.insert(np.arange(shape[axis]), index, shape[axis] + np.arange(count))
    return taken(joined, order, axis)


@moves("arr")
def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Any:
    """The array without the entries that an index names.

    Args:
      arr: an array.
      obj: an integer, a slice, integers or a boolean mask, known while tracing.
      axis: the axis; None for all entries in one axis.
      assume_unique_indices: no index is given twice, which allows integers that are traced; a single one always may be.
        They are clipped to the axis.
    Raises:
      IndexError: an index is out of range.
      ConcretizationTypeError: an index is traced, and how many entries it names depends on its values.

    >>> import xpr.numpy as jnp
    >>> jnp.delete(jnp.arange(4), 1)
    Array([0, 2, 3], dtype=int32)
    """
    arr = asarray_like(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = one_axis(axis, arr.aval.ndim)
    n = arr.aval.shape[axis]
    if _is_integers(obj) and (assume_unique_indices or aval_of(obj).size == 1):
        gone = _inside(obj, n)
        kept = e.eq(added_at(n, gone, full((aval_of(gone).size,), 1, np.int32)), np.int32(0))
        return read(arr, true_places(kept, n - aval_of(gone).size, 0), axis, indices_are_sorted=True)
    index = _known_index("delete", obj, "Say assume_unique_indices=True of different integers, or make it in NumPy.")
    return taken(arr, np.delete(np.arange(n), index), axis)


def trim_zeros(filt: Any, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Any:
    """A vector without its leading ("f") and trailing ("b") zeros; of an array, the hull of what is not zero.

    The values must be known, since the size depends on them.

    >>> import xpr.numpy as jnp
    >>> jnp.trim_zeros(jnp.array([0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    filt = asarray_like(filt)
    for place in reduced_axes(axis, filt.aval.ndim):
        others = tuple(i for i in range(aval_of(filt).ndim) if i != place)
        found = np.flatnonzero(np.any(concrete_value(filt, "trim_zeros", _SLICE_INSTEAD) != 0, axis=others))
        size = aval_of(filt).shape[place]
        first, last = (found[0], found[-1] + 1) if len(found) else (size, size)
        start = int(first) if "f" in trim.lower() else 0
        filt = slice_in_dim(filt, start, int(last) if "b" in trim.lower() else size, axis=place)
    return filt
