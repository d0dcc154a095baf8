"""shard_map: runs a function on every device of a mesh, on that device's parts of whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from xpr import tree
from xpr.api.current_mesh import with_mesh
from xpr.backend.array import Array
from xpr.backend.mesh import AbstractMesh
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec, axes_of
from xpr.compile.argument_shardings import known_sharding
from xpr.config import settings
from xpr.control.devices.device_values import CastsTrace, DeviceTrace, staged_by, value_outside
from xpr.control.devices.replication import find_divergence, resolve_of_copies, varying_axes
from xpr.control.devices.shard_map import ManualMesh
from xpr.control.groups import mask, split_list
from xpr.control.refs import check_aliases, on_values
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.hi_types import HiPspec
from xpr.core.interpreter import Tracer, context, current
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import cache_key
from xpr.core.ref_views import refuse_split_views
from xpr.core.refs import Ref
from xpr.core.source import check_function, describe_function, line_with_text
from xpr.core.specs import check_spec
from xpr.errors import RefError
from xpr.passes.discharge import uses_of_refs
from xpr.primitives.sharding_constraint import constrain
from xpr.primitives.sharding_rules import parts_of
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import (
    FlatFunction,
    argument_names,
    named_like,
    result_paths,
    signature_of,
    with_static,
)
from xpr.transforms.refs import read, write
from xpr.transforms.stage import Signature, StageTrace, stage


def _trace_of(
    leaves: Sequence[Any], specs: Sequence[PartitionSpec], manual: ManualMesh, signature: Signature
) -> StageTrace:
    """What stages the function: where nothing around is staged, it may ask for values."""
    if staged_by() or Ref in map(type, leaves):
        return StageTrace(context.trace, signature)
    values = list(map(value_outside, leaves))
    if any(x is None for x in values):
        return StageTrace(context.trace, signature)
    return DeviceTrace(context.trace, signature, manual, values, specs)


def _cast_by_the_user(flat: FlatFunction) -> Callable[..., list[Any]]:
    """The function, whose operands must vary alike unless they are cast where they don't."""

    def run(*leaves: Any) -> list[Any]:
        with current(CastsTrace(context.trace)):
            return flat(*leaves)

    return flat if settings.auto_pcast else run


