"""What functions with rules of their own share: custom_jvp, custom_vjp, custom_vmap, linear_call.

The call of such a function is an operation like any other. Evaluated, it runs the function as it is, so Python control
flow sees values; staged, it is an equation that holds the function's jaxpr and the rule; transformed, the rule runs.

`call_jaxpr` is the function of flat operands: a Python callable until it is staged, a `Jaxpr` from then on. Operands
are `constants | arguments`: the first `num_consts` are what the function and its rule close over. Rules take constants
and arguments apart, and look only at as many constants as there were when they were made: staging adds more behind.
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
from xpr.control.stop_gradient import stop_gradient
from xpr.control.tracing import same_types
from xpr.control.xla_call import call_transpose
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr, used_vars
from xpr.core.regions import Region, whole_call
from xpr.core.source import describe_function, function_name
from xpr.dtypes import float0
from xpr.errors import UnsupportedRule
from xpr.primitives.shapes import instantiate, mapped_to
from xpr.transforms.batch import batch_flat, names_in
from xpr.transforms.flat import FlatFunction, as_array, named_like
from xpr.transforms.stage import stage

FlatFun = Callable[..., Sequence[Any]]

# -- Rules that are the same for all


def apply(call_jaxpr: Jaxpr | FlatFun, args: Sequence[Any]) -> list[Any]:
    """Runs the function, through whatever interpreter is current."""
    return eval_jaxpr(call_jaxpr, (), *args) if isinstance(call_jaxpr, Jaxpr) else list(call_jaxpr(*args))


def prepare(args: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """The same call with its function as a jaxpr, what that closes over as further constants."""
    if isinstance(params["call_jaxpr"], Jaxpr):
        return args, params
    n = params["num_consts"]
    closed = stage(params["call_jaxpr"], [aval_of(x) for x in args])
    operands = [*args[:n], *closed.consts, *args[n:]]
    return operands, {**params, "call_jaxpr": consts_behind(closed, n), "num_consts": n + len(closed.consts)}


def consts_behind(closed: ClosedJaxpr, n: int) -> Jaxpr:
    """The same program with its constants as arguments, behind the first `n`."""
    if not closed.consts:
        return closed.jaxpr
    jaxpr = closed.jaxpr
    return jaxpr.replace(constvars=[], invars=[*jaxpr.invars[:n], *jaxpr.constvars, *jaxpr.invars[n:]])


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
    """Calls the transposed function: a rule for derivatives says nothing of it."""
    return call_transpose(cts, operands, call_jaxpr=call_jaxpr, name=name)


def regions(*, call_jaxpr: Jaxpr, **params: Any) -> list[Region]:
    """The function itself, beside which the operation has rules of the user's."""
    return whole_call(call_jaxpr, inlined="lowered", follows=False)


def threaded(primitive: Callable[[], Any]) -> Callable[..., Any]:
    """The rule that leaves the function and its rules alone, and finds the state by running a copy beside it."""

    def rule(state: Sequence[Any], thread: Any, values: Sequence[Any], **params: Any) -> Any:
        jaxpr = params["call_jaxpr"]
        outs = primitive().bind(*values, **{**params, "call_jaxpr": thread.without(jaxpr)})
        stopped = [stop_gradient(x) for x in values]
        return eval_jaxpr(thread(jaxpr), (), *state, *stopped)[: len(state)], outs

    return rule


# -- Rows


def rows_first(fun: FlatFun, size: int, dims: Sequence[int | None], axis_name: Any = None) -> FlatFun:
    """A flat function mapped over `dims`, every result with its mapped axis in front."""

    def mapped(*args: Any) -> list[Any]:
        outs, out_dims = batch_flat(fun, size, args, dims, axis_name)
        return [mapped_to(x, d, size) for x, d in zip(outs, out_dims)]

    return mapped


