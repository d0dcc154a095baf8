"""while: a loop that runs as long as a predicate of its carry holds, as one operation.

Operands are laid out `cond_consts | body_consts | carry`; the predicate takes `cond_consts | carry`, the body
`body_consts | carry`, and the results are the carry. A `Loop` holds the two jaxprs and their operands, and every rule
turns it into another loop, whose jaxprs are cached with the first one's. Reverse mode is in separate files, beginning
with reverse.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from operator import not_
from typing import Any

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_operation
from xpr.compile.lower import lower_eqns
from xpr.compile.reference import reference_eval
from xpr.control.activity import Flags, affected_outputs, is_active, least_fixed_point, trace_fixed_point
from xpr.control.groups import Groups, mask, partition, rearranged, split_list, with_unused_arguments
from xpr.control.refs import RefOperands
from xpr.control.tracing import as_closed, refuse_closed
from xpr.control.while_.masked_step import select_rows, step_rows
from xpr.control.while_.row_by_row import while_row_by_row
from xpr.core.avals import ShapedArray, aval_of, same_types, types_of
from xpr.core.jaxpr import ClosedJaxpr, DropVar, FillerVar, Jaxpr, JaxprEqn, constvars_to_invars, effects, eval_jaxpr
from xpr.core.primitive import Primitive, no_rule, register
from xpr.core.regions import Region
from xpr.errors import RefError, UnsupportedRule
from xpr.passes.dce import dce_jaxpr
from xpr.passes.discharge import uses_of_refs
from xpr.primitives.elementwise import bitwise_and
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import instantiate, mapped_to, move_mapped_axis
from xpr.transforms.batch import batch_jaxpr, names_in
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.on_arrays import lowered, on_arrays, raised
from xpr.transforms.stage import stage

__all__ = ["while_p"]


class Loop:
    """A predicate and a body, jaxprs without constants, and the operands of each.

    The operands may be values, types, or flags and numbers for each of them.
    """

    __slots__ = ("body", "body_consts", "carry", "cond", "cond_consts")

    def __init__(
        self, cond: Jaxpr, cond_consts: Sequence[Any], body: Jaxpr, body_consts: Sequence[Any], carry: Sequence[Any]
    ):
        self.cond, self.cond_consts = cond, list(cond_consts)
        self.body, self.body_consts = body, list(body_consts)
        self.carry = list(carry)

    @classmethod
    def of(
        cls,
        operands: Sequence[Any],
        *,
        cond_jaxpr: Jaxpr,
        cond_nconsts: int,
        body_jaxpr: Jaxpr,
        body_nconsts: int,
        **other: Any,
    ) -> Loop:
        cond_consts, body_consts, carry = split_list(operands, cond_nconsts, body_nconsts)
        return cls(cond_jaxpr, cond_consts, body_jaxpr, body_consts, carry)

    @classmethod
    def closed(cls, cond: ClosedJaxpr, body: ClosedJaxpr, carry: Sequence[Any]) -> Loop:
        """A `Loop` made from jaxprs that have constants."""
        return cls(constvars_to_invars(cond), cond.consts, constvars_to_invars(body), body.consts, carry)

    @property
    def operands(self) -> list[Any]:
        return [*self.cond_consts, *self.body_consts, *self.carry]

    @property
    def params(self) -> dict[str, Any]:
        return {
            "body_jaxpr": self.body,
            "body_nconsts": len(self.body_consts),
            "cond_jaxpr": self.cond,
            "cond_nconsts": len(self.cond_consts),
        }

    @property
    def cond_groups(self) -> Groups:
        """The groups of the arguments of the predicate."""
        return Groups(consts=len(self.cond_consts), carry=len(self.carry))

    @property
    def body_groups(self) -> Groups:
        """The groups of the arguments of the body."""
        return Groups(consts=len(self.body_consts), carry=len(self.carry))

    def like(self, operands: Sequence[Any]) -> Loop:
        """The same loop with other values, types or flags for its operands."""
        return Loop.of(operands, **self.params)

    def affected(self, differentiable: bool) -> Flags:
        """Which of the carry depends through the body on the marked operands; here the operands are flags."""
        consts = self.body_consts
        return least_fixed_point(
            tuple(self.carry), lambda c: affected_outputs(self.body, (*consts, *c), differentiable)
        )


def bind_while(loop: Loop) -> list[Any]:
    """Applies a `while`."""
    if uses_of_refs(loop.body).used or uses_of_refs(loop.cond).used:
        return _bind_on_values(loop)
    return while_p.bind(*loop.operands, **loop.params)


def _bind_on_values(loop: Loop) -> list[Any]:
    """Applies a loop whose predicate and body use refs: the values of those that the body writes are carried.

    The operands of the new body are `constants, refs that are passed on | carry, values of written refs`; those of the
    predicate likewise, which reads from the carry the refs that the body writes.
    """
    body = RefOperands([loop.body], [*loop.body_consts, *loop.carry])
    cond = RefOperands([loop.cond], [*loop.cond_consts, *loop.carry])
    if any(cond.written):
        raise RefError("while_loop: the predicate writes to a Ref. Write it in the body.")
    n_consts, n_carry = len(loop.body_consts), len(loop.carry)
    written, _ = split_list(body.written, n_consts)
    is_constant = list(map(not_, written))
    consts, carry = split_list(body.operands, n_consts)
    body_consts, written_values = partition(consts, is_constant)
    const_vars, carry_vars, passed_vars = split_list(body.jaxprs[0].invars, n_consts, n_carry)
    body_const_vars, written_vars = partition(const_vars, is_constant)
    step = body.jaxprs[0].replace(invars=[*body_const_vars, *passed_vars, *carry_vars, *written_vars])

    positions = {id(ref): i for i, ref in enumerate(mask(loop.body_consts, written))}
    carried_at = [positions.get(id(x)) for x in loop.cond_consts]
    is_constant = [position is None for position in carried_at]
    consts, _ = split_list(cond.operands, len(loop.cond_consts))
    const_vars, carry_vars, passed_vars = split_list(cond.jaxprs[0].invars, len(loop.cond_consts), n_carry)
    read_vars: list[Any] = [FillerVar(aval_of(x)) for x in written_values]
    for var, position in zip(const_vars, carried_at):
        if position is not None:
            read_vars[position] = var
    predicate = cond.jaxprs[0].replace(invars=[*mask(const_vars, is_constant), *passed_vars, *carry_vars, *read_vars])

    cond_operands = [*mask(consts, is_constant), *cond.passed]
    outs = bind_while(Loop(predicate, cond_operands, step, [*body_consts, *body.passed], [*carry, *written_values]))
    results, last_values = split_list(outs, n_carry)
    body.store(last_values)
    return results


def _on_arrays(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The loop on arrays, whose results are made values again; what mutable constants of the body hold is carried.

    Raises:
      TypeError: the body changes the type of what a mutable value holds, or the predicate changes one.
    """
    loop = Loop.of(args, **params)
    cond, body, n_consts = on_arrays(loop.cond), on_arrays(loop.body), len(loop.body_consts)
    body.check_states("while_loop")
    is_mutable, _ = split_list(body.mutable, n_consts)
    if cond.last_vars != mask(cond.argument_vars, cond.mutable):
        raise TypeError("while_loop: the predicate changes a mutable value. Change it in the body.")
    mutable, constants = partition(loop.body_consts, is_mutable)
    const_avals, carry_avals = split_list(body.in_avals, n_consts)
    state_avals, constant_avals = partition(const_avals, is_mutable)
    const_vars, carry_vars = split_list(body.argument_vars, n_consts)
    state_vars, constant_vars = partition(const_vars, is_mutable)
    step = Jaxpr(
        [],
        [*body.jaxpr.constvars, *chain(*constant_vars, *carry_vars, *state_vars)],
        [*chain(*body.result_vars, *body.last_vars)],
        body.jaxpr.eqns,
    )
    cond_const_vars, cond_carry_vars = split_list(cond.argument_vars, len(loop.cond_consts))
    read = {id(x): each for x, each in zip(loop.cond_consts, cond_const_vars)}
    read_vars = [read.pop(id(x), [FillerVar(v.aval) for v in each]) for x, each in zip(mutable, state_vars)]
    is_own = [id(x) in read for x in loop.cond_consts]
    predicate = Jaxpr(
        [],
        [*cond.jaxpr.constvars, *chain(*mask(cond_const_vars, is_own), *cond_carry_vars, *read_vars)],
        cond.jaxpr.outvars[:1],
        cond.jaxpr.eqns,
    )
    states = lowered(state_avals, mutable)
    outs = bind_while(
        Loop(
            predicate,
            [*cond.jaxpr.consts, *lowered(mask(cond.in_avals, is_own), mask(loop.cond_consts, is_own))],
            step,
            [*body.jaxpr.consts, *lowered(constant_avals, constants)],
            [*lowered(carry_avals, loop.carry), *states],
        )
    )
    results, last = split_list(outs, len(outs) - len(states))
    body.change(loop.body_consts, last)
    return raised(body.out_avals, results)


