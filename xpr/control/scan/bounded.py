"""Loops over rows that end early: at a number of steps that is computed, or when the carry says so.

    bounded_scan   count | consts | carry | xs -> carry | ys                        takes the first `count` rows
    scan_until     consts of `until` | consts | carry | xs -> count | carry | ys    ends when `until` holds of the carry

The rows of ys that were not reached are zeros. `until` takes the first of the carries; transformations add others
behind. `bounded_scan` with `reverse` takes the same rows, the last one first; it is what `scan_until` becomes when it
is differentiated: by then the number of steps is known. But for the operands and results in front, all is laid out as
in scan.py, whose rules do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import reference_eval, run_operation
from xpr.compile.lower import lower_eqns
from xpr.control.activity import Flags, reached_outputs, spread
from xpr.control.scan.layout import Bind, Layout, layout_of
from xpr.control.scan.linearize import loop_linearize
from xpr.control.scan.lowering import COUNT, Loop, less, minus, next_count, zeros
from xpr.control.scan.partial_eval import loop_halves
from xpr.control.scan.scan import loop_abstract, loop_batch, loop_jvp, loop_regions, loop_threaded
from xpr.control.scan.transpose import loop_transpose
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var, constvars_to_invars, effects, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.regions import Region
from xpr.primitives import elementwise as e
from xpr.primitives.composites import iota
from xpr.primitives.reductions import reduce_and, reduce_max
from xpr.primitives.shapes import mapped_to, zeros_like_aval
from xpr.primitives.slicing import select
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.stage import stage


def _bind(
    primitive: Primitive,
    first: Sequence[Any],
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    carry: Sequence[Any],
    xs: Sequence[Any],
    like: dict[str, Any],
    linear: Sequence[bool] | None = None,
    **changes: Any,
) -> list[Any]:
    """Applies one of these loops with another body; `first` are the operands in front of those of a scan."""
    params = {**like, "jaxpr": jaxpr, "num_carry": len(carry), "num_consts": len(consts), **changes}
    return primitive.bind(*first, *consts, *carry, *xs, **params)


def _masked(body: Jaxpr, is_active: Callable[..., Any], first: Sequence[ShapedArray], layout: Layout) -> Jaxpr:
    """A body that keeps the carry, and gives zeros, where `is_active(first, consts, carry, xs)` doesn't hold.

    Its arguments are `first` and those of the body.
    """

    def run(*args: Any) -> list[Any]:
        given, own = args[: len(first)], args[len(first) :]
        active = is_active(given, *layout.operands(own))
        carry, ys = layout.results(eval_jaxpr(body, (), *own))
        kept = [select(active, new, old) for new, old in zip(carry, layout.operands(own)[1])]
        return [*kept, *(select(active, y, zeros_like_aval(y.aval)) for y in ys)]

    return constvars_to_invars(stage(run, [*first, *body.in_avals]))


# -- bounded_scan


def _bounded_abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
    return loop_abstract(avals[1:], **params)


def _bounded_reference(values: Sequence[Any], **params: Any) -> list[np.ndarray]:
    count, body, layout = int(values[0]), params["jaxpr"], layout_of(params)
    consts, carry, xs = layout.operands(values[1:])
    ys = [np.zeros((params["length"], *v.aval.shape), v.aval.dtype) for v in body.outvars[layout.num_carry :]]
    places = range(count)
    for i in reversed(places) if params["reverse"] else places:
        carry, rows = layout.results(reference_eval(body, (), *consts, *carry, *(x[i] for x in xs)))
        for stack, row in zip(ys, rows):
            stack[i] = row
    return [*carry, *ys]


def _bounded_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    """A while loop over (steps taken, carry, ys)."""
    count, body, layout = operands[0], params["jaxpr"], layout_of(params)
    consts, carry, xs = layout.operands(operands[1:])
    loop = Loop(body, consts, xs, layout.num_carry)

    def going(inner: Builder, values: list[Value]) -> Value:
        return less(inner, values[0], count)

    def advance(inner: Builder, values: list[Value]) -> list[Value]:
        taken = place = values[0]
        following = next_count(inner, taken)
        if params["reverse"]:
            place = minus(inner, count, following)
        return [following, *loop.step(inner, place, values[1:])]

    outs = [*carry, *zeros(b, avals[layout.num_carry :])]
    if not params["length"]:  # it has no row to read
        return outs
    return b.while_loop(going, advance, [b.constant(0, COUNT), *outs], ordered="ordered" in effects(body))[1:]


def _bounded_like(loop: JaxprEqn, count: Any) -> JaxprEqn:
    """The equation of a loop laid out as a scan, with a bound."""
    params = {name: loop.params[name] for name in ("jaxpr", "length", "reverse", "num_consts", "num_carry")}
    return loop.replace(invars=[count, *loop.invars], primitive=bounded_scan_p, params=params)


def _bounded_split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Two loops of as many steps, where that number is known."""
    if not is_known[0]:
        return [], [eqn]
    count, *operands = eqn.invars
    before, known, unknown = loop_halves(eqn.replace(invars=operands), is_known[1:])
    halves = [[_bounded_like(half, count)] if half.outvars else [] for half in (known, unknown)]
    return before + halves[0], halves[1]


