"""Reverse mode of `while`: the loop is run once, saving checkpoints, and its steps are reversed from these.

`while_saving` is that run. Its operands and parameters are those of `while`, with the number of slots and which of the
carry is `saved`; its results are `carry | total, count | stores`: the last carry, the number of steps of the loop and
of this row of it, and the checkpoints, see checkpoints.py. Linearizing a `while` yields one, and a
`while_fold` that carries tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_operation
from xpr.compile.lower import constants, lower_eqns
from xpr.compile.reference import reference_eval
from xpr.control.activity import Flags, is_active, least_fixed_point, trace_fixed_point
from xpr.control.groups import Groups, mask, merge, partition, split_list, unmask, with_unused_arguments
from xpr.control.while_.checkpoints import ONE, ZERO, exponent_at, number_of_slots, run_and_save, slot_for, write
from xpr.control.while_.fold import COUNT, Fold, bind_fold
from xpr.control.while_.while_loop import (
    Loop,
    bind_while,
    loop_abstract,
    loop_regions,
    map_loop,
    unchanged_carries,
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

__all__ = ["while_saving_p"]

T = TypeVar("T")

# -- while_saving


def _results(loop: Loop, saved: Sequence[bool]) -> Groups:
    """The groups of the results of a run that saves."""
    return Groups(carry=len(loop.carry), counts=2, stores=sum(saved))


def bind_saving(loop: Loop, slots: int, saved: Sequence[bool]) -> list[Any]:
    return while_saving_p.bind(*loop.operands, **loop.params, saved=tuple(saved), slots=slots)


def _saving_abstract(avals: Sequence[ShapedArray], *, slots: int, saved: Flags, **params: Any) -> list[ShapedArray]:
    carry = loop_abstract(avals, **params)
    stores = [ShapedArray((slots + 1, *a.shape), a.dtype) for a in mask(Loop.of(avals, **params).carry, saved)]
    return [*carry, COUNT, COUNT, *stores]


def _saving_loops(avals: Sequence[ShapedArray], params: dict[str, Any]) -> ClosedJaxpr:
    """The run as a program, cached with the body."""
    memo = params["body_jaxpr"].memo
    key = ("saving", *avals, *(params[name] for name in sorted(params)))
    if key not in memo:

        def run(*operands: Any) -> list[Any]:
            loop = Loop.of(operands, **params)

            def predicate(_: Any, *carry: Any) -> Any:
                return eval_jaxpr(loop.cond, (), *loop.cond_consts, *carry)[0]

            def step(_: Any, *carry: Any) -> list[Any]:
                return eval_jaxpr(loop.body, (), *loop.body_consts, *carry)

            carry, count, stores = run_and_save(predicate, step, loop.carry, params["slots"], params["saved"])
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
    """The run of the loop that carries the tangents too, and saves those of the saved carries."""
    loop, active = with_tangents(Loop.of(primals, **params), Loop.of(tangents, **params))
    results = Groups(carry=len(active), counts=2, stores=sum(saved))
    has_tangent = [*active, False, False, *mask(active, saved)]
    both = bind_saving(loop, slots, (*saved, *mask(saved, active)))
    outs, moved = results.deinterleave(both, results.masked(has_tangent))
    return outs, with_zeros(moved, has_tangent, [aval_of(x) for x in outs])


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
    all_saved = [*[False] * (len(mapped.loop.carry) - len(saved)), *saved]
    outs, (total, _), stores = _results(mapped.loop, all_saved).split(bind_saving(mapped.loop, slots, all_saved))
    (count, *carry), (count_dim, *carry_dims), (_, *rows) = mapped.results(outs), mapped.dims, mapped.rows
    store_dims = [1 if has else None for has in mask(rows, saved)]
    return [*carry, total, count, *stores], [*carry_dims, None, count_dim, *store_dims]


def _counting(loop: Loop, start: Any) -> Loop:
    """The loop with the number of its steps as its first carry."""
    key = ("counting", len(loop.body_consts), len(loop.cond_consts))
    for jaxpr, groups, counts in ((loop.cond, loop.cond_groups, False), (loop.body, loop.body_groups, True)):
        if key not in jaxpr.memo:
            jaxpr.memo[key] = _with_count(jaxpr, groups, counts)
    return Loop(loop.cond.memo[key], loop.cond_consts, loop.body.memo[key], loop.body_consts, [start, *loop.carry])


def _with_count(jaxpr: Jaxpr, groups: Groups, counts: bool) -> Jaxpr:
    """A jaxpr of `consts | carry` as one of `consts | count, carry`, which may return the next count first."""
    consts, carry = groups.split(jaxpr.invars)
    if not counts:
        return jaxpr.replace(invars=[*consts, FillerVar(COUNT), *carry])
    count, following = Var(COUNT), Var(COUNT)
    return jaxpr.replace(
        invars=[*consts, count, *carry],
        outvars=[following, *jaxpr.outvars],
        eqns=[*jaxpr.eqns, JaxprEqn([count, Literal(ONE)], [following], add_p, {})],
    )


# -- linearize: a run that saves, and a fold that carries the tangents of the constants (unchanged) and of the carry.


class _TangentFold:
    """The jaxprs of the fold that carries a body's tangents, and which of the carry has tangents.

    `saved` says which of the carry they depend on. `forward` is the body for these alone, without its effects; `step`
    takes `residuals, consts | i | saved carry | tangents of consts and carry`, where `invariant` computes the
    residuals, the same in every step, from the consts.
    """

    __slots__ = ("active", "forward", "invariant", "saved", "step", "step_consts")

    def __init__(self, body: Jaxpr, split: Linearized, consts: Flags, active: Flags):
        self.active = active
        whole = _tangent_step(body, split, consts, active)
        self.step_consts = whole.consts
        self.invariant, step = _hoisted(whole, len(consts))
        num_tangents = sum(consts) + sum(active)
        leading = len(step.invars) - len(active) - num_tangents
        arguments = Groups(leading=leading, carry=len(active), tangents=num_tangents)
        before, carry, tangents = arguments.split(step.invars)
        read = {v for atoms in (*(eqn.invars for eqn in step.eqns), step.outvars) for v in atoms}
        start = tuple([v in read for v in carry])
        pure, groups = _without_effects(body), Groups(consts=len(consts), carry=len(active))
        self.saved = least_fixed_point(start, lambda carry: groups.part("carry", dce_jaxpr(pure, carry)[1]))
        smaller, _ = dce_jaxpr(pure, self.saved, [True] * len(consts) + [*self.saved])
        self.forward = _with_count(smaller, groups, False)
        self.step = step.replace(invars=[*before, *mask(carry, self.saved), *tangents])


def _tangent_fold(body: Jaxpr, consts: Flags, start: Flags, bound: Flags) -> _TangentFold:
    key = ("while linearize", consts, start)
    if key not in body.memo:

        def trace(carry: Flags, forced: Flags) -> Any:
            split = linearize_jaxpr(body, (*consts, *carry), forced)
            return split, split.active_outs

        split, active = trace_fixed_point(start, bound, trace)
        body.memo[key] = _TangentFold(body, split, consts, active)
    return body.memo[key]


def _tangent_step(body: Jaxpr, split: Linearized, consts: Flags, active: Flags) -> ClosedJaxpr:
    """From `consts | i | carry | tangents` to the tangents of the consts, unchanged, and of the next carry."""
    groups = Groups(consts=len(consts), carry=len(active))
    const_avals, carry = groups.split(body.in_avals)
    tangents = [v.aval.to_tangent_aval() for v in mask(body.invars, (*consts, *active))]

    def run(*args: Any) -> list[Any]:
        first, _, carry, moved = split_list(args, len(consts), 1, len(active))
        arguments = [*first, *carry]
        _, computed = split_list(eval_jaxpr(split.primal.jaxpr, split.primal.consts, *arguments), len(active))
        moved_consts, _ = split_list(moved, sum(consts))
        return [*moved_consts, *eval_jaxpr(split.linear, (), *split.residuals(arguments, computed), *moved)]

    closed = stage(run, [*const_avals, COUNT, *carry, *tangents])
    return ClosedJaxpr(_without_effects(closed.jaxpr), closed.consts)


def _without_effects(jaxpr: Jaxpr) -> Jaxpr:
    """The equations that the results need: a recomputed step must not repeat its effects."""
    live: set[Any] = set(jaxpr.outvars)
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if not live.isdisjoint(eqn.outvars):
            kept.append(eqn)
            live.update(v for v in eqn.invars if type(v) is not Literal)
    return jaxpr.replace(eqns=kept[::-1])


def _hoisted(closed: ClosedJaxpr, n_consts: int) -> tuple[Jaxpr, Jaxpr]:
    """A step in two jaxprs: the equations that read consts alone, and the others, which read the results of those."""
    jaxpr = closed.jaxpr
    const_vars, _ = split_list(jaxpr.invars, n_consts)
    consts = [*jaxpr.constvars, *const_vars]
    known: set[Any] = set(consts)
    outer: list[JaxprEqn] = []
    inner: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        variables = [v for v in eqn.invars if type(v) is not Literal]
        is_invariant = bool(variables) and known.issuperset(variables) and not has_effect(eqn)
        (outer if is_invariant else inner).append(eqn)
        if is_invariant:
            known.update(eqn.outvars)
    read = dict.fromkeys(v for atoms in (*(eqn.invars for eqn in inner), jaxpr.outvars) for v in atoms)
    computed = {v for eqn in outer for v in eqn.outvars}
    residuals: list[Any] = [v for v in read if v in computed]
    step = Jaxpr([], [*residuals, *jaxpr.constvars, *jaxpr.invars], jaxpr.outvars, inner)
    return Jaxpr([], consts, residuals, outer), step


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    return _linearize_loop(trace, Loop.of(primals, **params), Loop.of(tangents, **params))


def _linearize_loop(trace: LinearizeTrace, loop: Loop, moved: Loop) -> Any:
    """The loop run once, saving checkpoints, and a fold that carries its tangents, of which `moved` are the first."""
    fixed = unchanged_carries(loop.body)
    if any(fixed):
        return _linearize_with_constant_carries(trace, loop, moved, fixed)
    flags = moved.like(is_active(moved.operands))
    bound = flags.affected(True)
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        if not any(bound):
            outs = bind_while(loop)
            return outs, with_zeros([], bound, [aval_of(x) for x in outs])
        slots = number_of_slots()
        programs, consts = _prepared(loop, flags, bound)
        outs, counts, stores = _results(loop, programs.saved).split(bind_saving(loop, slots, programs.saved))
    fold = _fold_of(loop, programs, consts, counts, stores, slots)
    fold.state = _first_state(trace, moved, flags, programs)
    return outs, with_zeros(_last_carry(fold, flags), programs.active, [aval_of(x) for x in outs])


def _last_carry(fold: Fold, flags: Loop) -> list[Any]:
    """The last state of a fold without its leading elements, the tangents of the constants."""
    _, carry = split_list(bind_fold(fold), sum(flags.body_consts))
    return carry


def _linearize_with_constant_carries(trace: LinearizeTrace, loop: Loop, moved: Loop, fixed: Flags) -> Any:
    """Linearizes the loop with its unchanged carries as constants, so that no checkpoint holds them."""
    moves = [not flag for flag in fixed]
    key = ("carry as constants", loop.cond)
    if key not in loop.body.memo:
        loop.body.memo[key] = [
            _carry_as_constants(loop.cond, loop.cond_groups, fixed),
            _carry_as_constants(loop.body, loop.body_groups, fixed).replace(outvars=mask(loop.body.outvars, moves)),
        ]
    cond, body = loop.body.memo[key]

    def smaller(whole: Loop) -> Loop:
        same, carry = partition(whole.carry, fixed)
        return Loop(cond, [*whole.cond_consts, *same], body, [*whole.body_consts, *same], carry)

    outs, out_tangents = _linearize_loop(trace, smaller(loop), smaller(moved))
    return (
        merge(map(as_array, mask(loop.carry, fixed)), outs, fixed),
        merge(mask(moved.carry, fixed), out_tangents, fixed),
    )


def _carry_as_constants(jaxpr: Jaxpr, groups: Groups, fixed: Flags) -> Jaxpr:
    """A jaxpr of `consts | carry` with the marked carries before the others."""
    consts, carry = groups.split(jaxpr.invars)
    same, moving = partition(carry, fixed)
    return jaxpr.replace(invars=[*consts, *same, *moving])


def _saving_linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The run, and a fold whose state also holds the tangents of the stores."""
    slots, saved = params["slots"], params["saved"]
    loop, moved = Loop.of(primals, **params), Loop.of(tangents, **params)
    flags = moved.like(is_active(tangents))
    bound = flags.affected(True)
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        if not any(bound):
            outs = bind_saving(loop, slots, saved)
            return outs, with_zeros([], [False] * len(outs), [aval_of(x) for x in outs])
        programs, consts = _prepared(loop, flags, bound)
        both = [a or b for a, b in zip(saved, programs.saved)]
        carry, counts, all_stores = _results(loop, both).split(bind_saving(loop, slots, both))
        exponent = exponent_at(sub(counts[0], ONE), slots)
    stores, needed = (mask(all_stores, mask(which, both)) for which in (saved, programs.saved))
    fold = _fold_of(loop, programs, [exponent, *consts], counts, needed, slots)
    written = mask(saved, programs.active)
    fold.step = _saving_step(programs, len(consts), slots, written)
    has_tangent = mask(programs.active, saved)
    zeros = (trace.tangents.zeros(aval_of(x)) for x in mask(stores, has_tangent))
    fold.state = [*_first_state(trace, moved, flags, programs), *zeros]
    outs = [*carry, *counts, *stores]
    flags_of_outs = [*programs.active, False, False, *has_tangent]
    return outs, with_zeros(_last_carry(fold, flags), flags_of_outs, [aval_of(x) for x in outs])


