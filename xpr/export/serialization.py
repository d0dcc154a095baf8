"""Exported functions as bytes of the schema that JAX has for them, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.artifacts import flatbuffers, schema
from xpr.artifacts.shardings import ShardingTables, shardings_of_table
from xpr.artifacts.trees import tree_as_table, tree_of_table
from xpr.artifacts.types import aval_as_table, leaf_of_table, leaf_types
from xpr.backend.mesh import AxisType
from xpr.backend.sharding import NamedSharding
from xpr.core.avals import ShapedArray
from xpr.dimensions.scope import SymbolicScope
from xpr.export.checks import DisabledSafetyCheck

# -- Writing


def write_exported(exported: Any, vjp_order: int) -> bytearray:
    """The bytes of an exported function, with that many vjps."""
    return flatbuffers.write(schema.Exported, _as_table(exported, vjp_order))


def _as_table(exported: Any, vjp_order: int) -> dict[str, Any]:
    avals: dict[Any, int] = {}
    ins, outs = (
        [avals.setdefault(key, len(avals)) for key in leaf_types(avals_of)]
        for avals_of in (exported.in_avals, exported.out_avals)
    )
    unique = list(map(aval_as_table, avals))
    in_shardings, out_shardings = exported._in_named_shardings, exported._out_named_shardings
    tables = ShardingTables()
    in_numbers, out_numbers = list(map(tables.number, in_shardings)), list(map(tables.number, out_shardings))
    return {
        "serialization_version": schema.SERIALIZATION_VERSION,
        "function_name": exported.fun_name,
        "in_tree": tree_as_table(exported.in_tree, exported.in_avals),
        "in_avals": [unique[i] for i in ins],
        "out_tree": tree_as_table(exported.out_tree, exported.out_avals),
        "out_avals": [unique[i] for i in outs],
        "nr_devices": exported.nr_devices,
        "in_shardings": list(map(tables.table, in_shardings)),
        "out_shardings": list(map(tables.table, out_shardings)),
        "platforms": list(exported.platforms),
        "ordered_effects": [{"type_name": name} for name in exported.ordered_effects],
        "unordered_effects": [{"type_name": name} for name in exported.unordered_effects],
        "disabled_checks": list(map(_check_as_table, exported.disabled_safety_checks)),
        "mlir_module_serialized": exported.mlir_module_serialized,
        "calling_convention_version": exported.calling_convention_version,
        "module_kept_var_idx": list(exported.module_kept_var_idx),
        "uses_global_constants": exported.uses_global_constants,
        "vjp": _as_table(exported.vjp(), vjp_order - 1) if vjp_order > 0 else None,
        "unique_avals": unique,
        "unique_abstract_meshes": tables.meshes,
        "unique_named_shardings": tables.shardings,
        "in_avals_idxs": ins,
        "out_avals_idxs": outs,
        "in_shardings_idxs": in_numbers,
        "out_shardings_idxs": out_numbers,
    }


def _check_as_table(check: DisabledSafetyCheck) -> dict[str, Any]:
    target = check.is_custom_call()
    if target is None:
        return {"kind": schema.CheckKind.PLATFORM}
    return {"kind": schema.CheckKind.CUSTOM_CALL, "custom_call_target": target}


# -- Reading


def read_exported(data: bytes, exported: Callable[..., Any]) -> Any:
    """The exported function of these bytes.

    Raises:
      CorruptBytes: they are damaged, or hold something else.
      NotImplementedError: the function has what xpr does not have.
    """
    table = flatbuffers.read(schema.Exported, data)
    missing = {"function_name", "in_tree", "out_tree", "platforms", "mlir_module_serialized"} - table.keys()
    if missing:
        raise flatbuffers.CorruptBytes(f"The bytes hold no exported function: they have no {sorted(missing)[0]}.")
    try:
        return _of_table(table, exported)
    except (LookupError, StopIteration) as error:  # a field is missing, or names what is not in the tables
        raise flatbuffers.CorruptBytes(f"The bytes of the exported function are damaged: {error!r}.") from error


def _of_table(table: dict[str, Any], exported: Callable[..., Any]) -> Any:
    if table.get("ordered_effects") or table.get("unordered_effects"):
        names = [each["type_name"] for name in ("ordered_effects", "unordered_effects") for each in table.get(name, [])]
        raise NotImplementedError(f"The exported function has effects that xpr does not have: {', '.join(names)}.")
    scope = SymbolicScope()
    in_leaves, out_leaves = (_leaves(table, which, scope) for which in ("in", "out"))
    in_shardings = shardings_of_table(table, "in") or (None,) * len(in_leaves)
    out_shardings = shardings_of_table(table, "out") or (None,) * len(out_leaves)
    vjp = table.get("vjp")
    return exported(
        fun_name=table["function_name"],
        in_tree=tree_of_table(table["in_tree"], in_leaves),
        in_avals=tuple(map(_partitioned, in_leaves, in_shardings)),
        out_tree=tree_of_table(table["out_tree"], out_leaves),
        out_avals=tuple(map(_partitioned, out_leaves, out_shardings)),
        in_shardings_hlo=(None,) * len(in_leaves),
        out_shardings_hlo=(None,) * len(out_leaves),
        _in_named_shardings=in_shardings,
        _out_named_shardings=out_shardings,
        nr_devices=table.get("nr_devices") or table.get("nr_devices_short", 1),
        platforms=tuple(table["platforms"]),
        ordered_effects=(),
        unordered_effects=(),
        disabled_safety_checks=tuple(_check_of_table(each) for each in table.get("disabled_checks", [])),
        mlir_module_serialized=table["mlir_module_serialized"],
        calling_convention_version=table["calling_convention_version"],
        module_kept_var_idx=tuple(table.get("module_kept_var_idx", [])),
        uses_global_constants=table.get("uses_global_constants", False),
        _get_vjp=vjp and (lambda _: _of_table(vjp, exported)),
    )


def _partitioned(aval: ShapedArray, sharding: NamedSharding | None) -> ShapedArray:
    """The type of an argument or a result; over Explicit axes its sharding is part of it."""
    if sharding is None or AxisType.Explicit not in sharding.mesh.axis_types:
        return aval
    return aval.update(sharding=sharding)


def _leaves(table: dict[str, Any], which: str, scope: SymbolicScope) -> list[Any]:
    """The types of arguments or results."""
    if indices := table.get(f"{which}_avals_idxs"):
        return [leaf_of_table(table["unique_avals"][i], scope) for i in indices]
    return [leaf_of_table(each, scope) for each in table.get(f"{which}_avals", [])]


def _check_of_table(table: dict[str, Any]) -> DisabledSafetyCheck:
    if table.get("kind", 0) == schema.CheckKind.CUSTOM_CALL:
        return DisabledSafetyCheck.custom_call(table["custom_call_target"])
    return DisabledSafetyCheck.platform()
