"""Interpreters (traces): what an operation does depends on the one that is current, to which `bind` passes it.

One trace is *current* in each thread. It knows the trace below it (its parent) and runs its rules with that one
current, so interpreters nest to any depth, and each sees every operation done while it is current, also those that
touch none of its tracers. The bottom one evaluates.

The contract of `Trace.process(primitive, args, params)`: it returns the list of results, reads its own state only
(never which trace is current), and may make other traces current while it works as long as it restores the previous
one. So passing an operation on to the parent is a plain method call.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xpr.core import source
from xpr.core.avals import ShapedArray, aval_of, check_index, check_number, check_truth
from xpr.core.hi_types import at_first_use, attribute_of
from xpr.errors import (
    AxisNameError,
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TracerSliceError,
    UnexpectedTracerError,
)

if TYPE_CHECKING:
    from xpr.core.primitive import Primitive


class Trace:
    """An interpreter during one run of a function. Subclasses define `process`, and slots for their state."""

    __slots__ = ("parent", "alive", "__weakref__")
    parent: Trace | None
    alive: bool  # False once the transformed function has returned: its tracers can then no longer be used
    verb: ClassVar[str] = "traced"  # how messages say what is being done to the user's function
    of_transformation: ClassVar[bool] = True  # False if an operation of the function made it current, see below
    scope: ClassVar[str] = ""  # the transformation in name scopes, such as "vmap"; empty for one that they don't name
    names_equations: ClassVar[bool] = False  # whether it stages a program, or is a named scope inside of one
    runs_known_calls: ClassVar[bool] = False  # whether calls of jitted functions may run compiled programs directly

    def __init__(self, parent: Trace | None):
        self.parent = parent
        self.alive = True

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """The results of applying a primitive, as values of this trace."""
        raise NotImplementedError(type(self))

    def constant_of(self, value: Any) -> Any:
        """A new array as a value of this trace: a tracer while a program is staged, and else the array itself."""
        return value if self.parent is None else self.parent.constant_of(value)

    def known_type(self, x: Any) -> Any:
        """The type, with its state now, of a mutable value from outside that this trace has made its own; else None."""
        return None

    def value_of(self, tracer: Tracer) -> Any:
        """The value of a tracer of this trace that has none itself, or None."""
        return None

    def shown(self, tracer: Tracer) -> str:
        """The text of a tracer of this trace; empty for the one that all have."""
        return ""

    def explain(self, tracer: Tracer) -> str:
        """Where the value of `tracer` comes from, for messages."""
        return ""

    def created(self, tracer: Tracer) -> str:
        """The line on which the value of `tracer` was computed, for messages; empty where it is not known."""
        return ""


class DependentTrace(Trace):
    """A trace that an operation of the traced function made current, not a transformation: it acts for its parent."""

    __slots__ = ()
    parent: Trace
    of_transformation: ClassVar[bool] = False

    @property
    def verb(self) -> str:  # type: ignore[override]
        return self.parent.verb


class _Context(threading.local):
    """The current trace, axes and source line of this thread."""

    trace: Trace  # set on the class by the evaluator, which is the bottom of every thread's stack
    axes: tuple[NamedAxis, ...] = ()  # the mapped axes in scope, innermost last
    rows_along: Any = None  # the mesh axes that are to partition the mapped axis of a batch rule's results
    explicit_rows: Any = None  # the same for Explicit axes: an ExplicitSharding of the mapped axis alone
    decides_later: bool = False  # whether results may have an ambiguous sharding, which a later operation decides
    unreduced: frozenset[Any] = frozenset()  # the mesh axes over which sums of shards are to remain unreduced
    source: source.Source | None = None  # the line of new equations that are derived from an existing one; else None


context = _Context()


def install_base(trace: Trace) -> None:
    """Makes `trace` the bottom of every thread's stack."""
    _Context.trace = trace


def transformation() -> Trace:
    """The trace of the transformation whose function is running."""
    trace: Any = context.trace
    while not trace.of_transformation:
        trace = trace.parent
    return trace  # type: ignore[no-any-return]  # never None: the bottom is one of a transformation


