"""Primitives: the words of the language, each with every rule it has.

A primitive is a closed record. Each slot holds a rule, or `Unsupported("why")`; nothing else is looked up anywhere.
Rules take and give lists; only `bind` looks at `multiple_results`.

    abstract(avals, **params)                 -> [ShapedArray]      the typing rule; raises TypeError with both types
    reference(values, **params)               -> [np.ndarray]       the meaning, in NumPy
    lower(builder, operands, avals, **params) -> [Value]            StableHLO; `avals` are the results' types
    jvp(primals, tangents, **params)          -> (outs, tangents)   a tangent may be a Zero, in and out
    transpose(cotangents, operands, **params) -> [cotangent]        `Linear` marks the operands to transpose to;
                                                                    None or Zero for "nothing to add"
    batch(size, values, dims, **params)       -> (outs, dims)       a dim is None where a value isn't mapped

Some give more. `linearize(trace, primals, tangents, params)` splits primal from tangent work, see
transforms/linearize.py. `batch_named(axis_name, size, values, dims, **params)` is a collective's batch rule over the
axis it names. `evaluate(args, params)` runs the operation in place of a program compiled from `lower`, and
`prepare(args, params) -> (args, params)` turns parameters that are Python functions into jaxprs before an equation is
written. `lower_as(*args, **params)` is a traceable function to lower in place of `lower`.
`faster_in_numpy(avals, **params)` says of an exact primitive that its `reference` beats XLA:CPU at any size.
`dce(eqn, used) -> eqn` gives up the results of an equation that nothing reads, see passes/dce.py.
`hazard` is what can go wrong, for `checkify`, see gather/bounds_checks.py.
`threaded(state, thread, values, **params) -> (state, results)` passes state through the jaxprs that it holds, of which
`thread(jaxpr)` is the version from (state, arguments) to (state, results).
`split(eqn, is_known) -> (known, unknown)` halves an equation of which some operands are known, see
passes/partial_eval.py. `commutative` says that two operands may be swapped.
`flops(operands, results, **params)` is the number of operations it takes, from types; see primitives/flops.py.
`effect(**params)` names the effect that an operation has beside its results, "ordered" or "unordered", or gives None.
`mesh(**params)` is the mesh of devices that an operation spreads its operands over.
`fusion` is how XLA:CPU fuses an operation into those that read it: a "view" is its operand, in another shape; a "cheap"
one is computed again in each reader, also a "vectorized" one where several read it that are no slower for it, and an
"expensive" one once; a "reduction" has its operands computed inside it. Where it is None nothing is fused.
`regions(**params)` lists the jaxprs that an operation holds and how they run, see core/regions.py.

`params` are the names of the parameters: those that the typing rule takes, unless they are given. A typing rule that
takes any, as those do that users give, leaves them open.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from xpr.core.avals import HeldArrayError, ShapedArray, array_in
from xpr.core.interpreter import Trace, Tracer, context
from xpr.errors import UnsupportedRule


class Unsupported:
    """A slot that holds no rule, and says why and what to do instead."""

    __slots__ = ("why", "error", "name", "slot")

    def __init__(self, why: str, error: type[UnsupportedRule] = UnsupportedRule):
        self.why, self.error = why, error
        self.name = self.slot = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error(f"{self.name}: no {self.slot} rule. {self.why}")

    def __bool__(self) -> bool:
        return False


class NeedsLinear(UnsupportedRule):
    """A transposition rule computes with a linear operand, so the operation is not linear in its linear operands."""


class Linear(Tracer):
    """Stands for a linear operand in a transposition rule: its type is known, its value is what is solved for."""

    __slots__ = ()
    _trace = Trace(None)
    _trace.alive = False

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def misused(self) -> Exception:
        return NeedsLinear(f"The value of {self} is needed, and it is what a transposition solves for.")

    def __repr__(self) -> str:
        return f"Linear({self.aval.str_short()})"


def is_linear(operand: Any) -> bool:
    """Whether a transposition rule's operand is one to solve for."""
    return type(operand) is Linear


def told_apart(value: Any) -> Any:
    """What stands for a parameter or a static argument in a key: 1, 1.0 and True are three things, so are 0.0 and -0.0.

    Equality is taken at its word for anything but numbers, tuples and frozensets.
    """
    kind = type(value)
    if kind is float or kind is complex:
        return kind, repr(value)
    if isinstance(value, tuple):
        return kind, tuple([told_apart(each) for each in value])
    if kind is frozenset:
        return kind, frozenset([told_apart(each) for each in value])
    if isinstance(value, np.generic):
        return kind, value.tobytes()
    return kind, value


def key_of(params: dict[str, Any]) -> list[Any]:
    """Parameters as a part of keys, told apart."""
    return [(name, told_apart(value)) for name, value in params.items()]


Fusion = Literal["view", "cheap", "vectorized", "expensive", "reduction"] | None
FUSED = frozenset({"cheap", "vectorized", "expensive"})  # what XLA computes inside its readers
SLOTS = ("abstract", "reference", "lower", "jvp", "transpose", "batch")
Rule = Callable[..., Any]


def params_of(rule: Any) -> tuple[str, ...] | None:
    """The parameters that a rule names; None where it takes any."""
    code = getattr(rule, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    return tuple(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])


def _taken_out(args: Sequence[Any]) -> list[Any]:
    """The operands, with what `__jax_array__` gives in place of objects that have it.

    A rule may meet an object with a tracer of the interpreter whose rule it is. To take that out here would make it a
    constant; it is left to the `bind` that called the interpreter.
    """
    taken = list(map(array_in, args))
    below: Any = context.trace
    traces = set()
    while below is not None:
        traces.add(id(below))
        below = below.parent
    if any(isinstance(x, Tracer) and x._trace.alive and id(x._trace) not in traces for x in taken):
        raise
    return taken


