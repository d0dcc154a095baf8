"""Primitives: the operations that jaxprs consist of, each with all its rules.

A primitive is a record with a fixed set of slots. Each of the first six holds a rule or `Unsupported("why")`; there are
no tables of rules elsewhere. Rules take and return lists; only `bind` looks at `multiple_results`.

    abstract(avals, **params)                 -> [ShapedArray]      the typing rule; raises TypeError with both types
    reference(values, **params)               -> [np.ndarray]       the meaning, in NumPy
    lower(builder, operands, avals, **params) -> [Value]            StableHLO; `avals` are the results' types
    jvp(primals, tangents, **params)          -> (outs, tangents)   a tangent may be a Zero, in and out
    transpose(cotangents, operands, **params) -> [cotangent]        `Linear` marks the operands to transpose to;
                                                                    None or Zero for "nothing to add"
    batch(size, values, dims, **params)       -> (outs, dims)       a dim is None where a value isn't mapped

Some have more. `linearize(trace, primals, tangents, params)` splits primal from tangent work, see
transforms/linearize.py. `batch_named(axis_name, size, values, dims, **params)` is a collective's batch rule over the
axis it names. `evaluate(args, params)` runs the operation without compiling a program, and
`prepare(args, params) -> (args, params)` turns parameters that are Python functions into jaxprs before an equation is
written. `lower_as(*args, **params)` is a traceable function that is lowered instead of `lower`.
`faster_in_numpy(avals, **params)` says of an exact primitive that its `reference` beats XLA:CPU at any size.
`dce(eqn, used) -> eqn` removes the unused results of an equation, see passes/dce.py.
`hazard` is what can go wrong, for `checkify`, see gather/bounds_checks.py.
`threaded(state, thread, values, **params) -> (state, results)` passes state through the jaxprs that it holds, of which
`thread(jaxpr)` is the version from (state, arguments) to (state, results).
`split(eqn, is_known) -> (known, unknown)` halves an equation of which some operands are known, see
passes/partial_eval.py. `commutative` says that two operands may be swapped.
`flops(operands, results, **params)` is the number of operations it takes, from types; see primitives/flops.py.
`collectives(operands, results, sizes, **params)` are the communications between devices, from types and the sizes of
the named axes around; see primitives/communication.py.
`effect(**params)` is the side effect of an operation, "ordered" or "unordered", or None. `calls_python` says that it
calls a Python function when a program runs.
`mesh(**params)` is the mesh of devices that an operation shards its operands over.
`fusion` is how XLA:CPU fuses an operation into those that read it: a "view" is its operand, in another shape; a "cheap"
one is computed again in each reader, also a "vectorized" one where several read it that are no slower for it, and an
"expensive" one once; a "reduction" has its operands computed inside it. Where it is None nothing is fused.
`regions(**params)` lists the jaxprs that an operation holds and how they run, see core/regions.py.
`physical` says how an operation on random keys acts on their words, see passes/physical.py: "moved" if it moves whole
elements and reads none; "all" or "any" if it is a comparison that holds for two keys when it holds for all or any of
their words; or a rule `physical(each, words, avals, **params) -> [array]`. An operation without it refuses keys.

`sharding(avals, outs, **params) -> [parts]` says over which Explicit axes of a mesh results are partitioned, from the
operands' types, of which at least one is partitioned; see primitives/sharding_rules.py. Without it results are
replicated. `summed(avals, **params) -> [part]` are the mesh axes that partition the axes which an operation sums over:
the sum over them may be left undone, and the result is then unreduced. `sums([axes], avals, **params) -> axes` are the
axes over which results are unreduced, from those of each operand; without it no operand may be unreduced.

`varying(every, **params)` are the manual axes over which each result varies, from those of each operand.

`params` are the names of the parameters, by default those that the typing rule takes. If that rule takes `**params`, as
those of users may, they are not checked.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from xpr.core.avals import ConvertibleArrayError, ShapedArray, array_in, is_key, types_of
from xpr.core.explicit import ExplicitSharding, explicit_sharding
from xpr.core.interpreter import Trace, Tracer, context
from xpr.core.memory import MemorySpace
from xpr.core.refs import AbstractRef, not_an_array
from xpr.core.specs import PartitionSpec, axes_of
from xpr.errors import ShardingTypeError, UnsupportedRule


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

    def __init__(self, why: str, error: type[UnsupportedRule] = UnsupportedRule):
        self.why, self.error = why, error
        self.name = self.slot = ""

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
FUSED = frozenset({"cheap", "vectorized", "expensive"})  # what XLA computes inside its readers
SLOTS = ("abstract", "reference", "lower", "jvp", "transpose", "batch")
Rule = Callable[..., Any]


def params_of(rule: Any) -> tuple[str, ...] | None:
    """The parameters that a rule names; None where it takes any."""
    code = getattr(rule, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    return tuple(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])


def _converted(args: Sequence[Any]) -> list[Any]:
    """The operands, with those that have a method `__jax_array__` converted by it.

    It is called while a `ConvertibleArrayError` is handled, and raises that again where an operand holds a tracer of an
    interpreter that is not current: one whose rule is running. Converted here, the tracer would become a constant; the
    `bind` that called the interpreter converts it.
    """
    converted = list(map(array_in, args))
    below: Any = context.trace
    traces = set()
    while below is not None:
        traces.add(id(below))
        below = below.parent
    if any(isinstance(x, Tracer) and x._trace.alive and id(x._trace) not in traces for x in converted):
        raise
    return converted


class Primitive:
    """One operation of the language."""

    __slots__ = (
        "name", "multiple_results", *SLOTS, "linearize", "batch_named", "evaluate", "prepare", "lower_as", "exact",
        "call", "faster_in_numpy", "effect", "dce", "split", "hazard", "threaded", "any_params", "commutative", "flops",
        "mesh", "regions", "fusion", "physical", "sharding", "varying", "sums", "summed", "decides_sharding",
        "decides_memory", "calls_python", "collectives", "params", "optional", "takes_refs", "typed", "plans",
        "_original", "__weakref__",
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
        exact: bool | Callable[[Sequence[Any]], bool] = False,
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
        physical: Literal["moved", "all", "any"] | Rule | None = None,
        sharding: Rule | None = None,
        sums: Callable[..., frozenset[Any]] | None = None,
        summed: Callable[..., Sequence[Any]] | None = None,
        varying: Callable[..., Sequence[frozenset[Any]]] | None = None,
        decides_sharding: bool = False,
        decides_memory: bool = False,
        calls_python: bool = False,
        collectives: Rule | None = None,
        params: Iterable[str] | None = None,
        optional: Iterable[str] = (),
        takes_refs: bool = False,
    ):
        self.name = name
        self.multiple_results = multiple_results
        self.abstract, self.reference, self.lower = abstract, reference, lower
        self.jvp, self.transpose, self.batch = jvp, transpose, batch
        self.linearize = linearize
        self.batch_named, self.evaluate, self.prepare, self.lower_as = batch_named, evaluate, prepare, lower_as
        self.exact = exact  # `reference` gives the bits XLA gives (for which types), so small eager calls may use it
        self.faster_in_numpy = faster_in_numpy  # so large eager calls may use it, too
        self.effect, self.dce, self.split, self.hazard, self.threaded = effect, dce, split, hazard, threaded
        self.commutative, self.mesh = commutative, mesh
        self.regions, self.fusion, self.physical, self.sharding = regions, fusion, physical, sharding
        self.varying = varying  # None where results vary over the axes of all operands
        self.sums, self.summed = sums, summed
        self.decides_sharding = decides_sharding  # whether the typing rule says how results are partitioned
        self.decides_memory = decides_memory  # whether it says in which memory they are
        self.calls_python = calls_python
        self.collectives = collectives  # None where it is done by each device for itself
        self.flops = flops  # None where it computes nothing, or what the jaxprs that it holds do
        self.call = call  # holds a jaxpr, so nothing about it is cached by its parameters
        names = params_of(abstract) if params is None else params
        self.params = None if names is None else frozenset(names)
        self.optional = frozenset(optional)  # of the parameters, those that an equation may do without
        self.takes_refs = takes_refs  # of primitives that hold jaxprs all do
        self.any_params = any_params  # parameters may be equal numbers of different types, such as 1, 1.0 and True
        self.typed: dict[Any, list[ShapedArray]] = {}  # the types of results, by operand types and parameters
        self.plans: dict[Any, Any] = {}  # how to run it eagerly, by operand types and parameters
        self._original: Primitive | None = None  # as it was before `def_impl`
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
        except ConvertibleArrayError:
            outs = context.trace.process(self, _converted(args), params)
        return outs if self.multiple_results else outs[0]

    @property
    def impl(self) -> Rule:
        """The evaluation of eager calls before any `def_impl`: a function of arrays and parameters."""
        if self._original is None:
            original = self._original = object.__new__(Primitive)
            for name in Primitive.__slots__:
                if name != "__weakref__":
                    setattr(original, name, getattr(self, name))
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

    def check_params(self, params: dict[str, Any]) -> None:
        """Raises TypeError where parameters are missing, or are none of the primitive's."""
        names, passed = self.params, params.keys()
        if names is None or passed == names or names - self.optional <= passed <= names:
            return
        unknown, missing = ", ".join(sorted(passed - names)), ", ".join(sorted(names - self.optional - passed))
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
        if AbstractRef in map(type, avals) and not self.takes_refs:
            raise TypeError(f"{self.name}: {not_an_array(next(a for a in avals if type(a) is AbstractRef))}")
        if self.physical is None and any(map(is_key, avals)):
            (dtype, *_) = [a.dtype for a in avals if is_key(a)]
            raise TypeError(
                f"{self.name} does not accept dtype {dtype}: it takes no random keys, and its operands are "
                f"{types_of(avals)}. Keys can be moved, by indexing, where, concatenate and the like, and be "
                "compared by == and !=; random.key_data(keys) gives their words, as uint32."
            )
        if any(a.plain is not a for a in avals) and not self.takes_refs:
            outs, is_ambiguous = explicit_types(self, avals, params)
            outs = memory_types(self, avals, varying_types(self, avals, outs, params))
            if is_ambiguous:
                return outs
        else:
            outs = self.abstract(avals, **params)
        self.typed[key] = outs
        return outs


