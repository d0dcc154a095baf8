"""The reference semantics of scan in NumPy, and its lowering to a StableHLO loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.compile.lower import as_unreduced, lower_eqns
from xpr.compile.reference import reference_eval
from xpr.control.groups import Groups, split_list
from xpr.control.scan.layout import loop_groups
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, effects
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.primitives.comparison_lowering import lower_comparison

COUNT = ShapedArray((), np.dtype(np.int32))

# An iteration of a compiled loop on CPU costs about as much as a few scalar operations. So loops of at least `LONG`
# steps whose bodies have at most `TINY` equations, all of scalars, take several steps per iteration, which makes them
# up to a third faster, for a few milliseconds of compiling.
LONG, STEPS_AN_ITERATION, TINY = 1000, 4, 30


def scan_reference(values: Sequence[Any], **params: Any) -> list[np.ndarray]:
    """Runs the body on one row after another."""
    rows = range(params["length"])
    return rows_reference(values, params, reversed(rows) if params["reverse"] else rows)[1]


def rows_reference(
    values: Sequence[Any], params: dict[str, Any], rows: Iterable[int], ends: Callable[..., bool] = lambda *_: False
) -> tuple[int, list[np.ndarray]]:
    """Runs the body on those rows until `ends(*carry)`; returns the number of steps and the results."""
    body, (operands, results) = params["jaxpr"], loop_groups(params)
    consts, carry, xs = operands.split(values)
    ys = [np.zeros((params["length"], *aval.shape), aval.dtype) for aval in results.part("ys", body.out_avals)]
    count = 0
    for i in rows:
        if ends(*carry):
            break
        carry, outs = results.split(reference_eval(body, (), *consts, *carry, *(x[i] for x in xs)))
        for stack, row in zip(ys, outs):
            stack[i] = row
        count += 1
    return count, [*carry, *ys]


def scan_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    """A while loop over (count, carry, ys), which takes `unroll` steps at a time; remaining steps come first."""
    jaxpr, length, reverse, unroll = (params[name] for name in ("jaxpr", "length", "reverse", "unroll"))
    groups, results = loop_groups(params)
    consts, carry, xs = groups.split(operands)
    loop = LoweredScan(jaxpr, consts, xs, results)
    state = [*carry, *loop.unreduced_stacks(b, zeros(b, results.part("ys", avals)))]
    steps, leftover = (1, 0) if is_symbolic_dim(length) else _steps_and_leftover(b, jaxpr, length, unroll)
    for i in range(leftover):
        state = loop.step(b, b.constant(length - 1 - i if reverse else i, COUNT), state)
    if leftover == length:
        return state

    def goes_on(inner: Builder, values: list[Value]) -> Value:
        return less(inner, values[0], inner.size(length, COUNT))

    def advance(inner: Builder, values: list[Value]) -> list[Value]:
        count, *state = values
        for _ in range(steps):
            row = minus(inner, inner.size(length - 1, COUNT), count) if reverse else count
            state = loop.step(inner, row, state)
            count = next_count(inner, count)
        return [count, *state]

    start = b.constant(leftover, COUNT)
    return b.while_loop(goes_on, advance, [start, *state], ordered="ordered" in effects(jaxpr))[1:]


def _steps_and_leftover(b: Builder, jaxpr: Jaxpr, length: int, unroll: int) -> tuple[int, int]:
    """The number of steps in an iteration of the compiled loop, and of those that are taken before it."""
    steps = min(unroll, length) or 1
    if steps == 1 and length >= LONG and b.platform == "cpu" and _is_tiny(jaxpr):
        steps = STEPS_AN_ITERATION
    iterations, leftover = divmod(length, steps)
    return steps, length if iterations == 1 else leftover


def _is_tiny(jaxpr: Jaxpr) -> bool:
    """Whether a body is a few operations on scalars."""
    return len(jaxpr.eqns) <= TINY and all(
        not v.aval.shape and not eqn.primitive.call for eqn in jaxpr.eqns for v in eqn.outvars
    )


def minus(b: Builder, x: Value, y: Value) -> Value:
    return b.op("stablehlo.subtract", [x, y], COUNT)


def next_count(b: Builder, count: Value) -> Value:
    return b.op("stablehlo.add", [count, b.constant(1, COUNT)], COUNT)


def less(b: Builder, x: Value, y: Value) -> Value:
    return lower_comparison(b, x, y, "LT")


def zeros(b: Builder, avals: Sequence[ShapedArray]) -> list[Value]:
    return [b.constant(np.zeros((), aval.dtype)[()], aval) for aval in avals]


class LoweredScan:
    """A scan that is being lowered: its body, the values that each step reads, and a function that writes one step."""

    __slots__ = ("consts", "jaxpr", "results", "xs")

    def __init__(self, jaxpr: Jaxpr, consts: list[Value], xs: list[Value], results: Groups):
        self.jaxpr, self.consts, self.xs, self.results = jaxpr, consts, xs, results

    def step(self, b: Builder, row: Value, state: list[Value]) -> list[Value]:
        """One step: runs the body on that row of the xs and writes its ys into that row of the results."""
        carry, ys = self.results.split(state)
        _, avals = split_list(self.jaxpr.in_avals, len(self.jaxpr.invars) - len(self.xs))
        rows = list(map(partial(take_row, b, row), avals, self.xs))
        carry, outs = self.results.split(lower_eqns(b, self.jaxpr, [*self.consts, *carry, *rows], "body"))
        avals = self.results.part("ys", self.jaxpr.out_avals)
        return [*carry, *map(partial(put_row, b, row), avals, self.unreduced_stacks(b, ys), outs)]

    def unreduced_stacks(self, b: Builder, ys: list[Value]) -> list[Value]:
        """The stacked ys, marked as unreduced if their rows are."""
        if b.module.mesh is None:
            return ys
        avals = self.results.part("ys", self.jaxpr.out_avals)
        return [as_unreduced(b, aval.with_axis(0, y.aval.shape[0]), y) for aval, y in zip(avals, ys)]


def take_row(b: Builder, index: Value, aval: ShapedArray, x: Value) -> Value:
    """`x[index]`, of the type `aval`; where that is unreduced, so is each intermediate value."""
    shape = x.aval.shape
    zero = b.constant(0, COUNT)
    starts = [index, *[zero] * (len(shape) - 1)]
    if aval.explicit is None:
        return b.reshape(b.window(x, starts, [1, *shape[1:]]), shape[1:])
    x = as_unreduced(b, aval.with_axis(0, shape[0]), x)
    return b.reshape(as_unreduced(b, aval.with_axis(0, 1), b.window(x, starts, [1, *shape[1:]])), shape[1:])


def put_row(b: Builder, index: Value, aval: ShapedArray, x: Value, row: Value) -> Value:
    """`x` with `row`, of the type `aval`, at `index`; where that is unreduced, so is each intermediate value."""
    shape = x.aval.shape
    zero = b.constant(0, COUNT)
    starts = [index, *[zero] * (len(shape) - 1)]
    wide = b.reshape(row, (1, *shape[1:]))
    if aval.explicit is not None:
        wide = as_unreduced(b, aval.with_axis(0, 1), wide)
    written = b.op("stablehlo.dynamic_update_slice", [x, wide, *starts], x.aval)
    return written if aval.explicit is None else as_unreduced(b, aval.with_axis(0, shape[0]), written)
