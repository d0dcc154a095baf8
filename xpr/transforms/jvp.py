"""jvp : (a -> b) -> (a, T a) -> (b, T b). Forward-mode differentiation: every value comes with its tangent.

The carried value is a pair (primal, tangent). `mul` of (2., 1.) and 3. calls `mul`'s jvp rule with tangents (1., Zero)
and carries (6., 3.). Values without tangents are not wrapped, so operations on them go straight to the trace below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from xpr.backend.array import Array
from xpr.config import settings
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import Trace, Tracer, context, current_type, line_of_rule, names_of_equations, transformation
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from xpr.core.primitive import Primitive
from xpr.core.source import JVP
from xpr.primitives.shapes import instantiate
from xpr.transforms.leaks import refuse_leaks
from xpr.transforms.stage import stage


class JVPTracer(Tracer):
    """A value with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any):
        self._trace, self.primal, self.tangent = trace, primal, tangent
        self.aval = primal.aval if type(primal) is Array else aval_of(primal)

    def current_type(self) -> Any:
        return current_type(self.primal)

    def concrete(self) -> Any:
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    def __repr__(self) -> str:
        return f"JVPTracer(primal={self.primal}, tangent={self.tangent})"


class JVPTrace(Trace):
    """Runs the jvp rule of every operation that touches a tangent."""

    __slots__ = ("names",)
    verb: ClassVar[str] = "differentiated"
    scope: ClassVar[str] = JVP

    def __init__(self, parent: Trace):
        super().__init__(parent)
        self.names = names_of_equations(self)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        primals, tangents = self.split(args)
        if tangents is None:
            return self.parent.process(primitive, args, params)  # type: ignore[union-attr]  # never the bottom
        before, line = context.trace, context.source
        context.trace = self.parent  # type: ignore[assignment]
        if line is None and self.names:
            context.source = line_of_rule(self.names, primitive, params)
        try:
            outs, out_tangents = primitive.jvp(primals, tangents, **params)
        finally:
            context.trace, context.source = before, line
        return self.join(outs, out_tangents)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any] | None]:
        """Primals and tangents; no tangents where no argument carries one."""
        primals: list[Any] = []
        tangents: list[Any] = []
        any_active = missing = False
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                any_active = True
                primals.append(x.primal)
                tangents.append(x.tangent)
            else:
                missing = True
                primals.append(x)
                tangents.append(None)
        if not any_active:
            return primals, None
        if missing:
            tangents = [Zero(aval_of(p).to_tangent_aval()) if t is None else t for p, t in zip(primals, tangents)]
        return primals, tangents

    def join(self, outs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        return [x if type(t) is Zero else JVPTracer(self, x, t) for x, t in zip(outs, tangents)]


def push_forward(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Runs `fun`, which takes flat arguments and gives a list, on values with tangents (Zero where there is none)."""
    trace = JVPTrace(context.trace)
    before = context.trace
    context.trace = trace
    try:
        outs = fun(*trace.join(primals, tangents))
    finally:
        context.trace = before
        trace.alive = False
    if settings.check_tracer_leaks:
        refuse_leaks(trace, [outs])
    out_primals, out_tangents = trace.split(outs)
    if out_tangents is None:
        out_tangents = [Zero(aval_of(x).to_tangent_aval()) for x in out_primals]
    return out_primals, out_tangents


def without_tangents(values: Sequence[Any]) -> list[Any]:
    """The primals of values of the function that is being differentiated; called within it."""
    trace = transformation()
    return [x.primal if type(x) is JVPTracer and x._trace is trace else x for x in values]


def with_zeros(tangents: Sequence[Any], is_active: Sequence[bool], avals: Sequence[ShapedArray]) -> list[Any]:
    """The tangents at the active positions, symbolic zeros at the others; `avals` are the primals' types."""
    values = iter(tangents)
    return [next(values) if has else Zero(aval.to_tangent_aval()) for has, aval in zip(is_active, avals)]


def jvp_jaxpr(
    jaxpr: Jaxpr, is_active: tuple[bool, ...], forced: tuple[bool, ...] = ()
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr from (primals, active tangents) to (results, their tangents), and which results have one.

    Results that `forced` marks have a tangent even if it is zero. Remembered with the jaxpr, which has no constants.
    """
    key = ("jvp", is_active, forced)
    if key not in jaxpr.memo:
        avals = jaxpr.in_avals
        out_active: list[bool] = []

        def run(*args: Any) -> list[Any]:
            primals, tangents = args[: len(avals)], with_zeros(args[len(avals) :], is_active, avals)
            outs, out_tangents = push_forward(lambda *xs: eval_jaxpr(jaxpr, (), *xs), primals, tangents)
            if any(forced):
                out_tangents = [instantiate(t) if must else t for t, must in zip(out_tangents, forced)]
            out_active[:] = [type(t) is not Zero for t in out_tangents]
            return [*outs, *(t for t in out_tangents if type(t) is not Zero)]

        tangent_avals = [a.to_tangent_aval() for a, active in zip(avals, is_active) if active]
        jaxpr.memo[key] = stage(run, [*avals, *tangent_avals]), out_active
    return jaxpr.memo[key]
