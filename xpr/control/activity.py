"""Which carries of a loop a transformation affects: those that depend on mapped operands, or operands with tangents.

A fixed point: being mapped, or having a tangent, spreads through the body from carry to carry until nothing changes. A
pass over the equations is cheap and overestimates the set (a result that reads a tangent may have none); a trace of the
body then determines it exactly.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xpr.core.avals import Zero, is_differentiable
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal
from xpr.core.regions import propagate, regions_of

Flags = tuple[bool, ...]
T = TypeVar("T")


def is_active(tangents: Sequence[Any]) -> Flags:
    """Which tangents, or cotangents, are not symbolic zeros."""
    return tuple([type(t) is not Zero for t in tangents])


def affected_outputs(jaxpr: Jaxpr, affected: Sequence[bool], differentiable: bool) -> list[bool]:
    """Which results of a jaxpr depend on an affected argument, also through inner jaxprs.

    With `differentiable`, only dependencies through inexact values count.
    """
    live: set[Any] = {v for v, is_affected in zip(jaxpr.invars, affected) if is_affected}
    for eqn in jaxpr.eqns:
        flags = [type(v) is not Literal and v in live for v in eqn.invars]
        if any(flags):
            results = zip(eqn.outvars, _affected_results(eqn, flags, differentiable))
            live.update(v for v, is_affected in results if is_affected and _may_carry(v, differentiable))
    return [type(v) is not Literal and v in live for v in jaxpr.outvars]


def _may_carry(var: Any, differentiable: bool) -> bool:
    return not differentiable or is_differentiable(var.aval)


def _affected_results(eqn: JaxprEqn, flags: list[bool], differentiable: bool) -> list[bool]:
    if differentiable and (moving := getattr(eqn.primitive.jvp, "differentiable", None)):
        return [any(map(operator.and_, flags, moving))]
    regions = regions_of(eqn)
    if not regions or not all(region.follows for region in regions):
        return [True] * len(eqn.outvars)

    def through(jaxpr: Jaxpr, affected: Sequence[bool]) -> list[bool]:
        return affected_outputs(jaxpr, affected, differentiable)

    return propagate(regions, flags, len(eqn.outvars), through, operator.or_, False)


def affected_inputs(jaxpr: Jaxpr, affected: Sequence[bool], linear: Sequence[bool]) -> list[bool]:
    """The linear arguments of a jaxpr on which an affected result depends."""
    live: set[Any] = {v for v, is_affected in zip(jaxpr.outvars, affected) if is_affected and type(v) is not Literal}
    for eqn in reversed(jaxpr.eqns):
        if not live.isdisjoint(eqn.outvars):
            live.update(v for v in eqn.invars if type(v) is not Literal)
    return [is_linear and v in live for v, is_linear in zip(jaxpr.invars, linear)]


def least_fixed_point(start: Flags, step: Callable[[Flags], Sequence[bool]]) -> Flags:
    """The smallest set of carries that contains `start` and is closed under `step`."""
    while True:
        grown = tuple([a or b for a, b in zip(start, step(start))])
        if grown == start:
            return start
        start = grown


def trace_fixed_point(
    start: Flags, bound: Flags, trace: Callable[[Flags, Flags], tuple[T, Sequence[bool]]]
) -> tuple[T, Flags]:
    """Traces a loop's body for a set of affected carries that is the same among its arguments and results.

    Args:
      start: the carries that are affected initially.
      bound: a superset of all affected carries, from `least_fixed_point`.
      trace: from the affected carries and those that must be affected among the results to the transformed body and
        the affected carries among its results.
    Returns:
      The transformed body, and the set of carries.
    """
    none = (False,) * len(start)
    while True:
        transformed, traced_flags = trace(bound, none)
        needed = tuple([a or b for a, b in zip(start, traced_flags)])
        if needed == bound:
            return (transformed if tuple(traced_flags) == bound else trace(bound, bound)[0]), bound
        bound = needed