def _bounded(count: Any) -> Bind:
    return partial(_bind, bounded_scan_p, [count])


def _bounded_batch(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    """One loop of as many steps as the longest row takes; the others stand still when they are done."""
    if dims[0] is None:
        return loop_batch(_bounded(values[0]), axis_name, size, values[1:], dims[1:], **params)
    body, layout, length = params["jaxpr"], layout_of(params), params["length"]
    counts = mapped_to(values[0], dims[0], size)

    def is_active(first: Sequence[Any], consts: Any, carry: Any, xs: Sequence[Any]) -> Any:
        return e.lt(first[1], first[0])

    masked = _masked(body, is_active, [COUNT, COUNT], layout)
    own_count, place, *own = masked.invars
    consts, carry, xs = layout.operands(own)
    moved = masked.replace(invars=[own_count, *consts, *carry, place, *xs])
    values_of, dims_of = layout.operands(values[1:]), layout.operands(dims[1:])
    operands = [counts, *values_of[0], *values_of[1], iota(np.int32, length), *values_of[2]]
    operand_dims = [0, *dims_of[0], *dims_of[1], None, *dims_of[2]]
    changed = {**params, "jaxpr": moved, "num_consts": layout.num_consts + 1}
    return loop_batch(_bounded(reduce_max(counts, (0,))), axis_name, size, operands, operand_dims, **changed)


def _bounded_regions(**params: Any) -> list[Region]:
    """Of `count | consts | carry | xs`, where the count says how often the body runs."""
    return [region._replace(chosen_by=(0,)) for region in loop_regions(**params, first=1)]


bounded_scan_p = register(
    Primitive(
        "bounded_scan",
        abstract=_bounded_abstract,
        params=("jaxpr", "length", "reverse", "num_consts", "num_carry"),
        reference=_bounded_reference,
        lower=_bounded_lower,
        jvp=lambda primals, tangents, **params: loop_jvp(
            _bounded(primals[0]), primals[1:], tangents[1:], **params
        ),
        transpose=lambda cts, operands, **params: [
            None, *loop_transpose(_bounded(operands[0]), False, cts, operands[1:], **params)
        ],
        batch=partial(_bounded_batch, None),
        linearize=lambda trace, primals, tangents, params: loop_linearize(
            _bounded(primals[0]), _bounded(primals[0]), False, trace, primals[1:], tangents[1:], params
        ),
        batch_named=_bounded_batch,
        evaluate=lambda args, params: run_operation(bounded_scan_p, args, params),
        split=_bounded_split,
        threaded=lambda state, thread, values, **params: loop_threaded(
            _bounded(values[0]), state, thread, values[1:], **params
        ),
        multiple_results=True,
        regions=_bounded_regions,
        call=True,
    )
)  # fmt: skip


# -- scan_until


def _until_abstract(avals: Sequence[ShapedArray], *, until: Jaxpr, until_nconsts: int, **params: Any) -> Any:
    return [COUNT, *loop_abstract(avals[until_nconsts:], **params)]


def _until_reference(values: Sequence[Any], *, until: Jaxpr, until_nconsts: int, **params: Any) -> list[np.ndarray]:
    body, layout = params["jaxpr"], layout_of(params)
    consts, carry, xs = layout.operands(values[until_nconsts:])
    ys = [np.zeros((params["length"], *v.aval.shape), v.aval.dtype) for v in body.outvars[layout.num_carry :]]
    i, watched = 0, len(until.invars) - until_nconsts
    while i < params["length"] and not reference_eval(until, (), *values[:until_nconsts], *carry[:watched])[0]:
        carry, rows = layout.results(reference_eval(body, (), *consts, *carry, *(x[i] for x in xs)))
        for stack, row in zip(ys, rows):
            stack[i] = row
        i += 1
    return [np.int32(i), *carry, *ys]


def _until_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, until: Jaxpr, until_nconsts: int, **params: Any
) -> list[Value]:
    """A while loop over (steps taken, carry, ys)."""
    body, layout = params["jaxpr"], layout_of(params)
    until_consts, watched = operands[:until_nconsts], len(until.invars) - until_nconsts
    consts, carry, xs = layout.operands(operands[until_nconsts:])
    loop = Loop(body, consts, xs, layout.num_carry)
    flag = ShapedArray((), dtypes.bool_)

    def going(inner: Builder, values: list[Value]) -> Value:
        (stop,) = lower_eqns(inner, until, [*until_consts, *values[1 : 1 + watched]])
        more = less(inner, values[0], inner.constant(params["length"], COUNT))
        return inner.op("stablehlo.and", [more, inner.op("stablehlo.not", [stop], flag)], flag)

    def advance(inner: Builder, values: list[Value]) -> list[Value]:
        return [next_count(inner, values[0]), *loop.step(inner, values[0], values[1:])]

    start = [b.constant(0, COUNT), *carry, *zeros(b, avals[1 + layout.num_carry :])]
    return b.while_loop(going, advance, start, ordered="ordered" in effects(body)) if params["length"] else start


