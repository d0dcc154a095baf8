"""cond, split by which of its operands are known: one cond of the known halves, then one of the others.

It is split where its index is known; else both halves of all branches would have to run. What goes from a branch to its
second half is given as a further result, in places that the branches share, as in residuals.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.cond.residuals import free_slot, zeros_in
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import FillerVar, Jaxpr, JaxprEqn, Var
from xpr.passes.partial_eval import Partial, partial_eval_jaxpr


def cond_split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The cond of the known halves and that of the others, by the same index."""
    index, *operands = eqn.invars
    if not is_known[0]:
        return [], [eqn]
    given = [v for v, flag in zip(operands, is_known[1:]) if flag]
    others = [v for v, flag in zip(operands, is_known[1:]) if not flag]
    halves = _halves(eqn.params["branches"], is_known[1:])
    slots: list[ShapedArray] = []
    places = [_places(half, slots) for half in halves]
    passed = sorted({i for half in halves for i in half.residual_sources if i is not None})
    between = [Var(aval) for aval in slots]
    known = tuple([_filling(half, own, slots) for half, own in zip(halves, places)])
    unknown = tuple([_taking(half, own, slots, passed) for half, own in zip(halves, places)])
    half = halves[0]
    first = _cond(eqn, known, [index, *given], [*half.known_results(eqn.outvars), *between])
    rest = [index, *(given[i] for i in passed), *between, *others]
    second = _cond(eqn, unknown, rest, half.unknown_results(eqn.outvars))
    return ([first] if first.outvars else []), ([second] if second.outvars else [])


def _cond(eqn: JaxprEqn, branches: tuple[Jaxpr, ...], invars: list[Any], outvars: list[Any]) -> JaxprEqn:
    changes = {"branches": branches, "linear": (False,) * (len(invars) - 1)}
    return eqn.replace(invars=invars, outvars=outvars, params={**eqn.params, **changes})


def _halves(branches: Sequence[Jaxpr], is_known: Sequence[bool]) -> list[Partial]:
    """The halves of each branch, which agree on what is known of the results."""
    halves = [partial_eval_jaxpr(branch, is_known) for branch in branches]
    late = [not all(flags) for flags in zip(*(half.out_known for half in halves))]
    return [partial_eval_jaxpr(branch, is_known, late) for branch in branches]


def _places(half: Partial, slots: list[ShapedArray]) -> list[int | None]:
    """The slot of each residual that is computed; `slots` grows as needed."""
    taken: set[int] = set()
    return [
        free_slot(aval, slots, taken) if place is None else None
        for aval, place in zip(half.residual_avals, half.residual_sources)
    ]


def _filling(half: Partial, places: Sequence[int | None], slots: Sequence[ShapedArray]) -> Jaxpr:
    """A known half that fills every slot, those of others with zeros."""
    n = len(half.known.outvars) - half.num_residuals
    filled = {place: v for v, place in zip(half.known.outvars[n:], places) if place is not None}
    eqns = list(half.known.eqns)
    values = [filled[i] if i in filled else zeros_in(eqns, aval) for i, aval in enumerate(slots)]
    return half.known.replace(outvars=[*half.known.outvars[:n], *values], eqns=eqns)


def _taking(half: Partial, places: Sequence[int | None], slots: Sequence[ShapedArray], passed: Sequence[int]) -> Jaxpr:
    """An unknown half that takes the operands that any branch needs, every slot, and the unknown operands."""
    residuals, others = half.unknown.invars[: half.num_residuals], half.unknown.invars[half.num_residuals :]
    by_operand = {source: v for v, source in zip(residuals, half.residual_sources) if source is not None}
    by_slot = {place: v for v, place in zip(residuals, places) if place is not None}
    own = [by_operand.get(i) or FillerVar(half.known.invars[i].aval) for i in passed]
    rows = [by_slot.get(i) or FillerVar(aval) for i, aval in enumerate(slots)]
    return half.unknown.replace(invars=[*own, *rows, *others])
