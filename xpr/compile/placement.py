"""Arrays moved to another device, sharding or memory, at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from xpr.backend import buffers
from xpr.backend.array import Array, in_unpinned_memory, unpinned
from xpr.backend.devices import default_device
from xpr.backend.mesh import Mesh
from xpr.backend.sharding import (
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    axes_of,
    placement,
    typed,
)
from xpr.compile.committed import devices_of, different_devices
from xpr.compile.partition import mesh_with_devices, moved
from xpr.core.avals import aval_of
from xpr.core.memory import MemorySpace, kind_of_space
from xpr.core.specs import normalized
from xpr.errors import ArgumentError
from xpr.primitives.device_put import device_put_p, space_of
from xpr.primitives.sharding_constraint import constrain, reshard_p, sharding_constraint_p
from xpr.transforms.flat import as_array


def to_device(x: Any, device: Any) -> Any:
    """The array moved to a device, a sharding or a memory space; a tracer is constrained to a sharding over a mesh."""
    if type(x) is Array and x.aval.dtype.kind == "T":
        return _strings_on(x, device)
    if device is None:
        return x
    if type(x) is not Array:
        return _constrained(x, device) if isinstance(device, NamedSharding) else x
    if type(device) is MemorySpace:
        if x.aval.memory_space is device:
            return x
        device = x.sharding.with_memory_kind(kind_of_space(device))
    if isinstance(device, NamedSharding):
        return x if x._device == device else moved(x, device)
    space = space_of(device)
    if isinstance(device, SingleDeviceSharding):
        if device.memory_kind == "unpinned_host":
            return x if x.sharding == device else in_unpinned_memory(to_device(x, device.device))
        device = device.device
    aval = x.aval.in_memory(space)
    if x._device == device:
        if aval is x.aval and not (unpinned and id(x) in unpinned):
            return x
        on_host = x._buffer is None and x._host is not None
        return Array(aval, x._host, None if on_host else buffers.to_device(x.buffer, aval, device), device)
    if x._buffer is None or type(x._device) is NamedSharding:
        return Array(aval.plain.in_memory(space), x.host, None, device)
    return Array(aval, None, buffers.to_device(x.buffer, aval, device), device)


def _strings_on(x: Array, device: Any) -> Array:
    """An array of strings on a CPU device, or sharded over some, in the memory of the host, where they all are.

    Raises:
      TypeError: the device is none of a CPU.
    """
    target = default_device() if device is None and x._device is None else device
    if target is None or type(target) is MemorySpace:
        return x
    if any(each.platform != "cpu" for each in (target.devices if isinstance(target, Sharding) else [target])):
        raise TypeError(
            f"String arrays can only be sharded to CPU devices, and {target} is asked for. Name one: "
            "device_put(x, xpr.devices('cpu')[0])."
        )
    if isinstance(device, NamedSharding):
        return x if x._device == device else Array(typed(x.aval, device), x.host, None, device)
    device = device.device if isinstance(device, SingleDeviceSharding) else device
    return x if x._device == device else Array(x.aval.plain, x.host, None, device)


def _constrained(x: Any, sharding: NamedSharding) -> Any:
    sharding.check(aval_of(x).shape, "device", "an array")
    return constrain(x, sharding)


def _evaluate_device_put(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [to_device(as_array(args[0]), params["device"])]


device_put_p.evaluate = _evaluate_device_put


# -- Sharding constraints


def _mesh_with_devices(x: Array, sharding: NamedSharding) -> Mesh:
    """The mesh of a constraint; the one that the array is on, or the current one, for one without devices.

    Raises:
      ArgumentError: these have other axes.
      DeviceNotFound: it was read from text, and its devices are missing.
    """
    mesh = mesh_with_devices(sharding.mesh, x._device)
    if isinstance(mesh, Mesh) or mesh.missing:
        return mesh
    on = x._device.mesh.text if isinstance(x._device, NamedSharding) else "no mesh"
    raise ArgumentError(
        f"Mesh shape of the input does not match the mesh shape of the target sharding: {sharding!r} is over a mesh "
        f"without devices, and the array, {x.aval.str_short()}, which would have to be on those of a mesh with these "
        f"axes, is on {on}. Put it there before, by xpr.device_put(x, NamedSharding(mesh, spec)) with a Mesh; or give "
        "the Mesh."
    )


def _current_parts(x: Array, mesh: Mesh) -> list[tuple[Any, ...]] | None:
    """For each axis of an array the axes of a mesh that partition it; None where it is over no such mesh."""
    current = x._device
    if type(current) is not NamedSharding or current.mesh.shape_tuple != mesh.shape_tuple:
        return None
    return [axes_of(part) for part in (*current.spec, *[None] * (x.aval.ndim - len(current.spec)))]


def _without(names: Sequence[Any], others: Collection[Any]) -> tuple[Any, ...]:
    return tuple([name for name in names if name not in others])


def _evaluate_sharding_constraint(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The array partitioned otherwise; axes that are left to the compiler remain as they are.

    Raises:
      ValueError: the array was put on other devices.
    """
    x, sharding = as_array(args[0]), params["sharding"]
    mesh = _mesh_with_devices(x, sharding)
    if x._device is not None and devices_of(x) != mesh.flat:
        asked = f"a sharding with device ids {[device.id for device in mesh.flat]}, those of {mesh.text}"
        raise ValueError(different_devices("with_sharding_constraint", [x], ["x"], asked))
    named = {name for part in sharding.spec for name in axes_of(part)}
    current = _current_parts(x, mesh) or [()] * x.aval.ndim
    parts = [
        normalized(_without(now, named)) if part is PartitionSpec.UNCONSTRAINED else part
        for part, now in zip(sharding.spec, current)
    ]
    return [to_device(x, placement(NamedSharding(mesh, sharding.spec.update(parts))))]


sharding_constraint_p.evaluate = _evaluate_sharding_constraint


def _evaluate_reshard(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Moves the array; along Auto axes of the mesh it remains as it is."""
    x, sharding = as_array(args[0]), params["sharding"]
    mesh = _mesh_with_devices(x, sharding)
    parts: list[Any] = [*sharding.spec, *[None] * (x.aval.ndim - len(sharding.spec))]
    current = _current_parts(x, mesh)
    if current is not None:
        named = {name for part in parts for name in axes_of(part)}
        decided = {*mesh.axis_names}.difference(mesh.auto_axes) | named
        parts = [normalized((*axes_of(part), *_without(now, decided))) for part, now in zip(parts, current)]
    return [moved(x, NamedSharding(mesh, sharding.spec.update(parts)))]


reshard_p.evaluate = _evaluate_reshard
