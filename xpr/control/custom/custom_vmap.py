"""custom_vmap: a function that comes with its own rule for being mapped; sequential_vmap.

Operands are `constants | arguments`, see rules.py. The rule of the operation,
`rule(size, batched, operands) -> (results, which of them are batched)`, takes and gives flat lists, in which the rows
of what is batched lie along axis 0.

The derivative of such a function, and the transpose of that, are such functions again: their rules are the derivative
and the transpose of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes, tree
from xpr.control.custom import rules
from xpr.control.custom.rules import CustomFunction, FlatCall, consts_behind
from xpr.control.scan.function import scan
from xpr.control.split_results import split_results
from xpr.control.tracing import same_types
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import Jaxpr, constvars_to_invars
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.core.source import describe_function
from xpr.primitives.elementwise import mul
from xpr.primitives.shapes import instantiate, mapped_to, move_axis, reduce_sum
from xpr.transforms.boundary import boundary
from xpr.transforms.jvp import jvp_jaxpr, push_forward
from xpr.transforms.stage import stage
from xpr.transforms.transpose import backward_pass, transpose_jaxpr

Rule = Callable[[int, Sequence[bool], Sequence[Any]], tuple[Sequence[Any], Sequence[bool]]]


def _batch(
    size: int, values: Sequence[Any], dims: Sequence[int | None], *, call_jaxpr: Jaxpr, rule: Rule, name: str
) -> Any:
    """Runs the rule that the function came with."""
    rows = [x if d is None else move_axis(x, d, 0) for x, d in zip(values, dims)]
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
    wanted = [a.update(shape=(size, *a.shape)) if b else a for a, b in zip(avals, batched)]
    found = [aval_of(x) for x in outs]
    if not same_types(wanted, found):
        want, have = (", ".join(a.str_short() for a in types) for types in (wanted, found))
        raise TypeError(
            f"{name}: the rule of a custom_vmap function must give the function's results for all rows along axis 0, "
            f"or one row where it says that a result is not batched.\n  expected ({want})\n  got ({have})"
        )


# -- Derivatives


def _inexact(jaxpr: Jaxpr) -> tuple[bool, ...]:
    return tuple([a.dtype in dtypes.INEXACT for a in jaxpr.out_avals])


def _bind(closed: Any, operands: Sequence[Any], rule: Rule, name: str) -> list[Any]:
    """Applies the operation to a jaxpr made by a transformation, whose constants the rule knows nothing of."""
    n = len(closed.consts)
    return custom_vmap_call_p.bind(
        *closed.consts,
        *operands,
        call_jaxpr=constvars_to_invars(closed),
        rule=(lambda size, batched, rows: rule(size, batched[n:], rows[n:])) if n else rule,
        name=name,
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: Jaxpr, rule: Rule, name: str) -> Any:
    """The call itself, and one that gives tangents alone from primals and tangents, with the derivative of the rule.

    They are two, so that results stay unmapped where only tangents are mapped.
    """
    outs = custom_vmap_call_p.bind(*primals, call_jaxpr=call_jaxpr, rule=rule, name=name)
    active = tuple([type(t) is not Zero for t in tangents])
    if not any(active):
        return outs, rules.zeros_for(outs)
    closed, _ = jvp_jaxpr(call_jaxpr, active, _inexact(call_jaxpr))
    closed = closed.replace(jaxpr=closed.jaxpr.replace(outvars=closed.jaxpr.outvars[len(outs) :]))
    operands = [*primals, *(t for t in tangents if type(t) is not Zero)]
    return outs, _tangents(_bind(closed, operands, _pushed_rule(rule, active), name), call_jaxpr)


def _tangents(given: Sequence[Any], call_jaxpr: Jaxpr) -> list[Any]:
    found = iter(given)
    return [
        next(found) if has else Zero(a.to_tangent_aval()) for has, a in zip(_inexact(call_jaxpr), call_jaxpr.out_avals)
    ]


def _pushed_rule(rule: Rule, active: Sequence[bool]) -> Rule:
    """The rule of the function that gives tangents from primals and tangents: the derivative of the rule."""
    n = len(active)

    def pushed(size: int, batched: Sequence[bool], rows: Sequence[Any]) -> Any:
        given = iter(zip(rows[n:], batched[n:]))
        primals, tangents, flags = [], [], []
        for x, is_batched, is_active in zip(rows[:n], batched, active):
            tangent, tangent_batched = next(given) if is_active else (None, is_batched)
            flags.append(is_batched or tangent_batched)
            primals.append(_row_axis(x, is_batched, flags[-1], size))
            zero = Zero(aval_of(primals[-1]).to_tangent_aval())
            tangents.append(_row_axis(tangent, tangent_batched, flags[-1], size) if is_active else zero)
        outs_batched: list[bool] = []

        def run(*args: Any) -> Sequence[Any]:
            outs, outs_batched[:] = rule(size, flags, args)
            return outs

        _, found = push_forward(run, primals, tangents)
        kept = [(instantiate(t), b) for t, b in zip(found, outs_batched) if aval_of(t).dtype != dtypes.float0]
        return [t for t, _ in kept], [b for _, b in kept]

    return pushed


def _row_axis(x: Any, is_batched: bool, wanted: bool, size: int) -> Any:
    return mapped_to(x, None, size) if wanted and not is_batched else x


def _transpose(cts: Sequence[Any], operands: Sequence[Any], *, call_jaxpr: Jaxpr, rule: Rule, name: str) -> list[Any]:
    """The same of the transposed function, with the transpose of the rule."""
    flags = tuple(map(is_linear, operands))
    has_ct = tuple([type(ct) is not Zero for ct in cts])
    closed, _ = transpose_jaxpr(call_jaxpr, flags, has_ct, (True,) * sum(flags))
    known = [x for x, flag in zip(operands, flags) if not flag]
    given = [ct for ct in cts if type(ct) is not Zero]
    avals = [x.aval for x in operands if is_linear(x)]
    found = iter(_bind(closed, [*known, *given], _pulled_rule(rule, flags, has_ct, avals), name))
    return [next(found) if flag else None for flag in flags]


def _pulled_rule(rule: Rule, flags: Sequence[bool], has_ct: Sequence[bool], avals: Sequence[ShapedArray]) -> Rule:
    """The rule of the transposed function: the transpose of the rule, on rows."""
    num_known = len(flags) - len(avals)

    def pulled(size: int, batched: Sequence[bool], rows: Sequence[Any]) -> Any:
        known, known_batched = rows[:num_known], batched[:num_known]
        outs_batched: list[bool] = []

        def run(*linear: Any) -> Sequence[Any]:
            values, is_batched = iter(known), iter(known_batched)
            tangents = iter(linear)
            merged = [next(tangents) if flag else next(values) for flag in flags]
            outs, outs_batched[:] = rule(size, [flag or next(is_batched) for flag in flags], merged)
            return outs

        closed = stage(run, [a.update(shape=(size, *a.shape)) for a in avals])
        given = iter(zip(rows[num_known:], batched[num_known:]))
        cts = [
            _row_ct(*next(given), is_row, size) if has else Zero(a)
            for has, is_row, a in zip(has_ct, outs_batched, closed.out_avals)
        ]
        found = backward_pass(closed.jaxpr, closed.consts, cts, [True] * len(avals))
        return [instantiate(ct) for ct in found], [True] * len(found)

    return pulled


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
        evaluate=rules.evaluate,
        split=split_results,
        threaded=rules.threaded(lambda: custom_vmap_call_p),
        multiple_results=True,
        regions=rules.regions,
        call=True,
    )
)


class custom_vmap(CustomFunction):
    """A function with a rule of its own for `vmap`.

    Where it isn't mapped it is the function. Differentiated, the function and its rule are both differentiated, so the
    derivative follows the rule where it is mapped, in either order.

    Args:
      fun: takes and gives pytrees of arrays.

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

    def __init__(self, fun: Callable[..., Any]):
        super().__init__(fun)
        self.rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
        """Sets the rule: `vmap_rule(axis_size, in_batched, *args) -> (result, which leaves of it are batched)`.

        `in_batched` is a list with an entry for each argument, of the argument's structure, True where a leaf is
        batched: there the rows lie along its axis 0. The second result has the structure of the first.
        """
        self.rule = vmap_rule
        return vmap_rule

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rule = self.rule
        if rule is None:
            raise AttributeError(
                f"{describe_function(self.fun)} has no rule yet. Give it one with @{self.fun.__name__}.def_vmap."
            )
        args = self.positional(args, kwargs)
        if rules.is_plain():
            return self.fun(*args)
        call = FlatCall(self, rule, args)
        return _staged_call(call, lambda _: _flat_rule(call), self.name)