def flat_loop(predicate: Callable[..., Any], step: Callable[..., Sequence[Any]], carry: Sequence[Any]) -> Loop:
    """A loop of Python functions of flat arrays, which may close over other arrays."""
    avals = [aval_of(x) for x in carry]
    return Loop.closed(stage(lambda *xs: [predicate(*xs)], avals), stage(step, avals), carry)


def repeat(predicate: Callable[..., Any], step: Callable[..., Sequence[Any]], carry: Sequence[Any]) -> list[Any]:
    """Applies a loop of Python functions of flat arrays."""
    return bind_while(flat_loop(predicate, step, carry))


# -- Types, reference semantics and lowering.


def loop_abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
    """The types of the carry; checks that all types of a loop agree."""
    loop = Loop.of(avals, **params)
    refuse_closed("while", loop.cond, loop.body)
    for name, jaxpr, consts in (("predicate", loop.cond, loop.cond_consts), ("body", loop.body, loop.body_consts)):
        operands = [*consts, *loop.carry]
        if not same_types(jaxpr.in_avals, operands):
            raise TypeError(
                f"while: the {name} takes ({types_of(jaxpr.in_avals)}), its operands are ({types_of(operands)})."
            )
    results = loop.body.out_avals
    if not same_types(loop.carry, results):
        raise TypeError(f"while: the body takes the carry ({types_of(loop.carry)}) and gives ({types_of(results)}).")
    flags = loop.cond.out_avals
    if len(flags) != 1 or flags[0].shape or flags[0].dtype != dtypes.bool_:
        raise TypeError(f"while: the predicate must give bool[], and gives ({types_of(flags)}).")
    return results


