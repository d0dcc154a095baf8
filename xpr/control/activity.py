"""Which parts of a loop's carry a transformation touches: those reached from what it touches at the start.

What is mapped, or has a tangent, spreads through the body from carry to carry until nothing changes. The spreading is
followed along the equations, which is cheap and may say too much (a result that reads a tangent can be flat); a trace
of the body then says exactly.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xpr import dtypes
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal
from xpr.core.regions import propagate, regions_of

Flags = tuple[bool, ...]
T = TypeVar("T")


def picked(values: Sequence[T], flags: Sequence[bool]) -> list[T]:
    """The values that are marked."""
    return [x for x, flag in zip(values, flags) if flag]


def reached_outputs(jaxpr: Jaxpr, touched: Sequence[bool], differentiable: bool) -> list[bool]:
    """Which results of a jaxpr read a touched argument, followed into the jaxprs that equations hold.

    With `differentiable`, through inexact values only.
    """
    live: set[Any] = {v for v, is_touched in zip(jaxpr.invars, touched) if is_touched}
    for eqn in jaxpr.eqns:
        flags = [type(v) is not Literal and v in live for v in eqn.invars]
        if any(flags):
            reached = zip(eqn.outvars, _reached_results(eqn, flags, differentiable))
            live.update(v for v, is_reached in reached if is_reached and _may_carry(v, differentiable))
    return [type(v) is not Literal and v in live for v in jaxpr.outvars]


def _may_carry(var: Any, differentiable: bool) -> bool:
    return not differentiable or var.aval.dtype in dtypes.INEXACT


def _reached_results(eqn: JaxprEqn, flags: list[bool], differentiable: bool) -> list[bool]:
    regions = regions_of(eqn)
    if not regions or not all(region.follows for region in regions):
        return [True] * len(eqn.outvars)

    def through(jaxpr: Jaxpr, touched: Sequence[bool]) -> list[bool]:
        return reached_outputs(jaxpr, touched, differentiable)

    return propagate(regions, flags, len(eqn.outvars), through, operator.or_, False)


def reached_inputs(jaxpr: Jaxpr, touched: Sequence[bool], linear: Sequence[bool]) -> list[bool]:
    """Which linear arguments of a jaxpr are read by a touched result."""
    live: set[Any] = {v for v, is_touched in zip(jaxpr.outvars, touched) if is_touched and type(v) is not Literal}
    for eqn in reversed(jaxpr.eqns):
        if not live.isdisjoint(eqn.outvars):
            live.update(v for v in eqn.invars if type(v) is not Literal)
    return [is_linear and v in live for v, is_linear in zip(jaxpr.invars, linear)]


def spread(start: Flags, step: Callable[[Flags], Sequence[bool]]) -> Flags:
    """The smallest set of carries that holds `start` and is closed under `step`."""
    while True:
        grown = tuple([a or b for a, b in zip(start, step(start))])
        if grown == start:
            return start
        start = grown


def settle(start: Flags, bound: Flags, trace: Callable[[Flags, Flags], tuple[T, Sequence[bool]]]) -> tuple[T, Flags]:
    """Traces a loop's body with a set of carries touched that its results agree with.

    Args:
      start: the carries that are touched at the start.
      bound: a set that surely holds all that will be touched, from `spread`.
      trace: given the carries touched and those that must come out touched, gives what it made of the body and which
        carries came out touched.
    Returns:
      What `trace` made, and the set of carries.
    """
    none = (False,) * len(start)
    while True:
        made, found = trace(bound, none)
        needed = tuple([a or b for a, b in zip(start, found)])
        if needed == bound:
            return (made if tuple(found) == bound else trace(bound, bound)[0]), bound
        bound = needed
