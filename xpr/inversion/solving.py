"""solve : (jaxpr, some of its arguments and results) -> the rest of them. What `inverse` rests on.

A jaxpr is a set of equations. One whose operands are known is run; one whose results are known is run backwards where
its primitive has an inverse for the operands that are not known. Either may come first: in y = x1, x2 * f(x1) the
second equation waits for the first, so coupling layers need nothing of their own. Of a value that is found entry by
entry, those found can be read before the others. The walk visits an equation when one of its variables becomes known,
and calls are opened only where they hold things up, so it takes linear time.

The logarithm of the determinant of the Jacobian from what is solved for to what was given is the sum, over equations
run backwards, of that of each from the operands it was solved for to its results: the equations in the order in which
they are solved are a triangular system.

Choices whose predicate is known are looked at case by case (cases.py) once nothing else can be done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.avals import aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from xpr.core.source import summarize, text_of
from xpr.errors import NotInvertible
from xpr.inversion.cases import Predicate, Worlds, predicate_of
from xpr.inversion.solutions import CALLS, INVERSES, READS, WRITES, Part, Parts, Solution, Unknown, is_unknown
from xpr.primitives.elementwise import add, copy_p
from xpr.primitives.shapes import reduce_sum, zeros_like_aval
from xpr.primitives.slicing import select, select_n_p
from xpr.text.printer import format_eqn

NOT_PICKED = "Of what it chooses from, not all that is needed follows from the entries that it picks."
OVERWRITTEN = "What it writes, or what it writes over, does not follow from what is known."


class Solver:
    """Variables with their values, and equations that wait."""

    def __init__(self, log_det: bool):
        self.wants_log_det = log_det
        self.log_det: Any = None
        self.values: dict[Any, Any] = {}
        self.touching: dict[Any, list[int]] = {}  # by variable, the equations it stands in
        self.eqns: list[JaxprEqn] = []
        self.done: list[bool] = []
        self.reasons: dict[int, str] = {}
        self.parts: dict[Any, Parts] = {}  # by variable, what is known of it
        self.reads: dict[int, np.ndarray | str] = {}  # which places an equation takes entries from
        self.queue: deque[int] = deque()
        self.calls: list[int] = []  # that were not opened
        self.made_by: dict[Any, JaxprEqn] = {}
        self.worlds: dict[Any, Worlds] = {}  # by predicate, what is known where it picks each case
        self.settled: dict[int, np.ndarray] = {}  # by equation, the entries whose slopes were added in such a case
        self.part_of: dict[int, int] = {}  # by equation, the one of the program that it was put in the place of

    def add(self, eqns: Sequence[JaxprEqn]) -> None:
        for eqn in eqns:
            place = len(self.eqns)
            self.eqns.append(eqn)
            self.done.append(False)
            for v in (*eqn.invars, *eqn.outvars):
                if type(v) is not Literal:
                    self.touching.setdefault(v, []).append(place)
            self.made_by.update((v, eqn) for v in eqn.outvars)
            self.queue.append(place)
            for worlds in self.worlds.values():
                worlds.notice([place])

    def learn(self, var: Any, value: Any) -> None:
        if type(var) is not Literal and var not in self.values:
            self.values[var] = value
            self.queue.extend(self.touching.get(var, ()))
            for worlds in self.worlds.values():
                worlds.notice(self.touching.get(var, ()))

    def read(self, atom: Any) -> Any:
        if type(atom) is Literal:
            return atom.val
        return self.values[atom] if atom in self.values else Unknown(atom.aval)

    def run(self) -> None:
        """Goes on until nothing more can be learned."""
        before = context.source
        try:
            while self.queue or self.open_a_call() or any(worlds.run() for worlds in self.worlds.values()):
                if self.queue:
                    self.visit(self.queue.popleft())
        finally:
            context.source = before

    def visit(self, place: int) -> None:
        if self.done[place]:
            return
        eqn = self.eqns[place]
        context.source = eqn.source
        operands = self.operands_of(eqn, self.read)
        if not any(map(is_unknown, operands)):
            self.done[place] = True
            if any(v not in self.values for v in eqn.outvars):
                outs = context.trace.process(eqn.primitive, operands, eqn.params)
                for v, x in zip(eqn.outvars, outs):
                    self.learn(v, x)
            return
        if eqn.primitive in CALLS:
            self.calls.append(place)
            return
        if eqn.primitive in WRITES and place not in self.part_of:
            self.open_a_write(place, eqn, operands)
            return
        results = [self.read(v) for v in eqn.outvars]
        if eqn.primitive is select_n_p and not is_unknown(operands[0]):
            self.look_at_cases(place, eqn)
            return
        if all(map(is_unknown, results)) and results:
            if eqn.primitive in READS and eqn.invars[0] in self.parts:
                self.read_parts(place, eqn, operands)
            return
        rule = INVERSES.get(eqn.primitive)
        found = rule(results, operands, self.wants_log_det, **eqn.params) if rule else "It has no inverse."
        if isinstance(found, str):
            self.reasons[place] = found
        elif isinstance(found, Part):
            self.done[place] = True
            self.learn_part(eqn.invars[0], found.places, results[0])
        else:
            self.take(place, found)

    def look_at_cases(self, place: int, eqn: JaxprEqn) -> None:
        """Leaves a choice whose predicate is known to the worlds of that predicate."""
        self.reasons[place] = OVERWRITTEN if place in self.part_of else NOT_PICKED
        which = self.predicate_of(eqn.invars[0])
        if which.key not in self.worlds:
            self.worlds[which.key] = Worlds(self, self.read(eqn.invars[0]), which.negated, len(eqn.invars) - 1)
        self.worlds[which.key].notice([place])

    def predicate_of(self, atom: Any) -> Predicate:
        return predicate_of(atom, self.made_by, self.read)

    @staticmethod
    def operands_of(eqn: JaxprEqn, read: Callable[[Any], Any]) -> list[Any]:
        """The operands; one `Unknown` for a variable that is read twice."""
        unknown: dict[Any, Any] = {}
        values = [read(v) for v in eqn.invars]
        return [unknown.setdefault(v, x) if is_unknown(x) else x for v, x in zip(eqn.invars, values)]

    def take(self, place: int, found: Solution) -> None:
        eqn = self.eqns[place]
        self.done[place] = True
        for i, x in found.operands.items():
            self.learn(eqn.invars[i], x)
        for i, x in found.results.items():
            self.learn(eqn.outvars[i], x)
        if self.wants_log_det and found.log_slope is not None:
            self.gain(self.due(place, found.log_slope()))

    def due(self, place: int, slope: Any) -> Any:
        """The slope of an equation, zero at the entries of which it was added before."""
        if place not in self.settled:
            return slope
        return select(self.settled[place], zeros_like_aval(aval_of(slope)), slope)

    def settle(self, place: int, entries: np.ndarray) -> None:
        """Takes note of the entries of an equation whose slopes have been added, or are not to be."""
        if self.eqns[place].outvars[0].aval.shape == entries.shape:
            self.settled[place] = self.settled.get(place, False) | entries

    def gain(self, slope: Any) -> None:
        """Adds the sum of an array to the log-determinant."""
        summed = reduce_sum(slope, range(aval_of(slope).ndim))
        self.log_det = summed if self.log_det is None else add(self.log_det, summed)

    def learn_part(self, var: Any, places: np.ndarray, value: Any) -> None:
        """Puts a value together once all of its parts are known; until then, others may read those that are."""
        parts = self.parts.setdefault(var, Parts(var.aval.size))
        if not parts.add(places, value):
            return
        everything = np.arange(var.aval.size).reshape(var.aval.shape)
        if parts.has(everything):
            self.learn(var, parts.at(everything))
        else:
            self.queue.extend(self.touching[var])

    def read_parts(self, place: int, eqn: JaxprEqn, operands: Sequence[Any]) -> None:
        """Learns the result of an equation that takes entries of a value of which just those are known."""
        if place not in self.reads:
            self.reads[place] = READS[eqn.primitive](operands, **eqn.params)
        places, parts = self.reads[place], self.parts[eqn.invars[0]]
        if not isinstance(places, str) and parts.has(places):
            self.done[place] = True
            self.learn(eqn.outvars[0], parts.at(places))

    def open_a_write(self, place: int, eqn: JaxprEqn, operands: Sequence[Any]) -> None:
        """Puts choices in the place of an equation that writes where it is known, see scatters.py."""
        found = WRITES[eqn.primitive](eqn, operands)
        if isinstance(found, str):
            self.reasons[place] = found
            return
        self.done[place] = True
        self.values.update(found.values)
        self.part_of.update((len(self.eqns) + i, place) for i in range(len(found.eqns)))
        self.add(found.eqns)

    def open_a_call(self) -> bool:
        """Puts the equations of a call in its place; gives whether there was one to open."""
        while self.calls:
            place = self.calls.pop()
            if self.done[place]:
                continue
            self.done[place] = True
            eqn = self.eqns[place]
            jaxpr = CALLS[eqn.primitive](eqn.params)
            renamed: dict[Any, Any] = dict(zip(jaxpr.invars, eqn.invars))
            equal: list[tuple[Any, Any]] = []
            for inner in jaxpr.eqns:
                renamed.update((v, Var(v.aval)) for v in inner.outvars)
            for v, out in zip(jaxpr.outvars, eqn.outvars):
                mine = v if type(v) is Literal else renamed[v]
                equal.append((mine, out))
            self.add([self.renamed(inner, renamed) for inner in jaxpr.eqns])
            self.add([JaxprEqn([mine], [out], copy_p, {}, eqn.source) for mine, out in equal])
            return True
        return False

    @staticmethod
    def renamed(eqn: JaxprEqn, names: dict[Any, Any]) -> JaxprEqn:
        invars = [v if type(v) is Literal else names[v] for v in eqn.invars]
        return eqn.replace(invars=invars, outvars=[names[v] for v in eqn.outvars])

    def blame(self, wanted: Any) -> str:
        """The lines of a message about a variable that was not found: the equation that stands in the way."""
        for place in reversed(range(len(self.eqns))):
            eqn = self.eqns[place]
            if not self.done[place] and place in self.reasons and self.leads_to(wanted, eqn):
                eqn = self.eqns[self.part_of.get(place, place)]
                held = any(True for _ in subjaxprs(eqn))
                lines = [
                    f"  {format_eqn(eqn.replace(params={}) if held else eqn)}",
                    f"  at {summarize(eqn.source)}: {text_of(eqn.source)}",
                ]
                return "\n".join([*lines, f"  {self.reasons[place]}"])
        return "  The result does not determine it: it is not used, or a result that depends on it is not known."

    def leads_to(self, wanted: Any, eqn: JaxprEqn) -> bool:
        """Whether the equation reads something that depends on a variable."""
        reached = {wanted}
        for other in self.eqns:
            if any(type(v) is not Literal and v in reached for v in other.invars):
                if other is eqn:
                    return True
                reached.update(other.outvars)
        return False


def solve(
    jaxpr: Jaxpr, operands: Sequence[Any], results: Sequence[Any], log_det: bool, name: Callable[[int], str]
) -> tuple[list[Any], list[Any], Any]:
    """All arguments and results of a jaxpr without constants, and the log-determinant (None where it is zero).

    Args:
      operands, results: values, `Unknown` where they are to be found.
      name: how messages call an argument.
    Raises:
      NotInvertible: something can't be found.
    """
    solver = Solver(log_det)
    for v, x in (*zip(jaxpr.invars, operands), *zip(jaxpr.outvars, results)):
        if not is_unknown(x):
            solver.learn(v, x)
    solver.add(jaxpr.eqns)
    solver.run()
    for i, v in enumerate(jaxpr.invars):
        if v not in solver.values:
            raise NotInvertible(f"{name(i)} can't be found from what is known.\n{solver.blame(v)}")
    return [solver.values[v] for v in jaxpr.invars], [solver.read(v) for v in jaxpr.outvars], solver.log_det
