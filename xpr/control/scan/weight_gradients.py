"""Sums of small products over the steps of a loop, as one large product.

    total = sum over t of a[t]' b[t]   is   A' B, of the stacks of all a and all b

The gradient of a weight has this form. A large product runs many times faster than the small ones, and the
loop no longer reads and writes the total in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var
from xpr.primitives.dot import dot_general_p
from xpr.primitives.shapes import transpose, transpose_p


class Product:
    """A term of a sum: a product of two factors, whose axes may be transposed."""

    __slots__ = ("eqns", "factors", "params", "permutation")

    def __init__(self, product: JaxprEqn, moved: JaxprEqn | None):
        self.eqns = [product] if moved is None else [product, moved]
        self.factors: list[Any] = list(product.invars)
        self.params = product.params
        self.permutation = None if moved is None else moved.params["permutation"]

    def total(self, left: Any, right: Any) -> Any:
        """The sum of the terms of all steps, from the stacks of the factors."""
        contracted, batched = self.params["dimension_numbers"]
        shifted = [[tuple(axis + 1 for axis in axes) for axes in pair] for pair in (contracted, batched)]
        numbers = (tuple((0, *axes) for axes in shifted[0]), tuple(shifted[1]))
        total = dot_general_p.bind(left, right, **{**self.params, "dimension_numbers": numbers})
        return total if self.permutation is None else transpose(total, self.permutation)


def find_products(jaxpr: Jaxpr, terms: Sequence[Any], rows: Sequence[Var], constant: Sequence[Var]) -> list[Any]:
    """For each of the `terms` its `Product`; None if it is not a product, or if stacks cost more.

    Args:
      jaxpr: the body.
      terms: results that are summed over the steps.
      rows: arguments whose stacks exist already.
      constant: arguments that are the same in every step.
    """
    if not any(eqn.primitive is dot_general_p for eqn in jaxpr.eqns):
        return [None] * len(terms)
    producers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    readers: dict[Any, int] = {}
    for v in [*(v for eqn in jaxpr.eqns for v in eqn.invars), *jaxpr.outvars]:
        if isinstance(v, Var):
            readers[v] = readers.get(v, 0) + 1
    free, fixed = set(rows), set(constant)

    def product_of(term: Any) -> Product | None:
        moved = None
        eqn = producers.get(term)
        if eqn is not None and eqn.primitive is transpose_p and readers[term] == 1:
            moved, term = eqn, eqn.invars[0]
            eqn = producers.get(term)
        if eqn is None or eqn.primitive is not dot_general_p or readers[term] != 1:
            return None
        if not all(isinstance(v, Var) and v not in fixed for v in eqn.invars):
            return None
        cost = sum(v.aval.size for v in set(eqn.invars) if v not in free)
        return Product(eqn, moved) if cost <= term.aval.size else None

    return [product_of(term) for term in terms]
