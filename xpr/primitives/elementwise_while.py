"""iterate: an elementwise while loop, in which each element (or block of elements) has its own number of steps.

Series, continued fractions and rejection sampling are loops that end at a different time for every element. Here the
whole array takes steps until the last element is done, and an element that is done keeps its state. `condition` and
`step` are Python functions of the state, written with the primitives' functions. They are part of the library, never of
the user: `iterate` occurs only in programs that are traced while lowering (`lower_as`), so it needs no derivative and
batch rule.

To lower it, both functions are run on tracers whose operations are written into the loop's regions; the reference runs
them on NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.mlir_text import int_array
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Trace, Tracer, current
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dimensions.slices import broadcast_sizes
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to
from xpr.primitives.slicing import select

__all__ = ["iterate_p"]

State = Sequence[Any]
Condition = Callable[..., Any]  # the state -> bool at each element
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
    """Runs each operation's NumPy reference."""

    __slots__ = ()

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        return list(primitive.reference(args, **params))

    def constant_of(self, value: Any) -> Any:
        return value.host


def written(builder: Builder, fun: Callable[..., Sequence[Any]], operands: Sequence[Value]) -> list[Value]:
    """The results of `fun`, its operations appended to `builder`."""
    trace = _WriteTrace(builder)
    with current(trace):
        outs = fun(*[_Written(trace, v) for v in operands])
    return [x.value if type(x) is _Written else trace.constant(x) for x in outs]


def in_numpy(fun: Callable[..., Sequence[Any]], *values: Any) -> list[np.ndarray]:
    """The results of `fun`, computed with the primitives' NumPy references."""
    with current(_NumpyTrace(None)), np.errstate(all="ignore"):
        return [np.asarray(x) for x in fun(*values)]


# -- The primitive. The first `rank` axes, which all of the state has, number the blocks: a block is done when none of
# its elements satisfies the condition, and until then all of its elements take steps.


def _abstract(avals: Sequence[ShapedArray], *, going: Condition, step: Step, rank: int) -> list[ShapedArray]:
    if len({a.shape[:rank] for a in avals}) != 1:
        types = ", ".join(a.str_short() for a in avals)
        raise TypeError(f"iterate: the state must be arrays that agree in their first {rank} axes, and is ({types}).")
    return list(avals)


def _reference(values: State, *, going: Condition, step: Step, rank: int) -> list[np.ndarray]:
    state = [np.array(x) for x in values]

    def is_active() -> np.ndarray:
        (flags,) = in_numpy(lambda *xs: [going(*xs)], *state)
        return np.asarray(flags.any(tuple(range(rank, flags.ndim))))

    active = is_active()
    while active.any():
        moved = in_numpy(step, *state)
        state = [np.where(_broadcast_flags(active, old), new, old) for new, old in zip(moved, state)]
        active = active & is_active()
    return state


def _broadcast_flags(active: np.ndarray, x: np.ndarray) -> np.ndarray:
    return active.reshape(active.shape + (1,) * (x.ndim - active.ndim))


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, going: Condition, step: Step, rank: int
) -> list[Value]:
    """A while loop over (active, *state); the state of a block that is no longer active stays."""
    blocks = avals[0].shape[:rank]
    flags = ShapedArray(blocks, dtypes.bool_)

    def where_active(active: Any, new: Any, old: Any) -> Any:
        if new is old:
            return old
        shape = aval_of(old).shape
        return select(active if shape == blocks else broadcast_in_dim(active, shape, range(rank)), new, old)

    def is_active(builder: Builder, state: list[Value]) -> Value:
        return _any(builder, written(builder, lambda *xs: [going(*xs)], state)[0], rank)

    def repeat(inner: Builder, carried: list[Value]) -> list[Value]:
        def advance(active: Any, *state: Any) -> list[Any]:
            return [where_active(active, new, old) for new, old in zip(step(*state), state)]

        inner.runs_once = b.runs_once  # such loops end after a few steps
        state = written(inner, advance, carried)
        return [inner.op("stablehlo.and", [carried[0], is_active(inner, state)], flags), *state]

    carried = [is_active(b, operands), *operands]
    types = [v.aval for v in carried]
    regions = [b.region(types, lambda inner, state: [_any(inner, state[0], 0)]), b.region(types, repeat)]
    return b.ops("stablehlo.while", carried, types, regions=regions)[1:]


def _any(b: Builder, flags: Value, rank: int) -> Value:
    """Whether any flag of a block is set."""
    axes = range(rank, flags.aval.ndim)
    if not axes:
        return flags
    scalar = ShapedArray((), dtypes.bool_)
    body = b.region([scalar, scalar], lambda inner, args: [inner.op("stablehlo.or", args, scalar)])
    blocks = ShapedArray(flags.aval.shape[:rank], dtypes.bool_)
    dimensions = f"dimensions = {int_array(axes)}"
    return b.op("stablehlo.reduce", [flags, b.constant(False, scalar)], blocks, dimensions, [body])


_ONLY_LOWERED = "Only the lowering of other primitives uses it, and those have their own rules."
iterate_p = register(
    Primitive(
        "iterate",
        abstract=_abstract,
        reference=_reference,
        lower=_lower,
        jvp=Unsupported(_ONLY_LOWERED),
        transpose=Unsupported(_ONLY_LOWERED),
        batch=Unsupported(_ONLY_LOWERED),
        multiple_results=True,
    )
)


def iterate(condition: Condition, step: Step, *state: Any) -> list[Any]:
    """The state after `step` was applied to it, at each element, for as long as `condition` held there.

    Args:
      condition: an elementwise function from the state to booleans.
      step: an elementwise function from the state to the next one; what it returns unchanged costs nothing.
      *state: arrays that broadcast to one shape.
    """
    shape = broadcast_sizes([aval_of(x).shape for x in state])
    return iterate_p.bind(*[broadcast_to(x, shape) for x in state], going=condition, step=step, rank=len(shape))


def iterate_blocks(condition: Condition, step: Step, rank: int, *state: Any) -> list[Any]:
    """`iterate` for blocks of elements, which the first `rank` axes number: a block takes steps while any of its
    elements satisfies the condition.
    """
    return iterate_p.bind(*state, going=condition, step=step, rank=rank)
