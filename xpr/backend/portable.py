"""Programs as jaxlib's own objects and bytes: MLIR modules, HLO, portable artifacts."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend import native, runtime
from xpr.backend.devices import client_of
from xpr.backend.mlir_bindings import bindings, context
from xpr.backend.mlir_bindings import parse as parse


def checked_platforms(names: Sequence[str]) -> tuple[str, ...]:
    """The platforms, "gpu" as "cuda". Any name will do: programs for others than the known ones are those for none.

    Raises:
      ValueError: there is none, or one twice.
    """
    platforms = tuple(["cuda" if name == "gpu" else name for name in names])
    if isinstance(names, str) or not platforms or len(set(platforms)) < len(platforms):
        raise ValueError(f"Platforms are a sequence of different names, such as ('cpu', 'cuda'), and are {names!r}.")
    return platforms


def printed(text: str, locations: bool) -> str:
    """The StableHLO text as MLIR prints it, which has verified it as it read it."""
    return str(parse(text).operation.get_asm(enable_debug_info=locations, assume_verified=True))


def hlo(text: str) -> Any:
    """The StableHLO text as an `XlaComputation`."""
    return runtime._jax.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False)


def hlo_text(text: str, metadata: bool) -> str:
    """The text of the StableHLO program in HLO, in XLA's short form."""
    options = importlib.import_module("jaxlib._hlo").HloPrintOptions.short_parsable()
    options.print_metadata = metadata
    return hlo(text).get_hlo_module().to_string(options)


def cost_analysis(text: str) -> dict[str, float]:
    """XLA's estimate for a program that is not compiled yet, the same for all platforms: plugins have none."""
    costs = runtime._jax.hlo_module_cost_analysis(client_of("cpu"), hlo(text).get_hlo_module())
    return native.with_flops(costs, text)


# -- Portable artifacts: bytes that jaxlib of other releases reads


def serialized(text: str) -> bytes:
    """The StableHLO text as a portable artifact, which jaxlib of the last weeks, and of the next years, reads."""
    stablehlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    age = stablehlo.StablehloCompatibilityRequirement.WEEK_4
    version = stablehlo.get_version_from_compatibility_requirement(age)
    return runtime._jax.mlir.serialize_portable_artifact(parse(text), version, "sdy.mesh" in text)


def deserialized(artifact: bytes) -> Any:
    """The module of a portable artifact."""
    return runtime._jax.mlir.deserialize_portable_artifact(artifact, context())


class Inlined:
    """The functions of an artifact, as texts under new names, and the types of its `main`, the first of them.

    Of a program for several devices also `meshes`, the definitions of those that it names, and the shardings of the
    arguments and results of `main` as texts, None where it has none.
    """

    __slots__ = ("functions", "in_shardings", "inputs", "meshes", "name", "out_shardings", "outputs")

    def __init__(self, artifact: bytes, new_name: Callable[[str], str], on_several: bool):
        module, ir = deserialized(artifact), bindings()
        with module.context:
            if not on_several:
                _without_shardings(ir, module)
            symbols = {_name(operation): operation for operation in module.body.operations}  # functions and meshes
            new_names = {name: new_name(name) for name in symbols}
            for i, symbol in enumerate(symbols.values()):  # first to names that none has, old or new
                _rename(ir, module, symbol, f"{i} renamed")
            for name, symbol in symbols.items():
                _rename(ir, module, symbol, new_names[name])
            functions = [symbol for symbol in symbols.values() if symbol.operation.name == "func.func"]
            for function in functions:
                function.attributes["sym_visibility"] = ir.StringAttr.get("private")
            self.name, main = new_names["main"], symbols["main"]
            self.inputs, self.outputs = list(map(str, main.type.inputs)), list(map(str, main.type.results))
            self.in_shardings = _take_shardings(ir, main, "arg_attrs", len(self.inputs))
            self.out_shardings = _take_shardings(ir, main, "res_attrs", len(self.outputs))
            meshes = [symbol for symbol in symbols.values() if symbol.operation.name == "sdy.mesh"]
            self.meshes = [mesh.operation.get_asm() for mesh in meshes]
            self.functions = [function.operation.get_asm() for function in functions]


_SHARDING = "sdy.sharding"


def _take_shardings(ir: Any, function: Any, which: str, count: int) -> list[str | None]:
    """The shardings among the attributes of a function's arguments or results, which it loses."""
    if which not in function.attributes:
        return [None] * count
    attributes = [{named.name: named.attr for named in each} for each in function.attributes[which]]
    shardings = [str(each.pop(_SHARDING)) if _SHARDING in each else None for each in attributes]
    function.attributes[which] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in attributes])
    return shardings


def _without_shardings(ir: Any, module: Any) -> None:
    """Removes what is written about shardings of a program for one device.

    Raises:
      NotImplementedError: a part of it runs on each device of a mesh, of one device, by itself.
    """
    for operation in list(module.body.operations):
        if operation.operation.name == "sdy.mesh":
            operation.operation.erase()
            continue
        for which in ("arg_attrs", "res_attrs"):
            _take_shardings(ir, operation, which, 0)
        _without_constraints(operation)


def _without_constraints(operation: Any) -> None:
    for region in operation.regions:
        for block in region:
            for inner in list(block):
                if inner.operation.name == "sdy.sharding_constraint":
                    inner.results[0].replace_all_uses_with(inner.operands[0])
                    inner.operation.erase()
                elif inner.operation.name.startswith("sdy."):
                    raise NotImplementedError(
                        f"An exported program for one device holds {inner.operation.name}, which can't be called from "
                        "another program: export it without shard_map."
                    )
                else:
                    _without_constraints(inner)


def _name(operation: Any) -> str:
    return operation.operation.attributes["sym_name"].value


def _rename(ir: Any, module: Any, operation: Any, name: str) -> None:
    """Renames a function or a mesh."""
    ir.SymbolTable.replace_all_symbol_uses(_name(operation), name, module.operation)
    ir.SymbolTable.set_symbol_name(operation.operation, name)


# -- Programs whose shapes are known when they are compiled


def refined(text: str) -> bytes:
    """The program with all shapes as they follow from those of the arguments of `main`, and its assertions checked.

    Raises:
      ValueError: an assertion about shapes does not hold.
    """
    module = parse(text)
    bytecode = io.BytesIO()
    module.operation.write_bytecode(bytecode)
    options = {"enable_shape_assertions": True, "validate_static_shapes": True, "enable_shardy": "sdy.mesh" in text}
    try:
        return runtime._jax.mlir.refine_polymorphic_shapes(bytecode.getvalue(), **options)
    except runtime._jax.JaxRuntimeError as error:
        failed = re.search(r"error: (.*)", str(error)) if "shape_assertion" in str(error) else None
        if failed is None:
            raise
        raise ValueError(failed[1]) from None
