"""Groups of equations one after another that are wired alike, which control/reroll.py turns into loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var


class Equations:
    """A list of equations, with who makes and who reads each variable.

    Attributes:
      producers: of a variable, the place of its equation in the list, and which result of that it is.
      readers: of a variable, the places of the equations that read it, and the length of the list for a result.
      stacks: the arrays made of values in this round, by those.
    """

    def __init__(self, jaxpr: Jaxpr, eqns: Sequence[JaxprEqn]):
        self.eqns = list(eqns)
        self.producers: dict[Any, tuple[int, int]] = {}
        self.readers: dict[Any, list[int]] = {}
        self.stacks: dict[Any, Var] = {}
        for index, eqn in enumerate(eqns):
            for v in eqn.invars:
                if type(v) is not Literal:
                    self.readers.setdefault(v, []).append(index)
            for i, v in enumerate(eqn.outvars):
                self.producers[v] = index, i
        for v in jaxpr.outvars:
            self.readers.setdefault(v, []).append(len(eqns))

    def made_by(self, atom: Atom, primitive: Any) -> JaxprEqn | None:
        """The equation that makes a value, if it is one of that primitive."""
        index, _ = self.producers.get(atom, (-1, 0))
        eqn = self.eqns[index]
        return eqn if index >= 0 and eqn.primitive is primitive else None


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
        self.slots = [[self.place(v, middle, start) for v in eqn.invars] for eqn in self.group(middle)]
        if any(place is not None and place.back > 1 for slots in self.slots for place in slots):
            self.count = 0
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

    def group(self, number: int) -> list[JaxprEqn]:
        begin = self.start + number * self.period
        return self.whole.eqns[begin : begin + self.period]

    def place(self, atom: Atom, number: int, start: int) -> Place | None:
        """Where a group finds an operand; None where it comes from before the groups."""
        producer = None if type(atom) is Literal else self.whole.producers.get(atom)
        if producer is None or producer[0] < start:
            return None
        back, position = divmod(producer[0] - start, self.period)
        return Place(number - back, position, producer[1])

    def agrees(self, number: int, is_first: bool) -> bool:
        """Whether a group is wired like the one in the middle; the first may get its carry from anywhere before it."""
        producers, begin = self.whole.producers, self.start + number * self.period
        for eqn, slots in zip(self.group(number), self.slots):
            for atom, wanted in zip(eqn.invars, slots):
                index, result = (-1, 0) if type(atom) is Literal else producers.get(atom, (-1, 0))
                if wanted is None:
                    if index >= self.start:
                        return False
                elif is_first and wanted.back == 1:
                    if index >= begin:
                        return False
                elif index != begin + wanted.position - wanted.back * self.period or result != wanted.result:
                    return False
        return True
