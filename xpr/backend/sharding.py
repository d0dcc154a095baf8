"""Shardings: how arrays are partitioned and replicated over devices.

A `PartitionSpec` says for each axis of an array along which axes of a mesh it is partitioned; over the others the
array is replicated. Both together are a `NamedSharding`.

    mesh x=4, y=2;  P("x", None) of f32[8,6]:  4 shards f32[2,6], each on the 2 devices along y
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xpr.backend import runtime
from xpr.backend.devices import Device
from xpr.backend.mesh import AbstractMesh, Mesh, MeshOfOneDevice, devices_of_names, names_of_devices
from xpr.config import settings
from xpr.core.avals import ShapedArray
from xpr.core.explicit import ExplicitSharding, explicit_sharding
from xpr.core.memory import checked_kind, kind_of_space, space_of_kind
from xpr.core.specs import REPLICATED, PartitionSpec, SpecWithSums, Unconstrained, axes_of, check_spec
from xpr.errors import ShardingTypeError
from xpr.text.parameters import register_parameter

Index = tuple[slice, ...]


register_parameter(Unconstrained, lambda value: {}, lambda: PartitionSpec.UNCONSTRAINED)
register_parameter(
    SpecWithSums,
    lambda spec: {"parts": tuple(spec), **sums_of(spec)},
    lambda parts, unreduced=(), reduced=(): PartitionSpec(
        *parts, unreduced=frozenset(unreduced), reduced=frozenset(reduced)
    ),
)


def sums_of(spec: PartitionSpec) -> dict[str, Any]:
    """The `unreduced` and `reduced` axes of a spec, sorted, by these names; without those that are empty."""
    sums = {"unreduced": spec.unreduced, "reduced": spec.reduced}
    return {name: tuple(sorted(axes, key=str)) for name, axes in sums.items() if axes}


_DIVISIBLE = 720720  # by 1 to 16: a size that shardings over few devices split into equal parts


class Sharding:
    """How an array is distributed over devices. Subclasses define `devices`, and the index of each device's shard."""

    __slots__ = ()
    devices: tuple[Device, ...]

    @property
    def memory_kind(self) -> str:
        """The kind of memory that arrays are in: "device", "pinned_host" or "unpinned_host"."""
        raise NotImplementedError(type(self))

    @property
    def local(self) -> Sequence[int]:
        """The numbers, among `devices`, of those of this process."""
        raise NotImplementedError(type(self))

    def indices(self, shape: tuple[int, ...]) -> list[Index]:
        """For each of `devices` the index of its part of an array of that shape."""
        raise NotImplementedError(type(self))

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a part."""
        return set(self.devices)

    @property
    def num_devices(self) -> int:
        """The number of devices that hold a part."""
        return len(self.devices)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        raise NotImplementedError(type(self))

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices of this process that hold a part."""
        return {self.devices[i] for i in self.local}

    @property
    def has_addressable_devices(self) -> bool:
        """Whether some of the devices belong to this process."""
        return bool(self.local)

    def with_memory_kind(self, kind: str) -> Sharding:
        """The sharding in another kind of memory: "device", "pinned_host" or "unpinned_host".

        Raises:
          ValueError: there is no such kind.
        """
        raise NotImplementedError(type(self))

    @property
    def _device_assignment(self) -> tuple[Device, ...]:  # JAX's name of `devices`, and XLA's form, which libraries read
        return self.devices

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:  # that of NamedSharding: hlo_shardings.py
        return runtime.xc.HloSharding.replicate()

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all the devices belong to this process."""
        return len(self.local) == len(self.devices)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """The index of each device's part of an array of that shape."""
        return dict(zip(self.devices, self.indices(tuple(global_shape))))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """The index of the part of an array of that shape of each device of this process."""
        local = self.addressable_devices
        return {d: index for d, index in self.devices_indices_map(global_shape).items() if d in local}

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the shards of an array.

        Raises:
          ValueError: the shape can't be split into equal shards.
        """
        return tuple(global_shape)

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both put the same parts of arrays with `ndim` axes on the same devices."""
        shape = (max(len(self.devices), 1) * _DIVISIBLE,) * ndim
        return self._shard_bounds(shape) == other._shard_bounds(shape) and self.memory_kind == other.memory_kind

    def _shard_bounds(self, shape: tuple[int, ...]) -> dict[Device, Any]:
        """For each device the start and the end of its part of an array of that shape, along each axis."""
        return {
            device: tuple([i.indices(n)[:2] for i, n in zip(index, shape)])
            for device, index in zip(self.devices, self.indices(shape))
        }


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    Args:
      device: the device.
      memory_kind: "device", which None is, too, "pinned_host" or "unpinned_host".
    Raises:
      ValueError: there is no such kind of memory.

    >>> import xpr
    >>> xpr.numpy.ones(2).sharding == xpr.sharding.SingleDeviceSharding(xpr.devices()[0])
    True
    """

    __slots__ = ("device", "devices", "memory_kind")

    def __init__(self, device: Device, *, memory_kind: str | None = None):
        self.memory_kind = "device" if memory_kind is None else _checked_kind(memory_kind, device)  # type: ignore[misc]  # a slot here
        self.device = device
        self.devices = (device,)

    @property
    def local(self) -> Sequence[int]:
        return (0,) if self.device.process_index == self.device.client.process_index() else ()

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return self if kind == self.memory_kind else SingleDeviceSharding(self.device, memory_kind=kind)

    def indices(self, shape: tuple[int, ...]) -> list[Index]:
        return [(slice(None),) * len(shape)]

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Nothing: one device holds arrays of any shape."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SingleDeviceSharding)
            and self.device is other.device
            and self.memory_kind == other.memory_kind
        )

    def __hash__(self) -> int:
        return hash(self.device)

    def __reduce__(self) -> Any:
        return _single_device, (names_of_devices(self.devices), self.memory_kind)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}{_memory_text(self)})"


def _single_device(name: str, memory_kind: str) -> SingleDeviceSharding:
    return SingleDeviceSharding(devices_of_names(name)[0], memory_kind=memory_kind)


def _checked_kind(kind: str, device: Device) -> str:
    """Raises ValueError where the device has no memory of that kind."""
    if device.platform == "cpu" or device.process_index != device.client.process_index():
        return checked_kind(kind, str(device))
    return checked_kind(kind, str(device), tuple([memory.kind for memory in device.addressable_memories()]))


def _memory_text(sharding: Sharding) -> str:
    return "" if sharding.memory_kind in (None, "device") else f", memory_kind={sharding.memory_kind}"


class NamedSharding(Sharding):
    """An array sharded along the axes of a mesh as a spec says.

    Args:
      mesh: a `Mesh`; or an `AbstractMesh`, in a program that is not to run.
      spec: a `PartitionSpec`.
      memory_kind: "device", which None is, too, "pinned_host" or "unpinned_host". Without devices "device" is None.
    Raises:
      ValueError: the spec names what is no axis of the mesh, or an axis twice; or there is no such kind of memory.

    >>> import xpr
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    NamedSharding(mesh=Mesh('x': 1), spec=P('x',))
    """

    __slots__ = ("mesh", "spec", "memory_kind", "devices", "_hash", "__weakref__")

    def __init__(self, mesh: Any, spec: Any = REPLICATED, *, memory_kind: str | None = None):
        if not isinstance(mesh, AbstractMesh):
            raise TypeError(f"NamedSharding: {mesh!r} is no Mesh.")
        if not isinstance(spec, PartitionSpec):
            what = "Unexpected None, which" if spec is None else repr(spec)
            raise TypeError(f"NamedSharding: {what} is no PartitionSpec; write PartitionSpec('x', None).")
        check_spec(mesh, spec)
        self.mesh: Any = mesh  # nearly always a Mesh
        self.spec = spec
        self.devices = mesh.flat if isinstance(mesh, Mesh) else ()
        self.memory_kind: Any = "device" if self.devices else None
        if memory_kind is not None and memory_kind != "device":
            self.memory_kind = (
                _checked_kind(memory_kind, self.devices[0]) if self.devices else checked_kind(memory_kind, "")
            )
        self._hash = hash((mesh, spec, self.memory_kind))

    @property
    def local(self) -> Sequence[int]:
        return self.mesh.local

    @property
    def is_fully_replicated(self) -> bool:
        return self.mesh.size == 1 or (not self.spec.unreduced and math.prod(self.shard_counts(len(self.spec))) == 1)

    def shard_counts(self, ndim: int) -> tuple[int, ...]:
        """The number of shards along each axis of an array."""
        sizes = self.mesh.shape
        counts = [math.prod([sizes[name] for name in axes_of(part)]) for part in self.spec]
        return tuple(counts[:ndim]) + (1,) * (ndim - len(counts))

    def check(self, shape: Sequence[int], function: str, what: str) -> None:
        """Raises ValueError where an array of that shape can't be sharded so; the message names `what`, `function`."""
        message = f"{function}: {what} of shape {tuple(shape)} can't be sharded by {self.spec!r} over {self.mesh.text}"
        if len(self.spec) > len(shape):
            of_scalars = " For scalars the PartitionSpec should be P()." * (not shape)
            raise ValueError(
                f"{message}: the spec has {len(self.spec)} elements, and the array {len(shape)} axes.{of_scalars}"
            )
        for axis, (size, count, part) in enumerate(zip(shape, self.shard_counts(len(shape)), self.spec)):
            if size % count:
                names = " * ".join(str(name) for name in axes_of(part))
                raise ValueError(
                    f"{message}: {size}, the size of its axis {axis}, is not divisible by {count} ({names}). "
                    "The shards should evenly divide the shape: pad the axis, or leave it whole (None in the spec)."
                )

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The axes of the mesh that partition nothing."""
        return frozenset(self.mesh.axis_names) - {name for part in self.spec for name in axes_of(part)}

    def update(self, mesh: Any = None, spec: Any = None, memory_kind: str | None = None) -> NamedSharding:
        """The sharding with another mesh, spec or kind of memory."""
        return NamedSharding(
            self.mesh if mesh is None else mesh,
            self.spec if spec is None else spec,
            memory_kind=memory_kind or self.memory_kind,
        )

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return self if kind == self.memory_kind else self.update(memory_kind=kind)

    def with_spec(self, spec: Any) -> NamedSharding:
        """The sharding by another spec over the same mesh."""
        return self.update(spec=spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec))

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raises ValueError where an array of that shape can't be sharded so."""
        self.check(aval_shape, "check_compatible_aval", "an array")

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        self.check(global_shape, "shard_shape", "an array")
        return tuple(n // count for n, count in zip(global_shape, self.shard_counts(len(global_shape))))

    def part_numbers(self, ndim: int) -> np.ndarray:
        """For each device, in order, the number of its part along each axis of an array."""
        mesh = self.mesh
        coordinates = dict(zip(mesh.axis_names, np.indices(mesh.axis_sizes).reshape(len(mesh.axis_sizes), -1)))
        numbers = np.zeros((mesh.size, ndim), int)
        for axis, part in enumerate(self.spec):
            for name in axes_of(part):
                numbers[:, axis] = numbers[:, axis] * mesh.shape[name] + coordinates[name]
        return numbers

    def indices(self, shape: tuple[int, ...]) -> list[Index]:
        sizes = [n // count for n, count in zip(shape, self.shard_counts(len(shape)))]
        return [
            tuple([slice(None) if n == m else slice(i * m, (i + 1) * m) for i, m, n in zip(row, sizes, shape)])
            for row in self.part_numbers(len(shape)).tolist()
        ]

    def with_rows(self, axis: int, part: Any = None) -> NamedSharding:
        """The sharding of an array with one more axis, at `axis`, partitioned as `part` says.

        Raises:
          ShardingTypeError: rows are partitioned over the same axis of the mesh.
        """
        twice = set(axes_of(part)) & {name for each in self.spec for name in axes_of(each)}
        if twice:
            raise ShardingTypeError(
                f"vmap: the mapped axis is partitioned over {part!r}, by the sharding of what is mapped or by "
                f"spmd_axis_name, and {self.spec!r} partitions each row over {', '.join(sorted(map(repr, twice)))}, "
                "too, along which each device has rows of its own and holds each of them whole. Unmapped values "
                "passed to vmap cannot be sharded over it either: reshard them, or what is mapped."
            )
        parts = [*self.spec, *[None] * (axis - len(self.spec))]
        return self.with_spec(self.spec.update((*parts[:axis], part, *parts[axis:])))

    def addend_numbers(self) -> list[int]:
        """For each device, in order, the number of its addend among those along the axes that are unreduced."""
        mesh, numbers = self.mesh, np.zeros(self.mesh.size, int)
        for name, of_devices in zip(mesh.axis_names, np.indices(mesh.axis_sizes).reshape(len(mesh.axis_sizes), -1)):
            if name in self.spec.unreduced:
                numbers = numbers * mesh.shape[name] + of_devices
        return numbers.tolist()

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, NamedSharding)
            and self.spec == other.spec
            and self.mesh == other.mesh
            and self.memory_kind == other.memory_kind
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return _named, (self.mesh, self.spec, self.memory_kind)

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh.text}, spec={self.spec!r}{_memory_text(self)})"


