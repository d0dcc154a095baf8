"""scan: a loop over the rows of arrays that carries state, as one operation.

Operands are laid out `consts | carry | xs`, and so are the arguments of the body, which has one row of each of the xs;
results are `carry | ys`, and the body gives one row of each of the ys. `Layout` cuts lists so laid out. Every rule
turns the loop into another loop with a body made from the first, which is remembered with it.

The rules serve the loops of bounded.py too: their first argument says how to apply the loop they make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xpr.compile.evaluate import run_operation
from xpr.control.activity import Flags, picked, reached_outputs, settle, spread
from xpr.control.scan.layout import Bind, Layout, is_active, layout_of
from xpr.control.scan.linearize import loop_linearize
from xpr.control.scan.lowering import scan_lower, scan_reference
from xpr.control.scan.partial_eval import loop_split
from xpr.control.scan.transpose import loop_transpose
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from xpr.core.primitive import Primitive, register
from xpr.core.regions import Region
from xpr.passes.dce import dce_jaxpr
from xpr.primitives.shapes import instantiate, mapped_to
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.jvp import jvp_jaxpr, with_zeros


def bind_scan(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    carry: Sequence[Any],
    xs: Sequence[Any],
    like: dict[str, Any],
    linear: Sequence[bool] | None = None,
    **changes: Any,
) -> list[Any]:
    """Applies a scan of another body, its other parameters those of `like` but for `changes`."""
    operands = [*consts, *carry, *xs]
    flags = tuple(linear) if linear is not None else (False,) * len(operands)
    params = {**like, "jaxpr": jaxpr, "linear": flags, "num_carry": len(carry), "num_consts": len(consts), **changes}
    return scan_p.bind(*operands, **params)


def loop_abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
    jaxpr, length = params["jaxpr"], params["length"]
    layout = layout_of(params)
    consts, carry, xs = layout.operands(avals)
    rows = [a.update(shape=a.shape[1:]) if a.shape[:1] == (length,) else None for a in xs]
    given = [*consts, *carry, *rows]
    wanted = jaxpr.in_avals
    if len(given) != len(wanted) or any(
        a is None or a.shape != w.shape or a.dtype != w.dtype for a, w in zip(given, wanted)
    ):
        raise TypeError(
            f"scan: the body takes ({_types(wanted)}), of which the last {len(wanted) - layout.num_consts} after "
            f"{layout.num_consts} constants and {layout.num_carry} carries are rows of arrays of length {length}; "
            f"the operands are ({_types(avals)})."
        )
    carry_out, ys = layout.results(jaxpr.out_avals)
    if len(carry) != layout.num_carry or [(a.shape, a.dtype) for a in carry] != [(a.shape, a.dtype) for a in carry_out]:
        raise TypeError(
            f"scan: the {layout.num_carry} carries must come out of the body as they go in; they go in as "
            f"({_types(carry)}), and come out as ({_types(carry_out)})."
        )
    return [*carry_out, *(y.update(shape=(length, *y.shape)) for y in ys)]


def _types(avals: Sequence[ShapedArray]) -> str:
    return ", ".join(a.str_short() for a in avals)


# -- Bodies rearranged: transformations of a jaxpr put its own arguments first and what they add last.


def _rearranged(
    closed: ClosedJaxpr,
    key: Any,
    arguments: Callable[[list[Var]], tuple[list[Var], list[Var]]],
    results: Callable[[list[Any]], Any],
) -> Jaxpr:
    """A jaxpr with other orders of arguments and results; remembered with it.

    `arguments` gives the constants and the others; the jaxpr's own constants come between.
    """
    jaxpr = closed.jaxpr
    if key not in jaxpr.memo:
        consts, others = arguments(jaxpr.invars)
        invars = [*consts, *jaxpr.constvars, *others]
        jaxpr.memo[key] = jaxpr.replace(constvars=[], invars=invars, outvars=list(results(jaxpr.outvars)))
    return jaxpr.memo[key]


# -- jvp: one loop that carries the tangents beside the values.


def loop_jvp(bind: Bind, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    body, layout = params["jaxpr"], layout_of(params)
    consts, start, xs = layout.operands(is_active(tangents))
    num_ys = len(body.outvars) - layout.num_carry

    def trace(carry: Flags, forced: Flags) -> Any:
        made = jvp_jaxpr(body, (*consts, *carry, *xs), forced + (False,) * num_ys)
        return made, made[1][: layout.num_carry]

    bound = spread(tuple(start), lambda c: reached_outputs(body, (*consts, *c, *xs), True)[: layout.num_carry])
    (closed, out_active), carry = settle(tuple(start), bound, trace)

    n, c = len(body.invars), layout.num_carry
    of_tangents = Layout(sum(consts), sum(carry))
    carry_active, ys_active = layout.results(out_active)

    def arguments(invars: list[Var]) -> tuple[list[Var], list[Var]]:
        own, extra = layout.operands(invars[:n]), of_tangents.operands(invars[n:])
        of_consts, *others = [[*a, *b] for a, b in zip(own, extra)]
        return of_consts, [v for part in others for v in part]

    def results(outvars: list[Any]) -> list[Any]:
        own, extra = outvars[: len(out_active)], outvars[len(out_active) :]
        m = sum(carry_active)
        return [*own[:c], *extra[:m], *own[c:], *extra[m:]]

    jaxpr = _rearranged(closed, ("scan jvp", layout.num_consts, c), arguments, results)
    p_consts, p_carry, p_xs = layout.operands(primals)
    t_consts, t_carry, t_xs = layout.operands(tangents)
    outs = bind(
        jaxpr,
        [*p_consts, *picked(t_consts, consts), *closed.consts],
        [*p_carry, *(instantiate(t) for t in picked(t_carry, carry))],
        [*p_xs, *picked(t_xs, xs)],
        params,
    )
    m = sum(carry_active)
    own = [*outs[:c], *outs[c + m : c + m + num_ys]]
    extra = [*outs[c : c + m], *outs[c + m + num_ys :]]
    avals = [aval_of(x) for x in own]
    return own, with_zeros(extra, [*carry_active, *ys_active], avals)


# -- batch: one loop over rows that are arrays of rows.


def loop_batch(
    bind: Bind, axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any
) -> Any:
    body, layout = params["jaxpr"], layout_of(params)
    d_consts, d_carry, d_xs = layout.operands(dims)
    start = tuple([d is not None for d in d_carry])
    consts_mapped, xs_mapped = [d is not None for d in d_consts], [d is not None for d in d_xs]

    def reached(carry: Flags) -> list[bool]:
        return reached_outputs(body, (*consts_mapped, *carry, *xs_mapped), False)[: layout.num_carry]

    mapped = spread(start, reached)
    in_dims = (*d_consts, *(0 if m else None for m in mapped), *(0 if m else None for m in xs_mapped))
    rows_first = mapped + (False,) * (len(body.outvars) - layout.num_carry)
    closed, out_dims = batch_jaxpr(body, size, in_dims, axis_name, rows_first)
    if tuple(d is not None for d in out_dims[: layout.num_carry]) != mapped:  # a collective made rows of what had none
        mapped = tuple(d is not None for d in out_dims[: layout.num_carry])
        return loop_batch(bind, axis_name, size, *_with_rows(values, dims, layout, mapped, size), **params)
    consts, carry, xs = layout.operands(values)
    outs = bind(
        _constants_behind(closed, layout),
        [*consts, *closed.consts],
        [mapped_to(x, d, size) if m else x for x, d, m in zip(carry, d_carry, mapped)],
        [x if d is None else mapped_to(x, d, size, 1) for x, d in zip(xs, d_xs)],
        params,
    )
    carry_dims, y_dims = layout.results(out_dims)
    return outs, [*carry_dims, *(None if d is None else 1 for d in y_dims)]


def _constants_behind(closed: ClosedJaxpr, layout: Layout) -> Jaxpr:
    """A body with its constants behind the loop's."""

    def arguments(invars: list[Var]) -> tuple[list[Var], list[Var]]:
        return invars[: layout.num_consts], invars[layout.num_consts :]

    return _rearranged(closed, ("scan constants", layout.num_consts), arguments, list)


