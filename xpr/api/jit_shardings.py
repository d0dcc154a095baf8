"""The shardings that `jit` is asked for, of arguments and results, and those of its program on several devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.api.make_jaxpr import ShapeDtypeStruct
from xpr.api.options import JitOptions
from xpr.api.stages import ProgramShardings, Traced
from xpr.api.user_values import UserValues
from xpr.backend.array import Array
from xpr.backend.devices import check_device
from xpr.backend.mesh import AbstractMesh, Mesh, MeshOfProcesses
from xpr.backend.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding, typed
from xpr.compile.partition import (
    arguments_beside_sums,
    mesh_of,
    mesh_with_devices,
    shardings_of,
    shardings_of_types,
    shardings_over,
)
from xpr.config import settings
from xpr.control.devices.sharding_constraint import flatten_shardings
from xpr.core.avals import ShapedArray
from xpr.core.memory import space_of_kind
from xpr.core.refs import AbstractRef
from xpr.core.source import describe_function
from xpr.primitives.device_put import in_memory
from xpr.transforms.calls import Call
from xpr.transforms.flat import FlatFunction, argument_names, result_paths

Requested = list[NamedSharding | None]  # for each leaf its sharding, or None where the compiler chooses


# -- What `jit` is asked for


def check_placement(device: Any, backend: str | None, **shardings: Any) -> None:
    """Raises an error where it can't be told where to run.

    Raises:
      TypeError: `device` is no device, and no name of a platform.
      ValueError: devices are named in two ways, or a sharding leaves an axis to the compiler.
    """
    if device is not None and not isinstance(device, str):
        check_device("jit: device", device)
    named = [f"{name}={x!r}" for name, x in (("device", device), ("backend", backend)) if x is not None]
    if len(named) > 1:
        raise ValueError(f"One can't specify both a device and a backend for jit: {', '.join(named)}. Leave one out.")
    for name, each in shardings.items():
        leaves = tree.leaves(each, is_leaf=lambda x: isinstance(x, PartitionSpec))
        if named and leaves:
            raise ValueError(
                f"jit: If backend or device is specified on jit, then {name} should not be specified. {named[0]} says "
                f"where to run, and so does {name}={each!r}. Leave one of them out: {name} may be "
                "xpr.sharding.SingleDeviceSharding(device)."
            )
        for leaf in leaves:
            if PartitionSpec.UNCONSTRAINED in getattr(leaf, "spec", leaf if isinstance(leaf, PartitionSpec) else ()):
                raise ValueError(
                    f"jit: Unconstrained dims are not allowed in {name}, which says how a whole array is distributed, "
                    f"and {leaf!r} has one. Leave the array out, by None; or use lax.with_sharding_constraint inside "
                    "of the function."
                )


def single_device(*shardings: Any) -> Any:
    """The one device that shardings name, if they name one and no mesh.

    Raises:
      ValueError: they name something else, too.
    """
    unique = dict.fromkeys(tree.leaves(shardings, is_leaf=lambda x: isinstance(x, PartitionSpec)))
    if not any(isinstance(each, SingleDeviceSharding) for each in unique):
        return None
    if not all(isinstance(each, SingleDeviceSharding) for each in unique) or len({s.device for s in unique}) > 1:
        raise ValueError(
            f"jit: in_shardings and out_shardings hold {', '.join(map(repr, unique))}. A program runs on one device, "
            "or on those of one mesh: give shardings that name the same device, or NamedShardings over one mesh, of "
            "which P() puts a whole array on each."
        )
    return next(iter(unique)).device


def names_memory(shardings: Any) -> bool:
    """Whether a sharding of a pytree names another memory than the device's."""
    kinds = {each.memory_kind for each in tree.leaves(shardings) if isinstance(each, Sharding)}
    return not kinds <= {None, "device"}


# -- Of one signature


