"""x[index]: reading by NumPy's rules.

An index is brought into one normal form, a list of entries without ellipsis or mask: integers, slices, None for a new
axis, and arrays of integers. Integers and slices alone are a slice, a reversal and a reshape. Computed scalars make it
a dynamic slice; arrays make it a gather, whose layout `Places` works out, for the scatters of `x.at[index]` as well.

A static index out of range is an IndexError. Computed ones can't be looked at: by default they are moved inside when
reading and dropped when writing, and `mode` says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index as as_integer
from types import EllipsisType, NoneType
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend import devices
from xpr.backend.array import Array
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.interpreter import Tracer, context
from xpr.errors import NonConcreteBooleanIndexError
from xpr.numpy.promotion import as_operand
from xpr.primitives.dynamic import dynamic_slice_p, one_dtype, wrapped
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.gather_scatter import gather_p
from xpr.primitives.placing import concatenate, slice_p
from xpr.primitives.shapes import broadcast_in_dim, full, reshape, rev, squeeze_p
from xpr.primitives.windows import (
    CLIP,
    FILL_OR_DROP,
    PROMISE_IN_BOUNDS,
    GatherDimensionNumbers,
    GatherScatterMode,
    fill_of,
)
from xpr.transforms.evaluate import HOST_LIMIT, EvalTrace

Shape = tuple[int, ...]

# -- Indices that say everything themselves: integers, slices of integers, None, ellipsis

_PLAIN = frozenset({int, NoneType, EllipsisType})
_BOUND = frozenset({int, NoneType})


def _is_plain_slice(s: slice) -> bool:
    return type(s.start) in _BOUND and type(s.stop) in _BOUND and type(s.step) in _BOUND


def is_plain(index: Any) -> bool:
    """Whether an index is made of Python integers, slices of them, None and ellipsis."""
    kind = type(index)
    if kind is not tuple:
        return kind in _PLAIN or (kind is slice and _is_plain_slice(index))
    for entry in index:
        kind = type(entry)
        if kind not in _PLAIN and not (kind is slice and _is_plain_slice(entry)):
            return False
    return True


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


def host_of(x: Array) -> Any:
    """The host value of an array that nothing traces, where looking at it costs next to nothing; else None."""
    trace = context.trace
    if type(trace) is not EvalTrace:
        return None
    if x._host is not None:
        return x._host
    if x._device is not None or x.aval.size > HOST_LIMIT or devices.default_backend() != "cpu":
        return None
    return x.host


def _viewed(x: Array, host: Any, index: Any) -> Array:
    """A view of the host value, copied where it would keep a large array alive."""
    aval = x.aval
    found = host[index] if aval.ndim else np.asarray(host)[index]
    if aval.size > HOST_LIMIT and 2 * found.size < aval.size:
        found = np.array(found)
    return Array(ShapedArray(found.shape, aval.dtype, aval.weak_type), found, None, x._device)


_SIMPLE = frozenset({int, NoneType, EllipsisType, bool, slice})


def host_index(index: Any) -> Any:
    """An index with the values of its arrays, for NumPy; None where it holds anything else than NumPy takes, too."""
    if type(index) is not tuple:
        return _host_entry(index)
    found = []
    for entry in index:
        if type(entry) in _PLAIN:
            found.append(entry)
            continue
        ready = _host_entry(entry)
        if ready is None:
            return None
        found.append(ready)
    return tuple(found)


def _host_entry(entry: Any) -> Any:
    kind = type(entry)
    if kind is Array:
        return host_of(entry) if entry.aval.dtype.kind in "iub" else None
    if kind is np.ndarray or isinstance(entry, np.generic):
        return entry if entry.dtype.kind in "iub" else None
    if kind is slice:
        return entry if _is_plain_slice(entry) else None
    return entry if kind in _SIMPLE else None


# -- The normal form


class Flag:
    """A boolean scalar as an index: it takes no axis and adds one, of size 1 or 0, to those of index arrays."""

    __slots__ = ("value",)

    def __init__(self, value: bool):
        self.value = np.zeros(int(value), np.int32)


_MANY = "Too many indices: an array of {} axes ({}) was indexed with {}."


def expanded(index: tuple[Any, ...], shape: Shape) -> list[Any]:
    """The entries with the ellipsis written out as slices: one for each axis, besides those that take none.

    Raises:
      IndexError: there are too many entries, or two ellipses.
    """
    entries = list(index)
    taken = 0
    ellipsis = None
    for position, entry in enumerate(entries):
        if entry is Ellipsis:
            if ellipsis is not None:
                raise IndexError("An index can have one ellipsis ('...') only.")
            ellipsis = position
        elif entry is not None and type(entry) is not Flag:
            taken += 1
    missing = len(shape) - taken
    if missing < 0:
        raise IndexError(_MANY.format(len(shape), f"shape {shape}", taken))
    if ellipsis is None:
        return entries + [_ALL] * missing if missing else entries
    # An empty ellipsis keeps index arrays on its two sides apart, as in NumPy.
    entries[ellipsis : ellipsis + 1] = [_ALL] * missing if missing else [_APART]
    return entries


_ALL = slice(None)
_APART = object()  # stands between index arrays, and for nothing


def normal_form(index: Any, shape: Shape, mode: Any = None, wraps: bool = True) -> list[Any]:
    """The entries of any index: int, slice, None, Flag, and integer arrays, host ones as NumPy arrays.

    A static integer is in range unless a `mode` is given; then one out of range is an array without axes.
    """
    entries: list[Any] = []
    for position, entry in enumerate(index if type(index) is tuple else (index,)):
        kind = type(entry)
        if kind in _PLAIN or kind is slice:
            entries.append(entry)
        else:
            entries += _entry(entry, position, type(index) is tuple)
    _check_masks(entries, shape)
    entries = [e.array if type(e) is _Mask else e for e in entries]
    entries = expanded(tuple(entries), shape)
    return _in_range(entries, shape, mode, wraps)


class _Mask:
    """One axis of the places where a mask holds; `shape` is the mask's, on its first axis only."""

    __slots__ = ("array", "shape")

    def __init__(self, array: np.ndarray, shape: Shape | None):
        self.array, self.shape = array, shape


