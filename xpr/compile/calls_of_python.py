"""Whether a program is expected to call Python functions when it runs, or only has callbacks in rare branches."""

from __future__ import annotations

from xpr.core.jaxpr import Jaxpr, JaxprEqn, effects, subjaxprs
from xpr.core.regions import regions_of


def expects_calls(jaxpr: Jaxpr, in_loop: bool = False) -> bool:
    """Whether runs of a jaxpr are expected to call Python functions.

    They are not if each callback is in a branch of a choice that has another branch without callbacks. But a callback
    with an effect in a branch inside of a loop is expected to be called: every hundredth step may print something.
    """
    key = ("expects calls", in_loop)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = any(_expects_calls(eqn, in_loop) for eqn in jaxpr.eqns)
    return jaxpr.memo[key]


def _expects_calls(eqn: JaxprEqn, in_loop: bool) -> bool:
    if eqn.primitive.calls_python:
        return True
    branches = [region.jaxpr for region in regions_of(eqn) if region.kind == "branch"]
    if branches:
        return (in_loop and any(map(effects, branches))) or all(expects_calls(branch, in_loop) for branch in branches)
    loops = {id(region.jaxpr) for region in regions_of(eqn) if region.kind != "call"}
    return any(expects_calls(inner, in_loop or id(inner) in loops) for inner in subjaxprs(eqn))