def _named(mesh: Any, spec: PartitionSpec, memory_kind: str) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


register_parameter(
    NamedSharding,  # that of an operation names no memory, see `constrain`
    lambda sharding: {"mesh": sharding.mesh, "spec": tuple(sharding.spec), **sums_of(sharding.spec)},
    lambda mesh, spec, unreduced=(), reduced=(): NamedSharding(
        mesh, PartitionSpec(*spec, unreduced=frozenset(unreduced), reduced=frozenset(reduced))
    ),
)


def placement(sharding: NamedSharding) -> NamedSharding | Device:
    """Where arrays with a sharding are: on the device, if a program was constrained to one."""
    return sharding.mesh.device if type(sharding.mesh) is MeshOfOneDevice else sharding


def without_mesh_of_one(sharding: NamedSharding) -> NamedSharding | SingleDeviceSharding:
    """A sharding of arguments or results as users see it: on the device, if a program was constrained to one."""
    if type(sharding.mesh) is not MeshOfOneDevice:
        return sharding
    return SingleDeviceSharding(sharding.mesh.device, memory_kind=sharding.memory_kind)


class Shard:
    """The part of an array on one device: `device`, `index` (slices into the whole), `replica_id`, and `data`."""

    __slots__ = ("device", "index", "replica_id", "data")

    def __init__(self, device: Device, index: Index, replica_id: int, data: Any):
        self.device, self.index, self.replica_id, self.data = device, index, replica_id, data

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data})"


