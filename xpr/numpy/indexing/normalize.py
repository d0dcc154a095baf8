"""Indices in one normal form: integers, slices, None, and arrays of integers.

The ellipsis is written out, masks are the indices of their true elements, integers count from the start and are in
range, and arrays whose values are known are NumPy's.
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
from xpr.backend.sharding import NamedSharding
from xpr.compile.evaluate import EvalTrace
from xpr.compile.host import HOST_LIMIT
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of, shortened
from xpr.core.interpreter import Tracer, context
from xpr.dimensions.expressions import is_symbolic_dim, surely_at_least, surely_below
from xpr.dimensions.slices import slice_bounds
from xpr.errors import NonConcreteBooleanIndexError
from xpr.numpy.creation import asarray
from xpr.numpy.promotion import as_operand

Shape = tuple[int, ...]

# -- Static indices: integers, slices of integers, None, ellipsis

_PLAIN = frozenset({int, NoneType, EllipsisType})
_BOUND = frozenset({int, NoneType})


def _is_plain_slice(s: slice) -> bool:
    return type(s.start) in _BOUND and type(s.stop) in _BOUND and type(s.step) in _BOUND


def is_plain(index: Any) -> bool:
    """Whether an index is made of Python integers, slices of them, None and ellipsis."""
    kind = type(index)
    if kind is not tuple:
        return kind in _PLAIN or (kind is slice and _is_plain_slice(index))
    for indexer in index:
        kind = type(indexer)
        if kind not in _PLAIN and not (kind is slice and _is_plain_slice(indexer)):
            return False
    return True


# -- Indices for NumPy, where the array is in memory


def host_of(x: Array) -> Any:
    """The host value of an array, if nothing is traced and it is computed, whole and in host memory; else None."""
    trace = context.trace
    if type(trace) is not EvalTrace or x.aval.plain is not x.aval:
        return None
    if x._host is not None:
        return x._host
    if x._device is not None or x.aval.size > HOST_LIMIT or devices.default_backend() != "cpu":
        return None
    return x.host if x.is_ready() else None


def host_to_index(x: Array) -> Any:
    """The host value of an array that is indexed: on several devices it is read there, and so are the elements."""
    device = x._device
    return None if type(device) is NamedSharding and len(device.devices) > 1 else host_of(x)


_SIMPLE = frozenset({int, NoneType, EllipsisType, bool, slice})


def host_index(index: Any) -> Any:
    """An index with its arrays as NumPy arrays; None if it holds anything that NumPy doesn't take."""
    if type(index) is not tuple:
        return _host_indexer(index)
    indexers = []
    for indexer in index:
        if type(indexer) in _PLAIN:
            indexers.append(indexer)
            continue
        on_host = _host_indexer(indexer)
        if on_host is None:
            return None
        indexers.append(on_host)
    return tuple(indexers)


def _host_indexer(indexer: Any) -> Any:
    kind = type(indexer)
    if kind is Array:
        return host_of(indexer) if indexer.aval.dtype.kind in "iub" else None
    if kind is np.ndarray or isinstance(indexer, np.generic):
        return indexer if indexer.dtype.kind in "iub" else None
    if kind is slice:
        return indexer if _is_plain_slice(indexer) else None
    return indexer if kind in _SIMPLE else None


# -- The normal form


class Flag:
    """A boolean scalar as an index: it takes no axis and adds one, of size 1 or 0, to those of index arrays."""

    __slots__ = ("value",)

    def __init__(self, value: bool):
        self.value = np.zeros(int(value), np.int32)


def expanded(index: tuple[Any, ...], shape: Shape) -> list[Any]:
    """The indexers with the ellipsis written out as slices: one for each axis, and those that take no axis.

    Raises:
      IndexError: there are too many elements, or two ellipses.
    """
    indexers = list(index)
    taken = 0
    ellipsis = None
    for position, indexer in enumerate(indexers):
        if indexer is Ellipsis:
            if ellipsis is not None:
                raise IndexError("An index can have one ellipsis ('...') only.")
            ellipsis = position
        elif indexer is not None and type(indexer) is not Flag:
            taken += 1
    missing = len(shape) - taken
    if missing < 0:
        raise IndexError(f"Too many indices: array is {len(shape)}-dimensional, but {taken} were indexed.")
    if ellipsis is None:
        return indexers + [_ALL] * missing if missing else indexers
    # An empty ellipsis keeps index arrays on its two sides apart, as in NumPy.
    indexers[ellipsis : ellipsis + 1] = [_ALL] * missing if missing else [APART]
    return indexers


_ALL = slice(None)
APART = object()  # an empty ellipsis between index arrays, which separates them