def _with_rows(
    values: Sequence[Any], dims: Sequence[int | None], layout: Layout, mapped: Flags, size: int
) -> tuple[list[Any], list[int | None]]:
    """The operands with more of the carry mapped."""
    consts, carry, xs = layout.operands(values)
    d_consts, d_carry, d_xs = layout.operands(dims)
    rows = [mapped_to(x, d, size) if m else x for x, d, m in zip(carry, d_carry, mapped)]
    return [*consts, *rows, *xs], [*d_consts, *(0 if m else None for m in mapped), *d_xs]


# -- dce: a loop without the carries and ys that nothing reads.


def loop_dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    params = eqn.params
    body, layout = params["jaxpr"], layout_of(params)
    start, ys = layout.results(used)
    n = len(body.invars) - layout.num_consts - layout.num_carry

    def read(carry: Flags) -> list[bool]:
        _, inputs = dce_jaxpr(body, (*carry, *ys))
        return layout.operands(inputs)[1]

    carry = spread(tuple(start), read)
    smaller, inputs = dce_jaxpr(body, (*carry, *ys), (False,) * layout.num_consts + carry + (False,) * n)
    kept = (*carry, *ys)
    invars = picked(eqn.invars, inputs)
    changes = {
        "jaxpr": smaller,
        "linear": tuple(picked(params["linear"], inputs)),
        "num_consts": sum(inputs[: layout.num_consts]),
        "num_carry": sum(carry),
    }
    return eqn.replace(invars=invars, outvars=picked(eqn.outvars, kept), params={**params, **changes})


# -- threaded: a loop that carries the state behind what it carries.


def loop_threaded(bind: Bind, state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
    body, layout, n = thread(params["jaxpr"]), layout_of(params), len(state)
    consts, carry, xs = layout.operands(body.invars[n:])
    carry_out, ys = layout.results(body.outvars[n:])
    moved = body.replace(invars=[*consts, *carry, *body.invars[:n], *xs], outvars=[*carry_out, *body.outvars[:n], *ys])
    consts, carry, xs = layout.operands(values)
    outs = bind(moved, consts, [*carry, *state], xs, params)
    c = layout.num_carry
    return outs[c : c + n], [*outs[:c], *outs[c + n :]]


def loop_regions(
    *, jaxpr: Jaxpr, length: int, num_consts: int, num_carry: int, first: int = 0, counts: int = 0, **params: Any
) -> list[Region]:
    """The body of a loop that has `first` operands and `counts` results in front of those of a scan."""
    operands = tuple(range(first, first + len(jaxpr.invars)))
    results = tuple([(counts + i,) for i in range(len(jaxpr.outvars))])
    carry = tuple([num_consts + i if i < num_carry else None for i in range(len(jaxpr.outvars))])
    return [Region(jaxpr, "loop", operands, results, carry, length)]


scan_p = register(
    Primitive(
        "scan",
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
        dce=loop_dce,
        split=loop_split,
        threaded=partial(loop_threaded, bind_scan),
        multiple_results=True,
        regions=loop_regions,
        call=True,
    )
)
