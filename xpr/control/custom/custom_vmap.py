"""custom_vmap: a function that comes with its own rule for being mapped; sequential_vmap.

Operands are `constants | arguments`, see rules.py. The rule of the operation,
`rule(size, batched, operands) -> (results, which of them are batched)`, takes and returns flat lists, in which the rows
of batched values are along axis 0.

The derivative of such a function, and the transpose of that, are such functions again: their rules are the derivative
and the transpose of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.control.activity import Flags, is_active
from xpr.control.custom import rules
from xpr.control.custom.rules import CustomFunction, FlatCall
from xpr.control.groups import consts_after, mask, merge, partition, split_list, unmask
from xpr.control.scan.function import scan
from xpr.control.split_results import split_results
from xpr.core.avals import ShapedArray, Zero, aval_of, is_differentiable, is_float0, same_types
from xpr.core.interpreter import current
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.core.source import describe_function
from xpr.primitives.elementwise import mul
from xpr.primitives.shapes import instantiate, mapped_to, move_mapped_axis, reduce_sum
from xpr.transforms.boundary import boundary
from xpr.transforms.jvp import push_forward, with_zeros
from xpr.transforms.linearize import LinearizeTrace, push_forward_linearly
from xpr.transforms.stage import stage
from xpr.transforms.transpose import backward_pass, transpose_jaxpr

__all__ = ["custom_vmap_call_p"]

Rule = Callable[[int, Sequence[bool], Sequence[Any]], tuple[Sequence[Any], Sequence[bool]]]


def _batch(
    size: int, values: Sequence[Any], dims: Sequence[int | None], *, call_jaxpr: Jaxpr, rule: Rule, name: str
) -> Any:
    """Runs the user's rule."""
    rows = list(map(move_mapped_axis, values, dims))
    outs, batched = rule(size, [d is not None for d in dims], rows)
    _check_rows(outs, batched, size, call_jaxpr.out_avals, name)
    return outs, [0 if b else None for b in batched]