def requested_shardings(fun: Callable[..., Any], options: JitOptions, traced: Traced) -> tuple[Requested, Requested]:
    """The sharding of each argument and result by `in_shardings` and `out_shardings`.

    Raises:
      ValueError: a sharding doesn't fit an argument or a result.
    """
    args_tree, jaxpr, what = traced.in_tree, traced.jaxpr, f"jit of {describe_function(fun)}"
    ins: Requested = [None] * len(jaxpr.in_avals)
    outs: Requested = [None] * len(jaxpr.out_avals)
    if options.in_shardings is not None:
        args, kwargs = tree.unflatten(args_tree, range(args_tree.num_leaves))
        structure = tree.structure(args)
        ins[: structure.num_leaves] = flatten_shardings(what, options.in_shardings, structure, "in_shardings")
        names = argument_names(fun, args, kwargs)
        _check_divisible(fun, [f"argument {name}" for name in names], ins, jaxpr.in_avals)
    if options.out_shardings is not None:
        outs = flatten_shardings(what, options.out_shardings, traced.out_tree, "out_shardings")
        names = [f"result{path}" for path in result_paths(traced.out_tree)]
        _check_divisible(fun, names, outs, jaxpr.out_avals)
    return ins, outs


def _check_divisible(
    fun: Callable[..., Any], names: Sequence[str], shardings: Requested, avals: Sequence[ShapedArray]
) -> None:
    """Raises ValueError where an array can't be partitioned as is asked for."""
    for name, sharding, aval in zip(names, shardings, avals):
        if sharding is not None:
            sharding.check(aval.shape, "jit", f"{name} of {describe_function(fun)}")


def types_with_requested(fun: Callable[..., Any], options: JitOptions, call: Call) -> list[Any]:
    """The types of arguments that have the requested shardings.

    Raises:
      ValueError: an argument is passed by name, of which `in_shardings` say nothing.
    """
    (args, kwargs), what = call.dynamic, f"jit of {describe_function(fun)}"
    if kwargs:
        raise ValueError(
            f"{what}: in_shardings are those of the positional arguments, and {', '.join(sorted(kwargs))} was passed "
            "by name. Pass it by position, or put it on its devices before, by xpr.device_put, and leave in_shardings "
            "out."
        )
    requested = flatten_shardings(what, options.in_shardings, tree.structure(args), "in_shardings")
    requested += [None] * (len(call.avals) - len(requested))
    return [a if s is None or type(a) is AbstractRef else typed(a, s) for a, s in zip(call.avals, requested)]


def moving_results(flat: FlatFunction, shardings: Any) -> Callable[..., list[Any]]:
    """The function with its results in the memories that a pytree prefix of shardings names."""

    def run(*leaves: Any) -> list[Any]:
        results = flat(*leaves)
        targets = tree.flatten_prefix(shardings, flat.out_tree, "out_shardings", lambda x: x is None, "jit")
        return [
            in_memory(x, space_of_kind(target.memory_kind)) if isinstance(target, Sharding) else x
            for x, target in zip(results, targets)
        ]

    return run


# -- Of the program of one call


def program_shardings(
    fun: Callable[..., Any], options: JitOptions, traced: Traced, device: Any, leaves: Sequence[Any]
) -> ProgramShardings | None:
    """The shardings of a call on several devices; None if it runs on one.

    Raises:
      ValueError: a sharding doesn't fit an argument or a result.
    """
    program, refs, mesh = traced.program, traced.state, mesh_of(traced.jaxpr.jaxpr)
    if options.device is not None:
        _check_is_alone(fun, options.device, mesh)
        if mesh is None:
            return None
    requested_in, requested_out = (
        [_with_devices(each, device) for each in requested] for requested in requested_shardings(fun, options, traced)
    )
    if type(refs) is UserValues:
        leaves = refs.inputs(leaves, ())
        requested_in, requested_out = refs.spread(requested_in, requested_out)
    elif refs is not None:
        leaves = [*leaves, *(x.held() for x in refs.closed_over)]
        requested_in += [None] * len(refs.closed_over)
    current = [x.sharding if type(x) is ShapeDtypeStruct else s for x, s in zip(leaves, shardings_of(leaves))]
    if refs is not None:
        requested_out += [current[i] for i in refs.written]
    constants: Sequence[NamedSharding | None] = shardings_of(program.consts)
    if isinstance(mesh, MeshOfProcesses):
        _check_are_of_process(fun, [*requested_in, *requested_out], mesh)
        constants, current = shardings_over(mesh, constants), shardings_over(mesh, current)
    else:
        shardings = [*requested_in, *requested_out, *constants, *current]
        meshes = [each.mesh for each in shardings if type(each) is NamedSharding]
        mesh = _with_devices_if_any([*meshes, mesh_with_devices(mesh, device)]) or _default_mesh(device)
    if mesh is None:
        return None
    requested_out = shardings_of_types(program.out_avals, mesh, requested_out)
    arguments = [_along(mesh, requested or actual) for requested, actual in zip(requested_in, current)]
    return ProgramShardings(mesh, arguments_beside_sums([*constants, *arguments], requested_out), requested_out)