def _reference(values: Sequence[Any], **params: Any) -> list[Any]:
    loop = Loop.of(values, **params)
    carry = loop.carry
    while reference_eval(loop.cond, (), *loop.cond_consts, *carry)[0]:
        carry = reference_eval(loop.body, (), *loop.body_consts, *carry)
    return carry


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    """A while over the carry, whose regions read the constants from outside."""
    loop = Loop.of(operands, **params)

    def predicate(inner: Builder, carry: list[Value]) -> Value:
        return lower_eqns(inner, loop.cond, [*loop.cond_consts, *carry], "cond")[0]

    def step(inner: Builder, carry: list[Value]) -> list[Value]:
        return lower_eqns(inner, loop.body, [*loop.body_consts, *carry], "body")

    if "ordered" not in effects(loop.cond):
        return b.while_loop(predicate, step, loop.carry, ordered="ordered" in effects(loop.body))

    def step_and_see(inner: Builder, state: list[Value]) -> list[Value]:
        _, *carry = state
        carry = step(inner, carry)
        return [predicate(inner, carry), *carry]

    # Only steps may have ordered effects, so they compute the predicate.
    start = [predicate(b, loop.carry), *loop.carry]
    return b.while_loop(lambda inner, state: state[0], step_and_see, start, ordered=True)[1:]


# -- jvp: one loop, whose carry is `carry, tangents`.


def with_tangents(primals: Loop, tangents: Loop) -> tuple[Loop, Flags]:
    """The loop that carries tangents too, and which of the carry has one."""
    consts = is_active(tangents.body_consts)
    closed, active = jvp_step(primals.body, consts, is_active(tangents.carry))
    groups = primals.body_groups
    jaxpr = rearranged(closed.jaxpr, groups, groups.masked((*consts, *active)))
    t_carry = [instantiate(t) for t in mask(tangents.carry, active)]
    return Loop(
        with_unused_arguments(primals.cond, after=[aval_of(t) for t in t_carry]),
        primals.cond_consts,
        constvars_to_invars(ClosedJaxpr(jaxpr, closed.consts)),
        [*closed.consts, *primals.body_consts, *mask(tangents.body_consts, consts)],
        [*primals.carry, *t_carry],
    ), active


