"""The inverses of conditionals whose predicate is known, of loops, and of rows on several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.control.activity import picked, reached_outputs, spread
from xpr.control.cond.cond import bind_cond, cond_p
from xpr.control.devices.xla_pmap import pmap_params, xla_pmap_p
from xpr.control.scan.layout import layout_of
from xpr.control.scan.scan import bind_scan, scan_p
from xpr.control.tracing import join_consts
from xpr.control.while_.while_loop import Loop, repeat, while_p
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import NamedAxis, axes_in_scope
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars, eval_jaxpr
from xpr.inversion.solutions import INVERSES, Solution, Unknown, is_unknown
from xpr.inversion.solving import solve
from xpr.passes.dce import dce_jaxpr
from xpr.primitives.elementwise import add, gt, sub
from xpr.primitives.shapes import full
from xpr.transforms.stage import stage

Flags = Sequence[bool]


def _known(values: Sequence[Any]) -> list[Any]:
    return [x for x in values if not is_unknown(x)]


def _log_det_aval(jaxpr: Jaxpr) -> Any:
    """The dtype that log-determinants of a jaxpr are summed in."""
    return np.result_type(*(v.aval.dtype for v in jaxpr.outvars if v.aval.dtype.kind in "fV"), np.float32)


def solved_jaxpr(jaxpr: Jaxpr, known_ins: Flags, known_outs: Flags, log_det: bool, what: str) -> ClosedJaxpr:
    """The jaxpr from known arguments and known results to the other arguments, all results, and the log-determinant."""
    avals = [v.aval for v, k in zip((*jaxpr.invars, *jaxpr.outvars), (*known_ins, *known_outs)) if k]
    dtype = _log_det_aval(jaxpr)

    def run(*args: Any) -> list[Any]:
        given = iter(args)
        ins = [next(given) if k else Unknown(v.aval) for v, k in zip(jaxpr.invars, known_ins)]
        outs = [next(given) if k else Unknown(v.aval) for v, k in zip(jaxpr.outvars, known_outs)]
        found, results, total = solve(jaxpr, ins, outs, log_det, lambda i: f"Argument {i} of {what}")
        if any(map(is_unknown, results)):
            results = eval_jaxpr(jaxpr, (), *found)
        total = full((), 0, dtype) if total is None else total
        return [*(x for x, k in zip(found, known_ins) if not k), *results, total]

    return stage(run, avals)


# -- cond


def _cond(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Solution | str:
    """The inverse of each branch, picked by the same index."""
    index, *given = operands
    if is_unknown(index):
        return "Which branch was taken is not known."
    if any(map(is_unknown, results)):
        return "Not all of its results are known."
    branches, known_ins = params["branches"], [not is_unknown(x) for x in given]
    everything = [True] * len(results)
    closed = [solved_jaxpr(b, known_ins, everything, log_det, "a branch of a cond") for b in branches]
    consts, jaxprs = join_consts(closed)
    found = bind_cond(tuple(jaxprs), index, [*consts, *_known(given), *results], {**params})
    places = [i for i, k in enumerate(known_ins, 1) if not k]
    return Solution(dict(zip(places, found)), lambda: found[-1])


# -- scan


def _scan(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Solution | str:
    """Forwards where the first carry is known and rows are looked for, else backwards from the last carry."""
    layout = layout_of(params)
    consts, carry, _ = layout.operands(operands)
    last, ys = layout.results(results)
    if any(map(is_unknown, consts)):
        return "What every step of it reads is not known."
    if any(map(is_unknown, ys)):
        return "Not all of its stacked results are known."
    if not any(map(is_unknown, carry)):
        return _rows(results, operands, log_det, params)
    if any(is_unknown(x) and is_unknown(y) for x, y in zip(carry, last)):
        return "Neither the first nor the last carry is known."
    return _backwards(results, operands, log_det, params)


def _rows(results: Sequence[Any], operands: Sequence[Any], log_det: bool, params: dict[str, Any]) -> Solution:
    """A scan whose body finds its rows from the carry and the rows of the results."""
    body, layout = params["jaxpr"], layout_of(params)
    consts, carry, xs = layout.operands(operands)
    ys = layout.results(results)[1]
    known_xs = [not is_unknown(x) for x in xs]
    k, n_unknown = len(carry), known_xs.count(False)
    known_ins = [True] * (len(consts) + k) + known_xs
    closed = solved_jaxpr(body, known_ins, [False] * k + [True] * len(ys), log_det, "the body of a scan")
    inner = constvars_to_invars(closed)
    found_rows, new_carry = inner.outvars[:n_unknown], inner.outvars[n_unknown : n_unknown + k]
    step = inner.replace(outvars=[*new_carry, *found_rows, inner.outvars[-1]])
    outs = bind_scan(step, [*closed.consts, *consts], carry, [*_known(xs), *ys], params)
    places = [len(consts) + k + i for i, known in enumerate(known_xs) if not known]
    last = {i: x for i, x in enumerate(outs[:k]) if is_unknown(results[i])}
    return Solution(dict(zip(places, outs[k:])), lambda: outs[-1], last)


def _backwards(
    results: Sequence[Any], operands: Sequence[Any], log_det: bool, params: dict[str, Any]
) -> Solution | str:
    """A scan in the other direction. Carries that depend on nothing unknown, counters, are computed beforehand."""
    body, layout = params["jaxpr"], layout_of(params)
    consts, carry, xs = layout.operands(operands)
    last, ys = layout.results(results)
    k, nc = len(carry), len(consts)
    known_xs = [not is_unknown(x) for x in xs]

    def reached(flags: tuple[bool, ...]) -> list[bool]:
        return reached_outputs(body, (*[False] * nc, *flags, *(not known for known in known_xs)), False)[:k]

    moving = spread(tuple(map(is_unknown, carry)), reached)
    if any(m and is_unknown(y) for m, y in zip(moving, last)):
        return "The last carry is not known."
    if any(m and not is_unknown(x) for m, x in zip(moving, carry)):
        return "Its first carry is known in part, and the rest of it mixes with that."
    counters = _counters(body, consts, carry, xs, moving, params)
    known_ins = [True] * nc + [not m for m in moving] + known_xs
    closed = solved_jaxpr(body, known_ins, [*moving, *[True] * len(ys)], log_det, "the body of a scan")
    inner, shift = constvars_to_invars(closed), len(closed.consts)
    n_counters, n_known = k - sum(moving), sum(known_xs)
    own = inner.invars[: shift + nc]
    counter_vars = inner.invars[shift + nc : shift + nc + n_counters]
    x_vars = inner.invars[shift + nc + n_counters : shift + nc + n_counters + n_known]
    rest = inner.invars[shift + nc + n_counters + n_known :]
    carry_vars, y_vars = rest[: sum(moving)], rest[sum(moving) :]
    outs = inner.outvars[: sum(moving) + known_xs.count(False)]
    step = inner.replace(
        invars=[*own, *carry_vars, *counter_vars, *x_vars, *y_vars], outvars=[*outs, inner.outvars[-1]]
    )
    end = [y for y, m in zip(last, moving) if m]
    rows = [*counters, *_known(xs), *ys]
    found = bind_scan(step, [*closed.consts, *consts], end, rows, {**params, "reverse": not params["reverse"]})
    places = [nc + i for i, m in enumerate(moving) if m]
    places += [nc + k + i for i, known in enumerate(known_xs) if not known]
    return Solution(dict(zip(places, found)), lambda: found[-1])


def _counters(
    body: Jaxpr, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], moving: Flags, params: dict[str, Any]
) -> list[Any]:
    """The values, before each step, of the carries that do not move with what is unknown."""
    still = [x for x, m in zip(carry, moving) if not m]
    if not still:
        return []
    nc, k = len(consts), len(carry)
    stand_ins = [v.aval for v in body.invars]

    def step(*args: Any) -> list[Any]:
        given = iter(args[nc : nc + len(still)])
        rows = iter(args[nc + len(still) :])
        full_carry = [_nothing(a) if m else next(given) for a, m in zip(stand_ins[nc : nc + k], moving)]
        full_rows = [_nothing(a) if is_unknown(x) else next(rows) for a, x in zip(stand_ins[nc + k :], xs)]
        outs = eval_jaxpr(body, (), *args[:nc], *full_carry, *full_rows)
        return [*(x for x, m in zip(outs[:k], moving) if not m), *args[nc : nc + len(still)]]

    rows = _known(xs)
    avals = [*map(aval_of, consts), *map(aval_of, still), *(_row(aval_of(x)) for x in rows)]
    closed = stage(step, avals)
    outs = bind_scan(constvars_to_invars(closed), [*closed.consts, *consts], still, rows, params)
    return outs[len(still) :]


def _row(aval: ShapedArray) -> ShapedArray:
    return aval.update(shape=aval.shape[1:])


def _nothing(aval: ShapedArray) -> Any:
    return full(aval.shape, 0, aval.dtype)


# -- while


def _while(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Solution | str:
    """As many steps back as there were, which are counted by a loop of what does not move with the unknown.

    Those carries, counters, are stepped back too, since what the steps read of them is not kept.
    """
    loop = Loop.of(operands, **params)
    if any(map(is_unknown, (*loop.cond_consts, *loop.body_consts))):
        return "What every step of it reads is not known."
    moving = loop.like(list(map(is_unknown, operands))).reached(False)
    if any(reached_outputs(loop.cond, [*[False] * len(loop.cond_consts), *moving], False)):
        return "How many steps it takes depends on what is not known."
    if any(m and is_unknown(y) for m, y in zip(moving, results)):
        return "The last carry is not known."
    if any(m and not is_unknown(x) for m, x in zip(moving, loop.carry)):
        return "Its first carry is known in part, and the rest of it mixes with that."
    still, consts = [not m for m in moving], loop.body_consts
    counters = _counting_loop(loop, moving)
    steps, *last = repeat(*counters, [np.int32(0), *picked(loop.carry, still)])
    counter_body, _ = dce_jaxpr(loop.body, still, [*[True] * len(consts), *still])
    name = "the body of a while"
    unknown = [True] * len(consts) + [False] * sum(still)
    back = solved_jaxpr(counter_body, unknown, [True] * sum(still), False, name)
    closed = solved_jaxpr(loop.body, [*[True] * len(consts), *still], moving, log_det, name)

    def step(left: Any, total: Any, *carry: Any) -> list[Any]:
        counted, moved = list(carry[: sum(still)]), carry[sum(still) :]
        counted = eval_jaxpr(back.jaxpr, back.consts, *consts, *counted)[: sum(still)]
        found = eval_jaxpr(closed.jaxpr, closed.consts, *consts, *counted, *moved)
        return [sub(left, np.int32(1)), add(total, found[-1]), *counted, *found[: sum(moving)]]

    start = [steps, full((), 0, closed.out_avals[-1].dtype), *last, *picked(results, moving)]
    found = repeat(lambda left, *_: gt(left, np.int32(0)), step, start)
    first = len(operands) - len(moving)
    places = [first + i for i, m in enumerate(moving) if m]
    ends = {i: x for i, x in zip([i for i, m in enumerate(moving) if not m], last) if is_unknown(results[i])}
    return Solution(dict(zip(places, found[2 + sum(still) :])), lambda: found[1], ends)


def _counting_loop(loop: Loop, moving: Flags) -> tuple[Any, Any]:
    """The predicate and the body of a loop that counts steps and carries what does not move."""

    def whole(counted: Sequence[Any]) -> list[Any]:
        given = iter(counted)
        return [_nothing(v.aval) if m else next(given) for v, m in zip(loop.body.outvars, moving)]

    def going(count: Any, *counted: Any) -> Any:
        return eval_jaxpr(loop.cond, (), *loop.cond_consts, *whole(counted))[0]

    def step(count: Any, *counted: Any) -> list[Any]:
        outs = eval_jaxpr(loop.body, (), *loop.body_consts, *whole(counted))
        return [add(count, np.int32(1)), *(x for x, m in zip(outs, moving) if not m)]

    return going, step


# -- xla_pmap


def _pmap(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Solution | str:
    """The inverse of each row, on its device."""
    known_ins = [not is_unknown(x) for x in operands]
    if any(map(is_unknown, results)):
        return "Not all of its results are known."
    if any(axis is None for axis, known in zip(params["in_axes"], known_ins) if not known):
        return "An operand that every device reads is not known."
    jaxpr, name = params["call_jaxpr"], "the function of a pmap"
    with axes_in_scope(NamedAxis(params["axis_name"], params["axis_size"])):
        closed = solved_jaxpr(jaxpr, known_ins, [True] * len(results), log_det, name)
    places = [i for i, known in enumerate(known_ins) if not known]
    given = [axis for axis, known in zip(params["in_axes"], known_ins) if known]
    found = xla_pmap_p.bind(
        *closed.consts, *_known(operands), *results,
        **pmap_params(
            constvars_to_invars(closed),
            [*[None] * len(closed.consts), *given, *params["out_axes"]],
            [*(params["in_axes"][i] for i in places), *params["out_axes"], 0],
            **{key: params[key] for key in ("axis_name", "axis_size", "name", "backend", "devices")},
        ),
    )  # fmt: skip
    return Solution(dict(zip(places, found)), lambda: found[-1])


INVERSES.update({cond_p: _cond, scan_p: _scan, while_p: _while, xla_pmap_p: _pmap})