def _staged_call(call: FlatCall, make_rule: Callable[[Jaxpr], Rule], name: str) -> Any:
    n = len(call.constants)
    closed = stage(call, [aval_of(x) for x in (*call.constants, *call.leaves)])
    jaxpr = consts_behind(closed, n)
    operands = [*call.constants, *closed.consts, *call.leaves]
    return call.result(custom_vmap_call_p.bind(*operands, call_jaxpr=jaxpr, rule=make_rule(jaxpr), name=name))


def _flat_rule(call: FlatCall) -> Rule:
    """The user's rule for one call, on flat lists."""
    num_args = len(call.leaves)

    def rule(size: int, batched: Sequence[bool], rows: Sequence[Any]) -> Any:
        first = len(rows) - num_args
        _, user_rule, _ = call.around(rows[: len(call.constants)])
        if any(batched[:first]):
            types = ", ".join(aval_of(x).str_short() for x, b in zip(rows, batched[:first]) if b)
            raise TypeError(
                f"{call.name}: a custom_vmap function closes over a value that is mapped ({types}, all rows), and its "
                "rule speaks of its arguments alone. Pass the value as an argument."
            )
        args, flags = (tree.unflatten_sorted(call.in_tree, xs[first:])[0] for xs in (rows, list(batched)))
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
    """A function that `vmap` runs row after row, in a loop, instead of on all rows at once.

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
        return _staged_call(FlatCall(self, None, args), lambda jaxpr: _row_by_row(jaxpr, self.name), self.name)


def _row_by_row(jaxpr: Jaxpr, name: str) -> Rule:
    """The rule that loops over rows; a row is a call of the same kind, so that more mapped axes are more loops."""

    def rule(size: int, batched: Sequence[bool], rows: Sequence[Any]) -> Any:
        def body(carry: None, mapped: list[Any]) -> tuple[None, list[Any]]:
            found = iter(mapped)
            operands = [next(found) if b else x for x, b in zip(rows, batched)]
            return None, custom_vmap_call_p.bind(*operands, call_jaxpr=jaxpr, rule=rule, name=name)

        _, outs = scan(body, None, [x for x, b in zip(rows, batched) if b], length=size)
        return outs, [True] * len(outs)

    return rule
