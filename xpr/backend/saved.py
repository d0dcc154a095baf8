"""Compiled programs as bytes, and the circumstances in which these can be run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jaxlib.version

from xpr.backend import cache, runtime
from xpr.backend.buffers import Device
from xpr.backend.compile_options import options_for
from xpr.backend.compiler import LIBRARIES
from xpr.backend.executable import Executable, runnable
from xpr.backend.processor import model_and_instructions
from xpr.backend.waiting import watched
from xpr.core.avals import ShapedArray

CIRCUMSTANCES = ("jaxlib", "XLA", "platform", "version of the platform", "kind of device", "processor")


def circumstances(device: Device) -> list[str]:
    """What compiled programs depend on, in the order of `CIRCUMSTANCES`."""
    client = device.client
    return [
        jaxlib.version.__version__, str(runtime.xc._version), client.platform, client.platform_version,
        device.device_kind, model_and_instructions() if client.platform == "cpu" else "",
    ]  # fmt: skip


def executable_bytes(executable: Any) -> bytes:
    """The bytes of a program on one device.

    Raises:
      NotImplementedError: it is not one program on one device, or calls Python functions; or it was read from a file
        that is gone.
    """
    if type(executable) is not Executable:
        raise NotImplementedError(
            f"{executable} can't be saved: it is in steps, on several devices, or calls Python functions. Give jit "
            'compiler_options={"steps": False} for one program; export a function for several devices (xpr.export).'
        )
    if isinstance(executable.read_from, bytes):
        return executable.read_from
    if executable.read_from and executable.stored is not None:
        data = cache.read(executable.stored.file)
        if data is None:
            raise NotImplementedError(
                f"{executable} can't be saved: it was read from the cache of compiled programs, which has it no more. "
                "Compile it again: xpr.clear_caches()."
            )
        return data
    raw = executable.raw
    while hasattr(raw, "raw"):
        raw = raw.raw
    return executable.device.client.serialize_executable(raw)


def load_executable(
    data: bytes, out_avals: Sequence[ShapedArray], device: Device, name: str, libraries: Sequence[str]
) -> Executable:
    """The program of these bytes, for a device like the one it was compiled for.

    Raises:
      ValueError: it calls a library, of those in `called_libraries`, that isn't here.
    """
    for library in libraries:
        LIBRARIES[library].register()
    devices = runtime._jax.DeviceList((device,))
    raw = device.client.deserialize_executable(data, devices, options_for(device), [])
    text = raw.hlo_modules()[0].to_string()
    has_loops, has_calls = (f" {name}(" in text for name in ("while", "custom-call"))
    program = watched(runnable(raw, out_avals, device), has_loops, has_calls, device.platform)
    return Executable(program, out_avals, device, name, read_from=data)


def called_libraries(executable: Executable) -> list[str]:
    """The names of the libraries whose functions a program calls."""
    text = executable.as_text()
    return [name for name, library in LIBRARIES.items() if library.is_called_by(text)]
