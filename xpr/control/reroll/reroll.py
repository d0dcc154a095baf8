"""reroll : jaxpr -> jaxpr. Groups of equations that repeat, each going on from the one before, become one scan.

A network of 48 layers that Python wrote out is 48 times the same equations. Here the equations are numbered by what
they do, so that two have one number if they differ in the names of variables alone; compile/repeats.py says where
the numbers repeat; and how the groups of such a stretch are wired says whether it is a loop. An operand of a group's
equation must be, in all groups,

* a result of the same group, at the same place;
* a result of the group before, at the same place: a *carry*, which the first group gets from elsewhere;
* something from before the stretch: a *constant* where it is always the same, else a row of an array that is stacked.

Nothing is computed that was not before, in the same order; rows are copied into stacks, but for those that were taken
out of one array in order. A group with an effect is left alone.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from heapq import nsmallest
from itertools import accumulate
from typing import Any

import numpy as np

from xpr.compile.repeats import Stretch, stretches
from xpr.control.reroll.groups import Equations, Groups
from xpr.control.reroll.loop import Loop
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, given_program, with_subjaxprs
from xpr.passes.dce import live_jaxpr, without_unread_constants
from xpr.passes.structure import Numbers
from xpr.primitives.shapes import squeeze_p
from xpr.primitives.slicing import slice_p

LEAST = 4  # repetitions
_ROTATIONS = 4  # ways to cut a stretch into groups that are tried


def reroll(closed: ClosedJaxpr, least: int = LEAST) -> ClosedJaxpr:
    """The same program with groups of equations that repeat, each going on from the one before, as one `scan`.

    What differs from group to group, such as the parameters of layers, is stacked. It is done where the program becomes
    shorter, also within what calls, loops and branches hold, and for groups within groups.

    Args:
      closed: the program.
      least: how many repetitions are worth a loop, 3 or more.
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
    closed = given_program("reroll", closed)
    return without_unread_constants(_rerolled(live_jaxpr(closed.jaxpr), least), closed.consts)


def _rerolled(jaxpr: Jaxpr, least: int) -> Jaxpr:
    """A live jaxpr with its repetitions as loops, at any depth; remembered with it."""
    key = ("rerolled", least)
    if key not in jaxpr.memo:
        eqns = _rolled(jaxpr, least) if len(jaxpr.eqns) >= 2 * least else jaxpr.eqns
        inside = partial(_rerolled, least=least)
        eqns = [with_subjaxprs(eqn, inside) if eqn.primitive.call else eqn for eqn in eqns]
        is_same = len(eqns) == len(jaxpr.eqns) and all(map(operator.is_, eqns, jaxpr.eqns))
        rolled = jaxpr if is_same else live_jaxpr(jaxpr.replace(eqns=eqns))
        jaxpr.memo[key] = rolled.memo[key] = rolled
    return jaxpr.memo[key]


def _rolled(jaxpr: Jaxpr, least: int) -> Sequence[JaxprEqn]:
    """The equations of a jaxpr with loops in place of groups.

    Each round looks where the one before put new ones, where a loop was not worth its stacks (the new loops may make
    what would be stacked), and at periods that were not among the commonest before.
    """
    eqns = _slices_first(jaxpr, jaxpr.eqns)
    slices = list(filter(_is_slice, eqns))
    numbers = Numbers()
    look_at: set[JaxprEqn] = set()
    periods: set[int] = set()
    while len(eqns) >= 2 * least:
        every = stretches(numbers.of(eqns), least)
        earlier = np.cumsum([False, False, *map(look_at.__contains__, eqns), False])  # how many, before the one before
        found = [s for s in every if s.period not in periods or earlier[s.start] < earlier[s.end + 2]]
        periods.update(s.period for s in every)
        if not found:
            break
        eqns, new, look_at = _round(Equations(jaxpr, eqns), found, least)
        if not new:
            break
        made = {v for eqn in new for v in eqn.outvars}
        new_slices = list(filter(_is_slice, new))  # where one is taken of what is as new, it stands right behind that
        if any(eqn.invars[0] not in made for eqn in new_slices) or any(eqn.invars[0] in made for eqn in slices):
            eqns = _slices_first(jaxpr, eqns)
        slices += new_slices
    return eqns


def _round(
    whole: Equations, found: Sequence[Stretch], least: int
) -> tuple[Sequence[JaxprEqn], set[JaxprEqn], set[JaxprEqn]]:
    """The equations with loops in place of groups, those that are new, and those by which to look again."""
    loops, refused = _loops(whole, found, least)
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
    """The equations with slices, which differ in the place they are taken from, right after what they are taken of."""
    slices = {eqn: None for eqn in eqns if _is_slice(eqn)}
    if not slices:
        return eqns
    waiting: dict[Any, list[JaxprEqn]] = {}
    for eqn in slices:
        waiting.setdefault(eqn.invars[0], []).append(eqn)
    ordered: list[JaxprEqn] = []

    def bound(variables: Sequence[Any]) -> None:
        ready = [eqn for v in variables for eqn in waiting.get(v, ())][::-1]
        while ready:
            eqn = ready.pop()
            ordered.append(eqn)
            ready += reversed(waiting.get(eqn.outvars[0], ()))

    bound([*jaxpr.constvars, *jaxpr.invars])
    for eqn in eqns:
        if eqn not in slices:
            ordered.append(eqn)
            if not waiting.keys().isdisjoint(eqn.outvars):
                bound(eqn.outvars)
    return ordered


def _is_slice(eqn: JaxprEqn) -> bool:
    return (eqn.primitive is slice_p or eqn.primitive is squeeze_p) and type(eqn.invars[0]) is not Literal


def _loops(whole: Equations, found: Sequence[Stretch], least: int) -> tuple[list[Loop], list[Loop]]:
    """The loops that stretches become, as far as they don't overlap, and those that are not worth it."""
    loops: list[Loop] = []
    refused: list[Loop] = []
    taken = np.zeros(len(whole.eqns), bool)
    for stretch in found:
        groups = None if taken[stretch.start : stretch.end].any() else _groups(whole, stretch, least)
        if groups is None:
            continue
        loop = Loop(whole, groups)
        if loop.is_worth_it():
            loops.append(loop)
            taken[groups.start : groups.end] = True
        else:
            refused.append(loop)
    return loops, refused


def _groups(whole: Equations, stretch: Stretch, least: int) -> Groups | None:
    """The stretch cut into groups that are wired alike, as many as there can be.

    A group may read what was computed two or three periods before; then as many periods are one group.
    """
    for periods in (1, 2, 3):
        longer = stretch._replace(period=periods * stretch.period)
        if longer.repeats < least:
            break
        for start in _cuts(whole, longer, least):
            groups = Groups(whole, start, longer.period, (longer.end - start) // longer.period)
            if groups.count >= least:
                return groups
    return None


def _cuts(whole: Equations, stretch: Stretch, least: int) -> list[int]:
    """Where the first of enough groups may start, best where fewest values go from a group to the next."""
    _, _, period = stretch
    fitting = range(min(period, stretch.end - stretch.start - least * period + 1))
    if len(fitting) == 1:
        return [stretch.start]
    middle = stretch.start + (stretch.repeats // 2) * period
    begin, eqns = max(middle - 2 * period, stretch.start), whole.eqns
    readers = range(begin, min(middle + 3 * period, stretch.end))
    last = {v: index for index in readers for v in eqns[index].invars}
    changes = [0] * (period + 1)  # of the number of values that pass a cut, by place in the middle group
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
    return [stretch.start + i for i in nsmallest(_ROTATIONS, fitting, key=passing.__getitem__)]