class _FromArguments:
    """The default of `in_specs`."""

    def __repr__(self) -> str:
        return "the shardings of the arguments"


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
    """Runs a function on every device of a mesh, each with the parts of the arguments that it holds.

    Collectives such as `lax.psum` communicate along the axes of the mesh. It is differentiable: the cotangent of a
    value that is replicated over devices is the sum of theirs.

    Args:
      f: a function of pytrees of arrays, with the shapes of the parts; without it `shard_map` is a decorator.
      mesh: the mesh; None for the current one, see `set_mesh`.
      in_specs: the sharding of arguments: a `PartitionSpec`, or a pytree prefix of the tuple of arguments of those.
        Along axes of the mesh that a spec does not name, all devices get the same part. Where an argument has None the
        function gets it as it is, plain Python values too. By default arguments are sharded as they are: arrays, and
        arguments of `jit` and derivatives that are passed on; it is not known of values that are computed while
        tracing.
      out_specs: the sharding of results, a pytree prefix of the result. Along axes of the mesh that a spec does not
        name, results must be the same on all devices; one of them is taken.
      axis_names: the manual axes, all if none is named. Along the others the compiler chooses shardings, and specs
        don't name them.
      check_vma: whether to refuse results that may vary over axes that `out_specs` don't name.

    Returns:
      A function of the same arguments and results as whole arrays.

    Raises:
      TypeError: `mesh` is not a mesh.
      ValueError: an axis can't be split into equal shards, a spec names no such axis, a result may vary where it must
        not, or the sharding of an argument is not known; the message names the argument or the result, and the spec.

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
    check_function(f, "shard_map")
    fun: Callable[..., Any] = f
    if mesh is not None and not isinstance(mesh, AbstractMesh):
        raise TypeError(f"shard_map: mesh is to be a Mesh, which make_mesh makes, and is {mesh!r}.")
    if mesh is None:
        return _over_the_current_mesh(
            fun, in_specs=in_specs, out_specs=out_specs, axis_names=axis_names, check_vma=check_vma
        )
    mapped = _Mapped(fun, in_specs, out_specs, ManualMesh(mesh, _manual_axes(mesh, axis_names), check_vma))
    return named_like(boundary(mapped.call), fun)


class _Staged(NamedTuple):
    """A function staged for arguments of some types.

    Attributes:
      closed: its jaxpr, of shards.
      out_tree: the structure of its results.
      out_specs: those of its results, and of the values that it writes to refs.
      written: which leaves are refs that it writes.
    """

    closed: ClosedJaxpr
    out_tree: Any
    out_specs: list[PartitionSpec]
    written: Sequence[bool]


class _Mapped:
    """A function on every device of a mesh: the calls of what `shard_map` returns."""

    __slots__ = ("by_static", "fun", "in_specs", "manual", "out_specs", "staged")
    __closes_over__ = ("fun",)

    def __init__(self, fun: Callable[..., Any], in_specs: Any, out_specs: Any, manual: ManualMesh):
        self.fun, self.in_specs, self.out_specs, self.manual = fun, in_specs, out_specs, manual
        self.staged: dict[Any, _Staged] = {}  # by types and specs
        self.by_static: dict[Any, Callable[..., Any]] = {}  # by the plain values among the arguments

    def __copy__(self) -> _Mapped:
        """A copy that knows no calls, whose function will be replaced, see control/closures.py."""
        return _Mapped(self.fun, self.in_specs, self.out_specs, self.manual)

    def call(self, *args: Any, **by_name: Any) -> Any:
        if by_name:
            raise TypeError(
                f"shard_map: {describe_function(self.fun)} was given {', '.join(map(repr, by_name))} by name, and "
                "arguments have their specs by position. Pass them so, or bind them before: "
                "shard_map(partial(f, y=y), ...)."
            )
        _check_mesh_inside(self.manual.mesh)
        static = _static(self.in_specs, args)
        if not static:
            return self.call_on_arrays(*args)
        return self.with_static(static, args)(*[x for i, x in enumerate(args) if i not in static])

    def with_static(self, static: Sequence[int], args: tuple[Any, ...]) -> Callable[..., Any]:
        """The function of the other arguments, kept for these values of the static ones if they can be hashed."""
        key: Any = tuple([(i, cache_key(args[i])) for i in static])
        try:
            known = self.by_static.get(key)
        except Exception:  # whatever a value's __hash__ raises
            known = key = None
        if known is not None:
            return known
        specs = self.in_specs
        if specs is not None:
            specs = tuple([spec for i, spec in enumerate(specs) if i not in static])
        of_arrays = _Mapped(with_static(self.fun, static, args), specs, self.out_specs, self.manual).call_on_arrays
        if key is not None:
            self.by_static[key] = of_arrays
        return of_arrays

    def call_on_arrays(self, *args: Any) -> Any:
        """The results for arguments that are pytrees of arrays and refs."""
        fun, manual = self.fun, self.manual
        leaves, structure = tree.flatten(args)
        if self.in_specs is FROM_ARGUMENTS:
            specs = _current_specs(fun, args, leaves, manual)
        else:
            specs = _flat_specs(fun, "in_specs", self.in_specs, structure, manual)
        has_refs = Ref in map(type, leaves)
        if not has_refs and set(manual.axes) & set(manual.mesh.explicit_axes):
            leaves = [_with_sums(x, spec, manual) for x, spec in zip(leaves, specs)]
        avals = list(map(aval_of, leaves))
        _check_arguments(fun, args, avals, specs, manual)
        shards = list(map(manual.local_aval, avals, specs))
        key = (settings.trace_key, context.axes, structure, *shards, *specs)
        staged = self.staged.get(key)
        if staged is None:
            trace = _trace_of(leaves, specs, manual, signature_of("mapped with shard_map", fun, args, {}))
            staged = self.stage(args, shards, specs, trace)
            depends_on_values = isinstance(trace, DeviceTrace) and trace.was_asked
            if not depends_on_values and not any(isinstance(c, Tracer) for c in staged.closed.consts):
                self.staged[key] = staged
        if not has_refs:
            return tree.unflatten(staged.out_tree, manual.bind(staged.closed, leaves, specs, staged.out_specs))
        check_aliases("shard_map", fun, lambda: argument_names(fun, args, {}), leaves, ())
        refuse_split_views("shard_map", args, [any(part is not None for part in spec) for spec in specs])
        values = [read(x) if type(x) is Ref else x for x in leaves]
        results, last = split_list(
            manual.bind(staged.closed, values, specs, staged.out_specs), staged.out_tree.num_leaves
        )
        for ref, value in zip(mask(leaves, staged.written), last):
            write(ref, value)
        return tree.unflatten(staged.out_tree, results)

    def stage(
        self, args: Sequence[Any], shards: Sequence[ShapedArray], specs: Sequence[PartitionSpec], trace: StageTrace
    ) -> _Staged:
        """The function staged for arguments of whose leaves each device has shards of these types.

        Raises:
          ValueError: devices might wait for each other forever, or a result doesn't fit its spec.
        """
        fun, manual = self.fun, self.manual
        flat = FlatFunction(fun, tree.structure((args, {})))
        with manual.in_scope(checked=manual.check), with_mesh(manual.inner):
            closed = stage(_cast_by_the_user(flat) if manual.check else flat, shards, trace=trace)
        _refuse_partitioned_constants(fun, closed)
        _refuse_mutable_values(fun, closed)
        written: Sequence[bool] = ()
        if uses_of_refs(closed.jaxpr).any:
            closed, written = on_values("shard_map", fun, closed)
        if manual.check:
            varying = list(map(manual.varying_axes, specs))
            _check_divergence(fun, closed, varying)
            closed = closed.replace(jaxpr=resolve_of_copies(closed.jaxpr, varying, manual.sizes))
        out_specs = _flat_specs(fun, "out_specs", self.out_specs, flat.out_tree, manual)
        staged = _Staged(closed, flat.out_tree, [*out_specs, *mask(specs, written)], written)
        refs = mask(argument_names(fun, args, {}), written) if any(written) else []
        _check_results(fun, staged, specs, manual, refs)
        return staged


def _check_arguments(
    fun: Callable[..., Any], args: Sequence[Any], avals: Sequence[ShapedArray], specs: Sequence[PartitionSpec],
    manual: ManualMesh,
) -> None:  # fmt: skip
    """Raises ValueError where a spec has more elements than an argument has axes, or doesn't divide them."""
    for i, (aval, spec) in enumerate(zip(avals, specs)):
        if aval.is_high:
            continue
        sharding = NamedSharding(manual.mesh, spec)
        fits = len(spec) <= aval.ndim
        if fits and not any(n % count for n, count in zip(aval.shape, sharding.shard_counts(aval.ndim))):
            continue
        name = f"argument {argument_names(fun, args, {})[i]} of {describe_function(fun)}"
        if fits:
            sharding.check(aval.shape, "shard_map", name)
            continue
        raise ValueError(
            f"shard_map applied to the function {getattr(fun, '__name__', 'f')!r}: {name} has type "
            f"{aval.str_short()}, which has rank {aval.ndim}, and its spec is {spec!r}, which has length {len(spec)}. "
            "A spec has an element for each axis at most; consider using an in_specs entry of `P()`, which "
            "partitions no axis."
        )


