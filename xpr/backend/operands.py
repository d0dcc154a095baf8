"""Operands: arrays, NumPy arrays and numbers, as values in NumPy and as buffers on a device.

Small NumPy arguments of programs on CPU are written into buffers that exist already, see `argument_buffers.py`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import buffers, devices
from xpr.backend.array import Array
from xpr.backend.buffers import Buffer, putter
from xpr.backend.devices import Device
from xpr.backend.sharding import NamedSharding
from xpr.core.avals import TYPED_SCALARS, ShapedArray, integer, python_scalar_aval, refuse_without_value
from xpr.core.refs import Ref

_SCALARS = (bool, int, float, complex, np.generic)

# -- Values in NumPy


def host_value(x: Any, aval: ShapedArray) -> Any:
    """The NumPy value of an array, NumPy array or scalar, in the dtype of `aval`."""
    if type(x) is Array:
        return x.host
    if type(x) in TYPED_SCALARS:
        return x
    if type(x) is int:
        return np.asarray(integer(x, aval.dtype), aval.dtype)
    value = _in_numpy(x)
    return value.astype(aval.dtype) if value.dtype != aval.dtype or isinstance(x, np.ndarray) else value


def _in_numpy(x: Any) -> np.ndarray:
    if type(x) is float:
        return np.asarray(x)
    refuse_without_value(x)
    return np.asarray(x)


# -- Buffers


def buffer_on(x: Any, aval: ShapedArray, device: Device) -> Buffer:
    """The buffer on a device of an array, wherever it is, of a NumPy array or a scalar, in the dtype of `aval`."""
    if type(x) is not Array:
        if type(x) is Ref:
            return buffer_on(x.held(), aval, device)
        host = integer(x, aval.dtype) if type(x) is int else _in_numpy(x)
        return buffers.put(np.asarray(host, aval.dtype), aval, device)
    if x.device is device:
        return x.buffer
    if x._buffer is None or type(x._device) is NamedSharding:
        return buffers.put(np.asarray(x.host), aval, device)
    return buffers.to_device(x._buffer, aval, device)


def operand_buffer(x: Any, aval: ShapedArray) -> Buffer:
    """The buffer of an operand that is not donated; on the default device, in the dtype of `aval`, if it is no array.

    Numbers are sent once, which takes 6 us, and 50 to a GPU.
    """
    if type(x) is Array:
        return x.buffer
    device = devices.default_device()
    if isinstance(x, _SCALARS) and aval.dtype != dtypes.float0:
        host = integer(x, aval.dtype) if type(x) is int else x
        return _scalar_buffer(np.asarray(host, aval.dtype).tobytes(), aval, device)
    return buffer_on(x, aval, device)


@functools.lru_cache(4096)
def _scalar_buffer(value: bytes, aval: ShapedArray, device: Device) -> Buffer:
    return buffers.put(np.frombuffer(value, aval.dtype).reshape(()), aval, device)


# -- Plain values, which calls of known programs may have as arguments

_PLAIN = dtypes.BOOL | frozenset(
    {*map(np.dtype, ("int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "complex64"))}
)
_PLAIN_SCALARS = {kind: aval for kind, aval in TYPED_SCALARS.items() if aval.dtype in _PLAIN}
_WIDE = frozenset(map(np.dtype, ("int64", "uint64", "float64", "complex128")))
_MOST = 2**31


def plain_type(x: Any) -> ShapedArray | None:
    """The type of a NumPy array, or of a number that no setting changes and that surely fits; None of all else."""
    kind = type(x)
    if kind is np.ndarray:
        key = x.shape, x.dtype
        aval = _plain_types.get(key)
        return _plain_array(*key) if aval is None else aval
    if kind is float or kind is bool or kind is complex or (kind is int and -_MOST <= x < _MOST):
        return python_scalar_aval(kind)
    return _PLAIN_SCALARS.get(kind)


_plain_types: dict[tuple[Any, np.dtype], ShapedArray] = {}  # of NumPy arrays; cleared when there are many
_MOST_TYPES = 1024


def _plain_array(shape: tuple[int, ...], dtype: np.dtype) -> ShapedArray | None:
    if dtype in _WIDE:
        return _wide_array(shape, dtypes.canonical(dtype) if dtypes.is_narrowed(dtype) else dtype)
    if dtype not in _PLAIN:
        return None
    if len(_plain_types) >= _MOST_TYPES:
        _plain_types.clear()
    return _plain_types.setdefault((shape, dtype), ShapedArray(shape, dtype))


@functools.lru_cache(_MOST_TYPES)
def _wide_array(shape: tuple[int, ...], dtype: np.dtype) -> ShapedArray:
    return ShapedArray(shape, dtype)


def plain_buffer(x: Any, aval: ShapedArray, device: Device) -> Buffer:
    """The buffer of what has the plain type `aval`."""
    if type(x) is np.ndarray:
        return putter(aval, device)(x if x.dtype == aval.dtype else x.astype(aval.dtype))
    return _scalar_buffer(np.asarray(x, aval.dtype).tobytes(), aval, device)