def _entry(entry: Any, position: int, inside: bool) -> list[Any]:
    """The normal form of an entry that is no plain one."""
    if isinstance(entry, (bool, np.bool_)):
        return [Flag(bool(entry))]
    if isinstance(entry, np.integer) or (isinstance(entry, int) and not isinstance(entry, bool)):
        return [int(entry)]
    if isinstance(entry, (Array, Tracer)):
        value: Any = entry
    elif isinstance(entry, (list, tuple)):
        value = _from_sequence(entry, inside)
    elif isinstance(entry, (np.ndarray, np.generic)):
        value = entry
    elif isinstance(entry, str) or not (hasattr(entry, "__jax_array__") or hasattr(entry, "__xpr_array__")):
        value = _integer_like(entry, position)
    else:
        value = as_operand(entry)
    aval = aval_of(value)
    if aval.dtype == dtypes.bool_:
        return _places(value, aval)
    if aval.dtype not in dtypes.INTEGERS:
        raise TypeError(
            f"An index must be of integers or booleans, and entry {position} is {aval.str_short()}. "
            "Convert it with .astype(int)."
        )
    return [_settled(value, aval)]


def _integer_like(entry: Any, position: int) -> Any:
    try:
        return np.asarray(as_integer(entry))
    except TypeError:
        raise TypeError(
            f"An index is made of integers, slices, None, ... and arrays of integers or booleans; entry {position} is "
            f"{describe(entry)}."
        ) from None


