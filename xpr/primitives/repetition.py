"""iterate: repeating an elementwise step, at each entry for as long as a condition holds there.

Series, continued fractions and rejection sampling are loops that end at a different time for every entry. Here the
whole array takes steps until the last entry is done, and an entry that is done keeps its state. `going` and `step` are
Python functions of the state, written with the functions of this floor, and elementwise, so a mapped axis passes
straight through. They are part of the library, never of the user: the programs that hold an `iterate` are made while
lowering (`lower_as`), so it needs no derivative.

To lower it, both functions are run on stand-ins whose operations are written into the loop's regions at once; to give
its meaning in NumPy, they are run on the arrays themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value, int_array
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Trace, Tracer, current
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.primitives.elementwise import batch_elementwise
from xpr.primitives.placing import select
from xpr.primitives.shapes import broadcast_to

State = Sequence[Any]
Going = Callable[..., Any]  # the state -> bool at each entry
Step = Callable[..., Sequence[Any]]  # the state -> the next state

# -- The two ways the functions are run


class _Written(Tracer):
    """A value of the program being written."""

    __slots__ = ("value",)

    def __init__(self, trace: _WriteTrace, value: Value):
        self._trace, self.aval, self.value = trace, value.aval, value


class _WriteTrace(Trace):
    """Writes each operation as StableHLO when it is done."""

    __slots__ = ("builder",)

    def __init__(self, builder: Builder):
        super().__init__(None)
        self.builder = builder

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        operands = [x.value if type(x) is _Written else self.constant(x) for x in args]
        if primitive.lower_as is not None and isinstance(primitive.lower, Unsupported):
            return list(primitive.lower_as(*[_Written(self, v) for v in operands], **params))
        avals = primitive.type_of(tuple([v.aval for v in operands]), params)
        return [_Written(self, v) for v in primitive.lower(self.builder, operands, avals, **params)]

    def constant(self, x: Any) -> Value:
        return self.builder.constant(np.asarray(x), aval_of(x).strip_weak_type())


class _NumpyTrace(Trace):
    """Runs each operation's meaning in NumPy."""

    __slots__ = ()

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        return list(primitive.reference(args, **params))


def written(builder: Builder, fun: Callable[..., Sequence[Any]], operands: Sequence[Value]) -> list[Value]:
    """The results of `fun`, its operations written where `builder` stands."""
    trace = _WriteTrace(builder)
    with current(trace):
        outs = fun(*[_Written(trace, v) for v in operands])
    return [x.value if type(x) is _Written else trace.constant(x) for x in outs]


def in_numpy(fun: Callable[..., Sequence[Any]], *values: Any) -> list[np.ndarray]:
    """The results of `fun`, computed with the primitives' NumPy meanings."""
    with current(_NumpyTrace(None)), np.errstate(all="ignore"):
        return [np.asarray(x) for x in fun(*values)]


# -- The primitive


def _abstract(avals: Sequence[ShapedArray], *, going: Going, step: Step) -> list[ShapedArray]:
    if len({a.shape for a in avals}) != 1:
        types = ", ".join(a.str_short() for a in avals)
        raise TypeError(f"iterate: the state must be arrays of one shape, and is ({types}).")
    return list(avals)


def _reference(values: State, *, going: Going, step: Step) -> list[np.ndarray]:
    state = [np.array(x) for x in values]
    (active,) = in_numpy(lambda *xs: [going(*xs)], *state)
    while active.any():
        state = [np.where(active, new, old) for new, old in zip(in_numpy(step, *state), state)]
        active = active & in_numpy(lambda *xs: [going(*xs)], *state)[0]
    return state


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, going: Going, step: Step) -> list[Value]:
    """A while loop over (active, *state); the state of an entry that is no longer active stays."""
    flags = avals[0].update(dtype=dtypes.bool_, weak_type=False)

    def repeat(inner: Builder, carried: list[Value]) -> list[Value]:
        def advance(active: Any, *state: Any) -> list[Any]:
            moved = [new if new is old else select(active, new, old) for new, old in zip(step(*state), state)]
            return [going(*moved), *moved]

        still, *state = written(inner, advance, carried)
        return [inner.op("stablehlo.and", [carried[0], still], flags), *state]

    carried = [*written(b, lambda *state: [going(*state)], operands), *operands]
    types = [v.aval for v in carried]
    regions = [b.region(types, lambda inner, state: [_any(inner, state[0])]), b.region(types, repeat)]
    return b.ops("stablehlo.while", carried, types, regions=regions)[1:]


def _any(b: Builder, flags: Value) -> Value:
    if flags.aval.ndim == 0:
        return flags
    scalar = ShapedArray((), dtypes.bool_)
    body = b.region([scalar, scalar], lambda inner, args: [inner.op("stablehlo.or", args, scalar)])
    axes = int_array(range(flags.aval.ndim))
    return b.op("stablehlo.reduce", [flags, b.constant(False, scalar)], scalar, f"dimensions = {axes}", [body])


_NO_DERIVATIVE = "It only stands in what other primitives lower to, and those have derivatives of their own."
iterate_p = register(
    Primitive(
        "iterate",
        abstract=_abstract,
        reference=_reference,
        lower=_lower,
        jvp=Unsupported(_NO_DERIVATIVE),
        transpose=Unsupported(_NO_DERIVATIVE),
        batch=Unsupported("it is set below"),
        multiple_results=True,
    )
)


def _batch(size: int, values: State, dims: Sequence[int | None], **params: Any) -> tuple[list[Any], list[int | None]]:
    (outs,), (dim,) = batch_elementwise(iterate_p)(size, values, dims, **params)
    return outs, [dim] * len(outs)


iterate_p.batch = _batch


def iterate(going: Going, step: Step, *state: Any) -> list[Any]:
    """The state after `step` was applied to it, at each entry, for as long as `going` held there.

    Args:
      going: an elementwise function from the state to booleans.
      step: an elementwise function from the state to the next one; what it returns unchanged costs nothing.
      *state: arrays that broadcast to one shape.
    """
    shape = np.broadcast_shapes(*[aval_of(x).shape for x in state])
    return iterate_p.bind(*[broadcast_to(x, shape) for x in state], going=going, step=step)
