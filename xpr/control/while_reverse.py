"""Reverse mode of `while`: the loop is run once, saving checkpoints, and gone over backwards from them.

`while_saving` is that run. Its operands and parameters are those of `while`, and the number of slots; its results are
`carry | total, count | stores`: the last carry, how many steps the loop took, in all and by this row of it, and the
checkpoints, of control/while_checkpoints.py. Linearizing a `while` makes one, and a `while_fold` that carries tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xpr.backend.stablehlo import Builder, Value
from xpr.control.activity import Flags, settle
from xpr.control.while_checkpoints import ONE, ZERO, exponent_at, number_of_slots, run_and_save, slot_for, write
from xpr.control.while_fold import COUNT, Fold, bind_fold
from xpr.control.while_loop import Loop, bind_while, loop_abstract, map_loop, picked, while_p, with_tangents
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import current
from xpr.core.jaxpr import ClosedJaxpr, FillerVar, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.primitives.elementwise import add_p, sub
from xpr.transforms.dce import has_effect
from xpr.transforms.evaluate import reference_eval, run_operation
from xpr.transforms.jvp import with_zeros
from xpr.transforms.linearize import Linearized, LinearizeTrace, linearize_jaxpr
from xpr.transforms.lower import constants, lower_eqns
from xpr.transforms.stage import stage

# -- while_saving


def bind_saving(loop: Loop, slots: int) -> list[Any]:
    return while_saving_p.bind(*loop.operands, **loop.params, slots=slots)


def _saving_abstract(avals: Sequence[ShapedArray], *, slots: int, **params: Any) -> list[ShapedArray]:
    carry = loop_abstract(avals, **params)
    stores = [ShapedArray((slots + 1, *a.shape), a.dtype) for a in Loop.of(avals, **params).carry]
    return [*carry, COUNT, COUNT, *stores]


def _saving_loops(avals: Sequence[ShapedArray], params: dict[str, Any]) -> ClosedJaxpr:
    """The run as a program, remembered with the body."""
    memo, slots = params["body_jaxpr"].memo, params["slots"]
    key = ("saving", *avals, *(params[name] for name in sorted(params)))
    if key not in memo:

        def run(*operands: Any) -> list[Any]:
            loop = Loop.of(operands, **params)

            def going(_: Any, *carry: Any) -> Any:
                return eval_jaxpr(loop.cond, (), *loop.cond_consts, *carry)[0]

            def step(_: Any, *carry: Any) -> list[Any]:
                return eval_jaxpr(loop.body, (), *loop.body_consts, *carry)

            carry, count, stores = run_and_save(going, step, loop.carry, slots)
            return [*carry, count, count, *stores]

        memo[key] = stage(run, avals)
    return memo[key]


def _saving_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    closed = _saving_loops([v.aval for v in operands], params)
    return lower_eqns(b, closed.jaxpr, [*constants(b, closed), *operands])


def _saving_reference(values: Sequence[Any], **params: Any) -> list[Any]:
    closed = _saving_loops(list(map(aval_of, values)), params)
    return reference_eval(closed.jaxpr, closed.consts, *values)


def _saving_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, slots: int, **params: Any) -> Any:
    """The run of the loop that carries tangents too."""
    loop, active = with_tangents(Loop.of(primals, **params), Loop.of(tangents, **params))
    n, m = len(active), sum(active)
    outs = bind_saving(loop, slots)
    carry, t_carry, counts = outs[:n], outs[n : n + m], outs[n + m : n + m + 2]
    stores, t_stores = outs[n + m + 2 : 2 * n + m + 2], outs[2 * n + m + 2 :]
    zeros = [Zero(aval_of(x).to_tangent_aval()) for x in counts]
    out_tangents = [
        *with_zeros(t_carry, active, [aval_of(x) for x in carry]),
        *zeros,
        *with_zeros(t_stores, active, [aval_of(x) for x in stores]),
    ]
    return [*carry, *counts, *stores], out_tangents


def _saving_batch(
    axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], *, slots: int, **params: Any
) -> Any:
    """The run of the mapped loop, in which each row counts its own steps."""
    loop, at = _counting(Loop.of(values, **params), ZERO), _counting(Loop.of(dims, **params), None)
    mapped = map_loop(axis_name, size, loop, at.operands)
    outs = bind_saving(mapped.loop, slots)
    n = len(mapped.loop.carry)
    (count, *carry), (count_dim, *carry_dims) = [outs[i] for i in mapped.places], mapped.dims
    stores = outs[n + 2 + mapped.first + 1 :]
    return [*carry, outs[n], count, *stores], [
        *carry_dims,
        None,
        count_dim,
        *(1 if has else None for has in mapped.rows[1:]),
    ]


def _counting(loop: Loop, start: Any) -> Loop:
    """The loop with the number of its steps in front of its carry."""
    key = ("counting", len(loop.body_consts), len(loop.cond_consts))
    for jaxpr, consts, gives in ((loop.cond, loop.cond_consts, False), (loop.body, loop.body_consts, True)):
        if key not in jaxpr.memo:
            jaxpr.memo[key] = _with_count(jaxpr, len(consts), gives)
    return Loop(loop.cond.memo[key], loop.cond_consts, loop.body.memo[key], loop.body_consts, [start, *loop.carry])


def _with_count(jaxpr: Jaxpr, n_consts: int, gives_next: bool) -> Jaxpr:
    """A jaxpr of `consts | carry` as one of `consts | count, carry`, which may give the next count first."""
    if not gives_next:
        return jaxpr.replace(invars=[*jaxpr.invars[:n_consts], FillerVar(COUNT), *jaxpr.invars[n_consts:]])
    count, following = Var(COUNT), Var(COUNT)
    return jaxpr.replace(
        invars=[*jaxpr.invars[:n_consts], count, *jaxpr.invars[n_consts:]],
        outvars=[following, *jaxpr.outvars],
        eqns=[*jaxpr.eqns, JaxprEqn([count, Literal(ONE)], [following], add_p, {})],
    )


# -- linearize: a run that saves, and a fold that carries the tangents of the constants, which stay, and of the carry.


class _Tangents:
    """A body's part in the fold, and which of the carry has tangents.

    `forward` is the body without its effects. `step` is of `residuals, consts | i | carry | tangents of consts and
    carry`, where the residuals are what `invariant` computes of the consts once and for all.
    """

    __slots__ = ("active", "forward", "invariant", "step", "step_consts")

    def __init__(self, body: Jaxpr, split: Linearized, consts: Flags, active: Flags):
        self.active = active
        self.forward = _with_count(_without_effects(body), len(consts), False)
        whole = _tangent_step(body, split, consts, active)
        self.step_consts = whole.consts
        self.invariant, self.step = _hoisted(whole, len(consts))


def _tangents_of(body: Jaxpr, consts: Flags, start: Flags, bound: Flags) -> _Tangents:
    key = ("while linearize", consts, start)
    if key not in body.memo:

        def trace(carry: Flags, forced: Flags) -> Any:
            split = linearize_jaxpr(body, (*consts, *carry), forced)
            return split, split.active_outs

        split, active = settle(start, bound, trace)
        body.memo[key] = _Tangents(body, split, consts, active)
    return body.memo[key]


def _tangent_step(body: Jaxpr, split: Linearized, consts: Flags, active: Flags) -> ClosedJaxpr:
    """From `consts | i | carry | tangents` to the tangents of the consts, as they are, and of the next carry."""
    n = len(consts)
    tangents = [v.aval.to_tangent_aval() for v in picked(body.invars, (*consts, *active))]

    def run(*args: Any) -> list[Any]:
        own, given = [*args[:n], *args[n + 1 : len(body.invars) + 1]], args[len(body.invars) + 1 :]
        computed = eval_jaxpr(split.primal.jaxpr, split.primal.consts, *own)[len(active) :]
        moved = eval_jaxpr(split.linear, (), *split.residuals(own, computed), *given)
        return [*given[: sum(consts)], *moved]

    closed = stage(run, [*body.in_avals[:n], COUNT, *body.in_avals[n:], *tangents])
    return ClosedJaxpr(_without_effects(closed.jaxpr), closed.consts)


def _without_effects(jaxpr: Jaxpr) -> Jaxpr:
    """The equations that the results need: a step that is taken again prints nothing again."""
    live: set[Any] = set(jaxpr.outvars)
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if not live.isdisjoint(eqn.outvars):
            kept.append(eqn)
            live.update(v for v in eqn.invars if type(v) is not Literal)
    return jaxpr.replace(eqns=kept[::-1])


def _hoisted(closed: ClosedJaxpr, n_consts: int) -> tuple[Jaxpr, Jaxpr]:
    """What the equations of a step that read consts alone give to the others; and the others."""
    jaxpr = closed.jaxpr
    known: set[Any] = {*jaxpr.constvars, *jaxpr.invars[:n_consts]}
    outer: list[JaxprEqn] = []
    inner: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        variables = [v for v in eqn.invars if type(v) is not Literal]
        is_invariant = bool(variables) and known.issuperset(variables) and not has_effect(eqn)
        (outer if is_invariant else inner).append(eqn)
        if is_invariant:
            known.update(eqn.outvars)
    read = dict.fromkeys(v for atoms in (*(eqn.invars for eqn in inner), jaxpr.outvars) for v in atoms)
    made = {v for eqn in outer for v in eqn.outvars}
    residuals: list[Any] = [v for v in read if v in made]
    consts = [*jaxpr.constvars, *jaxpr.invars[:n_consts]]
    step = Jaxpr([], [*residuals, *jaxpr.constvars, *jaxpr.invars], jaxpr.outvars, inner)
    return Jaxpr([], consts, residuals, outer), step


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    loop, moved = Loop.of(primals, **params), Loop.of(tangents, **params)
    flags = moved.like([type(t) is not Zero for t in tangents])
    bound = flags.reached(True)
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        if not any(bound):
            outs = bind_while(loop)
            return outs, with_zeros([], bound, [aval_of(x) for x in outs])
        slots = number_of_slots()
        run = bind_saving(loop, slots)
        part, consts = _prepared(loop, flags, bound)
    n = len(loop.carry)
    fold = _fold_of(loop, part, consts, run[n:], slots)
    fold.state = _given_tangents(trace, moved, flags, part)
    moved_carry = bind_fold(fold)[sum(flags.body_consts) :]
    return run[:n], with_zeros(moved_carry, part.active, [aval_of(x) for x in run[:n]])


def _saving_linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The run itself, and a fold whose state holds the tangents of the stores too."""
    params = dict(params)
    slots = params.pop("slots")
    loop, moved = Loop.of(primals, **params), Loop.of(tangents, **params)
    flags = moved.like([type(t) is not Zero for t in tangents])
    bound = flags.reached(True)
    n = len(loop.carry)
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        run = bind_saving(loop, slots)
        if not any(bound):
            return run, with_zeros([], [False] * len(run), [aval_of(x) for x in run])
        part, consts = _prepared(loop, flags, bound)
        exponent = exponent_at(sub(run[n], ONE), slots)
    fold = _fold_of(loop, part, [exponent, *consts], run[n:], slots)
    fold.step = _saving_step(part, len(consts), slots)
    stores = [trace.tangents.zeros(aval_of(x)) for x in picked(run[n + 2 :], part.active)]
    fold.state = [*_given_tangents(trace, moved, flags, part), *stores]
    given = bind_fold(fold)[sum(flags.body_consts) :]
    m = sum(part.active)
    avals = [aval_of(x) for x in run]
    counts = with_zeros([], [False, False], avals[n : n + 2])
    return run, [
        *with_zeros(given[:m], part.active, avals[:n]),
        *counts,
        *with_zeros(given[m:], part.active, avals[n + 2 :]),
    ]


