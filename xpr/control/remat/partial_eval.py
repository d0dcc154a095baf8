"""How a checkpointed call is split in two when it is linearized: which values are saved, and which are recomputed.

The policy is called for each equation of the forward pass, those of calls, loop bodies and branches included. Going
back from the residuals, values that may be saved are, and others are recomputed from their operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.control.cond.cond import cond_dce, cond_p
from xpr.control.cond.partial_eval import cond_of
from xpr.control.cond.residuals import SplitBranches
from xpr.control.groups import mask, split_list
from xpr.control.remat.policies import Offloadable, Policy, nothing_saveable
from xpr.control.scan.scan import loop_dce, scan_p
from xpr.core.jaxpr import Atom, DropVar, Jaxpr, JaxprEqn, Literal, Var, constvars_to_invars, eval_jaxpr
from xpr.core.memory import space_of_kind
from xpr.core.source import in_scopes
from xpr.passes.dce import dce_jaxpr, has_effect
from xpr.passes.inline import inline_jaxpr
from xpr.primitives.device_put import device_put_p
from xpr.transforms.linearize import Linearized, linearize_jaxpr
from xpr.transforms.stage import stage


class Split:
    """A linearized jaxpr that saves the values a policy allows.

    `forward` takes the arguments and returns the results and the saved values. `linear` takes some of the arguments
    (their positions are `needed`), the saved values and the active tangents. `constants` lead the arguments, and
    `saved_inputs` are the types of the other ones among those that it takes.
    """

    __slots__ = ("active_outs", "constants", "forward", "linear", "needed", "saved_inputs")

    def __init__(self, jaxpr: Jaxpr, split: Linearized, policy: Policy):
        self.constants, self.active_outs = split.primal.consts, split.active_outs
        primal = constvars_to_invars(split.primal)
        if policy is not nothing_saveable:
            primal = inline_jaxpr(primal)
        leading, arguments = split_list(primal.invars, len(self.constants))
        outs, computed = split_list(primal.outvars, len(split.active_outs))
        residuals = split.residuals(arguments, computed)
        frontier = _frontier(primal.eqns, residuals, policy)
        computing = Jaxpr([], [*primal.invars, *frontier.saved], residuals, frontier.recomputed)
        recomputed = list(map(_in_scope, dce_jaxpr(computing, [True] * len(residuals), keep_inputs=True)[0].eqns))
        outvars = [*outs, *frontier.saved]
        forward = primal.replace(outvars=outvars, eqns=frontier.forward)
        if not frontier.saved and not any(map(has_effect, (*jaxpr.eqns, *forward.eqns))):
            # No residuals are saved, so functions with derivative rules run, and not the first halves of the rules.
            constants = [Var(v.aval) for v in leading]
            forward = jaxpr.replace(invars=[*constants, *jaxpr.invars])
        self.forward, _ = dce_jaxpr(forward, [True] * len(outvars), keep_inputs=True)

        read = {v for v in residuals if type(v) is not Literal}.union(*(eqn.invars for eqn in recomputed))
        self.needed = [i for i, v in enumerate(primal.invars) if v in read]
        self.saved_inputs = [v.aval for v in arguments if v in read]
        operands = [*(primal.invars[i] for i in self.needed), *frontier.saved]
        self.linear = _joined(Jaxpr([], operands, residuals, recomputed), split.linear)


def split_jaxpr(jaxpr: Jaxpr, is_active: tuple[bool, ...], policy: Policy | None) -> Split:
    """A jaxpr without constants, split for a policy; cached with it."""
    key = ("checkpoint", is_active, policy)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = Split(jaxpr, linearize_jaxpr(jaxpr, is_active), policy or nothing_saveable)
    return jaxpr.memo[key]


def _in_scope(eqn: JaxprEqn) -> JaxprEqn:
    """An equation that runs again, in the name scope "rematted_computation"."""
    return eqn.replace(source=in_scopes(("rematted_computation",), eqn.source))


def _joined(recompute: Jaxpr, linear: Jaxpr) -> Jaxpr:
    """The linear program with its residuals computed by the other program."""
    n = len(recompute.invars)

    def run(*args: Any) -> list[Any]:
        known, tangents = split_list(args, n)
        return eval_jaxpr(linear, (), *eval_jaxpr(recompute, (), *known), *tangents)

    _, tangent_avals = split_list(linear.in_avals, len(recompute.outvars))
    return constvars_to_invars(stage(run, [*recompute.in_avals, *tangent_avals]))


class _Frontier(NamedTuple):
    """The equations of the forward pass, what it saves, and the equations to run again."""

    forward: list[JaxprEqn]
    saved: list[Var]
    recomputed: list[JaxprEqn]


def _frontier(eqns: Sequence[JaxprEqn], residuals: Sequence[Atom], policy: Policy) -> _Frontier:
    """The values to save so that `residuals` can be recomputed: the first saveable ones on the way back from these.

    An equation with an effect is never run again.
    """
    live: set[Any] = {v for v in residuals if type(v) is not Literal}
    forward: list[JaxprEqn] = []
    saved: list[Var] = []
    recomputed: list[JaxprEqn] = []
    for eqn in reversed(eqns):
        read = [v for v in eqn.outvars if v in live]
        verdict = bool(read) and (has_effect(eqn) or policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params))
        if type(verdict) is Offloadable:
            for v in reversed(read):
                kept = Var(v.aval.in_memory(space_of_kind(verdict.dst)))
                saved.append(kept)
                forward.append(_moving(eqn, v, kept))
                recomputed.append(_moving(eqn, kept, v))
        elif verdict:
            saved.extend(reversed(read))
        elif read:
            split = _SPLIT.get(eqn.primitive) if policy is not nothing_saveable else None
            repeated: JaxprEqn | None = eqn
            if split is not None:
                eqn, repeated, inner = split(eqn, [v in live for v in eqn.outvars], policy)
                saved.extend(reversed(inner))
            if repeated is not None:
                recomputed.append(repeated)
                live.update(v for v in repeated.invars if type(v) is not Literal)
        forward.append(eqn)
    return _Frontier(forward[::-1], saved[::-1], recomputed[::-1])


def _moving(eqn: JaxprEqn, source: Var, target: Var) -> JaxprEqn:
    """The equation that moves a value of another one to or from the memory that it is offloaded to."""
    params = {"device": target.aval.memory_space}
    return eqn.replace(primitive=device_put_p, invars=[source], outvars=[target], params=params)


class _Repeated(NamedTuple):
    """An equation that holds jaxprs: what the forward pass runs, what runs again, and what that takes of the first."""

    forward: JaxprEqn
    recomputed: JaxprEqn | None
    saved: list[Var]


def _save_in_loop(eqn: JaxprEqn, used: Sequence[bool], policy: Policy) -> _Repeated:
    """A loop that also returns the saveable values of each step, and the loop that takes their rows."""
    params = eqn.params
    body = inline_jaxpr(params["jaxpr"])
    num_carry = params["num_carry"]
    residuals = [v for i, v in enumerate(body.outvars) if i < num_carry or used[i]]
    frontier = _frontier(body.eqns, residuals, policy)
    if not frontier.saved:
        return _Repeated(eqn, eqn, [])
    rows = [Var(v.aval.with_axis(0, params["length"])) for v in frontier.saved]
    stacking = body.replace(outvars=[*body.outvars, *frontier.saved], eqns=frontier.forward)
    forward = eqn.replace(outvars=[*eqn.outvars, *rows], params={**params, "jaxpr": stacking})
    reading = body.replace(invars=[*body.invars, *frontier.saved], eqns=frontier.recomputed)
    linear = (*params["linear"], *[False] * len(rows))
    recomputed = eqn.replace(invars=[*eqn.invars, *rows], params={**params, "jaxpr": reading, "linear": linear})
    recomputed = loop_dce(recomputed, used)  # drops the results that aren't wanted, whose equations are missing
    return _Repeated(forward, recomputed, [v for v in rows if v in set(recomputed.invars)])


def _save_in_branches(eqn: JaxprEqn, used: Sequence[bool], policy: Policy) -> _Repeated:
    """A cond that also returns the saveable values of its branch, and the cond that takes them."""
    index, *operands = eqn.invars
    branches = list(map(inline_jaxpr, eqn.params["branches"]))
    everything = _branch_frontiers(branches, used, policy)
    if not any(frontier.saved for frontier in everything):
        return _Repeated(eqn, eqn, [])
    is_saved = [
        wanted and any(branch.outvars[i] in f.saved for branch, f in zip(branches, everything))
        for i, wanted in enumerate(used)
    ]
    recomputed = [wanted and not saved for wanted, saved in zip(used, is_saved)]
    frontiers = _branch_frontiers(branches, recomputed, policy)
    split = SplitBranches(
        [b.replace(outvars=[*b.outvars, *f.saved], eqns=f.forward) for b, f in zip(branches, frontiers)],
        [[None] * len(f.saved) for f in frontiers],
        [Jaxpr([], [*f.saved, *b.invars], mask(b.outvars, recomputed), f.recomputed)
         for b, f in zip(branches, frontiers)],
        branches[0].in_avals,
        len(eqn.outvars),
    )  # fmt: skip
    results = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
    slots = [Var(aval) for aval in split.slots]
    residuals = split.residuals_among(operands, results, slots)
    forward = cond_of(eqn, split.first, [index, *operands], [*results, *slots])
    outvars = mask(eqn.outvars, recomputed)
    second = cond_of(eqn, split.second, [index, *residuals, *operands], outvars)
    saved: dict[Any, None] = dict.fromkeys([*mask(results, is_saved), *residuals])
    return _Repeated(forward, cond_dce(second, [True] * len(outvars)) if outvars else None, list(saved))


def _branch_frontiers(branches: Sequence[Jaxpr], wanted: Sequence[bool], policy: Policy) -> list[_Frontier]:
    return [_frontier(branch.eqns, mask(branch.outvars, wanted), policy) for branch in branches]


_SPLIT = {scan_p: _save_in_loop, cond_p: _save_in_branches}
