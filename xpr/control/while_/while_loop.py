"""while: a loop that goes on for as long as a predicate of its carry holds, as one operation.

Operands are laid out `cond_consts | body_consts | carry`; the predicate takes `cond_consts | carry`, the body
`body_consts | carry`, and the results are the carry. A `Loop` holds the two jaxprs and their operands, and every rule
turns it into another loop, whose jaxprs are remembered with the first one's. Reverse mode is in files of its own, from
reverse.py on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import reference_eval, run_operation
from xpr.compile.lower import lower_eqns
from xpr.control.activity import Flags, picked, reached_outputs, settle, spread
from xpr.control.tracing import same_types
from xpr.control.while_.masked_step import step_rows, where_rows
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import ClosedJaxpr, DropVar, FillerVar, Jaxpr, JaxprEqn, constvars_to_invars, effects, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.regions import Region
from xpr.passes.dce import dce_jaxpr
from xpr.primitives.elementwise import bitwise_and
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import instantiate, mapped_to
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.stage import stage


class Loop:
    """A predicate and a body, jaxprs without constants, and the operands of each.

    What the operands are is left open: values, types, or flags and numbers that say something of them.
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
        first, second = cond_nconsts, cond_nconsts + body_nconsts
        return cls(cond_jaxpr, operands[:first], body_jaxpr, operands[first:second], operands[second:])

    @classmethod
    def closed(cls, cond: ClosedJaxpr, body: ClosedJaxpr, carry: Sequence[Any]) -> Loop:
        """A loop of jaxprs that have constants."""
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

    def like(self, operands: Sequence[Any]) -> Loop:
        """The same loop with other things said of its operands."""
        return Loop.of(operands, **self.params)

    def reached(self, differentiable: bool) -> Flags:
        """Which of the carry is reached through the body from the operands that are marked; they are flags here."""
        consts = self.body_consts
        return spread(tuple(self.carry), lambda c: reached_outputs(self.body, (*consts, *c), differentiable))


def bind_while(loop: Loop) -> list[Any]:
    """Applies a `while`."""
    return while_p.bind(*loop.operands, **loop.params)


def flat_loop(going: Callable[..., Any], step: Callable[..., Sequence[Any]], carry: Sequence[Any]) -> Loop:
    """A loop of Python functions of flat arrays, which may close over others."""
    avals = [aval_of(x) for x in carry]
    return Loop.closed(stage(lambda *xs: [going(*xs)], avals), stage(step, avals), carry)


def repeat(going: Callable[..., Any], step: Callable[..., Sequence[Any]], carry: Sequence[Any]) -> list[Any]:
    """Applies such a loop."""
    return bind_while(flat_loop(going, step, carry))


# -- What it means, and what it becomes.


def loop_abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
    """The types of the carry; checks that all types of a loop agree."""
    loop = Loop.of(avals, **params)
    for name, jaxpr, consts in (("predicate", loop.cond, loop.cond_consts), ("body", loop.body, loop.body_consts)):
        given = [*consts, *loop.carry]
        if not same_types(jaxpr.in_avals, given):
            raise TypeError(f"while: the {name} takes ({_types(jaxpr.in_avals)}), its operands are ({_types(given)}).")
    found = loop.body.out_avals
    if not same_types(loop.carry, found):
        raise TypeError(f"while: the body takes the carry ({_types(loop.carry)}) and gives ({_types(found)}).")
    flags = loop.cond.out_avals
    if len(flags) != 1 or flags[0].shape or flags[0].dtype != dtypes.bool_:
        raise TypeError(f"while: the predicate must give bool[], and gives ({_types(flags)}).")
    return found


def _types(avals: Sequence[ShapedArray]) -> str:
    return ", ".join(a.str_short() for a in avals)


