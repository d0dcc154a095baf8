"""Inverse rules of conditionals whose predicate is known, loops, and pmap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.control.activity import affected_outputs
from xpr.control.cond.cond import bind_cond, cond_p
from xpr.control.devices.xla_pmap import common_params, named_axis, pmap_params, xla_pmap_p
from xpr.control.groups import Groups, mask, merge, partition, split_list
from xpr.control.scan.layout import affected_operands, loop_groups
from xpr.control.scan.scan import bind_scan, scan_p
from xpr.control.tracing import join_consts
from xpr.control.while_.while_loop import Loop, repeat, while_p
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import axes_in_scope
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


def _log_det_dtype(jaxpr: Jaxpr) -> np.dtype:
    """The dtype that log-determinants of a jaxpr are summed in."""
    return np.result_type(*(v.aval.dtype for v in jaxpr.outvars if v.aval.dtype.kind in "fV"), np.float32)


def solved_jaxpr(jaxpr: Jaxpr, known_ins: Flags, known_outs: Flags, log_det: bool, what: str) -> ClosedJaxpr:
    """The jaxpr from known arguments and known results to the other arguments, all results, and the log-determinant."""
    avals = [v.aval for v, k in zip((*jaxpr.invars, *jaxpr.outvars), (*known_ins, *known_outs)) if k]
    dtype = _log_det_dtype(jaxpr)

    def run(*args: Any) -> list[Any]:
        known, known_results = split_list(args, sum(known_ins))
        ins = merge(known, map(Unknown, mask(jaxpr.in_avals, [not k for k in known_ins])), known_ins)
        outs = merge(known_results, map(Unknown, mask(jaxpr.out_avals, [not k for k in known_outs])), known_outs)
        solved, results, total = solve(jaxpr, ins, outs, log_det, lambda i: f"Argument {i} of {what}")
        if any(map(is_unknown, results)):
            results = eval_jaxpr(jaxpr, (), *solved)
        total = full((), 0, dtype) if total is None else total
        return [*mask(solved, [not k for k in known_ins]), *results, total]

    return stage(run, avals)


# -- cond


def _cond(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Solution | str:
    """The inverse of each branch, selected by the same index."""
    index, *values = operands
    if is_unknown(index):
        return "Which branch was taken is not known."
    if any(map(is_unknown, results)):
        return "Not all of its results are known."
    branches, known_ins = params["branches"], [not is_unknown(x) for x in values]
    all_known = [True] * len(results)
    closed = [solved_jaxpr(b, known_ins, all_known, log_det, "a branch of a cond") for b in branches]
    consts, jaxprs = join_consts(closed)
    solved = bind_cond(tuple(jaxprs), index, [*consts, *_known(values), *results], {**params})
    return Solution(_by_position([True, *known_ins], solved), lambda: solved[-1])


def _by_position(is_known: Flags, values: Sequence[Any]) -> dict[int, Any]:
    """The solved values, by the positions of those that are not known."""
    return dict(zip([i for i, known in enumerate(is_known) if not known], values))


# -- scan


def _scan(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Solution | str:
    """Forwards where the first carry is known and rows are unknown, else backwards from the last carry."""
    groups, result_groups = loop_groups(params)
    consts, carry, _ = groups.split(operands)
    last, ys = result_groups.split(results)
    if any(map(is_unknown, consts)):
        return "A constant of its body is not known."
    if any(map(is_unknown, ys)):
        return "Not all of its stacked results are known."
    if not any(map(is_unknown, carry)):
        return _rows(results, operands, log_det, params)
    if any(is_unknown(x) and is_unknown(y) for x, y in zip(carry, last)):
        return "Neither the first nor the last carry is known."
    return _backwards(results, operands, log_det, params)


def _rows(results: Sequence[Any], operands: Sequence[Any], log_det: bool, params: dict[str, Any]) -> Solution:
    """A scan whose body solves for its rows, from the carry and the rows of the results."""
    body, (groups, result_groups) = params["jaxpr"], loop_groups(params)
    (consts, carry, xs), (last, ys) = groups.split(operands), result_groups.split(results)
    known_ins = [not is_unknown(x) for x in operands]
    known_outs = [False] * len(carry) + [True] * len(ys)
    closed = solved_jaxpr(body, known_ins, known_outs, log_det, "the body of a scan")
    inner = constvars_to_invars(closed)
    rows, new_carry, _, (total,) = split_list(inner.outvars, known_ins.count(False), len(carry), len(ys))
    step = inner.replace(outvars=[*new_carry, *rows, total])
    outs = bind_scan(step, [*closed.consts, *consts], carry, [*_known(xs), *ys], params)
    last_carry, solved = split_list(outs, len(carry))
    ends = {i: x for i, (x, y) in enumerate(zip(last_carry, last)) if is_unknown(y)}
    return Solution(_by_position(known_ins, solved), lambda: outs[-1], ends)


def _backwards(
    results: Sequence[Any], operands: Sequence[Any], log_det: bool, params: dict[str, Any]
) -> Solution | str:
    """A scan in the other direction. Carries that depend on nothing unknown, counters, are computed beforehand."""
    body, (groups, result_groups) = params["jaxpr"], loop_groups(params)
    (consts, carry, xs), (last, ys) = groups.split(operands), result_groups.split(results)
    unknown_consts, moving, unknown_xs = groups.split(affected_operands(params, list(map(is_unknown, operands)), False))
    if any(m and is_unknown(y) for m, y in zip(moving, last)):
        return "The last carry is not known."
    if any(m and not is_unknown(x) for m, x in zip(moving, carry)):
        return "Its first carry is known in part, and the other part depends on it."
    counters = _counters(operands, moving, params)
    known_ins = [not unknown for unknown in (*unknown_consts, *moving, *unknown_xs)]
    closed = solved_jaxpr(body, known_ins, [*moving, *[True] * len(ys)], log_det, "the body of a scan")
    inner = constvars_to_invars(closed)
    num_consts, num_counters, num_xs = groups.masked(known_ins).sizes
    arguments = Groups(
        consts=len(closed.consts) + num_consts, counters=num_counters, xs=num_xs, carry=sum(moving), ys=len(ys)
    )
    of_consts, of_counters, of_xs, of_carry, of_ys = arguments.split(inner.invars)
    outvars, _ = split_list(inner.outvars, known_ins.count(False))
    step = inner.replace(
        invars=[*of_consts, *of_carry, *of_counters, *of_xs, *of_ys], outvars=[*outvars, inner.outvars[-1]]
    )
    rows = [*counters, *_known(xs), *ys]
    backwards = {**params, "reverse": not params["reverse"]}
    solved = bind_scan(step, [*closed.consts, *consts], mask(last, moving), rows, backwards)
    return Solution(_by_position(known_ins, solved), lambda: solved[-1])


def _counters(operands: Sequence[Any], moving: Flags, params: dict[str, Any]) -> list[Any]:
    """The values, before each step, of the carries that do not depend on unknowns."""
    body, (groups, results) = params["jaxpr"], loop_groups(params)
    consts, carry, xs = groups.split(operands)
    still = [not m for m in moving]
    counters = mask(carry, still)
    if not counters:
        return []
    _, carry_avals, row_avals = groups.split(body.in_avals)
    known_rows = [not is_unknown(x) for x in xs]

    def step(*args: Any) -> list[Any]:
        closed_consts, counted, rows = split_list(args, len(consts), len(counters))
        full_carry = merge(counted, map(_zeros, mask(carry_avals, moving)), still)
        full_rows = merge(rows, map(_zeros, mask(row_avals, map(is_unknown, xs))), known_rows)
        outs = eval_jaxpr(body, (), *closed_consts, *full_carry, *full_rows)
        return [*mask(results.part("carry", outs), still), *counted]

    rows = _known(xs)
    avals = [*map(aval_of, consts), *map(aval_of, counters), *(_row(aval_of(x)) for x in rows)]
    closed = stage(step, avals)
    outs = bind_scan(constvars_to_invars(closed), [*closed.consts, *consts], counters, rows, params)
    return split_list(outs, len(counters))[1]


def _row(aval: ShapedArray) -> ShapedArray:
    return aval.without_axis(0)


def _zeros(aval: ShapedArray) -> Any:
    return full(aval.shape, 0, aval.dtype)


# -- while


def _while(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Solution | str:
    """As many inverse steps as there were steps, which a loop over the carries without unknowns counts.

    Those carries, counters, are inverted too, since their values in each step are not stored.
    """
    loop = Loop.of(operands, **params)
    if any(map(is_unknown, (*loop.cond_consts, *loop.body_consts))):
        return "A constant of its body is not known."
    moving = loop.like(list(map(is_unknown, operands))).affected(False)
    if any(affected_outputs(loop.cond, [*[False] * len(loop.cond_consts), *moving], False)):
        return "How many steps it takes depends on what is not known."
    if any(m and is_unknown(y) for m, y in zip(moving, results)):
        return "The last carry is not known."
    if any(m and not is_unknown(x) for m, x in zip(moving, loop.carry)):
        return "Its first carry is known in part, and the other part depends on it."
    still, consts = [not m for m in moving], loop.body_consts
    counters = _counting_loop(loop, moving)
    steps, *last = repeat(*counters, [np.int32(0), *mask(loop.carry, still)])
    counter_body, _ = dce_jaxpr(loop.body, still, [*[True] * len(consts), *still])
    name = "the body of a while"
    unknown = [True] * len(consts) + [False] * len(last)
    back = solved_jaxpr(counter_body, unknown, [True] * len(last), False, name)
    closed = solved_jaxpr(loop.body, [*[True] * len(consts), *still], moving, log_det, name)

    def step(left: Any, total: Any, *carry: Any) -> list[Any]:
        counted, moved = split_list(carry, len(last))
        counted, _ = split_list(eval_jaxpr(back.jaxpr, back.consts, *consts, *counted), len(last))
        solved = eval_jaxpr(closed.jaxpr, closed.consts, *consts, *counted, *moved)
        moved, _ = split_list(solved, sum(moving))
        return [sub(left, np.int32(1)), add(total, solved[-1]), *counted, *moved]

    start = [steps, full((), 0, closed.out_avals[-1].dtype), *last, *mask(results, moving)]
    _, total, *carry = repeat(lambda left, *_: gt(left, np.int32(0)), step, start)
    _, first = split_list(carry, len(last))
    is_known = [*[True] * (len(operands) - len(moving)), *still]
    positions = [i for i, flag in enumerate(still) if flag]
    ends = {i: x for i, x in zip(positions, last) if is_unknown(results[i])}
    return Solution(_by_position(is_known, first), lambda: total, ends)


def _counting_loop(loop: Loop, moving: Flags) -> tuple[Any, Any]:
    """The predicate and the body of a loop that counts steps and has the carries without unknowns."""
    still = [not m for m in moving]
    moving_avals = mask(loop.body.out_avals, moving)

    def whole(counted: Sequence[Any]) -> list[Any]:
        return merge(counted, map(_zeros, moving_avals), still)

    def condition(count: Any, *counted: Any) -> Any:
        return eval_jaxpr(loop.cond, (), *loop.cond_consts, *whole(counted))[0]

    def step(count: Any, *counted: Any) -> list[Any]:
        outs = eval_jaxpr(loop.body, (), *loop.body_consts, *whole(counted))
        return [add(count, np.int32(1)), *mask(outs, still)]

    return condition, step


# -- xla_pmap


def _pmap(results: Sequence[Any], operands: Sequence[Any], log_det: bool, **params: Any) -> Solution | str:
    """The inverse of each row, on its device."""
    known_ins = [not is_unknown(x) for x in operands]
    if any(map(is_unknown, results)):
        return "Not all of its results are known."
    if any(axis is None for axis, known in zip(params["in_axes"], known_ins) if not known):
        return "An operand that every device reads is not known."
    jaxpr, name = params["call_jaxpr"], "the function of a pmap"
    with axes_in_scope(named_axis(params)):
        closed = solved_jaxpr(jaxpr, known_ins, [True] * len(results), log_det, name)
    known_axes, solved_axes = partition(params["in_axes"], known_ins)
    solved = xla_pmap_p.bind(
        *closed.consts, *_known(operands), *results,
        **pmap_params(
            constvars_to_invars(closed),
            [*[None] * len(closed.consts), *known_axes, *params["out_axes"]],
            [*solved_axes, *params["out_axes"], 0],
            **common_params(params),
        ),
    )  # fmt: skip
    return Solution(_by_position(known_ins, solved), lambda: solved[-1])


INVERSES.update({cond_p: _cond, scan_p: _scan, while_p: _while, xla_pmap_p: _pmap})
