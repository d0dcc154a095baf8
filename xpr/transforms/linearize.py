"""linearize : (a -> b) -> a -> (b, T a -o T b). Computes the primal results, and stages the linear map of tangents.

The carried value is a pair of a primal, which is an ordinary value of the trace below, and a tangent, which is a
variable of a linear jaxpr under construction. The jvp rules do the work: they run with a `RuleTrace` current, which
stages operations on tangents in the linear program and passes all others to the trace below. Linearizing sin at 2.
gives sin(2.) at once and the program `{ lambda a ; b. let c = mul b a in (c,) }` with a = cos(2.), which was computed
on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from xpr.backend.array import Array, from_host
from xpr.config import settings
from xpr.core.avals import ShapedArray, Zero, array_in, aval_of
from xpr.core.interpreter import Trace, Tracer, context, current, current_type, line_of_rule, names_of_equations
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, constvars_to_invars, eval_jaxpr
from xpr.core.primitive import Primitive
from xpr.core.source import JVP
from xpr.primitives.shapes import broadcast_in_dim_p, zeros_like_aval
from xpr.primitives.sharding_constraint import constrain_to
from xpr.transforms.flat import as_array
from xpr.transforms.jvp import push_forward, with_zeros
from xpr.transforms.leaks import refuse_leaks
from xpr.transforms.stage import StageTrace, StageTracer, stage


class TangentTrace(StageTrace):
    """Stages what touches a tangent; everything else is primal work for the trace below."""

    __slots__ = ()

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        for x in args:
            if type(x) is StageTracer and x._trace is self:
                return StageTrace.process(self, primitive, args, params)
        return self.parent.process(primitive, args, params)  # type: ignore[union-attr]  # never the bottom

    def zeros(self, aval: ShapedArray) -> Any:
        """Zeros, as an operation of the linear program."""
        if aval.is_high:
            with current(self):
                zero = zeros_like_aval(aval)
            return StageTracer(self, aval, self.constant(zero, zero))
        zero = np.zeros((), aval.dtype)[()]
        if not aval.shape:
            return zero
        shape = {"shape": aval.shape, "broadcast_dimensions": ()}
        zeros = StageTrace.process(self, broadcast_in_dim_p, [zero], shape)[0]
        if aval.plain is aval:
            return zeros
        with current(self):
            return constrain_to(zeros, aval)

    def scalar(self, x: Any, aval: Any) -> Atom:
        """A scalar residual as a constant, not a literal: reading its value would wait for the device."""
        return self.constant(x, x) if type(x) is Array else super().scalar(x, aval)


class RuleTrace(Trace):
    """The trace that jvp rules run under: a `TangentTrace` that splits calls of tangents and other values.

    A rule that calls a function of primals and tangents, as one that uses `jvp` does, gets values from the trace below
    where they depend on primals alone.
    """

    __slots__ = ("tangents",)

    def __init__(self, tangents: TangentTrace):
        super().__init__(tangents.parent)
        self.tangents = tangents

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        for x in args:
            if type(x) is StageTracer and x._trace is self.tangents:
                if primitive.split is not None:
                    return self._split(primitive, args, params)
                return StageTrace.process(self.tangents, primitive, args, params)
        return self.parent.process(primitive, args, params)  # type: ignore[union-attr]  # never the bottom

    def _split(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        if primitive.prepare is not None:
            args, params = primitive.prepare(args, params)
        is_known = [not (type(x) is StageTracer and x._trace is self.tangents) for x in args]
        invars = [Var(aval_of(x)) for x in args]
        outvars = [Var(aval) for aval in primitive.type_of(tuple([v.aval for v in invars]), params)]
        eqn = JaxprEqn(invars, outvars, primitive, params, context.source)
        known, unknown = primitive.split(eqn, is_known) if any(is_known) else ([], [])  # type: ignore[misc]  # it has one
        if {v for each in known for v in each.outvars}.isdisjoint(outvars):
            return StageTrace.process(self.tangents, primitive, args, params)
        values: dict[Any, Any] = dict(zip(invars, args))
        for trace, eqns in ((self.parent, known), (self.tangents, unknown)):
            for each in eqns:
                operands = [v.val if type(v) is Literal else values[v] for v in each.invars]
                outs = trace.process(each.primitive, operands, each.params)  # type: ignore[union-attr]  # never None
                values.update(zip(each.outvars, outs))
        return [values[v] for v in outvars]


class LinearizeTracer(Tracer):
    """A value, with its tangent as a variable of the linear program."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: StageTracer):
        self._trace, self.primal, self.tangent = trace, primal, tangent
        self.aval = aval_of(primal)

    def current_type(self) -> Any:
        return current_type(self.primal)

    def concrete(self) -> Any:
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    def __repr__(self) -> str:
        return f"GradTracer(primal={self.primal}, typeof(tangent)={self.tangent.aval.str_short()})"


