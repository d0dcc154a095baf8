"""scan, transposed: a reversed loop, which carries the cotangents of the carry and sums the cotangents of constants.

The cotangent of a weight that multiplies the carry is a sum of one small product per step. If that product is larger
than its factors, the loop returns the factors instead, and one large product of the stacks replaces the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.activity import Flags, affected_inputs, is_active, least_fixed_point, trace_fixed_point
from xpr.control.groups import Groups, mask, merge, partition, split_list, unmask
from xpr.control.scan.layout import Bind, affected_operands, loop_groups
from xpr.control.scan.partial_eval import known_carry_fixed_point
from xpr.control.scan.residuals import SplitLoop
from xpr.control.scan.weight_gradients import Product, find_products
from xpr.core.avals import Zero, aval_of
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from xpr.core.primitive import Linear
from xpr.passes.in_place_sums import in_place_sums
from xpr.primitives.elementwise import add_any_p
from xpr.primitives.shapes import instantiate
from xpr.primitives.user_values import add_values_p
from xpr.transforms.transpose import transpose_jaxpr


class _Transposed:
    """The body of the transposed loop: `residuals | sums, cotangents of the carry | cotangents of ys, residuals`.

    `consts`, `carry` and `xs` say which linear operands of the original loop have a cotangent. For each constant that
    has one, `products` holds None if the loop sums it, else a product of stacks; `sources` says for each factor of
    those whether it is residual i ("x", i) or result i of the loop's ys ("y", i).
    """

    __slots__ = ("body", "carry", "constants", "consts", "products", "results", "sources", "xs")

    def __init__(
        self, closed: ClosedJaxpr, cotangents: Groups, flags: Sequence[bool], operands: Groups, with_products: bool
    ):
        """
        Args:
          closed: takes `operands`, and returns the nonzero cotangents of the linear consts, the carry and the xs.
          cotangents: the groups of all of these.
          flags: which of them are nonzero.
          operands: the groups const_residuals, row_residuals, cts_of_carry, cts_of_ys.
          with_products: sums of products may be products of stacks.
        """
        jaxpr = closed.jaxpr
        self.constants = closed.consts
        self.consts, self.carry, self.xs = cotangents.split(flags)
        constant, rows, ct_carry, ct_ys = operands.split(jaxpr.invars)
        terms, carry_out, ct_xs = cotangents.masked(flags).split(jaxpr.outvars)
        constant += jaxpr.constvars
        self.products = find_products(jaxpr, terms, rows, constant) if with_products else [None] * len(terms)
        summed = [t for t, product in zip(terms, self.products) if product is None]
        before, after = [Var(v.aval) for v in summed], [Var(v.aval) for v in summed]
        sums = [
            JaxprEqn([b, t], [a], add_values_p if a.aval.is_high else add_any_p, {})
            for b, t, a in zip(before, summed, after)
        ]
        replaced = {id(eqn) for product in self.products if product for eqn in product.eqns}
        eqns = [*(eqn for eqn in jaxpr.eqns if id(eqn) not in replaced), *sums]
        factors = [v for product in self.products if product for v in product.factors]
        ys = [*ct_xs, *dict.fromkeys(v for v in factors if v not in rows and v not in ct_xs)]
        self.sources = {v: ("y", i) for i, v in enumerate(ys) if v in factors}
        self.sources.update((v, ("x", i)) for i, v in enumerate(rows))
        body = Jaxpr([], [*constant, *before, *ct_carry, *ct_ys, *rows], [*after, *carry_out, *ys], eqns)
        self.body = in_place_sums(body)
        self.results = Groups(sums=len(summed), carry=len(carry_out), ys=len(ys))

    def split(self, outs: Sequence[Any], residuals: Sequence[Any]) -> list[Any]:
        """The cotangents of the linear operands that have one, from the loop's results and its stacks of residuals."""
        sums, carry, ys = self.results.split(outs)
        stacks = {"x": residuals, "y": ys}

        def total(product: Product) -> Any:
            left, right = (stacks[kind][i] for kind, i in map(self.sources.__getitem__, product.factors))
            return product.total(left, right)

        is_summed = [product is None for product in self.products]
        totals = map(total, filter(None, self.products))
        ct_xs, _ = split_list(ys, sum(self.xs))
        return [*merge(sums, totals, is_summed), *carry, *ct_xs]


