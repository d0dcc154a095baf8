"""Consecutive groups of equations with the same data dependencies, which reroll.py turns into loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Var


class Equations:
    """A list of equations, with the producer and the readers of each variable.

    Attributes:
      producers: of a variable, the index of its equation in the list.
      last_readers: of a variable, the index of the last equation that reads it, or the length of the list for a result.
      numbers: of an equation, once `number` needed it, the numbers of its results.
      stacks: the arrays stacked in this round, by their values.
    """

    def __init__(self, jaxpr: Jaxpr, eqns: Sequence[JaxprEqn]):
        self.eqns = eqns
        self.producers: dict[Any, int] = {v: index for index, eqn in enumerate(eqns) for v in eqn.outvars}
        self.last_readers: dict[Any, int] = {v: index for index, eqn in enumerate(eqns) for v in eqn.invars}
        self.last_readers.update(dict.fromkeys(jaxpr.outvars, len(eqns)))
        self.numbers: dict[int, dict[Any, int]] = {}
        self.stacks: dict[Any, Var] = {}

    def number(self, atom: Atom, index: int) -> int:
        """The index of a variable among the results of its equation."""
        outvars = self.eqns[index].outvars
        if len(outvars) == 1:
            return 0
        if index not in self.numbers:
            self.numbers[index] = {v: i for i, v in enumerate(outvars)}
        return self.numbers[index][atom]

    def producer_of(self, atom: Atom, primitive: Any) -> JaxprEqn | None:
        """The equation that computes a value, if its primitive is this one."""
        index = self.producers.get(atom)
        return None if index is None or self.eqns[index].primitive is not primitive else self.eqns[index]


class ResultRef(NamedTuple):
    """A result of the equation at `position` in a group: this group or the one `back` groups before."""

    back: int
    position: int
    result: int


class EquationGroups:
    """Consecutive groups of equations with the same data dependencies.

    Attributes:
      slots: for each equation of a group and each operand, a `ResultRef`, or None for values from before the groups.
      start, period, count: the index of the first equation, the equations per group, and the number of groups.
    """

    def __init__(self, whole: Equations, start: int, period: int, count: int):
        self.whole, self.start, self.period, self.count = whole, start, period, count
        middle = count // 2
        self.slots: list[list[ResultRef | None]] = []
        for eqn in self.group(middle):
            refs = [self.ref(v, middle) if v in whole.producers else None for v in eqn.invars]
            if any(ref is not None and ref.back > 1 for ref in refs):
                self.count = 0
                return
            self.slots.append(refs)
        if not any(ref is not None and ref.back for refs in self.slots for ref in refs):
            self.count = 0  # no chain
            return
        first = last = middle
        while last + 1 < count and self.matches(last + 1, False):
            last += 1
        while first > 0 and self.matches(first, False):
            first -= 1
        if not self.matches(first, True):
            first += 1
        self.start, self.count = start + first * period, last + 1 - first

    @property
    def end(self) -> int:
        return self.start + self.count * self.period

    def group(self, number: int) -> Sequence[JaxprEqn]:
        begin = self.start + number * self.period
        return self.whole.eqns[begin : begin + self.period]

    def ref(self, atom: Any, number: int) -> ResultRef | None:
        """The `ResultRef` of an operand, as seen from a group; None if it comes from before the groups."""
        index = self.whole.producers[atom]
        if index < self.start:
            return None
        back, position = divmod(index - self.start, self.period)
        return ResultRef(number - back, position, self.whole.number(atom, index))

    def matches(self, number: int, is_first: bool) -> bool:
        """Whether a group has the middle one's dependencies; the first may get its carry from anywhere before it."""
        eqns, producers, begin = self.whole.eqns, self.whole.producers, self.start + number * self.period
        for eqn, slots in zip(self.group(number), self.slots):
            for atom, ref in zip(eqn.invars, slots):
                index = producers.get(atom, -1)
                if ref is None:
                    if index >= self.start:
                        return False
                    continue
                back, position, result = ref
                if is_first and back:
                    if index >= begin:
                        return False
                elif index != begin + position - back * self.period or eqns[index].outvars[result] is not atom:
                    return False
        return True