class Primitive:
    """One operation of the language."""

    __slots__ = (
        "name", "multiple_results", *SLOTS, "linearize", "batch_named", "evaluate", "prepare", "lower_as", "exact",
        "call", "faster_in_numpy", "effect", "dce", "split", "hazard", "threaded", "any_params", "commutative", "flops",
        "mesh", "regions", "fusion", "params", "optional", "typed", "plans", "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        abstract: Rule | Unsupported,
        reference: Rule | Unsupported,
        lower: Rule | Unsupported,
        jvp: Rule | Unsupported,
        transpose: Rule | Unsupported,
        batch: Rule | Unsupported,
        multiple_results: bool = False,
        linearize: Rule | None = None,
        batch_named: Rule | None = None,
        evaluate: Rule | None = None,
        prepare: Rule | None = None,
        lower_as: Rule | None = None,
        exact: bool = False,
        call: bool = False,
        faster_in_numpy: Callable[..., bool] | None = None,
        effect: Callable[..., str | None] | None = None,
        dce: Rule | None = None,
        split: Rule | None = None,
        hazard: tuple[str, Rule] | None = None,
        threaded: Rule | None = None,
        any_params: bool = False,
        commutative: bool = False,
        flops: Callable[..., int] | None = None,
        mesh: Callable[..., Any] | None = None,
        regions: Callable[..., Any] | None = None,
        fusion: Fusion = None,
        params: Iterable[str] | None = None,
        optional: Iterable[str] = (),
    ):
        self.name = name
        self.multiple_results = multiple_results
        self.abstract, self.reference, self.lower = abstract, reference, lower
        self.jvp, self.transpose, self.batch = jvp, transpose, batch
        self.linearize = linearize
        self.batch_named, self.evaluate, self.prepare, self.lower_as = batch_named, evaluate, prepare, lower_as
        self.exact = exact  # `reference` gives the bits XLA gives, so small eager calls may use it
        self.faster_in_numpy = faster_in_numpy  # so large eager calls may use it, too
        self.effect, self.dce, self.split, self.hazard, self.threaded = effect, dce, split, hazard, threaded
        self.commutative, self.mesh = commutative, mesh  # the first is said of its two operands
        self.regions, self.fusion = regions, fusion
        self.flops = flops  # None where it computes nothing, or what the jaxprs that it holds do
        self.call = call  # holds a jaxpr, so nothing about it is cached by its parameters
        names = params_of(abstract) if params is None else params
        self.params = None if names is None else frozenset(names)
        self.optional = frozenset(optional)  # of the parameters, those that an equation may do without
        self.any_params = any_params  # may be numbers of several types, which equality alone does not tell apart
        self.typed: dict[Any, list[ShapedArray]] = {}
        self.plans: dict[Any, Any] = {}  # how to run it eagerly, by operand types and parameters
        for slot in SLOTS:
            rule = getattr(self, slot)
            if isinstance(rule, Unsupported):
                rule.name, rule.slot = name, slot

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return _by_name, (self.name,)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies the primitive, through whatever interpreter is current."""
        try:
            outs = context.trace.process(self, args, params)
        except HeldArrayError:
            outs = context.trace.process(self, _taken_out(args), params)
        return outs if self.multiple_results else outs[0]

    def key_of(self, params: dict[str, Any]) -> Iterable[Any]:
        """Parameters as a part of keys that this primitive is in."""
        return key_of(params) if self.any_params else params.items()

    def check_params(self, params: dict[str, Any]) -> None:
        """Raises TypeError where parameters are missing, or are none of the primitive's."""
        names, given = self.params, params.keys()
        if names is None or given == names or names - self.optional <= given <= names:
            return
        unknown, missing = ", ".join(sorted(given - names)), ", ".join(sorted(names - self.optional - given))
        faults = [f"has no parameter {unknown}"] * bool(unknown) + [f"needs the parameter {missing}"] * bool(missing)
        known = ", ".join(sorted(names)) or "none"
        raise TypeError(f"`{self.name}` {' and '.join(faults)}. Its parameters are: {known}.")

    def type_of(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> list[ShapedArray]:
        """The types of the results, remembered by operand types and parameters.

        Raises:
          TypeError: the operands don't fit, or the parameters are others than those of the primitive.
        """
        if self.call:
            self.check_params(params)
            return self.abstract(avals, **params)
        key: Any = (avals, *self.key_of(params)) if params else avals
        try:
            return self.typed[key]
        except KeyError:
            pass  # what is raised below is then no consequence of this, in tracebacks
        except TypeError:  # a parameter that can't be hashed
            self.check_params(params)
            return self.abstract(avals, **params)
        self.check_params(params)
        outs = self.typed[key] = self.abstract(avals, **params)
        return outs


registered: dict[str, Primitive] = {}  # by name


def register(primitive: Primitive) -> Primitive:
    """Makes a primitive known by name, for pickles and parsers."""
    registered[primitive.name] = primitive
    return primitive


vocabulary: list[Callable[[], Any]] = []  # these load further primitives, when one is asked for that is not known yet


def _by_name(name: str) -> Primitive:
    if name not in registered:
        for load in vocabulary:
            load()
    if name not in registered:
        raise LookupError(f"There is no primitive named {name!r} here: import the module that makes it first.")
    return registered[name]


def all_primitives() -> Sequence[Primitive]:
    """Every primitive of the library, in the order of their making."""
    return list(registered.values())
