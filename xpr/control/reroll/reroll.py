"""reroll : jaxpr -> jaxpr. Repeated groups of equations, each of which reads the previous one's results, become a scan.

A network of 48 layers, unrolled by Python, is 48 times the same equations. Here the equations are numbered so that two
have the same number if they differ only in the names of variables; compile/repeats.py finds where
the numbers repeat; and the data dependencies of the repeated groups decide whether they are a loop. An operand of a
group's equation must be, in all groups,

* a result of the same group, at the same position;
* a result of the previous group, at the same position: a *carry*, which the first group gets from elsewhere;
* a value from before the groups: a *constant* if it is the same in all groups, else a row of a stacked array.

The operations and their order are unchanged; rows are copied into stacks, except rows sliced from one array in order.
A group with an effect is left unchanged.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from heapq import nsmallest
from itertools import accumulate
from typing import Any

import numpy as np

from xpr.compile.repeats import Repetition, repetitions
from xpr.control.reroll.groups import EquationGroups, Equations
from xpr.control.reroll.loop import RerolledLoop
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, require_closed_jaxpr, with_subjaxprs
from xpr.passes.dce import live_jaxpr, without_unused_constants
from xpr.passes.structure import EquationNumbers
from xpr.primitives.shapes import squeeze_p
from xpr.primitives.slicing import slice_p

LEAST = 4  # repetitions
_ROTATIONS = 4  # ways to divide repeats into groups that are tried


def reroll(closed: ClosedJaxpr, least: int = LEAST) -> ClosedJaxpr:
    """The same program with repeated groups of equations, each reading the previous one's results, as one `scan`.

    Values that differ from group to group, such as the parameters of layers, are stacked. Groups are replaced if the
    program becomes shorter, also within calls, loops and branches, and for groups within groups.

    Args:
      closed: the program, a `ClosedJaxpr`.
      least: how many repetitions are worth a loop, 3 or more.

    Returns:
      A `ClosedJaxpr`.

    Raises:
      ValueError: `least` is less than 3.

    >>> import xpr, xpr.numpy as jnp
    >>> def f(x):
    ...     for _ in range(48):
    ...         x = jnp.sin(x) + x
    ...     return x
    >>> xpr.jaxpr.reroll(xpr.make_jaxpr(f)(1.0))
    { lambda ; a:f32[]. let
        b:f32[] = scan[
          jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c; e:f32[] = add d c in (e,) }
          length=48
          linear=(False,)
          num_carry=1
          num_consts=0
          reverse=False
          unroll=1
        ] a
      in (b,) }
    """
    if least < 3:
        raise ValueError(f"reroll: `least` must be 3 or more repetitions, and is {least}.")
    closed = require_closed_jaxpr("reroll", closed)
    return without_unused_constants(_rerolled(live_jaxpr(closed.jaxpr), least), closed.consts)


def _rerolled(jaxpr: Jaxpr, least: int) -> Jaxpr:
    """A live jaxpr with its repetitions as loops, at any depth; cached with it."""
    key = ("rerolled", least)
    if key not in jaxpr.memo:
        eqns = _rolled(jaxpr, least) if len(jaxpr.eqns) >= 2 * least else jaxpr.eqns
        inside = partial(_rerolled, least=least)
        eqns = [with_subjaxprs(eqn, inside) if eqn.primitive.call else eqn for eqn in eqns]
        is_same = len(eqns) == len(jaxpr.eqns) and all(map(operator.is_, eqns, jaxpr.eqns))
        rolled = jaxpr if is_same else live_jaxpr(jaxpr.replace(eqns=eqns))
        jaxpr.memo[key] = rolled
        rolled.memo[key] = None  # itself, which would be a reference cycle
    return jaxpr.memo[key] or jaxpr


def _rolled(jaxpr: Jaxpr, least: int) -> Sequence[JaxprEqn]:
    """The equations of a jaxpr with loops in place of groups.

    Each round examines the new equations of the previous one, loops that were not worth their stacks (new loops may
    compute the stacks), and periods that were not among the commonest before.
    """
    eqns = _slices_first(jaxpr, jaxpr.eqns)
    slices = list(filter(_is_slice, eqns))
    numbers = EquationNumbers()
    candidates: set[JaxprEqn] = set()
    periods: set[int] = set()
    while len(eqns) >= 2 * least:
        every = repetitions(numbers.of(eqns), least)
        earlier = np.cumsum([False, False, *map(candidates.__contains__, eqns), False])  # before the previous one
        repeats = [s for s in every if s.period not in periods or earlier[s.start] < earlier[s.end + 2]]
        periods.update(s.period for s in every)
        if not repeats:
            break
        eqns, new, candidates = _round(Equations(jaxpr, eqns), repeats, least)
        if not new:
            break
        results = {v for eqn in new for v in eqn.outvars}
        new_slices = list(filter(_is_slice, new))  # a slice of a new result directly follows it
        if any(eqn.invars[0] not in results for eqn in new_slices) or any(eqn.invars[0] in results for eqn in slices):
            eqns = _slices_first(jaxpr, eqns)
        slices += new_slices
    return eqns


def _round(
    whole: Equations, repeats: Sequence[Repetition], least: int
) -> tuple[Sequence[JaxprEqn], set[JaxprEqn], set[JaxprEqn]]:
    """The equations with loops in place of groups, those that are new, and those to examine again."""
    loops, refused = _loops(whole, repeats, least)
    ordered: list[JaxprEqn] = []
    new: set[JaxprEqn] = set()
    index = 0
    for loop in sorted(loops, key=lambda loop: loop.groups.start):
        ordered += whole.eqns[index : loop.groups.start]
        written = loop.written()
        ordered += written
        new.update(written)
        index = loop.groups.end
    ordered += whole.eqns[index:]
    return ordered, new, new.union(loop.groups.group(0)[0] for loop in refused)


def _slices_first(jaxpr: Jaxpr, eqns: Sequence[JaxprEqn]) -> Sequence[JaxprEqn]:
    """The equations with slices, which differ in their start indices, directly after their operands."""
    slices = {eqn: None for eqn in eqns if _is_slice(eqn)}
    if not slices:
        return eqns
    slices_of: dict[Any, list[JaxprEqn]] = {}
    for eqn in slices:
        slices_of.setdefault(eqn.invars[0], []).append(eqn)
    ordered: list[JaxprEqn] = []

    def append_slices(variables: Sequence[Any]) -> None:
        pending = [eqn for v in variables for eqn in slices_of.get(v, ())][::-1]
        while pending:
            eqn = pending.pop()
            ordered.append(eqn)
            pending += reversed(slices_of.get(eqn.outvars[0], ()))

    append_slices([*jaxpr.constvars, *jaxpr.invars])
    for eqn in eqns:
        if eqn not in slices:
            ordered.append(eqn)
            if not slices_of.keys().isdisjoint(eqn.outvars):
                append_slices(eqn.outvars)
    return ordered


def _is_slice(eqn: JaxprEqn) -> bool:
    return (eqn.primitive is slice_p or eqn.primitive is squeeze_p) and type(eqn.invars[0]) is not Literal


def _loops(
    whole: Equations, repeats: Sequence[Repetition], least: int
) -> tuple[list[RerolledLoop], list[RerolledLoop]]:
    """The loops that replace repeats, if they don't overlap, and the loops that are not worth it."""
    loops: list[RerolledLoop] = []
    refused: list[RerolledLoop] = []
    taken = np.zeros(len(whole.eqns), bool)
    for repetition in repeats:
        groups = None if taken[repetition.start : repetition.end].any() else _groups(whole, repetition, least)
        if groups is None:
            continue
        loop = RerolledLoop(whole, groups)
        if loop.is_worth_it():
            loops.append(loop)
            taken[groups.start : groups.end] = True
        else:
            refused.append(loop)
    return loops, refused


