"""Array: a value with a type, on the host, on a device, or on both.

The result of a small eager operation lives on the host and is only sent to the device when a compiled program wants
it; the result of a compiled program is only fetched when someone looks at it. Either copy is made from the other when
first asked for, and both are immutable. Operators and methods are installed by numpy/methods.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import compiler, devices
from xpr.backend.sharding import NamedSharding, Shard, Sharding, SingleDeviceSharding, replica_ids
from xpr.backend.shards import get_shards, put_shards, shards_of
from xpr.core.avals import TYPED_SCALARS, ShapedArray, aval_of, refuse_held
from xpr.core.interpreter import Tracer
from xpr.core.key_words import Words
from xpr.errors import DeletedArrayError


class _OfArrays(type):
    """Makes `isinstance(x, xpr.Array)` true of whatever users may take for an array: traced values, and keys."""

    def __instancecheck__(cls, x: Any) -> bool:
        return type(x) is cls or isinstance(x, (Tracer, Words))


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
        self.aval = aval
        self._host = host  # a NumPy array or scalar that nobody writes to
        self._buffer = buffer  # a jaxlib buffer
        self._device = device  # where it was put by name: a device, or a sharding; None where the default was taken

    @property
    def host(self) -> np.ndarray:
        """The value in NumPy, waiting for it if need be; shared, so read-only."""
        value = self._host
        if value is None:
            if self._buffer is None:
                raise DeletedArrayError(
                    f"This array of type {self.aval.str_short()} was deleted, or donated to a jitted call "
                    "(donate_argnums). Keep a copy, or don't donate it, to use it afterwards."
                )
            if isinstance(self._device, NamedSharding):
                value = self._host = get_shards(self._buffer, self.aval, self._device)
            else:
                value = self._host = compiler.get(self._buffer, self.aval)
        return value

    @property
    def buffer(self) -> Any:
        """The value on its device."""
        value = self._buffer
        if value is None:
            place = self._device or devices.default_device()
            put = put_shards if isinstance(place, NamedSharding) else compiler.put
            value = self._buffer = put(np.asarray(self.host), self.aval, place)
        return value

    def forget(self) -> None:
        """Gives up both copies: the buffer now belongs to the program it was donated to."""
        self._host = self._buffer = None

    # What jaxlib and other libraries ask for.

    @property
    def device(self) -> Any:
        """The device the array is on; for one that was put by a sharding, that."""
        if self._device is None and self._buffer is not None:
            return compiler.device_of(self._buffer)
        return self._device or devices.default_device()

    def devices(self) -> set[Any]:
        """The devices the array is on."""
        return self.sharding.device_set

    @property
    def sharding(self) -> Sharding:
        """How the array lies on devices."""
        place = self.device
        return place if isinstance(place, NamedSharding) else SingleDeviceSharding(place)

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
        """What each device of this process holds of the array.

        >>> import xpr, xpr.numpy as jnp
        >>> [shard.index for shard in jnp.ones(2).addressable_shards]
        [(slice(None, None, None),)]
        """
        indices = self.sharding.indices(self.aval.shape)
        if not isinstance(self._device, NamedSharding):
            return [Shard(self.device, indices[0], 0, self)]
        aval = self.aval.update(shape=self._device.shard_shape(self.aval.shape))
        here, copies, every = self._device.local, list(replica_ids(indices)), self._device.devices
        parts = [Array(aval, None, part, every[i]) for part, i in zip(shards_of(self.buffer), here)]
        return [Shard(every[i], indices[i], copies[i], part) for part, i in zip(parts, here)]

    @property
    def global_shards(self) -> list[Shard]:
        """What each device holds of the array; `data` is None where that is another process's."""
        if not isinstance(self._device, NamedSharding):
            return self.addressable_shards
        indices = self._device.indices(self.aval.shape)
        parts = {shard.device: shard.data for shard in self.addressable_shards}
        every = self._device.devices
        return [Shard(d, i, copy, parts.get(d)) for d, i, copy in zip(every, indices, replica_ids(indices))]

    def addressable_data(self, index: int) -> Array:
        """What one of the devices of this process holds of the array, by number."""
        return self.addressable_shards[index].data

    @property
    def device_of_parts(self) -> Any:
        """The device that the parts of an array are put on, made on the host: none by name where it is on several."""
        return None if type(self._device) is NamedSharding else self._device

    @property
    def committed(self) -> bool:
        """Whether the array was put on its device by name."""
        return self._device is not None

    def block_until_ready(self) -> Array:
        """Waits until the value has been computed, and gives the array itself.

        >>> import xpr.numpy as jnp
        >>> jnp.ones(2).block_until_ready()
        Array([1., 1.], dtype=float32)
        """
        if self._buffer is not None:
            compiler.block([self._buffer])
        return self

    def is_ready(self) -> bool:
        """Whether the value has been computed."""
        return self._buffer is None or self._buffer.is_ready()

    def is_deleted(self) -> bool:
        """Whether the array was deleted or donated."""
        return self._host is None and (self._buffer is None or self._buffer.is_deleted())

    def delete(self) -> None:
        """Frees the memory of the array, which can't be used afterwards."""
        if self._buffer is not None:
            compiler.delete(self._buffer)
        self.forget()

    def copy_to_host_async(self) -> None:
        """Starts fetching the value; here it is fetched when asked for."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = np.asarray(self.host)
        if dtype is not None and value.dtype != dtype:
            return value.astype(dtype)
        if copy:
            return value.copy()
        if value.flags.writeable:
            value = value.view()
            value.flags.writeable = False
        return value

    def __reduce__(self) -> Any:
        return from_host, (np.asarray(self.host), self.aval.weak_type)

    def __bool__(self) -> bool:
        if self.aval.size != 1:
            raise ValueError(f"The truth of an array of {self.aval.size} entries is ambiguous; use .any() or .all().")
        return bool(self.host)

    def __int__(self) -> int:
        return int(np.asarray(self.host).item() if self.aval.size == 1 else self.host)

    def __float__(self) -> float:
        return float(np.asarray(self.host).item() if self.aval.size == 1 else self.host)

    def __complex__(self) -> complex:
        return complex(np.asarray(self.host).item() if self.aval.size == 1 else self.host)

    def __index__(self) -> int:
        if self.aval.ndim or self.aval.dtype.kind not in "iub":
            raise TypeError(f"Only an integer scalar array is an index; this one is {self.aval.str_short()}.")
        return int(self.host)


def from_host(value: np.ndarray, weak_type: bool = False) -> Array:
    """An array of a host value that its caller gives up, or copies first."""
    aval = aval_of(value)
    if value.dtype != aval.dtype:
        value = value.astype(aval.dtype)
    return Array(aval.update(weak_type=weak_type) if weak_type else aval, value)


def host_value(x: Any, aval: ShapedArray) -> Any:
    """The NumPy value of an array, NumPy array or scalar, in the dtype of `aval`."""
    if type(x) is Array:
        return x.host
    if type(x) in TYPED_SCALARS:
        return x
    if type(x) is int:
        return np.asarray(x, aval.dtype)  # an OverflowError where it doesn't fit
    value = _in_numpy(x)
    return value.astype(aval.dtype) if value.dtype != aval.dtype or isinstance(x, np.ndarray) else value


def _in_numpy(x: Any) -> np.ndarray:
    if type(x) is float:
        return np.asarray(x)
    refuse_held(x)
    if hasattr(x, "aval") and not hasattr(x, "__array__"):
        raise TypeError(
            f"An array is needed to compute with, and {x!r} is only the type of one. Functions are traced with types "
            "by eval_shape, make_jaxpr, and the methods lower and trace of a jitted function."
        )
    return np.asarray(x)


def result(aval: ShapedArray, buffer: Any, device: Any) -> Any:
    """The array of a program's result; in NumPy for float0, of which a program holds something else."""
    return np.zeros(aval.shape, dtypes.float0) if aval.dtype == dtypes.float0 else Array(aval, None, buffer, device)


def buffer_of(x: Any, aval: ShapedArray) -> Any:
    """The device buffer of an array, NumPy array or scalar, in the dtype of `aval`."""
    return x.buffer if type(x) is Array else buffer_on(x, aval, devices.default_device())


def buffer_on(x: Any, aval: ShapedArray, device: Any) -> Any:
    """The buffer on a device of an array, wherever it is, of a NumPy array or a scalar, in the dtype of `aval`."""
    if type(x) is not Array:
        return compiler.put(np.asarray(_in_numpy(x), aval.dtype), aval, device)
    if x.device is device:
        return x.buffer
    if x._buffer is None or type(x._device) is NamedSharding:
        return compiler.put(np.asarray(x.host), aval, device)
    return compiler.to_device(x._buffer, aval, device)
