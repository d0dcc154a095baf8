"""augment : (a -> b) -> (a, J a) -> (b, J b). Propagates a jet with every value: what `taylor` and `laplacian` share.

A jet is a tuple of arrays whose types follow from that of the value: the coefficients of a Taylor series, say. Values
that depend on no argument have none and are not wrapped. A subclass defines how jets go through one operation
(`apply`); how they go through calls, branches and loops is the same for all, in augmented_control.py. The jet of a
constant is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from xpr import dtypes
from xpr.config import settings
from xpr.control.compiled import compiled
from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Trace, Tracer, context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from xpr.core.primitive import Primitive
from xpr.primitives.shapes import zeros_like_aval
from xpr.transforms.stage import stage

Jet = tuple[Any, ...]  # None among them is a symbolic zero
Flags = tuple[bool, ...]
Active = bool | Flags  # whether a value has a jet, or which parts of the jet are arrays

_LARGE = 4096  # elements; below it NumPy runs the operations of a rule faster than a program


class AugmentedTracer(Tracer):
    """A value with its jet."""

    __slots__ = ("jet", "value")

    def __init__(self, trace: Trace, value: Any, jet: Jet):
        self._trace, self.value, self.jet = trace, value, jet
        self.aval = aval_of(value)

    def concrete(self) -> Any:
        return self.value.concrete() if isinstance(self.value, Tracer) else self.value


class AugmentedTrace(Trace):
    """Runs operations on values with jets."""

    __slots__ = ()
    control: ClassVar[dict[Primitive, Callable[..., Any]]] = {}  # filled by augmented_control.py
    worth_compiling: ClassVar[frozenset[Primitive]] = frozenset()  # their rules are many operations

    @property
    def key(self) -> tuple[Any, ...]:
        """The part of cache keys that distinguishes traces of one class, for jaxprs derived by them."""
        raise NotImplementedError(type(self))

    def like(self, parent: Trace) -> AugmentedTrace:
        """A trace of the same kind above `parent`."""
        raise NotImplementedError(type(self))

    def types(self, aval: ShapedArray) -> list[ShapedArray]:
        """The types of the arrays of a value's jet."""
        raise NotImplementedError(type(self))

    def apply(
        self,
        primitive: Primitive,
        values: Sequence[Any],
        jets: Sequence[Jet | None],
        params: dict[str, Any],
    ) -> tuple[Sequence[Any], Sequence[Jet | None]]:
        """The results of an operation and their jets; runs with the trace below current."""
        raise NotImplementedError(type(self))

    def arrays(self, jet: Jet, value: Any) -> Jet:
        """The jet of a value, with symbolic zeros instantiated."""
        return jet

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        values, jets = self.split(args)
        if all(c is None for c in jets):
            return self.parent.process(primitive, args, params)  # type: ignore[union-attr]  # never the bottom
        rule = self.control.get(primitive)
        if rule is None and self.is_better_compiled(primitive, args, params):
            outs = _operation(*args, primitive=primitive, params=tuple(params.items()))
            return outs if primitive.multiple_results else [outs]
        before = context.trace
        context.trace = self.parent  # type: ignore[assignment]
        try:
            if rule is not None:
                outs, out_jets = rule(self, values, jets, params)
            else:
                outs, out_jets = self.apply(primitive, values, jets, params)
        finally:
            context.trace = before
        return self.join(outs, out_jets)

    def is_better_compiled(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
        """Whether a rule is to run as one program: it is many operations, each of which would write a large array."""
        parent: Any = self.parent  # never None
        if primitive not in self.worth_compiling or not parent.runs_known_calls or settings.disable_jit:
            return False
        return any(type(x) is AugmentedTracer and x.aval.size > _LARGE for x in args) and _can_be_hashed(params)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Jet | None]]:
        """Values and jets, None for values without one."""
        has_jet = [type(x) is AugmentedTracer and x._trace is self for x in args]
        values = [x.value if has else x for x, has in zip(args, has_jet)]
        return values, [x.jet if has else None for x, has in zip(args, has_jet)]

    def join(self, values: Sequence[Any], jets: Sequence[Jet | None]) -> list[Any]:
        return [x if c is None else AugmentedTracer(self, x, c) for x, c in zip(values, jets)]

    def zeros(self, aval: ShapedArray) -> Jet:
        """The jet of a constant."""
        return tuple(map(zeros_like_aval, self.types(aval)))