def smap(
    f: Callable[..., Any] | None = None, /, *, in_axes: Any = FROM_ARGUMENTS, out_axes: Any, axis_name: Any
) -> Any:
    """Runs a function on every device along one axis of the current mesh, as `shard_map` does along several.

    Args:
      f: a function of pytrees of arrays, with the shapes of the parts; without it `smap` is a decorator.
      in_axes: the axis of arguments that is sharded: an integer, None for none, or a pytree prefix of the tuple of
        arguments of those. By default arguments are sharded as their types say, along an Explicit axis.
      out_axes: the axis along which the parts of results are joined, a pytree prefix of the result; None where they are
        the same on all devices.
      axis_name: the name of an axis of the mesh.

    Returns:
      A function of the same arguments and results as whole arrays.

    Raises:
      TypeError: the axes are none.
      ValueError: no mesh is current; or as `shard_map` does.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> with xpr.set_mesh(xpr.make_mesh((1,), ("x",))):
    ...     xpr.smap(lambda x: lax.psum(x.sum(), "x"), in_axes=0, out_axes=None, axis_name="x")(jnp.arange(4.0))
    Array(6., dtype=float32)
    """
    if f is None:
        return lambda fun: smap(fun, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    check_function(f, "smap")
    if isinstance(axis_name, (list, tuple, set, frozenset)):
        raise TypeError(f"smap: axis_name is the name of one axis, and is {axis_name!r}. Nest it, or use shard_map.")
    if in_axes is not FROM_ARGUMENTS and not isinstance(in_axes, (int, tuple, type(None))):
        raise TypeError(
            f"smap: in_axes is an integer, None, or a tuple of those for each argument, and is {in_axes!r}."
        )
    if in_axes is FROM_ARGUMENTS and settings.mesh is not None and axis_name not in settings.mesh.explicit_axes:
        raise TypeError(
            f"smap: in_axes was not specified, and {axis_name!r} is no Explicit axis of {settings.mesh.text}, along "
            "which the types of arguments would say it. Give in_axes."
        )
    in_specs = in_axes if in_axes is FROM_ARGUMENTS else _specs_of_axes("in_axes", in_axes, axis_name)
    out_specs = _specs_of_axes("out_axes", out_axes, axis_name)
    return shard_map(f, in_specs=in_specs, out_specs=out_specs, axis_names={axis_name})


def _specs_of_axes(name: str, axes: Any, axis_name: Any) -> Any:
    def spec(axis: Any) -> PartitionSpec:
        if axis is not None and type(axis) is not int:
            raise TypeError(f"smap: {name} holds {axis!r}, and each is to be an integer or None.")
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)

    return tree.map(spec, axes, is_leaf=lambda axis: axis is None)