def jvp_step(jaxpr: Jaxpr, first: Flags, start: Flags) -> tuple[ClosedJaxpr, Flags]:
    """The jvp of a jaxpr whose last arguments have the types of its results, and which of those have tangents.

    `first` says which of the other arguments have tangents, `start` which of the last ones do initially.
    """
    bound = least_fixed_point(start, lambda active: affected_outputs(jaxpr, (*first, *active), True))
    return trace_fixed_point(start, bound, lambda active, forced: jvp_jaxpr(jaxpr, (*first, *active), forced))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    loop, active = with_tangents(Loop.of(primals, **params), Loop.of(tangents, **params))
    outs, moved = split_list(bind_while(loop), len(active))
    return outs, with_zeros(moved, active, params["body_jaxpr"].out_avals)


# -- batch: one loop over rows. If rows end at different steps, it runs until the last one ends; finished rows are kept.
# The predicate of each row is computed once per step and carried. If the loop and its step both computed it, XLA might
# round it in two ways, and a row that is running for one and finished for the other would never end.


class MappedLoop:
    """A loop over rows, derived from a loop of one.

    `positions` and `dims` say for each of the original carry which of the new carry is its result, and its mapped
    axis. `rows` says which of the original carry has rows while the loop runs. If rows end at different steps, a carry
    without rows, such as a counter, is one value for all rows, and each row's last value is a further carry.
    """

    __slots__ = ("dims", "loop", "positions", "rows")

    def __init__(self, loop: Loop, positions: Sequence[int], rows: Flags, dims: list[int | None]):
        self.loop, self.positions, self.rows, self.dims = loop, positions, rows, dims

    def results(self, outs: Sequence[Any]) -> list[Any]:
        """The results of the original carry, from those of the new one."""
        return [outs[i] for i in self.positions]


def map_loop(axis_name: Any, size: int, loop: Loop, dims: Sequence[int | None]) -> MappedLoop:
    """The loop over `size` rows, whose operands are mapped along `dims`."""
    flags = loop.like([d is not None for d in dims])
    loop = loop.like(list(map(move_mapped_axis, loop.operands, dims)))
    body, rows = mapped_step(axis_name, size, loop.body, flags.body_consts, tuple(flags.carry))
    cond_dims = tuple([0 if has else None for has in (*flags.cond_consts, *rows)])
    cond, (flag_dim,) = batch_jaxpr(loop.cond, size, cond_dims, axis_name, (False,))
    carry = [
        mapped_to(x, 0 if flag else None, size) if has else x for x, flag, has in zip(loop.carry, flags.carry, rows)
    ]
    if flag_dim is not None:
        return _with_row_predicates(
            size, loop.like([*loop.cond_consts, *loop.body_consts, *carry]), flags, rows, cond, body
        )
    mapped_loop = Loop.closed(cond, body, carry)
    mapped_loop.cond_consts += loop.cond_consts
    mapped_loop.body_consts += loop.body_consts
    return MappedLoop(mapped_loop, range(len(carry)), rows, [0 if has else None for has in rows])


def mapped_step(
    axis_name: Any, size: int, jaxpr: Jaxpr, first: Sequence[bool], start: Flags
) -> tuple[ClosedJaxpr, Flags]:
    """A jaxpr over rows whose last arguments have the types of its results, and which of those have rows.

    `first` says which of the other arguments have rows, `start` which of the last ones do initially.
    """

    def trace(rows: Flags, forced: Flags) -> Any:
        dims = tuple([0 if has else None for has in (*first, *rows)])
        closed, out_dims = batch_jaxpr(jaxpr, size, dims, axis_name, forced)
        return closed, [d is not None for d in out_dims]

    return trace_fixed_point(
        start, least_fixed_point(start, lambda rows: affected_outputs(jaxpr, (*first, *rows), False)), trace
    )


def _with_row_predicates(
    size: int, loop: Loop, flags: Loop, rows: Flags, cond: ClosedJaxpr, body: ClosedJaxpr
) -> MappedLoop:
    """A loop whose carry is `running, last values of the carries without rows, carry`."""
    jaxpr = constvars_to_invars(body)
    is_clock = [not has and not same for has, same in zip(rows, unchanged_carries(body.jaxpr))]
    running = eval_jaxpr(cond.jaxpr, cond.consts, *loop.cond_consts, *loop.carry)
    carry = [*running, *(mapped_to(x, None, size) for x in mask(loop.carry, is_clock)), *loop.carry]
    consts = [*body.consts, *loop.body_consts, *cond.consts, *loop.cond_consts]
    key = ("rows", size, cond.jaxpr, rows, tuple(flags.body_consts))
    if key not in jaxpr.memo:
        has_rows = [*(False for _ in body.consts), *flags.body_consts, *rows]
        carry_avals = [aval_of(x) for x in carry]
        step = _step_of_rows(size, jaxpr, constvars_to_invars(cond), has_rows, is_clock)
        any_running = stage(lambda *state: [reduce_or(state[0], (0,))], carry_avals)
        jaxpr.memo[key] = any_running.jaxpr, constvars_to_invars(stage(step, [*map(aval_of, consts), *carry_avals]))
    any_running, stepped = jaxpr.memo[key]
    groups = Groups(running=1, clocks=sum(is_clock), carry=len(rows))
    last = iter(groups.positions("clocks"))
    positions = [next(last) if clock else i for i, clock in zip(groups.positions("carry"), is_clock)]
    dims = [0 if has or clock else None for has, clock in zip(rows, is_clock)]
    return MappedLoop(Loop(any_running, [], stepped, consts, carry), positions, rows, dims)


