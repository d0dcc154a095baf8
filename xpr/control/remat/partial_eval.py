"""How a checkpointed call is split in two when it is linearized: what is saved, and what is computed again.

A policy is asked about each equation of the forward pass, those of calls and of the bodies of loops included. Walking
back from the residuals, what may be saved is, and what may not is computed again from what it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.control.remat.policies import Policy, nothing_saveable
from xpr.control.scan.scan import loop_dce, scan_p
from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var, constvars_to_invars, eval_jaxpr
from xpr.passes.dce import dce_jaxpr, has_effect
from xpr.passes.inline import inline_jaxpr
from xpr.transforms.linearize import Linearized, linearize_jaxpr
from xpr.transforms.stage import stage


class Split:
    """A linearized jaxpr that saves what a policy allows.

    `forward` takes the arguments and gives the results and then the saved values. `linear` takes some of the arguments
    (their positions are `needed`), the saved values and the active tangents. `constants` lead the arguments.
    """

    __slots__ = ("active_outs", "constants", "forward", "linear", "needed")

    def __init__(self, split: Linearized, policy: Policy):
        self.constants, self.active_outs = split.primal.consts, split.active_outs
        primal = constvars_to_invars(split.primal)
        if policy is not nothing_saveable:
            primal = inline_jaxpr(primal)
        k, n = len(self.constants), len(split.active_outs)
        residuals = split.residuals(primal.invars[k:], primal.outvars[n:])
        found = _frontier(primal.eqns, residuals, policy)
        outvars = [*primal.outvars[:n], *found.saved]
        forward = primal.replace(outvars=outvars, eqns=found.forward)
        self.forward, _ = dce_jaxpr(forward, [True] * len(outvars), keep_inputs=True)

        read = {v for v in residuals if type(v) is not Literal}.union(*(eqn.invars for eqn in found.again))
        self.needed = [i for i, v in enumerate(primal.invars) if v in read]
        given = [*(primal.invars[i] for i in self.needed), *found.saved]
        self.linear = _joined(Jaxpr([], given, residuals, found.again), split.linear)


def split_jaxpr(jaxpr: Jaxpr, is_active: tuple[bool, ...], policy: Policy | None) -> Split:
    """A jaxpr without constants, split for a policy; remembered with it."""
    key = ("checkpoint", is_active, policy)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = Split(linearize_jaxpr(jaxpr, is_active), policy or nothing_saveable)
    return jaxpr.memo[key]


def _joined(recompute: Jaxpr, linear: Jaxpr) -> Jaxpr:
    """The linear program with its residuals computed by the other one."""
    n = len(recompute.invars)

    def run(*args: Any) -> list[Any]:
        residuals = eval_jaxpr(recompute, (), *args[:n])
        return eval_jaxpr(linear, (), *residuals, *args[n:])

    avals = [*recompute.in_avals, *linear.in_avals[len(recompute.outvars) :]]
    return constvars_to_invars(stage(run, avals))


class _Frontier(NamedTuple):
    """The equations of the forward pass, what it saves, and the equations to run again."""

    forward: list[JaxprEqn]
    saved: list[Var]
    again: list[JaxprEqn]


def _frontier(eqns: Sequence[JaxprEqn], wanted: Sequence[Atom], policy: Policy) -> _Frontier:
    """What to save so that `wanted` can be computed again: the first saveable values met on the way back from them.

    An equation with an effect is never run again.
    """
    live: set[Any] = {v for v in wanted if type(v) is not Literal}
    forward: list[JaxprEqn] = []
    saved: list[Var] = []
    again: list[JaxprEqn] = []
    for eqn in reversed(eqns):
        read = [v for v in eqn.outvars if v in live]
        if read and (has_effect(eqn) or policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params)):
            saved.extend(reversed(read))
        elif read:
            if eqn.primitive is scan_p and policy is not nothing_saveable:
                eqn, repeated, rows = _save_in_loop(eqn, [v in live for v in eqn.outvars], policy)
                saved.extend(reversed(rows))
            else:
                repeated = eqn
            again.append(repeated)
            live.update(v for v in repeated.invars if type(v) is not Literal)
        forward.append(eqn)
    return _Frontier(forward[::-1], saved[::-1], again[::-1])


def _save_in_loop(eqn: JaxprEqn, used: Sequence[bool], policy: Policy) -> tuple[JaxprEqn, JaxprEqn, list[Var]]:
    """A loop that also gives a row of what may be saved in each step, the loop that takes those rows, and the rows."""
    params = eqn.params
    body = inline_jaxpr(params["jaxpr"])
    num_carry = params["num_carry"]
    wanted = [v for i, v in enumerate(body.outvars) if i < num_carry or used[i]]
    found = _frontier(body.eqns, wanted, policy)
    if not found.saved:
        return eqn, eqn, []
    rows = [Var(v.aval.update(shape=(params["length"], *v.aval.shape))) for v in found.saved]
    stacking = body.replace(outvars=[*body.outvars, *found.saved], eqns=found.forward)
    forward = eqn.replace(outvars=[*eqn.outvars, *rows], params={**params, "jaxpr": stacking})
    reading = body.replace(invars=[*body.invars, *found.saved], eqns=found.again)
    linear = (*params["linear"], *[False] * len(rows))
    again = eqn.replace(invars=[*eqn.invars, *rows], params={**params, "jaxpr": reading, "linear": linear})
    again = loop_dce(again, used)  # drops the results that aren't wanted, whose equations are missing
    return forward, again, [v for v in rows if v in set(again.invars)]
