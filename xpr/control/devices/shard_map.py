"""shard_map: a jaxpr that runs on every device of a mesh, on the parts that it has of the operands.

Operands are laid out as the jaxpr's invars. `in_specs` has for each how it is cut along `manual_axes` of the mesh,
`out_specs` has how the results are put together; one that a spec does not cut along an axis is the same on all devices
along it. In the derivative each of them has its share of such a result's cotangent, and what all of them got has the
sum of their cotangents. Along the other axes of the mesh the compiler cuts as it likes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec, axes_of
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import reference_eval, run_operation
from xpr.compile.lower import lower_eqns
from xpr.control.checkify.errors import first_failed
from xpr.control.split_results import split_results
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import NamedAxis, axes_in_scope, context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, constvars_to_invars, eval_jaxpr
from xpr.core.primitive import Linear, Primitive, register
from xpr.core.regions import whole_call
from xpr.passes.dce import smaller_call
from xpr.primitives.collectives.reduce import psum_p
from xpr.primitives.elementwise import div, scalar
from xpr.primitives.shapes import reshape
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.linearize import LinearizeTrace, linearize_jaxpr
from xpr.transforms.stage import stage
from xpr.transforms.transpose import transpose_jaxpr

Spec = Sequence[Any]  # the entries of a PartitionSpec
Specs = Sequence[Spec]


class Place:
    """The mesh, and those of its axes along which a shard_map's devices are told apart."""

    __slots__ = ("mesh", "axes", "check")

    def __init__(self, mesh: Mesh, manual_axes: Sequence[Any], check_vma: bool):
        self.mesh, self.axes, self.check = mesh, tuple(manual_axes), check_vma

    def part(self, aval: ShapedArray, spec: Spec) -> ShapedArray:
        """The type of the parts of an operand."""
        return aval.update(shape=NamedSharding(self.mesh, PartitionSpec(*spec)).shard_shape(aval.shape))

    def whole(self, aval: ShapedArray, spec: Spec) -> ShapedArray:
        """The type of a result that is put together of such parts."""
        cuts = NamedSharding(self.mesh, PartitionSpec(*spec)).cuts(aval.ndim)
        return aval.update(shape=tuple(n * count for n, count in zip(aval.shape, cuts)))

    def uncut(self, spec: Spec) -> tuple[Any, ...]:
        """The axes along which all devices have the same."""
        named = [name for entry in spec for name in axes_of(entry)]
        return tuple(name for name in self.axes if name not in named)

    def cut(self, spec: Spec) -> frozenset[Any]:
        """The axes along which devices have different parts."""
        return frozenset(self.axes) - set(self.uncut(spec))

    @property
    def sizes(self) -> dict[Any, int]:
        """The sizes of the axes."""
        return {name: self.mesh.shape[name] for name in self.axes}

    def copies(self, spec: Spec) -> int:
        """How many devices have the same part."""
        return math.prod([self.mesh.shape[name] for name in self.uncut(spec)])

    def in_scope(self, checked: bool = False) -> axes_in_scope:
        """Lets collectives name the axes; `checked` is for the user's function, see `NamedAxis`."""
        return axes_in_scope(*[NamedAxis(name, self.mesh.shape[name], checked) for name in self.axes])

    def of_each(self) -> PartitionSpec:
        """The spec of what differs from device to device, along a leading axis that is made for it."""
        return PartitionSpec(self.axes)

    def bind(self, closed: ClosedJaxpr, operands: Sequence[Any], in_specs: Specs, out_specs: Specs) -> list[Any]:
        """The operation with a jaxpr, whose constants every device gets."""
        return shard_map_p.bind(
            *closed.consts,
            *operands,
            **self.params(closed, [*[PartitionSpec()] * len(closed.consts), *in_specs], out_specs),
        )

    def params(self, closed: ClosedJaxpr, in_specs: Specs, out_specs: Specs) -> dict[str, Any]:
        """The parameters of the operation, specs as plain tuples; those of the constants stand first."""
        return {
            "jaxpr": constvars_to_invars(closed), "mesh": self.mesh, "manual_axes": self.axes,
            "in_specs": tuple(map(tuple, in_specs)), "out_specs": tuple(map(tuple, out_specs)), "check_vma": self.check,
        }  # fmt: skip


