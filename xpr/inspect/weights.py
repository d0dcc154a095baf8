"""What an equation costs, as far as its types tell: bytes read and written, bytes alive meanwhile."""

from __future__ import annotations

from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var


def size_of(aval: ShapedArray) -> int:
    return aval.size * aval.dtype.itemsize


def weigh(eqn: JaxprEqn) -> tuple[int | None, int]:
    """Operations, where known, and bytes read and written."""
    operands = sum([size_of(v.aval) for v in eqn.invars])
    return None, operands + sum([size_of(v.aval) for v in eqn.outvars])


def live_bytes(jaxpr: Jaxpr) -> list[int]:
    """For each equation, the bytes alive while it runs: the jaxpr's inputs, and values made and still to be read."""
    last: dict[Var, int] = {}
    for position, eqn in enumerate(jaxpr.eqns):
        for v in (*eqn.invars, *eqn.outvars):
            if type(v) is not Literal:
                last[v] = position  # type: ignore[index]
    kept = {v for v in jaxpr.outvars if type(v) is not Literal}
    kept.update(jaxpr.constvars, jaxpr.invars)
    ending = [0] * len(jaxpr.eqns)
    for v, position in last.items():
        if v not in kept:
            ending[position] += size_of(v.aval)
    alive = sum(size_of(v.aval) for v in [*jaxpr.constvars, *jaxpr.invars])
    profile = []
    for eqn, freed in zip(jaxpr.eqns, ending):
        alive += sum([size_of(v.aval) for v in eqn.outvars])
        profile.append(alive)
        alive -= freed
    return profile
