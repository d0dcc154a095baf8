"""Shardings of arguments and results in the schema of exported functions: each mesh and each sharding once.

Meshes are abstract: an exported function runs on any devices that form such a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.mesh import AbstractMesh, AxisType
from xpr.backend.sharding import NamedSharding, PartitionSpec, axes_of, sums_of

_AXIS_TYPES = {AxisType.Auto: 1, AxisType.Explicit: 2, AxisType.Manual: 3}
_OF_NUMBER = {number: kind for kind, number in _AXIS_TYPES.items()}


class ShardingTables:
    """The tables of the different shardings and meshes of a function."""

    def __init__(self) -> None:
        self._meshes: dict[AbstractMesh, int] = {}
        self._shardings: dict[NamedSharding, int] = {}

    def number(self, sharding: NamedSharding | None) -> int:
        """The number of a sharding, from 1; 0 for none."""
        if sharding is None:
            return 0
        self._meshes.setdefault(sharding.mesh, len(self._meshes))
        return 1 + self._shardings.setdefault(sharding, len(self._shardings))

    def table(self, sharding: NamedSharding | None) -> dict[str, Any]:
        """A sharding where it is written whole, as readers before April 2026 expect."""
        return {} if sharding is None else {"kind": 2, "named_sharding": self._sharding(sharding)}

    @property
    def meshes(self) -> list[dict[str, Any]]:
        return list(map(_mesh, self._meshes))

    @property
    def shardings(self) -> list[dict[str, Any]]:
        return list(map(self._sharding, self._shardings))

    def _sharding(self, sharding: NamedSharding) -> dict[str, Any]:
        mesh = sharding.mesh
        parts = [{"axes": list(axes_of(part))} for part in sharding.spec]
        spec = {"partitions": parts, "reduced": [], "unreduced": [], **sums_of(sharding.spec)}
        table = {"mesh": _mesh(mesh), "spec": spec, "abstract_mesh_idx": self._meshes[mesh]}
        return table if sharding.memory_kind in (None, "device") else {**table, "memory_kind": sharding.memory_kind}


def _mesh(mesh: AbstractMesh) -> dict[str, Any]:
    return {
        "axis_sizes": list(mesh.axis_sizes),
        "axis_names": list(mesh.axis_names),
        "axis_types": [_AXIS_TYPES[kind] for kind in mesh.axis_types],
    }


def shardings_of_table(table: dict[str, Any], which: str) -> tuple[NamedSharding | None, ...]:
    """The shardings of arguments ("in") or results ("out")."""
    if indices := table.get(f"{which}_shardings_idxs"):
        every = table.get("unique_named_shardings", [])
        return tuple([None if i == 0 else _sharding_of_table(every[i - 1], table) for i in indices])
    whole = [each.get("named_sharding") for each in table.get(f"{which}_shardings", [])]
    return tuple([None if each is None else _sharding_of_table(each, table) for each in whole])


def _sharding_of_table(table: dict[str, Any], function: dict[str, Any]) -> NamedSharding:
    meshes: Sequence[dict[str, Any]] = function.get("unique_abstract_meshes", [])
    mesh = meshes[table.get("abstract_mesh_idx", 0)] if meshes else table["mesh"]
    types = [_OF_NUMBER.get(number, AxisType.Auto) for number in mesh.get("axis_types", [])]
    abstract = AbstractMesh(mesh.get("axis_sizes", []), mesh.get("axis_names", []), types or None)
    spec = table.get("spec", {})
    parts = [tuple(p.get("axes", [])) for p in spec.get("partitions", [])]
    sums = {name: frozenset(spec.get(name) or ()) for name in ("unreduced", "reduced")}
    return NamedSharding(abstract, PartitionSpec(*parts, **sums), memory_kind=table.get("memory_kind"))
