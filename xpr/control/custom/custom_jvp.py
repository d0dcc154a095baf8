"""custom_jvp: a function that comes with its own jvp rule.

The rule of the operation, `jvp(constants, primals, tangents) -> (results, their tangents)`, takes and gives flat lists
in which zeros are symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xpr import tree
from xpr.control.custom import rules
from xpr.control.custom.rules import (
    CustomFunction,
    FlatCall,
    FlatFun,
    rows_first,
    tangent_for_user,
    zero_from_primal,
)
from xpr.control.split_results import split_results
from xpr.core.avals import Zero, aval_of
from xpr.core.jaxpr import Jaxpr
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.source import describe_function
from xpr.dtypes import float0
from xpr.primitives.elementwise import add_any
from xpr.text.parameters import register_parameter
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import as_array


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    call_jaxpr: Jaxpr | FlatFun,
    jvp: FlatFun,
    name: str,
    num_consts: int,
) -> Any:
    """Runs the rule that the function came with; where no argument has a tangent, the function."""
    rules.check_constants(call_jaxpr, primals, tangents, num_consts, name)
    if all(type(t) is Zero for t in tangents[num_consts:]):
        outs = custom_jvp_call_p.bind(*primals, call_jaxpr=call_jaxpr, jvp=jvp, name=name, num_consts=num_consts)
        return outs, rules.zeros_for(outs)
    outs, out_tangents = jvp(primals[:num_consts], primals[num_consts:], tangents[num_consts:])
    rules.check_outs(call_jaxpr, outs, name, "the jvp rule's first result")
    return outs, out_tangents


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return _batch_named(None, size, values, dims, **params)


def _batch_named(
    axis_name: Any,
    size: int,
    values: Sequence[Any],
    dims: Sequence[int | None],
    *,
    call_jaxpr: Jaxpr | FlatFun,
    jvp: FlatFun,
    name: str,
    num_consts: int,
) -> Any:
    """The same call of the function mapped over rows, with the rule mapped over rows."""
    params = {"call_jaxpr": call_jaxpr, "jvp": jvp, "name": name, "num_consts": num_consts}
    if rules.is_unmapped(axis_name, dims, values, params):
        outs = custom_jvp_call_p.bind(*values, **params)
        return outs, [None] * len(outs)

    def run(*args: Any) -> list[Any]:
        return rules.apply(call_jaxpr, args)

    outs = custom_jvp_call_p.bind(
        *values,
        call_jaxpr=rows_first(run, size, dims, axis_name),
        jvp=BatchedRule(jvp, num_consts, size, tuple(dims), axis_name),
        name=name,
        num_consts=num_consts,
    )
    return outs, [0] * len(outs)


@register_parameter
@dataclass(frozen=True)
class BatchedRule:
    """A jvp rule mapped over rows: over `dims` of the operands, of which the first `num_consts` are constants."""

    jvp: FlatFun
    num_consts: int
    size: int
    dims: tuple[int | None, ...]
    axis_name: Any

    def __call__(self, constants: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        n = self.num_consts
        is_active = [type(t) is not Zero for t in tangents]
        given = [t for t in tangents if type(t) is not Zero]
        given_dims = [d for d, active in zip(self.dims[n:], is_active) if active]
        zeros: list[Zero | None] = []

        def rule(*args: Any) -> list[Any]:
            rows, rest = args[n : n + len(primals)], iter(args[n + len(primals) :])
            row_tangents = [
                next(rest) if active else Zero(aval_of(x).to_tangent_aval()) for x, active in zip(rows, is_active)
            ]
            outs, out_tangents = self.jvp(args[:n], rows, row_tangents)
            zeros[:] = [t if type(t) is Zero else None for t in out_tangents]
            return [*outs, *(t for t in out_tangents if type(t) is not Zero)]

        mapped = rows_first(rule, self.size, [*self.dims, *given_dims], self.axis_name)
        results = mapped(*constants[:n], *primals, *given)
        outs, found = results[: len(zeros)], iter(results[len(zeros) :])
        return outs, [next(found) if z is None else Zero(aval_of(x).to_tangent_aval()) for z, x in zip(zeros, outs)]


custom_jvp_call_p = register(
    Primitive(
        "custom_jvp_call",
        abstract=rules.abstract,
        params=("call_jaxpr", "jvp", "name", "num_consts"),
        reference=Unsupported("It is evaluated by evaluating its jaxpr."),
        lower=rules.lower,
        jvp=_jvp,
        transpose=rules.transpose,
        batch=_batch,
        batch_named=_batch_named,
        evaluate=rules.evaluate,
        prepare=rules.prepare,
        split=split_results,
        threaded=rules.threaded(lambda: custom_jvp_call_p),
        multiple_results=True,
        regions=rules.regions,
        call=True,
    )
)


class custom_jvp(CustomFunction):
    """A function with a jvp rule of its own, which every transformation uses in place of its equations.

    Forward and reverse mode both follow from the rule, and so do higher derivatives, which differentiate it. The
    function and its rule may close over arrays and traced values, but not over values that are being differentiated.

    Args:
      fun: takes and gives pytrees of arrays.
      nondiff_argnums, nondiff_argnames: arguments that are no operands, by position and by name: functions, strings,
        sizes. The rule gets them as they are, in the order of their positions, before the primals.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.custom_jvp
    ... def log1pexp(x):
    ...     return jnp.log(1.0 + jnp.exp(x))
    >>> @log1pexp.defjvp
    ... def log1pexp_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1 - 1 / (1 + jnp.exp(x)))
    >>> xpr.grad(log1pexp)(100.0)
    Array(1., dtype=float32, weak_type=True)
    """

    __closes_over__ = ("fun", "rule")

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.rule: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule: `jvp(*nondiff, primals, tangents) -> (result, its tangent)`.

        With `symbolic_zeros` a tangent that is known to be zero comes as a `custom_derivatives.SymbolicZero`, which has
        a shape and a dtype and no entries, instead of an array of zeros. The rule may always give such for a tangent.
        """
        self.rule, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets a rule for each argument by itself: `(tangent, result, *args) -> tangent`, None for zero.

        >>> import xpr
        >>> @xpr.custom_jvp
        ... def power(x, n):
        ...     return x**n
        >>> power.defjvps(lambda t, out, x, n: n * x ** (n - 1) * t, None)
        >>> xpr.grad(power)(2.0, 3.0)
        Array(12., dtype=float32, weak_type=True)
        """
        if self.nondiff_argnums:
            raise TypeError("defjvps: use defjvp for a function with nondiff_argnums or nondiff_argnames.")

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            terms = []
            for rule, t in zip(jvps, tangents):
                if rule is not None and any(type(x) is not Zero for x in tree.leaves(t)):
                    terms.append(rule(tree.map(lambda x: tangent_for_user(x, False), t), out, *primals))
            return out, tree.map(_sum, *terms) if terms else zero_from_primal(out, True)

        self.defjvp(jvp, symbolic_zeros=True)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rule = self.rule
        if rule is None:
            raise AttributeError(
                f"{describe_function(self.fun)} has no rule yet. Give it one with @{self.fun.__name__}.defjvp."
            )
        args = self.positional(args, kwargs)
        if rules.is_plain():
            return self.fun(*args)
        call = FlatCall(self, rule, args)
        constants = call.constants
        outs = custom_jvp_call_p.bind(
            *constants,
            *call.leaves,
            call_jaxpr=call,
            jvp=_flat_rule(call, self.symbolic_zeros),
            name=self.name,
            num_consts=len(constants),
        )
        return call.result(outs)


def _sum(*terms: Any) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = add_any(total, term)
    return total


def _flat_rule(call: FlatCall, symbolic_zeros: bool) -> FlatFun:
    """The user's rule for one call, on flat lists."""

    def jvp(constants: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        _, rule, static = call.around(constants[: len(call.constants)])
        given = [tangent_for_user(t, symbolic_zeros) for t in tangents]
        values = map(as_array, primals)
        primal_tree, tangent_tree = (tree.unflatten_sorted(call.in_tree, xs)[0] for xs in (values, given))
        pair = rule(*static.values(), primal_tree, tangent_tree)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"The jvp rule {describe_function(rule)} must return (result, tangent); it returned {pair!r}."
            )
        outs, out_tree = tree.flatten(pair[0])
        out_tangents, tangent_structure = tree.flatten(pair[1])
        if tangent_structure != out_tree:
            what = f"The jvp rule {describe_function(rule)} must give a tangent of the result's structure"
            tree.check_same_structure(pair[0], pair[1], what)
        if call.out_tree is None:
            call.out_tree = out_tree
        elif out_tree != call.out_tree:
            what = f"The jvp rule {describe_function(rule)} must give a result of the function's structure"
            tree.check_same_structure(call.out_tree, out_tree, what)
        return outs, [_checked_tangent(x, t, rule) for x, t in zip(outs, out_tangents)]

    return jvp


def _checked_tangent(out: Any, tangent: Any, rule: Callable[..., Any]) -> Any:
    want = aval_of(out).to_tangent_aval()
    have = aval_of(tangent)
    if have.shape != want.shape or have.dtype != want.dtype:
        hint = " The tangents of integers have dtype float0." if want.dtype == float0 else ""
        raise TypeError(
            f"The jvp rule {describe_function(rule)} gave a result of type {aval_of(out).str_short()} a tangent of "
            f"type {have.str_short()}; it must be {want.str_short()}.{hint}"
        )
    return Zero(want) if type(tangent) is Zero or want.dtype == float0 else tangent
