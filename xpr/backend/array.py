"""Array: a value with a type, on the host, on a device, or on both.

The result of a small eager operation lives on the host and is only sent to the device when a compiled program reads
it; the result of a compiled program is only fetched when its values are needed. Either copy is made from the other when
first needed, and both are immutable. Operators and methods are installed by numpy/methods.py.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend import buffers, devices, native
from xpr.backend.buffers import address_of
from xpr.backend.layout import Format, Layout, row_major
from xpr.backend.mesh import Mesh
from xpr.backend.sharding import NamedSharding, Shard, Sharding, SingleDeviceSharding, replica_ids
from xpr.backend.shards import get_shards, put_in_row_major_order, put_shards, shards_of
from xpr.core.avals import (
    ShapedArray,
    aval_of,
    check_index,
    check_number,
    check_truth,
    is_key,
)
from xpr.core.interpreter import Tracer
from xpr.core.memory import kind_of_space
from xpr.errors import DeletedArrayError
from xpr.key_types import KeyType

__all__ = ["Array"]


class _OfArrays(type):
    """Makes `isinstance(x, xpr.Array)` true of traced values, too, and of mocks, by their `__class__`."""

    def __instancecheck__(cls, x: Any) -> bool:
        return x.__class__ is cls or isinstance(x, Tracer)


before_fetch: list[Callable[[Any], None]] = []  # called with each array whose value is to be fetched from its device


class Array(metaclass=_OfArrays):
    """An immutable n-dimensional array on some device, with NumPy's operators, methods and properties.

    Make one with `xpr.numpy.array`, `zeros`, `arange` and so on.

    >>> import xpr.numpy as jnp
    >>> jnp.arange(3) * 2
    Array([0, 2, 4], dtype=int32)
    """

    __slots__ = ("aval", "_host", "_buffer", "_device", "__weakref__")

    aval: ShapedArray
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]  # equality of arrays is elementwise

    def __init__(self, aval: ShapedArray, host: Any = None, buffer: Any = None, device: Any = None):
        if host is None and buffer is None:
            raise TypeError("Arrays are made by functions: jnp.zeros(shape), jnp.asarray(values).")
        self.aval = aval
        self._host = host  # a NumPy array or scalar that is never written to; of random keys, that of their words
        self._buffer = buffer  # a jaxlib buffer
        self._device = device  # where it was put by name: a device, or a sharding; None where the default was taken

    @property
    def host(self) -> np.ndarray:
        """The value in NumPy, waiting for it if need be; shared, so read-only. That of random keys is their words."""
        value = self._host
        if value is None:
            buffer = self.present_buffer()
            if buffer is None:
                raise self._deleted_error()
            for check in before_fetch:
                check(self)
            if isinstance(self._device, NamedSharding):
                value = self._host = get_shards(buffer, self.aval, self._device)
            else:
                value = self._host = buffers.get(buffer, self.aval)
        return value

    def sample_on_host(self) -> bytes | None:
        """Some of the elements, by which unequal arrays mostly differ; None if the array is not on the host alone."""
        host = self._host
        if self._buffer is not None or self._device is not None or not isinstance(host, np.ndarray):
            return None
        return host.flat[[0, host.size // 2, -1]].tobytes() if host.size else b""

    def _deleted_error(self) -> DeletedArrayError:
        shape = f"{self.aval.dtype.name}[{','.join(map(str, self.aval.shape))}]"
        return DeletedArrayError(
            f"Array has been deleted with shape={shape}: it was deleted, or donated to a jitted call (donate_argnums). "
            "Keep a copy, or don't donate it, to use it afterwards."
        )

    @property
    def buffer(self) -> Any:
        """The value on its device, row-major."""
        value = self._buffer
        if value is None:
            if laid_out and id(self) in laid_out:
                value = self._buffer = put_in_row_major_order(laid_out[id(self)].buffer, self.aval, self.device)
                return value
            target, host = self._device or devices.default_device(), np.asarray(self.host)
            if isinstance(target, NamedSharding):
                value = put_shards(host, self.aval, target)
            else:  # memory that can't be written to, such as a view of another array's buffer, is shared
                value = buffers.put(host, self.aval, target, copy=host.flags.writeable)
            self._buffer = value
        return value

    def present_buffer(self) -> Any:
        """The buffer that the array holds, with its layout; None where its value is on the host alone, or gone."""
        return laid_out[id(self)].buffer if laid_out and id(self) in laid_out else self._buffer

    def _any_buffer(self) -> Any:
        """The value on its device, with its layout."""
        present = self.present_buffer()
        return self.buffer if present is None else present

    def unsafe_buffer_pointer(self) -> int:
        """The address of the elements on the device, valid as long as the array is.

        >>> import xpr.numpy as jnp
        >>> x = jnp.arange(3)
        >>> x.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
        True
        """
        return address_of(self._any_buffer())

    def named_by(self, sharding: NamedSharding) -> None:
        """Gives the array another sharding, which puts the same shards on the same devices."""
        self._device = sharding

    def forget(self) -> None:
        """Drops all copies: the buffer now belongs to the program it was donated to."""
        self._host = self._buffer = None
        laid_out.pop(id(self), None)

    # The interface for jaxlib and other libraries.

    @property
    def device(self) -> Any:
        """The device the array is on; its sharding if it was put by one."""
        if self._device is None and (buffer := self.present_buffer()) is not None:
            return buffers.device_of(buffer)
        return self._device or devices.default_device()

    def devices(self) -> set[Any]:
        """The devices the array is on."""
        return self.sharding.device_set

    @property
    def sharding(self) -> Sharding:
        """How the array is distributed over devices."""
        device = self.device
        if isinstance(device, NamedSharding):
            return device
        kind = "unpinned_host" if unpinned and id(self) in unpinned else kind_of_space(self.aval.memory_space)
        return _sharding_on(device, kind)

    @property
    def format(self) -> Format:
        """The layout in memory and the sharding.

        >>> import xpr.numpy as jnp
        >>> jnp.zeros((2, 3)).format.layout.major_to_minor
        (0, 1)
        """
        return Format(layout_of(self) or row_major(self.aval.ndim), self.sharding)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device of the array holds all of it."""
        return self.sharding.is_fully_replicated

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all of the array is on devices of this process."""
        return self.sharding.is_fully_addressable

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array on the devices of this process.

        >>> import xpr, xpr.numpy as jnp
        >>> [shard.index for shard in jnp.ones(2).addressable_shards]
        [(slice(None, None, None),)]
        """
        indices = self.sharding.indices(self.aval.shape)
        if not isinstance(self._device, NamedSharding):
            return [Shard(self.device, indices[0], 0, self)]
        aval = self.aval.plain.update(shape=self._device.shard_shape(self.aval.shape))
        aval = aval.in_memory(self.aval.memory_space)
        local, replicas, all_devices = self._device.local, list(replica_ids(indices)), self._device.devices
        layout, buffers_of_parts = layout_of(self), shards_of(self._any_buffer())
        parts = [with_layout(aval, part, all_devices[i], layout) for part, i in zip(buffers_of_parts, local)]
        return [Shard(all_devices[i], indices[i], replicas[i], part) for part, i in zip(parts, local)]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of the array on all devices; `data` is None where that is another process's."""
        if not isinstance(self._device, NamedSharding):
            return self.addressable_shards
        indices = self._device.indices(self.aval.shape)
        parts = {shard.device: shard.data for shard in self.addressable_shards}
        numbered = zip(self._device.devices, indices, replica_ids(indices))
        return [Shard(device, index, replica, parts.get(device)) for device, index, replica in numbered]

    def addressable_data(self, index: int) -> Array:
        """The part of the array on one of the devices of this process, by number."""
        return self.addressable_shards[index].data

    @property
    def device_of_parts(self) -> Any:
        """Where parts of the array are put that NumPy computes: a device or a sharding; None if it is sharded."""
        device = self._device
        if type(device) is not NamedSharding:
            return device
        if len(device.devices) == 1:
            return device.devices[0]
        return NamedSharding(device.mesh) if device.is_fully_replicated else None

    @property
    def committed(self) -> bool:
        """Whether the array was put on its device explicitly."""
        return self._device is not None

    def block_until_ready(self) -> Array:
        """Waits until the value has been computed, and returns the array itself.

        >>> import xpr.numpy as jnp
        >>> jnp.ones(2).block_until_ready()
        Array([1., 1.], dtype=float32)
        """
        buffer = self.present_buffer() if self._buffer is None else self._buffer
        if buffer is not None:
            buffers.block([buffer])
        return self

    def is_ready(self) -> bool:
        """Whether the value has been computed."""
        buffer = self.present_buffer()
        return buffer is None or buffer.is_ready()

    def is_deleted(self) -> bool:
        """Whether the array was deleted or donated."""
        if self._host is not None:
            return False
        buffer = self.present_buffer()
        return buffer is None or buffer.is_deleted()

    def delete(self) -> None:
        """Frees the memory of the array, which can't be used afterwards."""
        if self._buffer is not None:
            buffers.delete(self._buffer)
        if id(self) in laid_out:
            buffers.delete(laid_out[id(self)].buffer)
        self.forget()

    def on_device_size_in_bytes(self) -> int:
        """The number of bytes that the array takes, of its parts on all devices together.

        >>> import xpr.numpy as jnp
        >>> jnp.zeros((2, 3)).on_device_size_in_bytes()
        24
        """
        shape = self.aval.physical.shape
        part = self.sharding.shard_shape(shape[: self.aval.ndim]) + shape[self.aval.ndim :]
        return math.prod(part) * self.aval.physical.dtype.itemsize * self.sharding.num_devices

    def copy_to_host_async(self) -> None:
        """Starts fetching the value; here it is fetched when it is read."""

    def numbers(self) -> np.ndarray:
        """The value in NumPy, for users.

        Raises:
          TypeError: this is an array of random keys.
        """
        if type(self.aval.dtype) is KeyType:  # type: ignore[comparison-overlap]  # the one dtype that is not NumPy's
            raise TypeError(
                "A JAX array with PRNGKey dtype cannot be converted to a NumPy array, nor be read by Python: it holds "
                f"random keys, {self.aval.str_short()}. xpr.random.key_data(keys) gives their words, as an array of "
                "uint32."
            )
        return np.asarray(self.host)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self.numbers()
        if dtype is not None and value.dtype != dtype:
            return value.astype(dtype)
        if copy:
            return value.copy()
        return _read_only(value)

    def __buffer__(self, flags: int = 0) -> memoryview:  # called by Python from 3.12 on; see `native`
        return memoryview(self._with_buffer())  # type: ignore[arg-type]

    def _with_buffer(self) -> np.ndarray:  # np.asarray asks for a buffer before it calls __array__
        value, dtype = self._host, self.aval.dtype
        if dtype in _WITH_BUFFERS:
            return _read_only(value) if type(value) is np.ndarray else self.__array__()
        if dtype in _WITHOUT_BUFFERS:
            raise BufferError(_no_buffer(dtype))
        return self.__array__()

    @property
    def __numpy_dtype__(self) -> np.dtype:  # NumPy asks for it where an array is given for a dtype
        warnings.warn(
            "Implicit conversion of an array to a dtype is deprecated, and will be an error: give x.dtype.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.aval.dtype

    # The names of JAX's own arrays that libraries read.

    @property
    def _value(self) -> np.ndarray:
        return self.__array__()

    @property
    def _npy_value(self) -> np.ndarray | None:
        return None if self._host is None else self.__array__()

    @property
    def _arrays(self) -> list[Array] | None:
        return None if self.is_deleted() else [shard.data for shard in self.addressable_shards]

    @property
    def _committed(self) -> bool:
        return self.committed

    @property
    def _base_array(self) -> Array:
        if not is_key(self.aval):
            raise AttributeError(f"Array of {self.aval.str_short()} has no _base_array: it holds no random keys.")
        buffer = None if self.is_deleted() else self.buffer
        words = object.__new__(Array)
        words.aval, words._host, words._buffer, words._device = self.aval.physical, self._host, buffer, self._device
        return words

    def _check_if_deleted(self) -> None:
        if self.is_deleted():
            raise self._deleted_error()

    def _fully_replicated_shard(self) -> Array:
        return self.addressable_data(0)

    def __reduce__(self) -> Any:
        if is_key(self.aval):
            return from_words, (np.asarray(self.host), self.aval.dtype)
        if self.aval.dtype == dtypes.string:
            return Array, (self.aval.plain, np.asarray(self.host))
        return from_host, (np.asarray(self.host), self.aval.weak_type)

    def __bool__(self) -> bool:
        check_truth(self.aval)
        return bool(self.numbers())

    def __int__(self) -> int:
        check_number(self.aval)
        return int(self.numbers().item())

    def __float__(self) -> float:
        check_number(self.aval)
        return float(self.numbers().item())

    def __complex__(self) -> complex:
        check_number(self.aval)
        return complex(self.numbers().item())

    def __index__(self) -> int:
        check_index(self.aval)
        return int(self.host)


@cache
def _sharding_on(device: Any, memory_kind: str) -> SingleDeviceSharding:
    return SingleDeviceSharding(device, memory_kind=memory_kind)


native.give_buffers_of(Array)

# The arrays on one device that were put in unpinned memory of the host, of which types say nothing, by their `id`.
unpinned: dict[int, weakref.ref[Array]] = {}


def in_unpinned_memory(x: Array) -> Array:
    """A copy of an array whose sharding says that it is in unpinned memory of the host."""
    x = Array(x.aval, x._host, x.buffer if x._host is None else x._buffer, x._device)
    key = id(x)
    unpinned[key] = weakref.ref(x, lambda _: unpinned.pop(key, None))
    return x


class _LaidOut(NamedTuple):
    """The buffer of an array that is not row-major, and its layout."""

    array: weakref.ref[Array]
    buffer: Any
    layout: Layout


laid_out: dict[int, _LaidOut] = {}  # by the `id` of the array


def with_layout(aval: ShapedArray, buffer: Any, device: Any, layout: Layout | None) -> Array:
    """The array of a buffer, which has a layout; None for a row-major one."""
    if layout is None:
        return Array(aval, None, buffer, device)
    x = object.__new__(Array)  # which gets neither copy before it is asked for one
    x.aval, x._host, x._buffer, x._device = aval, None, None, device
    key = id(x)
    laid_out[key] = _LaidOut(weakref.ref(x, lambda _: laid_out.pop(key, None)), buffer, layout)
    return x


def layout_of(x: Any) -> Layout | None:
    """The layout of an array that is not row-major; None of all else."""
    return laid_out[id(x)].layout if laid_out and id(x) in laid_out else None


def _read_only(value: np.ndarray) -> np.ndarray:
    if value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


# The dtypes that are NumPy's own: the protocol for buffers has a format for these alone.
_WITH_BUFFERS = frozenset(dtype for dtype in dtypes.NUMBERS | dtypes.BOOL if dtype.isbuiltin == 1)
_WITHOUT_BUFFERS = dtypes.NUMBERS - _WITH_BUFFERS


@cache
def _no_buffer(dtype: np.dtype) -> str:
    return (
        f"The Python buffer protocol has no format for {dtype.name}, so that this array gives no buffer. Take "
        "np.asarray(x), or a view of it with another dtype."
    )


def from_host(value: np.ndarray, weak_type: bool = False) -> Array:
    """An array of a host value, which its caller must not change afterwards."""
    aval = aval_of(value)
    if value.dtype != aval.dtype:
        if dtypes.narrows_arrays(value.dtype):
            value = value.astype(aval.dtype)
        else:
            aval = aval.update(dtype=value.dtype)
    return Array(aval.update(weak_type=weak_type) if weak_type else aval, value)


def from_words(words: np.ndarray, dtype: Any, device: Any = None) -> Array:
    """An array of random keys of a dtype, from its words, which its caller must not change afterwards."""
    return Array(ShapedArray(words.shape[: words.ndim - len(dtype.key_shape)], dtype), words, None, device)


def forget_donated(args: Sequence[Any], donated: Iterable[int]) -> None:
    """Drops both copies of the arrays at the donated positions: their buffers belong to a program now."""
    for i in donated:
        if type(args[i]) is Array:
            args[i].forget()


def result(aval: ShapedArray, buffer: Any, device: Any, layout: Layout | None = None) -> Any:
    """The array of a program's result; in NumPy for float0, of which a program holds something else."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return with_layout(aval, buffer, device, layout)


def placement_like(x: Any, same_shape: bool) -> Any:
    """The device or sharding of an array that was put somewhere, or of a type that has one, for arrays made like it.

    None for anything else; and where the new array has another shape (`same_shape` is False), which can't be sharded in
    the same way.
    """
    if type(x) is Array:
        device = x._device
    else:
        sharding = None if isinstance(x, Tracer) else getattr(x, "sharding", None)
        device = sharding if isinstance(sharding, Sharding) and _has_devices(sharding) else None
    if not same_shape and type(device) is NamedSharding and not device.is_fully_replicated:
        return None
    return device


def placement_beside(*xs: Any) -> Any:
    """The device of the first array that was put somewhere, for arrays computed from it; None where none was.

    For an array on several devices, a sharding that replicates over these.
    """
    for x in xs:
        if type(x) is Array and x._device is not None:
            return NamedSharding(x._device.mesh) if type(x._device) is NamedSharding else x._device
    return None


def _has_devices(sharding: Sharding) -> bool:
    return type(sharding) is not NamedSharding or isinstance(sharding.mesh, Mesh)
