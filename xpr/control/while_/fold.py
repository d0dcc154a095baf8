"""while_fold: carries a state along the steps of a loop that has been run, forwards or backwards, as one operation.

It is what reverse mode needs of a loop. A linearized loop is a fold that carries tangents forwards; transposed, it is
one that carries cotangents backwards; and jvp, batch and transpose of a fold are folds.

Operands are laid out `total, count | consts | stores | state`. `total` is the number of steps that the loop took; a row
of a mapped loop may have taken only `count` of them and stood still. The stores hold checkpoints of the loop's carry,
see checkpoints.py. The parameter `forward` is the loop's body, of `consts | i | carry`, where i is the
number of steps taken before; `step` gives the next state, of `consts | i | carry | state`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import reference_eval, run_operation
from xpr.compile.lower import constants, lower_eqns
from xpr.config import while_checkpoints
from xpr.control.activity import Flags, picked, reached_inputs, reached_outputs, settle, spread
from xpr.control.cond.cond import bind_cond
from xpr.control.tracing import join_consts
from xpr.control.while_.checkpoints import ZERO, fold_backward, fold_forward, read, run_and_save
from xpr.control.while_.masked_step import step_rows
from xpr.control.while_.while_loop import mapped_step
from xpr.control.xla_call import xla_call_p
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, Var, constvars_to_invars, eval_jaxpr
from xpr.core.primitive import Linear, Primitive, register
from xpr.core.regions import Region
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import convert_element_type, lt
from xpr.primitives.reductions import reduce_max
from xpr.primitives.shapes import instantiate, mapped_to
from xpr.transforms.batch import batch_flat
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.linearize import LinearizeTrace
from xpr.transforms.stage import stage
from xpr.transforms.transpose import transpose_jaxpr

COUNT = ShapedArray((), np.dtype(np.int32))


class Fold:
    """The jaxprs and operands of a fold. What the operands are is left open: values, types, or what is said of them."""

    __slots__ = ("backward", "consts", "count", "forward", "slots", "state", "step", "stores", "total")

    def __init__(
        self,
        forward: Jaxpr,
        step: Jaxpr,
        total: Any,
        count: Any,
        consts: Sequence[Any],
        stores: Sequence[Any],
        state: Sequence[Any],
        *,
        slots: int,
        backward: bool,
    ):
        self.forward, self.step, self.slots, self.backward = forward, step, slots, backward
        self.total, self.count = total, count
        self.consts, self.stores, self.state = list(consts), list(stores), list(state)

    @classmethod
    def of(
        cls, operands: Sequence[Any], *, forward: Jaxpr, step: Jaxpr, num_consts: int, backward: bool, slots: int
    ) -> Fold:
        total, count, *rest = operands
        n_carry = len(forward.outvars)
        consts, stores, state = rest[:num_consts], rest[num_consts : num_consts + n_carry], rest[num_consts + n_carry :]
        return cls(forward, step, total, count, consts, stores, state, slots=slots, backward=backward)

    @property
    def operands(self) -> list[Any]:
        return [self.total, self.count, *self.consts, *self.stores, *self.state]

    @property
    def params(self) -> dict[str, Any]:
        return {
            "backward": self.backward,
            "forward": self.forward,
            "num_consts": len(self.consts),
            "slots": self.slots,
            "step": self.step,
        }

    def like(self, operands: Sequence[Any]) -> Fold:
        """The same fold with other things said of its operands."""
        return Fold.of(operands, **self.params)

    def derived(
        self, forward: ClosedJaxpr, step: ClosedJaxpr, consts: Any, stores: Any, state: Any, **changes: Any
    ) -> Fold:
        """A fold of other jaxprs, whose constants lead the others."""
        memo, key = step.jaxpr.memo, ("with constants of", forward.jaxpr)
        if key not in memo:
            memo[key] = join_consts([forward, step])
        own, (forward_jaxpr, step_jaxpr) = memo[key]
        given: dict[str, Any] = {"total": self.total, "count": self.count, "backward": self.backward, **changes}
        return Fold(
            forward_jaxpr, step_jaxpr, consts=[*own, *consts], stores=stores, state=state, slots=self.slots, **given
        )


def bind_fold(fold: Fold) -> list[Any]:
    return while_fold_p.bind(*fold.operands, **fold.params)


def _abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
    return Fold.of(avals, **params).step.out_avals


# -- What it becomes: loops.


def _loops(avals: Sequence[ShapedArray], params: dict[str, Any], asks: bool = False) -> ClosedJaxpr:
    """The fold as a program of loops, remembered with its step; `asks`: one that may be mapped over rows.

    Such a program asks in each step whether the count has been reached, which is never so before it is mapped.
    """
    step: Jaxpr = params["step"]
    key = ("loops", asks, *avals, *(params[name] for name in sorted(params)))
    if key not in step.memo:

        def run(*operands: Any) -> list[Any]:
            fold = Fold.of(operands, **params)

            def taken(jaxpr: Jaxpr, i: Any, *rest: Any) -> list[Any]:
                args = [*fold.consts, i, *rest]
                if not asks:
                    return eval_jaxpr(jaxpr, (), *args)
                is_going = convert_element_type(lt(i, fold.count), np.int32)
                return bind_cond((_keeping(jaxpr), jaxpr), is_going, args, {})

            move, along = partial(taken, fold.forward), partial(taken, fold.step)
            if fold.backward:
                return fold_backward(move, along, fold.total, fold.stores, fold.state, fold.slots)
            return fold_forward(move, along, fold.total, fold.stores, fold.state)

        step.memo[key] = stage(run, avals)
    return step.memo[key]


def _keeping(jaxpr: Jaxpr) -> Jaxpr:
    """The program of the same arguments that gives back the last of them."""
    if "keeping" not in jaxpr.memo:
        invars = [Var(v.aval) for v in jaxpr.invars]
        jaxpr.memo["keeping"] = Jaxpr([], invars, invars[len(invars) - len(jaxpr.outvars) :], [])
    return jaxpr.memo["keeping"]


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    closed = _loops([v.aval for v in operands], params)
    return lower_eqns(b, closed.jaxpr, [*constants(b, closed), *operands])


def _reference(values: Sequence[Any], **params: Any) -> list[Any]:
    closed = _loops(list(map(aval_of, values)), params)
    return reference_eval(closed.jaxpr, closed.consts, *values)


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """The loops, linearized. They carry the stores, so each of them makes do with the root of the number of slots."""
    closed = _loops(list(map(aval_of, primals)), params, asks=True)
    zeros = [Zero(aval_of(c).to_tangent_aval()) for c in closed.consts]
    call = {"call_jaxpr": constvars_to_invars(closed), "name": "while_fold"}
    with while_checkpoints(1 << (params["slots"].bit_length() // 2)):
        return xla_call_p.linearize(trace, [*closed.consts, *primals], [*zeros, *tangents], call)  # type: ignore[misc]


# -- jvp: the fold of a loop that carries tangents too, of a state and its tangents.


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    fold, moved = Fold.of(primals, **params), Fold.of(tangents, **params)
    flags = moved.like([type(t) is not Zero for t in tangents])
    consts = (*flags.consts, False)

    def of_carry(carry: Flags, forced: Flags) -> Any:
        made = jvp_jaxpr(fold.forward, (*consts, *carry), forced)
        return made, made[1]

    bound = spread(tuple(flags.stores), lambda c: reached_outputs(fold.forward, (*consts, *c), True))
    (forward, _), carry = settle(tuple(flags.stores), bound, of_carry)

    def of_state(state: Flags, forced: Flags) -> Any:
        made = jvp_jaxpr(fold.step, (*consts, *carry, *state), forced)
        return made, made[1]

    bound = spread(tuple(flags.state), lambda s: reached_outputs(fold.step, (*consts, *carry, *s), True))
    (step, _), state = settle(tuple(flags.state), bound, of_state)
    both = fold.derived(
        _tangents_together(forward, fold, consts, carry),
        _tangents_together(step, fold, consts, carry, state),
        [*fold.consts, *picked(moved.consts, flags.consts)],
        [*fold.stores, *map(instantiate, picked(moved.stores, carry))],
        [*fold.state, *map(instantiate, picked(moved.state, state))],
    )
    outs = bind_fold(both)
    n = len(state)
    return outs[:n], with_zeros(outs[n:], state, [aval_of(x) for x in outs[:n]])


def _tangents_together(closed: ClosedJaxpr, fold: Fold, *active: Flags) -> ClosedJaxpr:
    """A jvp with its arguments laid out `consts, their tangents | i | carry, its tangents | state, its tangents`.

    `active` says of each of these parts which have tangents; the i is the last of the consts.
    """
    memo, key = closed.jaxpr.memo, ("tangents together", active)
    if key not in memo:
        invars = closed.jaxpr.invars
        own, tangents = iter(invars), iter(invars[sum(map(len, active)) :])
        parts = []
        for flags in active:
            values = [next(own) for _ in flags]
            parts.append([values, [next(tangents) for _ in range(sum(flags))]])
        *consts, count = parts[0][0]
        first = [*consts, *parts[0][1], count]
        memo[key] = closed.jaxpr.replace(invars=[*first, *(v for part in parts[1:] for vs in part for v in vs)])
    return ClosedJaxpr(memo[key], closed.consts)


# -- transpose: the fold of the transposed step, the other way.


def _transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    """Parts of the state that are known add a constant to the result, of which a transposed operation knows nothing."""
    fold = Fold.of(operands, **params)
    known = [*fold.consts, None, *fold.stores]
    if any(type(x) is Linear for x in known):
        raise UnsupportedRule("while_fold: it is linear in its state, and in nothing else.")
    is_linear = (*(False for _ in known), *(True for _ in fold.state))

    def trace(state: Flags, forced: Flags) -> Any:
        made = transpose_jaxpr(fold.step, is_linear, state, forced)
        return made, made[1]

    start = tuple([type(ct) is not Zero for ct in cts])
    bound = spread(start, lambda s: reached_inputs(fold.step, s, is_linear)[len(known) :])
    (step, _), state = settle(start, bound, trace)
    given = [instantiate(ct) for ct in picked(cts, state)]
    forward = ClosedJaxpr(fold.forward)
    outs = iter(bind_fold(fold.derived(forward, step, fold.consts, fold.stores, given, backward=not fold.backward)))
    found = [next(outs) if has else None for has in state]
    return [*(None for _ in range(len(operands) - len(state))), *found]


# -- batch: one fold over rows, of which those that have taken all their steps stand still.


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    fold, at = Fold.of(values, **params), Fold.of(dims, **params)
    if at.total is not None:
        fold, at = _of_equal_strides(size, fold, at)
    ends_apart = at.count is not None
    fold = Fold.of(
        [
            fold.total,
            mapped_to(fold.count, at.count, size) if ends_apart else fold.count,
            *(x if d is None else mapped_to(x, d, size) for x, d in zip(fold.consts, at.consts)),
            *(x if d is None else mapped_to(x, d, size, 1) for x, d in zip(fold.stores, at.stores)),
            *(x if d is None else mapped_to(x, d, size) for x, d in zip(fold.state, at.state)),
        ],
        **params,
    )
    has = at.like([d is not None for d in (at.total, at.count, *at.consts, *at.stores, *at.state)])
    consts = (*has.consts, False)
    forward, carry = mapped_step(axis_name, size, fold.forward, consts, tuple(has.stores))
    everywhere = tuple([s or ends_apart for s in has.state])
    step, state = mapped_step(axis_name, size, fold.step, (*consts, *carry), everywhere)
    stores = [x if h else mapped_to(x, None, size, 1) if c else x for x, h, c in zip(fold.stores, has.stores, carry)]
    states = [x if h else mapped_to(x, None, size) if s else x for x, h, s in zip(fold.state, has.state, state)]
    if not ends_apart:
        return bind_fold(fold.derived(forward, step, fold.consts, stores, states)), [0 if s else None for s in state]
    forward = _standing_still(forward, size, [*consts, *carry], len(consts), 0)
    step = _standing_still(step, size, [*consts, *carry, *state], len(consts), len(carry))
    together = fold.derived(
        forward, step, [*fold.consts, fold.count], stores, states, count=reduce_max(fold.count, (0,))
    )
    return bind_fold(together), [0 if s else None for s in state]


def _standing_still(closed: ClosedJaxpr, size: int, rows: Sequence[bool], n_consts: int, skipped: int) -> ClosedJaxpr:
    """A mapped jaxpr in which rows keep their last arguments once i has reached their count, the last of the consts.

    `rows` says which arguments have rows; the last of the `n_consts` is i, after which `skipped` are not given back.
    """
    memo, key = closed.jaxpr.memo, ("standing still", tuple(rows), n_consts, skipped)
    if key not in memo:
        avals = closed.in_avals
        counts = ShapedArray((size,), np.int32)
        n = len(closed.consts)
        has_rows = [*(False for _ in closed.consts), *rows]
        olds = [n + i if rows[i] else None for i in range(n_consts + skipped, len(rows))]
        body = constvars_to_invars(closed)

        def run(*args: Any) -> list[Any]:
            consts, (count, i, *rest) = args[: n + n_consts - 1], args[n + n_consts - 1 :]
            return step_rows(body, lt(i, count), [*consts, i, *rest], has_rows, olds)

        constant_avals = [aval_of(c) for c in closed.consts]
        given = [*constant_avals, *avals[: n_consts - 1], counts, *avals[n_consts - 1 :]]
        staged = stage(run, given)
        memo[key] = staged.jaxpr.replace(constvars=staged.jaxpr.invars[:n], invars=staged.jaxpr.invars[n:])
    return ClosedJaxpr(memo[key], closed.consts)


def _of_equal_strides(size: int, fold: Fold, at: Fold) -> tuple[Fold, Fold]:
    """The fold with stores made anew, as if the rows, whose loops were run apart, had been run together."""
    totals = mapped_to(fold.total, at.total, size)
    counts = mapped_to(fold.count, at.count, size) if at.count is not None else totals
    longest = reduce_max(totals, (0,))
    first = [x if d is None else mapped_to(x, d, size) for x, d in zip(fold.stores, at.stores)]
    values = [*fold.consts, *first]
    n = len(fold.consts)

    def again(*args: Any) -> list[Any]:
        move = partial(eval_jaxpr, fold.forward, (), *args[:n])
        start = read(args[n:], ZERO)
        return run_and_save(lambda count, *_: lt(count, longest), move, start, fold.slots, [True] * len(start))[2]

    dims = [*at.consts, *(None if d is None else 0 for d in at.stores)]
    stores, store_dims = batch_flat(again, size, values, dims)
    changed = Fold.of([longest, counts, *fold.consts, *stores, *fold.state], **fold.params)
    return changed, Fold.of([None, 0, *at.consts, *store_dims, *at.state], **fold.params)


def _threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
    """Itself without checks: the steps that it takes again were checked when they were taken first."""
    without = {name: thread.without(params[name]) for name in ("forward", "step")}
    return state, while_fold_p.bind(*values, **{**params, **without})


def _regions(*, forward: Jaxpr, step: Jaxpr, num_consts: int, **params: Any) -> list[Region]:
    """The body, which starts from the stores, and the step, of `total, count | consts | stores | state`."""
    consts, n, k = range(2, 2 + num_consts), len(forward.outvars), len(step.outvars)
    stores = range(consts.stop, consts.stop + n)
    state = range(stores.stop, stores.stop + k)
    first = num_consts + 1  # after the number of steps taken
    moved = Region(forward, "loop", (*consts, None, *stores), ((),) * n, tuple(range(first, first + n)), None, (0, 1))
    operands, results = (*consts, None, *stores, *state), tuple([(i,) for i in range(k)])
    return [moved, Region(step, "loop", operands, results, tuple(range(first + n, first + n + k)), None)]


while_fold_p = register(
    Primitive(
        "while_fold",
        abstract=_abstract,
        params=("forward", "step", "num_consts", "backward", "slots"),
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=partial(_batch_named, None),
        batch_named=_batch_named,
        linearize=_linearize,
        evaluate=lambda args, params: run_operation(while_fold_p, args, params),
        threaded=_threaded,
        multiple_results=True,
        regions=_regions,
        call=True,
    )
)
