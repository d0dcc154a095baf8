"""Meshes without devices: grids with named axes, and how the sharding along each axis is decided."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import EllipsisType
from typing import Any

from xpr.errors import DeviceNotFound


class AxisType(enum.Enum):
    """How the sharding along an axis of a mesh is decided.

    `Auto`: by the compiler. `Explicit`: it is part of the types of arrays, and each operation says what that of its
    results is. `Manual`: by the program, which sees the shards of one device; axes of a `shard_map` are, inside of it.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class AbstractDevice:
    """A kind of device, as a mesh without devices says on what programs are to run.

    Args:
      device_kind: the name of the kind, as `Device.device_kind` has it.
      num_cores: the number of cores of a device, None where it is not known.
      platform: "cpu", "cuda", "rocm" or "tpu".

    >>> from xpr.sharding import AbstractDevice, AbstractMesh
    >>> device = AbstractDevice("TPU v6 lite", 1, "tpu")
    >>> AbstractMesh((4,), ("x",), abstract_device=device).abstract_device.platform
    'tpu'
    """

    device_kind: str
    num_cores: int | None
    platform: str


def _sizes(kind: str, axis_sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the axes of a mesh as Python's integers.

    Raises:
      TypeError: one is no integer.
      ValueError: one is negative.
    """
    try:
        sizes = tuple(map(operator.index, axis_sizes))
    except TypeError:
        raise TypeError(
            f"{kind}: axis_sizes has an integer for each axis of the mesh, and is {axis_sizes!r}."
        ) from None
    if any(size < 0 for size in sizes):
        raise ValueError(f"{kind}: axis_sizes has the number of devices along each axis, and is {axis_sizes!r}.")
    return sizes


class AbstractMesh:
    """The axes of a mesh, by name and size, without devices.

    Args:
      axis_sizes: the size of each axis.
      axis_names: its name.
      axis_types: an `AxisType` for each.
      abstract_device: the kind of the devices, for whose platform programs are lowered where the mesh is the current
        one; None where nothing is said of them. Meshes are equal that differ in it.

    Raises:
      TypeError: a size is no integer, a type no `AxisType`, or `abstract_device` no `AbstractDevice`.
      ValueError: a size is negative, the numbers of sizes, names and types differ, or a name occurs twice or is None.

    >>> import xpr
    >>> xpr.sharding.AbstractMesh((4, 2), ("x", "y"))
    AbstractMesh('x': 4, 'y': 2)
    """

    __slots__ = (
        "axis_names",
        "axis_sizes",
        "axis_types",
        "size",
        "missing",
        "has_explicit",
        "is_auto",
        "_abstract_device",
        "_abstract_hash",
        "_abstract_mesh",
    )

    def __init__(
        self, axis_sizes: Sequence[int], axis_names: Any, axis_types: Any = None, *, abstract_device: Any = None
    ):
        names = tuple(axis_names) if isinstance(axis_names, (tuple, list)) else (axis_names,)
        kind = type(self).__name__
        self.axis_sizes, self.axis_names = _sizes(kind, axis_sizes), names
        self.size = math.prod(self.axis_sizes) if self.axis_sizes else 0
        if None in names:
            raise ValueError(f"{kind}: Mesh axis names cannot be None. They are {names}: leave no axis without a name.")
        if len(names) != len(self.axis_sizes):
            raise ValueError(
                f"{kind} needs as many axis names as the ndim of its first argument: the devices have shape "
                f"{self.axis_sizes}, and the names are {names}."
            )
        if len(set(names)) != len(names):
            raise ValueError(f"{kind}: an axis name occurs twice in {names}.")
        types = (axis_types,) if isinstance(axis_types, AxisType) else axis_types
        self.axis_types: tuple[AxisType, ...] = tuple(types or (AxisType.Auto,) * len(names))
        if not all(isinstance(t, AxisType) for t in self.axis_types):
            raise TypeError(f"{kind}: axis_types must be of type AxisType, one for each of {names}: {axis_types!r}.")
        if len(self.axis_types) != len(names):
            raise ValueError(
                f"{kind}: Number of axis names should match the number of axis_types, an AxisType for each of {names}, "
                f"and axis_types is {axis_types!r}."
            )
        if not (abstract_device is None or isinstance(abstract_device, AbstractDevice)):
            raise TypeError(
                f"{kind}: abstract_device must be an AbstractDevice, or None, and is {abstract_device!r}. "
                "That of the devices of a Mesh is mesh.abstract_device."
            )
        self._abstract_device: AbstractDevice | None = abstract_device
        self.missing = ""  # why there are no devices
        self.has_explicit = AxisType.Explicit in self.axis_types
        self.is_auto = set(self.axis_types) == {AxisType.Auto}
        self._abstract_hash = hash((self.axis_names, self.axis_sizes, self.axis_types))
        self._abstract_mesh: AbstractMesh | None = None

    @property
    def abstract_device(self) -> AbstractDevice | None:
        """The kind of the devices; None where a mesh without devices says nothing of them."""
        return self._abstract_device

    @property
    def shape(self) -> dict[Any, int]:
        """The size of each axis by its name."""
        return dict(zip(self.axis_names, self.axis_sizes))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """The name and the size of each axis."""
        return tuple(zip(self.axis_names, self.axis_sizes))

    @property
    def empty(self) -> bool:
        """Whether it has no axes, as where no mesh is current."""
        return not self.axis_names

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The axes alone."""
        if type(self) is AbstractMesh:
            return self
        if self._abstract_mesh is None:
            self._abstract_mesh = AbstractMesh.update(self)
        return self._abstract_mesh

    @property
    def if_auto(self) -> AbstractMesh | None:
        """The axes alone, if there are some and all are Auto: what types say of such a mesh."""
        return self.abstract_mesh if self.is_auto else None

    def axes_of_type(self, kind: AxisType) -> tuple[Any, ...]:
        """The names of the axes of one type."""
        return tuple([name for name, axis_type in zip(self.axis_names, self.axis_types) if axis_type is kind])

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        """The names of the axes along which the compiler decides."""
        return self.axes_of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        """The names of the Explicit axes, over which the types of arrays are partitioned."""
        return self.axes_of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        """The names of the axes of the enclosing `shard_map`s."""
        return self.axes_of_type(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether there are axes, and the compiler decides along all."""
        return self.is_auto

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether there are axes, and types of arrays speak of all."""
        return set(self.axis_types) == {AxisType.Explicit}

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether there are axes, and all belong to `shard_map`s around."""
        return set(self.axis_types) == {AxisType.Manual}

    def update(
        self,
        axis_sizes: Any = None,
        axis_names: Any = None,
        axis_types: Any = None,
        *,
        abstract_device: AbstractDevice | EllipsisType | None = ...,
    ) -> AbstractMesh:
        """The axes with other sizes, names or types, or of another kind of devices.

        >>> from xpr.sharding import AbstractMesh
        >>> AbstractMesh((4, 2), ("x", "y")).update(axis_names=("a", "b"))
        AbstractMesh('a': 4, 'b': 2)
        """
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=self.abstract_device if abstract_device is ... else abstract_device,
        )

    def update_axis_types(self, name_to_type: Mapping[Any, AxisType]) -> AbstractMesh:
        """The axes, some of them of another type.

        Args:
          name_to_type: the new types, by the names of axes.

        Returns:
          An `AbstractMesh`.

        >>> from xpr.sharding import AbstractMesh, AxisType
        >>> AbstractMesh((4, 2), ("x", "y")).update_axis_types({"x": AxisType.Explicit}).explicit_axes
        ('x',)
        """
        types = [name_to_type.get(name, old) for name, old in zip(self.axis_names, self.axis_types)]
        return AbstractMesh.update(self, axis_types=tuple(types))

    @property
    def local(self) -> tuple[int, ...]:
        """The positions in `flat` of the devices that belong to this process."""
        return tuple(range(len(self.flat)))

    @property
    def flat(self) -> tuple[Any, ...]:
        """The devices as one tuple, row by row.

        Raises:
          DeviceNotFound: there are none.
        """
        raise DeviceNotFound(
            f"A program can't run on {self!r}, which has no devices. "
            f"{self.missing or 'Use a Mesh, which make_mesh makes of the devices that are there.'}"
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is AbstractMesh
            and self.shape_tuple == other.shape_tuple
            and self.axis_types == other.axis_types
        )

    def __hash__(self) -> int:
        return self._abstract_hash

    def __reduce__(self) -> Any:
        parts = self.axis_sizes, self.axis_names, self.axis_types
        return partial(AbstractMesh, abstract_device=self.abstract_device), parts

    def __str__(self) -> str:
        axes = [f"{name!r}: {size}" for name, size in self.shape_tuple] or ["()"]
        return f"{type(self).__name__}({', '.join(axes)}, axis_types={self._types_text()})"

    def _types_text(self) -> str:
        names = [kind.name for kind in self.axis_types]
        return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"

    @property
    def text(self) -> str:
        """The mesh in messages: its axes, and their types unless all are Auto."""
        axes = [f"{name!r}: {size}" for name, size in self.shape_tuple]
        if not set(self.axis_types) <= {AxisType.Auto}:
            axes.append(f"axis_types={self._types_text()}")
        return f"{type(self).__name__}({', '.join(axes)})"

    def __repr__(self) -> str:
        return self.text
