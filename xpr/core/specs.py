"""Partition specs: for each axis of an array the axes of a mesh that partition it.

P("x", unreduced={"y"})   the value is the sum of what the devices along y hold
P("x", reduced={"y"})     the devices along y hold the same, and their cotangents are to be summed: unreduced
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from xpr.core.meshes import AbstractMesh, AxisType


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

    Further axes are not partitioned. A tuple of one name is that name, an empty one None. Specs of the same names are
    the same object.

    Args:
      *partitions: the elements.
      unreduced: a set of axes of the mesh; the value is the sum of what the devices along them hold.
      reduced: a set of axes of the mesh along which devices hold the same, and over which cotangents are unreduced.
    Raises:
      TypeError: `unreduced` or `reduced` is no set.
      ValueError: an axis is named twice among the sets and the elements; or there are tuples in tuples.

    >>> from xpr.sharding import PartitionSpec as P
    >>> P("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    >>> P("x", unreduced={"y"})
    P('x', unreduced={'y'})
    """

    __slots__ = ()
    UNCONSTRAINED: ClassVar[Any] = Unconstrained()
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()

    def __new__(cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()) -> PartitionSpec:
        parts = tuple(map(normalized, partitions))
        if not unreduced and not reduced and type(unreduced) in _SETS and type(reduced) in _SETS:
            return _interned(super().__new__(cls, parts))
        return _with_sums(parts, unreduced, reduced)

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            raise TypeError("Subclassing `jax.P` is prohibited: shardings are compared by what their specs name.")

    @property
    def partitions(self) -> tuple[Any, ...]:
        """The elements."""
        return tuple(self)

    def update(
        self, partitions: Iterable[Any] | None = None, unreduced: Any = None, reduced: Any = None
    ) -> PartitionSpec:
        """A spec with other elements, or other sets of unreduced and reduced axes."""
        return PartitionSpec(
            *(self if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def count(self, value: Any) -> int:  # type: ignore[override]  # which may be given by name, as in JAX
        """How many elements are `value`: a name, a tuple of names, or None."""
        return super().count(normalized(value))

    def index(self, value: Any, *bounds: Any) -> int:  # type: ignore[override]  # likewise
        """The position of the first element that is `value`.

        Raises:
          ValueError: there is none.
        """
        return super().index(normalized(value), *bounds)

    @property
    def dual(self) -> PartitionSpec:
        """The spec of cotangents: unreduced where values are reduced, and the other way round."""
        return self if type(self) is PartitionSpec else self.update(unreduced=self.reduced, reduced=self.unreduced)

    def to_tangent_spec(self) -> PartitionSpec:
        """The spec of tangents: the same."""
        return self

    def to_ct_spec(self) -> PartitionSpec:
        """The spec of cotangents, `dual` by the name that it has in JAX.

        >>> from xpr.sharding import PartitionSpec as P
        >>> P("x", reduced={"y"}).to_ct_spec()
        P('x', unreduced={'y'})
        """
        return self.dual

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            return NotImplemented
        self._refuse_tuple("__add__", other)
        sums: list[frozenset[Any]] = [getattr(other, name, frozenset()) for name in ("unreduced", "reduced")]
        return PartitionSpec(*self, *other, unreduced=self.unreduced | sums[0], reduced=self.reduced | sums[1])

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            return NotImplemented
        self._refuse_tuple("__radd__", other)
        return self.update((*other, *self))

    def _refuse_tuple(self, method: str, other: tuple[Any, ...]) -> None:
        """Raises TypeError where a spec with unreduced or reduced axes is joined with a tuple, which has none."""
        if isinstance(other, PartitionSpec) or not (self.unreduced or self.reduced):
            return
        name = "unreduced" if self.unreduced else "reduced"
        raise TypeError(
            f"{name} in `{method}` of PartitionSpec: {self!r} is joined with {other!r}, which is a tuple and says "
            f"nothing of {name} axes. Make it a PartitionSpec."
        )

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self))}{',' if len(self) == 1 else ''})"

    def __reduce__(self) -> Any:
        return PartitionSpec, tuple(self)


_SETS = (frozenset, set)
_specs: dict[PartitionSpec, PartitionSpec] = {}


