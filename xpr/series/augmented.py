"""carry : (a -> b) -> (a, C a) -> (b, C b). Carries companions beside every value: what `taylor` and `laplacian` share.

The companions of a value are arrays of types that follow from its own: the coefficients of a Taylor series, say, all in
one array with an axis in front. What depends on no argument has none and is not wrapped. A subclass says how companions
go through one operation (`apply`); how they go through calls, branches and loops is the same for all, and stands in
augmented_control.py. All companions are zero where a value is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from xpr import dtypes
from xpr.compile.evaluate import EvalTrace
from xpr.config import settings
from xpr.control.compiled import compiled
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Trace, Tracer, context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from xpr.core.primitive import Primitive
from xpr.primitives.shapes import zeros_like_aval
from xpr.transforms.stage import stage

Companions = tuple[Any, ...]
Flags = tuple[bool, ...]
Given = bool | Flags  # of a value: whether it has companions, or which of them are arrays

_LARGE = 4096  # entries; below it the operations of a rule are run by NumPy sooner than a program is compiled


class CarryTracer(Tracer):
    """A value with its companions."""

    __slots__ = ("companions", "value")

    def __init__(self, trace: Trace, value: Any, companions: Companions):
        self._trace, self.value, self.companions = trace, value, companions
        self.aval = aval_of(value)

    def concrete(self) -> Any:
        return self.value.concrete() if isinstance(self.value, Tracer) else self.value


class CarryTrace(Trace):
    """Runs operations on values with companions."""

    __slots__ = ()
    control: ClassVar[dict[Primitive, Callable[..., Any]]] = {}  # filled by augmented_control.py
    worth_compiling: ClassVar[frozenset[Primitive]] = frozenset()  # their rules are many operations

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells traces of one class apart, by which what they make of a jaxpr is remembered."""
        raise NotImplementedError(type(self))

    def again(self, parent: Trace) -> CarryTrace:
        """A trace of the same kind above `parent`."""
        raise NotImplementedError(type(self))

    def types(self, aval: ShapedArray) -> list[ShapedArray]:
        """The types of the companions of a value."""
        raise NotImplementedError(type(self))

    def apply(
        self,
        primitive: Primitive,
        values: Sequence[Any],
        companions: Sequence[Companions | None],
        params: dict[str, Any],
    ) -> tuple[Sequence[Any], Sequence[Companions | None]]:
        """The results of an operation and their companions; the trace below is current."""
        raise NotImplementedError(type(self))

    def arrays(self, companions: Companions, value: Any) -> Companions:
        """The companions of a value, symbolic ones among them made into arrays."""
        return companions

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        values, companions = self.split(args)
        if all(c is None for c in companions):
            return self.parent.process(primitive, args, params)  # type: ignore[union-attr]  # never the bottom
        rule = self.control.get(primitive)
        if rule is None and self.is_better_compiled(primitive, args, params):
            outs = _operation(*args, primitive=primitive, params=tuple(params.items()))
            return outs if primitive.multiple_results else [outs]
        before = context.trace
        context.trace = self.parent  # type: ignore[assignment]
        try:
            if rule is not None:
                outs, found = rule(self, values, companions, params)
            else:
                outs, found = self.apply(primitive, values, companions, params)
        finally:
            context.trace = before
        return self.join(outs, found)

    def is_better_compiled(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
        """Whether a rule is to run as one program: it is many operations, each of which would write a large array."""
        if primitive not in self.worth_compiling or type(self.parent) is not EvalTrace or settings.disable_jit:
            return False
        return any(type(x) is CarryTracer and x.aval.size > _LARGE for x in args) and _can_be_hashed(params)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Companions | None]]:
        """Values and companions, None where there are none."""
        mine = [type(x) is CarryTracer and x._trace is self for x in args]
        values = [x.value if own else x for x, own in zip(args, mine)]
        return values, [x.companions if own else None for x, own in zip(args, mine)]

    def join(self, values: Sequence[Any], companions: Sequence[Companions | None]) -> list[Any]:
        return [x if c is None else CarryTracer(self, x, c) for x, c in zip(values, companions)]

    def zeros(self, aval: ShapedArray) -> Companions:
        """The companions of a constant."""
        return tuple(map(zeros_like_aval, self.types(aval)))


