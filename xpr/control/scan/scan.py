"""scan: a loop over the leading axis of arrays that carries state, as one operation.

Operands are laid out `consts | carry | xs`, and so are the arguments of the body, which has one row of each of the xs;
results are `carry | ys`, and the body returns one row of each of the ys. `loop_groups` are the groups of these layouts.
Every rule turns the loop into another loop with a body derived from the first and cached with it.

The rules serve the loops of bounded.py too: their first argument is a function that applies the new loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import not_
from typing import Any

from xpr.compile.evaluate import run_operation
from xpr.control.activity import Flags, is_active, least_fixed_point
from xpr.control.groups import Groups, consts_after, mask, partition, rearranged, split_list
from xpr.control.refs import RefOperands
from xpr.control.scan.layout import Bind, affected_operands, carry_fixed_point, loop_groups
from xpr.control.scan.linearize import loop_linearize
from xpr.control.scan.lowering import scan_lower, scan_reference
from xpr.control.scan.on_arrays import loop_on_arrays
from xpr.control.scan.partial_eval import loop_split
from xpr.control.scan.transpose import loop_transpose
from xpr.control.tracing import as_closed, refuse_closed
from xpr.core.avals import ShapedArray, aval_of, same_kind, same_types, types_of
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, constvars_to_invars
from xpr.core.primitive import Primitive, register
from xpr.core.regions import Region
from xpr.passes.dce import dce_jaxpr
from xpr.passes.discharge import uses_of_refs
from xpr.primitives.shapes import instantiate, mapped_to, move_mapped_axis
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.jvp import jvp_jaxpr, with_zeros

__all__ = ["scan_p"]


def bind_scan(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    carry: Sequence[Any],
    xs: Sequence[Any],
    like: dict[str, Any],
    linear: Sequence[bool] | None = None,
    **changes: Any,
) -> list[Any]:
    """Applies a scan of another body, with the other parameters of `like` except for `changes`."""
    if uses_of_refs(jaxpr).used:
        return _bind_on_values(jaxpr, consts, carry, xs, like, **changes)
    operands = [*consts, *carry, *xs]
    flags = tuple(linear) if linear is not None else (False,) * len(operands)
    params = {**like, "jaxpr": jaxpr, "linear": flags, "num_carry": len(carry), "num_consts": len(consts), **changes}
    return scan_p.bind(*operands, **params)


def _bind_on_values(
    jaxpr: Jaxpr, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], like: dict[str, Any], **changes: Any
) -> list[Any]:
    """Applies a scan of a body that uses refs: the values of those that it writes are carried, or are rows of the xs.

    The operands of the new body are `constants, refs that are passed on | carry, values of written refs | xs`, its
    results `carry, values of written refs | ys, rows of written refs among the xs`.
    """
    operands = Groups(consts=len(consts), carry=len(carry), xs=len(xs))
    refs = RefOperands([jaxpr], [*consts, *carry, *xs])
    values, carry, xs = operands.split(refs.operands)
    written = operands.part("consts", refs.written)
    is_constant = list(map(not_, written))
    constants, written_values = partition(values, is_constant)
    const_vars, carry_vars, row_vars, passed_vars = split_list(refs.jaxprs[0].invars, *operands.sizes)
    constant_vars, written_vars = partition(const_vars, is_constant)
    next_carry, ys, next_values, next_rows = split_list(
        refs.jaxprs[0].outvars, len(carry), len(jaxpr.outvars) - len(carry), sum(written)
    )
    body = refs.jaxprs[0].replace(
        invars=[*constant_vars, *passed_vars, *carry_vars, *written_vars, *row_vars],
        outvars=[*next_carry, *next_values, *ys, *next_rows],
    )
    outs = bind_scan(body, [*constants, *refs.passed], [*carry, *written_values], xs, like, **changes)
    last_carry, last_values, ys, rows = split_list(outs, len(carry), len(written_values), len(ys))
    refs.store([*last_values, *rows])
    return [*last_carry, *ys]


def loop_abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
    jaxpr, length = params["jaxpr"], params["length"]
    refuse_closed("scan", jaxpr)
    operands, results = loop_groups(params)
    consts, carry, xs = operands.split(avals)
    rows = [a.without_axis(0) if a.is_high or a.shape[:1] == (length,) else None for a in xs]
    arguments = [*consts, *carry, *rows]
    expected = jaxpr.in_avals
    if len(avals) != len(expected) or any(a is None or not same_kind(a, w) for a, w in zip(arguments, expected)):
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        raise TypeError(
            f"scan: the body takes ({types_of(expected)}), of which the last {len(expected) - num_consts} after "
            f"{num_consts} constants and {num_carry} carries are rows of arrays of length {length}; "
            f"the operands are ({types_of(avals)})."
        )
    carry_out, ys = results.split(jaxpr.out_avals)
    num_carry = params["num_carry"]
    if len(carry) != num_carry or not same_types(carry, carry_out):
        raise TypeError(
            f"scan: the {num_carry} carries must come out of the body as they go in; they go in as "
            f"({types_of(carry)}), and come out as ({types_of(carry_out)})."
        )
    return [*carry_out, *(y.with_axis(0, length) for y in ys)]


# -- jvp: one loop that carries values and tangents.


def loop_jvp(bind: Bind, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    body, (operands, results) = params["jaxpr"], loop_groups(params)

    def trace(active: Flags, forced: Flags) -> Any:
        transformed = jvp_jaxpr(body, active, forced)
        return transformed, transformed[1]

    (closed, out_active), active = carry_fixed_point(params, is_active(tangents), trace)
    in_tangents, out_tangents = operands.masked(active), results.masked(out_active)
    jaxpr = rearranged(closed.jaxpr, operands, in_tangents, results, out_tangents)
    num_consts = len(operands.positions("consts")) + len(in_tangents.positions("consts"))
    consts, carry, xs = operands.split(primals)
    t_consts, t_carry, t_xs = map(mask, operands.split(tangents), operands.split(active))
    outs = bind(
        consts_after(ClosedJaxpr(jaxpr, closed.consts), num_consts),
        [*consts, *t_consts, *closed.consts],
        [*carry, *map(instantiate, t_carry)],
        [*xs, *t_xs],
        params,
    )
    outs, moved = results.deinterleave(outs, out_tangents)
    return outs, with_zeros(moved, out_active, [aval_of(x) for x in outs])


# -- batch: one loop over rows that are arrays of rows.


def loop_batch(
    bind: Bind, axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any
) -> Any:
    body, (operands, results) = params["jaxpr"], loop_groups(params)
    d_consts, d_carry, d_xs = operands.split(dims)
    _, mapped, xs_mapped = operands.split(affected_operands(params, [d is not None for d in dims], False))
    in_dims = (*d_consts, *(0 if m else None for m in (*mapped, *xs_mapped)))
    rows_first = (*mapped, *[False] * len(results.positions("ys")))
    closed, out_dims = batch_jaxpr(body, size, in_dims, axis_name, rows_first)
    carry_dims, y_dims = results.split(out_dims)
    consts, carry, xs = operands.split(values)
    if [d is not None for d in carry_dims] != mapped:  # a collective mapped an unmapped carry
        carry = [x if d is None else mapped_to(x, start, size) for x, start, d in zip(carry, d_carry, carry_dims)]
        return loop_batch(bind, axis_name, size, [*consts, *carry, *xs], [*d_consts, *carry_dims, *d_xs], **params)
    outs = bind(
        consts_after(closed, len(consts)),
        [*consts, *closed.consts],
        [mapped_to(x, d, size) if m else x for x, d, m in zip(carry, d_carry, mapped)],
        [move_mapped_axis(x, d, 1) for x, d in zip(xs, d_xs)],
        params,
    )
    return outs, [*carry_dims, *(None if d is None else 1 for d in y_dims)]


# -- dce: a loop without the carries and ys that are not read.


def loop_dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    body, (operands, results) = eqn.params["jaxpr"], loop_groups(eqn.params)
    start, ys = results.split(used)

    def read(carry: Flags) -> list[bool]:
        return operands.part("carry", dce_jaxpr(body, (*carry, *ys))[1])

    carry = least_fixed_point(tuple(start), read)
    consts, _, xs = operands.split([False] * len(body.invars))
    smaller, inputs = dce_jaxpr(body, (*carry, *ys), (*consts, *carry, *xs))
    num_consts, num_carry, _ = operands.masked(inputs).sizes
    changes = {
        "jaxpr": smaller,
        "linear": tuple(mask(eqn.params["linear"], inputs)),
        "num_consts": num_consts,
        "num_carry": num_carry,
    }
    outvars = mask(eqn.outvars, (*carry, *ys))
    return eqn.replace(invars=mask(eqn.invars, inputs), outvars=outvars, params={**eqn.params, **changes})


# -- threaded: a loop with the state as its last carry.


def loop_threaded(bind: Bind, state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
    body, n = thread(params["jaxpr"]), len(state)
    (state_in, invars), (state_out, outvars) = split_list(body.invars, n), split_list(body.outvars, n)
    body = body.replace(invars=invars, outvars=outvars)
    operands, results = loop_groups({**params, "jaxpr": body})
    in_carry, out_carry = Groups(consts=0, carry=n, xs=0), Groups(carry=n, ys=0)
    moved = body.replace(
        invars=operands.interleave(invars, in_carry, state_in),
        outvars=results.interleave(outvars, out_carry, state_out),
    )
    consts, carry, xs = operands.split(values)
    outs, state = results.deinterleave(bind(moved, consts, [*carry, *state], xs, params), out_carry)
    return state, outs


def loop_regions(
    *, jaxpr: Jaxpr, length: int, num_consts: int, num_carry: int, first: int = 0, counts: int = 0, **params: Any
) -> list[Region]:
    """The body of a loop with `first` operands and `counts` results before those of a scan."""
    operands = tuple(range(first, first + len(jaxpr.invars)))
    results = tuple([(counts + i,) for i in range(len(jaxpr.outvars))])
    carry = tuple([num_consts + i if i < num_carry else None for i in range(len(jaxpr.outvars))])
    return [Region(jaxpr, "loop", operands, results, carry, length)]


def _from_jax(args: Sequence[Any], params: dict[str, Any]) -> Any:
    closed = as_closed(params.get("jaxpr"))
    if closed is None:
        return None
    (body,) = closed
    more = len(body.consts)
    linear = (*[False] * more, *params.get("linear", [False] * len(args)))
    changes = {"jaxpr": constvars_to_invars(body), "num_consts": params["num_consts"] + more, "linear": linear}
    return [*body.consts, *args], {**params, **changes}


scan_p = register(
    Primitive(
        "scan",
        scope=lambda **params: "while",
        abstract=loop_abstract,
        params=("jaxpr", "length", "reverse", "num_consts", "num_carry", "linear", "unroll"),
        reference=scan_reference,
        lower=scan_lower,
        jvp=partial(loop_jvp, bind_scan),
        transpose=partial(loop_transpose, bind_scan, True),
        batch=partial(loop_batch, bind_scan, None),
        linearize=partial(loop_linearize, bind_scan, bind_scan, True),
        batch_named=partial(loop_batch, bind_scan),
        evaluate=lambda args, params: run_operation(scan_p, args, params),
        from_jax=_from_jax,
        dce=loop_dce,
        split=loop_split,
        threaded=partial(loop_threaded, bind_scan),
        on_arrays=partial(loop_on_arrays, bind_scan),
        multiple_results=True,
        regions=loop_regions,
        call=True,
    )
)