def transformations(trace: Trace | None) -> tuple[source.Transformation, ...]:
    """The names of the transformations inside of the innermost named scope or staged program, outermost first."""
    names: list[source.Transformation] = []
    while trace is not None and not trace.names_equations:
        if trace.scope:
            names.append(source.Transformation(trace.scope))
        trace = trace.parent
    return tuple(names[::-1])


def names_of_equations(trace: Trace) -> tuple[source.Transformation, ...]:
    """The name scopes of the equations that a transformation's rules stage; none where operations are evaluated."""
    below: Trace | None = trace
    while below is not None and not below.names_equations:
        below = below.parent
    return () if below is None else transformations(trace)


def line_of_rule(
    names: tuple[source.Transformation, ...], primitive: Primitive, params: dict[str, Any]
) -> source.Source | None:
    """The source line, with the names of scopes, of the equations that a rule stages for an operation of the user.

    None where the rule calls a function of the user, whose operations have source lines themselves.
    """
    if primitive.call and any(map(callable, params.values())):
        return None
    return source.in_scopes(names, source.here(3))


class current:
    """`with current(trace): ...` makes `trace` the one that operations go to."""

    __slots__ = ("trace", "before")

    def __init__(self, trace: Trace):
        self.trace = trace

    def __enter__(self) -> Trace:
        self.before = context.trace
        context.trace = self.trace
        return self.trace

    def __exit__(self, *error: object) -> None:
        context.trace = self.before


class shardings_decided_later:
    """`with shardings_decided_later(): ...` lets results have an ambiguous sharding, until they are resharded.

    Transposition rules need it: they may compute with any operations, as the cotangents that they return are resharded
    like the operands. In programs that are staged, sums over shards along the axes `unreduced` are not done.
    """

    __slots__ = ("before", "unreduced")

    def __init__(self, unreduced: frozenset[Any] = frozenset()):
        self.unreduced = unreduced

    def __enter__(self) -> None:
        self.before = context.decides_later, context.unreduced
        context.decides_later, context.unreduced = True, self.unreduced

    def __exit__(self, *error: object) -> None:
        context.decides_later, context.unreduced = self.before


