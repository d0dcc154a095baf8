"""Reverse mode of `while`: the loop is run once, saving checkpoints, and gone over backwards from them.

`while_saving` is that run. Its operands and parameters are those of `while`, with the number of slots and which of the
carry is `saved`; its results are `carry | total, count | stores`: the last carry, how many steps the loop took, in all
and by this row of it, and the checkpoints, see checkpoints.py. Linearizing a `while` makes one, and a
`while_fold` that carries tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import reference_eval, run_operation
from xpr.compile.lower import constants, lower_eqns
from xpr.control.activity import Flags, picked, settle, spread
from xpr.control.while_.checkpoints import ONE, ZERO, exponent_at, number_of_slots, run_and_save, slot_for, write
from xpr.control.while_.fold import COUNT, Fold, bind_fold
from xpr.control.while_.while_loop import (
    Loop,
    bind_while,
    loop_abstract,
    loop_regions,
    map_loop,
    while_p,
    with_state,
    with_tangents,
)
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import current
from xpr.core.jaxpr import ClosedJaxpr, FillerVar, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.regions import Region
from xpr.passes.dce import dce_jaxpr, has_effect
from xpr.primitives.elementwise import add_p, sub
from xpr.transforms.flat import as_array
from xpr.transforms.jvp import with_zeros
from xpr.transforms.linearize import Linearized, LinearizeTrace, linearize_jaxpr
from xpr.transforms.stage import stage

# -- while_saving


def bind_saving(loop: Loop, slots: int, saved: Sequence[bool]) -> list[Any]:
    return while_saving_p.bind(*loop.operands, **loop.params, saved=tuple(saved), slots=slots)


def _saving_abstract(avals: Sequence[ShapedArray], *, slots: int, saved: Flags, **params: Any) -> list[ShapedArray]:
    carry = loop_abstract(avals, **params)
    stores = [ShapedArray((slots + 1, *a.shape), a.dtype) for a in picked(Loop.of(avals, **params).carry, saved)]
    return [*carry, COUNT, COUNT, *stores]


def _saving_loops(avals: Sequence[ShapedArray], params: dict[str, Any]) -> ClosedJaxpr:
    """The run as a program, remembered with the body."""
    memo = params["body_jaxpr"].memo
    key = ("saving", *avals, *(params[name] for name in sorted(params)))
    if key not in memo:

        def run(*operands: Any) -> list[Any]:
            loop = Loop.of(operands, **params)

            def going(_: Any, *carry: Any) -> Any:
                return eval_jaxpr(loop.cond, (), *loop.cond_consts, *carry)[0]

            def step(_: Any, *carry: Any) -> list[Any]:
                return eval_jaxpr(loop.body, (), *loop.body_consts, *carry)

            carry, count, stores = run_and_save(going, step, loop.carry, params["slots"], params["saved"])
            return [*carry, count, count, *stores]

        memo[key] = stage(run, avals)
    return memo[key]


def _saving_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    closed = _saving_loops([v.aval for v in operands], params)
    return lower_eqns(b, closed.jaxpr, [*constants(b, closed), *operands])


def _saving_reference(values: Sequence[Any], **params: Any) -> list[Any]:
    closed = _saving_loops(list(map(aval_of, values)), params)
    return reference_eval(closed.jaxpr, closed.consts, *values)


def _saving_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, slots: int, saved: Flags, **params: Any) -> Any:
    """The run of the loop that carries tangents too, and saves those of what was saved."""
    loop, active = with_tangents(Loop.of(primals, **params), Loop.of(tangents, **params))
    n, m, k = len(active), sum(active), sum(saved)
    outs = bind_saving(loop, slots, (*saved, *picked(saved, active)))
    counts, stores = outs[n + m : n + m + 2], outs[n + m + 2 : n + m + 2 + k]
    own = [*outs[:n], *counts, *stores]
    has_tangent = [*active, False, False, *picked(active, saved)]
    return own, with_zeros([*outs[n : n + m], *outs[n + m + 2 + k :]], has_tangent, [aval_of(x) for x in own])


def _saving_batch(
    axis_name: Any,
    size: int,
    values: Sequence[Any],
    dims: Sequence[int | None],
    *,
    slots: int,
    saved: Flags,
    **params: Any,
) -> Any:
    """The run of the mapped loop, in which each row counts its own steps."""
    loop, at = _counting(Loop.of(values, **params), ZERO), _counting(Loop.of(dims, **params), None)
    mapped = map_loop(axis_name, size, loop, at.operands)
    n = len(mapped.loop.carry)
    outs = bind_saving(mapped.loop, slots, (*(False for _ in range(n - len(saved))), *saved))
    (count, *carry), (count_dim, *carry_dims) = [outs[i] for i in mapped.places], mapped.dims
    store_dims = [1 if has else None for has in picked(mapped.rows[1:], saved)]
    return [*carry, outs[n], count, *outs[n + 2 :]], [*carry_dims, None, count_dim, *store_dims]


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

    `saved` says which of the carry they depend on. `forward` is the body for these alone, without its effects; `step`
    is of `residuals, consts | i | saved carry | tangents of consts and carry`, where the residuals are what `invariant`
    computes of the consts, which is the same in every step.
    """

    __slots__ = ("active", "forward", "invariant", "saved", "step", "step_consts")

    def __init__(self, body: Jaxpr, split: Linearized, consts: Flags, active: Flags):
        self.active = active
        n = len(consts)
        whole = _tangent_step(body, split, consts, active)
        self.step_consts = whole.consts
        self.invariant, step = _hoisted(whole, n)
        first = len(step.invars) - len(whole.jaxpr.invars) + n + 1  # where the carry begins
        read = {v for atoms in (*(eqn.invars for eqn in step.eqns), step.outvars) for v in atoms}
        start = tuple([v in read for v in step.invars[first : first + len(active)]])
        pure = _without_effects(body)
        self.saved = spread(start, lambda carry: dce_jaxpr(pure, carry)[1][n:])
        smaller, _ = dce_jaxpr(pure, self.saved, (True,) * n + self.saved)
        self.forward = _with_count(smaller, n, False)
        carry = picked(step.invars[first : first + len(active)], self.saved)
        self.step = step.replace(invars=[*step.invars[:first], *carry, *step.invars[first + len(active) :]])


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
    stays = _stays(loop.body)
    if any(stays):
        return _linearize_rest(trace, loop, moved, stays)
    flags = moved.like([type(t) is not Zero for t in moved.operands])
    bound = flags.reached(True)
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        if not any(bound):
            outs = bind_while(loop)
            return outs, with_zeros([], bound, [aval_of(x) for x in outs])
        slots = number_of_slots()
        part, consts = _prepared(loop, flags, bound)
        run = bind_saving(loop, slots, part.saved)
    n = len(loop.carry)
    fold = _fold_of(loop, part, consts, run[n:], slots)
    fold.state = _given_tangents(trace, moved, flags, part)
    moved_carry = bind_fold(fold)[sum(flags.body_consts) :]
    return run[:n], with_zeros(moved_carry, part.active, [aval_of(x) for x in run[:n]])


