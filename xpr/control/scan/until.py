"""scan_until: a loop over the leading axis of arrays that ends at a predicate of the carry.

    scan_until     consts of `until` | consts | carry | xs -> count | carry | ys    ends when `until` holds of the carry

The rows of ys that were not reached are zeros. `until` takes the leading carries; transformations append others. A
linear loop over its rows is a `bounded_scan`, since the number of steps is known by then. Apart from the constants and
the count, the layout is that of scan.py, whose rules are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_operation
from xpr.compile.lower import lower_eqns
from xpr.compile.reference import reference_eval
from xpr.control.groups import Groups, split_list
from xpr.control.scan.bounded import as_bounded_scan, bind_loop, bounded_scan_of, masked_body
from xpr.control.scan.layout import affected_operands, loop_groups
from xpr.control.scan.linearize import loop_linearize
from xpr.control.scan.lowering import COUNT, LoweredScan, less, next_count, rows_reference, zeros
from xpr.control.scan.partial_eval import loop_halves
from xpr.control.scan.scan import loop_abstract, loop_batch, loop_jvp, loop_regions, loop_threaded
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var, constvars_to_invars, effects, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.regions import Region
from xpr.primitives import elementwise as e
from xpr.primitives.reductions import reduce_and
from xpr.primitives.shapes import mapped_to, move_mapped_axis
from xpr.primitives.slicing import select
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.stage import stage

__all__ = ["scan_until_p"]

T = TypeVar("T")


class _Stop:
    """`until` and its constants, the leading operands: their values, types, or flags."""

    __slots__ = ("consts", "jaxpr", "num_watched")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any]):
        self.jaxpr, self.consts = jaxpr, list(consts)
        self.num_watched = len(jaxpr.invars) - len(consts)

    @classmethod
    def of(cls, operands: Sequence[T], params: dict[str, Any]) -> tuple[_Stop, list[T]]:
        """The predicate, and the operands of the loop."""
        consts, values = split_list(operands, params["until_nconsts"])
        return cls(params["until"], consts), values

    def arguments(self, carry: Sequence[T]) -> list[T]:
        """The arguments of `until`: its constants and the leading carries."""
        watched, _ = split_list(carry, self.num_watched)
        return [*self.consts, *watched]


def _until_abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
    return [COUNT, *loop_abstract(_Stop.of(avals, params)[1], **params)]


def _until_reference(values: Sequence[Any], **params: Any) -> list[Any]:
    stop, operands = _Stop.of(values, params)

    def ends(*carry: Any) -> bool:
        return bool(reference_eval(stop.jaxpr, (), *stop.arguments(carry))[0])

    count, outs = rows_reference(operands, params, range(params["length"]), ends)
    return [np.int32(count), *outs]


def _until_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    """A while loop over (steps taken, carry, ys)."""
    stop, values = _Stop.of(operands, params)
    groups, results = loop_groups(params)
    consts, carry, xs = groups.split(values)
    loop = LoweredScan(params["jaxpr"], consts, xs, results)
    flag = ShapedArray((), dtypes.bool_)

    def goes_on(inner: Builder, values: list[Value]) -> Value:
        count, *state = values
        (stopped,) = lower_eqns(inner, stop.jaxpr, stop.arguments(state), "cond")
        more = less(inner, count, inner.constant(params["length"], COUNT))
        return inner.op("stablehlo.and", [more, inner.op("stablehlo.not", [stopped], flag)], flag)

    def advance(inner: Builder, values: list[Value]) -> list[Value]:
        count, *state = values
        return [next_count(inner, count), *loop.step(inner, count, state)]

    start = [b.constant(0, COUNT), *carry, *zeros(b, results.part("ys", avals[1:]))]
    if not params["length"]:
        return start
    return b.while_loop(goes_on, advance, start, ordered="ordered" in effects(loop.jaxpr))


class _Until:
    """Applies a `scan_until` for the rules of scan, which have no count among the results, and stores the count."""

    __slots__ = ("count", "first")

    def __init__(self, first: Sequence[Any]):
        self.first = first

    def __call__(self, *args: Any, **changes: Any) -> list[Any]:
        self.count, *outs = bind_loop(scan_until_p, self.first, *args, **changes)
        return outs


def _until_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    (stop, values), (_, moved) = _Stop.of(primals, params), _Stop.of(tangents, params)
    bind = _Until(stop.consts)
    outs, out_tangents = loop_jvp(bind, values, moved, **params)
    return [bind.count, *outs], [Zero(COUNT.to_tangent_aval()), *out_tangents]


def _until_linearize(trace: Any, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """The same loop with residuals as further results, and a linear loop with as many steps."""
    (stop, values), (_, moved) = _Stop.of(primals, params), _Stop.of(tangents, params)
    bind = _Until(stop.consts)

    def bind_linear(*args: Any) -> list[Any]:
        *bodies, like, linear = args
        like = {key: value for key, value in like.items() if not key.startswith("until")}
        return bounded_scan_of(bind.count)(*bodies, like, linear)

    outs, out_tangents = loop_linearize(bind, bind_linear, False, trace, values, moved, params)
    return [bind.count, *outs], [Zero(COUNT.to_tangent_aval()), *out_tangents]


def _until_batch(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    """One loop. If rows stop at different steps, it runs until the last one stops; finished rows keep their carry."""
    (stop, operands), (stop_at, operand_dims) = _Stop.of(values, params), _Stop.of(dims, params)
    groups, results = loop_groups(params)
    mapped = groups.part("carry", affected_operands(params, [d is not None for d in operand_dims], False))
    if all(d is None for d in stop_at.consts) and not any(stop_at.arguments(mapped)):
        bind = _Until(stop.consts)
        outs, out_dims = loop_batch(bind, axis_name, size, operands, operand_dims, **params)
        return [bind.count, *outs], [None, *out_dims]
    rows = list(map(move_mapped_axis, stop.consts, stop_at.consts))
    row_dims = [None if d is None else 0 for d in stop_at.consts]

    def is_running(first: Sequence[Any], consts: Any, carry: Sequence[Any], xs: Any) -> Any:
        return e.bitwise_not(eval_jaxpr(stop.jaxpr, (), *_Stop(stop.jaxpr, first).arguments(carry))[0])

    counted = {**params, "jaxpr": _with_count(params), "num_carry": params["num_carry"] + 1}
    loop = masked_body(counted, is_running, _Stop.of(stop.jaxpr.in_avals, params)[0].consts)
    consts, carry, xs = groups.split(operands)
    d_consts, d_carry, d_xs = groups.split(operand_dims)
    watched = [i < stop.num_watched for i in range(len(carry))]
    carry = [mapped_to(x, d, size) if is_watched else x for x, d, is_watched in zip(carry, d_carry, watched)]
    d_carry = [0 if is_watched else d for d, is_watched in zip(d_carry, watched)]
    first, all_stop = _all_stop(stop.jaxpr, size, (*row_dims, *[0] * stop.num_watched))
    changes = {
        **counted, "jaxpr": loop, "num_consts": len(rows) + len(consts),
        "until": all_stop, "until_nconsts": len(first) + len(rows),
    }  # fmt: skip
    outs, out_dims = loop_batch(
        _Until([*first, *rows]),
        axis_name,
        size,
        [*rows, *consts, *carry, np.int32(0), *xs],
        [*row_dims, *d_consts, *d_carry, None, *d_xs],
        **changes,
    )
    return _count_first(results, outs), _count_first(results, out_dims)


def _count_first(results: Groups, values: Sequence[Any]) -> list[Any]:
    """The results of a loop whose last carry counts its steps, with the count first."""
    values, count = results.deinterleave(values, Groups(carry=1, ys=0))
    return [*count, *values]


def _until_threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
    """Passes the state through `until`, then the body; and once more through `until` where that ended the loop."""
    stop, operands = _Stop.of(values, params)
    groups, results = loop_groups(params)
    bind = _Until(stop.consts)
    loop = {**params, "until": thread.without_checks(stop.jaxpr)}
    if not thread.may_fail(stop.jaxpr):
        state, outs = loop_threaded(bind, state, thread, operands, **loop)
        return state, [bind.count, *outs]

    def state_after_until(stop: _Stop, state: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
        return split_list(thread.evaluate(stop.jaxpr, state, stop.arguments(carry)), len(state))[0]

    def with_until(body: Jaxpr) -> Jaxpr:
        def run(*args: Any) -> list[Any]:
            before, consts, arguments = split_list(args, len(state), len(stop.consts))
            checked = state_after_until(_Stop(stop.jaxpr, consts), before, groups.part("carry", arguments))
            return thread.evaluate(body, checked, arguments)

        consts = _Stop.of(stop.jaxpr.in_avals, params)[0].consts
        return constvars_to_invars(stage(run, [*map(aval_of, state), *consts, *body.in_avals]))

    loop["num_consts"] += len(stop.consts)
    after, outs = loop_threaded(bind, state, with_until, values, **loop)
    ended = e.lt(bind.count, np.int32(params["length"]))
    checked = state_after_until(stop, after, results.part("carry", outs))
    return [select(ended, new, old) for new, old in zip(checked, after)], [bind.count, *outs]


def _all_stop(until: Jaxpr, size: int, dims: tuple[int | None, ...]) -> tuple[list[Any], Jaxpr]:
    """`until` for all rows together: whether it holds for every row."""
    closed, (out_dim,) = batch_jaxpr(until, size, dims)

    def run(*args: Any) -> list[Any]:
        (flags,) = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        return [flags if out_dim is None else reduce_and(flags, (0,))]

    staged = stage(run, closed.in_avals)
    return staged.consts, constvars_to_invars(staged)


def _until_split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The loop over known values, if `until` reads no others, and a loop with as many steps over the unknown ones."""
    (stop, operands), (stop_known, operands_known) = _Stop.of(eqn.invars, eqn.params), _Stop.of(is_known, eqn.params)
    count, *outvars = eqn.outvars
    loop = eqn.replace(invars=operands, outvars=outvars)
    before, known, after, unknown = loop_halves(loop, operands_known)
    watched, _ = split_list(outvars, stop.num_watched)
    if not all(stop_known.consts) or not set(watched) <= set(known.outvars):
        return [], [eqn]
    count = Var(COUNT) if type(count) is DropVar else count
    params = {**eqn.params, **{name: known.params[name] for name in ("jaxpr", "num_consts", "num_carry")}}
    first = eqn.replace(invars=[*stop.consts, *known.invars], outvars=[count, *known.outvars], params=params)
    return [*before, first, *after], [as_bounded_scan(unknown, count)] if unknown.outvars else []


def _with_count(params: dict[str, Any]) -> Jaxpr:
    """The body of a loop with a count of its steps as the last carry."""
    body, (operands, results) = params["jaxpr"], loop_groups(params)
    count, following = Var(COUNT), Var(COUNT)
    eqn = JaxprEqn([count, Literal(np.int32(1))], [following], e.add_p, {})
    return body.replace(
        invars=operands.interleave(body.invars, Groups(consts=0, carry=1, xs=0), [count]),
        outvars=results.interleave(body.outvars, Groups(carry=1, ys=0), [following]),
        eqns=[*body.eqns, eqn],
    )


def _until_regions(*, until: Jaxpr, until_nconsts: int, **params: Any) -> list[Region]:
    """The predicate and the body; operands are `until_consts | consts | carry | xs`, results `count | carry | ys`."""
    carry = until_nconsts + params["num_consts"]
    operands = (*range(until_nconsts), *range(carry, carry + len(until.invars) - until_nconsts))
    stop = Region(until, "predicate", operands, ((),), (None,), params["length"])
    return [stop, *loop_regions(**params, first=until_nconsts, counts=1)]


scan_until_p = register(
    Primitive(
        "scan_until",
        scope=lambda **params: "while",
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
