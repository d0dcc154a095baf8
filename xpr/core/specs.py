"""Partition specs: for each axis of an array the axes of a mesh that partition it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xpr.core.meshes import AbstractMesh


class Unconstrained:
    """An axis that a constraint leaves to the compiler; there is one, `PartitionSpec.UNCONSTRAINED`."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> Any:
        return _unconstrained, ()


def _unconstrained() -> Unconstrained:
    return PartitionSpec.UNCONSTRAINED


class PartitionSpec(tuple):
    """For each axis of an array the axes of a mesh that partition it: a name, a tuple of names, or None.

    Further axes are not partitioned. A tuple of one name is that name, an empty one None.

    >>> from xpr.sharding import PartitionSpec as P
    >>> P("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    """

    __slots__ = ()
    UNCONSTRAINED: ClassVar[Any] = Unconstrained()

    def __new__(cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()) -> PartitionSpec:
        if unreduced or reduced:
            raise NotImplementedError(
                "PartitionSpec: unreduced and reduced axes are not distinguished; sums over devices are done where "
                "they are asked for (lax.psum in a shard_map), or where the compiler sees fit."
            )
        return super().__new__(cls, map(normalized, partitions))

    def __init_subclass__(cls) -> None:
        raise TypeError("PartitionSpec has no subclasses: shardings are compared by what their specs name.")

    @property
    def partitions(self) -> tuple[Any, ...]:
        """The elements."""
        return tuple(self)

    def update(self, partitions: Sequence[Any]) -> PartitionSpec:
        """A spec with other elements."""
        return PartitionSpec(*partitions)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self))}{',' if len(self) == 1 else ''})"

    def __reduce__(self) -> Any:
        return PartitionSpec, tuple(self)


def normalized(part: Any) -> Any:
    """An element of a spec in its one form."""
    if type(part) not in (list, tuple):  # the name of an axis may itself be a tuple of some class
        return part
    nested = next((each for each in part if type(each) in (list, tuple)), None)
    if nested is not None:
        raise ValueError(
            f"A tuple inside PartitionSpec cannot contain a nested tuple: {part!r} holds {nested!r}. Name all axes of "
            "the mesh that partition an axis of the array in one tuple."
        )
    return (part[0] if part else None) if len(part) < 2 else tuple(part)


P = PartitionSpec  # as JAX calls it, too
NOT_CUT = PartitionSpec()


def axes_of(part: Any) -> tuple[Any, ...]:
    """The mesh axes that an element of a spec names."""
    if part is None or part is PartitionSpec.UNCONSTRAINED:
        return ()
    return part if type(part) is tuple else (part,)


def check_spec(mesh: AbstractMesh, spec: Sequence[Any]) -> None:
    """Raises ValueError where a spec names no axis of the mesh, or one twice."""
    names = [name for part in spec for name in axes_of(part)]
    unknown = [name for name in names if name not in mesh.axis_names]
    if unknown:
        raise ValueError(f"{spec!r} names {unknown[0]!r}, and the axes of the mesh are {mesh!r}.")
    if len(set(names)) != len(names):
        raise ValueError(f"{spec!r} names an axis of the mesh twice: an axis can cut one axis of an array only.")