def unchanged_carries(body: Jaxpr) -> Flags:
    """Which of the carry, its last arguments, a body returns unchanged."""
    _, carry = split_list(body.invars, len(body.invars) - len(body.outvars))
    return tuple([out is argument for out, argument in zip(body.outvars, carry)])


def _step_of_rows(
    size: int, body: Jaxpr, cond: Jaxpr, has_rows: Sequence[bool], is_clock: Sequence[bool]
) -> Callable[..., list[Any]]:
    """The step of a loop whose rows end at different steps; takes `body constants, predicate constants, carry`."""
    n_carry = len(body.outvars)
    groups = Groups(body_consts=len(body.invars) - n_carry, carry=n_carry)
    n_cond = len(cond.invars) - n_carry
    olds = [i if has else None for i, has in zip(groups.positions("carry"), groups.part("carry", has_rows))]

    def step(*args: Any) -> list[Any]:
        body_consts, cond_consts, (running,), last, carry = split_list(
            args, len(groups.positions("body_consts")), n_cond, 1, sum(is_clock)
        )
        news = step_rows(body, running, [*body_consts, *carry], has_rows, olds)
        clocks = [select_rows(running, mapped_to(x, None, size), old) for x, old in zip(mask(news, is_clock), last)]
        (still_running,) = eval_jaxpr(cond, (), *cond_consts, *news)
        return [bitwise_and(running, still_running), *clocks, *news]

    return step


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    flags = Loop.of([d is not None for d in dims], **params)
    if _must_run_row_by_row(axis_name, size, flags):
        return while_row_by_row(while_p, size, values, dims, params)
    mapped = map_loop(axis_name, size, Loop.of(values, **params), dims)
    return mapped.results(bind_while(mapped.loop)), mapped.dims


def _must_run_row_by_row(axis_name: Any, size: int, flags: Loop) -> bool:
    """Whether the loop has effects and its rows end at different steps; `flags` says which operands have rows.

    A predicate that depends on rows may still be one value for all of them, if a user's batching rule combines them.
    """
    if not (effects(flags.body) or effects(flags.cond)):
        return False
    if axis_name in names_in(flags.body) | names_in(flags.cond):
        return False
    has_rows = (*flags.cond_consts, *flags.affected(False))
    if not any(affected_outputs(flags.cond, has_rows, False)):
        return False
    if effects(flags.cond):
        return True
    dims = tuple([0 if has else None for has in has_rows])
    _, (predicate_dim,) = batch_jaxpr(flags.cond, size, dims, axis_name, (False,))
    return predicate_dim is not None


# -- dce: a loop without the carries that neither its predicate nor a reader reads.


def _dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    loop = Loop.of(eqn.invars, **eqn.params)
    cond_groups, body_groups = loop.cond_groups, loop.body_groups
    _, cond_used = dce_jaxpr(loop.cond, (True,))
    start = tuple([a or b for a, b in zip(used, cond_groups.part("carry", cond_used))])
    carry = least_fixed_point(start, lambda c: body_groups.part("carry", dce_jaxpr(loop.body, c)[1]))
    body, body_used = dce_jaxpr(loop.body, carry, [False] * len(loop.body_consts) + [*carry])
    cond, cond_used = dce_jaxpr(loop.cond, (True,), [False] * len(loop.cond_consts) + [*carry])
    cond_consts, body_consts = mask(loop.cond_consts, cond_used), mask(loop.body_consts, body_used)
    smaller = Loop(cond, cond_consts, body, body_consts, mask(loop.carry, carry))
    return eqn.replace(invars=smaller.operands, outvars=mask(eqn.outvars, carry), params=smaller.params)


