"""What a scan means, in NumPy, and the loop it becomes in StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value, int_array
from xpr.compile.evaluate import reference_eval
from xpr.compile.lower import lower_eqns
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, effects

COUNT = ShapedArray((), np.dtype(np.int32))

# A round of a compiled loop on CPU costs about as much as a few operations on numbers. So long loops with bodies of no
# more than that take several steps a round, which makes them up to a third faster, for a few milliseconds of compiling.
LONG, STEPS_A_ROUND, TINY = 1000, 4, 30


def scan_reference(
    values: Sequence[Any], *, jaxpr: Jaxpr, length: int, reverse: bool, num_consts: int, num_carry: int, **_: Any
) -> list[np.ndarray]:
    """Runs the body on one row after the other."""
    consts, carry = values[:num_consts], list(values[num_consts : num_consts + num_carry])
    xs = values[num_consts + num_carry :]
    ys = [np.zeros((length, *v.aval.shape), v.aval.dtype) for v in jaxpr.outvars[num_carry:]]
    for i in reversed(range(length)) if reverse else range(length):
        outs = reference_eval(jaxpr, (), *consts, *carry, *(x[i] for x in xs))
        carry = outs[:num_carry]
        for stack, y in zip(ys, outs[num_carry:]):
            stack[i] = y
    return [*carry, *ys]


def scan_lower(
    b: Builder,
    operands: list[Value],
    avals: list[ShapedArray],
    *,
    jaxpr: Jaxpr,
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    unroll: int,
    **_: Any,
) -> list[Value]:
    """A while loop over (count, carry, ys), which takes `unroll` steps at a time; what is left over comes first."""
    consts, carry = operands[:num_consts], operands[num_consts : num_consts + num_carry]
    xs = operands[num_consts + num_carry :]
    ys = zeros(b, avals[num_carry:])
    loop = Loop(jaxpr, consts, xs, num_carry)
    state = [*carry, *ys]
    steps = min(unroll, length) or 1
    if steps == 1 and length >= LONG and b.platform == "cpu" and _is_tiny(jaxpr):
        steps = STEPS_A_ROUND
    rounds, rest = divmod(length, steps)
    if rounds == 1:
        rounds, rest = 0, length
    for i in range(rest):
        state = loop.step(b, b.constant(length - 1 - i if reverse else i, COUNT), state)
    if not rounds:
        return state

    def going(inner: Builder, values: list[Value]) -> Value:
        return less(inner, values[0], inner.constant(length, COUNT))

    def advance(inner: Builder, values: list[Value]) -> list[Value]:
        count, state = values[0], values[1:]
        for _ in range(steps):
            place = count
            if reverse:
                place = minus(inner, inner.constant(length - 1, COUNT), count)
            state = loop.step(inner, place, state)
            count = next_count(inner, count)
        return [count, *state]

    start = b.constant(rest, COUNT)
    return b.while_loop(going, advance, [start, *state], ordered="ordered" in effects(jaxpr))[1:]


def _is_tiny(jaxpr: Jaxpr) -> bool:
    """Whether a body is a few operations on numbers."""
    return len(jaxpr.eqns) <= TINY and all(
        not v.aval.shape and not eqn.primitive.call for eqn in jaxpr.eqns for v in eqn.outvars
    )


def minus(b: Builder, x: Value, y: Value) -> Value:
    return b.op("stablehlo.subtract", [x, y], COUNT)


def next_count(b: Builder, count: Value) -> Value:
    return b.op("stablehlo.add", [count, b.constant(1, COUNT)], COUNT)


def less(b: Builder, x: Value, y: Value) -> Value:
    direction = "comparison_direction = #stablehlo<comparison_direction LT>"
    return b.op("stablehlo.compare", [x, y], ShapedArray((), dtypes.bool_), direction)


def zeros(b: Builder, avals: Sequence[ShapedArray]) -> list[Value]:
    return [b.constant(np.zeros((), aval.dtype)[()], aval) for aval in avals]


class Loop:
    """What every step of a lowered scan shares."""

    __slots__ = ("consts", "jaxpr", "num_carry", "xs")

    def __init__(self, jaxpr: Jaxpr, consts: list[Value], xs: list[Value], num_carry: int):
        self.jaxpr, self.consts, self.xs, self.num_carry = jaxpr, consts, xs, num_carry

    def step(self, b: Builder, place: Value, state: list[Value]) -> list[Value]:
        """One step: the body on row `place` of the xs, its ys written into row `place` of theirs."""
        carry, ys = state[: self.num_carry], state[self.num_carry :]
        rows = [take_row(b, x, place) for x in self.xs]
        outs = lower_eqns(b, self.jaxpr, [*self.consts, *carry, *rows])
        return [*outs[: self.num_carry], *(put_row(b, y, row, place) for y, row in zip(ys, outs[self.num_carry :]))]


def take_row(b: Builder, x: Value, place: Value) -> Value:
    """`x[place]`."""
    shape = x.aval.shape
    zero = b.constant(0, COUNT)
    starts = [place, *[zero] * (len(shape) - 1)]
    sizes = f"slice_sizes = {int_array([1, *shape[1:]])}"
    row = b.op("stablehlo.dynamic_slice", [x, *starts], x.aval.update(shape=(1, *shape[1:])), sizes)
    return b.reshape(row, shape[1:])


def put_row(b: Builder, x: Value, row: Value, place: Value) -> Value:
    """`x` with `row` at `place`."""
    shape = x.aval.shape
    zero = b.constant(0, COUNT)
    wide = b.reshape(row, (1, *shape[1:]))
    return b.op("stablehlo.dynamic_update_slice", [x, wide, place, *[zero] * (len(shape) - 1)], x.aval)
