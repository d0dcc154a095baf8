"""The `split` rule of calls halved by their results: those that read known operands alone, and the others.

The first half returns the known results and the second half the others; equations that both need are in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpr.control.activity import affected_outputs
from xpr.control.cond.residuals import zeros_in
from xpr.core.jaxpr import DropVar, JaxprEqn, Literal
from xpr.core.regions import regions_of
from xpr.passes.dce import has_effect


def split_results(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The equation for the known results, without the unknown operands, and the equation for the other results."""
    (region,) = regions_of(eqn)
    others = affected_outputs(region.jaxpr, [not flag for flag in is_known], False)
    known = [not is_affected for is_affected in others]
    if not any(known) or has_effect(eqn):
        return [], [eqn]
    known_operands = {v for v, flag in zip(eqn.invars, is_known) if flag and type(v) is not Literal}
    first = _with_results(eqn, known)
    zeros: list[JaxprEqn] = []
    operands = [v if type(v) is Literal or v in known_operands else zeros_in(zeros, v.aval) for v in first.invars]
    return [*zeros, first.replace(invars=operands)], [_with_results(eqn, others)] if any(others) else []


def _with_results(eqn: JaxprEqn, wanted: Sequence[bool]) -> JaxprEqn:
    """The equation with the wanted results alone; results that can't be removed are dropped variables."""
    if eqn.primitive.dce is not None:
        return eqn.primitive.dce(eqn, wanted)
    return eqn.replace(outvars=[v if flag else DropVar(v.aval) for v, flag in zip(eqn.outvars, wanted)])
