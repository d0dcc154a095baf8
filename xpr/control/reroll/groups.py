"""Groups of equations one after another that are wired alike, which reroll.py turns into loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Var


class Equations:
    """A list of equations, with who makes and who reads each variable.

    Attributes:
      producers: of a variable, the place of its equation in the list.
      last_readers: of a variable, the place of the last equation that reads it, or the length of the list for a result.
      numbers: of an equation that has been asked about, the numbers of its results.
      stacks: the arrays made of values in this round, by those.
    """

    def __init__(self, jaxpr: Jaxpr, eqns: Sequence[JaxprEqn]):
        self.eqns = eqns
        self.producers: dict[Any, int] = {v: index for index, eqn in enumerate(eqns) for v in eqn.outvars}
        self.last_readers: dict[Any, int] = {v: index for index, eqn in enumerate(eqns) for v in eqn.invars}
        self.last_readers.update(dict.fromkeys(jaxpr.outvars, len(eqns)))
        self.numbers: dict[int, dict[Any, int]] = {}
        self.stacks: dict[Any, Var] = {}

    def number(self, atom: Atom, index: int) -> int:
        """Which result of an equation a variable is."""
        outvars = self.eqns[index].outvars
        if len(outvars) == 1:
            return 0
        if index not in self.numbers:
            self.numbers[index] = {v: i for i, v in enumerate(outvars)}
        return self.numbers[index][atom]

    def made_by(self, atom: Atom, primitive: Any) -> JaxprEqn | None:
        """The equation that makes a value, if it is one of that primitive."""
        index = self.producers.get(atom)
        return None if index is None or self.eqns[index].primitive is not primitive else self.eqns[index]


class Place(NamedTuple):
    """A result of a group: that of the equation at `position`, in this group or `back` groups before."""

    back: int
    position: int
    result: int


class Groups:
    """Groups of equations one after another that are wired alike.

    Attributes:
      slots: for each equation of a group and each operand, a `Place`, or None for what comes from before the groups.
      start, period, count: the first equation, and how many there are in a group, and groups.
    """

    def __init__(self, whole: Equations, start: int, period: int, count: int):
        self.whole, self.start, self.period, self.count = whole, start, period, count
        middle = count // 2
        self.slots: list[list[Place | None]] = []
        for eqn in self.group(middle):
            places = [self.place(v, middle) if v in whole.producers else None for v in eqn.invars]
            if any(place is not None and place.back > 1 for place in places):
                self.count = 0
                return
            self.slots.append(places)
        if not any(place is not None and place.back for places in self.slots for place in places):
            self.count = 0  # no chain
            return
        first = last = middle
        while last + 1 < count and self.agrees(last + 1, False):
            last += 1
        while first > 0 and self.agrees(first, False):
            first -= 1
        if not self.agrees(first, True):
            first += 1
        self.start, self.count = start + first * period, last + 1 - first

    @property
    def end(self) -> int:
        return self.start + self.count * self.period

    def group(self, number: int) -> Sequence[JaxprEqn]:
        begin = self.start + number * self.period
        return self.whole.eqns[begin : begin + self.period]

    def place(self, atom: Any, number: int) -> Place | None:
        """Where a group finds the result of an equation; None where it comes from before the groups."""
        index = self.whole.producers[atom]
        if index < self.start:
            return None
        back, position = divmod(index - self.start, self.period)
        return Place(number - back, position, self.whole.number(atom, index))

    def agrees(self, number: int, is_first: bool) -> bool:
        """Whether a group is wired like the one in the middle; the first may get its carry from anywhere before it."""
        eqns, producers, begin = self.whole.eqns, self.whole.producers, self.start + number * self.period
        for eqn, slots in zip(self.group(number), self.slots):
            for atom, wanted in zip(eqn.invars, slots):
                index = producers.get(atom, -1)
                if wanted is None:
                    if index >= self.start:
                        return False
                    continue
                back, position, result = wanted
                if is_first and back:
                    if index >= begin:
                        return False
                elif index != begin + position - back * self.period or eqns[index].outvars[result] is not atom:
                    return False
        return True
