"""Primitives: the operations that jaxprs consist of, each with all its rules.

A primitive is a record with a fixed set of slots, of which each of the first six holds a rule or `Unsupported("why")`;
there are no tables of rules elsewhere. Rules take and return lists; only `bind` looks at `multiple_results`.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np

from xpr.core.avals import ConvertibleArrayError, ShapedArray, array_made_of, aval_of, full_name, is_key, types_of
from xpr.core.effects import no_effects
from xpr.core.interpreter import Trace, Tracer, context
from xpr.core.refs import AbstractRef, not_an_array
from xpr.core.result_types import result_types
from xpr.errors import UnsupportedRule


def no_rule(name: str, slot: str) -> str:
    """The beginning of the message for a primitive that has no rule in a slot."""
    if slot == "lower":
        return f"Lowering rule for primitive {name!r} not found"
    return f"{_RULES.get(slot, f'The rule {slot}')} for {name!r} not implemented"


_RULES = {
    "abstract": "Abstract evaluation", "reference": "Evaluation rule", "jvp": "Differentiation rule",
    "transpose": "Transpose rule (for reverse-mode differentiation)", "batch": "Batching rule",
}  # fmt: skip


class Unsupported:
    """A slot that holds no rule, and says why and what to do instead."""

    __slots__ = ("why", "error", "name", "slot")

    def __init__(self, why: str, error: type[UnsupportedRule] = UnsupportedRule, name: str = "", slot: str = ""):
        self.why, self.error, self.name, self.slot = why, error, name, slot

    def of(self, name: str, slot: str) -> Unsupported:
        """The same for a slot of the primitive of that name, which messages name."""
        return Unsupported(self.why, self.error, name, slot)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error(f"{no_rule(self.name, self.slot)}. {self.why}")

    def __bool__(self) -> bool:
        return False


class NeedsLinear(UnsupportedRule):
    """A transposition rule computes with a linear operand, so the operation is not linear in its linear operands."""


class Linear(Tracer):
    """Stands for a linear operand in a transposition rule: it has a type and no value."""

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
    """Whether an operand of a transposition rule is one whose cotangent is asked for.

    >>> from xpr.extend import is_linear
    >>> is_linear(1.0)
    False
    """
    return type(operand) is Linear


def cache_key(value: Any) -> Any:
    """The cache key of a parameter or static argument: 1, 1.0 and True have different keys, and so have 0.0 and -0.0.

    Anything but numbers, tuples and frozensets is its own key.
    """
    kind = type(value)
    if kind is float or kind is complex:
        return kind, repr(value)
    if isinstance(value, tuple):
        return kind, tuple([cache_key(each) for each in value])
    if kind is frozenset:
        return kind, frozenset([cache_key(each) for each in value])
    if isinstance(value, np.generic):
        return kind, value.tobytes()
    return kind, value


def key_of(params: dict[str, Any]) -> list[Any]:
    """The cache keys of parameters, with their names."""
    return [(name, cache_key(value)) for name, value in params.items()]


Fusion = Literal["view", "cheap", "vectorized", "expensive", "reduction"] | None
FUSED = frozenset({"cheap", "vectorized", "expensive"})  # classes of operations that XLA computes inside their readers
SLOTS = ("abstract", "reference", "lower", "jvp", "transpose", "batch")
Rule = Callable[..., Any]


def params_of(rule: Any) -> tuple[str, ...] | None:
    """The parameters that a rule names; None where it takes any."""
    code = getattr(inspect.unwrap(rule), "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    return tuple(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])


# Parameters of JAX's primitives that ours don't have: where they are None they are left out.
_OF_JAX = frozenset({"accuracy", "dimensions", "out_sharding", "sharding"})


def _call_of_jax(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The operands and parameters of a call that has the parameters of JAX's primitive; None for other calls."""
    kept = primitive.known_params(params)
    if primitive.from_jax is not None and (call := primitive.from_jax(args, kept)) is not None:
        return call
    return None if kept is params else (args, kept)


def _refuse_other_than_arrays(name: str, args: Sequence[Any], error: Exception) -> None:
    """Raises a TypeError with the position of the operand, if an operation failed because it is no array."""
    for position, x in enumerate(args):
        try:
            aval_of(x)
        except TypeError as fault:
            if str(fault) == str(error):
                raise TypeError(
                    f"Error interpreting argument to the operation {name} as a JAX value. The problematic value is of "
                    f"type {full_name(type(x))}, which is no array, and was passed to {name} at position {position}. "
                    f"{error}"
                ) from None


