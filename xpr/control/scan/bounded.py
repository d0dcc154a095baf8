"""bounded_scan: a loop over the leading axis of arrays that ends at a computed number of steps.

    bounded_scan   count | consts | carry | xs -> carry | ys      takes the first `count` rows

The rows of ys that were not reached are zeros. With `reverse` it takes the same rows, the last one first. Apart from
the count, the layout is that of scan.py, whose rules are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_operation
from xpr.control.groups import split_list
from xpr.control.scan.layout import Bind, loop_groups
from xpr.control.scan.linearize import loop_linearize
from xpr.control.scan.lowering import COUNT, LoweredScan, less, minus, next_count, rows_reference, zeros
from xpr.control.scan.on_arrays import loop_on_arrays
from xpr.control.scan.partial_eval import loop_halves
from xpr.control.scan.scan import loop_abstract, loop_batch, loop_jvp, loop_regions, loop_threaded
from xpr.control.scan.transpose import loop_transpose
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, JaxprEqn, constvars_to_invars, effects, eval_jaxpr
from xpr.core.primitive import Primitive, register
from xpr.core.regions import Region
from xpr.primitives import elementwise as e
from xpr.primitives.composites import iota
from xpr.primitives.random_keys import zeros_or_keys
from xpr.primitives.reductions import reduce_max
from xpr.primitives.shapes import mapped_to
from xpr.primitives.slicing import select
from xpr.transforms.stage import stage

__all__ = ["bounded_scan_p"]


def bind_loop(
    primitive: Primitive,
    first: Sequence[Any],
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    carry: Sequence[Any],
    xs: Sequence[Any],
    like: dict[str, Any],
    linear: Sequence[bool] | None = None,
    **changes: Any,
) -> list[Any]:
    """Applies a primitive with a body and operands laid out as those of a scan; `first` precede these operands."""
    params = {**like, "jaxpr": jaxpr, "num_carry": len(carry), "num_consts": len(consts), **changes}
    return primitive.bind(*first, *consts, *carry, *xs, **params)


def masked_body(params: dict[str, Any], is_running: Callable[..., Any], first: Sequence[ShapedArray]) -> Jaxpr:
    """The body of a loop, which keeps the carry and returns zeros where `is_running` is False.

    Its arguments are `first` and those of the body; `is_running` takes `first, consts, carry, xs`.
    """
    body, (operands, results) = params["jaxpr"], loop_groups(params)

    def run(*args: Any) -> list[Any]:
        leading, values = split_list(args, len(first))
        consts, old, xs = operands.split(values)
        active = is_running(leading, consts, old, xs)
        carry, ys = results.split(eval_jaxpr(body, (), *values))
        held_carry = [select(active, new, before) for new, before in zip(carry, old)]
        return [*held_carry, *(select(active, y, zeros_or_keys(y.aval)) for y in ys)]

    return constvars_to_invars(stage(run, [*first, *body.in_avals]))


def _bounded_abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
    return loop_abstract(avals[1:], **params)


def _bounded_reference(values: Sequence[Any], **params: Any) -> list[np.ndarray]:
    count, *operands = values
    rows = range(int(count))
    return rows_reference(operands, params, reversed(rows) if params["reverse"] else rows)[1]


def _bounded_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    """A while loop over (steps taken, carry, ys)."""
    count, *values = operands
    groups, results = loop_groups(params)
    consts, carry, xs = groups.split(values)
    loop = LoweredScan(params["jaxpr"], consts, xs, results)

    def goes_on(inner: Builder, values: list[Value]) -> Value:
        return less(inner, values[0], count)

    def advance(inner: Builder, values: list[Value]) -> list[Value]:
        taken, *state = values
        following = next_count(inner, taken)
        row = minus(inner, count, following) if params["reverse"] else taken
        return [following, *loop.step(inner, row, state)]

    outs = [*carry, *zeros(b, results.part("ys", avals))]
    if not params["length"]:  # there is no row to read
        return outs
    start = [b.constant(0, COUNT), *outs]
    return b.while_loop(goes_on, advance, start, ordered="ordered" in effects(loop.jaxpr))[1:]


def as_bounded_scan(loop: JaxprEqn, count: Any) -> JaxprEqn:
    """The equation of a loop laid out as a scan, with a bound."""
    params = {name: loop.params[name] for name in ("jaxpr", "length", "reverse", "num_consts", "num_carry")}
    return loop.replace(invars=[count, *loop.invars], primitive=bounded_scan_p, params=params)


def _bounded_split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Two loops with this number of steps, if that number is known."""
    if not is_known[0]:
        return [], [eqn]
    count, *operands = eqn.invars
    before, known, after, unknown = loop_halves(eqn.replace(invars=operands), is_known[1:])
    first, second = ([as_bounded_scan(half, count)] if half.outvars else [] for half in (known, unknown))
    return [*before, *first, *after], second