def _prepared(loop: Loop, flags: Loop, bound: Flags) -> tuple[_Tangents, list[Any]]:
    """A loop's part in its fold, and the constants of that: what is the same in every step is computed here."""
    part = _tangents_of(loop.body, tuple(flags.body_consts), tuple(flags.carry), bound)
    residuals = eval_jaxpr(part.invariant, (), *part.step_consts, *loop.body_consts)
    return part, [*residuals, *part.step_consts, *loop.body_consts]


def _given_tangents(trace: LinearizeTrace, moved: Loop, flags: Loop, part: _Tangents) -> list[Any]:
    """The tangents of the constants and of the carry, as the first state."""
    carry = [trace.tangents.zeros(t.aval) if type(t) is Zero else t for t in picked(moved.carry, part.active)]
    return [*picked(moved.body_consts, flags.body_consts), *carry]


def _fold_of(loop: Loop, part: _Tangents, consts: Sequence[Any], saved: Sequence[Any], slots: int) -> Fold:
    """A fold along a loop that has been run, its state still to be given."""
    extra = [aval_of(x) for x in consts[: len(consts) - len(loop.body_consts)]]
    total, count, *stores = saved
    forward = _with_leading(part.forward, extra)
    return Fold(forward, part.step, total, count, consts, stores, [], slots=slots, backward=False)