def is_unmapped(axis_name: Any, dims: Sequence[int | None], values: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether a call has nothing to do with a mapped axis: no operand is mapped, and no collective names it."""
    if any(d is not None for d in dims):
        return False
    _, prepared = prepare(values, params)
    return axis_name not in names_in(prepared["call_jaxpr"])


def row_zero(zero: Zero) -> Zero:
    """The symbolic zero of one row, of one whose axis 0 is mapped."""
    return Zero(zero.aval.update(shape=zero.aval.shape[1:]))


# -- Tangents


def tangent_for_user(tangent: Any, symbolic_zeros: bool) -> Any:
    """A tangent or cotangent as a user's rule gets it: zeros as arrays, of NumPy where they are float0."""
    if type(tangent) is not Zero:
        return as_array(tangent)
    if symbolic_zeros:
        return tangent
    aval = tangent.aval
    return np.zeros(aval.shape, float0) if aval.dtype == float0 else instantiate(tangent)


def zero_from_primal(primal: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of each array of a pytree: symbolic, or an array of zeros.

    >>> from xpr import custom_derivatives
    >>> custom_derivatives.zero_from_primal({"x": 1.0}, symbolic_zeros=True)
    {'x': Zero(f32[])}
    """
    return tree.map(lambda x: tangent_for_user(Zero(aval_of(x).to_tangent_aval()), symbolic_zeros), primal)


def zeros_for(outs: Sequence[Any]) -> list[Zero]:
    """A symbolic zero as the tangent of each result."""
    return [Zero(aval_of(x).to_tangent_aval()) for x in outs]


def check_constants(
    call_jaxpr: Jaxpr | FlatFun, primals: Sequence[Any], tangents: Sequence[Any], n: int, name: str
) -> None:
    """Raises UnsupportedRule where a constant has a tangent and the function depends on it."""
    active = [i for i, t in enumerate(tangents[:n]) if type(t) is not Zero]
    if active and _depends_on(call_jaxpr, primals, active):
        types = ", ".join(aval_of(primals[i]).str_short() for i in active)
        raise UnsupportedRule(
            f"{name}: a function with a custom derivative rule closes over a value that is being differentiated "
            f"({types}), and its rule speaks of its arguments alone.\n"
            "Pass the value as an argument, and give the rule a part for it; xpr.closure_convert finds the values that "
            "a function closes over. To treat it as a constant, close over lax.stop_gradient of it."
        )


def _depends_on(call_jaxpr: Jaxpr | FlatFun, primals: Sequence[Any], positions: Sequence[int]) -> bool:
    if not isinstance(call_jaxpr, Jaxpr):
        try:
            call_jaxpr = stage(call_jaxpr, [aval_of(x) for x in primals]).jaxpr
        except TypeError:  # it looks at values, so it can't be known
            return True
    used = used_vars(call_jaxpr)
    return any(call_jaxpr.invars[i] in used for i in positions)


def check_outs(call_jaxpr: Jaxpr | FlatFun, outs: Sequence[Any], name: str, what: str) -> None:
    """Raises TypeError where a rule's results aren't of the types of the function's, as far as those are known."""
    if not isinstance(call_jaxpr, Jaxpr):
        return
    wanted, found = call_jaxpr.out_avals, [aval_of(x) for x in outs]
    if not same_types(wanted, found):
        want, have = (", ".join(a.str_short() for a in avals) for avals in (wanted, found))
        raise TypeError(f"{name}: {what} must give what the function gives, ({want}), and gave ({have}).")


# -- Calls

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class CustomFunction:
    """What custom_jvp, custom_vjp and custom_vmap share: a function, and which of its arguments its rule gets as is."""

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
        """What a function with another kind of rule has, where this is a rule for it: its `def_vmap`, say."""
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
        """Positional arguments for a call, keyword arguments and defaults put in their places.

        Raises:
          TypeError: the arguments don't fit, or one can be given by keyword alone.
        """
        if not kwargs and len(args) == self.arity:
            return args
        if self.signature is None:
            if kwargs:
                raise TypeError(f"{describe_function(self.fun)} has a custom rule, and takes no keyword arguments.")
            return args
        bound = self.signature.bind(*args, **kwargs)
        if bound.kwargs:
            raise TypeError(
                f"{describe_function(self.fun)} has a custom rule, and can't be called with keyword-only arguments "
                f"({', '.join(bound.kwargs)}): the rule has no place for them. Make them positional."
            )
        bound.apply_defaults()
        return bound.args

    def static_positions(self, count: int) -> list[int]:
        """The positions of the arguments that are no operands, in order."""
        if any(not -count <= n < count for n in self.nondiff_argnums):
            raise ValueError(
                f"nondiff_argnums={self.nondiff_argnums} is out of range for {describe_function(self.fun)}, "
                f"called with {count} arguments."
            )
        return sorted({n % count for n in self.nondiff_argnums})


def _numbers_of(fun: Callable[..., Any], names: Sequence[str], who: str) -> tuple[int, ...]:
    known = list(inspect.signature(fun).parameters)
    given = (names,) if isinstance(names, str) else tuple(names)
    missing = [name for name in given if name not in known]
    if missing:
        raise ValueError(
            f"{who}: nondiff_argnames names {', '.join(map(repr, missing))}, and {describe_function(fun)} "
            f"takes ({', '.join(known)})."
        )
    return tuple(known.index(name) for name in given)


class FlatCall:
    """One call of a function with a rule, as a function of the flat operands `constants | leaves`.

    `rules` are the user's functions that make up the rule. `around(constants)` gives them, the function, and the static
    arguments (those that are no operands, by position), all closing over the given constants.
    """

    __slots__ = ("closures", "leaves", "in_tree", "out_tree", "count", "name")

    def __init__(self, custom: CustomFunction, rules: Any, args: tuple[Any, ...]):
        static = {i: args[i] for i in custom.static_positions(len(args))}
        self.count, self.name = len(args), custom.name
        self.closures = Closures(custom.fun, rules, static)
        self.leaves, self.in_tree = tree.flatten(
            (tuple([x for i, x in enumerate(args) if i not in static]) if static else args, {})
        )
        self.out_tree: Any = None

    @property
    def constants(self) -> list[Any]:
        return self.closures.tracers  # type: ignore[return-value]

    def around(self, constants: Sequence[Any]) -> tuple[Any, ...]:
        return self.closures.around(constants)

    def arguments(self, static: dict[int, Any], leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments as the user's function takes them."""
        return self.with_static(static, tree.unflatten_sorted(self.in_tree, leaves)[0])

    def __call__(self, *operands: Any) -> list[Any]:
        n = len(self.constants)
        fun, _, static = self.around(operands[:n])
        flat = FlatFunction(named_like(lambda *given: fun(*self.with_static(static, given)), fun), self.in_tree)
        outs = flat(*operands[n:])
        self.out_tree = flat.out_tree
        return outs

    def with_static(self, static: dict[int, Any], given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments with the static ones in their places."""
        if not static:
            return given
        rest = iter(given)
        return tuple([static[i] if i in static else next(rest) for i in range(self.count)])

    def result(self, outs: Sequence[Any]) -> Any:
        return tree.unflatten(self.out_tree, outs)


def is_plain() -> bool:
    """Whether nothing is being transformed, so that a function with a rule is just the function."""
    return context.trace.parent is None
