"""scan, transposed: a loop the other way round, which carries the cotangents of the carry and sums those of constants.

The cotangent of a weight that multiplies the carry is a sum of one small product a step. Where that product is larger
than its factors, the loop gives the factors instead, and one large product of the stacks takes the place of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.activity import Flags, picked, reached_inputs, reached_outputs, settle, spread
from xpr.control.scan.layout import Bind, Layout, is_active, layout_of
from xpr.control.scan.weight_gradients import Product, find_products
from xpr.core.avals import Zero
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from xpr.core.primitive import Linear
from xpr.passes.partial_eval import Partial, partial_eval_jaxpr
from xpr.primitives.elementwise import add_any_p
from xpr.primitives.shapes import instantiate
from xpr.transforms.transpose import transpose_jaxpr


class _Transposed:
    """The body of the transposed loop: `residuals | sums, cotangents of the carry | cotangents of ys, residuals`.

    `consts`, `carry` and `xs` say of the original's linear operands which have a cotangent. For each constant that has
    one, `products` holds None, where the loop sums it up, or the product of stacks it is; `sources` says of the factors
    of those whether they are among the residuals ("x", i) or among the ys of the loop ("y", i).
    """

    __slots__ = ("body", "carry", "constants", "consts", "products", "sources", "xs")

    def __init__(
        self,
        closed: ClosedJaxpr,
        reached: Sequence[bool],
        carry: Flags,
        n_consts: int,
        n_res: int,
        n_c: int,
        with_products: bool,
    ):
        jaxpr = closed.jaxpr
        self.constants = closed.consts
        self.consts, self.carry = list(reached[:n_consts]), carry
        self.xs = list(reached[n_consts + len(carry) :])
        n_terms, n_carry = sum(self.consts), sum(carry)
        residuals, cts = jaxpr.invars[:n_res], jaxpr.invars[n_res:]
        terms, rest = jaxpr.outvars[:n_terms], jaxpr.outvars[n_terms:]
        constant, rows = [*residuals[:n_c], *jaxpr.constvars], residuals[n_c:]
        self.products = find_products(jaxpr, terms, rows, constant) if with_products else [None] * n_terms
        summed = [t for t, product in zip(terms, self.products) if product is None]
        before, after = [Var(v.aval) for v in summed], [Var(v.aval) for v in summed]
        sums = [JaxprEqn([b, t], [a], add_any_p, {}) for b, t, a in zip(before, summed, after)]
        apart = {id(eqn) for product in self.products if product for eqn in product.eqns}
        eqns = [*(eqn for eqn in jaxpr.eqns if id(eqn) not in apart), *sums]
        invars = [*constant, *before, *cts[:n_carry], *cts[n_carry:], *rows]
        factors = [v for product in self.products if product for v in product.factors]
        ys = list(dict.fromkeys(v for v in factors if v not in rows and v not in rest[n_carry:]))
        self.sources = {v: ("y", i) for i, v in enumerate([*rest[n_carry:], *ys]) if v in factors}
        self.sources.update((v, ("x", i)) for i, v in enumerate(rows))
        self.body = Jaxpr([], invars, [*after, *rest, *ys], eqns)

    def split(self, outs: Sequence[Any], residuals: Sequence[Any]) -> list[Any]:
        """The cotangents of the linear operands that have one, from the loop's results and its stacks of residuals."""
        n_sums, n_carry = self.products.count(None), sum(self.carry)
        sums, rest = iter(outs[:n_sums]), outs[n_sums : n_sums + n_carry + sum(self.xs)]
        stacks = {"x": residuals, "y": outs[n_sums + n_carry :]}

        def total(product: Product) -> Any:
            left, right = (stacks[kind][i] for kind, i in map(self.sources.__getitem__, product.factors))
            return product.total(left, right)

        return [*(next(sums) if p is None else total(p) for p in self.products), *rest]