class at_the_bottom:
    """`with at_the_bottom(): ...` works as in a new thread: operations are evaluated, and no axis is in scope."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = (context.trace, context.axes, context.source)
        context.trace, context.axes, context.source = _Context.trace, _Context.axes, _Context.source

    def __exit__(self, *error: object) -> None:
        context.trace, context.axes, context.source = self.before


class NamedAxis:
    """A mapped axis that collectives can name: its name and its size.

    `checked`: values that are replicated over it count once in derivatives, see
    control/custom/replicated_cotangents.py.
    """

    __slots__ = ("name", "size", "checked")

    def __init__(self, name: Any, size: int, checked: bool = False):
        self.name, self.size, self.checked = name, size, checked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedAxis) and (self.name, self.size, self.checked) == (
            other.name, other.size, other.checked,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.name, self.size, self.checked))


class axes_in_scope:
    """`with axes_in_scope(NamedAxis("batch", 8)): ...` lets collectives name the axes."""

    __slots__ = ("axes", "before")

    def __init__(self, *axes: NamedAxis):
        self.axes = axes

    def __enter__(self) -> None:
        self.before = context.axes
        context.axes = self.before + self.axes

    def __exit__(self, *error: object) -> None:
        context.axes = self.before


def axis_size(name: Any) -> int:
    """The size of the innermost mapped axis of that name.

    Raises:
      AxisNameError: no such axis is in scope.
    """
    for axis in reversed(context.axes):
        if axis.name == name:
            return axis.size
    known = ", ".join(repr(axis.name) for axis in context.axes) or "none"
    raise AxisNameError(
        f"Found an unbound axis name: {name}. The axes in scope here are: {known}. "
        f"Map the function that uses it with vmap(..., axis_name={name!r}), or with shard_map over a mesh that has it."
    )


class Tracer:
    """The value of an array while a function is traced: it has a type, and often no concrete value.

    Arithmetic, indexing and methods are those of `xpr.Array`; numpy/methods.py installs them on both.
    """

    __slots__ = ("_trace", "aval", "__weakref__")
    _trace: Trace
    aval: ShapedArray

    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]  # equality of arrays is elementwise

    def __init__(self, trace: Trace, aval: ShapedArray):
        self._trace = trace
        self.aval = aval

    # Subclasses that know more override these.

    def current_type(self) -> Any:
        """The type, with the state that it has now if the value is mutable."""
        return self.aval.current  # type: ignore[attr-defined]  # all types have it

    def concrete(self) -> Any:
        """The concrete value of this tracer, or None where only its type is known."""
        return None

    @property
    def vma(self) -> frozenset[Any]:
        """The manual axes over which the value varies, inside a `shard_map`."""
        return self.aval.vma

    @property
    def mat(self) -> Any:
        """The manual axes in the type, inside a `shard_map`: varying, unreduced and reduced ones."""
        return self.aval.mat

    def __repr__(self) -> str:
        if self.aval is None:  # while it is being made, or made by hand for a message
            return f"{type(self).__name__}(no type)"
        return self._trace.shown(self) or f"{self._text_name()}({self.aval.named()})"

    def _text_name(self) -> str:
        """What the text of a tracer begins with."""
        return type(self).__name__

    def misused(self) -> Exception:
        """The exception to raise where an interpreter can't compute with this tracer."""
        return UnexpectedTracerError(escaped(self))

    @property
    def sharding(self) -> Any:
        raise AttributeError(
            f"A traced array of type {self.aval.str_short()} is on no device, and has no attribute sharding. What its "
            "type says of shardings is xpr.typeof(x).sharding; xpr.debug.inspect_array_sharding(x, callback=print) "
            "shows what the compiler chooses."
        )

    # Conversions to Python and NumPy, which need a value.

    def _value_for(self, error: type[ConcretizationTypeError], operation: str, way_out: str) -> Any:
        value = self.concrete()
        if value is None:
            value = self._trace.value_of(self)
        if value is not None:
            return value if hasattr(value, "aval") else np.asarray(value)[()]
        if not self._trace.alive:
            raise self.misused()
        raise error(
            f"{operation} needs the value of a traced array of type {self.aval.str_short()},\n"
            f"and while a function is {self._trace.verb} only shapes and dtypes are known.\n"
            f"{self._trace.explain(self)}"
            f"  at {source.line_with_text(source.here())}\n{way_out}"
        )

    def __bool__(self) -> bool:
        check_truth(self.aval)
        operation = f"{_TRUTH} {self.aval.str_short()}.\nbool() or a Python `if` or `while`"
        return bool(self._value_for(TracerBoolConversionError, operation, _FOR_BOOL))

    def __int__(self) -> int:
        return self._as_number(int)

    def __float__(self) -> float:
        return self._as_number(float)

    def __complex__(self) -> complex:
        return self._as_number(complex)

    def _as_number(self, kind: type) -> Any:
        check_number(self.aval)
        way_out = _FOR_VALUE.replace("array", f"array (try using `x.astype({kind.__name__})`)", 1)
        return kind(self._value_for(ConcretizationTypeError, f"{_ABSTRACT}{kind.__name__}()", way_out))

    def __index__(self) -> int:
        return self.static_integer("The __index__() method was called on traced array:\nan index, a length or a shape")

    def static_integer(self, use: str) -> int:
        """The value as a Python integer; `use`, such as "a size", says what for in the message where it is unknown."""
        check_index(self.aval)
        return operator.index(self._value_for(TracerIntegerConversionError, use, _FOR_INDEX))

    def static_bound(self) -> int:
        """The value as a bound of a slice."""
        return operator.index(self._value_for(TracerSliceError, "A bound of a slice", _FOR_SLICE))

    def item(self, *args: Any) -> Any:
        """The value as a Python scalar."""
        return self._value_for(ConcretizationTypeError, f"{_ABSTRACT}.item()", _FOR_VALUE).item(*args)

    def tolist(self) -> Any:
        """The value as nested lists of Python scalars."""
        return self._value_for(
            ConcretizationTypeError, f"{_ABSTRACT}The tolist() method was called on traced array:\nit", _FOR_VALUE
        ).tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """The bytes of all elements."""
        return self._value_for(
            ConcretizationTypeError, f"{_ABSTRACT}The tobytes() method was called on traced array:\nit", _FOR_VALUE
        ).tobytes(order)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._value_for(ConcretizationTypeError, f"{_ABSTRACT}pickling", _FOR_VALUE).__reduce_ex__(protocol)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._trace.alive:
            raise self.misused()
        raise TracerArrayConversionError(
            f"The numpy.ndarray conversion failed:\nNumPy was given a traced array of type {self.aval.str_short()}, "
            f"which has no value while a function is {self._trace.verb}.\n{self._trace.explain(self)}"
            f"  at {source.line_with_text(source.here())}\n{_FOR_NUMPY}"
        )

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        return format(self._value_for(ConcretizationTypeError, f"{_ABSTRACT}format()", _FOR_VALUE), spec)


