"""What a program makes devices send each other, from its types: nothing is compiled.

Counted are collectives in functions that `shard_map` and `pmap` map, and what types over Explicit axes of a mesh imply:
`reshard`, reductions and contractions over partitioned axes, and operands that have to be whole. Over Auto axes the
compiler decides, and what it adds is in `jit(f).lower(...).compile().collectives()`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from xpr.backend.communication import Collective
from xpr.core.jaxpr import Jaxpr, JaxprEqn
from xpr.core.regions import regions_of
from xpr.inspect.weights import only_runs_jaxprs, regions_run
from xpr.passes.decided_shardings import Shardings, decided_shardings, decided_type
from xpr.primitives.communication import of_replicated

Sizes = Mapping[Any, int]


class Sent(NamedTuple):
    """A collective of an equation, with how often it runs."""

    equation: JaxprEqn
    collective: Collective

    @property
    def bytes(self) -> float:
        """The bytes that each device sends in all runs together."""
        return self.collective.sent * (self.collective.times or 1)


def communication(jaxpr: Jaxpr, sizes: Sizes | None = None) -> list[Sent]:
    """The collectives of a program, in order; a loop of unknown length counts as one step, of branches the costliest.

    `sizes` are those of the named axes around it.
    """
    key = "communication", *(sizes or {}).items()
    if key not in jaxpr.memo:
        jaxpr.memo[key] = list(_collectives(jaxpr, sizes or {}))
    return jaxpr.memo[key]


def _collectives(jaxpr: Jaxpr, sizes: Sizes) -> Iterator[Sent]:
    decided = decided_shardings(jaxpr)
    for eqn in jaxpr.eqns:
        if not only_runs_jaxprs(eqn):
            for each in collectives_of(eqn, sizes, decided):
                yield Sent(eqn, each)
            continue
        for region, often in regions_run(eqn):
            for inner, each in communication(region.jaxpr, {**sizes, **dict(region.devices)}):
                yield Sent(inner, each._replace(times=often * (each.times or 1)))


def collectives_of(eqn: JaxprEqn, sizes: Sizes, decided: Shardings) -> list[Collective]:
    """The collectives of one equation that holds no jaxprs."""
    operands, primitive = [v.aval for v in eqn.invars], eqn.primitive
    if primitive.collectives is not None:
        results = [decided_type(v, decided) for v in eqn.outvars]
        return primitive.collectives(operands, results, sizes, **eqn.params)
    if primitive.sharding is None and not primitive.decides_sharding:
        return of_replicated(operands)
    return []


def sent_by_equation(jaxpr: Jaxpr) -> dict[int, float]:
    """The bytes that each device sends in one run of an equation at any depth, by its `id`, where it sends any."""
    found: dict[int, float] = {}
    totals: dict[int, float] = {}

    def total(inner: Jaxpr, sizes: Sizes) -> float:
        if id(inner) not in totals:
            decided = decided_shardings(inner)
            totals[id(inner)] = sum([of_equation(eqn, sizes, decided) for eqn in inner.eqns])
        return totals[id(inner)]

    def of_equation(eqn: JaxprEqn, sizes: Sizes, decided: Shardings) -> float:
        if only_runs_jaxprs(eqn):
            every = {
                id(region.jaxpr): total(region.jaxpr, {**sizes, **dict(region.devices)}) for region in regions_of(eqn)
            }
            sent = sum([often * every[id(region.jaxpr)] for region, often in regions_run(eqn)])
        else:
            sent = sum([each.sent for each in collectives_of(eqn, sizes, decided)])
        if sent:
            found[id(eqn)] = sent
        return sent

    total(jaxpr, {})
    return found