def _transposed_body(body: Jaxpr, layout: Layout, is_linear: Flags, has_ct: Flags, with_products: bool) -> _Transposed:
    key = ("scan transpose", layout.num_consts, layout.num_carry, is_linear, has_ct, with_products)
    if key not in body.memo:
        consts, _, xs = layout.operands(is_linear)
        start, ys = layout.results(has_ct)
        n_consts, n_xs = sum(consts), sum(xs)

        def trace(carry: Flags, forced: Flags) -> Any:
            everywhere = (False,) * n_consts + forced + (False,) * n_xs
            made = transpose_jaxpr(body, is_linear, (*carry, *ys), everywhere)
            return made, made[1][n_consts : n_consts + layout.num_carry]

        def reached(carry: Flags) -> list[bool]:
            return layout.operands(reached_inputs(body, (*carry, *ys), is_linear))[1]

        (closed, found), carry = settle(tuple(start), spread(tuple(start), reached), trace)
        n_residual_consts = len(consts) - n_consts
        n_residuals = n_residual_consts + len(xs) - n_xs
        body.memo[key] = _Transposed(closed, found, carry, n_consts, n_residuals, n_residual_consts, with_products)
    return body.memo[key]


def loop_transpose(
    bind: Bind, with_products: bool, cts: Sequence[Any], operands: Sequence[Any], **params: Any
) -> list[Any]:
    """`with_products`: all rows of all stacks are reached, so that sums of products may be products of stacks."""
    body, layout = params["jaxpr"], layout_of(params)
    is_linear = _linear_in_body(body, layout, [type(x) is Linear for x in operands])
    if not all(layout.operands(is_linear)[1]):
        return _transpose_rest(bind, with_products, cts, operands, is_linear, params)
    consts, _, xs = layout.operands(operands)
    made = _transposed_body(body, layout, is_linear, is_active(cts), with_products)
    ct_carry, ct_ys = layout.results(cts)

    def known(values: Sequence[Any]) -> list[Any]:
        return [x for x in values if type(x) is not Linear]

    linear_consts = picked([x for x in consts if type(x) is Linear], made.consts)
    sums = [instantiate(Zero(x.aval)) for x, product in zip(linear_consts, made.products) if product is None]
    start = [instantiate(ct) for ct in picked(ct_carry, made.carry)]
    given_ys = [ct for ct in ct_ys if type(ct) is not Zero]
    outs = bind(
        made.body,
        [*known(consts), *made.constants],
        [*sums, *start],
        [*given_ys, *known(xs)],
        params,
        reverse=not params["reverse"],
    )
    given = iter(made.split(outs, known(xs)))
    found = iter([next(given) if has else None for has in (*made.consts, *made.carry, *made.xs)])
    return [next(found) if linear else None for linear in is_linear]


def _linear_in_body(body: Jaxpr, layout: Layout, is_linear: Sequence[bool]) -> Flags:
    """Which arguments of the body are linear: also a carry that starts with zeros and has linear values added to it."""
    consts, start, xs = layout.operands(is_linear)

    def reached(carry: Flags) -> list[bool]:
        return reached_outputs(body, (*consts, *carry, *xs), False)[: layout.num_carry]

    return (*consts, *spread(tuple(start), reached), *xs)


def _transpose_rest(
    bind: Bind,
    with_products: bool,
    cts: Sequence[Any],
    operands: Sequence[Any],
    is_linear: Sequence[bool],
    params: dict[str, Any],
) -> list[Any]:
    """Runs the part of the loop that is not linear, such as a counter, and transposes what is left."""
    body, layout = params["jaxpr"], layout_of(params)
    known = tuple([not flag for flag in is_linear])
    key = ("scan known", known)
    if key not in body.memo:
        body.memo[key] = _Known(partial_eval_jaxpr(body, known, inside=False))
    split = body.memo[key]
    consts, carry, xs = (picked(*pair) for pair in zip(layout.operands(operands), layout.operands(known)))
    given = bind(split.known, consts, carry, xs, params)
    residuals = given[len(given) - split.num_residuals :]
    linear_parts = [picked(*pair) for pair in zip(layout.operands(operands), layout.operands(is_linear))]
    changes = {"jaxpr": split.linear, "num_consts": len(linear_parts[0]), "num_carry": len(linear_parts[1])}
    cts = [ct for ct, flag in zip(cts, split.out_known) if not flag]
    operands = [*(x for part in linear_parts for x in part), *residuals]
    found = iter(loop_transpose(bind, with_products, cts, operands, **{**params, **changes}))
    return [next(found) if flag else None for flag in is_linear]


class _Known:
    """A body split into what is known and what is linear; the latter takes a row of each residual last."""

    __slots__ = ("known", "linear", "num_residuals", "out_known")

    def __init__(self, split: Partial):
        self.known, self.num_residuals, self.out_known = split.known, split.num_residuals, split.out_known
        rows, own = split.unknown.invars[: split.num_residuals], split.unknown.invars[split.num_residuals :]
        self.linear = split.unknown.replace(invars=[*own, *rows])