class _Until:
    """Applies a `scan_until` for the rules of scan, which know nothing of the count: it is kept here."""

    __slots__ = ("count", "first")

    def __init__(self, first: Sequence[Any]):
        self.first = first

    def __call__(self, *args: Any, **changes: Any) -> list[Any]:
        self.count, *outs = _bind(scan_until_p, self.first, *args, **changes)
        return outs


def _until_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    n = params["until_nconsts"]
    bind = _Until(primals[:n])
    outs, out_tangents = loop_jvp(bind, primals[n:], tangents[n:], **params)
    return [bind.count, *outs], [Zero(COUNT.to_tangent_aval()), *out_tangents]


def _until_linearize(trace: Any, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """The same loop giving residuals, and a linear one of as many steps."""
    n = params["until_nconsts"]
    bind = _Until(primals[:n])

    def bind_linear(*args: Any) -> list[Any]:
        *bodies, like, linear = args
        like = {key: value for key, value in like.items() if not key.startswith("until")}
        return _bounded(bind.count)(*bodies, like, linear)

    outs, out_tangents = loop_linearize(bind, bind_linear, False, trace, primals[n:], tangents[n:], params)
    return [bind.count, *outs], [Zero(COUNT.to_tangent_aval()), *out_tangents]


def _until_batch(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    """One loop. Where rows stop apart it goes on until the last one does, and the others stand still."""
    n, until = params["until_nconsts"], params["until"]
    layout, watched = layout_of(params), len(until.invars) - n
    if dims[:n].count(None) == n and not any(_mapped_carry(dims[n:], params["jaxpr"], layout)[:watched]):
        bind = _Until(values[:n])
        outs, out_dims = loop_batch(bind, axis_name, size, values[n:], dims[n:], **params)
        return [bind.count, *outs], [None, *out_dims]
    rows = [x if d is None else mapped_to(x, d, size) for x, d in zip(values[:n], dims[:n])]
    row_dims = [None if d is None else 0 for d in dims[:n]]

    def is_active(first: Sequence[Any], consts: Any, carry: Sequence[Any], xs: Any) -> Any:
        return e.bitwise_not(eval_jaxpr(until, (), *first, *carry[:watched])[0])

    counted, c = _with_count(params["jaxpr"], layout), layout.num_carry
    loop = _masked(counted, is_active, until.in_avals[:n], Layout(layout.num_consts, c + 1))
    first, all_stop = _all_stop(until, size, (*row_dims, *(0,) * watched))
    consts, carry, xs = layout.operands(values[n:])
    d_consts, d_carry, d_xs = layout.operands(dims[n:])
    carry[:watched] = [mapped_to(x, d, size) for x, d in zip(carry[:watched], d_carry)]
    operands = [*rows, *consts, *carry, np.int32(0), *xs]
    operand_dims = [*row_dims, *d_consts, *(0,) * watched, *d_carry[watched:], None, *d_xs]
    changed = {"jaxpr": loop, "num_consts": n + layout.num_consts, "num_carry": c + 1}
    stop = {"until": all_stop, "until_nconsts": len(first) + n}
    outs, out_dims = loop_batch(
        _Until([*first, *rows]), axis_name, size, operands, operand_dims, **{**params, **changed, **stop}
    )
    return [outs[c], *outs[:c], *outs[c + 1 :]], [out_dims[c], *out_dims[:c], *out_dims[c + 1 :]]


def _until_threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
    """The state goes through the body, and before it through `until`; where that ended the loop, once more after it."""
    n, until, layout = params["until_nconsts"], params["until"], layout_of(params)
    bind = _Until(values[:n])
    loop = {**params, "until": thread.without(until)}
    if not thread.sees(until):
        state, outs = loop_threaded(bind, state, thread, values[n:], **loop)
        return state, [bind.count, *outs]

    def asked(state: Sequence[Any], consts: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
        return thread.evaluate(until, state, [*consts, *carry[: len(until.invars) - n]])[: len(state)]

    def asking(body: Jaxpr) -> Jaxpr:
        def run(*args: Any) -> list[Any]:
            before, consts, own = args[:k], args[k : k + n], args[k + n :]
            return thread.evaluate(body, asked(before, consts, layout.operands(own)[1]), own)

        k = len(state)
        return constvars_to_invars(stage(run, [*map(aval_of, state), *until.in_avals[:n], *body.in_avals]))

    loop["num_consts"] += n
    after, outs = loop_threaded(bind, state, asking, values, **loop)
    ended = e.lt(bind.count, np.int32(params["length"]))
    kept = [select(ended, new, old) for new, old in zip(asked(after, values[:n], outs), after)]
    return kept, [bind.count, *outs]


def _all_stop(until: Jaxpr, size: int, dims: tuple[int | None, ...]) -> tuple[list[Any], Jaxpr]:
    """`until` for all rows together: whether it holds of every one."""
    closed, (out_dim,) = batch_jaxpr(until, size, dims)

    def run(*args: Any) -> list[Any]:
        (flags,) = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        return [flags if out_dim is None else reduce_and(flags, (0,))]

    staged = stage(run, closed.in_avals)
    return staged.consts, constvars_to_invars(staged)


def _until_split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The loop over what is known, where `until` looks at nothing else, and one of as many steps over the others."""
    n = eqn.params["until_nconsts"]
    watched = len(eqn.params["until"].invars) - n
    loop = eqn.replace(invars=eqn.invars[n:], outvars=eqn.outvars[1:])
    before, known, unknown = loop_halves(loop, is_known[n:])
    if not all(is_known[:n]) or not set(loop.outvars[:watched]) <= set(known.outvars):
        return [], [eqn]
    count = Var(COUNT) if type(eqn.outvars[0]) is DropVar else eqn.outvars[0]
    params = {**eqn.params, **{name: known.params[name] for name in ("jaxpr", "num_consts", "num_carry")}}
    first = eqn.replace(invars=[*eqn.invars[:n], *known.invars], outvars=[count, *known.outvars], params=params)
    return [*before, first], [_bounded_like(unknown, count)] if unknown.outvars else []


def _with_count(body: Jaxpr, layout: Layout) -> Jaxpr:
    """The body of a loop that also counts its steps, in a last carry."""
    count, following = Var(COUNT), Var(COUNT)
    consts, carry, xs = layout.operands(body.invars)
    carry_out, ys = layout.results(body.outvars)
    eqn = JaxprEqn([count, Literal(np.int32(1))], [following], e.add_p, {})
    return body.replace(
        invars=[*consts, *carry, count, *xs], outvars=[*carry_out, following, *ys], eqns=[*body.eqns, eqn]
    )


def _mapped_carry(dims: Sequence[Any], body: Jaxpr, layout: Layout) -> Flags:
    """Which carries have rows of their own."""
    consts, start, xs = layout.operands([d is not None for d in dims])
    return spread(tuple(start), lambda c: reached_outputs(body, (*consts, *c, *xs), False)[: layout.num_carry])


def _until_regions(*, until: Jaxpr, until_nconsts: int, **params: Any) -> list[Region]:
    """Of `until_consts | consts | carry | xs`; the results are `count | carry | ys`."""
    carry = until_nconsts + params["num_consts"]
    operands = (*range(until_nconsts), *range(carry, carry + len(until.invars) - until_nconsts))
    stop = Region(until, "predicate", operands, ((),), (None,), params["length"])
    return [stop, *loop_regions(**params, first=until_nconsts, counts=1)]


scan_until_p = register(
    Primitive(
        "scan_until",
        abstract=_until_abstract,
        params=("jaxpr", "length", "reverse", "num_consts", "num_carry", "until", "until_nconsts"),
        reference=_until_reference,
        lower=_until_lower,
        jvp=_until_jvp,
        transpose=Unsupported(
            "Where a loop stops is no linear function of anything; differentiation never asks for it."
        ),
        batch=partial(_until_batch, None),
        linearize=_until_linearize,
        batch_named=_until_batch,
        evaluate=lambda args, params: run_operation(scan_until_p, args, params),
        split=_until_split,
        threaded=_until_threaded,
        multiple_results=True,
        regions=_until_regions,
        call=True,
    )
)