def explicit_types(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> tuple[list[ShapedArray], bool]:
    """The types of results where operands are partitioned over Explicit axes, and whether they depend on the context.

    Raises:
      SumOverShards: the context asks for sums over shards to be left undone, and the parameters don't say so yet.
      ShardingTypeError: the result is ambiguous or can't be partitioned so, and no other operation decides it.
    """
    outs = primitive.abstract(tuple([a.plain for a in avals]), **params)
    named = [a.explicit for a in avals if a.explicit is not None]
    if not named:
        return outs, False
    mesh = named[0].mesh
    undecided = [out.with_explicit(ExplicitSharding(mesh, None)) if out.ndim else out for out in outs]
    try:
        if any(e.mesh != mesh for e in named):
            meshes = ", ".join(map(repr, dict.fromkeys(e.mesh for e in named)))
            raise ShardingTypeError(f"operands are partitioned over several meshes: {meshes}. Put them on one.")
        if any(e.is_undecided for e in named):
            if primitive.decides_sharding:
                return outs, False
            raise ShardingTypeError("the sharding of an operand is undecided.")
        if primitive.decides_sharding:
            return outs, False
        over_shards = _summed_axes(primitive, avals, params)
        if asked := tuple([name for name in over_shards if name in context.unreduced]):
            raise SumOverShards({**params, "unreduced": asked})
        unreduced, reduced = _sums(primitive, avals, params)
        if primitive.sharding is None:
            return outs, False
        parts = primitive.sharding(avals, outs, **params)
        return [_partitioned(out, mesh, each, unreduced, reduced) for out, each in zip(outs, parts)], bool(over_shards)
    except ShardingTypeError as error:
        if context.decides_later:
            return undecided, True
        raise ShardingTypeError(f"{primitive.name} of {types_of(avals)}: {error}") from None


class SumOverShards(Exception):
    """An operation sums over shards, and the sums are to be left undone; with the parameters `params` they are."""

    def __init__(self, params: dict[str, Any]):
        self.params = params


def _summed_axes(primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]) -> list[Any]:
    """The axes of the mesh whose shards an operation sums over; none if its parameters name unreduced axes already."""
    if primitive.summed is None or "unreduced" in params:
        return []
    return [name for part in primitive.summed(avals, **params) for name in axes_of(part)]


