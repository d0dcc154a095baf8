"""Platforms and their devices. A client (a platform's runtime) is created when it is first needed.

The platform is the first of `config.platforms` (XPR_PLATFORMS, a comma-separated list), else the GPU where there is
one, else the CPU. An accelerator that was asked for and is not there is an error, never silently the CPU.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from xpr.backend import allocator, gpu_plugin, processes, runtime
from xpr.config import before_update, forget_trace_keys, settings
from xpr.core.avals import describe
from xpr.core.memory import MemorySpace, kind_of_space
from xpr.core.primitive import all_primitives
from xpr.errors import ArgumentError, DeviceNotFound, ForkedProcessError

__all__ = [
    "default_backend", "device_count", "devices", "host_count", "host_id", "host_ids", "local_device_count",
    "local_devices", "process_count", "process_index", "process_indices",
]  # fmt: skip

Device: TypeAlias = Any  # jaxlib's Device

_ALIASES = {"cuda": "gpu"}
_lock = threading.RLock()
clients: dict[str, Any] = {}
defaults: dict[str | None, Any] = {}  # the first local device for each value of the setting `platforms`
_of_parent: list[Any] = []  # in a process forked from one that had clients: these, and their programs


def _make_cpu_client() -> Any:
    if settings.num_cpu_devices is not None:
        _check_num_cpu_devices(settings.num_cpu_devices)
    make = functools.partial(runtime.xc.make_cpu_client, asynchronous=True, num_devices=settings.num_cpu_devices)
    allocator.tune_allocator()
    group = processes.group()
    return make() if group is None else group.make_cpu_client(make)


def _check_num_cpu_devices(number: Any) -> None:
    """Raises an error for what is no number of devices, or not the number of those that the running CPU client has."""
    if type(number) is not int or number < 1:
        raise ValueError(f"num_cpu_devices is a positive integer, and {number!r} is none.")
    client = clients.get("cpu")
    if client is not None and client.local_device_count() != number:
        raise RuntimeError(
            f"num_cpu_devices can't become {number}: jax_num_cpu_devices config should be updated before backends are "
            f"initialized, and the CPU is in use already, with {client.local_device_count()} devices. Set it "
            "before anything is computed, right after `import xpr`, or with XPR_NUM_CPU_DEVICES."
        )


before_update["num_cpu_devices"] = _check_num_cpu_devices

_MAKERS: dict[str, Callable[[], Any]] = {"cpu": _make_cpu_client, "gpu": gpu_plugin.make_client}


def in_use() -> list[str]:
    """The platforms whose client exists, after which it can't be one of several processes any more."""
    return list(clients)


def client_of(platform: Any = None) -> Any:
    """The client of a platform ("cpu", "gpu" or "cuda"), or of the default platform; a client itself.

    Raises:
      TypeError: it is neither a name nor a client.
      DeviceNotFound: there is no such platform, or no device of it.
      ForkedProcessError: this process was forked from one that had computed.
    """
    if platform is None:
        return _default_client()
    if not isinstance(platform, str):
        if isinstance(platform, runtime._jax.Client):
            return platform
        raise ArgumentError(f"A platform is a name, 'cpu' or 'gpu', and {describe(platform)} is none.")
    name = _ALIASES.get(platform.strip().lower(), platform.strip().lower())
    client = clients.get(name)
    return client if client is not None else _make_client(name)


def _make_client(name: str) -> Any:
    if name not in _MAKERS:
        raise DeviceNotFound(
            f"Unknown backend {name!r}: xpr runs on {' and '.join(sorted(_MAKERS))}. "
            "Give one of these as `backend`, or set XPR_PLATFORMS to it."
        )
    if _of_parent:
        raise ForkedProcessError(
            f"This process (number {os.getpid()}) was forked from one that had computed with xpr. A fork has none of "
            "the threads that programs run in, so they would wait forever. Start processes by "
            'multiprocessing.get_context("spawn") or "forkserver" (Pool, Process, ProcessPoolExecutor(mp_context=...) '
            "and data loaders take such a context), or fork before anything is computed."
        )
    with _lock:
        if name not in clients:
            clients[name] = _MAKERS[name]()
            _watch_for_forks()
        return clients[name]


@functools.cache
def _watch_for_forks() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_leave_to_the_parent)


def _leave_to_the_parent() -> None:
    """Drops clients and programs after a fork, so that this process creates its own.

    They are not freed: that would wait for their threads.
    """
    _of_parent.extend([dict(clients), dict(defaults)])
    clients.clear()
    defaults.clear()
    for primitive in all_primitives():
        _of_parent.append(primitive.plans)
        primitive.plans = {}
    forget_trace_keys()