@compiled
def _operation(*args: Any, primitive: Primitive, params: tuple[tuple[str, Any], ...]) -> Any:
    """An operation as a call, through which jets go as one program."""
    return primitive.bind(*args, **dict(params))


def _can_be_hashed(params: dict[str, Any]) -> bool:
    try:
        hash(tuple(params.values()))
    except TypeError:
        return False
    return True


def run_augmented(
    trace: AugmentedTrace,
    fun: Callable[..., Sequence[Any]],
    values: Sequence[Any],
    jets: Sequence[Jet | None],
) -> tuple[list[Any], list[Jet | None]]:
    """Runs `fun`, which takes flat arguments and gives a list, under `trace`, whose parent is current."""
    before = context.trace
    context.trace = trace
    try:
        outs = fun(*trace.join(values, jets))
    finally:
        context.trace = before
        trace.alive = False
    return trace.split(outs)


class AugmentedJaxpr:
    """A jaxpr from (values, jets of active ones) to (results, jets of active ones)."""

    __slots__ = ("active_outs", "closed")

    def __init__(self, closed: ClosedJaxpr, active_outs: tuple[Any, ...]):
        self.closed, self.active_outs = closed, active_outs


def array_flags(jet: Jet | None) -> Active:
    """Which parts of a value's jet are arrays; the others are symbolic zeros."""
    return False if jet is None else tuple([c is not None for c in jet])


def next_jet(kind: AugmentedTrace, aval: ShapedArray, flags: Active, arrays: Iterator[Any]) -> Jet | None:
    """The jet of a value, from the next of its arrays."""
    if not flags:
        return None
    return tuple([next(arrays) if flag else None for flag in _each(kind, aval, flags)])


def _each(kind: AugmentedTrace, aval: ShapedArray, flags: Active) -> Flags:
    return (bool(flags),) * len(kind.types(aval)) if isinstance(flags, bool) else flags


def augmented_jaxpr(
    kind: AugmentedTrace, jaxpr: Jaxpr, active: Sequence[Active], forced: Flags = (), whole: bool = True
) -> AugmentedJaxpr:
    """The augmentation of a jaxpr without constants by traces like `kind`; memoized with it.

    Args:
      active: which arguments have jets, or which parts.
      forced: results that have jets in any case.
      whole: whether all parts of jets of active results are arrays; else `active_outs` says which are.
    """
    key = (type(kind), kind.key, active, forced, whole, context.axes)
    if key not in jaxpr.memo:
        avals = jaxpr.in_avals
        active_outs: list[tuple[Active, ...]] = []

        def run(*args: Any) -> list[Any]:
            values, arrays = split_list(args, len(avals))
            remaining = iter(arrays)
            jets = [next_jet(kind, a, flags, remaining) for a, flags in zip(avals, active)]
            trace = kind.like(context.trace)
            outs, out_jets = run_augmented(trace, lambda *xs: eval_jaxpr(jaxpr, (), *xs), values, jets)
            if any(forced):
                out_jets = [
                    kind.zeros(v.aval) if must and c is None else c
                    for v, c, must in zip(jaxpr.outvars, out_jets, forced)
                ]
            if whole:
                out_jets = [c if c is None else kind.arrays(c, y) for c, y in zip(out_jets, outs)]
            active_outs[:] = [tuple([c is not None if whole else array_flags(c) for c in out_jets])]
            return [*outs, *(x for c in out_jets if c is not None for x in c if x is not None)]

        types = [t for a, flags in zip(avals, active) for t, flag in zip(kind.types(a), _each(kind, a, flags)) if flag]
        closed = stage(run, [*avals, *types])
        jaxpr.memo[key] = AugmentedJaxpr(closed, active_outs[0])
    return jaxpr.memo[key]


def may_vary(aval: ShapedArray) -> bool:
    """Whether values of a type can vary: integers and booleans can't."""
    return aval.dtype in dtypes.INEXACT
