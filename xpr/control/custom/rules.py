"""The common part of functions with user-defined rules: custom_jvp, custom_vjp, custom_vmap, linear_call.

The call of such a function is an operation like any other. Evaluated, it runs the function as it is, so Python control
flow sees values; staged, it is an equation that holds the function's jaxpr and the rule; transformed, the rule runs.

`call_jaxpr` is the function of flat operands: a Python callable until it is staged, a `Jaxpr` from then on. Operands
are `constants | arguments`: the first `num_consts` are values that the function and its rule close over. Rules take the
two separately, and read only as many constants as there were when they were created: staging appends more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.lower import lower_eqns
from xpr.control.closures import Closures
from xpr.control.groups import consts_after, merge, split_list
from xpr.control.refs import RefOperands
from xpr.control.stop_gradient import stop_gradient
from xpr.control.xla_call import call_transpose
from xpr.core.avals import ShapedArray, Zero, aval_of, is_float0, same_types
from xpr.core.effects import custom_derivatives_allowed_effects
from xpr.core.interpreter import context
from xpr.core.jaxpr import Jaxpr, check_effects, eval_jaxpr, used_vars
from xpr.core.regions import Region, whole_call
from xpr.core.source import describe_function, function_name
from xpr.dtypes import float0
from xpr.errors import ClosureDerivativeError, RefError
from xpr.passes.discharge import uses_of_refs
from xpr.primitives.elementwise_rules import PYTHON_SCALARS
from xpr.primitives.shapes import instantiate, mapped_to
from xpr.transforms.batch import batch_flat, names_in
from xpr.transforms.flat import FlatFunction, as_array, named_like
from xpr.transforms.stage import stage

FlatFun = Callable[..., Sequence[Any]]

# -- Rules that are the same for all


def apply(call_jaxpr: Jaxpr | FlatFun, args: Sequence[Any]) -> list[Any]:
    """Runs the function under the current interpreter."""
    return eval_jaxpr(call_jaxpr, (), *args) if isinstance(call_jaxpr, Jaxpr) else list(call_jaxpr(*args))


def prepare(args: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """The same call with its function as a jaxpr, and the values that it closes over as further constants."""
    if isinstance(params["call_jaxpr"], Jaxpr):
        return args, params
    n = params["num_consts"]
    closed = stage(params["call_jaxpr"], [aval_of(x) for x in args])
    constants, arguments = split_list(args, n)
    operands: Sequence[Any] = [*constants, *closed.consts, *arguments]
    check_effects(params["name"], closed.jaxpr, custom_derivatives_allowed_effects)
    jaxpr, refs = consts_after(closed, n), uses_of_refs(closed.jaxpr)
    if refs.used:
        if any(refs.written):
            raise RefError(
                f"{params['name']}: a function with a custom rule writes to a Ref. Only the second half of a vjp rule "
                "may write to refs, which are arguments of the function."
            )
        on_values = RefOperands([jaxpr], operands)
        jaxpr, operands = on_values.jaxprs[0], on_values.operands
    return operands, {**params, "call_jaxpr": jaxpr, "num_consts": n + len(closed.consts)}


def abstract(avals: Sequence[ShapedArray], *, call_jaxpr: Jaxpr, **params: Any) -> list[ShapedArray]:
    """The types of the function's results."""
    return call_jaxpr.out_avals


def lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, call_jaxpr: Jaxpr, **params: Any
) -> list[Value]:
    """The function's equations, in place."""
    return lower_eqns(b, call_jaxpr, operands)


def evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Runs the function."""
    return apply(params["call_jaxpr"], args)


def transpose(cts: Sequence[Any], operands: Sequence[Any], *, call_jaxpr: Jaxpr, name: str, **params: Any) -> list[Any]:
    """Calls the transposed function, as derivative rules do not define a transpose."""
    return call_transpose(cts, operands, call_jaxpr=call_jaxpr, name=name)


def regions(*, call_jaxpr: Jaxpr, **params: Any) -> list[Region]:
    """The function itself, whose operation also has user-defined rules."""
    return whole_call(call_jaxpr, inlined="lowered", follows=False)


def threaded(primitive: Callable[[], Any]) -> Callable[..., Any]:
    """The rule that leaves the function and its rules unchanged, and computes the state by running a copy of it."""

    def rule(state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
        jaxpr = params["call_jaxpr"]
        outs = primitive().bind(*values, **{**params, "call_jaxpr": thread.without_checks(jaxpr)})
        stopped = [stop_gradient(x) for x in values]
        after, _ = split_list(eval_jaxpr(thread(jaxpr), (), *state, *stopped), len(state))
        return after, outs

    return rule


# -- Rows


def rows_first(fun: FlatFun, size: int, dims: Sequence[int | None], axis_name: Any = None) -> FlatFun:
    """A flat function mapped over `dims`, every result with its mapped axis in front."""

    def mapped(*args: Any) -> list[Any]:
        outs, out_dims = batch_flat(fun, size, args, dims, axis_name)
        return [mapped_to(x, d, size) for x, d in zip(outs, out_dims)]

    return mapped


def is_unmapped(axis_name: Any, dims: Sequence[int | None], values: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether a call is independent of a mapped axis: no operand is mapped, and no collective names it."""
    if any(d is not None for d in dims):
        return False
    _, prepared = prepare(values, params)
    return axis_name not in names_in(prepared["call_jaxpr"])


