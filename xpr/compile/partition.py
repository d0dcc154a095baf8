"""partition : a program for one device -> one for each device of a mesh. XLA does it; here it is asked to.

A program runs on several devices where an argument lies on them, or where an operation in it spreads its operands over
a mesh (`Primitive.mesh`). How the arguments lie is written into the program; the compiler chooses how everything else
does, and says how the results do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend import compiler
from xpr.backend.array import Array, host_value
from xpr.backend.sharding import Mesh, NamedSharding
from xpr.backend.shards import PartitionedExecutable, put_shards
from xpr.backend.stablehlo import Module
from xpr.compile.lower import lower_jaxpr
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import Jaxpr, Var, subjaxprs
from xpr.core.source import summarize, text_of


def mesh_of(jaxpr: Jaxpr) -> Mesh | None:
    """The first mesh that an operation of a jaxpr names, remembered with it; None where it runs on one device."""
    key = ("mesh", settings.platforms)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = _found_mesh(jaxpr)
    return jaxpr.memo[key]


def _found_mesh(jaxpr: Jaxpr) -> Mesh | None:
    for eqn in jaxpr.eqns:
        if eqn.primitive.mesh is not None:
            return eqn.primitive.mesh(**eqn.params)
        if eqn.primitive.call:
            for inner in subjaxprs(eqn):
                found = mesh_of(inner)
                if found is not None:
                    return found
    return None


def shardings_of(args: Sequence[Any]) -> tuple[NamedSharding | None, ...]:
    """How arguments lie on several devices; None for those that were put nowhere."""
    return tuple([x._device if type(x) is Array and type(x._device) is NamedSharding else None for x in args])


def run_partitioned(
    jaxpr: Jaxpr, args: Sequence[Any], name: str, mesh: Mesh, donated: tuple[int, ...] = ()
) -> list[Array]:
    """Runs a jaxpr without constants on the devices of a mesh, as one program that is kept with the jaxpr."""
    return run_program(program_for(jaxpr, args, name, mesh, donated), args, donated)


def program_for(
    jaxpr: Jaxpr, args: Sequence[Any], name: str, mesh: Mesh, donated: tuple[int, ...] = ()
) -> PartitionedExecutable:
    """The program that `run_partitioned` runs."""
    shardings = shardings_of(args)
    key = ("partitioned", mesh, shardings, donated)
    program = jaxpr.memo.get(key)
    if program is None:
        anyhow = [None] * len(jaxpr.outvars)
        module = lower_partitioned(jaxpr, mesh, shardings, anyhow, donated)
        program = jaxpr.memo[key] = compile_module(module, jaxpr, shardings, anyhow, name)
    return program


def lower_partitioned(
    jaxpr: Jaxpr, mesh: Mesh, in_shardings: Sequence[NamedSharding | None],
    out_shardings: Sequence[NamedSharding | None], donated: Sequence[int] = (),
) -> Module:  # fmt: skip
    """The text of a program on several devices."""
    return lower_jaxpr(jaxpr, mesh.flat[0].platform, donated, mesh, in_shardings, out_shardings)


def compile_module(
    module: Module, jaxpr: Jaxpr, in_shardings: Sequence[NamedSharding | None],
    out_shardings: Sequence[NamedSharding | None], name: str, options: dict[str, Any] | None = None,
) -> PartitionedExecutable:  # fmt: skip
    """The program of a module that `lower_partitioned` made.

    Raises:
      NotImplementedError: it calls Python functions, on devices of several processes.
    """
    if module.callbacks and isinstance(module.mesh, Mesh) and module.mesh.is_multi_process:
        raise NotImplementedError(
            f"{name}: a program on devices of several processes can't call Python functions (callbacks, prints, "
            f"breakpoints). Leave them out, or run it on devices of one process.\n{_where_python_is_called(jaxpr)}"
        )
    variables = [*jaxpr.constvars, *jaxpr.invars]
    text = module.text(name)
    program = compiler.compile_partitioned(
        text, jaxpr.out_avals, module.mesh, in_shardings, out_shardings,  # type: ignore[arg-type]
        [v.aval.ndim for v in variables], name=name, options=options,
        unrolled=module.unrolled, callbacks=module.callbacks,
    )  # fmt: skip
    for inspection in module.inspections:
        inspection.tell()
        text = text.replace(inspection.key, "")
    program.share(text)
    return program


def _where_python_is_called(jaxpr: Jaxpr) -> str:
    """The line of a message for the first equation that calls a Python function."""
    for eqn in jaxpr.eqns:
        if "callback" in eqn.params:
            return f"  {eqn.primitive} at {summarize(eqn.source)}: {text_of(eqn.source)}"
        for inner in subjaxprs(eqn):
            if found := _where_python_is_called(inner):
                return found
    return ""


def run_program(program: PartitionedExecutable, args: Sequence[Any], donated: Sequence[int] = ()) -> list[Array]:
    """The results of a program, for arguments that are put in their places first where they lie otherwise."""
    buffers = [buffer_at(x, sharding) for x, sharding in zip(args, program.in_shardings)]
    results = list(map(array_at, program.out_avals, program.run(buffers), program.out_shardings))
    for i in donated:
        if type(args[i]) is Array:
            args[i].forget()
    return results


def array_at(aval: ShapedArray, buffer: Any, sharding: NamedSharding) -> Array:
    """An array of a buffer on several devices."""
    return Array(aval, None, buffer, sharding)


def buffer_at(x: Any, sharding: NamedSharding) -> Any:
    """The buffer of an array that lies as the sharding says."""
    if type(x) is Array:
        return x.buffer if lies_as(x, sharding) else moved(x, sharding).buffer
    if isinstance(x, Tracer):
        raise x.misused()
    aval = aval_of(x)
    return put_shards(np.array(host_value(x, aval), aval.dtype), aval, sharding)


def lies_as(x: Array, sharding: NamedSharding) -> bool:
    """Whether an array is on devices already, and lies there as a sharding says."""
    place, ndim = x._device, x.aval.ndim
    if place is sharding or type(place) is not NamedSharding:
        return place is sharding
    return place == sharding or (
        place.devices == sharding.devices
        and place.cuts(ndim) == sharding.cuts(ndim)
        and (place.places(ndim) == sharding.places(ndim)).all()
    )


def moved(x: Array, sharding: NamedSharding) -> Array:
    """The same array, lying as the sharding says: by a program where it is on those devices already.

    Raises:
      DeviceNotFound: the sharding is of a mesh without devices.
    """
    place, _ = x._device, sharding.mesh.flat
    if type(place) is not NamedSharding or place.devices != sharding.devices:
        return Array(x.aval, x.host, None, sharding)
    variable = Var(x.aval)
    key = (x.aval, place, sharding)
    program = _moves.get(key)
    if program is None:
        jaxpr = Jaxpr([], [variable], [variable], [])
        module = lower_partitioned(jaxpr, sharding.mesh, [place], [sharding])
        program = _moves[key] = compile_module(module, jaxpr, [place], [sharding], "moved")
    return run_program(program, [x])[0]


_moves: dict[Any, PartitionedExecutable] = {}  # by the type of the array, where it is and where it goes


def forget_moves() -> None:
    """Forgets the programs that move arrays between devices."""
    _moves.clear()