def _interned(spec: PartitionSpec) -> PartitionSpec:
    """The spec that is kept of those that are equal; one with names of other classes than strings is itself."""
    for part in spec:
        if part is not None and type(part) is not str and not (type(part) is tuple and set(map(type, part)) == {str}):
            return spec
    return _specs.setdefault(spec, spec)


class SpecWithSums(PartitionSpec):
    """A `PartitionSpec` with unreduced or reduced axes, which that class makes."""

    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is SpecWithSums
            and tuple.__eq__(self, other)
            and self.unreduced == other.unreduced
            and self.reduced == other.reduced
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((tuple(self), self.unreduced, self.reduced))

    def __repr__(self) -> str:
        sums = [
            f"{name}={set(axes)!r}" for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced)) if axes
        ]
        return f"P({', '.join([*map(repr, self), *sums])})"

    def __reduce__(self) -> Any:
        return _with_sums, (tuple(self), self.unreduced, self.reduced)


def _with_sums(parts: tuple[Any, ...], unreduced: Any, reduced: Any) -> PartitionSpec:
    """A spec by its elements and sets.

    Raises:
      TypeError: one of these is no set.
      ValueError: they, or they and the elements, have an axis in common.
    """
    for name, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if type(axes) not in _SETS:
            raise TypeError(f"PartitionSpec: {name} must be a set or frozenset of axes of the mesh, and is {axes!r}.")
        if None in axes:
            raise ValueError(f"{name} cannot contain None: its elements are axes of the mesh. Got {set(axes)!r}.")
        for part in parts:
            if both := [axis for axis in axes_of(part) if axis in axes]:
                raise ValueError(
                    f"partitions cannot overlap with {name} axes passed to PartitionSpec, and {both[0]!r} is in both. "
                    f"Got partitions: {parts} and {name} axes: {set(axes)!r}."
                )
    if unreduced & reduced:
        raise ValueError(
            f"PartitionSpec: `unreduced` and `reduced` cannot overlap, and are {set(unreduced)!r} and {set(reduced)!r}."
        )
    spec = tuple.__new__(SpecWithSums, parts)
    spec.unreduced, spec.reduced = frozenset(unreduced), frozenset(reduced)
    return spec


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
REPLICATED = PartitionSpec()


def axes_of(part: Any) -> tuple[Any, ...]:
    """The mesh axes that an element of a spec names."""
    if part is None or part is PartitionSpec.UNCONSTRAINED:
        return ()
    return part if type(part) is tuple else (part,)


def check_spec(mesh: AbstractMesh, spec: Sequence[Any]) -> None:
    """Raises ValueError where a spec names an axis that the mesh does not have, or names an axis twice.

    Also where it leaves an axis of the array to the compiler, which decides along no axis of the mesh.
    """
    names = [name for part in spec for name in axes_of(part)]
    if type(spec) is SpecWithSums:
        _check_sums(mesh, spec)
    unknown = [name for name in names if name not in mesh.axis_names]
    if unknown:
        raise ValueError(
            f"Resource axis: {unknown[0]} of {spec!r} is not found in mesh: {mesh.axis_names}. The axes that can "
            f"partition an array are those of {mesh.text}."
        )
    if len(set(names)) != len(names):
        raise ValueError(f"{spec!r} names an axis of the mesh twice: an axis can partition one axis of an array only.")
    if PartitionSpec.UNCONSTRAINED in spec and AxisType.Auto not in mesh.axis_types:
        raise ValueError(
            f"{spec!r} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`: it leaves an axis to the "
            f"compiler, which decides along no axis of {mesh.text}. Name the axes of the mesh that partition it, or "
            "None."
        )


def _check_sums(mesh: AbstractMesh, spec: PartitionSpec) -> None:
    for name, axes in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
        for axis in axes:
            if axis not in mesh.axis_names:
                raise ValueError(f"{name} axes of {spec!r} not found in mesh: {axis!r} is no axis of {mesh.text}.")
            if mesh.axis_types[mesh.axis_names.index(axis)] is not AxisType.Explicit:
                raise ValueError(
                    f"{name} axes can only refer to mesh axes of type `Explicit`, and {axis!r} of {spec!r} is not one "
                    f"in {mesh}. The compiler decides where sums over Auto axes are done."
                )
