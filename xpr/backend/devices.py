"""Platforms and their devices. A client (a platform's runtime) is made when it is first needed.

The platform is the first of `config.platforms` (XPR_PLATFORMS, a comma-separated list), else the GPU where there is
one, else the CPU. An accelerator that was asked for and is not there is an error, never quietly the CPU.
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
from xpr.core.primitive import all_primitives
from xpr.errors import DeviceNotFound, ForkedProcessError

__all__ = [
    "default_backend", "default_device", "device_count", "devices", "local_device_count", "local_devices",
    "process_count", "process_index",
]  # fmt: skip

Device: TypeAlias = Any  # jaxlib's Device

_ALIASES = {"cuda": "gpu"}
_lock = threading.RLock()
_clients: dict[str, Any] = {}
_defaults: dict[str | None, Any] = {}  # the first local device for each value of the setting `platforms`
_left_behind: list[Any] = []  # in a process forked from one that had clients: these, and what was made with them


def _make_cpu_client() -> Any:
    allocator.tune_allocator()
    make = functools.partial(runtime.xc.make_cpu_client, asynchronous=True, num_devices=settings.num_cpu_devices)
    group = processes.group()
    return make() if group is None else group.make_cpu_client(make)


def _check_num_cpu_devices(number: Any) -> None:
    """Refuses what is no number of devices, and another number than the running CPU client has."""
    if type(number) is not int or number < 1:
        raise ValueError(f"num_cpu_devices is a positive integer, and {number!r} is none.")
    client = _clients.get("cpu")
    if client is not None and client.local_device_count() != number:
        raise RuntimeError(
            f"num_cpu_devices can't become {number}: the CPU is in use already, with {client.local_device_count()} "
            "devices. Set it before anything is computed, right after `import xpr`, or with XPR_NUM_CPU_DEVICES."
        )


before_update["num_cpu_devices"] = _check_num_cpu_devices

_MAKERS: dict[str, Callable[[], Any]] = {"cpu": _make_cpu_client, "gpu": gpu_plugin.make_client}


def in_use() -> list[str]:
    """The platforms whose client is made, after which it can't be one of many any more."""
    return list(_clients)


def client_of(platform: str | None = None) -> Any:
    """The client of a platform ("cpu", "gpu" or "cuda"), or of the default platform.

    Raises:
      DeviceNotFound: there is no such platform, or no device of it.
      ForkedProcessError: this process was forked from one that had computed.
    """
    if platform is None:
        return _default_client()
    name = _ALIASES.get(platform.strip().lower(), platform.strip().lower())
    client = _clients.get(name)
    return client if client is not None else _make_client(name)


def _make_client(name: str) -> Any:
    if name not in _MAKERS:
        raise DeviceNotFound(
            f"There is no platform {name!r}; xpr runs on {' and '.join(sorted(_MAKERS))}. "
            "Give one of these as `backend`, or set XPR_PLATFORMS to it."
        )
    if _left_behind:
        raise ForkedProcessError(
            f"This process (number {os.getpid()}) was forked from one that had computed with xpr. A fork has none of "
            "the threads that programs run in, so they would wait forever. Start processes by "
            'multiprocessing.get_context("spawn") or "forkserver" (Pool, Process, ProcessPoolExecutor(mp_context=...) '
            "and data loaders take such a context), or fork before anything is computed."
        )
    with _lock:
        if name not in _clients:
            _clients[name] = _MAKERS[name]()
            _watch_for_forks()
        return _clients[name]


@functools.cache
def _watch_for_forks() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_leave_to_the_parent)


def _leave_to_the_parent() -> None:
    """Forgets clients and programs, so that the next one is looked for here, where there is none.

    They are kept: to free a client is to wait for its threads.
    """
    _left_behind.extend([dict(_clients), dict(_defaults)])
    _clients.clear()
    _defaults.clear()
    for primitive in all_primitives():
        _left_behind.append(primitive.plans)
        primitive.plans = {}
    forget_trace_keys()


def _default_client() -> Any:
    if settings.platforms:
        clients = [client_of(name) for name in settings.platforms.split(",") if name.strip()]
        if clients:
            return clients[0]
    if "gpu" not in _clients and not gpu_plugin.is_worth_trying():
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
    device = _defaults.get(settings.platforms)
    if device is None:
        device = _defaults.setdefault(settings.platforms, client_of().local_devices()[0])
    return device


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
    """The devices of a platform that belong to this process, or to the one asked for.

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
    found = [device for device in client.devices() if device.process_index == process_index]
    if not found:
        known = sorted({device.process_index for device in client.devices()})
        raise ValueError(f"There is no process {process_index}; the processes are {known}.")
    return found


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
