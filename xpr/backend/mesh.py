"""Meshes: grids of devices with named axes, and their abstract shapes without devices.

A mesh that is written as text, or in a file, is its axes and the numbers of its devices. Where it is read and one of
them is missing it becomes an `AbstractMesh`, which says so when a program is to run there.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from xpr.backend import devices as platforms
from xpr.backend.devices import Device
from xpr.config import settings
from xpr.core.meshes import AbstractDevice, AbstractMesh, AxisType
from xpr.errors import DeviceNotFound
from xpr.text.parameters import register_parameter


class _Entered(threading.local):
    """The previous current meshes of the `with mesh:` blocks that this thread is in."""

    def __init__(self) -> None:
        self.before: list[AbstractMesh | None] = []


_entered = _Entered()


_meshes: WeakValueDictionary[Any, Mesh] = WeakValueDictionary()


_F = TypeVar("_F", bound=Callable[..., Any])


class Mesh(AbstractMesh):
    """A grid of devices with a name for each axis. `with mesh:` makes it the current one, see `set_mesh`. As a
    decorator it does so while a function runs.

    Meshes of the same devices and axes are the same object.

    Args:
      devices: an array of devices.
      axis_names: a name for each axis of the array; one name for a single axis.
      axis_types: an `AxisType` for each axis.
    Raises:
      ValueError: the number of names is not that of axes, or a name or a device occurs twice.

    >>> import numpy as np, xpr
    >>> xpr.sharding.Mesh(np.array(xpr.devices("cpu")[:1]), ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    __slots__ = ("devices", "_flat", "_hash", "_local", "__weakref__")

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        mesh = object.__new__(cls)
        mesh._set(devices, axis_names, axis_types)
        return _meshes.setdefault((cls, mesh._flat, mesh.shape_tuple, mesh.axis_types), mesh)

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None):
        pass  # it may be one that is there already

    def _set(self, devices: Any, axis_names: Any, axis_types: Any) -> None:
        grid = np.empty(np.shape(devices), object)
        grid[...] = devices
        super().__init__(grid.shape, axis_names, axis_types)
        self.devices, self._flat = grid, tuple(grid.flat) if grid.ndim else ()
        self.size = len(self._flat)
        if len(set(self._flat)) != self.size:
            raise ValueError(f"Mesh: a device occurs twice in {list(self._flat)}.")
        self._hash = hash((self._flat, self.axis_names, self.axis_sizes, self.axis_types))
        self._local: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, axis_types={self._types_text()})"

    @property
    def flat(self) -> tuple[Device, ...]:
        """The devices in a line."""
        return self._flat

    @property
    def is_scalar(self) -> bool:
        """Whether it is one device, and no axes."""
        return self.devices.shape == () and self.devices[()] is not None

    @property
    def abstract_device(self) -> AbstractDevice | None:
        """The kind of the devices; None where there are none."""
        first = self._flat[0] if self._flat else None
        if first is None:
            return None
        return AbstractDevice(first.device_kind, getattr(first, "core_count", None), first.platform)

    @property
    def device_ids(self) -> np.ndarray:
        """The numbers of the devices, on the grid."""
        return np.array([device.id for device in self._flat], int).reshape(self.axis_sizes)

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return [self._flat[i] for i in self.local]

    @property
    def is_multi_process(self) -> bool:
        """Whether some of the devices belong to another process."""
        return len(self.local) != self.size

    @property
    def process_indices(self) -> list[int]:
        """The processes that have some of the devices."""
        return sorted({device.process_index for device in self._flat})

    @property
    def local(self) -> tuple[int, ...]:
        """The positions in `flat` of the devices that belong to this process."""
        if self._local is None:
            is_local = [device.process_index == device.client.process_index() for device in self._flat]
            self._local = tuple([i for i, local in enumerate(is_local) if local])
        return self._local

    @property
    def local_mesh(self) -> Mesh:
        """The devices of this process, on the smallest grid that holds them.

        Raises:
          ValueError: there are none, or they fill no grid.
        """
        coordinates = np.array(np.unravel_index(list(self.local), self.axis_sizes))
        grid = self.devices[np.ix_(*map(np.unique, coordinates))] if self.local else np.empty(0, object)
        if not self.local or grid.size != len(self.local):
            raise ValueError(f"The devices of this process fill no grid in {self.text}: {self.local_devices}.")
        return Mesh(grid, self.axis_names, self.axis_types)

    def update(  # type: ignore[override]  # the devices say the sizes
        self, devices: Any = None, axis_names: Any = None, axis_types: Any = None
    ) -> Mesh:
        """The mesh with other devices, names or types of axes."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def along(self, axes: AbstractMesh) -> Mesh:
        """The devices, row by row, along the axes of a mesh of as many."""
        if axes.shape_tuple == self.shape_tuple and axes.axis_types == self.axis_types:
            return self
        return Mesh(self.devices.reshape(axes.axis_sizes), axes.axis_names, axes.axis_types)

    def __enter__(self) -> Mesh:
        _entered.before.append(settings.mesh)
        settings.mesh = self
        return self

    def __exit__(self, *error: object) -> None:
        settings.mesh = _entered.before.pop()

    def __call__(self, fun: _F) -> _F:
        @functools.wraps(fun)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fun(*args, **kwargs)

        return inside  # type: ignore[return-value]  # it has the same signature

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Mesh) and (self._flat, self.axis_names, self.axis_sizes, self.axis_types) == (
            other._flat, other.axis_names, other.axis_sizes, other.axis_types,
        )  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return mesh_of_parts, tuple(_mesh_parts(self).values())


class _Processes:
    """The name of the axis along which the processes are."""

    def __repr__(self) -> str:
        return "processes"


PROCESSES = _Processes()


class MeshOfProcesses(Mesh):
    """The grid of a program that several processes run together, with the devices of each process in a row.

    In each process the program has arguments and results of that process, on its devices: it is one manual region along
    the axis `PROCESSES`.

    Args:
      line: the devices, along one axis.

    Attributes:
      line: the mesh along whose axis they communicate.
    Raises:
      ValueError: the processes have different numbers of them.
    """

    __slots__ = ("line",)
    line: Mesh

    def __new__(cls, line: Mesh) -> MeshOfProcesses:  # type: ignore[override]  # made from another mesh
        mesh = object.__new__(cls)
        counts = {rank: sum(device.process_index == rank for device in line.flat) for rank in line.process_indices}
        if len(set(counts.values())) > 1:
            raise ValueError(
                f"pmap: the processes have different numbers of the devices of {line!r}: "
                f"{', '.join(f'process {rank} has {count}' for rank, count in counts.items())}. Name as many of each, "
                "or use shard_map."
            )
        by_process = sorted(line.flat, key=lambda device: device.process_index)
        mesh._set(np.array(by_process, object).reshape(len(counts), -1), (PROCESSES, *line.axis_names), None)
        mesh.line = line
        return _meshes.setdefault((cls, line.flat, line.shape_tuple), mesh)  # type: ignore[return-value]

    def __init__(self, line: Mesh):
        pass  # as for Mesh

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, MeshOfProcesses) and self.line == other.line)

    __hash__ = Mesh.__hash__


class MeshOfOneDevice(Mesh):
    """The mesh of a program that is constrained to one device: what it computes is on the device, and on no mesh.

    Args:
      device: the device.
    """

    __slots__ = ()

    def __new__(cls, device: Device) -> MeshOfOneDevice:  # type: ignore[override]  # of its device alone
        mesh = object.__new__(cls)
        mesh._set([device], "device", None)
        return _meshes.setdefault((cls, mesh._flat), mesh)  # type: ignore[return-value]

    def __init__(self, device: Device):
        pass  # as for Mesh

    @property
    def device(self) -> Device:
        """The device."""
        return self._flat[0]

    @property
    def if_auto(self) -> None:
        """None: types say nothing of it."""
        return None

    @property
    def text(self) -> str:
        """The device, in messages."""
        return str(self.device)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, MeshOfOneDevice) and self.device is other.device)

    __hash__ = Mesh.__hash__

    def __reduce__(self) -> Any:
        return _mesh_of_one, (names_of_devices(self._flat),)


# -- As text, and in files


def names_of_devices(devices: Sequence[Device]) -> str:
    """Devices as text: the platform and their numbers, `cpu:0-3,6`.

    >>> import xpr
    >>> names_of_devices(xpr.devices("cpu")[:1])
    'cpu:0'
    """
    texts: list[str] = []
    for platform, group in groupby(devices, lambda device: device.platform):
        ranges: list[list[int]] = []
        for device in group:
            if ranges and device.id == ranges[-1][1] + 1:
                ranges[-1][1] += 1
            else:
                ranges.append([device.id, device.id])
        texts.append(f"{platform}:{','.join(str(a) if a == b else f'{a}-{b}' for a, b in ranges)}")
    return " ".join(texts)


def devices_of_names(text: str) -> list[Device]:
    """The devices of such a text.

    Raises:
      DeviceNotFound: one of them is not there.
    """
    named = []
    for part in text.split():
        platform, numbers = part.split(":")
        by_id = {device.id: device for device in platforms.devices(platform)}
        for span in numbers.split(","):
            first, _, last = span.partition("-")
            for number in range(int(first), int(last or first) + 1):
                if number not in by_id:
                    known = names_of_devices(list(by_id.values()))
                    raise DeviceNotFound(f"There is no device {platform}:{number}; there are {known}.")
                named.append(by_id[number])
    return named


def _mesh_parts(mesh: Mesh) -> dict[str, Any]:
    return {"axes": mesh.shape_tuple, "devices": names_of_devices(mesh.flat), **_types_part(mesh)}


def _types_part(mesh: AbstractMesh) -> dict[str, Any]:
    """The types of the axes, where one of them is not Auto."""
    is_auto = set(mesh.axis_types) <= {AxisType.Auto}
    return {} if is_auto else {"types": tuple([kind.name for kind in mesh.axis_types])}


def _axis_types(types: Sequence[str]) -> tuple[AxisType, ...] | None:
    return tuple([AxisType[name] for name in types]) or None


def mesh_of_parts(axes: Sequence[tuple[Any, int]], devices: str, types: Sequence[str] = ()) -> AbstractMesh:
    """The mesh of these devices; an `AbstractMesh` where one of them is not there."""
    names, sizes = [name for name, _ in axes], [size for _, size in axes]
    try:
        named = devices_of_names(devices)
    except DeviceNotFound as error:
        mesh = AbstractMesh(sizes, names, _axis_types(types))
        mesh.missing = f"It was written for the devices {devices}. {error}"
        return mesh
    grid = np.empty(len(named), object)
    grid[:] = named
    return Mesh(grid.reshape(sizes), names, _axis_types(types))


def _mesh_of_one(device: str) -> AbstractMesh:
    """The mesh of a device; an `AbstractMesh` where it is not there."""
    mesh = mesh_of_parts([("device", 1)], device)
    return MeshOfOneDevice(mesh.flat[0]) if isinstance(mesh, Mesh) else mesh


register_parameter(Mesh, _mesh_parts, mesh_of_parts)
register_parameter(MeshOfOneDevice, lambda mesh: {"device": names_of_devices(mesh.flat)}, _mesh_of_one)
register_parameter(
    AbstractMesh,
    lambda mesh: {"axes": mesh.shape_tuple, **_types_part(mesh)},
    lambda axes, types=(): AbstractMesh([size for _, size in axes], [name for name, _ in axes], _axis_types(types)),
)