@compiled
def _operation(*args: Any, primitive: Primitive, params: tuple[tuple[str, Any], ...]) -> Any:
    """An operation as a call, through which companions go as one program."""
    return primitive.bind(*args, **dict(params))


def _can_be_hashed(params: dict[str, Any]) -> bool:
    try:
        hash(tuple(params.values()))
    except TypeError:
        return False
    return True


def carry_forward(
    trace: CarryTrace,
    fun: Callable[..., Sequence[Any]],
    values: Sequence[Any],
    companions: Sequence[Companions | None],
) -> tuple[list[Any], list[Companions | None]]:
    """Runs `fun`, which takes flat arguments and gives a list, with `trace`, whose parent is current."""
    before = context.trace
    context.trace = trace
    try:
        outs = fun(*trace.join(values, companions))
    finally:
        context.trace = before
        trace.alive = False
    return trace.split(outs)


class Carried:
    """A jaxpr from (values, companions of active ones) to (results, companions of active ones)."""

    __slots__ = ("active_outs", "closed")

    def __init__(self, closed: ClosedJaxpr, active_outs: tuple[Any, ...]):
        self.closed, self.active_outs = closed, active_outs


def arrays_among(companions: Companions | None) -> Given:
    """Which companions of a value are arrays, the others being symbolic zeros."""
    return False if companions is None else tuple([c is not None for c in companions])


def taken(kind: CarryTrace, aval: ShapedArray, flags: Given, arrays: Iterator[Any]) -> Companions | None:
    """The companions of a value, from their arrays one after another."""
    if not flags:
        return None
    return tuple([next(arrays) if flag else None for flag in _each(kind, aval, flags)])


def _each(kind: CarryTrace, aval: ShapedArray, flags: Given) -> Flags:
    return (bool(flags),) * len(kind.types(aval)) if isinstance(flags, bool) else flags


def carried_jaxpr(
    kind: CarryTrace, jaxpr: Jaxpr, active: Sequence[Given], forced: Flags = (), whole: bool = True
) -> Carried:
    """What traces like `kind` make of a jaxpr without constants; remembered with it.

    Args:
      active: which arguments have companions, or which ones.
      forced: results that have companions in any case.
      whole: whether all companions of active results are arrays; else `active_outs` says which are.
    """
    key = (type(kind), kind.key, active, forced, whole, context.axes)
    if key not in jaxpr.memo:
        avals = jaxpr.in_avals
        found: list[tuple[Given, ...]] = []

        def run(*args: Any) -> list[Any]:
            values, arrays = args[: len(avals)], iter(args[len(avals) :])
            companions = [taken(kind, a, flags, arrays) for a, flags in zip(avals, active)]
            trace = kind.again(context.trace)
            outs, own = carry_forward(trace, lambda *xs: eval_jaxpr(jaxpr, (), *xs), values, companions)
            if any(forced):
                own = [
                    kind.zeros(v.aval) if must and c is None else c for v, c, must in zip(jaxpr.outvars, own, forced)
                ]
            if whole:
                own = [c if c is None else kind.arrays(c, y) for c, y in zip(own, outs)]
            found[:] = [tuple([c is not None if whole else arrays_among(c) for c in own])]
            return [*outs, *(x for c in own if c is not None for x in c if x is not None)]

        types = [t for a, flags in zip(avals, active) for t, flag in zip(kind.types(a), _each(kind, a, flags)) if flag]
        closed = stage(run, [*avals, *types])
        jaxpr.memo[key] = Carried(closed, found[0])
    return jaxpr.memo[key]


def may_have_companions(aval: ShapedArray) -> bool:
    """Whether values of a type can vary: not so integers and booleans."""
    return aval.dtype in dtypes.INEXACT