def row_zero(zero: Zero) -> Zero:
    """The symbolic zero of one row, from a symbolic zero whose axis 0 is mapped."""
    return Zero(zero.aval.without_axis(0))


# -- Tangents


def tangent_for_user(tangent: Any, symbolic_zeros: bool) -> Any:
    """A tangent or cotangent as a user's rule gets it: zeros as arrays, of NumPy where they are float0."""
    if type(tangent) is not Zero:
        return as_array(tangent)
    if symbolic_zeros:
        return tangent
    aval = tangent.aval
    return np.zeros(aval.shape, float0) if is_float0(aval) else instantiate(tangent)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of each array of a pytree.

    Args:
      val: a pytree of arrays.
      symbolic_zeros: whether to return `Zero`s instead of arrays of zeros.

    Returns:
      A pytree of tangents.

    >>> from xpr import custom_derivatives
    >>> custom_derivatives.zero_from_primal({"x": 1.0}, symbolic_zeros=True)
    {'x': Zero(f32[])}
    """
    return tree.map(lambda x: tangent_for_user(Zero.from_primal_value(x), symbolic_zeros), val)


def zeros_for(outs: Sequence[Any]) -> list[Zero]:
    """A symbolic zero as the tangent of each result."""
    return [Zero.from_primal_value(x) for x in outs]


def check_constants(
    call_jaxpr: Jaxpr | FlatFun, primals: Sequence[Any], tangents: Sequence[Any], n: int, name: str
) -> None:
    """Raises ClosureDerivativeError if a constant has a tangent and the function depends on it."""
    active = [i for i, t in enumerate(tangents) if i < n and type(t) is not Zero]
    if active and _depends_on(call_jaxpr, primals, active):
        types = ", ".join(aval_of(primals[i]).str_short() for i in active)
        raise ClosureDerivativeError(
            f"{name}: a function with a custom derivative rule closes over a value that is being differentiated "
            f"({types}), and its rule speaks of its arguments alone.\n"
            "Pass the value as an argument, and give the rule a part for it; xpr.closure_convert finds the values that "
            "a function closes over. To treat it as a constant, close over lax.stop_gradient of it."
        )


def _depends_on(call_jaxpr: Jaxpr | FlatFun, primals: Sequence[Any], positions: Sequence[int]) -> bool:
    if not isinstance(call_jaxpr, Jaxpr):
        try:
            call_jaxpr = stage(call_jaxpr, [aval_of(x) for x in primals]).jaxpr
        except TypeError:  # it depends on values, so it can't be known
            return True
    used = used_vars(call_jaxpr)
    return any(call_jaxpr.invars[i] in used for i in positions)


def check_outs(call_jaxpr: Jaxpr | FlatFun, outs: Sequence[Any], name: str, what: str) -> None:
    """Raises TypeError if the types of a rule's results aren't those of the function's, as far as those are known."""
    if not isinstance(call_jaxpr, Jaxpr):
        return
    expected_avals, actual_avals = call_jaxpr.out_avals, [aval_of(x) for x in outs]
    if not same_types(expected_avals, actual_avals):
        expected, actual = (
            ", ".join(a.str_short(short_dtypes=False) for a in avals) for avals in (expected_avals, actual_avals)
        )
        raise TypeError(f"{name}: got {what} type {actual} which doesn't match what the function gives: {expected}.")