def _those(specs: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
    return [spec for spec, wanted in zip(specs, chosen) if wanted]


def _abstract(
    avals: Sequence[ShapedArray], *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, **params: Any
) -> list[ShapedArray]:
    place = Place(**params)
    parts = list(map(place.part, avals, in_specs))
    if len(avals) != len(jaxpr.invars) or any(
        a.shape != v.aval.shape or a.dtype != v.aval.dtype for a, v in zip(parts, jaxpr.invars)
    ):
        given, wanted = ([a.str_short() for a in types] for types in (parts, jaxpr.in_avals))
        raise TypeError(
            f"shard_map: parts of the types ({', '.join(wanted)}) are taken, and ({', '.join(given)}) given."
        )
    return list(map(place.whole, jaxpr.out_avals, out_specs))


def _mesh(*, mesh: Mesh, **_: Any) -> Mesh:
    return mesh


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, jaxpr: Jaxpr, mesh: Mesh,
    manual_axes: Sequence[Any], in_specs: Specs, out_specs: Specs, check_vma: bool,
) -> list[Value]:  # fmt: skip
    """A manual region along the axes."""
    return b.manual_region(
        mesh, manual_axes, operands, in_specs, avals, out_specs, lambda inner, parts: lower_eqns(inner, jaxpr, parts)
    )


def _reference(
    values: Sequence[np.ndarray], *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, **params: Any
) -> list[np.ndarray]:
    """Maps over one axis of the mesh after the other, with the parts side by side."""
    place = Place(**params)
    sizes = place.mesh.shape
    closed = ClosedJaxpr(jaxpr)
    for name in reversed(place.axes):
        specs = [*[PartitionSpec()] * len(closed.consts), *in_specs]
        dims = tuple(None if name in place.uncut(spec) else 0 for spec in specs)
        with place.in_scope():
            closed, _ = batch_jaxpr(constvars_to_invars(closed), sizes[name], dims, name, (True,) * len(jaxpr.outvars))
        in_specs = specs
    parts = [_parted(x, spec, place) for x, spec in zip(values, in_specs[len(in_specs) - len(values) :])]
    outs = reference_eval(closed.jaxpr, closed.consts, *parts)
    return [_joined(x, spec, place) for x, spec in zip(outs, out_specs)]