def _batch_named(axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    if any(d is not None for d in dims):
        return _batch(size, values, dims, **params)
    outs = custom_vmap_call_p.bind(*values, **params)
    return outs, [None] * len(outs)


def _check_rows(
    outs: Sequence[Any], batched: Sequence[bool], size: int, avals: Sequence[ShapedArray], name: str
) -> None:
    expected_avals = [a.with_axis(0, size) if b else a for a, b in zip(avals, batched)]
    actual_avals = [aval_of(x) for x in outs]
    if not same_types(expected_avals, actual_avals):
        expected, actual = (", ".join(a.str_short() for a in types) for types in (expected_avals, actual_avals))
        raise TypeError(
            f"{name}: the rule of a custom_vmap function must give the function's results for all rows along axis 0, "
            f"or one row where it says that a result is not batched.\n  expected ({expected})\n  got ({actual})"
        )


# -- Derivatives


def _inexact(jaxpr: Jaxpr) -> tuple[bool, ...]:
    return tuple([is_differentiable(a) for a in jaxpr.out_avals])


def _bind(closed: Any, operands: Sequence[Any], rule: Rule, name: str) -> list[Any]:
    """Applies the operation to a jaxpr made by a transformation, whose constants are not passed to the rule."""
    n = len(closed.consts)
    return custom_vmap_call_p.bind(
        *closed.consts,
        *operands,
        call_jaxpr=constvars_to_invars(closed),
        rule=(lambda size, batched, rows: rule(size, split_list(batched, n)[1], split_list(rows, n)[1])) if n else rule,
        name=name,
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """The call itself, and a call from primals and tangents to tangents alone, with the derivative of the rule.

    They are two, so that results stay unmapped where only tangents are mapped.
    """
    outs = custom_vmap_call_p.bind(*primals, **params)
    return outs, _tangents(primals, tangents, push_forward, **params)


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """The same two calls, of which the second can be transposed."""
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        outs = custom_vmap_call_p.bind(*primals, **params)
    return outs, _tangents(primals, tangents, push_forward_linearly, **params)


def _tangents(
    primals: Sequence[Any], tangents: Sequence[Any], push: Callable[..., Any], *, call_jaxpr: Jaxpr, rule: Rule,
    name: str,
) -> list[Any]:  # fmt: skip
    """The tangents of the results, by a call; `push` differentiates the function and the rule."""
    active, inexact = is_active(tangents), _inexact(call_jaxpr)
    if not any(active):
        return with_zeros([], [False] * len(inexact), call_jaxpr.out_avals)
    moved = _bind(
        _tangent_jaxpr(call_jaxpr, active, push),
        [*primals, *mask(tangents, active)],
        _jvp_rule(rule, active, push),
        name,
    )
    return with_zeros(moved, inexact, call_jaxpr.out_avals)


def _tangent_jaxpr(jaxpr: Jaxpr, active: Flags, push: Callable[..., Any]) -> ClosedJaxpr:
    """From primals and active tangents to the tangents of inexact results; cached with the jaxpr."""
    key = ("custom_vmap tangents", active, push)
    if key not in jaxpr.memo:

        def run(*args: Any) -> list[Any]:
            primals, moved = split_list(args, len(active))
            tangents = with_zeros(moved, active, jaxpr.in_avals)
            _, out_tangents = push(lambda *xs: eval_jaxpr(jaxpr, (), *xs), primals, tangents)
            return list(map(instantiate, mask(out_tangents, _inexact(jaxpr))))

        tangent_avals = [a.to_tangent_aval() for a in mask(jaxpr.in_avals, active)]
        jaxpr.memo[key] = stage(run, [*jaxpr.in_avals, *tangent_avals])
    return jaxpr.memo[key]


def _jvp_rule(rule: Rule, active: Sequence[bool], push: Callable[..., Any]) -> Rule:
    """The rule of the function from primals and tangents to tangents: the derivative of the rule."""

    def jvp_rule(size: int, batched: Sequence[bool], rows: Sequence[Any]) -> Any:
        values, moved = split_list(rows, len(active))
        values_batched, moved_batched = split_list(batched, len(active))
        flags = [a or bool(b) for a, b in zip(values_batched, unmask(moved_batched, active))]
        primals = [_row_axis(x, a, flag, size) for x, a, flag in zip(values, values_batched, flags)]
        moved = [_row_axis(t, b, flag, size) for t, b, flag in zip(moved, moved_batched, mask(flags, active))]
        tangents = with_zeros(moved, active, [aval_of(x) for x in primals])
        outs_batched: list[bool] = []

        def run(*args: Any) -> Sequence[Any]:
            outs, outs_batched[:] = rule(size, flags, args)
            return outs

        _, out_tangents = push(run, primals, tangents)
        inexact = [not is_float0(aval_of(t)) for t in out_tangents]
        return list(map(instantiate, mask(out_tangents, inexact))), mask(outs_batched, inexact)

    return jvp_rule


def _row_axis(x: Any, is_batched: bool, needs_axis: bool, size: int) -> Any:
    return mapped_to(x, None, size) if needs_axis and not is_batched else x


def _transpose(cts: Sequence[Any], operands: Sequence[Any], *, call_jaxpr: Jaxpr, rule: Rule, name: str) -> list[Any]:
    """A call of the transposed function, with the transpose of the rule."""
    flags = tuple(map(is_linear, operands))
    has_ct = is_active(cts)
    closed, _ = transpose_jaxpr(call_jaxpr, flags, has_ct, (True,) * sum(flags))
    linear, known = partition(operands, flags)
    transposed_rule = _transposed_rule(rule, flags, has_ct, [x.aval for x in linear])
    return unmask(_bind(closed, [*known, *mask(cts, has_ct)], transposed_rule, name), flags)


def _transposed_rule(rule: Rule, flags: Sequence[bool], has_ct: Sequence[bool], avals: Sequence[ShapedArray]) -> Rule:
    """The rule of the transposed function: the transpose of the rule, on rows."""
    num_known = len(flags) - len(avals)

    def transposed_rule(size: int, batched: Sequence[bool], rows: Sequence[Any]) -> Any:
        known, ct_rows = split_list(rows, num_known)
        known_batched, cts_batched = split_list(batched, num_known)
        outs_batched: list[bool] = []

        def run(*linear: Any) -> Sequence[Any]:
            is_batched = merge([True] * len(linear), known_batched, flags)
            outs, outs_batched[:] = rule(size, is_batched, merge(linear, known, flags))
            return outs

        closed = stage(run, [a.with_axis(0, size) for a in avals])
        row_cts = zip(ct_rows, cts_batched, mask(outs_batched, has_ct))
        present = [_row_ct(ct, is_batched, is_row, size) for ct, is_batched, is_row in row_cts]
        cts = merge(present, [Zero(a) for a, has in zip(closed.out_avals, has_ct) if not has], has_ct)
        linear_cts = backward_pass(closed.jaxpr, closed.consts, cts, [True] * len(avals))
        return list(map(instantiate, linear_cts)), [True] * len(linear_cts)

    return transposed_rule


def _row_ct(ct: Any, is_batched: bool, out_batched: bool, size: int) -> Any:
    """The cotangent of one of the rule's results: of all rows, or of the one that stands for all of them."""
    if out_batched:
        return _row_axis(ct, is_batched, True, size)
    return reduce_sum(ct, (0,)) if is_batched else mul(ct, aval_of(ct).dtype.type(size))


custom_vmap_call_p = register(
    Primitive(
        "custom_vmap_call",
        abstract=rules.abstract,
        params=("call_jaxpr", "rule", "name"),
        reference=Unsupported("It is evaluated by evaluating its jaxpr."),
        lower=rules.lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=_batch,
        batch_named=_batch_named,
        linearize=_linearize,
        evaluate=rules.evaluate,
        split=split_results,
        threaded=rules.threaded(lambda: custom_vmap_call_p),
        multiple_results=True,
        regions=rules.regions,
        call=True,
    )
)


class custom_vmap(CustomFunction):
    """A function with a `vmap` rule defined by the user.

    Unmapped it is the function. Differentiation differentiates both the function and its rule, so the derivative
    follows the rule if it is mapped, in either order.

    Args:
      fun: takes and returns pytrees of arrays.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.custom_batching.custom_vmap
    ... def solve(a, b):
    ...     return b / a
    >>> @solve.def_vmap
    ... def solve_rows(axis_size, in_batched, a, b):
    ...     print(axis_size, in_batched)
    ...     return b / a, True
    >>> xpr.vmap(solve, in_axes=(None, 0))(2.0, jnp.arange(3.0))
    3 [False, True]
    Array([0. , 0.5, 1. ], dtype=float32)
    """

    __closes_over__ = ("fun", "rule")
    __fingerprint__ = ("fun", "rule")

    def __init__(self, fun: Callable[..., Any]):
        super().__init__(fun)
        self.rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
        """Sets the rule: `vmap_rule(axis_size, in_batched, *args) -> (result, which leaves of it are batched)`.

        `in_batched` is a list with an element for each argument, of the argument's structure, True where a leaf is
        batched: its rows are along its axis 0. The second result has the structure of the first.
        """
        self.rule = vmap_rule
        return vmap_rule

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rule = self.rule
        if rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {describe_function(self.fun)}. Give it one with "
                f"@{self.name}.def_vmap."
            )
        args = self.positional(args, kwargs)
        if rules.is_plain():
            return self.fun(*args)
        call, leaves = FlatCall.of(self, rule, args)
        return _staged_call(call, leaves, lambda _: _flat_rule(call), self.name)


def _staged_call(call: FlatCall, leaves: Sequence[Any], make_rule: Callable[[Jaxpr], Rule], name: str) -> Any:
    n = len(call.constants)
    closed = stage(call, [aval_of(x) for x in (*call.constants, *leaves)])
    jaxpr = consts_after(closed, n)
    operands = [*call.constants, *closed.consts, *leaves]
    return call.result(custom_vmap_call_p.bind(*operands, call_jaxpr=jaxpr, rule=make_rule(jaxpr), name=name))


def _flat_rule(call: FlatCall) -> Rule:
    """The user's rule for one call, on flat lists."""

    def rule(size: int, batched: Sequence[bool], rows: Sequence[Any]) -> Any:
        num_consts = len(rows) - call.in_tree.num_leaves  # the constants of the jaxpr follow
        (constants, leaves), (consts_batched, leaves_batched) = (split_list(xs, num_consts) for xs in (rows, batched))
        _, user_rule, _ = call.with_constants(split_list(constants, len(call.constants))[0])
        if any(consts_batched):
            types = ", ".join(aval_of(x).str_short() for x in mask(constants, consts_batched))
            raise TypeError(
                f"{call.name}: a custom_vmap function closes over a value that is mapped ({types}, all rows), and its "
                "rule speaks of its arguments alone. Pass the value as an argument."
            )
        args, flags = (tree.unflatten_sorted(call.in_tree, xs)[0] for xs in (leaves, leaves_batched))
        pair = user_rule(size, list(flags), *args)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"The vmap rule {describe_function(user_rule)} must return (result, which leaves of it are batched); "
                f"it returned {pair!r}."
            )
        what = f"The vmap rule {describe_function(user_rule)} must give a result of the function's structure"
        tree.check_same_structure(call.out_tree, tree.structure(pair[0]), what)
        what = f"The vmap rule {describe_function(user_rule)} must say of each leaf of its result whether it is batched"
        tree.check_same_structure(call.out_tree, tree.structure(pair[1]), what)
        return tree.leaves(pair[0]), [bool(b) for b in tree.leaves(pair[1])]

    return rule


