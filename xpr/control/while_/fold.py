"""while_fold: carries a state along the steps of a loop that has been run, forwards or backwards, as one operation.

Reverse mode of a loop is made of it. A linearized loop is a fold that carries tangents forwards; transposed, it is
one that carries cotangents backwards; and jvp, batch and transpose of a fold are folds.

Operands are laid out `total, count | consts | stores | state`. `total` is the number of steps that the loop took; a row
of a mapped loop may have finished after `count` of them. The stores hold checkpoints of the loop's carry,
see checkpoints.py. The parameter `forward` is the loop's body, of `consts | i | carry`, where i is the
number of previous steps; `step` computes the next state from `consts | i | carry | state`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_operation
from xpr.compile.lower import constants, lower_eqns
from xpr.compile.reference import reference_eval
from xpr.config_contexts import while_checkpoints
from xpr.control.activity import Flags, affected_inputs, is_active, least_fixed_point, trace_fixed_point
from xpr.control.cond.cond import bind_cond
from xpr.control.groups import Groups, mask, rearranged, split_list, unmask
from xpr.control.tracing import join_consts
from xpr.control.while_.checkpoints import ZERO, fold_backward, fold_forward, read, run_and_save
from xpr.control.while_.masked_step import step_rows
from xpr.control.while_.while_loop import jvp_step, mapped_step
from xpr.control.xla_call import xla_call_p
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, Var, constvars_to_invars, eval_jaxpr
from xpr.core.primitive import Linear, Primitive, register
from xpr.core.regions import Region
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import convert_element_type, lt
from xpr.primitives.reductions import reduce_max
from xpr.primitives.shapes import instantiate, mapped_to, move_mapped_axis
from xpr.transforms.batch import batch_flat
from xpr.transforms.jvp import with_zeros
from xpr.transforms.linearize import LinearizeTrace
from xpr.transforms.stage import stage
from xpr.transforms.transpose import transpose_jaxpr

__all__ = ["while_fold_p"]

COUNT = ShapedArray((), np.dtype(np.int32))


class Fold:
    """The jaxprs and operands of a fold; the operands may be values, types, or flags."""

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
        (total, count), consts, stores, state = split_list(operands, 2, num_consts, len(forward.outvars))
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

    @property
    def groups(self) -> Groups:
        """The groups of the arguments of the step; the body takes all but the last."""
        return Groups(consts=len(self.consts), i=1, carry=len(self.stores), state=len(self.state))

    def like(self, operands: Sequence[Any]) -> Fold:
        """The same fold with other values, types or flags for its operands."""
        return Fold.of(operands, **self.params)

    def derived(
        self, forward: ClosedJaxpr, step: ClosedJaxpr, consts: Any, stores: Any, state: Any, **changes: Any
    ) -> Fold:
        """A fold of other jaxprs, whose constants precede the other operands."""
        memo, key = step.jaxpr.memo, ("with constants of", forward.jaxpr)
        if key not in memo:
            memo[key] = join_consts([forward, step])
        constants, (forward_jaxpr, step_jaxpr) = memo[key]
        same: dict[str, Any] = {"total": self.total, "count": self.count, "backward": self.backward, **changes}
        consts = [*constants, *consts]
        return Fold(forward_jaxpr, step_jaxpr, consts=consts, stores=stores, state=state, slots=self.slots, **same)


def bind_fold(fold: Fold) -> list[Any]:
    return while_fold_p.bind(*fold.operands, **fold.params)


def _abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
    return Fold.of(avals, **params).step.out_avals


# -- Lowering: loops.


def _loops(avals: Sequence[ShapedArray], params: dict[str, Any], mapped: bool = False) -> ClosedJaxpr:
    """The fold as a program of loops, cached with its step; with `mapped`, one that may be mapped over rows.

    Such a program tests in each step whether the count has been reached, which is always False unless it is mapped.
    """
    step: Jaxpr = params["step"]
    key = ("loops", mapped, *avals, *(params[name] for name in sorted(params)))
    if key not in step.memo:

        def run(*operands: Any) -> list[Any]:
            fold = Fold.of(operands, **params)

            def apply_or_keep(jaxpr: Jaxpr, i: Any, *values: Any) -> list[Any]:
                args = [*fold.consts, i, *values]
                if not mapped:
                    return eval_jaxpr(jaxpr, (), *args)
                is_running = convert_element_type(lt(i, fold.count), np.int32)
                return bind_cond((_identity_step(jaxpr), jaxpr), is_running, args, {})

            move, along = partial(apply_or_keep, fold.forward), partial(apply_or_keep, fold.step)
            if fold.backward:
                return fold_backward(move, along, fold.total, fold.stores, fold.state, fold.slots)
            return fold_forward(move, along, fold.total, fold.stores, fold.state)

        step.memo[key] = stage(run, avals)
    return step.memo[key]


def _identity_step(jaxpr: Jaxpr) -> Jaxpr:
    """The program of the same arguments that returns the last of them."""
    if "identity step" not in jaxpr.memo:
        invars = [Var(v.aval) for v in jaxpr.invars]
        _, last = split_list(invars, len(invars) - len(jaxpr.outvars))
        jaxpr.memo["identity step"] = Jaxpr([], invars, last, [])
    return jaxpr.memo["identity step"]


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    closed = _loops([v.aval for v in operands], params)
    return lower_eqns(b, closed.jaxpr, [*constants(b, closed), *operands])


def _reference(values: Sequence[Any], **params: Any) -> list[Any]:
    closed = _loops(list(map(aval_of, values)), params)
    return reference_eval(closed.jaxpr, closed.consts, *values)


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """The loops, linearized. They carry the stores, so each uses only the square root of the number of slots."""
    closed = _loops(list(map(aval_of, primals)), params, mapped=True)
    zeros = [Zero.from_primal_value(c) for c in closed.consts]
    call = {"call_jaxpr": constvars_to_invars(closed), "name": "while_fold"}
    with while_checkpoints(1 << (params["slots"].bit_length() // 2)):
        return xla_call_p.linearize(trace, [*closed.consts, *primals], [*zeros, *tangents], call)  # type: ignore[misc]


# -- jvp: the fold of a loop that carries tangents too, of a state and its tangents.


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    fold, moved = Fold.of(primals, **params), Fold.of(tangents, **params)
    consts = is_active(moved.consts)
    leading = (*consts, False)  # i has no tangent
    forward, carry = jvp_step(fold.forward, leading, is_active(moved.stores))
    step, state = jvp_step(fold.step, (*leading, *carry), is_active(moved.state))
    both = fold.derived(
        _with_interleaved_tangents(forward, fold, (*leading, *carry)),
        _with_interleaved_tangents(step, fold, (*leading, *carry, *state)),
        [*fold.consts, *mask(moved.consts, consts)],
        [*fold.stores, *map(instantiate, mask(moved.stores, carry))],
        [*fold.state, *map(instantiate, mask(moved.state, state))],
    )
    outs, out_tangents = split_list(bind_fold(both), len(state))
    return outs, with_zeros(out_tangents, state, [aval_of(x) for x in outs])


def _with_interleaved_tangents(closed: ClosedJaxpr, fold: Fold, active: Flags) -> ClosedJaxpr:
    """A jvp with its arguments laid out `consts, tangents | i | carry, tangents | state, tangents`.

    `active` says which of the arguments of the body, or of the step, have tangents.
    """
    groups = fold.groups
    if len(active) < sum(groups.sizes):  # the body takes no state
        groups = groups.masked([*[True] * len(active), *[False] * len(fold.state)])
    return ClosedJaxpr(rearranged(closed.jaxpr, groups, groups.masked(active)), closed.consts)


# -- transpose: the fold of the transposed step, in the opposite direction.


def _transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    """A fold of the transposed step; known parts of the state count as linear: they only add a constant."""
    fold = Fold.of(operands, **params)
    known = [*fold.consts, None, *fold.stores]  # None is i
    if any(type(x) is Linear for x in known):
        raise UnsupportedRule("while_fold: it is linear in its state, and in nothing else.")
    is_linear = (*(False for _ in known), *(True for _ in fold.state))

    def trace(state: Flags, forced: Flags) -> Any:
        transposed = transpose_jaxpr(fold.step, is_linear, state, forced)
        return transposed, transposed[1]

    start = is_active(cts)
    bound = least_fixed_point(start, lambda s: fold.groups.part("state", affected_inputs(fold.step, s, is_linear)))
    (step, _), state = trace_fixed_point(start, bound, trace)
    last = [instantiate(ct) for ct in mask(cts, state)]
    forward = ClosedJaxpr(fold.forward)
    outs = bind_fold(fold.derived(forward, step, fold.consts, fold.stores, last, backward=not fold.backward))
    return [*[None] * (len(operands) - len(state)), *unmask(outs, state)]


# -- batch: one fold over rows, in which finished rows keep their state.


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    fold, at = Fold.of(values, **params), Fold.of(dims, **params)
    if at.total is not None:
        fold, at = _of_equal_strides(size, fold, at)
    has_counts = at.count is not None
    has_rows = at.like([d is not None for d in at.operands])
    leading = (*has_rows.consts, False)  # i is the same for all rows
    forward, carry = mapped_step(axis_name, size, fold.forward, leading, tuple(has_rows.stores))
    start = tuple([has_counts or has for has in has_rows.state])
    step, state = mapped_step(axis_name, size, fold.step, (*leading, *carry), start)
    consts = list(map(move_mapped_axis, fold.consts, at.consts))
    stores = [mapped_to(x, d, size, 1) if has else x for x, d, has in zip(fold.stores, at.stores, carry)]
    states = [mapped_to(x, d, size) if has else x for x, d, has in zip(fold.state, at.state, state)]
    if has_counts:
        counts = mapped_to(fold.count, at.count, size)
        forward = _frozen_after_count(forward, size, [*leading, *carry], len(consts))
        step = _frozen_after_count(step, size, [*leading, *carry, *state], len(consts))
        mapped = fold.derived(forward, step, [*consts, counts], stores, states, count=reduce_max(counts, (0,)))
    else:
        mapped = fold.derived(forward, step, consts, stores, states)
    return bind_fold(mapped), [0 if has else None for has in state]


def _frozen_after_count(closed: ClosedJaxpr, size: int, has_rows: Sequence[bool], n_consts: int) -> ClosedJaxpr:
    """A mapped jaxpr in which rows keep their last arguments once i has reached their count, the last of the consts.

    `has_rows` says which arguments of the body, or of the step, have rows; the last of them are returned. `n_consts`
    is the number of its consts without the counts.
    """
    memo, key = closed.jaxpr.memo, ("frozen after count", tuple(has_rows), n_consts)
    if key not in memo:
        n = len(closed.consts)
        counts = ShapedArray((size,), np.int32)
        body = constvars_to_invars(closed)
        rows = [*[False] * n, *has_rows]
        first = len(rows) - len(body.outvars)
        olds = [i if has else None for i, has in enumerate(rows) if i >= first]

        def run(*args: Any) -> list[Any]:
            consts, (count, i), values = split_list(args, n + n_consts, 2)
            return step_rows(body, lt(i, count), [*consts, i, *values], rows, olds)

        const_avals, other_avals = split_list(closed.in_avals, n_consts)
        staged = stage(run, [*map(aval_of, closed.consts), *const_avals, counts, *other_avals])
        constvars, invars = split_list(staged.jaxpr.invars, n)
        memo[key] = staged.jaxpr.replace(constvars=constvars, invars=invars)
    return ClosedJaxpr(memo[key], closed.consts)


def _of_equal_strides(size: int, fold: Fold, at: Fold) -> tuple[Fold, Fold]:
    """The fold with stores rewritten as if the rows, whose loops were run separately, had been run together."""
    totals = mapped_to(fold.total, at.total, size)
    counts = mapped_to(fold.count, at.count, size) if at.count is not None else totals
    longest = reduce_max(totals, (0,))
    values = [*fold.consts, *map(move_mapped_axis, fold.stores, at.stores)]

    def rerun(*args: Any) -> list[Any]:
        consts, stores = split_list(args, len(fold.consts))
        move = partial(eval_jaxpr, fold.forward, (), *consts)
        start = read(stores, ZERO)
        return run_and_save(lambda count, *_: lt(count, longest), move, start, fold.slots, [True] * len(start))[2]

    dims = [*at.consts, *(None if d is None else 0 for d in at.stores)]
    stores, store_dims = batch_flat(rerun, size, values, dims)
    changed = Fold.of([longest, counts, *fold.consts, *stores, *fold.state], **fold.params)
    return changed, Fold.of([None, 0, *at.consts, *store_dims, *at.state], **fold.params)


def _threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
    """The same fold without checks: the steps that it repeats were checked in the first run."""
    without = {name: thread.without_checks(params[name]) for name in ("forward", "step")}
    return state, while_fold_p.bind(*values, **{**params, **without})


def _regions(*, forward: Jaxpr, step: Jaxpr, num_consts: int, **params: Any) -> list[Region]:
    """The body, which starts from the stores, and the step; operands are `total, count | consts | stores | state`."""
    n, k = len(forward.outvars), len(step.outvars)
    operands = Groups(counts=2, consts=num_consts, stores=n, state=k)
    arguments = Groups(consts=num_consts, i=1, carry=n, state=k)
    counts, consts, stores, state = map(operands.positions, operands.names)
    start = (*consts, None, *stores)
    moved = Region(forward, "loop", start, ((),) * n, tuple(arguments.positions("carry")), None, tuple(counts))
    results = tuple([(i,) for i in range(k)])
    return [moved, Region(step, "loop", (*start, *state), results, tuple(arguments.positions("state")), None)]


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