def _transposed_body(params: dict[str, Any], is_linear: Flags, has_ct: Flags, with_products: bool) -> _Transposed:
    body, (operands, results) = params["jaxpr"], loop_groups(params)
    key = ("scan transpose", *operands.sizes, is_linear, has_ct, with_products)
    if key not in body.memo:
        start, ys = results.split(has_ct)
        cotangents = operands.masked(is_linear)
        consts, _, xs = cotangents.split([False] * sum(cotangents.sizes))

        def trace(carry: Flags, forced: Flags) -> Any:
            transposed = transpose_jaxpr(body, is_linear, (*carry, *ys), (*consts, *forced, *xs))
            return transposed, cotangents.part("carry", transposed[1])

        def reached(carry: Flags) -> list[bool]:
            return operands.part("carry", affected_inputs(body, (*carry, *ys), is_linear))

        (closed, flags), carry = trace_fixed_point(tuple(start), least_fixed_point(tuple(start), reached), trace)
        num_consts, _, num_xs = operands.masked([not linear for linear in is_linear]).sizes
        arguments = Groups(const_residuals=num_consts, row_residuals=num_xs, cts_of_carry=sum(carry), cts_of_ys=sum(ys))
        body.memo[key] = _Transposed(closed, cotangents, flags, arguments, with_products)
    return body.memo[key]


def loop_transpose(
    bind: Bind, with_products: bool, cts: Sequence[Any], operands: Sequence[Any], **params: Any
) -> list[Any]:
    """The `transpose` rule; `with_products`: every row is reached, so sums of products may be products of stacks."""
    groups, results = loop_groups(params)
    # A carry that starts with 0 is linear if it depends on a linear operand.
    is_linear = affected_operands(params, [type(x) is Linear for x in operands], False)
    consts_linear, carry_linear, _ = groups.split(is_linear)
    if not all(carry_linear):
        return _transpose_rest(bind, with_products, cts, operands, is_linear, params)
    transposed = _transposed_body(params, is_linear, is_active(cts), with_products)
    consts, _, xs = groups.split(operands)
    linear_consts, known_consts = partition(consts, consts_linear)
    known_xs = [x for x in xs if type(x) is not Linear]
    ct_carry, ct_ys = results.split(cts)
    terms = zip(mask(linear_consts, transposed.consts), transposed.products)
    outs = bind(
        transposed.body,
        [*known_consts, *transposed.constants],
        [*(instantiate(Zero(x.aval.dual)) for x, product in terms if product is None),
         *map(instantiate, mask(ct_carry, transposed.carry))],
        [*(ct for ct in ct_ys if type(ct) is not Zero), *known_xs],
        params,
        reverse=not params["reverse"],
    )  # fmt: skip
    has_ct = (*transposed.consts, *transposed.carry, *transposed.xs)
    return unmask(unmask(transposed.split(outs, known_xs), has_ct), is_linear)


def _transpose_rest(
    bind: Bind,
    with_products: bool,
    cts: Sequence[Any],
    operands: Sequence[Any],
    is_linear: Flags,
    params: dict[str, Any],
) -> list[Any]:
    """Runs the nonlinear part of the loop, such as a counter, and transposes the linear part."""
    body, (groups, results) = params["jaxpr"], loop_groups(params)
    key = ("scan known", *groups.sizes, is_linear)
    if key not in body.memo:
        known_consts, start, known_xs = groups.split([not flag for flag in is_linear])
        num_ys = len(results.positions("ys"))
        split, known_carry = known_carry_fixed_point(body, known_consts, tuple(start), known_xs, num_ys)
        is_known = (*known_consts, *known_carry, *known_xs)
        first_results = results.masked(split.out_known)
        loop = SplitLoop(
            ClosedJaxpr(split.known), split.residuals, split.unknown, groups.masked(is_known), first_results, False
        )
        body.memo[key] = loop, split.unknown_results, is_known
    loop, unknown_results, is_known = body.memo[key]
    known, others = partition(operands, is_known)
    consts, carry, xs = groups.masked(is_known).split(known)
    _, stacks = loop.run(bind, consts, carry, xs, params)
    constants, rows = loop.residuals(consts, carry, xs, stacks, params)
    linear = [Linear(aval_of(x)) for x in others]  # whatever they start with
    is_linear = tuple([not flag for flag in is_known])
    linear_consts, linear_carry, linear_xs = groups.masked(is_linear).split(linear)
    changes = {"jaxpr": loop.second, "num_consts": len(constants) + len(linear_consts), "num_carry": len(linear_carry)}
    operands = [*constants, *linear_consts, *linear_carry, *linear_xs, *rows]
    all_cts = loop_transpose(bind, with_products, unknown_results(cts), operands, **{**params, **changes})
    _, linear_cts, _ = split_list(all_cts, len(constants), len(linear))
    return unmask(linear_cts, is_linear)