def device_of_arguments(leaves: Sequence[Any]) -> Any:
    """The device of the first argument, array or `ShapeDtypeStruct`, that was put on a single one; None if none was."""
    for x in leaves:
        if (type(x) is Array and x.committed) or type(x) is ShapeDtypeStruct:
            if type(x.sharding) is SingleDeviceSharding:
                return x.sharding.device
    return None


def _with_devices_if_any(meshes: Sequence[AbstractMesh | None]) -> Any:
    """The first of some meshes that has devices; if none has, the first one, or None."""
    return next((each for each in meshes if isinstance(each, Mesh)), None) or next(filter(None, meshes), None)


def _along(mesh: AbstractMesh, sharding: NamedSharding | None) -> NamedSharding | None:
    """The sharding of an argument; over an abstract mesh of the program's size, on the devices of the program."""
    if type(sharding) is not NamedSharding or isinstance(sharding.mesh, Mesh) or not isinstance(mesh, Mesh):
        return sharding
    return sharding.update(mesh=mesh.along(sharding.mesh)) if sharding.mesh.size == mesh.size else sharding


def _check_is_alone(fun: Callable[..., Any], device: Any, mesh: Any) -> None:
    """Raises a ValueError if a function is to run on one device, and an operation in it on others."""
    if isinstance(mesh, Mesh) and mesh.flat != (device,):
        ids = [each.id for each in mesh.flat]
        raise ValueError(
            f"Received incompatible devices for jitted computation: jit was told that {describe_function(fun)} is to "
            f"run on {device}, with device ids [{device.id}], and there is a sharding_constraint inside jit with "
            f"device ids {ids}, those of {mesh.text}. Leave the device out, or the constraint."
        )


def _check_are_of_process(fun: Callable[..., Any], requested: Requested, mesh: MeshOfProcesses) -> None:
    """Raises ValueError where a requested sharding is over others than this process's devices of a pmap."""
    others = [each for each in requested if each is not None and each.mesh != mesh.line.local_mesh]
    if others:
        raise ValueError(
            f"jit: {describe_function(fun)} calls a pmap over devices of several processes, {mesh.line.text}, "
            f"so that its arguments and results are those of each process, on its own devices. {others[0]!r} is "
            f"over others: leave in_shardings and out_shardings out, or use some over {mesh.line.local_mesh.text}."
        )


def _with_devices(sharding: NamedSharding | None, device: Any) -> NamedSharding | None:
    """A requested sharding; if its mesh is abstract, over the devices of the arguments or of `set_mesh`."""
    return sharding if sharding is None else sharding.update(mesh=mesh_with_devices(sharding.mesh, device))


def _default_mesh(device: Any) -> Any:
    """The mesh of a program whose arguments are committed to no device; ahead of calls it may be abstract."""
    current, around = settings.mesh, settings.program_mesh
    if device is None and around is None and type(current) is AbstractMesh and not current.manual_axes:
        return current
    return around if device is None or type(device) is NamedSharding else None