def _stays(body: Jaxpr) -> Flags:
    """Which of the carry the body gives as it takes it."""
    n = len(body.outvars)
    return tuple([out is given for out, given in zip(body.outvars, body.invars[len(body.invars) - n :])])


def _linearize_rest(trace: LinearizeTrace, loop: Loop, moved: Loop, stays: Flags) -> Any:
    """The loop with those of its carry that stay as they are among its constants: no checkpoint has to hold them."""
    moves = [not s for s in stays]
    key = ("carry as constants", loop.cond)
    if key not in loop.body.memo:
        loop.body.memo[key] = [
            jaxpr.replace(invars=[*invars[:n], *picked(invars[n:], stays), *picked(invars[n:], moves)], outvars=outvars)
            for jaxpr, invars, n, outvars in (
                (loop.cond, loop.cond.invars, len(loop.cond_consts), loop.cond.outvars),
                (loop.body, loop.body.invars, len(loop.body_consts), picked(loop.body.outvars, moves)),
            )
        ]
    cond, body = loop.body.memo[key]

    def rest(whole: Loop) -> Loop:
        fixed = picked(whole.carry, stays)
        consts = [*whole.cond_consts, *fixed], [*whole.body_consts, *fixed]
        return Loop(cond, consts[0], body, consts[1], picked(whole.carry, moves))

    smaller = rest(loop)
    outs, out_tangents = map(iter, _linearize(trace, smaller.operands, rest(moved).operands, smaller.params))
    return (
        [as_array(x) if fixed else next(outs) for x, fixed in zip(loop.carry, stays)],
        [t if fixed else next(out_tangents) for t, fixed in zip(moved.carry, stays)],
    )


