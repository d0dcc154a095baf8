"""partition : a program for one device -> one for each device of a mesh. XLA does it; here it is asked to.

A program runs on several devices where an argument lies on them, or where an operation in it spreads its operands over
a mesh (`Primitive.mesh`). How the arguments lie is written into the program; the compiler chooses how everything else
does, and says how the results do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend import compiler
from xpr.backend.array import Array, host_value
from xpr.backend.plain_trees import flatten_plain
from xpr.backend.sharding import Mesh, NamedSharding
from xpr.backend.shards import PartitionedExecutable, put_shards
from xpr.backend.stablehlo import Module
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer, context, escaped
from xpr.core.jaxpr import Jaxpr, Var, subjaxprs
from xpr.errors import UnexpectedTracerError
from xpr.transforms.lower import lower_jaxpr


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
      NotImplementedError: it calls Python functions.
    """
    if module.callbacks:
        raise NotImplementedError(
            f"{name}: a program on several devices can't call Python functions (callbacks, prints, breakpoints). "
            "Leave them out, or run it on one device."
        )
    variables = [*jaxpr.constvars, *jaxpr.invars]
    return compiler.compile_partitioned(
        module.text(name), jaxpr.out_avals, module.mesh, in_shardings, out_shardings,  # type: ignore[arg-type]
        [v.aval.ndim for v in variables], name=name, options=options,
    )  # fmt: skip


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
        place = x._device
        if place is sharding or (type(place) is NamedSharding and _same_layout(place, sharding, x.aval.ndim)):
            return x.buffer
        return moved(x, sharding).buffer
    if isinstance(x, Tracer):
        raise UnexpectedTracerError(escaped(x))
    aval = aval_of(x)
    return put_shards(np.array(host_value(x, aval), aval.dtype), aval, sharding)


def _same_layout(one: NamedSharding, other: NamedSharding, ndim: int) -> bool:
    if one == other:
        return True
    return (
        one.devices == other.devices
        and one.cuts(ndim) == other.cuts(ndim)
        and (one.places(ndim) == other.places(ndim)).all()
    )


def moved(x: Array, sharding: NamedSharding) -> Array:
    """The same array, lying as the sharding says: by a program where it is on those devices already."""
    place = x._device
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


class KnownCalls:
    """Programs on several devices, found by the structure, types and layouts of arrays in plain containers alone."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[Any, tuple[PartitionedExecutable, list[Any], Callable[[list[Any]], Any]]] = {}

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call that is known gives; NotImplemented for others."""
        plain = flatten_plain((args, kwargs))
        if plain is None:
            return NotImplemented
        leaves, structure = plain
        key = _layout_key(leaves, structure)
        entry = key and self.entries.get(key)
        if not entry:
            return NotImplemented
        program, constants, rebuild = entry
        results = program.run([*constants, *[x.buffer for x in leaves]])
        return rebuild(list(map(array_at, program.out_avals, results, program.out_shardings)))

    def remember(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: Sequence[Any],
        program: PartitionedExecutable,
        constants: list[Any],
        rebuild: Callable[[list[Any]], Any],
    ) -> None:
        """Makes a call known whose arguments lie as the program wants them."""
        plain = flatten_plain((args, kwargs))
        if plain is None or len(plain[0]) != len(leaves) or not all(map(operator.is_, plain[0], leaves)):
            return
        key = _layout_key(leaves, plain[1])
        wanted = program.in_shardings[len(constants) :]
        if key and all(_same_layout(x._device, sharding, x.aval.ndim) for x, sharding in zip(leaves, wanted)):
            self.entries[key] = program, constants, rebuild


def _layout_key(leaves: Sequence[Any], structure: Any) -> tuple[Any, ...] | None:
    """What tells calls apart; None where not all arguments are arrays that lie on several devices."""
    key: list[Any] = [settings.trace_key, context.axes, structure]
    for x in leaves:
        if type(x) is not Array or type(x._device) is not NamedSharding:
            return None
        key.append(x.aval)
        key.append(x._device)
    return tuple(key) if leaves else None