def _reference(values: Sequence[Any], **params: Any) -> list[Any]:
    loop = Loop.of(values, **params)
    carry = loop.carry
    while reference_eval(loop.cond, (), *loop.cond_consts, *carry)[0]:
        carry = reference_eval(loop.body, (), *loop.body_consts, *carry)
    return carry


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    """A while over the carry, whose regions read the constants where they stand."""
    loop = Loop.of(operands, **params)

    def going(inner: Builder, carry: list[Value]) -> Value:
        return lower_eqns(inner, loop.cond, [*loop.cond_consts, *carry])[0]

    def step(inner: Builder, carry: list[Value]) -> list[Value]:
        return lower_eqns(inner, loop.body, [*loop.body_consts, *carry])

    if "ordered" not in effects(loop.cond):
        return b.while_loop(going, step, loop.carry, ordered="ordered" in effects(loop.body))

    def step_and_see(inner: Builder, state: list[Value]) -> list[Value]:
        carry = step(inner, state[1:])
        return [going(inner, carry), *carry]

    start = [going(b, loop.carry), *loop.carry]  # only steps may have ordered effects, so the predicate goes with them
    return b.while_loop(lambda inner, state: state[0], step_and_see, start, ordered=True)[1:]


# -- jvp: one loop, whose carry is `carry, its tangents`.


def with_tangents(primals: Loop, tangents: Loop) -> tuple[Loop, Flags]:
    """The loop that carries tangents too, and which of the carry has one."""
    flags = tangents.like([type(t) is not Zero for t in tangents.operands])
    consts = tuple(flags.body_consts)

    def trace(carry: Flags, forced: Flags) -> Any:
        made = jvp_jaxpr(primals.body, (*consts, *carry), forced)
        return made, made[1]

    (closed, _), active = settle(tuple(flags.carry), flags.reached(True), trace)
    t_carry = [instantiate(t) for t in picked(tangents.carry, active)]
    return Loop(
        with_more_arguments(primals.cond, [aval_of(t) for t in t_carry]),
        primals.cond_consts,
        _tangents_together(closed, len(consts), len(primals.carry), sum(consts)),
        [*closed.consts, *primals.body_consts, *picked(tangents.body_consts, consts)],
        [*primals.carry, *t_carry],
    ), active


def _tangents_together(closed: ClosedJaxpr, n_consts: int, n_carry: int, n_tangents: int) -> Jaxpr:
    """A body's jvp with its arguments laid out `constants | consts, their tangents | carry, its tangents`."""
    jaxpr = closed.jaxpr
    key = ("while jvp", n_consts, n_carry, n_tangents)
    if key not in jaxpr.memo:
        own, tangents = jaxpr.invars[: n_consts + n_carry], jaxpr.invars[n_consts + n_carry :]
        first = [*jaxpr.constvars, *own[:n_consts], *tangents[:n_tangents]]
        jaxpr.memo[key] = jaxpr.replace(constvars=[], invars=[*first, *own[n_consts:], *tangents[n_tangents:]])
    return jaxpr.memo[key]


def with_more_arguments(jaxpr: Jaxpr, avals: Sequence[ShapedArray]) -> Jaxpr:
    """The same program with further arguments, which it does not read; remembered with it."""
    key = ("more arguments", *avals)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = jaxpr.replace(invars=[*jaxpr.invars, *map(FillerVar, avals)])
    return jaxpr.memo[key]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    loop, active = with_tangents(Loop.of(primals, **params), Loop.of(tangents, **params))
    outs = bind_while(loop)
    n = len(active)
    return outs[:n], with_zeros(outs[n:], active, params["body_jaxpr"].out_avals)


# -- batch: one loop over rows. Where rows end apart it goes on until the last one does, and finished rows stand still.
# Which rows go on is worked out once a step and carried. If the loop and its step both worked it out, XLA might round
# it in two ways, and a row that goes on for one and stands still for the other would never end.


class MappedLoop:
    """A loop over rows, made from a loop of one.

    `places` and `dims` say of each of the original carry which of the new carry is its result, and where that has its
    mapped axis. While the loop runs, the original carry is the new one from `first` on; `rows` says which of it has
    rows. What has none in a loop whose rows end apart, a counter perhaps, goes on as one for all, and each row's last
    value is kept beside it.
    """

    __slots__ = ("dims", "first", "loop", "places", "rows")

    def __init__(self, loop: Loop, first: int, places: list[int], rows: Flags, dims: list[int | None]):
        self.loop, self.first, self.places, self.rows, self.dims = loop, first, places, rows, dims


