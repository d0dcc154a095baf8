"""What an index says, in one normal form: integers, slices, None, and arrays of integers.

The ellipsis is written out, masks are the places where they hold, integers count from the start and lie in range, and
arrays whose values are at hand are NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_integer
from types import EllipsisType, NoneType
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend import devices
from xpr.backend.array import Array
from xpr.compile.evaluate import HOST_LIMIT, EvalTrace
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.interpreter import Tracer, context
from xpr.errors import NonConcreteBooleanIndexError
from xpr.numpy.creation import asarray
from xpr.numpy.promotion import as_operand

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


# -- Indices for NumPy, where the array is in memory


def host_of(x: Array) -> Any:
    """The host value of an array that nothing traces, where it is computed and near; else None."""
    trace = context.trace
    if type(trace) is not EvalTrace:
        return None
    if x._host is not None:
        return x._host
    if x._device is not None or x.aval.size > HOST_LIMIT or devices.default_backend() != "cpu":
        return None
    return x.host if x.is_ready() else None


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
    entries[ellipsis : ellipsis + 1] = [_ALL] * missing if missing else [APART]
    return entries


_ALL = slice(None)
APART = object()  # stands between index arrays, and for nothing


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
    if type(entry) is Array or isinstance(entry, Tracer):
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
    return asarray(entry)


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
        if entry is None or entry is APART or type(entry) is Flag:
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


# -- What integers and slices say of an axis


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
        elif entry is not APART:
            axis = len(found)
            one = cut(entry, shape[axis], axis)
            found.append(one)
            if not one.dropped:
                result.append(one.size)
    return found, tuple(result)