def normal_form(index: Any, shape: Shape, mode: Any = None, wraps: bool = True) -> list[Any]:
    """The indexers of any index: int, slice, None, Flag, and integer arrays, host ones as NumPy arrays.

    A static integer is in range unless a `mode` is given, or the setting `check_static_indices` is off; then one out of
    range is an array without axes.
    """
    indexers: list[Any] = []
    for position, indexer in enumerate(index if type(index) is tuple else (index,)):
        kind = type(indexer)
        if kind in _PLAIN or kind is slice:
            indexers.append(indexer)
        else:
            indexers += _indexer(indexer, position, type(index) is tuple)
    _check_masks(indexers, shape)
    indexers = [e.array if type(e) is _Mask else e for e in indexers]
    indexers = expanded(tuple(indexers), shape)
    return _in_range(indexers, shape, mode, wraps)


class _Mask:
    """The indices of a mask's true elements along one axis; `shape` is the mask's, on its first axis only."""

    __slots__ = ("array", "shape")

    def __init__(self, array: np.ndarray, shape: Shape | None):
        self.array, self.shape = array, shape


def _indexer(indexer: Any, position: int, in_tuple: bool) -> list[Any]:
    """The normal form of an indexer that is neither an integer, a slice, None nor ellipsis."""
    if isinstance(indexer, (bool, np.bool_)):
        return [Flag(bool(indexer))]
    if isinstance(indexer, np.integer) or (isinstance(indexer, int) and not isinstance(indexer, bool)):
        return [int(indexer)]
    if type(indexer) is Array or isinstance(indexer, Tracer):
        value: Any = indexer
    elif isinstance(indexer, (list, tuple)):
        value = _from_sequence(indexer, in_tuple)
    elif isinstance(indexer, (np.ndarray, np.generic)):
        value = indexer
    elif isinstance(indexer, str) or not (hasattr(indexer, "__jax_array__") or hasattr(indexer, "__xpr_array__")):
        value = _integer_like(indexer, position)
    else:
        value = as_operand(indexer)
    aval = aval_of(value)
    if aval.dtype == dtypes.bool_:
        return _mask_indices(value)
    if aval.dtype not in dtypes.INTEGERS:
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {aval.str_short()} at position "
            f"{position}. Convert it with .astype(int)."
        )
    return [_on_host_if_known(value, aval)]


def _integer_like(indexer: Any, position: int) -> Any:
    try:
        return np.asarray(as_integer(indexer))
    except TypeError:
        if isinstance(indexer, str):
            raise TypeError(
                f"JAX does not support string indexing, by which NumPy names fields, and {indexer!r} is at position "
                f"{position} of the index. Keep each field as an array of its own, in a dict."
            ) from None
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {type(indexer).__name__} at position "
            f"{position}: {shortened(indexer)}. An index is made of integers, slices, None, ... and arrays of integers "
            "or booleans."
        ) from None


def _from_sequence(indexer: Any, in_tuple: bool) -> Any:
    """The array of a list or a nested tuple, which is an indexer only as an element of an index."""
    if not in_tuple:
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed: a "
            f"{type(indexer).__name__} could name several axes, or several elements along one. For several axes use a "
            "tuple, arr[tuple(seq)]; for several elements along one axis an array, arr[array(seq)]: x[0, 2] and "
            "x[jnp.array([0, 2])]."
        )
    if not len(indexer):
        return np.zeros((0,), np.int32)
    return asarray(indexer)


def _on_host_if_known(value: Any, aval: ShapedArray) -> Any:
    """An integer array as an int or NumPy array if its value is known, else itself."""
    if isinstance(value, Tracer) and type(known := value.concrete()) is Array:
        value = known
    if type(value) is Array:
        whole = value.aval.explicit is None and value._host is not None
        host = value._host if whole else host_of(value)
        return value if host is None else np.asarray(host)
    if isinstance(value, Tracer):
        return value
    return int(value) if not aval.ndim else np.asarray(value)


def _mask_indices(mask: Any) -> list[Any]:
    """A mask as the indices of its true elements, one array for each of its axes."""
    if isinstance(mask, Tracer):
        concrete = mask.concrete()
        if concrete is None:
            raise NonConcreteBooleanIndexError(mask_message(mask))
        mask = concrete
    host = np.asarray(mask)
    if not host.ndim:
        return [Flag(bool(host))]
    indices = np.nonzero(host)
    return [_Mask(a.astype(np.int32), host.shape if not i else None) for i, a in enumerate(indices)]