def map_loop(axis_name: Any, size: int, loop: Loop, dims: Sequence[int | None]) -> MappedLoop:
    """The loop over `size` rows, whose operands are mapped along `dims`."""
    flags = loop.like([d is not None for d in dims])
    loop = loop.like([x if d is None else mapped_to(x, d, size) for x, d in zip(loop.operands, dims)])
    body, rows = mapped_step(axis_name, size, loop.body, flags.body_consts, tuple(flags.carry))
    cond_dims = tuple([0 if has else None for has in (*flags.cond_consts, *rows)])
    cond, (flag_dim,) = batch_jaxpr(loop.cond, size, cond_dims, axis_name, (False,))
    carry = [
        mapped_to(x, 0 if flag else None, size) if has else x for x, flag, has in zip(loop.carry, flags.carry, rows)
    ]
    if flag_dim is not None:
        return _ending_apart(size, loop.like([*loop.cond_consts, *loop.body_consts, *carry]), flags, rows, cond, body)
    together = Loop.closed(cond, body, carry)
    together.cond_consts += loop.cond_consts
    together.body_consts += loop.body_consts
    return MappedLoop(together, 0, list(range(len(carry))), rows, [0 if has else None for has in rows])


def mapped_step(
    axis_name: Any, size: int, jaxpr: Jaxpr, first: Sequence[bool], start: Flags
) -> tuple[ClosedJaxpr, Flags]:
    """A jaxpr over rows whose last arguments are of the types it gives, and which of those have rows.

    `first` says which of the other arguments have rows, `start` which of the last ones have in the beginning.
    """

    def trace(rows: Flags, forced: Flags) -> Any:
        dims = tuple([0 if has else None for has in (*first, *rows)])
        closed, out_dims = batch_jaxpr(jaxpr, size, dims, axis_name, forced)
        return closed, [d is not None for d in out_dims]

    return settle(start, spread(start, lambda rows: reached_outputs(jaxpr, (*first, *rows), False)), trace)


def _ending_apart(size: int, loop: Loop, flags: Loop, rows: Flags, cond: ClosedJaxpr, body: ClosedJaxpr) -> MappedLoop:
    """A loop whose carry is `going, last values of what has no rows, carry`."""
    jaxpr, n = constvars_to_invars(body), len(loop.carry)
    clocks = [i for i in range(n) if not rows[i] and jaxpr.outvars[i] is not jaxpr.invars[i - n]]
    going = eval_jaxpr(cond.jaxpr, cond.consts, *loop.cond_consts, *loop.carry)
    carry = [*going, *(mapped_to(loop.carry[i], None, size) for i in clocks), *loop.carry]
    consts = [*body.consts, *loop.body_consts, *cond.consts, *loop.cond_consts]
    key = ("rows", size, cond.jaxpr, rows, tuple(flags.body_consts))
    if key not in jaxpr.memo:
        has_rows = [*(False for _ in body.consts), *flags.body_consts, *rows]
        avals = [aval_of(x) for x in (*consts, *carry)]
        step = _step_of_rows(size, jaxpr, constvars_to_invars(cond), has_rows, clocks)
        any_going = stage(lambda *state: [reduce_or(state[0], (0,))], avals[len(consts) :])
        jaxpr.memo[key] = any_going.jaxpr, constvars_to_invars(stage(step, avals))
    any_going, stepped = jaxpr.memo[key]
    first = 1 + len(clocks)
    places = [1 + clocks.index(i) if i in clocks else first + i for i in range(n)]
    dims = [0 if rows[i] or i in clocks else None for i in range(n)]
    return MappedLoop(Loop(any_going, [], stepped, consts, carry), first, places, rows, dims)


def _step_of_rows(
    size: int, body: Jaxpr, cond: Jaxpr, has_rows: Sequence[bool], clocks: Sequence[int]
) -> Callable[..., list[Any]]:
    """The step of a loop whose rows end apart: of `the body's constants, the predicate's, carry`."""
    n_carry = len(body.outvars)
    n_body, n_cond = len(body.invars) - n_carry, len(cond.invars) - n_carry

    def step(*args: Any) -> list[Any]:
        body_consts, (going, *state) = args[:n_body], args[n_body + n_cond :]
        last, carry = state[: len(clocks)], state[len(clocks) :]
        olds = [n_body + i if has else None for i, has in enumerate(has_rows[n_body:])]
        news = step_rows(body, going, [*body_consts, *carry], has_rows, olds)
        kept = [where_rows(going, mapped_to(news[i], None, size), old) for i, old in zip(clocks, last)]
        (still,) = eval_jaxpr(cond, (), *args[n_body : n_body + n_cond], *news)
        return [bitwise_and(going, still), *kept, *news]

    return step


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    mapped = map_loop(axis_name, size, Loop.of(values, **params), dims)
    outs = bind_while(mapped.loop)
    return [outs[i] for i in mapped.places], mapped.dims