def _prepared(loop: Loop, flags: Loop, bound: Flags) -> tuple[_TangentFold, list[Any]]:
    """The jaxprs of a loop's fold, and their constants, including the residuals that are the same in every step."""
    programs = _tangent_fold(loop.body, tuple(flags.body_consts), tuple(flags.carry), bound)
    residuals = eval_jaxpr(programs.invariant, (), *programs.step_consts, *loop.body_consts)
    return programs, [*residuals, *programs.step_consts, *loop.body_consts]


def _first_state(trace: LinearizeTrace, moved: Loop, flags: Loop, programs: _TangentFold) -> list[Any]:
    """The first state of the fold: the tangents of the constants and of the carry."""
    carry = [trace.tangents.zeros(t.aval) if type(t) is Zero else t for t in mask(moved.carry, programs.active)]
    return [*mask(moved.body_consts, flags.body_consts), *carry]


def _fold_of(
    loop: Loop, programs: _TangentFold, consts: Sequence[Any], counts: Sequence[Any], stores: Sequence[Any], slots: int
) -> Fold:
    """A fold along a loop that has been run, its state left out."""
    extra, _ = split_list(consts, len(consts) - len(loop.body_consts))
    total, count = counts
    forward = with_unused_arguments(programs.forward, before=[aval_of(x) for x in extra])
    return Fold(forward, programs.step, total, count, consts, stores, [], slots=slots, backward=False)