# -- Calls

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class CustomFunction:
    """The base of custom_jvp, custom_vjp and custom_vmap: a function, and which of its arguments are not operands."""

    __closes_over__: tuple[str, ...] = ("fun",)
    __call__: Callable[..., Any]

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        if not callable(fun):
            raise TypeError(f"{type(self).__name__} takes a function, and got {fun!r}.")
        self.fun = fun
        numbers = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        if nondiff_argnames:
            numbers += _numbers_of(fun, nondiff_argnames, type(self).__name__)
        self.nondiff_argnums = numbers
        try:
            self.signature: inspect.Signature | None = inspect.signature(fun)
        except ValueError:  # some builtins have none
            self.signature = None
        kinds = [p.kind for p in self.signature.parameters.values()] if self.signature else []
        self.arity = len(kinds) if all(kind in _POSITIONAL for kind in kinds) else -1
        named_like(self, fun)

    def __getattr__(self, name: str) -> Any:
        """An attribute of the function, if that has another kind of rule: its `def_vmap`, say."""
        fun = self.__dict__.get("fun")
        if isinstance(fun, CustomFunction) and not name.startswith("_"):
            return getattr(fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else lambda *args, **kwargs: self(instance, *args, **kwargs)

    @property
    def name(self) -> str:
        return function_name(self.fun)

    def positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Positional arguments for a call, with keyword arguments and defaults at their positions.

        Raises:
          TypeError: the arguments don't fit, or one can be given by keyword alone.
        """
        if not kwargs and len(args) == self.arity:
            return args
        if self.signature is None:
            if kwargs:
                raise TypeError(f"{describe_function(self.fun)} has a custom rule, and takes no keyword arguments.")
            return args
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"The input arguments to the {type(self).__name__}-decorated function {describe_function(self.fun)} "
                f"don't fit its signature:\n{error}"
            ) from None
        bound.apply_defaults()  # before its kwargs are read: those after a parameter without an argument are among them
        if by_keyword := [name for name in bound.kwargs if name in kwargs]:
            raise TypeError(
                f"The input arguments to the {type(self).__name__}-decorated function {describe_function(self.fun)} "
                "don't fit its rule, which takes arguments by position.\nThe following keyword arguments could not be "
                f"resolved to positions: {', '.join(by_keyword)}. They can be passed by keyword only: make them "
                "positional, or let the function close over them."
            )
        return bound.args

    def static_positions(self, count: int) -> list[int]:
        """The positions of the arguments that are no operands, in order."""
        if any(not -count <= n < count for n in self.nondiff_argnums):
            raise ValueError(
                f"nondiff_argnums={self.nondiff_argnums} is out of range for {describe_function(self.fun)}, "
                f"called with {count} arguments."
            )
        return sorted({n % count for n in self.nondiff_argnums})


def _numbers_of(fun: Callable[..., Any], names: Sequence[str], decorator: str) -> tuple[int, ...]:
    known = list(inspect.signature(fun).parameters)
    listed = (names,) if isinstance(names, str) else tuple(names)
    missing = [name for name in listed if name not in known]
    if missing:
        raise ValueError(
            f"{decorator}: nondiff_argnames names {', '.join(map(repr, missing))}, and {describe_function(fun)} "
            f"takes ({', '.join(known)})."
        )
    return tuple(known.index(name) for name in listed)


class FlatCall:
    """One call of a function with a rule, as a function of the flat operands `constants | leaves`.

    `rules` are the user's functions that make up the rule. `with_constants(constants)` gives them, the function,
    and the static arguments (those that are no operands, by position), all closing over the given constants.
    """

    __slots__ = ("are_numbers", "closures", "in_tree", "out_tree", "count", "name")

    def __init__(
        self, name: str, closures: Closures, in_tree: tree.PyTreeDef, are_numbers: tuple[bool, ...], count: int
    ):
        self.name, self.closures, self.in_tree, self.are_numbers = name, closures, in_tree, are_numbers
        self.count = count
        self.out_tree: Any = None

    @classmethod
    def of(cls, custom: CustomFunction, rules: Any, args: tuple[Any, ...]) -> tuple[FlatCall, list[Any]]:
        """The call, and its leaves, which it doesn't keep: an equation may hold it for longer than tracers live."""
        static = {i: args[i] for i in custom.static_positions(len(args))}
        leaves, in_tree = tree.flatten(
            (tuple([x for i, x in enumerate(args) if i not in static]) if static else args, {})
        )
        are_numbers = tuple([type(x) in PYTHON_SCALARS for x in leaves])
        return cls(custom.name, Closures(custom.fun, rules, static), in_tree, are_numbers, len(args)), leaves

    @property
    def constants(self) -> list[Any]:
        return self.closures.tracers  # type: ignore[return-value]

    def with_constants(self, constants: Sequence[Any]) -> tuple[Any, ...]:
        return self.closures.rebuilt(constants)

    def arguments(self, static: dict[int, Any], leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments as the user's function takes them."""
        return self.with_static(static, tree.unflatten_sorted(self.in_tree, leaves)[0])

    def for_rule(self, leaves: Sequence[Any]) -> list[Any]:
        """Leaves as a rule gets them: numbers that the caller gave as they are, for sizes, others as arrays."""
        return [
            x if is_number and type(x) in PYTHON_SCALARS else as_array(x)
            for x, is_number in zip(leaves, self.are_numbers, strict=True)
        ]

    def __call__(self, *operands: Any) -> list[Any]:
        constants, leaves = split_list(operands, len(self.constants))
        fun, _, static = self.with_constants(constants)
        flat = FlatFunction(named_like(lambda *args: fun(*self.with_static(static, args)), fun), self.in_tree)
        outs = flat(*leaves)
        self.out_tree = flat.out_tree
        return outs

    def with_static(self, static: dict[int, Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments with the static ones at their positions."""
        return tuple(merge(static.values(), args, [i in static for i in range(self.count)])) if static else args

    def result(self, outs: Sequence[Any]) -> Any:
        return tree.unflatten(self.out_tree, outs)


def is_plain() -> bool:
    """Whether no transformation is active, so that a function with a rule is just the function."""
    return context.trace.parent is None