def sequential_vmap(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that `vmap` runs on one row after another, in a loop, instead of on all rows at once.

    For functions that need much memory, or that can't be vectorized. It differentiates; what it closes over may be
    mapped, too.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.vmap(xpr.custom_batching.sequential_vmap(lambda x: x + 1))(jnp.arange(3.0))
    Array([1., 2., 3.], dtype=float32)
    """
    return _Sequential(f)


class _Sequential(CustomFunction):
    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = self.positional(args, kwargs)
        if rules.is_plain():
            return self.fun(*args)
        call, leaves = FlatCall.of(self, None, args)
        return _staged_call(call, leaves, lambda jaxpr: _row_by_row(jaxpr, self.name), self.name)


def _row_by_row(jaxpr: Jaxpr, name: str) -> Rule:
    """The rule that loops over rows; a row is a call of the same kind, so that more mapped axes are more loops."""

    def rule(size: int, batched: Sequence[bool], rows: Sequence[Any]) -> Any:
        def body(carry: None, mapped: list[Any]) -> tuple[None, list[Any]]:
            operands = merge(mapped, single, batched)
            return None, custom_vmap_call_p.bind(*operands, call_jaxpr=jaxpr, rule=rule, name=name)

        stacks, single = partition(rows, batched)
        _, outs = scan(body, None, stacks, length=size)
        return outs, [True] * len(outs)

    return rule