def _saving_step(programs: _TangentFold, n_consts: int, slots: int, written: Sequence[bool]) -> Jaxpr:
    """The step of a fold that writes the `written` tangents of the carry to the slots where the loop wrote the carry.

    Its first constant is the last stride of the loop: checkpoints written with smaller strides are no longer valid.
    """
    step = programs.step
    key = ("saving", slots, tuple(written))
    if key not in step.memo:
        avals = step.in_avals
        num_carry = len(programs.forward.outvars)
        arguments = Groups(consts=n_consts, i=1, carry=num_carry, tangents=len(avals) - n_consts - 1 - num_carry)

        def moved(values: Sequence[T]) -> list[T]:
            """The tangents of the carry that are written; those of the carry are the last."""
            tangents = arguments.part("tangents", values)
            return mask(split_list(tangents, len(tangents) - sum(programs.active))[1], written)

        def run(exponent: Any, *args: Any) -> list[Any]:
            values, stores = split_list(args, len(avals))
            (i,) = arguments.part("i", values)
            slot = slot_for(i, exponent, slots)
            return [*eval_jaxpr(step, (), *values), *write(stores, moved(values), slot)]

        stores = [ShapedArray((slots + 1, *a.shape), a.dtype) for a in moved(avals)]
        step.memo[key] = stage(run, [COUNT, *avals, *stores]).jaxpr
    return step.memo[key]


def _saving_threaded(
    state: Sequence[Any], thread: Any, values: Sequence[Any], *, slots: int, saved: Flags, **params: Any
) -> Any:
    """The run of the loop that carries the state too, without saving the state."""
    not_saved = [False] * (1 + len(state))
    loop = with_state(state, thread, Loop.of(values, **params))
    _, *outs = bind_saving(loop, slots, [*not_saved, *saved])
    return split_list(outs, len(state))


def _saving_regions(*, saved: Flags, slots: int, **params: Any) -> list[Region]:
    """The predicate and the body of the loop; part of the carry is saved as well."""
    predicate, body = loop_regions(**params)
    stores = unmask(Groups(carry=len(saved), counts=2, stores=sum(saved)).positions("stores"), saved)
    results = tuple([(i,) if store is None else (i, store) for i, store in enumerate(stores)])
    return [predicate, body._replace(results=results)]


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
