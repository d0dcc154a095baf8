"""Choices whose predicate is known: the equations seen where it picks a certain case.

In y = select_n(p, a, b) no operand follows from y as a whole. But where p is false y is a, where it is true y is b, and
what follows from that entry by entry is known there. A `World` holds what is known where the predicate picks one case;
arrays in it are whole, and only those entries mean something. What all worlds of a predicate know is known. So in

    y = where(mask, x, x * exp(s) + t)      s, t = functions of where(mask, x, 0)

x is y where the mask is true; of where(mask, x, 0) both worlds know their entries, hence it is known, and s and t; and
so is x where the mask is false. Every operation may be crossed if the predicate is a scalar, otherwise entrywise ones.

Where the mask itself is known, so are the places of each world's entries: those of a value that one world knows can be
read by themselves, as by x[:2], also where the others are not known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.control.remat.policies import name_p
from xpr.control.stop_gradient import stop_gradient_p
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer, context
from xpr.core.jaxpr import JaxprEqn, Literal
from xpr.core.primitive import Primitive, key_of
from xpr.inversion.solutions import INVERSES, READS, Solution
from xpr.numpy.indexing.take import take
from xpr.primitives import elementwise, special
from xpr.primitives.elementwise import eq, not_p
from xpr.primitives.shapes import broadcast_in_dim_p, full, reduce_sum, reshape, reshape_p
from xpr.primitives.slicing import select, select_n, select_n_p

ENTRYWISE = frozenset({p for m in (elementwise, special) for p in vars(m).values() if isinstance(p, Primitive)})
ENTRYWISE |= {name_p, stop_gradient_p}
_NAMED_BY_WHAT_MAKES_THEM = {broadcast_in_dim_p, reshape_p, elementwise.convert_element_type_p, elementwise.copy_p}


class Predicate(NamedTuple):
    """A predicate by what it is made of, so that one that is computed twice is the same; and whether it is negated."""

    key: Any
    negated: bool


def predicate_of(atom: Any, made_by: dict[Any, JaxprEqn], read: Callable[[Any], Any]) -> Predicate:
    """The predicate that a variable holds, whose value is known."""
    eqn = None if type(atom) is Literal else made_by.get(atom)
    if eqn is not None and eqn.primitive is not_p and atom.aval.dtype == dtypes.bool_:
        inner = predicate_of(eqn.invars[0], made_by, read)
        return Predicate(inner.key, not inner.negated)
    if eqn is not None and eqn.primitive in _NAMED_BY_WHAT_MAKES_THEM:
        inner = predicate_of(eqn.invars[0], made_by, read)
        return Predicate((eqn.primitive, *key_of(eqn.params), inner.key), inner.negated)
    value = read(atom)
    if isinstance(value, Tracer):
        return Predicate(atom, False)
    array = np.asarray(value)
    negated = array.dtype == bool and bool(array.size) and bool(array.flat[0])  # a mask and its negation are one
    return Predicate((array.shape, array.dtype, (~array if negated else array).tobytes()), negated)


class Worlds:
    """What is known where one predicate picks each of its cases. What all of them know goes to the solver."""

    def __init__(self, solver: Any, predicate: Any, negated: bool, cases: int):
        self.solver, self.predicate, self.negated = solver, predicate, negated
        self.shape = aval_of(predicate).shape
        self.worlds = [World(self, case) for case in range(cases)]
        self.known_to_all: list[Any] = []
        is_seen = self.shape and not isinstance(predicate, Tracer)
        self.cases = np.asarray(predicate) if is_seen else None  # which case each entry is of

    def notice(self, places: Any) -> None:
        for world in self.worlds:
            world.queue.extend(places)

    def run(self) -> bool:
        """Goes on until no world finds more, then hands over what all of them know; gives whether that was something.

        Not before: what one world has computed from its argument must not be run backwards to it by the solver.
        """
        while any(world.queue for world in self.worlds):
            for world in self.worlds:
                while world.queue:
                    world.visit(world.queue.popleft())
        found = {var: self.merged(var) for var in self.known_to_all if var not in self.solver.values}
        self.known_to_all.clear()
        for var, value in found.items():
            self.solver.learn(var, value)
        parts = [world.hand_over(var) for world in self.worlds for var in world.asked_for()]
        return bool(found) or any(parts)

    def case_of(self, world: World, negated: bool) -> int:
        """Which operand a select_n of the predicate, or of its negation, picks in a world."""
        return world.case if negated == self.negated else 1 - world.case

    def found(self, var: Any) -> None:
        """Takes note of a variable that all worlds know."""
        if all(var in world.values for world in self.worlds):
            self.known_to_all.append(var)

    def merged(self, var: Any) -> Any:
        """The value of a variable, put together from all worlds, whose slopes are due now."""
        for world in self.worlds:
            world.pay(var)
        return select_n(self.predicate, *(world.values[var] for world in self.worlds))


class World:
    """What is known where the predicate picks one case, and which equations said so."""

    def __init__(self, all_cases: Worlds, case: int):
        self.all, self.solver, self.case = all_cases, all_cases.solver, case
        self.values: dict[Any, Any] = {}
        self.queue: deque[int] = deque()
        self.done: set[int] = set()
        self.origin: dict[Any, int] = {}  # by variable, the equation it was found from
        self.slopes: dict[int, Callable[[], Any]] = {}  # of equations run backwards, until they are paid for
        self.asked: list[Any] = []  # of the variables known here, those of which entries are read

    def is_known(self, atom: Any) -> bool:
        return type(atom) is Literal or atom in self.values or atom in self.solver.values

    def read(self, atom: Any) -> Any:
        return self.values[atom] if type(atom) is not Literal and atom in self.values else self.solver.read(atom)

    def learn(self, var: Any, value: Any, place: int) -> None:
        if self.is_known(var):
            return
        self.values[var] = value
        self.origin[var] = place
        self.queue.extend(self.solver.touching.get(var, ()))
        self.all.found(var)

    def visit(self, place: int) -> None:
        if place in self.done or self.solver.done[place]:
            return
        eqn = self.solver.eqns[place]
        context.source = eqn.source
        if eqn.primitive in READS and eqn.invars[0] in self.values:
            self.asked.append(eqn.invars[0])
        if eqn.primitive is select_n_p and self.is_known(eqn.invars[0]):
            which = self.solver.predicate_of(eqn.invars[0])
            if self.solver.worlds.get(which.key) is self.all:
                self.choose(place, eqn, self.all.case_of(self, which.negated))
                return
        if not self.may_cross(eqn):
            return
        if all(map(self.is_known, eqn.invars)):
            self.done.add(place)
            outs = context.trace.process(eqn.primitive, [self.read(v) for v in eqn.invars], eqn.params)
            for v, x in zip(eqn.outvars, outs):
                self.learn(v, x, place)
        elif any(map(self.is_known, eqn.outvars)) and eqn.primitive in INVERSES:
            self.run_backwards(place, eqn)

    def choose(self, place: int, eqn: JaxprEqn, case: int) -> None:
        """In this world the result of a select_n is its operand number `case`."""
        picked, out = eqn.invars[1 + case], eqn.outvars[0]
        if self.is_known(picked):
            self.done.add(place)
            self.learn(out, self.read(picked), place)
        elif self.is_known(out):
            self.done.add(place)
            self.learn(picked, self.read(out), place)

    def may_cross(self, eqn: JaxprEqn) -> bool:
        if not self.all.shape:
            return True
        shapes = {v.aval.shape for v in (*eqn.invars, *eqn.outvars)}
        return eqn.primitive in ENTRYWISE and shapes <= {self.all.shape, ()}

    def asked_for(self) -> list[Any]:
        """The variables known here of which entries are read elsewhere, since this was asked last."""
        asked, self.asked = self.asked, []
        is_seen = self.all.cases is not None
        return [v for v in dict.fromkeys(asked) if is_seen and v.aval.shape == self.all.shape]

    def hand_over(self, var: Any) -> bool:
        """Tells the solver the entries of a variable that are of this world; gives whether it did not know them."""
        places, known = np.flatnonzero(self.all.cases == self.case), self.solver.parts.get(var)
        if var in self.solver.values or (known is not None and known.has(places)):
            return False
        self.pay(var)
        self.solver.learn_part(var, places, take(reshape(self.values[var], (var.aval.size,)), places))
        return True

    def run_backwards(self, place: int, eqn: JaxprEqn) -> None:
        solver = self.solver
        results = [self.read(v) for v in eqn.outvars]
        operands = solver.operands_of(eqn, self.read)
        found = INVERSES[eqn.primitive](results, operands, solver.wants_log_det, **eqn.params)
        if not isinstance(found, Solution):
            return
        self.done.add(place)
        if solver.wants_log_det and found.log_slope is not None:
            self.slopes[place] = found.log_slope
        for i, x in found.operands.items():
            self.learn(eqn.invars[i], x, place)
        for i, x in found.results.items():
            self.learn(eqn.outvars[i], x, place)

    def pay(self, var: Any) -> None:
        """Adds the slopes of the equations that a variable was found from to the log-determinant, each once."""
        waiting, seen = [var], {var}
        while waiting:
            place = self.origin.get(waiting.pop())
            if place is None:
                continue
            slope = self.slopes.pop(place, None)
            if slope is not None:
                self.solver.gain(self.here(self.solver.due(place, slope())))
            if self.all.cases is not None:
                self.solver.settle(place, self.all.cases == self.case)
            eqn = self.solver.eqns[place]
            further = [v for v in (*eqn.invars, *eqn.outvars) if type(v) is not Literal and v not in seen]
            seen.update(further)
            waiting.extend(v for v in further if v in self.origin)

    def here(self, slope: Any) -> Any:
        """The sum of the slopes of entries of this world."""
        which = self.all.predicate
        if aval_of(which).dtype == dtypes.bool_:
            is_here = which if self.case else elementwise.bitwise_not(which)
        else:
            is_here = eq(which, np.int32(self.case))
        if not self.all.shape:
            slope = reduce_sum(slope, range(aval_of(slope).ndim))
        nothing = full(aval_of(slope).shape, 0, aval_of(slope).dtype)
        return select(is_here, slope, nothing)
