"""The branches of a cond, split into what computes values and residuals, and what is linear in the tangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.control.tracing import join_consts
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import FillerVar, Jaxpr, JaxprEqn, Literal, Var
from xpr.primitives.shapes import broadcast_in_dim_p
from xpr.transforms.linearize import Linearized, linearize_jaxpr

Branches = tuple[Jaxpr, ...]
Flags = tuple[bool, ...]
Source = tuple[str, int]  # where a residual comes from: ("operand", i), ("result", i) of the cond, or ("slot", i)


def any_of(flags: Sequence[Sequence[bool]]) -> Flags:
    """Place by place, whether any of several lists says so."""
    return tuple(map(any, zip(*flags)))


class Split:
    """Branches split in two. The linear ones take `residuals | tangents`.

    Residuals that are operands or results of the cond are handed on. The others go from a branch to its linear half
    through slots, each of a type, which the primal branches give as further results. Branches share the slots, and fill
    with zeros those they don't use: there are as many as the branch needs that needs the most.
    """

    __slots__ = ("consts", "flags", "linear", "primal", "residuals")

    def __init__(self, branches: Branches, active: Flags):
        halves = [linearize_jaxpr(branch, active) for branch in branches]
        self.flags = any_of([half.active_outs for half in halves])
        halves = [
            half if tuple(half.active_outs) == self.flags else linearize_jaxpr(branch, active, self.flags)
            for branch, half in zip(branches, halves)
        ]
        slots: list[ShapedArray] = []
        sources = [_sources(half, slots) for half in halves]
        handed_on = sorted({source for own in sources for source in own if source[0] != "slot"})
        self.residuals: list[Source] = [*handed_on, *(("slot", i) for i in range(len(slots)))]
        types = {"operand": branches[0].in_avals, "result": branches[0].out_avals, "slot": slots}
        avals = [types[kind][i] for kind, i in self.residuals]
        self.consts, opened = join_consts([half.primal for half in halves])
        self.primal = tuple([_with_slots(jaxpr, own, slots, len(self.flags)) for jaxpr, own in zip(opened, sources)])
        self.linear = tuple([self._linear(half.linear, own, avals) for half, own in zip(halves, sources)])

    def _linear(self, linear: Jaxpr, own: list[Source], avals: Sequence[ShapedArray]) -> Jaxpr:
        """A linear half that takes the residuals of all."""
        variables, tangents = dict(zip(own, linear.invars)), linear.invars[len(own) :]
        residuals = [variables.get(source) or FillerVar(aval) for source, aval in zip(self.residuals, avals)]
        return linear.replace(invars=[*residuals, *tangents])


def _sources(half: Linearized, slots: list[ShapedArray]) -> list[Source]:
    """Where the residuals of a branch come from; `slots` grows as needed."""
    n = len(half.active_outs)
    outs, computed = half.primal.jaxpr.outvars[:n], iter(half.primal.jaxpr.outvars[n:])
    taken: set[int] = set()
    found: list[Source] = []
    for place in half.residual_sources:
        if place is not None:
            found.append(("operand", place))
            continue
        residual = next(computed)
        result = next((i for i, out in enumerate(outs) if out is residual), None)
        found.append(("slot", free_slot(residual.aval, slots, taken)) if result is None else ("result", result))
    return found


def free_slot(aval: ShapedArray, slots: list[ShapedArray], taken: set[int]) -> int:
    """The first slot of that type that is not taken, a new one where there is none; takes it."""
    aval = aval.strip_weak_type()
    place = next((i for i, slot in enumerate(slots) if slot is aval and i not in taken), len(slots))
    if place == len(slots):
        slots.append(aval)
    taken.add(place)
    return place


def _with_slots(jaxpr: Jaxpr, sources: Sequence[Source], slots: Sequence[ShapedArray], n_results: int) -> Jaxpr:
    """A primal half that gives the results and fills every slot."""
    results, computed = jaxpr.outvars[:n_results], iter(jaxpr.outvars[n_results:])
    filled: dict[int, Any] = {}
    for kind, place in sources:
        if kind != "operand":
            residual = next(computed)
            if kind == "slot":
                filled[place] = residual
    zeros: dict[ShapedArray, Var] = {}
    eqns = list(jaxpr.eqns)
    for i, aval in enumerate(slots):
        if i not in filled:
            if aval not in zeros:
                zeros[aval] = zeros_in(eqns, aval)
            filled[i] = zeros[aval]
    return jaxpr.replace(outvars=[*results, *(filled[i] for i in range(len(slots)))], eqns=eqns)


def zeros_in(eqns: list[JaxprEqn], aval: ShapedArray) -> Any:
    """Zeros in a jaxpr; `eqns` gets the equation that makes them."""
    zero = Literal(np.zeros((), aval.dtype)[()])
    if not aval.shape:
        return zero
    out = Var(aval)
    eqns.append(JaxprEqn([zero], [out], broadcast_in_dim_p, {"shape": aval.shape, "broadcast_dimensions": ()}))
    return out