def replica_ids(indices: Sequence[Index]) -> Iterator[int]:
    """For each device the number of those before it that hold the same part."""
    seen: dict[Any, int] = {}
    for index in indices:
        key = str(index)
        seen[key] = seen.get(key, -1) + 1
        yield seen[key]


# -- Shardings of types


def _of_type(aval: ShapedArray) -> NamedSharding:
    """The sharding that the type of an array has.

    Where nothing is partitioned it is over the current mesh. A type says nothing of Auto axes: what a program reads
    here and passes on constrains nothing along them.
    """
    explicit, current, kind = aval.explicit, settings.mesh, kind_of_space(aval.memory_space)
    if explicit is not None:
        return NamedSharding(
            explicit.mesh, explicit.spec.update(explicit.parts or [None] * aval.ndim), memory_kind=kind
        )
    mesh = aval.mesh or (_NO_MESH if current is None else current.abstract_mesh)
    return NamedSharding(mesh, PartitionSpec(*[None] * aval.ndim), memory_kind=kind)


_NO_MESH = AbstractMesh((), ())
ShapedArray.sharding = property(_of_type)  # type: ignore[attr-defined]


def typed(aval: ShapedArray, sharding: Any) -> ShapedArray:
    """The type of arrays of that shape and dtype with a sharding, or on a device.

    Over Explicit axes of a mesh the sharding is a part of it, of a mesh of Auto axes the mesh; and so is the memory
    space.
    """
    if not isinstance(sharding, Sharding):
        return aval.plain
    if type(sharding) is not NamedSharding:
        aval = aval.plain
    elif sharding.mesh.has_explicit:
        aval = aval.with_explicit(explicit_sharding(sharding.mesh, sharding.spec, aval.ndim)).on_mesh(None)
    else:
        aval = aval.plain.on_mesh(sharding.mesh.if_auto)
    return aval.in_memory(space_of_kind(sharding.memory_kind))


def sharding_by(explicit: ExplicitSharding, spec: Sequence[Any] | None = None) -> NamedSharding:
    """The sharding that a type names, or one by `spec`; over the mesh of devices that is current, if it is that one."""
    mesh = settings.mesh
    if not isinstance(mesh, Mesh) or mesh.abstract_mesh != explicit.mesh:
        mesh = explicit.mesh
    return NamedSharding(mesh, explicit.spec if spec is None else PartitionSpec(*spec))