def mask_message(mask: Tracer) -> str:
    return (
        f"A mask as an index must have known values: its number of elements is the size of the result, and this one, "
        f"{mask.aval.str_short()}, is traced while a function is {mask._trace.verb}.\n{mask._trace.explain(mask)}"
        "To choose between values use jnp.where(mask, a, b), which keeps the shape; to reduce over chosen elements, "
        "the reductions' where=mask; for the indices themselves, jnp.nonzero(mask, size=n). x.at[mask].set(value) "
        "works for a value without an axis for the chosen elements."
    )


def _check_masks(indexers: Sequence[Any], shape: Shape) -> None:
    if not any(type(e) is _Mask for e in indexers):
        return
    missing = len(shape) - sum(e is not None and e is not Ellipsis and type(e) is not Flag for e in indexers)
    axis = 0
    for position, indexer in enumerate(indexers):
        if type(indexer) is _Mask and indexer.shape is not None:
            sizes = shape[axis : axis + len(indexer.shape)]
            if sizes != indexer.shape and missing >= 0:
                raise IndexError(
                    f"boolean index did not match shape of the indexed axes {axis} to {axis + len(indexer.shape) - 1}: "
                    f"the mask, element {position} of the index, has shape {indexer.shape}, and the array {shape}."
                )
        if indexer is Ellipsis:
            axis += max(missing, 0)
        elif indexer is not None and type(indexer) is not Flag:
            axis += 1


def _in_range(indexers: list[Any], shape: Shape, mode: Any, wraps: bool) -> list[Any]:
    """Indexers with integers and host arrays checked, and counted from the start."""
    axis = 0
    for position, indexer in enumerate(indexers):
        if indexer is None or indexer is APART or type(indexer) is Flag:
            continue
        n = shape[axis]
        if type(indexer) is int:
            least = -indexer if indexer < 0 else indexer + 1
            if surely_at_least(n, least) and (wraps or indexer >= 0):
                indexers[position] = indexer + n if indexer < 0 else indexer
            elif mode is None and settings.check_static_indices and (surely_below(n, least) or not wraps):
                raise IndexError(f"index {indexer} out of bounds for axis {axis} with size {n}")
            elif indexer < 0 and wraps:
                indexers[position] = asarray(indexer, np.int32) if is_symbolic_dim(n) else np.asarray(indexer + n)
            else:
                indexers[position] = np.asarray(indexer)
        elif type(indexer) is np.ndarray:
            indexers[position] = _counted(indexer, n, wraps)
        axis += 1
    return indexers


def _counted(positions: np.ndarray, n: int, wraps: bool) -> Any:
    """Host indices counted from the start; a scalar in bounds as an int."""
    if not positions.ndim:
        position = int(positions)
        if position < 0 and is_symbolic_dim(n):
            return asarray(position, np.int32) if wraps else np.asarray(position)
        position += n if position < 0 and wraps else 0
        return position if position >= 0 and surely_at_least(n, position + 1) else np.asarray(position)
    if positions.dtype.kind == "u":
        return positions
    wide = positions.astype(np.int64, copy=False)
    if not wraps or not (wide < 0).any():
        return wide
    return asarray(positions) if is_symbolic_dim(n) else np.where(wide < 0, wide + n, wide)


# -- Slices of axes


class AxisSlice(NamedTuple):
    """A static index into one axis: `size` elements from `start` by `step`, reversed if `flipped`."""

    start: int
    size: int
    step: int
    flipped: bool
    dropped: bool


def axis_slice(indexer: Any, n: int, axis: int) -> AxisSlice:
    """An integer or a slice as an `AxisSlice` of an axis of size n."""
    if type(indexer) is not slice:
        if surely_below(n, -indexer if indexer < 0 else indexer + 1):
            raise IndexError(f"index {indexer} out of bounds for axis {axis} with size {n}")
        return AxisSlice(indexer + n if indexer < 0 else indexer, 1, 1, False, True)
    bounds = [bound.static_bound() if isinstance(bound, Tracer) else bound
              for bound in (indexer.start, indexer.stop, indexer.step)]  # fmt: skip
    start, _, step, size = slice_bounds(slice(*bounds), n)
    if step > 0:
        return AxisSlice(start if size else 0, size, step, False, False)
    return AxisSlice(start + (size - 1) * step if size else 0, size, -step, True, False)


def axis_slices(indexers: Sequence[Any], shape: Shape) -> tuple[list[AxisSlice], Shape]:
    """The slice of each axis, and the shape of the result."""
    slices: list[AxisSlice] = []
    result: list[int] = []
    for indexer in indexers:
        if indexer is None:
            result.append(1)
        elif indexer is not APART:
            axis = len(slices)
            selected = axis_slice(indexer, shape[axis], axis)
            slices.append(selected)
            if not selected.dropped:
                result.append(selected.size)
    return slices, tuple(result)