def _from_sequence(entry: Any, inside: bool) -> Any:
    if not inside:
        raise TypeError(
            f"A {type(entry).__name__} can't be an index by itself. To index one axis by several integers use an "
            "array, x[jnp.array([0, 2])]; to index several axes, a tuple, x[0, 2]."
        )
    if not len(entry):
        return np.zeros((0,), np.int32)
    return np.asarray(entry)


def _settled(value: Any, aval: ShapedArray) -> Any:
    """An integer array as an int or NumPy array where its value is at hand."""
    if type(value) is Array:
        host = value._host if value._host is not None else host_of(value)
        return value if host is None else np.asarray(host)
    if isinstance(value, Tracer):
        return value
    return int(value) if not aval.ndim else np.asarray(value)


def _places(mask: Any, aval: ShapedArray) -> list[Any]:
    """A mask as the places where it holds, one array for each of its axes."""
    if isinstance(mask, Tracer):
        concrete = mask.concrete()
        if concrete is None:
            raise NonConcreteBooleanIndexError(mask_message(mask))
        mask = concrete
    host = np.asarray(mask)
    if not host.ndim:
        return [Flag(bool(host))]
    found = np.nonzero(host)
    return [_Mask(a.astype(np.int32), host.shape if not i else None) for i, a in enumerate(found)]


def mask_message(mask: Tracer) -> str:
    return (
        f"A mask as an index must have known values: its number of entries is the size of the result, and this one, "
        f"{mask.aval.str_short()}, is traced while a function is {mask._trace.verb}.\n{mask._trace.explain(mask)}"
        "To choose between values use jnp.where(mask, a, b), which keeps the shape; to reduce over chosen entries, the "
        "reductions' where=mask; for the places themselves, jnp.nonzero(mask, size=n). x.at[mask].set(value) works for "
        "a value without an axis for the chosen entries."
    )


def _check_masks(entries: Sequence[Any], shape: Shape) -> None:
    if not any(type(e) is _Mask for e in entries):
        return
    missing = len(shape) - sum(e is not None and e is not Ellipsis and type(e) is not Flag for e in entries)
    axis = 0
    for position, entry in enumerate(entries):
        if type(entry) is _Mask and entry.shape is not None:
            own = shape[axis : axis + len(entry.shape)]
            if own != entry.shape and missing >= 0:
                raise IndexError(
                    f"A mask of shape {entry.shape} stands at axes {axis} to {axis + len(entry.shape) - 1} of an array "
                    f"of shape {shape}: the sizes must be equal. It is entry {position} of the index."
                )
        if entry is Ellipsis:
            axis += max(missing, 0)
        elif entry is not None and type(entry) is not Flag:
            axis += 1


def _in_range(entries: list[Any], shape: Shape, mode: Any, wraps: bool) -> list[Any]:
    """Integers checked and counted from the start, host arrays too."""
    axis = 0
    for position, entry in enumerate(entries):
        if entry is None or entry is _APART or type(entry) is Flag:
            continue
        n = shape[axis]
        if type(entry) is int:
            if -n <= entry < n and (wraps or entry >= 0):
                entries[position] = entry + n if entry < 0 else entry
            elif mode is None:
                raise IndexError(f"index {entry} is out of bounds for axis {axis} with size {n}")
            else:
                entries[position] = np.asarray(entry + n if entry < 0 and wraps else entry)
        elif type(entry) is np.ndarray:
            entries[position] = _counted(entry, n, wraps)
        axis += 1
    return entries


def _counted(places: np.ndarray, n: int, wraps: bool) -> Any:
    """Host indices counted from the start; a single one that lies inside as an int."""
    if not places.ndim:
        place = int(places)
        place += n if place < 0 and wraps else 0
        return place if 0 <= place < n else np.asarray(place)
    if places.dtype.kind == "u":
        return places
    wide = places.astype(np.int64, copy=False)
    return np.where(wide < 0, wide + n, wide) if wraps and (wide < 0).any() else wide


