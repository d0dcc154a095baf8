"""scan, split by which of its operands are known: one loop over what is known, then one over the rest.

What depends on known constants alone is computed once, before both. What the second loop needs of the first one's steps
is stacked by the first, unless it is an operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.activity import Flags, picked
from xpr.control.scan.layout import Layout, layout_of
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from xpr.passes.partial_eval import Partial, partial_eval_jaxpr


def loop_split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The `split` rule of scan: the equations of `loop_halves`."""
    before, known, unknown = loop_halves(eqn, is_known)
    return before + [known] * bool(known.outvars), [unknown] * bool(unknown.outvars)


def loop_halves(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], JaxprEqn, JaxprEqn]:
    """What is known before all steps, the loop over the known carry and rows, and the loop over the others.

    Only the parameters of a scan are looked at, and the operands and results are those of one.
    """
    before, eqn, is_known = _hoisted(eqn, is_known)
    params = eqn.params
    body, layout = params["jaxpr"], layout_of(params)
    key = ("scan split", layout.num_consts, layout.num_carry, tuple(is_known))
    if key not in body.memo:
        body.memo[key] = _Split(body, layout, is_known)
    return before, *body.memo[key].apply(eqn)


def _hoisted(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], JaxprEqn, list[bool]]:
    """The equations of the body that read known constants alone, outside; and the loop that takes what they give."""
    body, layout = eqn.params["jaxpr"], layout_of(eqn.params)
    consts, carry, xs = layout.operands(is_known)
    key = ("scan hoisted", layout.num_consts, tuple(consts))
    if key not in body.memo:
        moving = (False,) * (len(carry) + len(xs))
        body.memo[key] = partial_eval_jaxpr(body, (*consts, *moving), (True,) * len(body.outvars))
    half = body.memo[key]
    if not half.known.eqns or not eqn.params["length"]:
        return [], eqn, list(is_known)
    names: dict[Any, Any] = dict(zip(half.known.invars, picked(eqn.invars, consts)))
    before = []
    for each in half.known.eqns:
        invars = [v if type(v) is Literal else names[v] for v in each.invars]
        outvars = [Var(v.aval) for v in each.outvars]
        names.update(zip(each.outvars, outvars))
        before.append(each.replace(invars=invars, outvars=outvars))
    residuals = [names[v] for v in half.known.outvars]
    others = [v for v, flag in zip(eqn.invars, consts) if not flag]
    rest = Layout(len(residuals) + len(consts) - sum(consts), layout.num_carry)
    operands = [*residuals, *others, *eqn.invars[layout.num_consts :]]
    flags = [True] * len(residuals) + [False] * len(others) + [*carry, *xs]
    return before, _loop(eqn, half.unknown, rest, operands, list(eqn.outvars)), flags


class _Split:
    """The bodies of both loops."""

    def __init__(self, body: Jaxpr, layout: Layout, is_known: Sequence[bool]):
        self.half, self.carry = _settled(body, layout, is_known)
        consts, _, xs = layout.operands(is_known)
        self.known_operands = (*consts, *self.carry, *xs)
        self.own = Layout(sum(consts), sum(self.carry))
        self.rest = Layout(len(consts) - self.own.num_consts, len(self.carry) - self.own.num_carry)
        n = self.own.num_consts + self.own.num_carry
        of_consts = [place is not None and place < self.own.num_consts for place in self.half.residual_sources]
        self.of_consts = of_consts
        # Residuals that are arrays of rows already; those that are carries are stacked like computed ones.
        self.stacked = [place is None or self.own.num_consts <= place < n for place in self.half.residual_sources]
        half = self.half
        first = len(half.known.outvars) - half.num_residuals
        rows = picked(half.known.outvars[first:], self.stacked)
        self.known = half.known.replace(outvars=half.known.outvars[:first] + rows)
        residuals, others = half.unknown.invars[: half.num_residuals], half.unknown.invars[half.num_residuals :]
        by_row = [v for v, flag in zip(residuals, of_consts) if not flag]
        self.unknown = half.unknown.replace(invars=[*picked(residuals, of_consts), *others, *by_row])

    def apply(self, eqn: JaxprEqn) -> tuple[JaxprEqn, JaxprEqn]:
        half, params = self.half, eqn.params
        given = picked(eqn.invars, self.known_operands)
        others = [v for v, flag in zip(eqn.invars, self.known_operands) if not flag]
        residuals: list[Any] = []
        stacks: list[Var] = []
        for aval, place, stacked in zip(half.residual_avals, half.residual_sources, self.stacked):
            if stacked:
                stacks.append(Var(aval.update(shape=(params["length"], *aval.shape))))
                residuals.append(stacks[-1])
            else:
                residuals.append(given[place])  # type: ignore[index]  # it has one, or would be stacked
        consts = picked(residuals, self.of_consts)
        by_row = [v for v, flag in zip(residuals, self.of_consts) if not flag]
        rest = Layout(len(consts) + self.rest.num_consts, self.rest.num_carry)
        known = _loop(eqn, self.known, self.own, given, [*half.known_results(eqn.outvars), *stacks])
        unknown = _loop(eqn, self.unknown, rest, [*consts, *others, *by_row], half.unknown_results(eqn.outvars))
        return known, unknown


def _settled(body: Jaxpr, layout: Layout, is_known: Sequence[bool]) -> tuple[Partial, Flags]:
    """The body's halves, and the carries that stay known from step to step."""
    consts, start, xs = layout.operands(is_known)
    carry, num_ys = tuple(start), len(body.outvars) - layout.num_carry
    while True:
        late = [not flag for flag in carry] + [False] * num_ys
        half = partial_eval_jaxpr(body, (*consts, *carry, *xs), late)
        found = tuple([a and b for a, b in zip(carry, half.out_known)])
        if found == carry:
            return half, carry
        carry = found


def _loop(eqn: JaxprEqn, body: Jaxpr, layout: Layout, operands: list[Any], results: list[Any]) -> JaxprEqn:
    changes = {
        "jaxpr": body,
        "linear": (False,) * len(operands),
        "num_consts": layout.num_consts,
        "num_carry": layout.num_carry,
    }
    return eqn.replace(invars=operands, outvars=results, params={**eqn.params, **changes})
