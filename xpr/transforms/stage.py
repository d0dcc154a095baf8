"""stage : (a -> b) -> jaxpr. Traces a Python function: runs it on tracers and records every operation as an equation.

The carried value is a `StageTracer`: a variable of the jaxpr under construction. Under `make_jaxpr(lambda x: x * 2)`
the multiplication arrives here as `mul_p` with operands (tracer of `a`, 2) and becomes the equation `b = mul a 2`.
Operands that belong to no tracer of this trace become literals (scalars) or constvars (arrays, and tracers of outer
traces).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend.array import Array, from_host
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of, is_of_users, is_type_alone, refuse_without_value
from xpr.core.check import check_jaxpr
from xpr.core.hi_types import HiType, in_use
from xpr.core.interpreter import Trace, Tracer, context, current_type
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, make_literal
from xpr.core.memory import MemorySpace
from xpr.core.primitive import Primitive
from xpr.core.refs import AbstractRef, Ref
from xpr.core.result_types import SumOverShards
from xpr.core.source import describe_function, here, line_with_text, without_scopes
from xpr.errors import RefError
from xpr.garbage_collection import collect_as_before, collect_rarely
from xpr.primitives.user_values import make_value_p
from xpr.transforms.leaks import refuse_leaks
from xpr.transforms.metadata import with_metadata_of_block

_HELD_ITSELF = frozenset({Array, bool, int, float, complex})  # the types that nearly all operands from outside have


class Signature:
    """The description of the user's function in messages, computed when one is written.

    `verb` says what is being done to it, `arguments()` names its flat arguments: `x`, `params['w']`.
    """

    __slots__ = ("verb", "fun", "arguments")

    def __init__(self, verb: str, fun: Callable[..., Any], arguments: Callable[[], Sequence[str]]):
        self.verb, self.fun, self.arguments = verb, fun, arguments

    def explain(self, positions: Sequence[int]) -> str:
        """The line of a message that says which arguments a value depends on."""
        names = self.arguments()
        arguments, function = [names[i] for i in positions if 0 <= i < len(names)], describe_function(self.fun)
        if not arguments:
            return f"  The value is made in {function}, of no argument: made by numpy it would be known\n"
        plural = "s" * (len(arguments) > 1)
        return f"  The value depends on the argument{plural} {', '.join(arguments)} of {function}\n"


class StageTracer(Tracer):
    """A variable of the jaxpr under construction."""

    __slots__ = ("variable",)

    def __init__(self, trace: StageTrace, aval: ShapedArray, variable: Var):
        self._trace, self.aval, self.variable = trace, aval, variable

    def concrete(self) -> Any:
        trace: Any = self._trace
        return trace.made.get(self.variable) if trace.alive else None

    def _text_name(self) -> str:
        return "JitTracer"  # as in JAX, whose programs show it


class StageTrace(Trace):
    """Records every operation as an equation."""

    names_equations = True
    __slots__ = ("arguments", "eqns", "constants", "copies", "made", "signature", "calls", "shardings")

    def __init__(self, parent: Trace | None, signature: Signature | None = None, shardings: Any = None):
        super().__init__(parent)
        self.arguments: list[Var] = []  # not their tracers: no cycle keeps the constants once the trace has ended
        self.eqns: list[JaxprEqn] = []
        self.constants: dict[int, tuple[Var, Any, Any]] = {}  # by id: its variable, its value, and the object itself
        self.copies: dict[Any, list[tuple[Var, Array]]] = {}  # constants that are on the host alone, by type and sample
        self.made: dict[Any, Any] = {}  # arrays that the function made, whose values are known, by their variables
        self.signature = signature
        self.shardings = shardings  # ArgumentShardings of the arguments, where known
        self.calls: dict[Any, Any] = {}  # traced functions that close over tracers, valid while this trace is

    @property
    def verb(self) -> str:  # type: ignore[override]  # here it depends on which transformation stages
        return self.signature.verb if self.signature else "staged"

    def argument(self, aval: Any) -> Any:
        """A new argument of the program: its tracer, or its ref where `aval` is the type of one."""
        if aval.is_high:
            in_use()
        variable = Var(aval.at_start)
        self.arguments.append(variable)
        if type(aval) is AbstractRef:
            return Ref(aval, self, variable=variable)
        return StageTracer(self, variable.aval, variable)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        if primitive.prepare is not None:
            args, params = primitive.prepare(args, params)
        operands: list[Atom] = []
        for x in args:
            operands.append(x.variable if type(x) is StageTracer and x._trace is self else self.lift(x))
        try:
            avals = primitive.type_of(tuple([v.aval for v in operands]), params)
        except SumOverShards as asked:
            params = asked.params
            avals = primitive.type_of(tuple([v.aval for v in operands]), params)
        outvars = [Var(aval) for aval in avals]
        self.eqns.append(JaxprEqn(operands, outvars, primitive, params, context.source or here(3)))
        return [StageTracer(self, v.aval, v) for v in outvars]

    def constant_of(self, value: Any) -> Any:
        variable: Any = self.lift(value)
        self.made[variable] = value
        return StageTracer(self, value.aval, variable)

    def lift(self, x: Any) -> Atom:
        """A value from outside as an operand: a literal or a constvar."""
        if isinstance(x, Tracer):
            if not x._trace.alive:
                raise x.misused()
            return self.constant(x, x)
        if type(x) is Ref:
            return self.ref(x)
        if type(x) not in _HELD_ITSELF:
            if is_of_users(x):
                return self.user_value(x)
            if is_type_alone(x):
                return self.constant(x, x)  # which is refused where its value is needed, and not in eval_shape
            refuse_without_value(x)
        aval = aval_of(x)
        if (
            aval.ndim == 0
            and aval.dtype.kind in "biufcV"
            and aval.dtype.names is None
            and aval.memory_space is MemorySpace.Device
        ):
            return self.scalar(x, aval)
        return self.constant(x, x if type(x) is Array else from_host(np.array(x)))

    def user_value(self, x: Any) -> Atom:
        """An object of a user's class as an operand: a constant, or made of the traced arrays that it holds."""
        aval = x.aval
        if not aval.has_qdd and type(aval).lower_val is not HiType.lower_val:
            arrays = aval.lower_val(x)
            if any(isinstance(each, Tracer) for each in arrays):
                return self.process(make_value_p, arrays, {"aval": aval})[0].variable  # type: ignore[no-any-return]
        return self.constant(x, x)

    def ref(self, x: Ref) -> Atom:
        """A ref as an operand. One that was made by the traced function has no variable, and its value is passed on."""
        if x.owner is not self:
            return self.constant(x, x)
        if x.variable is not None:
            return x.variable
        value = x.held()
        return value.variable if type(value) is StageTracer and value._trace is self else self.constant(value, value)

    def scalar(self, x: Any, aval: ShapedArray) -> Atom:
        """A scalar from outside as an operand: a literal."""
        return make_literal(x.host if type(x) is Array else x, aval)

    def constant(self, key: Any, value: Any) -> Var:
        """The constvar for `value`, the same one wherever the object `key` that it was made from is an operand."""
        known = self.constants.get(id(key))
        if known is None:
            var, value = self.shared(value) if type(value) is Array else (Var(current_type(value)), value)
            known = self.constants[id(key)] = (var, value, key)
        return known[0]

    def known_type(self, x: Any) -> Any:
        known = self.constants.get(id(x))
        return None if known is None else known[0].aval.current

    def shared(self, value: Array) -> tuple[Var, Array]:
        """The variable and the value of a constant: those of an equal one, where both are copies of NumPy arrays.

        Such an array is copied wherever it is used, since it may change in between.
        """
        sample = value.sample_on_host()
        if sample is None:
            return Var(value.aval), value
        copies = self.copies.setdefault((value.aval, sample), [])
        for known in copies:
            if known[1].host.tobytes() == value.host.tobytes():
                return known
        copies.append((Var(value.aval), value))
        return copies[-1]

    def values_of_constants(self) -> dict[Var, Any]:
        """The values of the variables that stand for constants, in their order."""
        return {var: value for var, value, _ in self.constants.values()}

    def finish(self, outs: Sequence[Any]) -> ClosedJaxpr:
        """The jaxpr of the recorded equations, with results `outs`."""
        outvars = [x.variable if type(x) is StageTracer and x._trace is self else self.result(x) for x in outs]
        self.alive = False
        constants = self.values_of_constants()
        self.calls.clear()
        if not self.made.keys().isdisjoint(constants):
            read = {*outvars, *(v for eqn in self.eqns for v in eqn.invars)}
            constants = {var: value for var, value in constants.items() if var in read or var not in self.made}
        jaxpr = Jaxpr(list(constants), self.arguments, outvars, self.eqns)
        return ClosedJaxpr(jaxpr, list(constants.values()))

    def result(self, x: Any) -> Atom:
        """A value that is no variable of the program, as its result; a ref may be one only if it is an argument."""
        if type(x) is Ref and (x.owner is not self or x.variable is None):
            raise RefError(f"A Ref of type {x.aval.str_short()} is a result. Return what it holds: ref[...].")
        return self.lift(x)

    def explain(self, tracer: Tracer) -> str:
        if self.signature is None or not isinstance(tracer, StageTracer):
            return ""
        return self.signature.explain(self.depends_on(tracer.variable))

    def created(self, tracer: Tracer) -> str:
        variable = getattr(tracer, "variable", None)
        origin = next((eqn.source for eqn in self.eqns if variable in eqn.outvars), None)
        return f"  It was created on line {line_with_text(origin)}\n" if origin else ""

    def passed_in(self, ref: Ref) -> str:
        """The line of a message that says as which argument a ref was passed in; empty where it was not."""
        position = next((i for i, variable in enumerate(self.arguments) if variable is ref.variable), None)
        if position is None or self.signature is None:
            return ""
        return f"\n\nThe ref was passed in as the argument {self.signature.arguments()[position]}."

    def depends_on(self, var: Var) -> list[int]:
        """The positions of the arguments that a variable is computed from."""
        needed: set[Any] = {var}
        for eqn in reversed(self.eqns):
            if not needed.isdisjoint(eqn.outvars):
                needed.update(v for v in eqn.invars if not isinstance(v, Literal))
        return [i for i, variable in enumerate(self.arguments) if variable in needed]


def stage(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    signature: Signature | None = None,
    shardings: Any = None,
    trace: StageTrace | None = None,
) -> ClosedJaxpr:
    """The jaxpr of a function of flat arguments that gives a list, which `trace` records, or a new one.

    Tracers of outer traces that the function closes over are among the constants of the result.
    """
    if trace is None:
        trace = StageTrace(context.trace, signature, shardings)
    arguments = [trace.argument(aval) for aval in in_avals]
    before, number = (context.trace, context.source), collect_rarely()
    context.trace, context.source = with_metadata_of_block(trace), without_scopes(context.source)
    try:
        closed = trace.finish(fun(*arguments))
    finally:
        context.trace, context.source = before
        trace.alive = False
        collect_as_before(number)
    if settings.enable_checks:
        check_jaxpr(closed)
    if settings.check_tracer_leaks:
        refuse_leaks(trace, [arguments])
    return closed


def is_staged() -> bool:
    """Whether a function is being traced to a program."""
    trace: Any = context.trace
    while trace is not None and not (trace.of_transformation and isinstance(trace, StageTrace)):
        trace = trace.parent
    return trace is not None
