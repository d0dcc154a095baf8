"""The `split` rule of calls halved by their results: those that read known operands alone, and the others.

The first half gives the known results and the second one the others; what serves both is computed in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpr.control.activity import reached_outputs
from xpr.control.cond.residuals import zeros_in
from xpr.core.jaxpr import DropVar, JaxprEqn, Literal
from xpr.core.regions import regions_of
from xpr.passes.dce import has_effect


def split_results(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The equation for its known results, which does not look at operands that are not known, and for the others."""
    (region,) = regions_of(eqn)
    others = reached_outputs(region.jaxpr, [not flag for flag in is_known], False)
    known = [not reached for reached in others]
    if not any(known) or has_effect(eqn):
        return [], [eqn]
    is_ready = {v for v, flag in zip(eqn.invars, is_known) if flag and type(v) is not Literal}
    first = _giving(eqn, known)
    zeros: list[JaxprEqn] = []
    operands = [v if type(v) is Literal or v in is_ready else zeros_in(zeros, v.aval) for v in first.invars]
    return [*zeros, first.replace(invars=operands)], [_giving(eqn, others)] if any(others) else []


def _giving(eqn: JaxprEqn, wanted: Sequence[bool]) -> JaxprEqn:
    """The equation with the wanted results alone, the others dropped where it can't do without."""
    if eqn.primitive.dce is not None:
        return eqn.primitive.dce(eqn, wanted)
    return eqn.replace(outvars=[v if flag else DropVar(v.aval) for v, flag in zip(eqn.outvars, wanted)])