def _parted(x: np.ndarray, spec: Spec, place: Place) -> np.ndarray:
    """An operand with a leading axis for each mesh axis that cuts it, in the order of the mesh."""
    names: list[Any] = []
    shape: list[int] = []
    for entry, size in zip([*spec, *[None] * (x.ndim - len(spec))], x.shape):
        counts = [place.mesh.shape[name] for name in axes_of(entry)]
        names += [*axes_of(entry), None]
        shape += [*counts, size // math.prod(counts)]
    order = [names.index(name) for name in place.axes if name in names]
    order += [i for i, name in enumerate(names) if name is None]
    return x.reshape(shape).transpose(order)


def _joined(x: np.ndarray, spec: Spec, place: Place) -> np.ndarray:
    """A result of parts that have a leading axis for each mesh axis; the first of those that are the same."""
    kept = [name for name in place.axes if name not in place.uncut(spec)]
    x = x[tuple(slice(None) if name in kept else 0 for name in place.axes)]
    rows, order, shape = len(kept), [], []
    for axis, entry in enumerate([*spec, *[None] * (x.ndim - rows - len(spec))]):
        places = [kept.index(name) for name in axes_of(entry)] + [rows + axis]
        order += places
        shape.append(math.prod([x.shape[i] for i in places]))
    return x.transpose(order).reshape(shape)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, **p: Any
) -> Any:
    """The jvp of the jaxpr on every device; tangents are cut as their primals are."""
    place = Place(**p)
    is_active = tuple(type(t) is not Zero for t in tangents)
    with place.in_scope():
        closed, out_active = jvp_jaxpr(jaxpr, is_active)
    results = place.bind(
        closed,
        [*primals, *(t for t in tangents if type(t) is not Zero)],
        [*in_specs, *_those(in_specs, is_active)],
        [*out_specs, *_those(out_specs, out_active)],
    )
    n = len(out_active)
    return results[:n], with_zeros(results[n:], out_active, list(map(place.whole, jaxpr.out_avals, out_specs)))


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """One jaxpr for the results and residuals, which stay on their devices, and one for the tangents."""
    jaxpr, in_specs, out_specs, place = _taken_apart(**params)
    is_active = tuple(type(t) is not Zero for t in tangents)
    with place.in_scope():
        split = linearize_jaxpr(jaxpr, is_active)
        n = len(jaxpr.outvars)
        primal = _with_leading_axes(split.primal.jaxpr, outs_from=n)
        is_computed = [source is None for source in split.residual_sources]
        linear = _without_leading_axes(split.linear, is_computed)
    opened = ClosedJaxpr(constvars_to_invars(ClosedJaxpr(primal, split.primal.consts)))
    specs = [*[PartitionSpec()] * len(split.primal.consts), *in_specs]
    given = trace.parent.process(  # type: ignore[union-attr]  # never the bottom
        shard_map_p,
        [*split.primal.consts, *primals],
        place.params(opened, specs, [*out_specs, *[place.of_each()] * sum(is_computed)]),
    )
    outs, computed = given[:n], given[n:]
    avals = list(map(place.whole, jaxpr.out_avals, out_specs))
    if not any(split.active_outs):
        return outs, with_zeros([], split.active_outs, avals)
    residual_specs = [place.of_each() if source is None else in_specs[source] for source in split.residual_sources]
    out_tangents = place.bind(
        ClosedJaxpr(linear),
        [*split.residuals(primals, computed), *(t for t in tangents if type(t) is not Zero)],
        [*residual_specs, *_those(in_specs, is_active)],
        _those(out_specs, split.active_outs),
    )
    return outs, with_zeros(out_tangents, split.active_outs, avals)


def _taken_apart(
    *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, **params: Any
) -> tuple[Jaxpr, Specs, Specs, Place]:
    return jaxpr, in_specs, out_specs, Place(**params)


def _with_leading_axes(jaxpr: Jaxpr, outs_from: int) -> Jaxpr:
    """The jaxpr with an axis of size 1 before the others of its later results; remembered with it."""
    key = ("leading axes", outs_from)
    if key not in jaxpr.memo:
        n = len(jaxpr.constvars)

        def run(*xs: Any) -> list[Any]:
            outs = eval_jaxpr(jaxpr, xs[:n], *xs[n:])
            return [*outs[:outs_from], *(reshape(x, (1, *aval_of(x).shape)) for x in outs[outs_from:])]

        made = stage(run, [v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]).jaxpr
        jaxpr.memo[key] = made.replace(constvars=made.invars[:n], invars=made.invars[n:])
    return jaxpr.memo[key]


def _without_leading_axes(jaxpr: Jaxpr, chosen: Sequence[bool]) -> Jaxpr:
    """The jaxpr that takes its first arguments, those chosen, with such an axis; remembered with it."""
    key = ("no leading axes", tuple(chosen))
    if key not in jaxpr.memo:
        avals = [
            a.update(shape=(1, *a.shape)) if leading else a
            for a, leading in zip(jaxpr.in_avals, [*chosen, *[False] * (len(jaxpr.invars) - len(chosen))])
        ]

        def run(*xs: Any) -> list[Any]:
            return eval_jaxpr(jaxpr, (), *(reshape(x, v.aval.shape) for x, v in zip(xs, jaxpr.invars)))

        jaxpr.memo[key] = stage(run, avals).jaxpr
    return jaxpr.memo[key]