def _with_leading(jaxpr: Jaxpr, avals: Sequence[ShapedArray]) -> Jaxpr:
    """The same program with further arguments in front, which it does not read; remembered with it."""
    key = ("leading", *avals)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = jaxpr.replace(invars=[*map(FillerVar, avals), *jaxpr.invars]) if avals else jaxpr
    return jaxpr.memo[key]


def _saving_step(part: _Tangents, n_consts: int, slots: int) -> Jaxpr:
    """The step of a fold that writes the tangents of the carry into stores, where the loop wrote the carry.

    Its first constant is the last stride of the loop: what was written with smaller ones no longer counts.
    """
    step, n = part.step, sum(part.active)
    key = ("saving", slots)
    if key not in step.memo:
        avals = step.in_avals
        stores = [ShapedArray((slots + 1, *a.shape), a.dtype) for a in avals[len(avals) - n :]]

        def run(exponent: Any, *args: Any) -> list[Any]:
            own, stores = args[: len(avals)], args[len(avals) :]
            slot = slot_for(args[n_consts], exponent, slots)
            return [*eval_jaxpr(step, (), *own), *write(stores, own[len(own) - n :], slot)]

        step.memo[key] = stage(run, [COUNT, *avals, *stores]).jaxpr
    return step.memo[key]


while_saving_p = register(
    Primitive(
        "while_saving",
        abstract=_saving_abstract,
        reference=_saving_reference,
        lower=_saving_lower,
        jvp=_saving_jvp,
        transpose=Unsupported("It is no linear operation: it is what reverse mode makes of a loop's first run."),
        batch=partial(_saving_batch, None),
        batch_named=_saving_batch,
        linearize=_saving_linearize,
        evaluate=lambda args, params: run_operation(while_saving_p, args, params),
        multiple_results=True,
        call=True,
    )
)
while_p.linearize = _linearize  # here, since reverse mode is made of loops