# -- dce: a loop without the carry that neither its predicate nor any reader looks at.


def _dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    loop = Loop.of(eqn.invars, **eqn.params)
    n_cond, n_body = len(loop.cond_consts), len(loop.body_consts)
    _, seen = dce_jaxpr(loop.cond, (True,))
    start = tuple([a or b for a, b in zip(used, seen[n_cond:])])
    carry = spread(start, lambda c: dce_jaxpr(loop.body, c)[1][n_body:])
    body, read = dce_jaxpr(loop.body, carry, (False,) * n_body + carry)
    cond, seen = dce_jaxpr(loop.cond, (True,), (False,) * n_cond + carry)
    smaller = Loop(
        cond, picked(loop.cond_consts, seen), body, picked(loop.body_consts, read), picked(loop.carry, carry)
    )
    return eqn.replace(invars=smaller.operands, outvars=picked(eqn.outvars, carry), params=smaller.params)


# -- split: a loop for the known carry, where the predicate needs no other, and one for the rest, which repeats it.


def _split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    loop = Loop.of([not flag for flag in is_known], **eqn.params)
    moving = loop.reached(False)
    if all(moving) or not any(moving) or any(reached_outputs(loop.cond, (*loop.cond_consts, *moving), False)):
        return [], [eqn]
    known = _dce(eqn, [not flag for flag in moving])
    rest = _dce(eqn, moving)
    own = set(known.outvars)
    return [known], [rest.replace(outvars=[DropVar(v.aval) if v in own else v for v in rest.outvars])]


# -- threaded: a loop that carries the state, and what its predicate says of the carry, which may change the state.


def with_state(state: Sequence[Any], thread: Any, loop: Loop) -> Loop:
    """The loop whose carry is whether it goes on, the state, and the carry."""
    n = len(state)
    cond, body = thread(loop.cond), thread(loop.body)

    def ask(state: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
        *seen, more = eval_jaxpr(cond, (), *state, *loop.cond_consts, *carry)
        return [more, *seen, *carry]

    def step(_: Any, *carried: Any) -> list[Any]:
        outs = eval_jaxpr(body, (), *carried[:n], *loop.body_consts, *carried[n:])
        return ask(outs[:n], outs[n:])

    return flat_loop(lambda more, *_: more, step, ask(state, loop.carry))


def _threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
    outs = bind_while(with_state(state, thread, Loop.of(values, **params)))[1:]
    return outs[: len(state)], outs[len(state) :]


def loop_regions(
    *, cond_jaxpr: Jaxpr, cond_nconsts: int, body_jaxpr: Jaxpr, body_nconsts: int, **params: Any
) -> list[Region]:
    """The predicate and the body, of `cond_consts | body_consts | carry`."""
    n, k = cond_nconsts, cond_nconsts + body_nconsts
    carry = range(k, k + len(body_jaxpr.outvars))
    going = Region(cond_jaxpr, "predicate", (*range(n), *carry), ((),), (None,), None)
    results = tuple([(i,) for i in range(len(carry))])
    again = tuple(range(body_nconsts, body_nconsts + len(carry)))
    return [going, Region(body_jaxpr, "loop", (*range(n, k), *carry), results, again, None)]


while_p = register(
    Primitive(
        "while",
        abstract=loop_abstract,
        params=("cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts"),
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=Unsupported(
            "Nothing says that its predicate doesn't depend on what is linear. Loops are transposed once they are "
            "linearized, as xpr.vjp and xpr.grad do; for a number of steps that is known, use lax.scan."
        ),
        batch=lambda size, values, dims, **params: _batch_named(None, size, values, dims, **params),
        batch_named=_batch_named,
        evaluate=lambda args, params: run_operation(while_p, args, params),
        dce=_dce,
        split=_split,
        threaded=_threaded,
        multiple_results=True,
        regions=loop_regions,
        call=True,
    )
)