def with_unreduced(primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an operation that leaves those sums over shards undone which the context asks it to."""
    asked = tuple([name for name in _summed_axes(primitive, avals, params) if name in context.unreduced])
    return {**params, "unreduced": asked} if asked else params


def varying_types(
    primitive: Primitive, avals: Sequence[ShapedArray], outs: list[ShapedArray], params: dict[str, Any]
) -> list[ShapedArray]:
    """The types of results with the manual axes over which they vary: those over which any operand does."""
    every = [a.varying for a in avals]
    union: frozenset[Any] = frozenset().union(*every)
    if primitive.varying is None:
        outs = [out.with_varying(union) for out in outs] if union else outs
    else:
        outs = [out.with_varying(axes) for out, axes in zip(outs, primitive.varying(every, **params))]
    return _with_manual_sums(primitive, avals, outs, params) if any(a.sums is not None for a in avals) else outs


def _with_manual_sums(
    primitive: Primitive, avals: Sequence[ShapedArray], outs: list[ShapedArray], params: dict[str, Any]
) -> list[ShapedArray]:
    """The types of results with the manual axes over which they are unreduced and reduced.

    Raises:
      NotImplementedError: an operand is unreduced, and the operation is not linear.
    """
    sums = [a.sums or (frozenset(), frozenset()) for a in avals]
    every = [unreduced for unreduced, _ in sums]
    unreduced: frozenset[Any] = frozenset().union(*every)
    reduced: frozenset[Any] = frozenset().union(*[axes for _, axes in sums])
    if primitive.batch_named is not None:  # a collective does the sum over the axes that it names
        names = params.get("axes", params.get("axis_name", ()))
        unreduced -= frozenset(names if isinstance(names, tuple) else (names,))
    elif unreduced and primitive.varying is None:
        if primitive.sums is not None:
            unreduced = primitive.sums(every, avals, **params)
        elif context.decides_later:
            unreduced = frozenset()
        else:
            raise NotImplementedError(
                f"{primitive.name} of {types_of(avals)}: an operand is unreduced over {min(map(str, unreduced))!r}, "
                f"and the unreduced rule for {primitive.name} is not implemented. Have the sum done first: lax.psum."
            )
    typed = []
    for out in outs:
        own = out.sums or (frozenset(), frozenset())  # of `pcast`
        typed.append(out.with_sums(unreduced & out.varying | own[0], reduced - out.varying | own[1]))
    return typed


def memory_types(primitive: Primitive, avals: Sequence[ShapedArray], outs: list[ShapedArray]) -> list[ShapedArray]:
    """The types of results with their memory space: that of the operands that have axes.

    Raises:
      ValueError: operands are in different memories.
    """
    arrays = [a for a in avals if a.ndim]
    spaces = {a.memory_space for a in arrays}
    if primitive.decides_memory or not spaces - {MemorySpace.Device}:
        return outs
    if len(spaces) > 1:
        raise ValueError(
            f"{primitive.name} of {types_of(avals)}: memory_space of all inputs, unless they are scalars, must be the "
            "same. Move one first: xpr.device_put(x, xpr.memory.Space.Device)."
        )
    return [out.in_memory(arrays[0].memory_space) for out in outs]


def _sums(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> tuple[frozenset[Any], frozenset[Any]]:
    """The Explicit axes over which results are unreduced, and those over which they are reduced unless partitioned.

    The former are those of operands, and of the parameter `unreduced` of operations that sum over shards.
    """
    every = [a.explicit.unreduced if a.explicit is not None else frozenset() for a in avals]
    reduced: frozenset[Any] = frozenset().union(*[a.explicit.reduced for a in avals if a.explicit is not None])
    asked = frozenset(params.get("unreduced", ()))
    if not any(every):
        return asked, reduced - asked
    if primitive.sums is None:
        raise ShardingTypeError(
            f"an operand is unreduced, and the unreduced rule for {primitive.name} is not implemented. Have the sum "
            "done first: xpr.sharding.reshard(x, P(...))."
        )
    unreduced = primitive.sums(every, avals, **params) | asked
    return unreduced, reduced - unreduced


def _partitioned(
    out: ShapedArray, mesh: Any, parts: Sequence[Any], unreduced: frozenset[Any], reduced: frozenset[Any]
) -> ShapedArray:
    names = [name for part in parts for name in axes_of(part)]
    if both := unreduced.intersection(names):
        raise ShardingTypeError(
            f"the result would be unreduced and partitioned over {min(map(str, both))!r}. Have the sum done first: "
            "xpr.sharding.reshard(x, P(...))."
        )
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        aval = out.with_explicit(ExplicitSharding(mesh, tuple(parts)))
        raise ShardingTypeError(
            f"the result {aval.str_short()} is partitioned over {twice!r} along two axes. Reshard an operand first: "
            "xpr.sharding.reshard(x, P(...)); or say out_sharding=P(...), where the function takes it."
        )
    spec = PartitionSpec(*parts, unreduced=unreduced, reduced=reduced.difference(names))
    explicit = explicit_sharding(mesh, spec, out.ndim)
    if explicit is not None:
        explicit.check(out.shape)
    return out.with_explicit(explicit)


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