def _over_meshes(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function mapped over the mesh that its first argument is."""
    mapped_on: dict[Mesh, Callable[..., Any]] = {}

    def mapped(mesh: Mesh, *args: Any, **by_name: Any) -> Any:
        if mesh not in mapped_on:
            mapped_on[mesh] = shard_map(fun, mesh=mesh, **options)
        return mapped_on[mesh](*args, **by_name)

    return mapped


def _over_the_current_mesh(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    mapped_over = _over_meshes(fun, **options)

    def mapped(*args: Any, **by_name: Any) -> Any:
        mesh = settings.mesh
        if mesh is None:
            raise ValueError(
                f"shard_map: {describe_function(fun)} was given no mesh, and none is current. The context mesh cannot "
                "be empty then. Say shard_map(..., mesh=mesh), or call it in `with xpr.set_mesh(mesh)`."
            )
        return mapped_over(mesh, *args, **by_name)

    return named_like(boundary(mapped), fun)


def _static(in_specs: Any, args: tuple[Any, ...]) -> list[int]:
    """The positions of arguments that have no spec and hold values other than arrays."""
    if in_specs is None:
        unspecified: Any = range(len(args))
    elif isinstance(in_specs, (tuple, list)) and not isinstance(in_specs, PartitionSpec) and len(in_specs) == len(args):
        unspecified = [
            i for i, each in enumerate(in_specs) if all(x is None for x in tree.leaves(each, is_leaf=_is_spec))
        ]
    else:
        return []
    return [i for i in unspecified if not all(isinstance(x, _ARRAYS) for x in tree.leaves(args[i]))]


_ARRAYS = (Array, Tracer, np.ndarray, np.generic)


def _current_specs(
    fun: Callable[..., Any], args: tuple[Any, ...], leaves: Sequence[Any], manual: ManualMesh
) -> list[PartitionSpec]:
    """The shardings of arguments along the manual axes of the mesh.

    Raises:
      ValueError: one of them is computed while tracing, or is on another mesh.
    """
    specs = []
    for i, x in enumerate(leaves):
        if set(manual.axes) <= set(manual.mesh.explicit_axes):  # types say it
            specs.append(_manual_spec(aval_of(x), manual))
            continue
        is_known, sharding = known_sharding(x)
        if sharding is None or sharding.is_fully_replicated:
            sharding = NamedSharding(manual.mesh, PartitionSpec())
        if not is_known or sharding.mesh != manual.mesh:
            why = f"has the sharding {sharding}" if is_known else "is traced, so that its sharding is not known"
            raise ValueError(
                f"shard_map: in_specs was left out, and argument {argument_names(fun, args, {})[i]} of "
                f"{describe_function(fun)} {why}. Say how arguments are to be sharded over {manual.mesh.text}: "
                "shard_map(..., in_specs=...), with a PartitionSpec for each."
            )
        entries = [tuple([name for name in axes_of(entry) if name in manual.axes]) or None for entry in sharding.spec]
        specs.append(PartitionSpec(*entries))
    return specs


def _manual_spec(aval: ShapedArray, manual: ManualMesh) -> PartitionSpec:
    """What a type says over the manual axes."""
    named = [tuple([name for name in axes_of(part) if name in manual.axes]) or None for part in parts_of(aval)]
    explicit = aval.explicit
    if explicit is None:
        return PartitionSpec(*named)
    unreduced, reduced = (axes.intersection(manual.axes) for axes in (explicit.unreduced, explicit.reduced))
    return PartitionSpec(*named, unreduced=unreduced, reduced=reduced)


def _with_sums(x: Any, spec: PartitionSpec, manual: ManualMesh) -> Any:
    """An operand that is unreduced and reduced over the axes that its spec says."""
    if aval_of(x).is_high:
        return x
    current = _manual_spec(aval_of(x), manual)
    if current.unreduced == spec.unreduced and current.reduced == spec.reduced:
        return x
    return constrain(x, NamedSharding(manual.mesh, spec))


def _check_mesh_inside(mesh: AbstractMesh) -> None:
    """Raises ValueError inside of a shard_map over another mesh, or over axes that are Manual there alone."""
    current = settings.mesh
    if current is not None and current.manual_axes and current.abstract_mesh != mesh.abstract_mesh:
        raise ValueError(
            f"shard_map: inside of another one the context mesh is {current!r}, which should match the mesh passed to "
            f"shard_map, {mesh.text}. Leave mesh out, and name the further axes: axis_names."
        )


def _manual_axes(mesh: Mesh, axis_names: Collection[Any]) -> tuple[Any, ...]:
    """The axes in the order of the mesh; without names those that are not Manual already.

    Raises:
      ValueError: the mesh has no such axis, or it is Manual already.
    """
    unknown = [name for name in axis_names if name not in mesh.axis_names]
    if unknown:
        raise ValueError(f"shard_map: axis_names has {unknown[0]!r}, and the axes of the mesh are {mesh.text}.")
    taken = [name for name in mesh.manual_axes if name in axis_names]
    names = tuple([name for name in mesh.axis_names if name not in mesh.manual_axes])
    if taken or not names:
        raise ValueError(
            f"shard_map: {(taken or mesh.manual_axes)[0]!r} is an axis of a shard_map around, inside of which there is "
            f"one device along it, over {mesh.text}. Name other axes: axis_names."
        )
    return tuple([name for name in names if not axis_names or name in axis_names])


def _flat_specs(
    fun: Callable[..., Any], name: str, specs: Any, structure: Any, manual: ManualMesh
) -> list[PartitionSpec]:
    """The spec of each leaf."""
    what = f"shard_map: {name} of {describe_function(fun)}"
    if isinstance(specs, (PartitionSpec, HiPspec)):
        flat: Sequence[Any] = [specs] * structure.num_leaves
    else:
        flat = tree.flatten_prefix(specs, structure, f"shard_map {name}", is_leaf=_is_spec)
    if name == "in_specs":
        flat = [PartitionSpec() if spec is None else spec for spec in flat]
    for spec in chain.from_iterable(each.to_lo() if isinstance(each, HiPspec) else [each] for each in flat):
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"{what} holds {spec!r}, which is no PartitionSpec; P() partitions no axis.")
        names = [axis for entry in spec for axis in axes_of(entry)]
        for axis in (*names, *spec.unreduced, *spec.reduced):
            if axis not in manual.axes:
                raise ValueError(
                    f"{what} has {spec!r}: {name} refers to {axis!r}, which is none of the axes {manual.axes} over "
                    f"which the function is manual, of {manual.mesh.text}."
                )
        if spec.unreduced or spec.reduced:
            _check_sums(what, name, spec, manual)
            check_spec(manual.mesh, spec)
        if len(set(names)) != len(names):
            raise ValueError(f"{what} has {spec!r}, which names an axis twice: each partitions one axis of an array.")
    return list(flat)


def _check_sums(what: str, name: str, spec: PartitionSpec, manual: ManualMesh) -> None:
    """Raises an error where a spec has unreduced or reduced axes, and the mesh axes of which types don't speak."""
    mesh, kind = manual.mesh, "unreduced" if spec.unreduced else "reduced"
    if len(manual.axes) != len(mesh.axis_names) and not mesh.explicit_axes:
        raise NotImplementedError(
            f"{what} has {spec!r}, and {name} may have {kind} axes only where shard_map is manual over the whole mesh. "
            f"Leave axis_names out, or those axes. The mesh is {mesh}."
        )
    if not spec.unreduced | spec.reduced <= set(mesh.explicit_axes):
        raise ValueError(
            f"{what} has {spec!r}, and {kind} axes are axes of type Explicit. The mesh is {mesh}: make it with "
            "AxisType.Explicit."
        )


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def _refuse_partitioned_constants(fun: Callable[..., Any], closed: ClosedJaxpr) -> None:
    """Raises NotImplementedError where the function closes over arrays that are partitioned over Explicit axes."""
    types = [v.aval.str_short() for v in closed.jaxpr.constvars if v.aval.explicit is not None]
    if types:
        raise NotImplementedError(
            f"shard_map: {describe_function(fun)} closes over {', '.join(types)}, of which it would see whole arrays "
            "and not shards. Pass them as arguments."
        )


def _refuse_mutable_values(fun: Callable[..., Any], closed: ClosedJaxpr) -> None:
    """Raises RefError where the function takes or closes over mutable values of users' types."""
    types = [v.aval.str_short() for v in (*closed.jaxpr.constvars, *closed.jaxpr.invars) if v.aval.has_qdd]
    if types:
        raise RefError(
            f"shard_map: {describe_function(fun)} takes or closes over a mutable value of type {types[0]}, which all "
            "devices would share. Pass what it holds, and return what it is to hold."
        )


def _check_divergence(fun: Callable[..., Any], closed: ClosedJaxpr, argument_axes: Sequence[frozenset[Any]]) -> None:
    """Raises ValueError if a collective might not be run by all devices, a deadlock that ends the process."""
    divergence = find_divergence(closed.jaxpr, argument_axes)
    if divergence is None:
        return
    eqn, name = divergence
    raise ValueError(
        f"shard_map: in {describe_function(fun)} a {eqn.primitive} communicates along {name!r}, and what it does may "
        f"differ between the devices along {name!r}, of which some would then wait for others forever.\n"
        f"  {eqn.primitive} at {line_with_text(eqn.source)}\n"
        f"Decide by a value that is replicated over them (lax.pmax, lax.psum, lax.all_gather of it); or say "
        "check_vma=False, if it is the same for reasons that can't be seen."
    )


def _check_results(
    fun: Callable[..., Any],
    staged: _Staged,
    in_specs: Sequence[PartitionSpec],
    manual: ManualMesh,
    refs: Sequence[str],
) -> None:
    """Raises ValueError where a result has too few axes for its spec, or may vary where it must be replicated.

    `refs` are the names of arguments that are written, whose last values are the last results.
    """
    closed, out_tree, out_specs, _ = staged
    names = [f"result{path} of {describe_function(fun)}" for path in result_paths(out_tree)]
    names += [f"what {describe_function(fun)} writes to {name}" for name in refs]
    for name, aval, spec in zip(names, closed.out_avals, out_specs):
        if not aval.is_high and len(spec) > aval.ndim:
            raise ValueError(
                f"shard_map: {name} has type {aval.str_short()}, of {aval.ndim} axes, and its spec is {spec!r}, which "
                f"has length {len(spec)}."
            )
    if not manual.check:
        return
    results_vary = varying_axes(closed.jaxpr, list(map(manual.varying_axes, in_specs)))
    for name, varying, spec in zip(names, results_vary, out_specs):
        same = manual.varying_axes(spec)
        unreduced = () if isinstance(spec, HiPspec) else spec.unreduced
        never = [axis for axis in manual.axes if axis in unreduced and axis not in varying]
        if never:
            raise ValueError(
                f"shard_map: {name} is the same on all devices along {never[0]!r}, and by {spec!r} of out_specs it is "
                "to be the sum of what they have. vary_unreduced_cast is a Varying->Unreduced collective, which makes "
                f"addends of a value that varies: give it lax.pcast(x, {never[0]!r}, to='unreduced') of a part of the "
                "sum, or leave the axis out of unreduced."
            )
        wrong = [axis for axis in manual.axes if axis in varying and axis not in same]
        if wrong:
            along, them = " and ".join(map(repr, wrong)), "it" if len(wrong) == 1 else "them"
            raise ValueError(
                f"shard_map: {name} may differ between the devices along {along}, and by {spec!r} of out_specs it "
                f"is the same on all of them: these require replication, which can't be statically inferred. "
                f"Name {along} in the spec, or reduce over {them} (lax.psum, lax.pmean, "
                "lax.all_gather); or say check_vma=False, if it is the same for reasons that can't be seen."
            )
