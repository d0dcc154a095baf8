"""reroll : jaxpr -> jaxpr. Groups of equations that repeat, each going on from the one before, become one scan.

A network of 48 layers that Python wrote out is 48 times the same equations. Here the equations are numbered by what
they do, so that two have one number if they differ in the names of variables alone; transforms/periods.py says where
the numbers repeat; and how the groups of such a stretch are wired says whether it is a loop. An operand of a group's
equation must be, in all groups,

* a result of the same group, at the same place;
* a result of the group before, at the same place: a *carry*, which the first group gets from elsewhere;
* something from before the stretch: a *constant* where it is always the same, else a row of an array that is stacked.

Nothing is computed that was not before, in the same order; rows are copied into stacks, but for those that were taken
out of one array in order. A group with an effect is left alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from heapq import nsmallest
from itertools import accumulate
from typing import Any

import numpy as np

from xpr.control.reroll_groups import Equations, Groups
from xpr.control.reroll_loop import Loop
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, given_program, with_subjaxprs
from xpr.primitives.placing import slice_p
from xpr.primitives.shapes import squeeze_p
from xpr.transforms.dce import live_jaxpr, without_unread_constants
from xpr.transforms.likeness import numbered
from xpr.transforms.periods import Stretch, stretches

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
    """A jaxpr with its repetitions as loops, at any depth; remembered with it."""
    key = ("rerolled", least)
    if key not in jaxpr.memo:
        eqns, found = jaxpr.eqns, True
        refused: set[Any] = set()
        while found:
            eqns, found = _Rolling(Equations(jaxpr, _slices_first(jaxpr, eqns)), least, refused).result()
        inside = partial(_rerolled, least=least)
        eqns = [with_subjaxprs(eqn, inside) if eqn.primitive.call else eqn for eqn in eqns]
        rolled = live_jaxpr(jaxpr.replace(eqns=eqns))
        jaxpr.memo[key] = rolled.memo[key] = rolled
    return jaxpr.memo[key]


def _slices_first(jaxpr: Jaxpr, eqns: Sequence[JaxprEqn]) -> list[JaxprEqn]:
    """The equations with slices, which differ in the place they are taken from, right after what they are taken of."""
    waiting: dict[Any, list[JaxprEqn]] = {}
    for eqn in eqns:
        if _is_slice(eqn):
            waiting.setdefault(eqn.invars[0], []).append(eqn)
    if not waiting:
        return list(eqns)
    ordered: list[JaxprEqn] = []

    def bound(variables: Sequence[Any]) -> None:
        ready = [eqn for v in variables for eqn in waiting.pop(v, ())][::-1]
        while ready:
            eqn = ready.pop()
            ordered.append(eqn)
            ready += reversed(waiting.pop(eqn.outvars[0], ()))

    bound([*jaxpr.constvars, *jaxpr.invars])
    for eqn in eqns:
        if not _is_slice(eqn):
            ordered.append(eqn)
            bound(eqn.outvars)
    return ordered


def _is_slice(eqn: JaxprEqn) -> bool:
    return (eqn.primitive is slice_p or eqn.primitive is squeeze_p) and type(eqn.invars[0]) is not Literal


class _Rolling:
    """One round over a list of equations; `refused` are the stretches that are no loops, over all rounds."""

    def __init__(self, whole: Equations, least: int, refused: set[Any]):
        self.whole, self.least, self.refused = whole, least, refused

    def result(self) -> tuple[list[JaxprEqn], bool]:
        """The equations with loops in place of groups, and whether there are any."""
        if len(self.whole.eqns) < 2 * self.least:
            return self.whole.eqns, False
        loops: list[Loop] = []
        taken = np.zeros(len(self.whole.eqns), bool)
        for stretch in stretches(numbered(self.whole.eqns), self.least):
            groups = None if taken[stretch.start : stretch.end].any() else self.groups(stretch)
            loop = groups and Loop(self.whole, groups)
            if loop and loop.is_worth_it():
                loops.append(loop)
                taken[loop.groups.start : loop.groups.end] = True
        ordered: list[JaxprEqn] = []
        index = 0
        for loop in sorted(loops, key=lambda loop: loop.groups.start):
            ordered += self.whole.eqns[index : loop.groups.start]
            loop.write(ordered)
            index = loop.groups.end
        return ordered + self.whole.eqns[index:], bool(loops)

    def groups(self, stretch: Stretch) -> Groups | None:
        """The stretch cut into groups that are wired alike, as many as there can be.

        A group may read what was computed two or three periods before; then as many periods are one group.
        """
        first, last = self.whole.eqns[stretch.start], self.whole.eqns[stretch.end - 1]
        key = first, last, stretch.end - stretch.start, stretch.period
        if key in self.refused:
            return None
        for periods in (1, 2, 3):
            longer = stretch._replace(period=periods * stretch.period)
            if longer.repeats < self.least:
                break
            for start in self.cuts(longer):
                groups = Groups(self.whole, start, longer.period, (longer.end - start) // longer.period)
                if groups.count >= self.least:
                    return groups
        self.refused.add(key)
        return None

    def cuts(self, stretch: Stretch) -> list[int]:
        """Where the first group may start, best where fewest values go from a group to the next; a chain has some."""
        _, _, period = stretch
        middle = stretch.start + (stretch.repeats // 2) * period
        changes = [0] * (period + 1)  # of the number of values that pass a cut, by place in the middle group
        for index in range(max(middle - 2 * period, stretch.start), middle + period):
            limit = min(index + 2 * period, stretch.end)
            first = max(index + 1 - middle, 0)
            for v in self.whole.eqns[index].outvars:
                readers = self.whole.readers.get(v, ())  # in order
                last = bisect_left(readers, limit)
                past = min(readers[last - 1] + 1 - middle, period) if last else 0
                if first < past:
                    changes[first] += 1
                    changes[past] -= 1
        passing = list(accumulate(changes[:period]))
        if not all(passing):
            return []
        return [stretch.start + i for i in nsmallest(_ROTATIONS, range(period), key=passing.__getitem__)]
