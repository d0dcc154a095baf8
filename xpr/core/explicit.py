"""Shardings as part of types: how an array is partitioned over the Explicit axes of a mesh.

    mesh x=4 Explicit, y=2 Auto;  P("x", "y") of f32[8,6] is the type f32[8@x,6]
    y Explicit, too;  P("x", unreduced={"y"}) is f32[8@x,6]{U:y}, and reduced={"y"} is f32[8@x,6]{R:y}

A type that names no Explicit axis has no sharding (`aval.explicit` is None), whether or not a mesh is current.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from xpr.config import settings
from xpr.core.meshes import AbstractMesh
from xpr.core.specs import PartitionSpec, axes_of, normalized
from xpr.errors import ShardingTypeError

Axes = frozenset[Any]
_NO_AXES: Axes = frozenset()
Parts = tuple[Any, ...]  # for each axis of an array: the name of an axis of a mesh, a tuple of names, or None


class ExplicitSharding:
    """A mesh, and for each axis of an array the Explicit axes of the mesh that partition it. Interned.

    `parts` is None while it is undecided: of a result whose sharding is ambiguous, until `reshard` decides it.
    """

    __slots__ = ("mesh", "parts", "unreduced", "reduced")
    mesh: AbstractMesh
    parts: Parts | None
    unreduced: Axes  # the value is the sum of what the devices along these axes hold
    reduced: Axes  # the devices along these axes hold the same, and cotangents are unreduced over them

    _interned: ClassVar[dict[Any, ExplicitSharding]] = {}

    def __new__(
        cls, mesh: AbstractMesh, parts: Parts | None, unreduced: Axes = _NO_AXES, reduced: Axes = _NO_AXES
    ) -> ExplicitSharding:
        key = (mesh, parts, unreduced, reduced)
        known = cls._interned.get(key)
        if known is None:
            known = object.__new__(cls)
            known.mesh, known.parts, known.unreduced, known.reduced = key
            known = cls._interned.setdefault(key, known)
        return known

    def __reduce__(self) -> Any:
        return ExplicitSharding, (self.mesh, self.parts, self.unreduced, self.reduced)

    def __copy__(self) -> ExplicitSharding:
        return self

    def __deepcopy__(self, memo: Any) -> ExplicitSharding:
        return self

    @property
    def is_undecided(self) -> bool:
        """Whether the sharding is ambiguous, until `reshard` decides it."""
        return self.parts is None

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec; one without elements while it is undecided."""
        return PartitionSpec(*(self.parts or ()), unreduced=self.unreduced, reduced=self.reduced)

    @property
    def dual(self) -> ExplicitSharding:
        """The sharding of cotangents: unreduced where values are reduced, and the other way round."""
        if not self.unreduced and not self.reduced:
            return self
        return ExplicitSharding(self.mesh, self.parts, self.reduced, self.unreduced)

    def named(self, axes: Sequence[Any]) -> tuple[Any, ...]:
        """Those of some axes of the mesh that types name: not axes of size one, if the setting leaves them out."""
        small = settings.remove_size_one_mesh_axis_from_type
        return tuple([name for name in axes if not small or self.mesh.shape.get(name) != 1])

    def with_parts(self, parts: Sequence[Any]) -> ExplicitSharding | None:
        """The sharding over the same mesh with other parts."""
        return explicit_sharding(self.mesh, self.spec.update(parts), len(parts))

    def with_axis(self, axis: int, part: Any = None) -> ExplicitSharding | None:
        """The sharding of arrays with one more axis, at `axis`."""
        return self if self.parts is None else self.with_parts([*self.parts[:axis], part, *self.parts[axis:]])

    def without_axis(self, axis: int) -> ExplicitSharding | None:
        """The sharding of arrays without one axis."""
        return self if self.parts is None else self.with_parts([*self.parts[:axis], *self.parts[axis + 1 :]])

    def check(self, shape: Sequence[Any]) -> None:
        """Raises ShardingTypeError where an array of that shape can't be split into equal shards."""
        for axis, (n, part) in enumerate(zip(shape, self.parts or ())):
            count = math.prod([self.mesh.shape[name] for name in axes_of(part)])
            if type(n) is int and n % count:
                raise ShardingTypeError(
                    f"An array of shape {tuple(shape)} can't be partitioned over {part!r} along axis {axis}: {count} "
                    f"does not evenly divide the dimension size {n}. Pad it, or leave it whole: "
                    "xpr.sharding.reshard(x, P(...))."
                )

    def __repr__(self) -> str:
        return f"ExplicitSharding({self.mesh.text}, {self.parts if self.is_undecided else self.spec!r})"


def explicit_sharding(mesh: AbstractMesh, spec: Sequence[Any], ndim: int) -> ExplicitSharding | None:
    """The sharding in types of arrays with `ndim` axes, from a spec over a mesh; None if it names no Explicit axis."""
    if not mesh.has_explicit:
        return None
    explicit: Sequence[Any] = mesh.explicit_axes
    if settings.remove_size_one_mesh_axis_from_type:
        explicit = [name for name in explicit if mesh.shape[name] > 1]
    parts = [normalized(tuple([name for name in axes_of(part) if name in explicit])) for part in spec]
    unreduced, reduced = (getattr(spec, name, _NO_AXES).intersection(explicit) for name in ("unreduced", "reduced"))
    if parts.count(None) == len(parts) and not unreduced and not reduced:
        return None
    return ExplicitSharding(mesh.abstract_mesh, (*parts, *[None] * (ndim - len(parts))), unreduced, reduced)


def dimension_text(size: Any, part: Any) -> str:
    """An axis in a printed type: `8`, `8@x`, `8@(x,y)`."""
    if part is None:
        return str(size)
    return f"{size}@({','.join(map(str, part))})" if type(part) is tuple else f"{size}@{part}"


def sums_text(explicit: ExplicitSharding) -> str:
    """The unreduced and reduced axes in a printed type: `{U:x}`, `{U:(x,y), R:z}`, or nothing."""
    named = [("U", explicit.unreduced), ("R", explicit.reduced)]
    texts = [f"{letter}:{_names_text(explicit.mesh, axes)}" for letter, axes in named if axes]
    return f"{{{', '.join(texts)}}}" if texts else ""


def _names_text(mesh: AbstractMesh, axes: Axes) -> str:
    names = [str(name) for name in mesh.axis_names if name in axes]
    return names[0] if len(names) == 1 else f"({','.join(names)})"