def bounded_scan_of(count: Any) -> Bind:
    """The function that applies a `bounded_scan` of `count` steps; the rules of scan take such functions."""
    return partial(bind_loop, bounded_scan_p, [count])


def _bounded_batch(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    """One loop with as many steps as the longest row takes; finished rows keep their carry."""
    if dims[0] is None:
        return loop_batch(bounded_scan_of(values[0]), axis_name, size, values[1:], dims[1:], **params)
    (count, *operands), (count_dim, *operand_dims) = values, dims
    counts = mapped_to(count, count_dim, size)

    def is_running(first: Sequence[Any], consts: Any, carry: Any, xs: Sequence[Any]) -> Any:
        return e.lt(first[1], first[0])

    masked = masked_body(params, is_running, [COUNT, COUNT])
    groups, _ = loop_groups(params)
    (row_count, row), arguments = split_list(masked.invars, 2)

    def with_counts(values: Sequence[Any], count: Any, row: Any) -> list[Any]:
        consts, carry, xs = groups.split(values)
        return [count, *consts, *carry, row, *xs]

    moved = masked.replace(invars=with_counts(arguments, row_count, row))
    changed = {**params, "jaxpr": moved, "num_consts": params["num_consts"] + 1}
    operands = with_counts(operands, counts, iota(np.int32, params["length"]))
    operand_dims = with_counts(operand_dims, 0, None)
    return loop_batch(bounded_scan_of(reduce_max(counts, (0,))), axis_name, size, operands, operand_dims, **changed)


def _bounded_regions(**params: Any) -> list[Region]:
    """The body, a loop over `count | consts | carry | xs` in which `count` is the number of steps."""
    return [region._replace(chosen_by=(0,)) for region in loop_regions(**params, first=1)]


bounded_scan_p = register(
    Primitive(
        "bounded_scan",
        scope=lambda **params: "while",
        abstract=_bounded_abstract,
        params=("jaxpr", "length", "reverse", "num_consts", "num_carry"),
        reference=_bounded_reference,
        lower=_bounded_lower,
        jvp=lambda primals, tangents, **params: loop_jvp(
            bounded_scan_of(primals[0]), primals[1:], tangents[1:], **params
        ),
        transpose=lambda cts, operands, **params: [
            None, *loop_transpose(bounded_scan_of(operands[0]), False, cts, operands[1:], **params)
        ],
        batch=partial(_bounded_batch, None),
        linearize=lambda trace, primals, tangents, params: loop_linearize(
            bounded_scan_of(primals[0]), bounded_scan_of(primals[0]), False, trace, primals[1:], tangents[1:], params
        ),
        batch_named=_bounded_batch,
        evaluate=lambda args, params: run_operation(bounded_scan_p, args, params),
        split=_bounded_split,
        threaded=lambda state, thread, values, **params: loop_threaded(
            bounded_scan_of(values[0]), state, thread, values[1:], **params
        ),
        on_arrays=lambda args, params: loop_on_arrays(bounded_scan_of(args[0]), args[1:], params),
        multiple_results=True,
        regions=_bounded_regions,
        call=True,
    )
)  # fmt: skip