def _saving_linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The run itself, and a fold whose state holds the tangents of the stores too."""
    slots, saved = params["slots"], params["saved"]
    loop, moved = Loop.of(primals, **params), Loop.of(tangents, **params)
    flags = moved.like([type(t) is not Zero for t in tangents])
    bound = flags.reached(True)
    n = len(loop.carry)
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        if not any(bound):
            run = bind_saving(loop, slots, saved)
            return run, with_zeros([], [False] * len(run), [aval_of(x) for x in run])
        part, consts = _prepared(loop, flags, bound)
        both = [a or b for a, b in zip(saved, part.saved)]
        run = bind_saving(loop, slots, both)
        exponent = exponent_at(sub(run[n], ONE), slots)
    stores, needed = (picked(run[n + 2 :], picked(which, both)) for which in (saved, part.saved))
    fold = _fold_of(loop, part, [exponent, *consts], [*run[n : n + 2], *needed], slots)
    written = picked(saved, part.active)
    fold.step = _saving_step(part, len(consts), slots, written)
    given = _given_tangents(trace, moved, flags, part)
    has_tangent = picked(part.active, saved)
    fold.state = [*given, *(trace.tangents.zeros(aval_of(x)) for x in picked(stores, has_tangent))]
    outs = [*run[: n + 2], *stores]
    flags_of_outs = [*part.active, False, False, *has_tangent]
    return outs, with_zeros(bind_fold(fold)[sum(flags.body_consts) :], flags_of_outs, [aval_of(x) for x in outs])


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


def _saving_step(part: _Tangents, n_consts: int, slots: int, written: Sequence[bool]) -> Jaxpr:
    """The step of a fold that writes those tangents of the carry that are `written` where the loop wrote the carry.

    Its first constant is the last stride of the loop: what was written with smaller ones no longer counts.
    """
    step, n = part.step, sum(part.active)
    key = ("saving", slots, tuple(written))
    if key not in step.memo:
        avals = step.in_avals
        kept = picked(avals[len(avals) - n :], written)

        def run(exponent: Any, *args: Any) -> list[Any]:
            own, stores = args[: len(avals)], args[len(avals) :]
            slot = slot_for(args[n_consts], exponent, slots)
            return [*eval_jaxpr(step, (), *own), *write(stores, picked(own[len(own) - n :], written), slot)]

        stores = [ShapedArray((slots + 1, *a.shape), a.dtype) for a in kept]
        step.memo[key] = stage(run, [COUNT, *avals, *stores]).jaxpr
    return step.memo[key]


def _saving_threaded(
    state: Sequence[Any], thread: Any, values: Sequence[Any], *, slots: int, saved: Flags, **params: Any
) -> Any:
    """The run of the loop that carries the state too, which is not saved."""
    n = len(state)
    outs = bind_saving(with_state(state, thread, Loop.of(values, **params)), slots, (*(False,) * (n + 1), *saved))[1:]
    return outs[:n], outs[n:]


def _saving_regions(*, saved: Flags, slots: int, **params: Any) -> list[Region]:
    """Those of the loop, of whose carry a part is saved, too."""
    going, body = loop_regions(**params)
    stores = iter(range(len(saved) + 2, len(saved) + 2 + sum(saved)))
    results = tuple([(i, next(stores)) if flag else (i,) for i, flag in enumerate(saved)])
    return [going, body._replace(results=results)]


while_saving_p = register(
    Primitive(
        "while_saving",
        abstract=_saving_abstract,
        params=("cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts", "slots", "saved"),
        reference=_saving_reference,
        lower=_saving_lower,
        jvp=_saving_jvp,
        transpose=Unsupported("It is no linear operation: it is what reverse mode makes of a loop's first run."),
        batch=partial(_saving_batch, None),
        batch_named=_saving_batch,
        linearize=_saving_linearize,
        evaluate=lambda args, params: run_operation(while_saving_p, args, params),
        threaded=_saving_threaded,
        multiple_results=True,
        regions=_saving_regions,
        call=True,
    )
)
while_p.linearize = _linearize  # here, since reverse mode is made of loops
