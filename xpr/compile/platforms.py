"""lower for several platforms: one program, whose first argument is the index of the platform that it runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.mesh import MeshOfProcesses
from xpr.backend.operands import host_value
from xpr.backend.sharding import Mesh
from xpr.backend.stablehlo import Builder, Value
from xpr.backend.stablehlo_module import Module
from xpr.compile.lower import NO_ATTRIBUTES, MainAttributes, lower_eqns, lower_jaxpr
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr
from xpr.core.memory import MemorySpace
from xpr.dimensions.solving import DimensionSolution, solve
from xpr.passes.host_memory import computed_on_device
from xpr.passes.physical import physical
from xpr.primitives.device_put import placed

INDEX = ShapedArray((), dtypes.int32)


def lower_for_platforms(
    jaxpr: Jaxpr,
    platforms: Sequence[str],
    attributes: MainAttributes = NO_ATTRIBUTES,
    mesh: Mesh | None = None,
    consts: Sequence[Any] | None = None,
    scopes: tuple[str, ...] | None = None,
) -> Module:
    """`lower_jaxpr` for one or several platforms, and for symbolic dimensions.

    With several platforms, the first argument of `main` is the index of the platform, which selects the function to
    call; there is only one function if the program is the same on all. Dimension variables are computed in `main`, and
    are leading arguments of the other functions.

    Args:
      jaxpr, mesh: as for `lower_jaxpr`.
      platforms: what it is lowered for.
      attributes: of the arguments and results of `main`. Messages of assertions about shapes have the names of
        arguments.
      consts: the values of the jaxpr's constants, to be written into the text; None for arguments.
      scopes: as for `lower_jaxpr`.

    Raises:
      NotImplementedError: it calls a `pmap` over devices of several processes.
      ValueError: dimension variables can't be computed from the shapes of the arguments.
    """
    jaxpr = physical(jaxpr)
    variables = jaxpr.invars if consts is not None else [*jaxpr.constvars, *jaxpr.invars]
    in_avals = [v.aval for v in variables]
    solution = solve(in_avals, attributes.names or [f"args[{i}]" for i in range(len(in_avals))])
    if len(platforms) == 1 and consts is None and not solution.sizes:
        return lower_jaxpr(jaxpr, platforms[0], attributes, mesh, scopes)
    if isinstance(mesh, MeshOfProcesses):
        raise NotImplementedError(
            f"A program with a pmap over devices of several processes, {mesh.line.text}, can't be exported, nor "
            "lowered for several platforms or symbolic dimensions. Use shard_map, whose arguments are arrays over all "
            "devices."
        )
    module = Module(platforms[0])
    module.mesh, module.exported, module.scopes = mesh, consts is not None, scopes
    inputs, outputs = attributes.texts(module, in_avals, jaxpr.out_avals)

    def write_program(builder: Builder, operands: list[Value]) -> list[Value]:
        return _lower_program(builder, jaxpr, consts, operands)

    if len(platforms) == 1 and not solution.sizes:
        module.function(
            "main", in_avals, write_program, public=True, argument_attributes=inputs, result_attributes=outputs
        )
        return module
    module.is_polymorphic = True
    module.dimension_variables = tuple(sorted(solution.values))
    functions = []
    for platform in _distinct_platforms(jaxpr, platforms, mesh, bool(solution.sizes)):
        module.platform, module.shared = platform, {}
        name = "_wrapped_jax_export_main" if len(platforms) == 1 else f"main_{platform}"  # the first is JAX's name, too
        functions.append(module.function(name, in_avals, write_program))
    index_avals = [INDEX] if len(platforms) > 1 else []

    def write_main(builder: Builder, operands: list[Value]) -> list[Value]:
        index, arguments = operands[: len(index_avals)], operands[len(index_avals) :]
        write_dimensions(builder, arguments, solution)
        return _call_one_of(builder, functions, index, arguments, jaxpr.out_avals)

    index_attributes = [' {jax.global_constant = "_platform_index"}' for _ in index_avals]
    module.function(
        "main", [*index_avals, *in_avals], write_main, public=True, argument_attributes=[*index_attributes, *inputs],
        result_attributes=outputs,
    )  # fmt: skip
    return module


def _lower_program(
    builder: Builder, jaxpr: Jaxpr, consts: Sequence[Any] | None, operands: Sequence[Value]
) -> list[Value]:
    """Writes the equations of a program for the builder's platform, with its constants; returns the results.

    Results of an exported program are moved to the device's memory.
    """
    constants = [
        builder.constant(np.asarray(host_value(c, v.aval)), v.aval) for c, v in zip(consts or (), jaxpr.constvars)
    ]
    program = jaxpr if builder.platform == "cpu" else computed_on_device(jaxpr)
    results = lower_eqns(builder, program, [*constants, *operands])
    return [
        placed(builder, x, MemorySpace.Device)
        if builder.module.exported and aval.memory_space is MemorySpace.Host
        else x
        for x, aval in zip(results, jaxpr.out_avals)
    ]


def _call_one_of(
    builder: Builder, functions: Sequence[str], index: Sequence[Value], arguments: Sequence[Value],
    out_avals: Sequence[ShapedArray],
) -> list[Value]:  # fmt: skip
    """The results of the function that is numbered by the platform's index; of the only one, if there is one."""

    def call(function: str) -> Callable[[Builder], list[Value]]:
        return lambda inner: inner.call(function, arguments, out_avals)

    if len(functions) == 1:
        return call(functions[0])(builder)
    return builder.case(index[0], [call(function) for function in functions], out_avals)


def _distinct_platforms(jaxpr: Jaxpr, platforms: Sequence[str], mesh: Mesh | None, is_symbolic: bool) -> Sequence[str]:
    """The platforms whose programs differ: all of them, or the first alone if the program is the same on all."""
    if len(platforms) == 1 or is_symbolic:
        return platforms
    texts = {lower_jaxpr(jaxpr, platform, mesh=mesh).text() for platform in platforms}
    return platforms if len(texts) > 1 else platforms[:1]


def write_dimensions(builder: Builder, operands: Sequence[Value], solution: DimensionSolution) -> None:
    """Writes the values of dimension variables, and the assertions about the shapes of operands."""
    builder.dimensions = {name: builder.dimension_size(operands[i], axis) for name, i, axis in solution.sizes}
    for check in solution.checks:
        holds = builder.compare_sizes(check.value, "EQ" if check.kind == "==" else "GE", 0)
        builder.assert_shape(holds, check.message, list(map(builder.dimension, check.numbers)))
    builder.dimensions = {name: builder.dimension(solution.values[name]) for name in sorted(solution.values)}