# -- Integers and slices alone


class Cut(NamedTuple):
    """What a static index says of one axis: `size` entries from `start` by `step`, backwards if `flipped`."""

    start: int
    size: int
    step: int
    flipped: bool
    dropped: bool


def cut(entry: Any, n: int, axis: int) -> Cut:
    """The meaning of an integer or a slice for an axis of size n."""
    if type(entry) is not slice:
        if not -n <= entry < n:
            raise IndexError(f"index {entry} is out of bounds for axis {axis} with size {n}")
        return Cut(entry + n if entry < 0 else entry, 1, 1, False, True)
    start, stop, step = entry.indices(n)
    size = len(range(start, stop, step))
    if step > 0:
        return Cut(start if size else 0, size, step, False, False)
    return Cut(start + (size - 1) * step if size else 0, size, -step, True, False)


def cuts(entries: Sequence[Any], shape: Shape) -> tuple[list[Cut], Shape]:
    """A cut for each axis, and the shape of the result."""
    found: list[Cut] = []
    result: list[int] = []
    for entry in entries:
        if entry is None:
            result.append(1)
        elif entry is not _APART:
            axis = len(found)
            one = cut(entry, shape[axis], axis)
            found.append(one)
            if not one.dropped:
                result.append(one.size)
    return found, tuple(result)


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


# -- Computed places: how an index becomes a gather or a scatter


class Places(NamedTuple):
    """The layout of a gather or scatter for an index."""

    numbers: GatherDimensionNumbers
    sizes: Shape
    indices: Any
    shape: Shape  # of the result as the gather gives it
    flipped: list[int]  # axes of that which run backwards
    result: Shape  # the shape with new axes
    inside: bool  # all places are known to lie inside
    unique: bool  # no place is named twice, as far as can be told


class _Column(NamedTuple):
    """One entry of the index vectors: starts along `axis`, varying along `dims` of the axes over the windows."""

    axis: int
    starts: Any
    dims: Sequence[int]


def places(entries: Sequence[Any], shape: Shape, wraps: bool = True) -> Places:
    """Works out where each entry of the result lies.

    The result's axes come in the order of the entries; those of index arrays, which broadcast against each other, stand
    together where the first of them is, or in front where other entries stand between them.

    Raises:
      IndexError: the index arrays don't broadcast.
    """
    block = _block_shape(entries)
    at = _block_position(entries) if block is not None else None
    columns: list[_Column] = []
    across: list[int] = []  # sizes of the axes over the windows
    shape_now: list[int] = []
    result: list[int] = []
    offset: list[int] = []
    collapsed: list[int] = []
    flipped: list[int] = []
    sizes: list[int] = []
    blocked: list[int] = []  # columns that the index arrays give, whose dims are known once the block is placed
    block_start = 0
    axis = 0

    def place_block() -> None:
        nonlocal block_start
        block_start = len(across)
        across.extend(block)  # type: ignore[arg-type]  # only called where there is one
        shape_now.extend(block)  # type: ignore[arg-type]
        result.extend(block)  # type: ignore[arg-type]

    if at == -1:
        place_block()
    for position, entry in enumerate(entries):
        if position == at:
            place_block()
        if entry is None:
            result.append(1)
            continue
        if entry is _APART or type(entry) is Flag:
            continue
        n = shape[axis]
        if type(entry) is slice:
            one = cut(entry, n, axis)
            result.append(one.size)
            if one.step == 1 or one.size <= 1:
                if one.size != n:
                    columns.append(_Column(axis, one.start, ()))
                if one.flipped and one.size > 1:
                    flipped.append(len(shape_now))
                offset.append(len(shape_now))
                sizes.append(one.size)
            else:
                run = one.start + one.step * np.arange(one.size)
                columns.append(_Column(axis, run[::-1] if one.flipped else run, (len(across),)))
                across.append(one.size)
                collapsed.append(axis)
                sizes.append(1)
            shape_now.append(one.size)
        else:
            blocked.append(len(columns))
            columns.append(_Column(axis, entry, ()))
            collapsed.append(axis)
            sizes.append(1)
        axis += 1
    for i in blocked:
        column = columns[i]
        rank = np.ndim(column.starts) if type(column.starts) is int else len(aval_of(column.starts).shape)
        end = block_start + len(block or ())
        columns[i] = column._replace(dims=range(end - rank, end))
    numbers = GatherDimensionNumbers(tuple(offset), tuple(collapsed), tuple([c.axis for c in columns]))
    indices, inside = _vectors(columns, tuple(across), shape, sizes, wraps)
    unique = not block or math.prod(block) <= 1
    return Places(numbers, tuple(sizes), indices, tuple(shape_now), flipped, tuple(result), inside, unique)


