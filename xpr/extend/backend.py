"""`jax.extend.backend`: the clients of platforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.api.jit import clear_caches
from xpr.backend import runtime
from xpr.backend.devices import clients, default_device, devices

__all__ = [
    "backend_xla_version", "backends", "clear_backends", "clear_in_memory_compilation_cache", "get_backend",
    "get_compile_options", "get_default_device", "register_backend_cache",
]  # fmt: skip

_caches: dict[Any, str] = {}


def get_backend(platform: str | None = None) -> Any:
    """The client of a platform, by default that of the default device."""
    return (devices(platform)[0] if platform else default_device()).client


def backends() -> dict[str, Any]:
    """The clients of all platforms in use, that of the default device among them, by the platform's name."""
    default_device()
    return dict(clients)


def get_default_device() -> Any:
    """The device on which programs run by default."""
    return default_device()


def clear_backends() -> None:
    """Forgets all compiled programs, and clears the caches of `register_backend_cache`; clients stay."""
    clear_in_memory_compilation_cache()
    for cache in _caches:
        cache.cache_clear()


def clear_in_memory_compilation_cache() -> None:
    """Forgets all compiled programs."""
    clear_caches()


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Registers a cache that `clear_backends` clears as well, by its method `cache_clear`.

    Args:
      cache: what `functools.lru_cache` makes, or the like.
      for_what: what it is for.
    """
    _caches[cache] = for_what


def backend_xla_version(platform: str | None = None) -> int | None:
    """The version of XLA of a platform that is a plugin and says so; else None."""
    return getattr(get_backend(platform), "xla_version", None)


def get_compile_options(
    num_replicas: int,
    num_partitions: int,
    device_assignment: Any = None,
    env_options_overrides: dict[str, str] | None = None,
    fdo_profile: bytes | None = None,
    detailed_logging: bool = True,
    backend: Any = None,
) -> Any:
    """jaxlib's options for compiling a program.

    Args:
      num_replicas: how often the program runs.
      num_partitions: on how many devices each time.
      device_assignment: the numbers of the devices, [replicas, partitions]; None for the first ones.
      env_options_overrides: XLA's flags by name.
      fdo_profile: a profile for XLA.
      detailed_logging: whether XLA logs more.
      backend: has no effect.

    Returns:
      `CompileOptions`.
    """
    options = runtime.xc.CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = num_replicas
    options.num_partitions = build.num_partitions = num_partitions
    build.use_spmd_partitioning = num_partitions > 1
    build.debug_options.xla_detailed_logging = detailed_logging
    if device_assignment is not None:
        devices_of_rows = np.reshape(np.asarray(device_assignment, np.int32), (num_replicas, num_partitions))
        options.device_assignment = runtime._jax.DeviceAssignment.create(devices_of_rows)
    if env_options_overrides:
        options.env_option_overrides = list(env_options_overrides.items())
    if fdo_profile is not None:
        build.fdo_profile = fdo_profile
    return options
