"""shard_map: a jaxpr that runs on every device of a mesh, on the device's shards of the operands.

`in_specs` says for each operand how it is sharded over `manual_axes` of the mesh, `out_specs` the same for the results;
a value that its spec does not shard over an axis is replicated over it. In the derivative each device has an equal
share of a replicated result's cotangent, and a replicated operand has the sum of the devices' cotangents. The compiler
chooses the sharding over the other axes of the mesh.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend.array import Array
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec, axes_of
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_operation
from xpr.compile.lower import lower_eqns
from xpr.compile.reference import reference_eval
from xpr.config import settings
from xpr.control.call_family import InOutSpecs, Specs, call_family
from xpr.control.checkify.errors import first_failed
from xpr.control.devices.multi_device_call import MultiDeviceCall
from xpr.control.devices.replication import of_each_row, varying_axes
from xpr.control.devices.whole_cotangents import of_whole_cotangents
from xpr.control.groups import split_list
from xpr.control.split_results import split_results
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.explicit import ExplicitSharding, explicit_sharding
from xpr.core.hi_types import HiPspec
from xpr.core.interpreter import NamedAxis, axes_in_scope, context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars, effects, eval_jaxpr
from xpr.core.meshes import AxisType
from xpr.core.primitive import Primitive
from xpr.core.regions import whole_call
from xpr.errors import UnsupportedRule
from xpr.primitives.collectives.reduce import psum_p
from xpr.primitives.elementwise import div, scalar
from xpr.primitives.shapes import reshape
from xpr.primitives.sharding_rules import parts_of
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.linearize import Linearized
from xpr.transforms.on_arrays import lowered, on_arrays, raised
from xpr.transforms.stage import stage

Spec = Sequence[Any]  # the elements of a PartitionSpec; that itself where it has unreduced or reduced axes


def unreduced_in(spec: Spec) -> frozenset[Any]:
    """The axes over which the devices have addends of a value."""
    return getattr(spec, "unreduced", frozenset())


def reduced_in(spec: Spec) -> frozenset[Any]:
    """The axes over which the devices have the same value, and addends of its cotangent."""
    return getattr(spec, "reduced", frozenset())


class ManualMesh:
    """A mesh and its manual axes, over which the function of a shard_map sees the shard of one device.

    `inner` is the mesh inside of it, where these axes are Manual; the mesh itself has the types of the axes around it.
    """

    __slots__ = ("mesh", "axes", "check", "inner")

    def __init__(self, mesh: Mesh, manual_axes: Sequence[Any], check_vma: bool):
        self.mesh, self.axes, self.check = mesh, tuple(manual_axes), check_vma
        self.inner = mesh.abstract_mesh.update_axis_types(dict.fromkeys(self.axes, AxisType.Manual))

    def local_aval(self, aval: ShapedArray, spec: Spec) -> ShapedArray:
        """The type of one device's shard of an operand, which other axes of the mesh may partition further."""
        if aval.is_high:
            return aval.shard(self.mesh, frozenset(self.axes), self.check, spec)  # type: ignore[attr-defined,no-any-return]
        shard = aval.plain.update(shape=NamedSharding(self.mesh, PartitionSpec(*spec)).shard_shape(aval.shape))
        shard = shard.with_explicit(explicit_sharding(self.inner, parts_of(aval), aval.ndim))
        if not self.check:
            return shard
        outer = aval.sums or (frozenset(), frozenset())
        shard = shard.with_varying(aval.varying | self.varying_axes(spec))
        return shard.with_sums(outer[0] | unreduced_in(spec), outer[1] | reduced_in(spec))

    def global_aval(self, aval: ShapedArray, spec: Spec) -> ShapedArray:
        """The type of a whole result, from that of its shards."""
        if aval.is_high:
            return aval.unshard(self.mesh, self.check, spec)  # type: ignore[attr-defined,no-any-return]  # a user's
        counts = NamedSharding(self.mesh, PartitionSpec(*spec)).shard_counts(aval.ndim)
        whole = aval.plain.update(shape=tuple(n * count for n, count in zip(aval.shape, counts)))
        entries = [*spec, *[None] * (aval.ndim - len(spec))]
        parts: Spec = [(*axes_of(entry), *axes_of(part)) for entry, part in zip(entries, parts_of(aval))]
        if unreduced_in(spec) or reduced_in(spec):
            parts = PartitionSpec(*parts, unreduced=unreduced_in(spec), reduced=reduced_in(spec))
        whole = whole.with_explicit(explicit_sharding(self.mesh.abstract_mesh, parts, aval.ndim))
        return whole.with_varying(aval.varying - set(self.axes)).on_mesh(self.mesh.if_auto)

    def replicated_axes(self, spec: Spec) -> tuple[Any, ...]:
        """The manual axes over which a value is replicated, and so are its cotangents."""
        named = {*self.varying_axes(spec), *reduced_in(spec)}
        return tuple(name for name in self.axes if name not in named)

    def varying_axes(self, spec: Spec) -> frozenset[Any]:
        """The manual axes over which the devices have different values: shards, or addends."""
        if isinstance(spec, HiPspec):
            return frozenset().union(*map(self.varying_axes, spec.to_lo()))
        named = [name for entry in spec for name in axes_of(entry)]
        axes = unreduced_in(spec) | frozenset(self.axes).intersection(named)
        if settings.remove_size_one_mesh_axis_from_type:
            return frozenset([name for name in axes if self.mesh.shape[name] > 1])
        return axes

    @property
    def sizes(self) -> dict[Any, int]:
        """The sizes of the manual axes."""
        return {name: self.mesh.shape[name] for name in self.axes}

    def replicas(self, spec: Spec) -> int:
        """The number of devices with the same shard of a value."""
        return math.prod([self.mesh.shape[name] for name in self.replicated_axes(spec)])

    def in_scope(self, checked: bool = False) -> axes_in_scope:
        """Lets collectives name the axes; `checked` is for the user's function, see `NamedAxis`."""
        return axes_in_scope(*[NamedAxis(name, self.mesh.shape[name], checked) for name in self.axes])

    def stacked_spec(self) -> PartitionSpec:
        """The spec that stacks the devices' values along a new leading axis."""
        return PartitionSpec(self.axes)

    def bind(self, closed: ClosedJaxpr, operands: Sequence[Any], in_specs: Specs, out_specs: Specs) -> list[Any]:
        """Applies the operation to a jaxpr, whose constants are replicated."""
        specs = [*[PartitionSpec()] * len(closed.consts), *in_specs]
        return shard_map_p.bind(*closed.consts, *operands, **self.params(constvars_to_invars(closed), specs, out_specs))

    def params(self, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs) -> dict[str, Any]:
        """The parameters of the operation, specs as plain tuples."""
        return {
            "jaxpr": jaxpr, "mesh": self.mesh, "manual_axes": self.axes, "in_specs": tuple(map(_plain, in_specs)),
            "out_specs": tuple(map(_plain, out_specs)), "check_vma": self.check,
        }  # fmt: skip


