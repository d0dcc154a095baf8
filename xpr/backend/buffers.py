"""Raw device buffers: host to device and back, between devices, to and from other libraries.

A buffer is jaxlib's own array object. It does not check its type at execution, so code that holds one stores and
passes its aval, too. Users never see buffers, only `Array`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from xpr import dtypes
from xpr.backend import runtime
from xpr.backend.devices import Device, client_of, memory_kind_on
from xpr.backend.runtime import without_jax
from xpr.backend.waiting import block_until_ready
from xpr.core.avals import ShapedArray
from xpr.errors import DeletedArrayError

Buffer: TypeAlias = Any  # jaxlib's ArrayImpl

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLPack's device types
_CAPSULE = type(np.zeros(1).__dlpack__())


@functools.cache
def sharding_of(device: Device, memory_kind: str | None = None) -> Any:
    """jaxlib's sharding for a single device; the one kind that needs no Python attributes."""
    return runtime._jax.GSPMDSharding(
        runtime._jax.DeviceList((device,)), runtime.xc.HloSharding.replicate(), memory_kind=memory_kind
    )


@functools.cache
def _devices_of(device: Device) -> list[Device]:
    return [device]


@functools.cache
def handler_for(aval: ShapedArray, device: Device) -> Any:
    """The jaxlib object that turns one result of an execution into a buffer."""
    return result_handler(aval.physical, sharding_of(device, memory_kind_on(device, aval.memory_space)))


def result_handler(aval: ShapedArray, sharding: Any) -> Any:
    """The jaxlib object that turns one result of an execution into a buffer with one of jaxlib's shardings."""
    make = runtime._jax.array_result_handler
    return make(aval, sharding, committed=True, **unchecked(make))


def unchecked(make: Callable[..., Any]) -> dict[str, bool]:
    """The argument that turns off jaxlib 0.10's checks, by functions of jax; 0.11 has no such argument, nor checks."""
    return {"_skip_checks": True} if "_skip_checks" in (make.__doc__ or "") else {}


def put(host: np.ndarray, aval: ShapedArray, device: Device, copy: bool = True) -> Buffer:
    """A buffer with the values of `host`, which has the shape and (native) dtype that `aval` has in memory.

    With `copy=False` the buffer may share memory with `host`, which must then never change. It does so only where the
    data is contiguous and aligned to 64 bytes, so nothing can be built on it.
    """
    return putter(aval, device, copy)(host)


@functools.lru_cache(4096)
def putter(aval: ShapedArray, device: Device, copy: bool = True) -> Callable[[np.ndarray], Buffer]:
    """The function that `put` calls, for callers on the hottest paths."""
    zeros = np.zeros(aval.shape, bool) if aval.dtype == dtypes.float0 else None
    device_put, semantics = runtime._jax.batched_device_put, runtime._jax.HostBufferSemantics.ZERO_COPY
    sharding = sharding_of(device, memory_kind_on(device, aval.memory_space))
    physical, devices = aval.physical, _devices_of(device)

    def put_host(host: np.ndarray) -> Buffer:
        # committed, force_copy, host_buffer_semantics, enable_x64
        return device_put(physical, sharding, [host if zeros is None else zeros], devices, True, copy, semantics, True)

    return put_host


def get(buffer: Buffer, aval: ShapedArray) -> np.ndarray:
    """The values as a read-only NumPy array, waiting for them; shares the buffer's memory where that is possible.

    Raises:
      DeletedArrayError: the buffer was deleted or donated.
      RuntimeError: what the computation of the buffer failed with.
    """
    return get_all([buffer], [aval])[0]


def get_all(buffers: Sequence[Buffer], avals: Sequence[ShapedArray]) -> list[np.ndarray]:
    """The values of several buffers as read-only NumPy arrays, waiting for all of them together; see `get`."""
    block(buffers)  # memoryview ends the process where there was no memory for the buffer
    return list(map(_view, buffers, avals))


def _view(buffer: Buffer, aval: ShapedArray) -> np.ndarray:
    try:
        return np.asarray(memoryview(buffer))
    except BufferError:  # not on the CPU, or of a dtype without a format character
        return _get_through_jaxlib(buffer, aval)


def _get_through_jaxlib(buffer: Buffer, aval: ShapedArray) -> np.ndarray:
    with without_jax():
        host, _ = buffer._single_device_array_to_np_array_did_copy()
    dtype = aval.physical.dtype
    host = host if host.dtype == dtype else host.view(dtype)
    host.flags.writeable = False
    return host


def address_of(buffer: Buffer) -> int:
    """The address of the elements in the memory of the one device that holds them."""
    with without_jax():
        return buffer.unsafe_buffer_pointer()


def device_of(buffer: Buffer) -> Device:
    """The device that holds the buffer."""
    return buffer._sharding._internal_device_list[0]


def to_device(buffer: Buffer, aval: ShapedArray, device: Device) -> Buffer:
    """The same values on `device`, in the memory that their type says: the buffer itself where it is there already."""
    source, memory_kind = device_of(buffer), memory_kind_on(device, aval.memory_space)
    if source is device and buffer._sharding._memory_kind == (memory_kind or "device"):
        return buffer
    if source.client is not device.client:
        return put(get(buffer, aval), aval, device)
    return copied(buffer, sharding_of(device, memory_kind))


