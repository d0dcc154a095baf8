"""partition : jaxpr -> a program for the devices of a mesh. XLA partitions it by the shardings of its arguments.

A program runs on several devices where an argument is on them, or where an operation in it shards its operands over
a mesh (`Primitive.mesh`). The shardings of arguments are written into the program; the compiler chooses all
others, and reports those of results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend import compiler
from xpr.backend.array import Array, forget_donated, result
from xpr.backend.buffers import Device, copied
from xpr.backend.each_process import ProgramOfEachProcess, on_each_process
from xpr.backend.hlo_shardings import raw_sharding
from xpr.backend.layout import Layout
from xpr.backend.mesh import MeshOfProcesses
from xpr.backend.operands import host_value
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec, typed
from xpr.backend.shards import PartitionedExecutable, put_shards
from xpr.backend.stablehlo_module import Module
from xpr.compile.committed import devices_of
from xpr.compile.lower import MainAttributes, lower_jaxpr
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import Jaxpr, Var, subjaxprs
from xpr.core.memory import kind_of_space
from xpr.core.refs import Ref
from xpr.primitives.sharding_rules import parts_of


def mesh_of(jaxpr: Jaxpr) -> Mesh | None:
    """The first mesh that an operation of a jaxpr names, cached with it; None where it runs on one device.

    One of several processes, which each compute by themselves, comes before others.
    """
    key = ("mesh", settings.platforms)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = _first_mesh(jaxpr)
    return jaxpr.memo[key]


def _first_mesh(jaxpr: Jaxpr) -> Mesh | None:
    first, abstract = None, None  # one without devices is taken if there is no other
    for eqn in jaxpr.eqns:
        if eqn.primitive.mesh is not None:
            meshes = [eqn.primitive.mesh(**eqn.params)]
        elif eqn.primitive.call:
            meshes = list(map(mesh_of, subjaxprs(eqn)))
        else:
            continue
        for mesh in meshes:
            if isinstance(mesh, MeshOfProcesses):
                return mesh
            if isinstance(mesh, Mesh):
                first = first or mesh
            abstract = abstract or mesh
    return first or abstract


def shardings_of(args: Sequence[Any]) -> tuple[NamedSharding | None, ...]:
    """The shardings of arguments; None for those that are not committed to several devices."""
    return tuple([x._device if type(x) is Array and type(x._device) is NamedSharding else None for x in args])


def run_partitioned(
    jaxpr: Jaxpr, args: Sequence[Any], name: str, mesh: Mesh, donated: tuple[int, ...] = ()
) -> list[Array]:
    """Runs a jaxpr without constants on the devices of a mesh, as one program that is memoized with the jaxpr."""
    return run_program(program_for(jaxpr, args, name, mesh, donated), args, donated)


def program_for(
    jaxpr: Jaxpr, args: Sequence[Any], name: str, mesh: Mesh, donated: tuple[int, ...] = ()
) -> PartitionedExecutable:
    """The program that `run_partitioned` runs."""
    shardings = shardings_of(args)
    key = ("partitioned", mesh, shardings, donated)
    program = jaxpr.memo.get(key)
    if program is None:
        results = shardings_of_types(jaxpr.out_avals, mesh, [None] * len(jaxpr.outvars))
        shardings = arguments_beside_sums(shardings_over(mesh, shardings), results)
        module = lower_partitioned(jaxpr, mesh, shardings, results, donated)
        program = jaxpr.memo[key] = compile_module(module, jaxpr, shardings, results, name)
    return program


def shardings_over(mesh: Mesh, shardings: Sequence[NamedSharding | None]) -> list[NamedSharding | None]:
    """The shardings of arguments that a program on a mesh takes as they are; None for those that it moves.

    A program of several processes takes arrays over its devices of this process.
    """
    if not isinstance(mesh, MeshOfProcesses):
        return list(shardings)
    return [each if each is not None and each.mesh == mesh.line.local_mesh else None for each in shardings]


def shardings_of_types(
    avals: Sequence[ShapedArray], mesh: Mesh, requested: Sequence[NamedSharding | None]
) -> list[NamedSharding | None]:
    """The shardings of results: those requested; else, if all axes of the mesh are Explicit, those of the types.

    With all axes Explicit they are None for arrays without elements, which are not partitioned, and for types on a mesh
    of Auto axes. On other meshes they are None for all types that are neither unreduced nor reduced.
    """
    if not mesh.are_all_axes_explicit:
        return [asked or _sharding_with_sums(aval, mesh) for aval, asked in zip(avals, requested)]
    return [
        asked or (sharding_of_type(aval, mesh) if aval.size and aval.mesh is None else None)
        for aval, asked in zip(avals, requested)
    ]


def arguments_beside_sums(
    arguments: Sequence[NamedSharding | None], results: Sequence[NamedSharding | None]
) -> tuple[NamedSharding | None, ...]:
    """The shardings of arguments; uncommitted arguments are replicated if a result is unreduced.

    The compiler might choose that they are unreduced too, which a compiled program does not report.
    """
    unreduced = [each for each in results if each is not None and each.spec.unreduced]
    if not unreduced:
        return tuple(arguments)
    return tuple([each or NamedSharding(unreduced[0].mesh) for each in arguments])


def sharding_of_type(aval: ShapedArray, mesh: Mesh) -> NamedSharding:
    """The sharding over a mesh of the arrays of a type, which may name other axes of its devices."""
    explicit = aval.explicit
    spec = PartitionSpec() if explicit is None else explicit.spec
    if explicit is not None and explicit.mesh.shape_tuple != mesh.shape_tuple:
        mesh = mesh.along(explicit.mesh)
    return NamedSharding(mesh, spec.update(parts_of(aval)), memory_kind=kind_of_space(aval.memory_space))


def _sharding_with_sums(aval: ShapedArray, mesh: Mesh) -> NamedSharding | None:
    """The sharding of an unreduced or reduced type, which a compiled program does not report; None for other types."""
    explicit = aval.explicit
    is_summed = explicit is not None and (explicit.unreduced or explicit.reduced)
    return sharding_of_type(aval, mesh) if is_summed else None


def mesh_with_devices(mesh: Any, device: Any) -> Any:
    """The mesh of an operation in a program; the one with these axes that arguments are on, or the current one.

    Where neither has these axes, they are of the devices of `set_mesh`, if these are as many.
    """
    if isinstance(mesh, Mesh) or mesh is None:
        return mesh
    for known in (device.mesh if type(device) is NamedSharding else None, settings.mesh):
        if isinstance(known, Mesh) and known.shape_tuple == mesh.shape_tuple:
            return known.along(mesh)
    around = settings.program_mesh
    return mesh if around is None or around.size != mesh.size else around.along(mesh)


def lower_partitioned(
    jaxpr: Jaxpr, mesh: Mesh, in_shardings: Sequence[NamedSharding | None],
    out_shardings: Sequence[NamedSharding | None], donated: Sequence[int] = (),
) -> Module:  # fmt: skip
    """The text of a program on several devices."""
    return lower_jaxpr(jaxpr, mesh.flat[0].platform, MainAttributes(donated, in_shardings, out_shardings), mesh)


def compile_module(
    module: Module, jaxpr: Jaxpr, in_shardings: Sequence[NamedSharding | None],
    out_shardings: Sequence[NamedSharding | None], name: str, options: dict[str, Any] | None = None,
) -> PartitionedExecutable:  # fmt: skip
    """The program of a module that `lower_partitioned` made."""
    mesh: Any = module.mesh
    in_avals = [v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]
    text = module.text(name)
    if isinstance(mesh, MeshOfProcesses):
        in_shardings, out_shardings = on_each_process(mesh, in_shardings), on_each_process(mesh, out_shardings)
    program = compiler.compile_partitioned(
        module, text, in_avals, jaxpr.out_avals, in_shardings, out_shardings, name=name, options=options
    )
    if isinstance(mesh, MeshOfProcesses):
        program = ProgramOfEachProcess(program, in_avals, mesh)
    for inspection in module.inspections:
        inspection.call()
        text = text.replace(inspection.key, "")
    program.register(text)
    return program


def run_program(program: PartitionedExecutable, args: Sequence[Any], donated: Sequence[int] = ()) -> list[Array]:
    """The results of a program; arguments with other shardings than it takes are moved first."""
    buffers = [buffer_at(x, sharding) for x, sharding in zip(args, program.in_shardings)]
    results = list(map(array_at, program.out_avals, program.run(buffers), program.placements))
    forget_donated(args, donated)
    return results


def array_at(aval: ShapedArray, buffer: Any, placement: NamedSharding | Device, layout: Layout | None = None) -> Any:
    """An array of a buffer on several devices, or on the one that a program is constrained to; in NumPy for float0."""
    return result(typed(aval, placement) if isinstance(placement, NamedSharding) else aval, buffer, placement, layout)


def buffer_at(x: Any, sharding: NamedSharding) -> Any:
    """The buffer of an array with this sharding; moved if it has another one."""
    if type(x) is Array:
        return x.buffer if has_sharding(x, sharding) else moved(x, sharding).buffer
    if type(x) is Ref:
        return buffer_at(x.held(), sharding)
    if isinstance(x, Tracer):
        raise x.misused()
    aval = aval_of(x)
    return put_shards(np.array(host_value(x, aval), aval.dtype), aval, sharding)


def has_sharding(x: Array, sharding: NamedSharding) -> bool:
    """Whether an array has this sharding, or an equivalent one, already."""
    current, ndim = x._device, x.aval.ndim
    if current is sharding:
        return True
    if type(current) is not NamedSharding:
        return sharding.devices == (current,) and sharding.memory_kind == kind_of_space(x.aval.memory_space)
    return current == sharding or (
        current.devices == sharding.devices
        and current.memory_kind == sharding.memory_kind
        and current.spec.unreduced == sharding.spec.unreduced
        and current.shard_counts(ndim) == sharding.shard_counts(ndim)
        and (current.part_numbers(ndim) == sharding.part_numbers(ndim)).all()
    )


def is_elsewhere(x: Any, sharding: Any) -> bool:
    """Whether a value is an array that was put somewhere, and not with this sharding."""
    if type(x) is Ref:
        x = x.held()
    if type(x) is not Array or x._device is None or x._device is sharding:
        return False
    return devices_of(x) != sharding.devices if type(x._device) is not NamedSharding else not has_sharding(x, sharding)


def moved(x: Array, sharding: NamedSharding) -> Array:
    """The array with this sharding. If it is on the same devices already, a program on them moves its elements.

    Raises:
      DeviceNotFound: the sharding is of a mesh without devices.
    """
    current, _ = x._device, sharding.mesh.flat
    if has_sharding(x, sharding):  # on the one device of the mesh
        return Array(
            typed(x.aval, sharding), None, copied(x.buffer, raw_sharding(sharding, x.aval.physical.ndim)), sharding
        )
    if type(current) is not NamedSharding or current.devices != sharding.devices:
        return Array(typed(x.aval, sharding), x.host, None, sharding)
    if sharding.memory_kind != "device":
        return _in_other_memory(moved(x, sharding.with_memory_kind("device")), sharding)
    if current.memory_kind != "device":
        current = current.with_memory_kind("device")
        x = _in_other_memory(x, current)
    variable = Var(x.aval)
    key = (x.aval, current, sharding)
    program = _moves.get(key)
    if program is None:
        jaxpr = Jaxpr([], [variable], [variable], [])
        module = lower_partitioned(jaxpr, sharding.mesh, [current], [sharding])
        program = _moves[key] = compile_module(module, jaxpr, [current], [sharding], "moved")
    return run_program(program, [x])[0]


def _in_other_memory(x: Array, sharding: NamedSharding) -> Array:
    """The array with a sharding that names other memory of the same devices, for the same parts."""
    aval = typed(x.aval, sharding)
    return Array(aval, None, copied(x.buffer, raw_sharding(sharding, aval.physical.ndim)), sharding)


_moves: dict[Any, PartitionedExecutable] = {}  # by the type of the array, its sharding and the one that it gets


def forget_moves() -> None:
    """Forgets the programs that move arrays between devices."""
    _moves.clear()