class LinearizeTrace(Trace):
    """Runs jvp rules: operations on primals go to the trace below, those on tangents into the linear program."""

    __slots__ = ("names", "rules", "tangents")
    verb: ClassVar[str] = "differentiated"
    scope: ClassVar[str] = JVP

    def __init__(self, parent: Trace):
        super().__init__(parent)
        self.tangents = TangentTrace(parent)
        self.rules = RuleTrace(self.tangents)
        self.names = names_of_equations(self)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        any_active = False
        primals: list[Any] = []
        for x in args:
            if type(x) is LinearizeTracer and x._trace is self:
                any_active = True
                primals.append(x.primal)
            else:
                primals.append(x)
        if not any_active:
            return self.parent.process(primitive, args, params)  # type: ignore[union-attr]  # never the bottom
        tangents = [
            x.tangent if type(x) is LinearizeTracer and x._trace is self else Zero(aval_of(x).to_tangent_aval())
            for x in args
        ]
        before, line = context.trace, context.source
        if line is None and self.names:
            context.source = line_of_rule(self.names, primitive, params)
        try:
            if primitive.linearize is not None:
                context.trace = self.tangents
                outs, out_tangents = primitive.linearize(self, primals, tangents, params)
            else:
                context.trace = self.rules
                outs, out_tangents = primitive.jvp(primals, tangents, **params)
        finally:
            context.trace, context.source = before, line
        return self.join(outs, out_tangents)

    def join(self, outs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        return [x if type(t) is Zero else LinearizeTracer(self, x, self.as_variable(t)) for x, t in zip(outs, tangents)]

    def as_variable(self, tangent: Any) -> StageTracer:
        """A tangent as a variable of the linear program; a plain value that a rule returned becomes a constant."""
        if type(tangent) is StageTracer and tangent._trace is self.tangents:
            return tangent
        if getattr(tangent, "aval", None) is None:
            aval = aval_of(tangent)
            tangent = from_host(np.array(tangent, aval.dtype), aval.weak_type)
        atom = self.tangents.constant(tangent, tangent)
        return StageTracer(self.tangents, atom.aval, atom)


def linearize_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    is_active: Sequence[bool],
    forced: Sequence[bool] = (),
) -> tuple[list[Any], ClosedJaxpr, list[bool]]:
    """Runs `fun` on flat primals and stages its tangent program.

    Args:
      fun: takes flat arguments and gives a list.
      primals: where to linearize.
      is_active: which arguments have a tangent.
      forced: which results are to have a tangent even if it is zero.
    Returns:
      The results; the linear jaxpr from the active tangents to those of the results that have one, its constants the
      residuals; and which results have one.
    """
    trace = LinearizeTrace(context.trace)
    arguments = [
        LinearizeTracer(trace, as_array(x), trace.tangents.argument(aval_of(x).to_tangent_aval())) if active else x
        for x, active in zip(primals, is_active)
    ]
    before = context.trace
    context.trace = trace
    try:
        results = list(map(array_in, fun(*arguments)))
    finally:
        context.trace = before
        trace.alive = False
    if settings.check_tracer_leaks:
        refuse_leaks(trace, [arguments, results])
    is_active_out = [type(x) is LinearizeTracer and x._trace is trace for x in results]
    outs = [x.primal if active else x for x, active in zip(results, is_active_out)]
    tangents = [x.tangent if active else None for x, active in zip(results, is_active_out)]
    if any(forced):
        tangents = [
            trace.tangents.zeros(aval_of(x).to_tangent_aval()) if t is None and must else t
            for x, t, must in zip(outs, tangents, forced)
        ]
    linear = trace.tangents.finish([t for t in tangents if t is not None])
    return outs, linear, [t is not None for t in tangents]