def _transpose(
    cts: Sequence[Any], operands: Sequence[Any], *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, **params: Any
) -> list[Any]:
    """The transposed jaxpr on every device."""
    place = Place(**params)
    is_linear = tuple(type(x) is Linear for x in operands)
    has_ct = tuple(type(ct) is not Zero for ct in cts)
    with place.in_scope():
        closed, reached = transpose_jaxpr(jaxpr, is_linear, has_ct)
        wanted = _those(_those(in_specs, is_linear), reached)
        summed = _with_sums(closed, [place.uncut(spec) for spec in wanted])
    known = [(x, spec) for x, spec in zip(operands, in_specs) if type(x) is not Linear]
    shares = [
        ct if place.copies(spec) == 1 else div(ct, scalar(place.copies(spec), ct))
        for ct, spec in zip(cts, out_specs)
        if type(ct) is not Zero
    ]
    outs = iter(
        place.bind(
            summed, [*(x for x, _ in known), *shares], [*(s for _, s in known), *_those(out_specs, has_ct)], wanted
        )
    )
    found = iter([next(outs) if has else None for has in reached])
    return [next(found) if linear else None for linear in is_linear]


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

    made, n = stage(run, jaxpr.in_avals).jaxpr, len(closed.consts)
    return ClosedJaxpr(made.replace(constvars=made.invars[:n], invars=made.invars[n:]), closed.consts)


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return _batch_named(None, size, values, dims, **params)


def _batch_named(
    name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], /, *, jaxpr: Jaxpr, in_specs: Specs,
    out_specs: Specs, **params: Any,
) -> Any:  # fmt: skip
    """The batched jaxpr on every device, which has all rows of its part, or its part of the rows."""
    place = Place(**params)
    along = tuple([axis for axis in axes_of(context.rows_along) if axis in place.axes])
    with place.in_scope():
        rows = size // math.prod([place.sizes[axis] for axis in along])
        closed, found = batch_jaxpr(jaxpr, rows, tuple(dims), None if name in place.axes else name)
    ins, results = ([_with_rows(s, d, along) for s, d in zip(*each)] for each in ((in_specs, dims), (out_specs, found)))
    return place.bind(closed, values, ins, results), found


def _with_rows(spec: Spec, dim: int | None, along: tuple[Any, ...]) -> Spec:
    if dim is None:
        return spec
    entries = [*spec, *[None] * (dim - len(spec))]
    return PartitionSpec(*entries[:dim], along or None, *entries[dim:])


def _dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    """The part of the jaxpr that the used results need, on every device."""
    params = eqn.params
    smaller, inputs = smaller_call(params["jaxpr"], used)
    specs = {
        "in_specs": tuple(_those(params["in_specs"], inputs)),
        "out_specs": tuple(_those(params["out_specs"], used)),
    }
    return eqn.replace(
        invars=_those(eqn.invars, inputs),
        outvars=_those(eqn.outvars, used),
        params={**params, **specs, "jaxpr": smaller},
    )


def _threaded(
    state: Sequence[Any], thread: Any, values: Sequence[Any], *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs,
    **params: Any,
) -> Any:  # fmt: skip
    """Each device has the state; afterwards it is that of the first one which failed."""
    place, n, rest = Place(**params), len(state), len(out_specs)
    with place.in_scope():
        threaded = thread(jaxpr)
        turned = threaded.replace(outvars=[*threaded.outvars[n:], *threaded.outvars[:n]])
        made = ClosedJaxpr(_with_leading_axes(turned, outs_from=rest))
    outs = place.bind(
        made, [*state, *values], [*[PartitionSpec()] * n, *in_specs], [*out_specs, *[place.of_each()] * n]
    )
    return first_failed(outs[rest:]), outs[:rest]


shard_map_p = register(
    Primitive(
        "shard_map",
        abstract=_abstract,
        params=("jaxpr", "mesh", "in_specs", "out_specs", "manual_axes", "check_vma"),
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=_batch,
        linearize=_linearize,
        batch_named=_batch_named,
        evaluate=lambda args, params: run_operation(shard_map_p, args, params),
        dce=_dce,
        split=split_results,
        threaded=_threaded,
        mesh=_mesh,
        multiple_results=True,
        regions=lambda jaxpr, **params: whole_call(jaxpr),
        call=True,
    )
)