# -- split: a loop for the known carry, if the predicate reads no other, and one for the unknown, which repeats it.


def _split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    loop = Loop.of([not flag for flag in is_known], **eqn.params)
    moving = loop.affected(False)
    if all(moving) or not any(moving) or any(affected_outputs(loop.cond, (*loop.cond_consts, *moving), False)):
        return [], [eqn]
    known = _dce(eqn, [not flag for flag in moving])
    unknown_ins = {v for v, flag in zip(eqn.invars, is_known) if not flag}
    if not unknown_ins.isdisjoint(known.invars):  # the predicate passes one to a call that does not use it
        return [], [eqn]
    unknown = _dce(eqn, moving)
    first = set(known.outvars)
    return [known], [unknown.replace(outvars=[DropVar(v.aval) if v in first else v for v in unknown.outvars])]


# -- threaded: a loop that carries the state and its predicate's value, whose computation may change the state.


def with_state(state: Sequence[Any], thread: Any, loop: Loop) -> Loop:
    """The loop whose carry is the predicate's value, the state, and the carry."""
    cond, body = thread(loop.cond), thread(loop.body)

    def with_predicate(state: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
        *new_state, more = eval_jaxpr(cond, (), *state, *loop.cond_consts, *carry)
        return [more, *new_state, *carry]

    def step(_: Any, *carried: Any) -> list[Any]:
        before, carry = split_list(carried, len(state))
        return with_predicate(*split_list(eval_jaxpr(body, (), *before, *loop.body_consts, *carry), len(state)))

    return flat_loop(lambda more, *_: more, step, with_predicate(state, loop.carry))


def _threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
    _, *outs = bind_while(with_state(state, thread, Loop.of(values, **params)))
    return split_list(outs, len(state))


# -- transpose: of a carry that the body returns unchanged, which is the identity, and of nothing else.


def _transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    loop = Loop.of(operands, **params)
    consts = [None] * (len(loop.cond_consts) + len(loop.body_consts))
    unchanged = unchanged_carries(loop.body)
    if any(is_active([ct for ct, same in zip(cts, unchanged) if not same])):
        raise UnsupportedRule(
            f"{no_rule('while', 'transpose')}. Its predicate may depend on the operands in which it is transposed. "
            "Loops are transposed once they are linearized, as xpr.vjp and xpr.grad do; for a number of steps that is "
            "known, use lax.scan."
        )
    return [*consts, *cts]


def loop_regions(
    *, cond_jaxpr: Jaxpr, cond_nconsts: int, body_jaxpr: Jaxpr, body_nconsts: int, **params: Any
) -> list[Region]:
    """The predicate and the body; operands are `cond_consts | body_consts | carry`."""
    groups = Groups(cond_consts=cond_nconsts, body_consts=body_nconsts, carry=len(body_jaxpr.outvars))
    cond_consts, body_consts, carry = map(groups.positions, groups.names)
    predicate = Region(cond_jaxpr, "predicate", (*cond_consts, *carry), ((),), (None,), None)
    results = tuple([(i,) for i in range(len(carry))])
    again = tuple([body_nconsts + i for i in range(len(carry))])
    return [predicate, Region(body_jaxpr, "loop", (*body_consts, *carry), results, again, None)]


def _from_jax(args: Sequence[Any], params: dict[str, Any]) -> Any:
    closed = as_closed(params.get("cond_jaxpr"), params.get("body_jaxpr"))
    if closed is None:
        return None
    cond, body = closed
    cond_consts, body_consts, carry = split_list(args, params["cond_nconsts"], params["body_nconsts"])
    operands = [*cond.consts, *cond_consts, *body.consts, *body_consts, *carry]
    counts = {"cond_nconsts": len(cond.consts) + len(cond_consts), "body_nconsts": len(body.consts) + len(body_consts)}
    jaxprs = {"cond_jaxpr": constvars_to_invars(cond), "body_jaxpr": constvars_to_invars(body)}
    return operands, {**params, **counts, **jaxprs}


while_p = register(
    Primitive(
        "while",
        abstract=loop_abstract,
        params=("cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts"),
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=partial(_batch_named, None),
        batch_named=_batch_named,
        evaluate=lambda args, params: run_operation(while_p, args, params),
        from_jax=_from_jax,
        dce=_dce,
        split=_split,
        threaded=_threaded,
        on_arrays=_on_arrays,
        multiple_results=True,
        regions=loop_regions,
        call=True,
    )
)