def push_forward_in_rule(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """`push_forward`, for a jvp rule that differentiates a function of any operations.

    Where the rule is run to linearize, what it computes of the tangents must have a transpose.
    """
    return (push_forward_linearly if _is_linearizing() else push_forward)(fun, primals, tangents)


def push_forward_linearly(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """`push_forward` by a linear program, which can be transposed, also where `fun` has a `while`."""
    is_active = [type(t) is not Zero for t in tangents]
    outs, linear, active_outs = linearize_flat(fun, primals, is_active)
    moved = eval_jaxpr(linear.jaxpr, linear.consts, *(t for t in tangents if type(t) is not Zero))
    return outs, with_zeros(moved, active_outs, [aval_of(x) for x in outs])


def _is_linearizing() -> bool:
    """Whether a jvp rule is being run to linearize a function, not to stage a program."""
    trace: Trace | None = context.trace
    while trace is not None and not isinstance(trace, (RuleTrace, StageTrace)):
        trace = trace.parent
    return isinstance(trace, RuleTrace)


class Linearized:
    """A jaxpr split in two: `primal` gives (results, residuals), `linear` takes (residuals, tangents).

    A residual that is one of the jaxpr's arguments is not computed: `residual_sources` has its position, and None for
    those that `primal` returns.
    """

    __slots__ = ("primal", "linear", "active_outs", "residual_sources")

    def __init__(self, primal: ClosedJaxpr, linear: Jaxpr, active_outs: list[bool], residual_sources: list[int | None]):
        self.primal, self.linear = primal, linear
        self.active_outs, self.residual_sources = active_outs, residual_sources

    @property
    def residual_vars(self) -> list[Any]:
        """The variables of `primal` that are the residuals; some of them are its arguments."""
        return self.residuals(self.primal.jaxpr.invars, self.primal.jaxpr.outvars[len(self.active_outs) :])

    def residuals(self, arguments: Sequence[Any], computed: Sequence[Any]) -> list[Any]:
        """The residuals, from the arguments of the call and those that `primal` returned after the results."""
        remaining = iter(computed)
        return [next(remaining) if source is None else arguments[source] for source in self.residual_sources]


def linearize_jaxpr(jaxpr: Jaxpr, is_active: tuple[bool, ...], forced: tuple[bool, ...] = ()) -> Linearized:
    """Splits a jaxpr without constants into its primal and its tangent program; cached with the jaxpr.

    Results that `forced` marks have a tangent even if it is zero.
    """
    key = ("linearize", is_active, forced)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = _linearize_jaxpr(jaxpr, is_active, forced)
    return jaxpr.memo[key]


def _linearize_jaxpr(jaxpr: Jaxpr, is_active: tuple[bool, ...], forced: tuple[bool, ...]) -> Linearized:
    halves: list[tuple[ClosedJaxpr, list[bool], list[int | None]]] = []  # set by `run`, which is called once

    def run(*primals: Any) -> list[Any]:
        outs, linear, active_outs = linearize_flat(lambda *xs: eval_jaxpr(jaxpr, (), *xs), primals, is_active, forced)
        positions = {id(x): i for i, x in enumerate(primals)}
        sources = [positions.get(id(residual)) for residual in linear.consts]
        halves.append((linear, active_outs, sources))
        return [*outs, *(r for r, source in zip(linear.consts, sources) if source is None)]

    primal = stage(run, jaxpr.in_avals)
    ((linear, active_outs, sources),) = halves
    return Linearized(primal, constvars_to_invars(linear), active_outs, sources)
