"""xla_pmap: a jaxpr that runs on several devices, one row of its mapped operands on each; what `pmap` makes.

Operands are laid out as the jaxpr's invars. `in_axes` has for each the axis along which its rows go to the devices,
None where all get the whole; `out_axes` has where the rows of the results come together, None where each device has the
same result, of which one is taken. In the derivative, each device has its share of such a result's cotangent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend import devices as platforms
from xpr.backend.mesh import devices_of_names
from xpr.backend.sharding import Mesh, PartitionSpec
from xpr.backend.shards import PartitionedExecutable
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import operation_jaxpr, reference_eval, run_operation
from xpr.compile.lower import constants, lower_eqns
from xpr.compile.partition import program_for
from xpr.control.checkify.errors import first_failed
from xpr.control.split_results import split_results
from xpr.core.avals import ShapedArray, Zero
from xpr.core.interpreter import NamedAxis, axes_in_scope
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, constvars_to_invars
from xpr.core.primitive import Linear, Primitive, register
from xpr.core.regions import whole_call
from xpr.passes.dce import smaller_call
from xpr.primitives.elementwise import div, scalar
from xpr.primitives.shapes import reduce_sum
from xpr.transforms.batch import batch_jaxpr, row_aval
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.linearize import LinearizeTrace, linearize_jaxpr
from xpr.transforms.transpose import transpose_jaxpr

Axes = Sequence[int | None]


def pmap_params(
    jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes, donated: Sequence[bool] = (), constants: int = 0, **kept: Any
) -> dict[str, Any]:
    """The parameters of an equation; `kept` are axis_name, axis_size, name, backend and devices.

    `constants` of the invars hold what the function closes over. Those that begin with `global` and `donated` say what
    JAX's jaxprs say there.
    """
    return {
        **kept, "call_jaxpr": jaxpr, "in_axes": tuple(in_axes), "out_axes": tuple(out_axes),
        "donated_invars": tuple(donated) or (False,) * len(jaxpr.invars), "global_axis_size": None,
        "global_arg_shapes": (None,) * (len(jaxpr.invars) - constants),
    }  # fmt: skip


def _mapped(closed: ClosedJaxpr, operands: Sequence[Any], in_axes: Axes, out_axes: Axes, params: Any) -> list[Any]:
    """Maps another jaxpr over the same devices, its constants as leading operands that all devices get."""
    all_axes = [*[None] * len(closed.consts), *in_axes]
    return xla_pmap_p.bind(
        *closed.consts, *operands, **pmap_params(constvars_to_invars(closed), all_axes, out_axes, **_kept(params))
    )


def _kept(params: dict[str, Any]) -> dict[str, Any]:
    return {key: params[key] for key in ("axis_name", "axis_size", "name", "backend", "devices")}


def _in_scope(params: dict[str, Any]) -> axes_in_scope:
    return axes_in_scope(NamedAxis(params["axis_name"], params["axis_size"]))


def _abstract(
    avals: Sequence[ShapedArray], *, call_jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes, axis_size: int, name: str,
    **_: Any,
) -> list[ShapedArray]:  # fmt: skip
    rows = [a if axis is None else row_aval(a, axis) for a, axis in zip(avals, in_axes)]
    fits = len(avals) == len(call_jaxpr.invars) and all(
        a.shape == v.aval.shape and a.dtype == v.aval.dtype for a, v in zip(rows, call_jaxpr.invars)
    )
    if not fits or any(axis is not None and a.shape[axis] != axis_size for a, axis in zip(avals, in_axes)):
        given, wanted = ([a.str_short() for a in types] for types in (avals, call_jaxpr.in_avals))
        raise TypeError(
            f"xla_pmap: {name} takes rows ({', '.join(wanted)}) and was given ({', '.join(given)}), of which "
            f"{axis_size} rows are along the axes {tuple(in_axes)}."
        )
    return [_with_rows(v.aval, axis, axis_size) for v, axis in zip(call_jaxpr.outvars, out_axes)]


def _with_rows(aval: ShapedArray, axis: int | None, size: int) -> ShapedArray:
    return aval if axis is None else aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def pmap_mesh(*, axis_name: Any, axis_size: int, name: str, backend: Any, devices: Any, **_: Any) -> Mesh:
    """The devices in a line: the first of those asked for, or of the backend.

    Raises:
      ValueError: there are fewer of them than rows, or no rows.
    """
    if axis_size == 0:
        raise ValueError(f"pmap: {name} is mapped over no rows, and runs on a device for each. vmap maps over none.")
    found = platforms.local_devices(backend=backend) if devices is None else devices_of_names(devices)
    if len(found) < axis_size:
        more = (
            f"set their number before first use, with config.update('num_cpu_devices', {axis_size}) or "
            f"XPR_NUM_CPU_DEVICES={axis_size}"
            if found[0].platform == "cpu" and devices is None
            else "name more devices"
        )
        raise ValueError(
            f"pmap: {name} is mapped over {axis_size} rows, each on a device of its own, and there "
            f"{'is' if len(found) == 1 else 'are'} {len(found)}: {', '.join(map(str, found))}. Map {len(found)} rows, "
            f"and several on each with a vmap inside the pmap; or {more}; or use vmap."
        )
    return Mesh(np.array(found[:axis_size], object), (axis_name,))


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, call_jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes,
    **params: Any,
) -> list[Value]:  # fmt: skip
    """A manual region in which each device has one row; inside another one the rows are computed side by side."""
    if b.module.manual:
        return _lower_side_by_side(b, operands, avals, call_jaxpr, in_axes, out_axes, params)
    name = params["axis_name"]

    def body(inner: Builder, parts: list[Value]) -> list[Value]:
        rows = [
            x if d is None else inner.reshape(x, v.aval.shape) for x, d, v in zip(parts, in_axes, call_jaxpr.invars)
        ]
        outs = lower_eqns(inner, call_jaxpr, rows)
        return [
            x if axis is None else inner.reshape(x, _with_rows(x.aval, axis, 1).shape)
            for x, axis in zip(outs, out_axes)
        ]

    return b.manual_region(
        pmap_mesh(**params), [name], operands, [_spec(axis, name) for axis in in_axes], avals,
        [_spec(axis, name) for axis in out_axes], body,
    )  # fmt: skip


def _spec(axis: int | None, name: Any) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)


def _side_by_side(jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes, params: dict[str, Any]) -> ClosedJaxpr:
    """The jaxpr from whole operands to whole results, on one device; remembered with the jaxpr."""
    closed, _ = batch_jaxpr(jaxpr, params["axis_size"], tuple(in_axes), params["axis_name"], _all(jaxpr))
    return closed


def _all(jaxpr: Jaxpr) -> tuple[bool, ...]:
    return (True,) * len(jaxpr.outvars)


def _lower_side_by_side(
    b: Builder, operands: list[Value], avals: list[ShapedArray], jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes,
    params: dict[str, Any],
) -> list[Value]:  # fmt: skip
    closed = _side_by_side(jaxpr, in_axes, out_axes, params)
    outs = lower_eqns(b, closed.jaxpr, [*constants(b, closed), *operands])
    results = []
    for x, axis, aval in zip(outs, out_axes, avals):
        if axis is None:
            row = aval.update(shape=(1, *aval.shape))
            limits = ", ".join(map(str, row.shape))
            zeros, ones = ", ".join("0" * row.ndim), ", ".join("1" * row.ndim)
            first = b.op(
                "stablehlo.slice", (x,), row,
                f"start_indices = array<i64: {zeros}>, limit_indices = array<i64: {limits}>, "
                f"strides = array<i64: {ones}>",
            )  # fmt: skip
            results.append(b.reshape(first, aval.shape))
        else:
            order = list(range(1, x.aval.ndim))
            order.insert(axis, 0)
            results.append(b.transpose(x, order))
    return results


def _reference(
    values: Sequence[Any], *, call_jaxpr: Jaxpr, in_axes: Axes, out_axes: Axes, **params: Any
) -> list[np.ndarray]:
    closed = _side_by_side(call_jaxpr, in_axes, out_axes, params)
    outs = reference_eval(closed.jaxpr, closed.consts, *values)
    return [x[0] if axis is None else np.moveaxis(x, 0, axis) for x, axis in zip(outs, out_axes)]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: Jaxpr, **params: Any) -> Any:
    """Maps the jvp of the jaxpr; tangents lie as their primals do."""
    in_axes, out_axes = params["in_axes"], params["out_axes"]
    is_active = tuple(type(t) is not Zero for t in tangents)
    with _in_scope(params):
        closed, out_active = jvp_jaxpr(call_jaxpr, is_active)
    results = _mapped(
        closed,
        [*primals, *(t for t in tangents if type(t) is not Zero)],
        [*in_axes, *_those(in_axes, is_active)],
        [*out_axes, *_those(out_axes, out_active)],
        params,
    )
    n = len(out_active)
    avals = [_with_rows(v.aval, axis, params["axis_size"]) for v, axis in zip(call_jaxpr.outvars, out_axes)]
    return results[:n], with_zeros(results[n:], out_active, avals)


def _those(axes: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
    return [axis for axis, wanted in zip(axes, chosen) if wanted]


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """One mapped jaxpr for the results and residuals, whose rows stay where they are, and one for the tangents."""
    jaxpr, in_axes, out_axes = params["call_jaxpr"], params["in_axes"], params["out_axes"]
    is_active = tuple(type(t) is not Zero for t in tangents)
    with _in_scope(params):
        split = linearize_jaxpr(jaxpr, is_active)
    primal, n = constvars_to_invars(split.primal), len(jaxpr.outvars)
    number = len(primal.outvars) - n
    given = trace.parent.process(  # type: ignore[union-attr]  # never the bottom
        xla_pmap_p,
        [*split.primal.consts, *primals],
        pmap_params(
            primal, [*[None] * len(split.primal.consts), *in_axes], [*out_axes, *[0] * number], **_kept(params)
        ),
    )
    outs, computed = given[:n], given[n:]
    avals = [_with_rows(v.aval, axis, params["axis_size"]) for v, axis in zip(jaxpr.outvars, out_axes)]
    if not any(split.active_outs):
        return outs, with_zeros([], split.active_outs, avals)
    axes = [0 if source is None else in_axes[source] for source in split.residual_sources]
    out_tangents = _mapped(
        ClosedJaxpr(split.linear),
        [*split.residuals(primals, computed), *(t for t in tangents if type(t) is not Zero)],
        [*axes, *_those(in_axes, is_active)],
        _those(out_axes, split.active_outs),
        params,
    )
    return outs, with_zeros(out_tangents, split.active_outs, avals)


def _transpose(cts: Sequence[Any], operands: Sequence[Any], *, call_jaxpr: Jaxpr, **params: Any) -> list[Any]:
    """Maps the transposed jaxpr. What all devices got has the sum of all their cotangents."""
    in_axes, out_axes, size = params["in_axes"], params["out_axes"], params["axis_size"]
    is_linear = tuple(type(x) is Linear for x in operands)
    has_ct = tuple(type(ct) is not Zero for ct in cts)
    with _in_scope(params):
        closed, reached = transpose_jaxpr(call_jaxpr, is_linear, has_ct)
    shares = [
        div(ct, scalar(size, ct)) if axis is None else ct for ct, axis in zip(cts, out_axes) if type(ct) is not Zero
    ]
    known = [(x, axis) for x, axis in zip(operands, in_axes) if type(x) is not Linear]
    wanted = _those(_those(in_axes, is_linear), reached)
    outs = _mapped(
        closed,
        [*(x for x, _ in known), *shares],
        [*(axis for _, axis in known), *_those(out_axes, has_ct)],
        [0 if axis is None else axis for axis in wanted],
        params,
    )
    totals = iter([reduce_sum(ct, (0,)) if axis is None else ct for ct, axis in zip(outs, wanted)])
    found = iter([next(totals) if has else None for has in reached])
    return [next(found) if linear else None for linear in is_linear]


def _batch(size: int, values: Sequence[Any], dims: Axes, **params: Any) -> Any:
    return _batch_named(None, size, values, dims, **params)


def _batch_named(
    name: Any, size: int, values: Sequence[Any], dims: Axes, /, *, call_jaxpr: Jaxpr, **params: Any
) -> Any:
    """Maps the batched jaxpr: each device has one of its rows of every row."""
    in_axes, out_axes = params["in_axes"], params["out_axes"]
    axes = [axis if None in (axis, d) else axis + (axis >= d) for axis, d in zip(in_axes, dims)]
    row_dims = [d if None in (axis, d) else d - (axis < d) for axis, d in zip(axes, dims)]
    with _in_scope(params):
        shadowed = name == params["axis_name"]
        closed, found = batch_jaxpr(call_jaxpr, size, tuple(row_dims), None if shadowed else name)
    outs_at = [o if None in (o, e) else o + (o > e) for o, e in zip(out_axes, found)]
    outs = _mapped(closed, values, axes, outs_at, params)
    return outs, [e if None in (o, e) else e + (o <= e) for o, e in zip(outs_at, found)]


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    donated = tuple([i for i, given_up in enumerate(params["donated_invars"]) if given_up])
    return run_operation(xla_pmap_p, args, params, donated)


def pmap_program(args: Sequence[Any], params: dict[str, Any]) -> PartitionedExecutable:
    """The program that evaluates the operation."""
    return program_for(operation_jaxpr(xla_pmap_p, args, params), args, "xla_pmap", pmap_mesh(**params))


def _dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    """Maps the part of the jaxpr that the used results need."""
    params = eqn.params
    smaller, inputs = smaller_call(params["call_jaxpr"], used)
    kept = {key: tuple(_those(params[key], inputs)) for key in ("in_axes", "donated_invars")}
    return eqn.replace(
        invars=_those(eqn.invars, inputs),
        outvars=_those(eqn.outvars, used),
        params={
            **params, **kept, "call_jaxpr": smaller, "out_axes": tuple(_those(params["out_axes"], used)),
            "global_arg_shapes": params["global_arg_shapes"][: len(smaller.invars)],
        },
    )  # fmt: skip


def _threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], *, call_jaxpr: Jaxpr, **params: Any) -> Any:
    """Each device has the state; afterwards it is that of the first one which failed."""
    n = len(state)
    with _in_scope(params):
        jaxpr = thread(call_jaxpr)
    axes, out_axes = [*[None] * n, *params["in_axes"]], [*[0] * n, *params["out_axes"]]
    outs = xla_pmap_p.bind(*state, *values, **pmap_params(jaxpr, axes, out_axes, **_kept(params)))
    return first_failed(outs[:n]), outs[n:]


xla_pmap_p = register(
    Primitive(
        "xla_pmap",
        abstract=_abstract,
        params=(
            "call_jaxpr",
            "axis_name",
            "axis_size",
            "global_axis_size",
            "global_arg_shapes",
            "in_axes",
            "out_axes",
            "donated_invars",
            "devices",
            "backend",
            "name",
        ),
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=_batch,
        linearize=_linearize,
        batch_named=_batch_named,
        evaluate=_evaluate,
        dce=_dce,
        split=split_results,
        threaded=_threaded,
        mesh=pmap_mesh,
        multiple_results=True,
        regions=lambda call_jaxpr, axis_size, **params: whole_call(call_jaxpr, times=axis_size),
        call=True,
    )
)
