"""Shardings as part of types: how an array is partitioned over the Explicit axes of a mesh.

    mesh x=4 Explicit, y=2 Auto;  P("x", "y") of f32[8,6] is the type f32[8@x,6]

A type that is partitioned over no Explicit axis has no such part, whether or not there is a mesh.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from xpr.core.meshes import AbstractMesh
from xpr.core.specs import axes_of, normalized
from xpr.errors import ShardingTypeError

Parts = tuple[Any, ...]  # for each axis of an array: the name of an axis of a mesh, a tuple of names, or None


class ExplicitSharding:
    """A mesh, and for each axis of an array the Explicit axes of the mesh that partition it. Interned.

    `parts` is None while it is undecided: of a result whose sharding is ambiguous, until `reshard` decides it.
    """

    __slots__ = ("mesh", "parts")
    mesh: AbstractMesh
    parts: Parts | None

    _interned: ClassVar[dict[tuple[AbstractMesh, Parts | None], ExplicitSharding]] = {}

    def __new__(cls, mesh: AbstractMesh, parts: Parts | None) -> ExplicitSharding:
        known = cls._interned.get((mesh, parts))
        if known is None:
            known = object.__new__(cls)
            known.mesh, known.parts = mesh, parts
            known = cls._interned.setdefault((mesh, parts), known)
        return known

    def __reduce__(self) -> Any:
        return ExplicitSharding, (self.mesh, self.parts)

    def __copy__(self) -> ExplicitSharding:
        return self

    def __deepcopy__(self, memo: Any) -> ExplicitSharding:
        return self

    @property
    def is_undecided(self) -> bool:
        """Whether it is ambiguous so far."""
        return self.parts is None

    def with_parts(self, parts: Sequence[Any]) -> ExplicitSharding | None:
        """The sharding over the same mesh by other parts."""
        return explicit_sharding(self.mesh, parts, len(parts))

    def with_axis(self, axis: int, part: Any = None) -> ExplicitSharding | None:
        """The sharding of arrays with one more axis, at `axis`."""
        return self if self.parts is None else self.with_parts([*self.parts[:axis], part, *self.parts[axis:]])

    def without_axis(self, axis: int) -> ExplicitSharding | None:
        """The sharding of arrays without one axis."""
        return self if self.parts is None else self.with_parts([*self.parts[:axis], *self.parts[axis + 1 :]])

    def check(self, shape: Sequence[Any]) -> None:
        """Raises ShardingTypeError where an array of that shape can't be cut into equal shards."""
        for axis, (n, part) in enumerate(zip(shape, self.parts or ())):
            count = math.prod([self.mesh.shape[name] for name in axes_of(part)])
            if type(n) is int and n % count:
                raise ShardingTypeError(
                    f"An array of shape {tuple(shape)} can't be partitioned over {part!r} along axis {axis}: {count} "
                    f"does not evenly divide {n}, its size. Pad it, or leave it whole: xpr.sharding.reshard(x, P(...))."
                )

    def __repr__(self) -> str:
        return f"ExplicitSharding({self.mesh!r}, {self.parts!r})"


def explicit_sharding(mesh: AbstractMesh, spec: Sequence[Any], ndim: int) -> ExplicitSharding | None:
    """What a spec over a mesh says in the type of arrays with `ndim` axes; None where no Explicit axis is named."""
    if not mesh.has_explicit:
        return None
    explicit = mesh.explicit_axes
    parts = [normalized(tuple([name for name in axes_of(part) if name in explicit])) for part in spec]
    if parts.count(None) == len(parts):
        return None
    return ExplicitSharding(mesh.abstract_mesh, (*parts, *[None] * (ndim - len(parts))))


def dimension_text(size: Any, part: Any) -> str:
    """An axis in a printed type: `8`, `8@x`, `8@(x,y)`."""
    if part is None:
        return str(size)
    return f"{size}@({','.join(map(str, part))})" if type(part) is tuple else f"{size}@{part}"
