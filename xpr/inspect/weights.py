"""The cost of an equation, from its types: operations, bytes read and written, bytes live meanwhile.

The cost of an equation with inner jaxprs is theirs, times how often it runs them.
"""

from __future__ import annotations

import math

from xpr.control.remat.memory import bytes_held
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from xpr.core.regions import Region, regions_of
from xpr.primitives.bytes_moved import bytes_moved
from xpr.primitives.flops import operations


def weigh(eqn: JaxprEqn) -> tuple[int, int]:
    """Operations, and bytes read and written."""
    return all_operations(eqn), bytes_moved(eqn)


def all_operations(eqn: JaxprEqn) -> int:
    """The operations of one run of an equation, with those of what it holds."""
    if only_runs_jaxprs(eqn):
        return sum([times * _total(inner) for inner, times in inner_runs(eqn)])
    return operations(eqn)


def only_runs_jaxprs(eqn: JaxprEqn) -> bool:
    """Whether an equation does nothing but run jaxprs that it holds."""
    return eqn.primitive.regions is not None


def inner_runs(eqn: JaxprEqn) -> list[tuple[Jaxpr, int]]:
    """The jaxprs that one run of an equation runs, and how often, on all devices together; see `regions_run`."""
    return [
        (region.jaxpr, times * math.prod([size for _, size in region.devices])) for region, times in regions_run(eqn)
    ]


def regions_run(eqn: JaxprEqn) -> list[tuple[Region, int]]:
    """The regions that one run of an equation runs, and how often; of branches the one that takes most operations.

    A loop of unknown length counts as one step.
    """
    regions = regions_of(eqn)
    branches = [region for region in regions if region.kind == "branch"]
    runs = [(max(branches, key=lambda region: _total(region.jaxpr)), 1)] if branches else []
    for region in regions:
        times = 1 if region.times is None else region.times
        if region.kind != "branch" and times:
            runs.append((region, times))
    return runs


def _total(jaxpr: Jaxpr) -> int:
    """All operations of a jaxpr; cached with it."""
    if "operations" not in jaxpr.memo:
        jaxpr.memo["operations"] = sum([all_operations(eqn) for eqn in jaxpr.eqns])
    return jaxpr.memo["operations"]


def live_bytes(jaxpr: Jaxpr) -> list[int]:
    """For each equation, the bytes alive while it runs: the jaxpr's inputs, and results that are still to be read.

    On several devices those that each one holds, see `bytes_held`.
    """
    size = bytes_held(jaxpr)
    last: dict[Var, int] = {}
    for position, eqn in enumerate(jaxpr.eqns):
        for v in (*eqn.invars, *eqn.outvars):
            if type(v) is not Literal:
                last[v] = position  # type: ignore[index]
    live_throughout = {v for v in jaxpr.outvars if type(v) is not Literal}
    live_throughout.update(jaxpr.constvars, jaxpr.invars)
    ending = [0] * len(jaxpr.eqns)
    for v, position in last.items():
        if v not in live_throughout:
            ending[position] += size(v)
    alive = sum(size(v) for v in [*jaxpr.constvars, *jaxpr.invars])
    profile = []
    for eqn, freed in zip(jaxpr.eqns, ending):
        alive += sum([size(v) for v in eqn.outvars])
        profile.append(alive)
        alive -= freed
    return profile
