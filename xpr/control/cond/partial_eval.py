"""cond, split by which of its operands are known: one cond of the known halves, then one of the unknown halves.

It is split if its index is known; else both halves of all branches would have to run. The second half of a branch
reads residuals of the first, see residuals.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.cond.residuals import SplitBranches
from xpr.control.groups import mask, partition
from xpr.core.jaxpr import DropVar, Jaxpr, JaxprEqn, Var
from xpr.passes.partial_eval import PartialJaxpr, partial_eval_jaxpr


def cond_split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The cond of the known halves and the cond of the unknown halves, with the same index."""
    (index, *operands), (index_known, *operands_known) = eqn.invars, is_known
    if not index_known:
        return [], [eqn]
    known_ins, unknown_ins = partition(operands, operands_known)
    halves = _halves(eqn.params["branches"], operands_known)
    known_outs, unknown_outs = partition(eqn.outvars, halves[0].out_known)
    split = SplitBranches(
        [half.computing for half in halves],
        [half.residual_sources for half in halves],
        [half.unknown for half in halves],
        mask(eqn.params["branches"][0].in_avals, operands_known),
        len(known_outs),
    )
    slots = [Var(aval) for aval in split.slots]
    results = [Var(v.aval) if type(v) is DropVar and ("result", i) in split.residuals else v
               for i, v in enumerate(known_outs)]  # fmt: skip
    residuals = split.residuals_among(known_ins, results, slots)
    first = cond_of(eqn, split.first, [index, *known_ins], [*results, *slots])
    second = cond_of(eqn, split.second, [index, *residuals, *unknown_ins], unknown_outs)
    return [first] * bool(first.outvars), [second] * bool(second.outvars)


def cond_of(eqn: JaxprEqn, branches: tuple[Jaxpr, ...], invars: list[Any], outvars: list[Any]) -> JaxprEqn:
    """The same cond with other branches, operands and results."""
    changes = {"branches": branches, "linear": (False,) * (len(invars) - 1)}
    return eqn.replace(invars=invars, outvars=outvars, params={**eqn.params, **changes})


def _halves(branches: Sequence[Jaxpr], is_known: Sequence[bool]) -> list[PartialJaxpr]:
    """The halves of each branch, which agree on which results are known."""
    halves = [partial_eval_jaxpr(branch, is_known) for branch in branches]
    late = [not all(flags) for flags in zip(*(half.out_known for half in halves))]
    return [partial_eval_jaxpr(branch, is_known, late) for branch in branches]