def copied(buffer: Buffer, sharding: Any) -> Buffer:
    """The same values with another of jaxlib's shardings, over devices of the same client."""
    return runtime._jax.batched_copy_array_to_devices_with_sharding(
        [buffer], [sharding._internal_device_list], [sharding], [runtime._jax.ArrayCopySemantics.REUSE_INPUT]
    )[0]


def moved(buffers: Sequence[Buffer], device: Device, error: RuntimeError) -> list[Buffer] | None:
    """The buffers copied to `device`, if `error` says that some are not on it; None if it has another reason.

    Arrays that were put nowhere by name go where the default device is now.

    Raises:
      DeletedArrayError: the reason is that one of them was deleted.
    """
    raise_if_deleted(buffers, error)
    if all(device_of(buffer) is device for buffer in buffers):
        return None
    return [to_device(buffer, buffer.aval, device) for buffer in buffers]


def is_deleted(buffer: Buffer) -> bool:
    """Whether the buffer was deleted, or donated to an execution that took it."""
    return buffer.is_deleted()


def delete(buffer: Buffer) -> None:
    """Frees the buffer's memory now; using it afterwards is an error."""
    buffer.delete()


def block(buffers: Sequence[Buffer]) -> None:
    """Waits until all are computed.

    Raises:
      DeletedArrayError: one of them was deleted or donated.
      KeyboardInterrupt: a long program was waited for, and interrupted.
      RuntimeError: what the computation of one of them failed with.
    """
    try:
        block_until_ready(buffers)
    except RuntimeError as error:
        raise_if_deleted(buffers, error)
        raise


def raise_if_deleted(buffers: Sequence[Buffer], error: BaseException) -> None:
    """Raises DeletedArrayError where a deleted buffer is the reason of `error`."""
    deleted = [str(i) for i, buffer in enumerate(buffers) if buffer.is_deleted()]
    if deleted:
        which = "The array has" if len(buffers) == 1 else f"Of {len(buffers)} arrays, number {', '.join(deleted)} has"
        raise DeletedArrayError(
            f"{which} been deleted or donated to a jitted call. "
            "Use the result of that call instead, or leave out `donate_argnums`."
        ) from error


def to_dlpack(buffer: Buffer, stream: int | None = None) -> Any:
    """A DLPack capsule that shares the buffer's memory; while it lives the buffer is copied instead of donated."""
    try:
        return runtime._jax.buffer_to_dlpack_managed_tensor(buffer, stream=stream)
    except RuntimeError as error:
        raise_if_deleted([buffer], error)
        raise


def dlpack_device(buffer: Buffer) -> tuple[int, int]:
    """The value of `__dlpack_device__`: DLPack's device type and the device's number."""
    device = device_of(buffer)
    if device.platform == "cpu":
        return _CPU, 0
    return _CUDA_HOST if buffer._sharding._memory_kind == "pinned_host" else _CUDA, device.local_hardware_id


def from_dlpack(tensor: Any, device: Device, copy: bool | None = None) -> tuple[Buffer, ShapedArray]:
    """A buffer on `device` with the values of an object with DLPack's methods, or of a capsule, and its type.

    Shares memory where it can (same device, aligned to 64 bytes) unless `copy` is True.

    Raises:
      TypeError: the object does not speak DLPack.
    """
    if isinstance(tensor, _CAPSULE):
        return _adopt(tensor, device, None, copy)
    if not hasattr(tensor, "__dlpack__") or not hasattr(tensor, "__dlpack_device__"):
        raise TypeError(
            f"Expected an object with __dlpack__ and __dlpack_device__, and got {type(tensor).__qualname__}."
        )
    kind, number = tensor.__dlpack_device__()
    source = _source_device(kind, number, device)
    stream = None if source.platform == "cpu" else source.get_stream_for_external_ready_events()
    capsule = tensor.__dlpack__() if stream is None else tensor.__dlpack__(stream=stream)
    buffer, aval = _adopt(capsule, source, stream, copy)
    return to_device(buffer, aval, device), aval


def _source_device(kind: int, number: int, target: Device) -> Device:
    """The device of a DLPack tensor, of the target's client where that has it."""
    platform = {_CPU: "cpu", _CUDA: "gpu", _CUDA_HOST: "cpu", _CUDA_MANAGED: "gpu"}.get(int(kind))
    if platform is None:
        raise TypeError(f"A DLPack tensor on a device of type {int(kind)}; only CPU and CUDA memory can be taken over.")
    if platform == "cpu":
        return target if target.platform == "cpu" else client_of("cpu").local_devices()[0]
    client = target.client if target.platform != "cpu" else client_of("gpu")
    return client.device_from_local_hardware_id(number)


def _adopt(capsule: Any, device: Device, stream: int | None, copy: bool | None) -> tuple[Buffer, ShapedArray]:
    with without_jax():
        buffer = runtime._jax.dlpack_managed_tensor_to_buffer(capsule, device, stream, copy)
        aval = ShapedArray(buffer.aval.shape, buffer.aval.dtype)
        buffer = buffer._rewrap_with_aval_and_sharding(aval, sharding_of(device))
    if copy and device.platform == "cpu":  # where jaxlib shares aligned memory, whatever it is asked for
        buffer = put(np.array(get(buffer, aval)), aval, device, copy=False)
    return buffer, aval
