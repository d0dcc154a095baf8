"""Committed arrays: those that were put on devices. Operations on them run there, and refuse operands elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend import devices
from xpr.backend.array import Array
from xpr.backend.sharding import NamedSharding
from xpr.config import settings


def device_of(
    args: Sequence[Any],
    what: Callable[[], str] | str = "an operation",
    names: Callable[[], Sequence[str]] | None = None,
) -> Any:
    """The device that committed operands are on, or the sharding of one; the default device if none is committed.

    Inside of `set_mesh` the default is a sharding over the mesh. The message of an error has the names of the operands,
    and `what` they are operands of.

    Raises:
      ValueError: operands are committed to different devices.
    """
    device = None
    for x in args:
        if type(x) is Array and x._device is not None and x._device is not device:
            if device is not None and _devices(device) == devices_of(x):
                device = device if type(device) is NamedSharding else x._device
                continue
            if device is not None:
                raise ValueError(different_devices(what() if callable(what) else what, args, names and names()))
            device = x._device
    if device is None:
        mesh = settings.program_mesh
        return devices.default_device() if mesh is None else NamedSharding(mesh)
    return device


def different_devices(what: str, args: Sequence[Any], names: Sequence[str] | None = None, also: str = "") -> str:
    """The message about operands that are committed to different devices, or to others than `also`, a text, names."""
    shown = names or [str(i) for i in range(len(args))]
    committed = [(name, x) for name, x in zip(shown, args) if type(x) is Array and x._device is not None]
    first_on: dict[Any, tuple[str, Array]] = {}
    for name, x in committed:
        first_on.setdefault(devices_of(x), (name, x))
    ordered = list(first_on.values())[: 1 if also else 2]
    found = [f"argument {name} of {what} with shape {_described(x)} and on device ids {_ids(x)}" for name, x in ordered]
    same = len({frozenset(devices_of(x)) for _, x in ordered}) < len(ordered)
    return (
        "Received incompatible devices for jitted computation. Got "
        f"{', and '.join([*found, *[also] * bool(also)])}{', the same ones in another order' * same}.\n"
        + "\n".join(f"  {name}   {_described(x)}   on {_devices_text(x)}" for name, x in committed[:16])
        + "\nArrays that were put on devices are not moved where they are computed with. Put them on the same ones: "
        "xpr.device_put(x, device), or xpr.device_put(x, NamedSharding(mesh, spec))."
    )


def devices_of(x: Array) -> tuple[Any, ...]:
    """The devices that a committed array is on."""
    return _devices(x._device)


def _devices(placement: Any) -> tuple[Any, ...]:
    return placement.devices if type(placement) is NamedSharding else (placement,)


def _described(x: Array) -> str:
    return f"{x.aval.dtype.name}[{','.join(map(str, x.aval.shape))}]"


def _ids(x: Array) -> list[int]:
    return [device.id for device in devices_of(x)]


def _devices_text(x: Array) -> str:
    sharding = x._device
    return f"{sharding.mesh.text}, {sharding.spec!r}" if type(sharding) is NamedSharding else str(sharding)