def _is_array(entry: Any) -> bool:
    return type(entry) is Flag or (type(entry) is not slice and hasattr(entry, "shape"))


def _block_shape(entries: Sequence[Any]) -> Shape | None:
    """The shape index arrays broadcast to; None where there are none."""
    shapes = [aval_of(e.value if type(e) is Flag else e).shape for e in entries if _is_array(e)]
    if not shapes:
        return None
    if all(s == shapes[0] for s in shapes):
        return shapes[0]
    try:
        return tuple(map(int, np.broadcast_shapes(*shapes)))
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise IndexError(f"Index arrays must broadcast against each other, and have the shapes {listed}.") from None


def _block_position(entries: Sequence[Any]) -> int:
    """Which entry the axes of the index arrays stand for; -1 for in front of all. Integers count as arrays here."""
    among = [i for i, e in enumerate(entries) if _is_array(e) or type(e) is int]
    return among[0] if among[-1] - among[0] + 1 == len(among) else -1


def _vectors(
    columns: Sequence[_Column], across: Shape, shape: Shape, sizes: Sequence[int], wraps: bool
) -> tuple[Any, bool]:
    """The index vectors, and whether all windows are known to lie inside."""
    if all(type(c.starts) in (int, np.ndarray) for c in columns):
        out = np.zeros((*across, len(columns)), np.int32 if max(shape, default=0) < 1 << 31 else np.int64)
        inside = True
        for position, (axis, starts, dims) in enumerate(columns):
            out[..., position] = _along(np.asarray(starts), dims, len(across))
            last = shape[axis] - sizes[axis]
            inside = inside and bool(np.all((0 <= np.asarray(starts)) & (np.asarray(starts) <= last)))
        return out, inside
    traced = [c.starts for c in columns if type(c.starts) not in (int, np.ndarray)]
    dtype = aval_of(one_dtype(traced)[0]).dtype
    parts = []
    for axis, starts, dims in columns:
        if type(starts) in (int, np.ndarray):
            starts = np.asarray(starts, dtype)
        else:
            starts = convert_element_type(starts, dtype)
            starts = wrapped(starts, shape[axis]) if wraps else starts
        own = aval_of(starts).shape
        ones = [d for d, n in zip(dims, own) if n != across[d]]
        if ones:  # an index array of size 1 along an axis of the block
            starts = reshape(starts, [n for d, n in zip(dims, own) if d not in ones])
            dims = [d for d in dims if d not in ones]
        parts.append(broadcast_in_dim(starts, (*across, 1), dims))
    return concatenate(parts, len(across)), False


def _along(starts: np.ndarray, dims: Sequence[int], rank: int) -> np.ndarray:
    """Starts shaped to broadcast against the axes over the windows."""
    shape = [1] * rank
    for d, n in zip(dims, starts.shape):
        shape[d] = n
    return starts.reshape(shape)


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
    axes = {i: axis for axis, i in enumerate([i for i, e in enumerate(entries) if e is not None and e is not _APART])}
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