def _converted(args: Sequence[Any]) -> list[Any]:
    """The operands, with those that have a method `__jax_array__` converted by it.

    It is called while a `ConvertibleArrayError` is handled, and raises that again where an operand holds a tracer of an
    interpreter that is not current: one whose rule is running. Converted here, the tracer would become a constant; the
    `bind` that called the interpreter converts it.
    """
    converted = list(map(array_made_of, args))
    below: Any = context.trace
    traces = set()
    while below is not None:
        traces.add(id(below))
        below = below.parent
    if any(isinstance(x, Tracer) and x._trace.alive and id(x._trace) not in traces for x in converted):
        raise
    return converted


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class Primitive:
    """One operation of the language: its name, its rules and its properties."""

    name: str
    _: KW_ONLY

    # -- Rules that every primitive has, or says why it has none

    # (avals, **params) -> [ShapedArray]: the types of the results; raises TypeError with both types
    abstract: Rule | Unsupported
    # (values, **params) -> [np.ndarray]: the meaning, in NumPy
    reference: Rule | Unsupported
    # (builder, operands, avals, **params) -> [Value]: StableHLO; `avals` are the results' types
    lower: Rule | Unsupported
    # (primals, tangents, **params) -> (outs, tangents): a tangent may be a Zero, in and out
    jvp: Rule | Unsupported
    # (cotangents, operands, **params) -> [cotangent]: `Linear` marks the operands to transpose to; None or Zero for
    # "nothing to add"
    transpose: Rule | Unsupported
    # (size, values, dims, **params) -> (outs, dims): a dim is None where a value isn't mapped
    batch: Rule | Unsupported

    # -- Optional rules, which replace or complement those above

    # (trace, primals, tangents, params) -> (outs, tangents): splits primal from tangent work, see
    # transforms/linearize.py
    linearize: Rule | None = None
    # (axis_name, size, values, dims, **params) -> (outs, dims): a collective's batch rule over an axis that it names
    batch_named: Rule | None = None
    # (*args, **params): a traceable function that is lowered instead of `lower`
    lower_as: Rule | None = None
    # (args, params) -> outs: runs the operation without compiling a program
    evaluate: Rule | None = None
    # (args, params) -> (args, params): turns parameters that are Python functions into jaxprs before an equation is
    # written
    prepare: Rule | None = None
    # (args, params) -> (args, params): a call whose jaxprs are closed, as those of JAX's primitive, or else None
    from_jax: Rule | None = None
    # (args, params) -> outs: what the operation is as a function of arrays, where it is one on values of users' types,
    # or holds jaxprs on such values, see transforms/on_arrays.py
    on_arrays: Rule | None = None
    # How an operation on random keys acts on their words, see passes/physical.py: "moved" if it moves whole elements
    # and reads none; "all" or "any" if it is a comparison that holds for two keys when it holds for all or any of their
    # words; or a rule (each, words, avals, **params) -> [array]. An operation without it refuses keys, unless it is the
    # function `lower_as`.
    physical: Literal["moved", "all", "any"] | Rule | None = None

    # -- Results and parameters

    multiple_results: bool = False
    # The names of parameters, by default those that the typing rule takes. If that rule takes `**params`, as those of
    # users may, they are not checked, and this is None.
    params: Collection[str] | None = None
    optional: Collection[str] = ()  # of the parameters, those that an equation may do without
    any_params: bool = False  # parameters may be equal numbers of different types, such as 1, 1.0 and True

    # -- How it is computed

    # Whether `reference` gives the bits that XLA gives, so that small eager calls may use it; or for which types
    exact: bool | Callable[[Sequence[Any]], bool] = False
    # (avals, **params): whether the `reference` of an exact primitive beats XLA:CPU at any size
    faster_in_numpy: Callable[..., bool] | None = None
    # How XLA:CPU fuses it into those that read it: a "view" is its operand, in another shape; a "cheap" one is computed
    # again in each reader, also a "vectorized" one where several read it that are no slower for it, and an "expensive"
    # one once; a "reduction" has its operands computed inside it. Where it is None nothing is fused.
    fusion: Fusion = None
    commutative: bool = False  # two operands may be swapped
    # (operands, results, **params): the number of operations it takes, from types, see primitives/flops.py. None where
    # it computes nothing, or what the jaxprs that it holds do.
    flops: Callable[..., int] | None = None
    # (operands, results, **params): the bytes that it reads and writes, from types, see primitives/bytes_moved.py. None
    # where these are all of its operands and results.
    bytes_moved: Callable[..., int] | None = None
    # (avals, **params): the side effects, "ordered", "unordered", or those of users, see core/effects.py
    effects: Callable[..., Collection[Any]] | None = None
    calls_python: bool = False  # it calls a Python function when a program runs
    transposes_zeros: bool = False  # `transpose` may give cotangents that are not zero if those of the results are
    hazard: tuple[str, Rule] | None = None  # what can go wrong, for `checkify`, see primitives/gather/bounds_checks.py

    # (**params): its name among those of scopes, in the locations of the operations that it is lowered to, which is a
    # `Call` where it calls a function; None for `name`
    scope: Callable[..., str] | None = None

    # -- Jaxprs among its parameters, and refs

    # Whether `bind` takes a function, and calls or maps it, as libraries ask (distrax); JAX has the first alone.
    call_primitive: ClassVar[bool] = False
    map_primitive: ClassVar[bool] = False
    call: bool = False  # it holds a jaxpr, so nothing about it is cached by its parameters
    # (**params): the jaxprs that it holds and how they run, see core/regions.py
    regions: Callable[..., Any] | None = None
    # (eqn, used) -> eqn: removes the unused results of an equation, see passes/dce.py
    dce: Rule | None = None
    # (eqn, is_known) -> (known, unknown): halves an equation of which some operands are known, see
    # passes/partial_eval.py
    split: Rule | None = None
    # (state, thread, values, **params) -> (state, results): passes state through the jaxprs that it holds, of which
    # `thread(jaxpr)` is the version from (state, arguments) to (state, results)
    threaded: Rule | None = None
    takes_refs: bool = False  # of primitives that hold jaxprs all do

    # -- Several devices: see core/result_types.py and primitives/sharding_rules.py

    # (**params): the mesh of devices that it shards its operands over
    mesh: Callable[..., Any] | None = None
    # (operands, results, sizes, **params): the communications between devices, from types and the sizes of the named
    # axes around, see primitives/communication.py. None where each device does it for itself.
    collectives: Rule | None = None
    # (avals, outs, **params) -> [parts]: over which Explicit axes of a mesh results are partitioned, from the operands'
    # types, of which at least one is partitioned. Without it results are replicated.
    sharding: Rule | None = None
    # (avals, **params) -> str: why such operands are refused though `sharding` has an answer, "" where they are not.
    # Not called for operations in rules, whose sharding another operation decides.
    ambiguous: Callable[..., str] | None = None
    # (avals, **params) -> [part]: the mesh axes that partition the axes which it sums over. The sum over them may be
    # left undone, and the result is then unreduced.
    summed: Callable[..., Sequence[Any]] | None = None
    # ([axes], avals, **params) -> axes: those over which results are unreduced, from those of each operand. Without it
    # no operand may be unreduced.
    sums: Callable[..., frozenset[Any]] | None = None
    # ([axes], **params) -> [axes]: the manual axes over which each result varies, from those of each operand. None
    # where results vary over the axes of all operands.
    varying: Callable[..., Sequence[frozenset[Any]]] | None = None
    decides_sharding: bool = False  # the typing rule says how results are partitioned
    decides_memory: bool = False  # it says in which memory they are

    # -- Caches, by operand types and parameters

    typed: dict[Any, list[ShapedArray]] = field(init=False, default_factory=dict)  # the types of results
    plans: dict[Any, Any] = field(init=False, default_factory=dict)  # how to run it eagerly
    _original: Primitive | None = field(init=False, default=None)  # as it was before `def_impl`

    def __post_init__(self) -> None:
        names = params_of(self.abstract) if self.params is None else self.params
        self.params = None if names is None else frozenset(names)
        self.optional = frozenset(self.optional)
        for slot in SLOTS:
            rule = getattr(self, slot)
            if isinstance(rule, Unsupported):
                setattr(self, slot, rule.of(self.name, slot))

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return _by_name, (self.name,)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies the primitive, through whatever interpreter is current."""
        try:
            outs = context.trace.process(self, args, params)
        except ConvertibleArrayError:
            outs = context.trace.process(self, _converted(args), params)
        except (TypeError, AttributeError) as error:
            if (call := _call_of_jax(self, args, params)) is not None:
                outs = context.trace.process(self, *call)
            else:
                _refuse_other_than_arrays(self.name, args, error)
                raise
        return outs if self.multiple_results else outs[0]

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, frozenset[Any]]:
        """The types of the results, or the type of the only one, and the effects, by JAX's name.

        >>> import xpr
        >>> xpr.lax.sin_p.abstract_eval(xpr.typeof(1.0))
        (ShapedArray(float32[], weak_type=True), frozenset())
        """
        outs = self.type_of(avals, params)
        effects = no_effects if self.effects is None else frozenset(self.effects(avals, **params))
        return (outs if self.multiple_results else outs[0]), effects

    @property
    def impl(self) -> Rule:
        """The evaluation of eager calls before any `def_impl`: a function of arrays and parameters."""
        if self._original is None:
            original = self._original = object.__new__(Primitive)
            for slot in fields(Primitive):
                setattr(original, slot.name, getattr(self, slot.name))
        return self._original.bind

    def def_impl(self, rule: Rule) -> Rule:
        """Replaces the evaluation of eager calls, as to count or to show them; `def_impl(impl)` with the former `impl`
        undoes it. Programs that are compiled, such as those of jitted functions, are the same as before.

        >>> from xpr import lax
        >>> seen, impl = [], lax.sin_p.impl
        >>> _ = lax.sin_p.def_impl(lambda x, **params: seen.append(float(x)) or impl(x, **params))
        >>> _ = lax.sin(1.0), lax.sin_p.def_impl(impl), lax.sin(2.0)
        >>> seen
        [1.0]
        """
        unchanged = self.impl
        if rule == unchanged:
            self.evaluate = self._original.evaluate  # type: ignore[union-attr]  # `impl` has made it
            with_impl.discard(self)
            return rule

        def evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
            outs = rule(*args, **params)
            return list(outs) if self.multiple_results else [outs]

        self.evaluate = evaluate
        with_impl.add(self)
        return rule

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of an equation as `bind` takes them: as they are."""
        return params

    def key_of(self, params: dict[str, Any]) -> Iterable[Any]:
        """The parameters as part of a cache key for this primitive."""
        return key_of(params) if self.any_params else params.items()

    def known_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters without those that are None and that JAX's primitive has, but not this one."""
        names = params.keys() if self.params is None else self.params
        without = {name for name in _OF_JAX & (params.keys() - names) if params[name] is None}
        return {name: value for name, value in params.items() if name not in without} if without else params

    def check_params(self, params: dict[str, Any]) -> None:
        """Raises a TypeError for parameters that are missing, or that the primitive doesn't have."""
        passed = params.keys()
        if self.params is None or passed == self.params:
            return
        names, needed = set(self.params), set(self.params).difference(self.optional)
        if needed <= passed <= names:
            return
        unknown, missing = ", ".join(sorted(passed - names)), ", ".join(sorted(needed - passed))
        faults = [f"has no parameter {unknown}"] * bool(unknown) + [f"needs the parameter {missing}"] * bool(missing)
        known = ", ".join(sorted(names)) or "none"
        raise TypeError(f"`{self.name}` {' and '.join(faults)}. Its parameters are: {known}.")

    def is_exact(self, avals: Sequence[Any]) -> bool:
        """Whether `reference` gives the bits XLA gives for operands of these types."""
        exact = self.exact
        return exact(avals) if callable(exact) else exact

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
            pass  # an error that is raised below is then not chained to this one
        except TypeError:  # a parameter that can't be hashed
            self.check_params(params)
            return self.abstract(avals, **params)
        self.check_params(params)
        if any(a.is_high for a in avals) and not self.takes_refs:
            raise ConvertibleArrayError(_no_array(self.name, avals))
        if AbstractRef in map(type, avals) and not self.takes_refs:
            raise TypeError(f"{self.name}: {not_an_array(next(a for a in avals if type(a) is AbstractRef))}")
        if self.physical is None and self.lower_as is None and not self.takes_refs and any(map(is_key, avals)):
            (dtype, *_) = [a.dtype for a in avals if is_key(a)]
            raise TypeError(
                f"{self.name} does not accept dtype {dtype}: it takes no random keys, and its operands are "
                f"{types_of(avals)}. Keys can be moved, by indexing, where, concatenate and the like, and be "
                "compared by == and !=; random.key_data(keys) gives their words, as uint32."
            )
        if any(a.plain is not a for a in avals) and not self.takes_refs:
            outs, depends_on_context = result_types(self, avals, params)
            if depends_on_context:
                return outs
        else:
            outs = self.abstract(avals, **params)
        self.typed[key] = outs
        return outs


def _no_array(name: str, avals: Sequence[Any]) -> str:
    """The message for an operation on arrays that is given a value of a user's type."""
    return (
        f"{name} takes arrays, and its operands are {types_of(avals)}, of which some are values of users' types. Give "
        "it arrays that they consist of, or define an operation on such values: a HiPrimitive or VJPHiPrimitive."
    )


registered: dict[str, Primitive] = {}  # by name
with_impl: weakref.WeakSet[Primitive] = weakref.WeakSet()  # those whose evaluation `def_impl` has replaced


def register(primitive: Primitive) -> Primitive:
    """Makes a primitive known by name, for pickles and parsers."""
    registered[primitive.name] = primitive
    return primitive


vocabulary: list[Callable[[], Any]] = []  # functions that import more primitives, called when a name is not registered


def _by_name(name: str) -> Primitive:
    if name not in registered:
        for load in vocabulary:
            load()
    if name not in registered:
        raise LookupError(f"There is no primitive named {name!r} here: import the module that makes it first.")
    return registered[name]


def all_primitives() -> Sequence[Primitive]:
    """Every primitive of the library, in the order in which they were registered."""
    return list(registered.values())
