"""shard_map: a function of the parts that each device has, as a function of whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend.array import Array
from xpr.backend.mesh import AbstractMesh
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec, axes_of
from xpr.compile.argument_shardings import lying
from xpr.config import settings
from xpr.control.devices.replication import differing, parting, settled
from xpr.control.devices.shard_map import Place
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer, context
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import told_apart
from xpr.core.source import describe_function, summarize, text_of
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, argument_names, named_like, signature_of, with_static
from xpr.transforms.stage import stage


class _FromArguments:
    """What `in_specs` is where it is left out."""

    def __repr__(self) -> str:
        return "as the arguments lie"


FROM_ARGUMENTS = _FromArguments()


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    mesh: Mesh | None = None,
    in_specs: Any = FROM_ARGUMENTS,
    out_specs: Any,
    axis_names: Collection[Any] = (),
    check_vma: bool = True,
) -> Any:
    """Runs a function on every device of a mesh, on the parts that the device has of the arguments.

    Collectives such as `lax.psum` communicate along the axes of the mesh. It differentiates: what is the same on
    several devices has the sum of their derivatives.

    Args:
      f: takes and gives pytrees of arrays, of the shapes of the parts. Without it, `shard_map` is a decorator.
      mesh: the devices; the current mesh if not given, see `set_mesh`.
      in_specs: how arguments are cut: a `PartitionSpec`, or a pytree prefix of the tuple of arguments of those. What a
        spec does not cut along an axis of the mesh every device along it gets. Where an argument has None the function
        gets it as it is, plain Python values too. If not given, arguments are cut as they lie: arrays, and arguments of
        `jit` and derivatives that are passed on; it is not known of values that are computed while tracing.
      out_specs: how results are put together of their parts, a pytree prefix of the result. What a spec does not cut
        must be the same on all devices along that axis; one of them is taken.
      axis_names: the axes along which the function tells devices apart, all if none is named. Along the others the
        compiler cuts as it likes, and specs don't name them.
      check_vma: whether to refuse results that may differ between devices which, by `out_specs`, have the same.
    Raises:
      TypeError: the mesh is none.
      ValueError: an axis can't be cut into equal parts, a spec names no such axis, a result may differ where it must
        not, or it is not known how an argument lies; the message names the argument or the result, and the spec.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> from xpr.sharding import PartitionSpec as P
    >>> mesh = xpr.make_mesh((1,), ("x",))
    >>> xpr.shard_map(lambda x: lax.psum(x.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())(jnp.arange(4.0))
    Array(6., dtype=float32)
    """
    if f is None:
        return lambda fun: shard_map(
            fun, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=axis_names, check_vma=check_vma
        )
    if not callable(f):
        raise TypeError(f"shard_map maps functions, and got {f!r}.")
    fun: Callable[..., Any] = f
    if mesh is not None and not isinstance(mesh, AbstractMesh):
        raise TypeError(f"shard_map: mesh is to be a Mesh, which make_mesh makes, and is {mesh!r}.")
    if mesh is None:
        return _over_the_current_mesh(
            fun, in_specs=in_specs, out_specs=out_specs, axis_names=axis_names, check_vma=check_vma
        )
    place = Place(mesh, _manual_axes(mesh, axis_names), check_vma)
    known: dict[Any, tuple[ClosedJaxpr, Any, list[PartitionSpec]]] = {}
    known_for: dict[Any, Callable[..., Any]] = {}  # by the plain values among the arguments

    def mapped(*args: Any, **by_name: Any) -> Any:
        if by_name:
            raise TypeError(
                f"shard_map: {describe_function(fun)} was given {', '.join(map(repr, by_name))} by name, and arguments "
                "have their specs by position. Pass them so, or bind them before: shard_map(partial(f, y=y), ...)."
            )
        static = _static(in_specs, args)
        if not static:
            return of_arrays(args)
        chosen = [i for i in range(len(args)) if i not in static]
        key: Any = tuple([(i, told_apart(args[i])) for i in static])
        try:
            found = known_for.get(key)
        except TypeError:  # one can't be hashed
            found = key = None
        if found is None:
            specs = in_specs if in_specs is None else tuple([in_specs[i] for i in chosen])
            found = shard_map(
                with_static(fun, static, args), mesh=mesh, in_specs=specs, out_specs=out_specs, axis_names=axis_names,
                check_vma=check_vma,
            )  # fmt: skip
            if key is not None:
                known_for[key] = found
        return found(*[args[i] for i in chosen])

    def of_arrays(args: tuple[Any, ...]) -> Any:
        leaves, structure = tree.flatten(args)
        if in_specs is FROM_ARGUMENTS:
            specs = _as_they_lie(fun, args, leaves, place)
        else:
            specs = _flat_specs(fun, "in_specs", in_specs, structure, place)
        avals = list(map(aval_of, leaves))
        for i, (aval, spec) in enumerate(zip(avals, specs)):
            if len(spec) > aval.ndim or any(n % count for n, count in zip(aval.shape, _cuts(place, spec, aval.ndim))):
                name = f"argument {argument_names(fun, args, {})[i]} of {describe_function(fun)}"
                NamedSharding(mesh, spec).check(aval.shape, "shard_map", name)
        parts = list(map(place.part, avals, specs))
        key = (settings.trace_key, context.axes, structure, *parts, *specs)
        staged = known.get(key)
        if staged is None:
            flat = FlatFunction(fun, tree.structure((args, {})))
            with place.in_scope(checked=place.check):
                closed = stage(flat, parts, signature_of("mapped with shard_map", fun, args, {}))
            if place.check:
                _check_together(fun, closed, list(map(place.cut, specs)))
                closed = closed.replace(jaxpr=settled(closed.jaxpr, list(map(place.cut, specs)), place.sizes))
            outs = _flat_specs(fun, "out_specs", out_specs, flat.out_tree, place)
            staged = closed, flat.out_tree, outs
            _check_results(fun, staged, specs, place)
            if not any(isinstance(c, Tracer) for c in closed.consts):
                known[key] = staged
        closed, out_tree, outs = staged
        return tree.unflatten(out_tree, place.bind(closed, leaves, specs, outs))

    return named_like(boundary(mapped), fun)


def _over_the_current_mesh(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: dict[Mesh, Callable[..., Any]] = {}

    def mapped(*args: Any, **by_name: Any) -> Any:
        mesh = settings.mesh
        if mesh is None:
            raise ValueError(
                f"shard_map: {describe_function(fun)} was given no mesh, and none is current. Say shard_map(..., "
                "mesh=mesh), or call it in `with xpr.set_mesh(mesh)`."
            )
        if mesh not in made:
            made[mesh] = shard_map(fun, mesh=mesh, **options)
        return made[mesh](*args, **by_name)

    return named_like(boundary(mapped), fun)


def _static(in_specs: Any, args: tuple[Any, ...]) -> list[int]:
    """The positions of arguments that have no spec and hold something else than arrays."""
    if in_specs is None:
        unspecified: Any = range(len(args))
    elif isinstance(in_specs, (tuple, list)) and not isinstance(in_specs, PartitionSpec) and len(in_specs) == len(args):
        unspecified = [i for i, spec in enumerate(in_specs) if spec is None]
    else:
        return []
    return [i for i in unspecified if not all(isinstance(x, _ARRAYS) for x in tree.leaves(args[i]))]


_ARRAYS = (Array, Tracer, np.ndarray, np.generic)


def _as_they_lie(
    fun: Callable[..., Any], args: tuple[Any, ...], leaves: Sequence[Any], place: Place
) -> list[PartitionSpec]:
    """How arguments lie along the axes on which the function tells devices apart.

    Raises:
      ValueError: one of them is computed while tracing, or lies on another mesh.
    """
    found = []
    for i, x in enumerate(leaves):
        is_known, sharding = lying(x)
        if sharding is None or sharding.is_fully_replicated:
            sharding = NamedSharding(place.mesh, PartitionSpec())
        if not is_known or sharding.mesh != place.mesh:
            why = f"lies as {sharding}" if is_known else "is traced, so that it is not known how it lies"
            raise ValueError(
                f"shard_map: in_specs was left out, and argument {argument_names(fun, args, {})[i]} of "
                f"{describe_function(fun)} {why}. Say how arguments are to be cut over {place.mesh!r}: "
                "shard_map(..., in_specs=...), with a PartitionSpec for each."
            )
        entries = [tuple([name for name in axes_of(entry) if name in place.axes]) or None for entry in sharding.spec]
        found.append(PartitionSpec(*entries))
    return found


def _manual_axes(mesh: Mesh, axis_names: Collection[Any]) -> tuple[Any, ...]:
    """The axes in the order of the mesh."""
    unknown = [name for name in axis_names if name not in mesh.axis_names]
    if unknown:
        raise ValueError(f"shard_map: axis_names has {unknown[0]!r}, and the axes of the mesh are {mesh!r}.")
    return tuple(name for name in mesh.axis_names if not axis_names or name in axis_names)


def _cuts(place: Place, spec: PartitionSpec, ndim: int) -> tuple[int, ...]:
    return NamedSharding(place.mesh, spec).cuts(ndim)


def _flat_specs(fun: Callable[..., Any], name: str, specs: Any, structure: Any, place: Place) -> list[PartitionSpec]:
    """The spec of each leaf."""
    what = f"shard_map: {name} of {describe_function(fun)}"
    if isinstance(specs, PartitionSpec):
        found: Sequence[Any] = [specs] * structure.num_leaves
    else:
        found = tree.flatten_prefix(specs, structure, f"shard_map {name}", is_leaf=_is_spec)
    if name == "in_specs":
        found = [PartitionSpec() if spec is None else spec for spec in found]
    for spec in found:
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"{what} holds {spec!r}, which is no PartitionSpec; P() cuts nothing.")
        names = [axis for entry in spec for axis in axes_of(entry)]
        for axis in names:
            if axis not in place.axes:
                raise ValueError(
                    f"{what} has {spec!r}, and {axis!r} is none of the axes {place.axes} along which the "
                    f"function tells devices apart, of {place.mesh!r}."
                )
        if len(set(names)) != len(names):
            raise ValueError(f"{what} has {spec!r}, which names an axis twice: one can cut one axis of an array only.")
    return list(found)


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def _check_together(fun: Callable[..., Any], closed: ClosedJaxpr, given: Sequence[frozenset[Any]]) -> None:
    """Raises ValueError where devices may wait for others that never come, which would end the process."""
    found = parting(closed.jaxpr, given)
    if found is None:
        return
    eqn, name = found
    raise ValueError(
        f"shard_map: in {describe_function(fun)} a {eqn.primitive} communicates along {name!r}, and what it does may "
        f"differ between the devices along {name!r}, of which some would then wait for others forever.\n"
        f"  {eqn.primitive} at {summarize(eqn.source)}: {text_of(eqn.source)}\n"
        f"Decide by a value that they have in common (lax.pmax, lax.psum, lax.all_gather of it); or say "
        "check_vma=False, if it is the same for reasons that can't be seen."
    )


def _check_results(fun: Callable[..., Any], staged: Any, in_specs: Sequence[PartitionSpec], place: Place) -> None:
    """Raises ValueError where a result has too few axes for its spec, or may differ where it must not."""
    closed, out_tree, out_specs = staged
    blank = tree.unflatten(out_tree, range(out_tree.num_leaves))
    names = [f"result{tree.keystr(path)} of {describe_function(fun)}" for path, _ in tree.leaves_with_path(blank)]
    for name, aval, spec in zip(names, closed.out_avals, out_specs):
        if len(spec) > aval.ndim:
            raise ValueError(
                f"shard_map: {name} has type {aval.str_short()}, with fewer axes than {spec!r} has entries."
            )
    if not place.check:
        return
    found_for = differing(closed.jaxpr, list(map(place.cut, in_specs)))
    for name, found, spec in zip(names, found_for, out_specs):
        wrong = [axis for axis in place.uncut(spec) if axis in found]
        if wrong:
            raise ValueError(
                f"shard_map: {name} may differ between the devices along {wrong[0]!r}, and by {spec!r} of out_specs it "
                f"is the same on all of them. Name {wrong[0]!r} in the spec, or reduce over it (lax.psum, lax.pmean, "
                "lax.all_gather); or say check_vma=False, if it is the same for reasons that can't be seen."
            )
