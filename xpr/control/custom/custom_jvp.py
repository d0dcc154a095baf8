"""custom_jvp: a function that comes with its own jvp rule.

The rule of the operation, `jvp(constants, primals, tangents) -> (results, tangents)`, takes and returns flat lists in
which zeros are symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xpr import tree
from xpr.control.activity import is_active
from xpr.control.custom import rules
from xpr.control.custom.rules import (
    CustomFunction,
    FlatCall,
    FlatFun,
    rows_first,
    tangent_for_user,
    zero_from_primal,
)
from xpr.control.groups import mask, split_list
from xpr.control.split_results import split_results
from xpr.core.avals import Zero, aval_of, is_float0, same_type
from xpr.core.jaxpr import Jaxpr
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.source import describe_function
from xpr.primitives.elementwise import add_tangents
from xpr.text.parameters import register_parameter
from xpr.transforms.boundary import boundary
from xpr.transforms.jvp import with_zeros

__all__ = ["custom_jvp"]


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    call_jaxpr: Jaxpr | FlatFun,
    jvp: FlatFun,
    name: str,
    num_consts: int,
) -> Any:
    """Runs the user's rule; if no argument has a tangent, the function."""
    rules.check_constants(call_jaxpr, primals, tangents, num_consts, name)
    constants, arguments = split_list(primals, num_consts)
    _, moved = split_list(tangents, num_consts)
    if all(type(t) is Zero for t in moved):
        outs = custom_jvp_call_p.bind(*primals, call_jaxpr=call_jaxpr, jvp=jvp, name=name, num_consts=num_consts)
        return outs, rules.zeros_for(outs)
    outs, out_tangents = jvp(constants, arguments, moved)
    rules.check_outs(call_jaxpr, outs, name, "jvp output")
    return outs, out_tangents


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
    """The call of the function mapped over rows, with its rule mapped over rows."""
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
        constants, _ = split_list(constants, self.num_consts)
        _, argument_dims = split_list(self.dims, self.num_consts)
        active = is_active(tangents)
        present: list[bool] = []

        def rule(*args: Any) -> list[Any]:
            rule_constants, rows, moved = split_list(args, self.num_consts, len(primals))
            row_tangents = with_zeros(moved, active, [aval_of(x) for x in rows])
            outs, out_tangents = self.jvp(rule_constants, rows, row_tangents)
            present[:] = is_active(out_tangents)
            return [*outs, *mask(out_tangents, present)]

        dims = [*self.dims, *mask(argument_dims, active)]
        mapped = rows_first(rule, self.size, dims, self.axis_name)
        results = mapped(*constants, *primals, *mask(tangents, active))
        outs, moved = split_list(results, len(present))
        return outs, with_zeros(moved, present, [aval_of(x) for x in outs])


custom_jvp_call_p = register(
    Primitive(
        "custom_jvp_call",
        abstract=rules.abstract,
        params=("call_jaxpr", "jvp", "name", "num_consts"),
        reference=Unsupported("It is evaluated by evaluating its jaxpr."),
        lower=rules.lower,
        jvp=_jvp,
        transpose=rules.transpose,
        batch=partial(_batch_named, None),
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
    """A function with a jvp rule defined by the user, which is used instead of differentiating its operations.

    Forward and reverse mode both follow from the rule, and so do higher derivatives, which differentiate it. The
    function and its rule may close over arrays and traced values, but not over values that are being differentiated.

    Args:
      fun: takes and returns pytrees of arrays.
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
    __fingerprint__ = ("fun", "rule", "symbolic_zeros", "nondiff_argnums")

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.rule: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule: `jvp(*nondiff, primals, tangents) -> (result, its tangent)`.

        With `symbolic_zeros` a tangent that is known to be zero comes as a `custom_derivatives.SymbolicZero`, which has
        a shape and a dtype and no elements, instead of an array of zeros. The rule may always return one as a tangent.
        """
        self.rule, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets a separate rule for each argument: `(tangent, result, *args) -> tangent`, None for zero.

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
                f"No JVP defined for custom_jvp function {self.name} using defjvp. Give {describe_function(self.fun)} "
                f"one with @{self.name}.defjvp."
            )
        args = self.positional(args, kwargs)
        if rules.is_plain():
            return self.fun(*args)
        call, leaves = FlatCall.of(self, rule, args)
        constants = call.constants
        outs = custom_jvp_call_p.bind(
            *constants,
            *leaves,
            call_jaxpr=call,
            jvp=_flat_rule(call, self.symbolic_zeros),
            name=self.name,
            num_consts=len(constants),
        )
        return call.result(outs)


def _sum(*terms: Any) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = add_tangents(total, term)
    return total


def _flat_rule(call: FlatCall, symbolic_zeros: bool) -> FlatFun:
    """The user's rule for one call, on flat lists."""

    def jvp(constants: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        _, rule, static = call.with_constants(split_list(constants, len(call.constants))[0])
        user_tangents = [tangent_for_user(t, symbolic_zeros) for t in tangents]
        values = call.for_rule(primals)
        primal_tree, tangent_tree = (tree.unflatten_sorted(call.in_tree, xs)[0] for xs in (values, user_tangents))
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
    expected = aval_of(out).to_tangent_aval()
    have = aval_of(tangent)
    of_users = have.is_high or expected.is_high
    if not same_type(expected, have) if of_users else (have.shape, have.dtype) != (expected.shape, expected.dtype):
        hint = " The tangents of integers have dtype float0." if is_float0(expected) else ""
        raise TypeError(
            f"The jvp rule {describe_function(rule)} gave a result of type {aval_of(out).str_short()} a tangent of "
            f"type {have.str_short()}; it must be {expected.str_short()}.{hint}"
        )
    return Zero(expected) if type(tangent) is Zero or is_float0(expected) else tangent