def _shard(aval: ShapedArray, mesh: Mesh, manual_axes: frozenset[Any], check_vma: bool, spec: Spec) -> ShapedArray:
    axes = [name for name in mesh.axis_names if name in manual_axes]
    return ManualMesh(mesh, axes, check_vma).local_aval(aval, spec)


def _unshard(aval: ShapedArray, mesh: Mesh, check_vma: bool, spec: Spec) -> ShapedArray:
    return ManualMesh(mesh, mesh.axis_names, check_vma).global_aval(aval, spec)


ShapedArray.shard, ShapedArray.unshard = _shard, _unshard  # type: ignore[attr-defined]  # as users' types have them


def _arrays_specs(specs: Specs, avals: Sequence[Any]) -> list[Spec]:
    """The specs of arrays, from those of the values that consist of them."""
    return [each for spec, aval in zip(specs, avals) for each in (spec.to_lo() if aval.is_high else [spec])]


def _plain(spec: Spec) -> Spec:
    if isinstance(spec, HiPspec):
        return spec  # type: ignore[unreachable]  # one of a value of a user's type
    return spec if unreduced_in(spec) or reduced_in(spec) else tuple(spec)


class ShardedCall(MultiDeviceCall):
    """A call on every device of a mesh; a spec holds the elements of a PartitionSpec."""

    spec_parameters = ("in_specs", "out_specs")
    replicated = PartitionSpec()

    def __init__(self, primitive: Primitive, params: dict[str, Any]):
        super().__init__(primitive, params)
        self.manual = ManualMesh(params["mesh"], params["manual_axes"], params["check_vma"])
        self.stacked = self.manual.stacked_spec()

    def replaced(self, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs) -> dict[str, Any]:
        return self.manual.params(jaxpr, in_specs, out_specs)

    def in_scope(self) -> axes_in_scope:
        return self.manual.in_scope()

    def argument_avals(self, avals: Sequence[ShapedArray]) -> list[ShapedArray]:
        return list(map(self.manual.local_aval, avals, self.in_specs))

    def result_avals(self) -> list[ShapedArray]:
        return list(map(self.manual.global_aval, self.jaxpr.out_avals, self.out_specs))

    def mismatch(self, expected: str, actual: str) -> str:
        return f"shard_map: parts of the types ({expected}) are taken, and ({actual}) given."

    def halves(self, split: Linearized, is_active: Sequence[bool]) -> tuple[ClosedJaxpr, InOutSpecs, Jaxpr, InOutSpecs]:
        """Residuals, unless they are operands, stay on their devices, stacked along a leading axis."""
        _, (ins, outs), _, (linear_ins, linear_outs) = super().halves(split, is_active)
        count, kept = len(self.out_specs), list(map(self.residual_spec, self.varying_residuals(split)))
        of_residuals = iter(kept)
        linear_ins = [
            next(of_residuals) if i < len(split.residual_sources) and split.residual_sources[i] is None else spec
            for i, spec in enumerate(linear_ins)
        ]
        primal_specs, linear_specs = (ins, [*split_list(outs, count)[0], *kept]), (linear_ins, linear_outs)
        with self.in_scope():
            primal = with_leading_axes(split.primal.jaxpr, outs_from=len(self.jaxpr.outvars))
            linear = _without_leading_axes(split.linear, [source is None for source in split.residual_sources])
        return ClosedJaxpr(primal, split.primal.consts), primal_specs, linear, linear_specs

    def varying_residuals(self, split: Linearized) -> list[frozenset[Any]]:
        """The axes over which each residual that is no operand may vary."""
        of_results = varying_axes(split.primal.jaxpr, list(map(self.manual.varying_axes, self.in_specs)))
        return split_list(of_results, len(self.out_specs))[1]

    def residual_spec(self, varying: frozenset[Any]) -> PartitionSpec:
        """The spec that stacks a residual along a new leading axis; of those that are the same on all devices, one."""
        return PartitionSpec(tuple([name for name in self.manual.axes if name in varying]))

    def dual(self, spec: Spec) -> Spec:
        return spec.dual if isinstance(spec, PartitionSpec) else spec

    def called_transposed(
        self, closed: ClosedJaxpr, known: Sequence[Any], cts: Sequence[Any], in_specs: Specs, out_specs: Specs
    ) -> list[Any]:
        manual, (_, ct_specs) = self.manual, split_list(in_specs, len(known))
        replicated = list(map(manual.replicated_axes, out_specs))
        with self.in_scope():
            if manual.check:
                varying = list(map(manual.varying_axes, in_specs))
                copied = list(map(manual.replicated_axes, ct_specs))
                jaxpr = of_whole_cotangents(closed.jaxpr, varying, copied, replicated, manual.sizes)
                closed = closed.replace(jaxpr=jaxpr)
            else:
                counts = map(manual.replicas, ct_specs)
                cts = [ct if n == 1 else div(ct, scalar(n, ct)) for ct, n in zip(cts, counts)]
                closed = _with_sums(closed, replicated)
        return self.bind(closed, [*known, *cts], in_specs, out_specs)

    def batched(self, axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None]) -> Any:
        """Every device has all rows of its shard, or a shard of the rows."""
        manual = self.manual
        along = tuple([axis for axis in axes_of(context.rows_along) if axis in manual.axes])
        each_row = along and not self.specs_name(along)
        rows = size // math.prod([manual.sizes[axis] for axis in along])
        name = None if axis_name in manual.axes else axis_name
        explicit_rows, context.explicit_rows = context.explicit_rows, self.rows_inside()
        try:
            with self.in_scope():
                jaxpr = of_each_row(self.jaxpr, along, manual.sizes) if each_row else self.jaxpr
                closed, actual = batch_jaxpr(jaxpr, rows, tuple(dims), name)
        finally:
            context.explicit_rows = explicit_rows
        in_specs = [_with_rows(spec, d, along) for spec, d in zip(self.in_specs, dims)]
        out_specs = [_with_rows(spec, d, along) for spec, d in zip(self.out_specs, actual)]
        return self.bind(closed, values, in_specs, out_specs), actual

    def specs_name(self, along: Sequence[Any]) -> bool:
        """Whether the rows of a vmap are to be sharded over an axis that partitions each row.

        The setting `disable_vmap_shmap_error` allows it, for functions that mix no rows there.

        Raises:
          ValueError: they are, and the setting is off.
        """
        for spec in (*self.in_specs, *self.out_specs):
            twice = [name for name in along if name in self.manual.varying_axes(spec)]
            if twice and settings.disable_vmap_shmap_error:
                return True
            if twice:
                raise ValueError(
                    f"shard_map: vmap spmd_axis_name cannot appear in in_specs or out_specs of what vmap maps, and "
                    f"{twice[0]!r} is in {PartitionSpec(*spec)!r}. Map over another axis of {self.manual.mesh.text}."
                )
        return False

    def rows_inside(self) -> ExplicitSharding | None:
        """How the rows of one device are partitioned further, over Explicit axes that are not manual."""
        rows = context.explicit_rows
        return rows and explicit_sharding(self.manual.inner, rows.parts, 1)

    def on_arrays(self, values: Sequence[Any]) -> list[Any]:
        program, avals, out_avals = self.derived(on_arrays), list(map(aval_of, values)), self.result_avals()
        in_specs, out_specs = _arrays_specs(self.in_specs, avals), _arrays_specs(self.out_specs, out_avals)
        return raised(out_avals, self.bind(program.jaxpr, lowered(avals, values), in_specs, out_specs))

    def threaded(self, state: Sequence[Any], thread: Any, values: Sequence[Any]) -> Any:
        """Each device has the state; afterwards it is that of the first one which failed."""
        n, count = len(state), len(self.out_specs)
        with self.in_scope():
            jaxpr = thread(self.jaxpr)
            states, results = split_list(jaxpr.outvars, n)
            turned = jaxpr.replace(outvars=[*results, *states])
            closed = ClosedJaxpr(with_leading_axes(turned, outs_from=count))
        in_specs, out_specs = [*[self.replicated] * n, *self.in_specs], [*self.out_specs, *[self.stacked] * n]
        outs = self.bind(closed, [*state, *values], in_specs, out_specs)
        results, states = split_list(outs, count)
        return first_failed(states), results


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The results of an eager call, which have the shardings that `out_specs` say, axes of size 1 included."""
    outs = run_operation(shard_map_p, args, params)
    mesh = params["mesh"]
    if isinstance(mesh, Mesh) and set(params["manual_axes"]) == set(mesh.axis_names):
        for x, spec in zip(outs, params["out_specs"]):
            if type(x) is Array and type(x.device) is NamedSharding:
                x.named_by(NamedSharding(mesh, spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec)))
    return outs


def _mesh(*, mesh: Mesh, **_: Any) -> Mesh:
    return mesh


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, jaxpr: Jaxpr, mesh: Mesh,
    manual_axes: Sequence[Any], in_specs: Specs, out_specs: Specs, check_vma: bool,
) -> list[Value]:  # fmt: skip
    """A manual region along the axes."""
    return b.manual_region(
        mesh, manual_axes, operands, in_specs, avals, out_specs, lambda inner, parts: lower_eqns(inner, jaxpr, parts),
        ordered="ordered" in effects(jaxpr),
    )  # fmt: skip


def _reference(
    values: Sequence[np.ndarray], *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, **params: Any
) -> list[np.ndarray]:
    """Maps over one axis of the mesh after another, with the shards stacked."""
    manual = ManualMesh(**params)
    if any(map(unreduced_in, (*in_specs, *out_specs))):
        raise NotImplementedError("shard_map: NumPy knows nothing of devices, so that it can't have addends on each.")
    sizes = manual.mesh.shape
    closed = ClosedJaxpr(jaxpr)
    for name in reversed(manual.axes):
        specs = [*[PartitionSpec()] * len(closed.consts), *in_specs]
        dims = tuple(0 if name in manual.varying_axes(spec) else None for spec in specs)
        with manual.in_scope():
            closed, _ = batch_jaxpr(constvars_to_invars(closed), sizes[name], dims, name, (True,) * len(jaxpr.outvars))
        in_specs = specs
    parts = [_split_parts(x, spec, manual) for x, spec in zip(values, in_specs[len(in_specs) - len(values) :])]
    outs = reference_eval(closed.jaxpr, closed.consts, *parts)
    return [_join_parts(x, spec, manual) for x, spec in zip(outs, out_specs)]


def _split_parts(x: np.ndarray, spec: Spec, manual: ManualMesh) -> np.ndarray:
    """An operand with a leading axis for each mesh axis that shards it, in the order of the mesh."""
    names: list[Any] = []
    shape: list[int] = []
    for entry, size in zip([*spec, *[None] * (x.ndim - len(spec))], x.shape):
        counts = [manual.mesh.shape[name] for name in axes_of(entry)]
        names += [*axes_of(entry), None]
        shape += [*counts, size // math.prod(counts)]
    order = [names.index(name) for name in manual.axes if name in names]
    order += [i for i, name in enumerate(names) if name is None]
    return x.reshape(shape).transpose(order)


def _join_parts(x: np.ndarray, spec: Spec, manual: ManualMesh) -> np.ndarray:
    """A result from shards that have a leading axis for each mesh axis; the first of replicated ones."""
    sharded_axes = [name for name in manual.axes if name in manual.varying_axes(spec)]
    x = x[tuple(slice(None) if name in sharded_axes else 0 for name in manual.axes)]
    rows, order, shape = len(sharded_axes), [], []
    for axis, entry in enumerate([*spec, *[None] * (x.ndim - rows - len(spec))]):
        merged = [sharded_axes.index(name) for name in axes_of(entry)] + [rows + axis]
        order += merged
        shape.append(math.prod([x.shape[i] for i in merged]))
    return x.transpose(order).reshape(shape)


def with_leading_axes(jaxpr: Jaxpr, outs_from: int) -> Jaxpr:
    """The jaxpr with an axis of size 1 before the others of its later results; cached with it."""
    key = ("leading axes", outs_from)
    if key not in jaxpr.memo:
        n = len(jaxpr.constvars)

        def run(*xs: Any) -> list[Any]:
            consts, arguments = split_list(xs, n)
            outs, later = split_list(eval_jaxpr(jaxpr, consts, *arguments), outs_from)
            if any(aval_of(x).is_high for x in later):
                raise UnsupportedRule(
                    "shard_map: its derivative keeps a value of a user's type that is computed inside, and can keep "
                    "arrays and arguments alone. Let rules keep arrays, or mark the function with checkpoint."
                )
            return [*outs, *(reshape(x, (1, *aval_of(x).shape)) for x in later)]

        jaxpr.memo[key] = _with_constvars(stage(run, [v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]).jaxpr, n)
    return jaxpr.memo[key]


def _without_leading_axes(jaxpr: Jaxpr, chosen: Sequence[bool]) -> Jaxpr:
    """The jaxpr that takes the chosen first arguments with a leading axis of size 1; cached with it."""
    key = ("no leading axes", tuple(chosen))
    if key not in jaxpr.memo:
        avals = [
            a.with_axis(0, 1) if leading else a
            for a, leading in zip(jaxpr.in_avals, [*chosen, *[False] * (len(jaxpr.invars) - len(chosen))])
        ]

        def run(*xs: Any) -> list[Any]:
            pairs = zip(xs, jaxpr.invars, [*chosen, *[False] * (len(jaxpr.invars) - len(chosen))])
            return eval_jaxpr(jaxpr, (), *(reshape(x, v.aval.shape) if leading else x for x, v, leading in pairs))

        jaxpr.memo[key] = stage(run, avals).jaxpr
    return jaxpr.memo[key]


def _with_sums(closed: ClosedJaxpr, axes: Sequence[tuple[Any, ...]]) -> ClosedJaxpr:
    """The jaxpr with its results summed over axes."""
    if not any(axes):
        return closed
    jaxpr = constvars_to_invars(closed)

    def run(*xs: Any) -> list[Any]:
        return [
            psum_p.bind(x, axes=names, axis_index_groups=None)[0] if names else x
            for x, names in zip(eval_jaxpr(jaxpr, (), *xs), axes)
        ]

    return ClosedJaxpr(_with_constvars(stage(run, jaxpr.in_avals).jaxpr, len(closed.consts)), closed.consts)


def _with_constvars(jaxpr: Jaxpr, count: int) -> Jaxpr:
    """The jaxpr with its first arguments as constvars."""
    constvars, invars = split_list(jaxpr.invars, count)
    return jaxpr.replace(constvars=constvars, invars=invars)


def _with_rows(spec: Spec, dim: int | None, along: tuple[Any, ...]) -> Spec:
    if dim is None:
        return spec
    entries = [*spec, *[None] * (dim - len(spec))]
    sums = {"unreduced": unreduced_in(spec), "reduced": reduced_in(spec)}
    return PartitionSpec(*entries[:dim], along or None, *entries[dim:], **sums)


shard_map_p = call_family(
    "shard_map",
    ShardedCall,
    params=("jaxpr", "mesh", "in_specs", "out_specs", "manual_axes", "check_vma"),
    reference=_reference,
    lower=_lower,
    evaluate=_evaluate,
    split=split_results,
    mesh=_mesh,
    regions=lambda jaxpr, mesh, manual_axes, **params: whole_call(
        jaxpr, devices=tuple([(name, mesh.shape[name]) for name in manual_axes])
    ),
)
