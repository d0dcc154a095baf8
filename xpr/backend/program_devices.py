"""The devices of a program on several: their numbers, and how the text names meshes, shardings and channels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from xpr.backend import runtime
from xpr.backend.hlo_shardings import sharding_from_hlo
from xpr.backend.mesh import MeshOfProcesses
from xpr.backend.mlir_text import axis_text
from xpr.backend.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, axes_of


class ProgramDevices:
    """The devices of one program, and the names and numbers that its text has given to meshes and channels so far.

    Attributes:
      mesh: what numbers the devices; None in a program on one device.
      manual: the named axes of the manual regions around the operations that are being written, and their mesh.
    """

    def __init__(self) -> None:
        self.mesh: Mesh | None = None
        self.manual: dict[Any, Mesh] = {}
        self._meshes: dict[Mesh, str] = {}  # their names
        self._maximal_meshes: set[int] = set()  # of one device each, by its number
        self._channels = 0
        self._groups = 0

    def mesh_definitions(self) -> list[str]:
        """The definitions of the meshes that shardings name."""
        named = [f"sdy.mesh @{name} = {self._mesh_text(mesh)}" for mesh, name in self._meshes.items()]
        return named + [f"sdy.mesh @maximal_mesh_{n} = <[], device_ids=[{n}]>" for n in sorted(self._maximal_meshes)]

    def maximal_mesh(self, device: int) -> str:
        """The name of the mesh of one device, by number, which what runs on that device alone is sharded over."""
        self._maximal_meshes.add(device)
        return f"maximal_mesh_{device}"

    def _mesh_text(self, mesh: Mesh) -> str:
        """`<["x"=2, "y"=4]>`, with the numbers of its devices where they are in another order than the program's."""
        axes = ", ".join(f"{axis_text(name)}={size}" for name, size in mesh.shape.items())
        numbers = self.numbers(mesh).reshape(-1).tolist()
        order = "" if numbers == sorted(numbers) else f", device_ids=[{', '.join(map(str, numbers))}]"
        return f"<[{axes}]{order}>"

    def numbers(self, mesh: Mesh) -> np.ndarray:
        """The numbers that the devices of a mesh have in the program, on its grid.

        Raises:
          ValueError: the mesh has other devices than the program, or has them in another order, by which XLA's arrays
            and programs would take one device for another.
        """
        whole: Any = self.mesh
        if not isinstance(mesh, Mesh):  # in a program that is exported: on the devices that it will have, in order
            if mesh.size != whole.size:
                raise ValueError(
                    f"{type(mesh).__name__} size: {mesh.size} does not match the device assignment size: {whole.size}. "
                    f"The program is for {whole.text}, and a part of it, or an argument, for {mesh.text}: they must "
                    "have as many devices. Make one mesh of them."
                )
            return np.arange(mesh.size).reshape(mesh.axis_sizes)
        numbers = {device: i for i, device in enumerate(whole.flat)}
        if set(mesh.flat) != numbers.keys():
            size = "" if mesh.size == len(numbers) else ", and cannot change the size of the mesh"
            raise ValueError(
                f"Received incompatible devices for jitted computation: it runs on {len(numbers)}, {whole.text}, and "
                f"a part of it on {mesh.size}, {mesh.text}{size}. They must be the same devices: make one mesh of "
                "them, or jit the parts by themselves."
            )
        if mesh.flat != whole.flat and not isinstance(whole, MeshOfProcesses):
            raise ValueError(
                "Received incompatible devices for jitted computation: it runs on "
                f"{_ids(whole)}, and a part of it, over {mesh.text}, on {_ids(mesh)}: "
                "they must be in the same order. Make one mesh of them, or put arrays on this one with "
                "xpr.device_put(x, NamedSharding(mesh, spec))."
            )
        return np.array([numbers[device] for device in mesh.flat]).reshape(mesh.axis_sizes)

    def _with_devices(self, mesh: AbstractMesh) -> Any:
        """The mesh of the program that has these axes; itself, in a program that is exported."""
        known = [each for each in (self.mesh, *self._meshes) if isinstance(each, Mesh)]
        return next((each for each in known if each.shape_tuple == mesh.shape_tuple), mesh)

    def sharding(self, mesh: Any, spec: Sequence[Any], ndim: int, is_open: bool = False) -> str:
        """The sharding of an array with `ndim` axes as Shardy's text, `<@mesh, [{"x"}, {}]>`.

        With `is_open` the compiler may partition the array further, along axes that are not Explicit; but not one that
        is unreduced, which Shardy would sum over further axes, too.
        """
        if not isinstance(mesh, Mesh):
            mesh = self._with_devices(mesh)
        if mesh not in self._meshes:
            self.numbers(mesh)
            self._meshes[mesh] = f"mesh{len(self._meshes) or ''}"
        unreduced: Collection[Any] = getattr(spec, "unreduced", ())
        is_open, axes = is_open and not unreduced, []
        for part in (*spec, *[None] * (ndim - len(spec))):
            names = [*map(axis_text, axes_of(part)), *["?"] * (is_open or part is PartitionSpec.UNCONSTRAINED)]
            axes.append(f"{{{', '.join(names)}}}")
        used = {*unreduced, *self.manual, *[name for part in spec for name in axes_of(part)]}
        replicated = [name for name in mesh.explicit_axes if name not in used] if is_open else []
        sets = {"replicated": replicated, "unreduced": [name for name in mesh.axis_names if name in unreduced]}
        texts = [f", {kind}={{{', '.join(map(axis_text, names))}}}" for kind, names in sets.items() if names]
        return f"<@{self._meshes[mesh]}, [{', '.join(axes)}]{''.join(texts)}>"

    def sharding_group(self) -> int:
        """The number of a new group of values that are sharded in the same way."""
        self._groups += 1
        return self._groups

    def channel(self) -> str:
        """The attribute of an operation by which the devices communicate."""
        self._channels += 1
        return f"channel_handle = #stablehlo.channel_handle<handle = {self._channels}, type = 1>"


def _ids(mesh: Mesh) -> list[int]:
    return [device.id for device in mesh.flat]


class Inspection:
    """A callback that receives, after compiling, the sharding of a value with `ndim` axes over a mesh.

    In a region that is manual along some axes, `manual_axes`, it is the sharding of the value of one device. `key` is
    its name in the text: the address of `append_sharding`, which the compiler calls and does not keep alive.
    """

    __slots__ = ("callback", "mesh", "ndim", "manual_axes", "append_sharding", "key", "shardings")

    def __init__(self, callback: Callable[[NamedSharding], Any], mesh: Mesh, ndim: int, manual_axes: Sequence[Any]):
        self.callback, self.mesh, self.ndim, self.manual_axes = callback, mesh, ndim, manual_axes
        self.shardings: list[Any] = []  # the compiler only appends to it
        self.append_sharding = self.shardings.append
        encoded = runtime.xc.encode_inspect_sharding_callback(self.append_sharding)
        self.key = "".join(f"\\{byte:02X}" for byte in encoded)

    def call(self) -> None:
        """Calls the callback."""
        names = [name for name in self.mesh.axis_names if name not in self.manual_axes]
        first = tuple([slice(None) if name in names else 0 for name in self.mesh.axis_names])
        for hlo in self.shardings:
            sharding = sharding_from_hlo(hlo, Mesh(self.mesh.devices[first], names), self.ndim)
            whole = all(name in names for name in sharding.mesh.axis_names)
            self.callback(NamedSharding(self.mesh, sharding.spec) if whole else sharding)