def _groups(whole: Equations, repetition: Repetition, least: int) -> EquationGroups | None:
    """The repeats divided into groups with the same data dependencies, as many as possible.

    A group may read values computed two or three periods before; then this many periods are one group.
    """
    for periods in (1, 2, 3):
        longer = repetition._replace(period=periods * repetition.period)
        if longer.repeats < least:
            break
        for start in _starts(whole, longer, least):
            groups = EquationGroups(whole, start, longer.period, (longer.end - start) // longer.period)
            if groups.count >= least:
                return groups
    return None


def _starts(whole: Equations, repetition: Repetition, least: int) -> list[int]:
    """Where the first group may start, best first: where fewest values pass from a group to the next."""
    _, _, period = repetition
    fitting = range(min(period, repetition.end - repetition.start - least * period + 1))
    if len(fitting) == 1:
        return [repetition.start]
    middle = repetition.start + (repetition.repeats // 2) * period
    begin, eqns = max(middle - 2 * period, repetition.start), whole.eqns
    readers = range(begin, min(middle + 3 * period, repetition.end))
    last = {v: index for index in readers for v in eqns[index].invars}
    changes = [0] * (period + 1)  # in the number of values that pass a boundary, by position in the middle group
    for index in range(begin, middle + period):
        first = max(index + 1 - middle, 0)
        for v in eqns[index].outvars:
            past = min(last.get(v, -1) + 1 - middle, period)
            if first < past:
                changes[first] += 1
                changes[past] -= 1
    passing = list(accumulate(changes[:period]))
    if not all(passing):
        return []
    return [repetition.start + i for i in nsmallest(_ROTATIONS, fitting, key=passing.__getitem__)]