def _attribute_of_type(tracer: Tracer, name: str) -> Any:
    """An attribute that a type which a user defines has for its values."""
    if name != "aval" and tracer.aval is not None and tracer.aval.is_high:
        return attribute_of(tracer, tracer.aval, name)
    return object.__getattribute__(tracer, name)  # which raises the error


def _look_into_types() -> None:
    Tracer.__getattr__ = _attribute_of_type  # type: ignore[attr-defined]  # it slows down each attribute of a tracer


at_first_use(_look_into_types)


def current_type(x: Any) -> Any:
    """The type of a value, with the state that it has now if the value is mutable.

    A program that is being traced changes the states of mutable values from outside, too.
    """
    aval = aval_of(x)
    if not aval.has_qdd:
        return aval
    own = x._trace if isinstance(x, Tracer) else None
    trace: Trace | None = context.trace
    while trace is not None and trace is not own:
        known = trace.known_type(x)
        if known is not None:
            return known
        trace = trace.parent
    return aval.current if own is None else x.current_type()


_FOR_BOOL = """\
Choose between values with jnp.where(condition, a, b), between computations with lax.cond, loop with lax.while_loop;
or, if the condition depends on an argument that is the same in many calls, mark that argument static:
jit(f, static_argnums=...) or static_argnames=..."""
_TRUTH = "Attempted boolean conversion of traced array with shape"
_ABSTRACT = "Abstract tracer value encountered where concrete value is expected:\n"
_FOR_VALUE = """\
Keep it an array; or mark the argument it depends on static:
jit(f, static_argnums=...) or static_argnames=..."""
_FOR_INDEX = """\
To index an array use jnp arrays (x[i] works when x is a jnp array) or lax.dynamic_slice; to loop, lax.fori_loop;
for shapes, axes and lengths, mark the argument static: jit(f, static_argnums=...) or static_argnames=..."""
_FOR_SLICE = """\
The sizes of arrays are static: take lax.dynamic_slice(x, (start,), (size,)), or set the elements outside to a neutral
one with jnp.where; or mark the argument static: jit(f, static_argnums=...) or static_argnames=..."""
_FOR_NUMPY = """\
Call the function of the same name in xpr.numpy instead of numpy's; to run host code on traced values, use a callback;
or mark the argument static: jit(f, static_argnums=...) or static_argnames=..."""


def escaped(tracer: Tracer) -> str:
    """The message for a tracer that is used where its trace is not: mostly, one that outlived its function."""
    kind = tracer.aval.str_short(short_dtypes=False)
    if tracer._trace.alive:
        return (
            f"Encountered an unexpected tracer, of type {kind}: it is used out of reach of the "
            f"transformation it belongs to, whose function is still being {tracer._trace.verb}.\n"
            f"{tracer._trace.explain(tracer)}"
            f"  used at {source.line_with_text(source.here())}\n"
            "A function with a rule of its own sees traced values that it closes over in variables and containers, and "
            "not those in attributes of other objects: pass the value as an argument."
        )
    return (
        f"Encountered an unexpected tracer, of type {kind}: it was used after the function it was "
        f"made in had been {tracer._trace.verb}, and has escaped, through global state, an attribute or a closure, as "
        f"a side effect.\n{tracer._trace.explain(tracer)}{tracer._trace.created(tracer)}"
        f"  used at {source.line_with_text(source.here())}\n"
        "Return the value from the function instead of storing it."
    )