def _default_client() -> Any:
    if settings.platforms:
        named = [client_of(name) for name in settings.platforms.split(",") if name.strip()]
        if named:
            return named[0]
    if "gpu" not in clients and not gpu_plugin.is_worth_trying():
        return client_of("cpu")
    try:
        return client_of("gpu")
    except DeviceNotFound as error:
        if processes.group() is not None:
            raise  # the others may have one
        gpu_plugin.give_up()
        warnings.warn(f"{error}\nxpr uses the CPU. Set XPR_PLATFORMS=cpu to silence this.", stacklevel=2)
        return client_of("cpu")


def default_device() -> Device:
    """The device on which new arrays are put: the setting `default_device`, else the first one of this process."""
    chosen = settings.default_device
    if chosen is not None:
        return local_devices(backend=chosen)[0] if isinstance(chosen, str) else chosen
    device = defaults.get(settings.platforms)
    if device is None:
        device = defaults.setdefault(settings.platforms, client_of().local_devices()[0])
    return device


def is_device(x: Any) -> bool:
    """Whether it is a device; its class is jaxlib's, which is not loaded for that."""
    return hasattr(x, "platform") and hasattr(x, "client")


def check_device(argument: str, x: Any) -> None:
    """Raises TypeError if an argument, named as in `pmap: devices[0]`, is no device."""
    if not is_device(x):
        raise ArgumentError(f"{argument} is {x!r}, which is no device. Devices are listed by xpr.devices().")


def memory_kind_on(device: Device, space: MemorySpace) -> str | None:
    """The kind of memory that buffers of a type in this memory space are in; None for the device's own, the only one
    that XLA:CPU has."""
    return None if space is MemorySpace.Device or device.platform == "cpu" else kind_of_space(space)


def devices(backend: str | None = None) -> list[Device]:
    """All devices of a platform, those of other processes included.

    >>> import xpr
    >>> [d.platform for d in xpr.devices("cpu")]
    ['cpu']
    """
    return client_of(backend).devices()


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of a platform that belong to this process, or to another one.

    Args:
      process_index: the process; None for this one.
      backend: the platform, "cpu" or "gpu"; None for the default one.
      host_id: another name for `process_index`.

    Returns:
      A list of devices.

    Raises:
      ValueError: there is no such process.

    >>> import xpr
    >>> xpr.local_devices(backend="cpu")[0].id
    0
    """
    client = client_of(backend)
    process_index = host_id if process_index is None else process_index
    if process_index is None:
        return client.local_devices()
    local = [device for device in client.devices() if device.process_index == process_index]
    if not local:
        known = sorted({device.process_index for device in client.devices()})
        raise ValueError(f"There is no process {process_index}; the processes are {known}.")
    return local


def device_count(backend: str | None = None) -> int:
    """The number of devices of a platform, over all processes.

    >>> import xpr
    >>> xpr.device_count("cpu")
    1
    """
    return client_of(backend).device_count()


def local_device_count(backend: str | None = None) -> int:
    """The number of devices of a platform in this process.

    >>> import xpr
    >>> xpr.local_device_count("cpu")
    1
    """
    return client_of(backend).local_device_count()


def default_backend() -> str:
    """The name of the default platform, "cpu" or "gpu".

    >>> import xpr
    >>> xpr.default_backend() in ("cpu", "gpu")
    True
    """
    return client_of().local_devices()[0].platform


def process_index(backend: str | None = None) -> int:
    """This process's number among those that share the platform; 0 where there is one process.

    >>> import xpr
    >>> xpr.process_index()
    0
    """
    return client_of(backend).process_index()


def process_count(backend: str | None = None) -> int:
    """The number of processes that share the platform.

    >>> import xpr
    >>> xpr.process_count()
    1
    """
    return 1 + max(device.process_index for device in client_of(backend).devices())


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes that share the platform.

    >>> import xpr
    >>> xpr.process_indices()
    [0]
    """
    return list(range(process_count(backend)))


def host_count(backend: str | None = None) -> int:
    """JAX's older name of `process_count`.

    >>> import xpr
    >>> xpr.host_count()
    1
    """
    return process_count(backend)


def host_id(backend: str | None = None) -> int:
    """JAX's older name of `process_index`.

    >>> import xpr
    >>> xpr.host_id()
    0
    """
    return process_index(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """JAX's older name of `process_indices`.

    >>> import xpr
    >>> xpr.host_ids()
    [0]
    """
    return process_indices(backend)
