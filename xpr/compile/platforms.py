"""lower for several platforms: one program, whose first argument is the index of the platform that it runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.mesh import MeshOfProcesses
from xpr.backend.mlir_text import quoted
from xpr.backend.operands import host_value
from xpr.backend.sharding import Mesh, NamedSharding
from xpr.backend.stablehlo import Builder, Module, Value
from xpr.compile.lower import argument_attributes, lower_eqns, lower_jaxpr
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr
from xpr.core.memory import MemorySpace
from xpr.dimensions.solving import Solution, solve
from xpr.passes.host_memory import computed_on_device
from xpr.passes.physical import physical
from xpr.primitives.device_put import placed

INDEX = ShapedArray((), dtypes.int32)


def lower_for_platforms(
    jaxpr: Jaxpr,
    platforms: Sequence[str],
    donated: Sequence[int] = (),
    mesh: Mesh | None = None,
    in_shardings: Sequence[NamedSharding | None] = (),
    out_shardings: Sequence[NamedSharding | None] = (),
    consts: Sequence[Any] | None = None,
    names: Sequence[str] = (),
    result_names: Sequence[str] = (),
) -> Module:
    """`lower_jaxpr` for one or several platforms, and for symbolic dimensions.

    With several platforms, the first argument of `main` is the index of the platform, which selects the function to
    call; there is only one function if the program is the same on all. Dimension variables are computed in `main`, and
    are leading arguments of the other functions.

    Args:
      jaxpr, donated, mesh, in_shardings, out_shardings: as for `lower_jaxpr`.
      platforms: what it is lowered for.
      consts: the values of the jaxpr's constants, to be written into the text; None for arguments.
      names: of the arguments, for the messages of assertions about shapes.
      result_names: of the results. With names, the text has them, and the user's lines.

    Raises:
      NotImplementedError: it calls a `pmap` over devices of several processes.
      ValueError: dimension variables can't be computed from the shapes of the arguments.
    """
    jaxpr = physical(jaxpr)
    variables = jaxpr.invars if consts is not None else [*jaxpr.constvars, *jaxpr.invars]
    in_avals = [v.aval for v in variables]
    solution = solve(in_avals, names or [f"args[{i}]" for i in range(len(in_avals))])
    if len(platforms) == 1 and consts is None and not solution.sizes:
        return lower_jaxpr(jaxpr, platforms[0], donated, mesh, in_shardings, out_shardings)
    if isinstance(mesh, MeshOfProcesses):
        raise NotImplementedError(
            f"A program with a pmap over devices of several processes, {mesh.line.text}, can't be exported, nor "
            "lowered for several platforms or symbolic dimensions. Use shard_map, whose arguments are arrays over all "
            "devices."
        )
    module = Module(platforms[0])
    module.mesh, module.exported, module.located = mesh, consts is not None, bool(result_names)
    inputs, outputs = argument_attributes(
        module, in_avals, jaxpr.out_avals, donated, in_shardings, out_shardings, result_names
    )
    if module.located:
        inputs = [f"{attributes} loc({quoted(name)})" for attributes, name in zip(inputs, names)]

    def body(builder: Builder, operands: list[Value]) -> list[Value]:
        values = [
            builder.constant(np.asarray(host_value(c, v.aval)), v.aval) for c, v in zip(consts or (), jaxpr.constvars)
        ]
        program = jaxpr if builder.platform == "cpu" else computed_on_device(jaxpr)
        results = lower_eqns(builder, program, [*values, *operands])
        return [
            placed(builder, x, MemorySpace.Device) if module.exported and aval.memory_space is MemorySpace.Host else x
            for x, aval in zip(results, jaxpr.out_avals)
        ]

    if len(platforms) == 1 and not solution.sizes:
        module.function("main", in_avals, body, public=True, argument_attributes=inputs, result_attributes=outputs)
        return module
    module.is_polymorphic = True
    module.dimension_variables = tuple(sorted(solution.values))
    functions = []
    for platform in _distinct_platforms(jaxpr, platforms, bool(solution.sizes)):
        module.platform, module.shared = platform, {}
        name = "_wrapped_jax_export_main" if len(platforms) == 1 else f"main_{platform}"  # the first is JAX's name, too
        functions.append(module.function(name, in_avals, body))

    def main(builder: Builder, operands: list[Value]) -> list[Value]:
        arguments = operands[len(platform_index) :]
        write_dimensions(builder, arguments, solution)

        def call(function: str) -> Callable[[Builder], list[Value]]:
            return lambda inner: inner.call(function, arguments, jaxpr.out_avals)

        if len(functions) == 1:
            return call(functions[0])(builder)
        return builder.case(operands[0], [call(function) for function in functions], jaxpr.out_avals)

    platform_index = [INDEX] if len(platforms) > 1 else []
    index_attributes = [' {jax.global_constant = "_platform_index"}' for _ in platform_index]
    module.function(
        "main", [*platform_index, *in_avals], main, public=True, argument_attributes=[*index_attributes, *inputs],
        result_attributes=outputs,
    )  # fmt: skip
    return module


def _distinct_platforms(jaxpr: Jaxpr, platforms: Sequence[str], is_symbolic: bool) -> Sequence[str]:
    """The platforms, or the first of them if its program is that of all."""
    if len(platforms) == 1 or is_symbolic:
        return platforms
    texts = {lower_jaxpr(jaxpr, platform).text() for platform in platforms}
    return platforms if len(texts) > 1 else platforms[:1]


def write_dimensions(builder: Builder, operands: Sequence[Value], solution: Solution) -> None:
    """Writes the values of dimension variables, and the assertions about the shapes of operands."""
    builder.dimensions = {name: builder.dimension_size(operands[i], axis) for name, i, axis in solution.sizes}
    for check in solution.checks:
        holds = builder.compare_sizes(check.value, "EQ" if check.kind == "==" else "GE", 0)
        builder.assert_shape(holds, check.message, list(map(builder.dimension, check.numbers)))
    builder.dimensions = {name: builder.dimension(solution.values[name]) for name in sorted(solution.values)}
