"""stage : (a -> b) -> jaxpr. Runs a Python function on stand-ins and writes down every operation.

The carried value is a `StageTracer`: a variable of the jaxpr under construction. Under `make_jaxpr(lambda x: x * 2)`
the multiplication arrives here as `mul_p` with operands (tracer of `a`, 2) and becomes the equation `b = mul a 2`.
Operands that are not this trace's own become literals (scalars) or constvars (arrays, and tracers of outer traces).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend.array import Array, from_host
from xpr.core.avals import ShapedArray, aval_of, refuse_held
from xpr.core.interpreter import Trace, Tracer, context
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, make_literal
from xpr.core.primitive import Primitive
from xpr.core.source import describe_function, here

_HELD_ITSELF = frozenset({Array, bool, int, float, complex})  # the types that nearly all operands from outside have


class Signature:
    """What is known of the user's function, for messages; worked out when one is written.

    `verb` says what is being done to it, `arguments()` names its flat arguments: `x`, `params['w']`.
    """

    __slots__ = ("verb", "fun", "arguments")

    def __init__(self, verb: str, fun: Callable[..., Any], arguments: Callable[[], Sequence[str]]):
        self.verb, self.fun, self.arguments = verb, fun, arguments

    def explain(self, positions: Sequence[int]) -> str:
        """The line of a message that says which arguments a value depends on."""
        names = self.arguments()
        found = ", ".join(names[i] for i in positions if 0 <= i < len(names))
        what = f"depends on the argument{'s' * (len(positions) > 1)} {found} of" if found else "is made in"
        return f"  The value {what} {describe_function(self.fun)}\n"


class StageTracer(Tracer):
    """A variable of the jaxpr under construction."""

    __slots__ = ("variable",)

    def __init__(self, trace: StageTrace, aval: ShapedArray, variable: Var):
        self._trace, self.aval, self.variable = trace, aval, variable


class StageTrace(Trace):
    """Writes every operation down as an equation."""

    __slots__ = ("arguments", "eqns", "constants", "signature", "calls", "shardings")

    def __init__(self, parent: Trace | None, signature: Signature | None = None, shardings: Any = None):
        super().__init__(parent)
        self.arguments: list[StageTracer] = []
        self.eqns: list[JaxprEqn] = []
        self.constants: dict[int, tuple[Var, Any, Any]] = {}  # by id: its variable, its value, and the object itself
        self.signature = signature
        self.shardings = shardings  # how the arguments lie, an ArgumentShardings, where that is known
        self.calls: dict[Any, Any] = {}  # traced functions that close over tracers, valid while this trace is

    @property
    def verb(self) -> str:  # type: ignore[override]  # here it depends on which transformation stages
        return self.signature.verb if self.signature else "staged"

    def argument(self, aval: ShapedArray) -> StageTracer:
        tracer = StageTracer(self, aval, Var(aval))
        self.arguments.append(tracer)
        return tracer

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        if primitive.prepare is not None:
            args, params = primitive.prepare(args, params)
        operands: list[Atom] = []
        for x in args:
            operands.append(x.variable if type(x) is StageTracer and x._trace is self else self.lift(x))
        avals = primitive.type_of(tuple([v.aval for v in operands]), params)
        outvars = [Var(aval) for aval in avals]
        self.eqns.append(JaxprEqn(operands, outvars, primitive, params, context.source or here(3)))
        return [StageTracer(self, v.aval, v) for v in outvars]

    def lift(self, x: Any) -> Atom:
        """A value from outside as an operand: a literal or a constvar."""
        if isinstance(x, Tracer):
            if not x._trace.alive:
                raise x.misused()
            return self.constant(x, x)
        if type(x) not in _HELD_ITSELF:
            refuse_held(x)
        aval = aval_of(x)
        if aval.ndim == 0 and aval.dtype.kind in "biufcV" and aval.dtype.names is None:
            return self.scalar(x, aval)
        return self.constant(x, x if type(x) is Array else from_host(np.array(x)))

    def scalar(self, x: Any, aval: ShapedArray) -> Atom:
        return make_literal(x.host if type(x) is Array else x, aval)

    def constant(self, key: Any, value: Any) -> Var:
        known = self.constants.get(id(key))
        if known is None:
            known = self.constants[id(key)] = (Var(value.aval), value, key)
        return known[0]

    def finish(self, outs: Sequence[Any]) -> ClosedJaxpr:
        """The jaxpr of everything written down, giving `outs`."""
        outvars = [x.variable if type(x) is StageTracer and x._trace is self else self.lift(x) for x in outs]
        self.alive = False
        constants = list(self.constants.values())
        jaxpr = Jaxpr([var for var, _, _ in constants], [t.variable for t in self.arguments], outvars, self.eqns)
        return ClosedJaxpr(jaxpr, [value for _, value, _ in constants])

    def explain(self, tracer: Tracer) -> str:
        if self.signature is None or not isinstance(tracer, StageTracer):
            return ""
        return self.signature.explain(self.depends_on(tracer.variable))

    def depends_on(self, var: Var) -> list[int]:
        """The positions of the arguments that a variable is computed from."""
        wanted: set[Any] = {var}
        for eqn in reversed(self.eqns):
            if not wanted.isdisjoint(eqn.outvars):
                wanted.update(v for v in eqn.invars if not isinstance(v, Literal))
        return [i for i, tracer in enumerate(self.arguments) if tracer.variable in wanted]


def stage(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    signature: Signature | None = None,
    shardings: Any = None,
) -> ClosedJaxpr:
    """The jaxpr of a function of flat arguments that gives a list.

    Tracers of outer traces that the function closes over are among the constants of the result.
    """
    trace = StageTrace(context.trace, signature, shardings)
    arguments = [trace.argument(aval) for aval in in_avals]
    before = context.trace
    context.trace = trace
    try:
        return trace.finish(fun(*arguments))
    finally:
        context.trace = before
        trace.alive = False
