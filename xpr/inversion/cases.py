"""Case analysis of choices whose predicate is known: equations are solved separately where it selects each case.

In y = select_n(p, a, b) no operand follows from y as a whole. But y is a where p is false and b where it is true, and
what follows from that element by element is known there. A `Case` holds the values that are known where the predicate
selects it; its arrays are whole, and only those elements are meaningful. A value known in all cases is known. So in

    y = where(mask, x, x * exp(s) + t)      s, t = functions of where(mask, x, 0)

x is y where the mask is true; of where(mask, x, 0) both cases have their elements, hence it is known, and s and t; and
so is x where the mask is false. If the predicate is a scalar a case covers every operation, otherwise elementwise ones.

Where the mask itself is known, so are the indices of each case's elements: elements of a value that one case knows can
be read by themselves, as by x[:2], also where the others are not known.
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

ELEMENTWISE = frozenset({p for m in (elementwise, special) for p in vars(m).values() if isinstance(p, Primitive)})
ELEMENTWISE |= {name_p, stop_gradient_p}
_KEYED_BY_OPERANDS = {broadcast_in_dim_p, reshape_p, elementwise.convert_element_type_p, elementwise.copy_p}


class Predicate(NamedTuple):
    """A predicate: a key, the same for one that is computed twice, and whether it is negated."""

    key: Any
    negated: bool


def predicate_of(atom: Any, producers: dict[Any, JaxprEqn], read: Callable[[Any], Any]) -> Predicate:
    """The predicate of a variable, whose value is known."""
    eqn = None if type(atom) is Literal else producers.get(atom)
    if eqn is not None and eqn.primitive is not_p and atom.aval.dtype == dtypes.bool_:
        inner = predicate_of(eqn.invars[0], producers, read)
        return Predicate(inner.key, not inner.negated)
    if eqn is not None and eqn.primitive in _KEYED_BY_OPERANDS:
        inner = predicate_of(eqn.invars[0], producers, read)
        return Predicate((eqn.primitive, *key_of(eqn.params), inner.key), inner.negated)
    value = read(atom)
    if isinstance(value, Tracer):
        return Predicate(atom, False)
    array = np.asarray(value)
    negated = array.dtype == bool and bool(array.size) and bool(array.flat[0])  # a mask and its negation are one
    return Predicate((array.shape, array.dtype, (~array if negated else array).tobytes()), negated)


class CaseAnalysis:
    """The cases of one predicate; values known in all of them go to the solver."""

    def __init__(self, solver: Any, predicate: Any, negated: bool, cases: int):
        self.solver, self.predicate, self.negated = solver, predicate, negated
        self.shape = aval_of(predicate).shape
        self.cases = [Case(self, number) for number in range(cases)]
        self.known_in_all: list[Any] = []
        is_seen = self.shape and not isinstance(predicate, Tracer)
        self.case_numbers = np.asarray(predicate) if is_seen else None  # the number of the case of each element

    def enqueue(self, indices: Any) -> None:
        for case in self.cases:
            case.queue.extend(indices)

    def run(self) -> bool:
        """Runs until no case finds more, then passes values known in all cases to the solver; returns whether any were.

        Not before: the solver must not invert what one case has computed from its argument.
        """
        while any(case.queue for case in self.cases):
            for case in self.cases:
                while case.queue:
                    case.visit(case.queue.popleft())
        merged = {var: self.merged(var) for var in self.known_in_all if var not in self.solver.values}
        self.known_in_all.clear()
        for var, value in merged.items():
            self.solver.learn(var, value)
        parts = [case.pass_elements(var) for case in self.cases for var in case.partially_read()]
        return bool(merged) or any(parts)

    def operand_of(self, case: Case, negated: bool) -> int:
        """The number of the operand that a select_n of the predicate, or of its negation, selects in a case."""
        return case.number if negated == self.negated else 1 - case.number

    def learned(self, var: Any) -> None:
        """Records a variable if it is known in all cases."""
        if all(var in case.values for case in self.cases):
            self.known_in_all.append(var)

    def merged(self, var: Any) -> Any:
        """The value of a variable, selected from all cases, whose slopes are added now."""
        for case in self.cases:
            case.add_slopes(var)
        return select_n(self.predicate, *(case.values[var] for case in self.cases))


class Case:
    """The values that are known where the predicate selects one case, and the equations they come from."""

    def __init__(self, analysis: CaseAnalysis, number: int):
        self.analysis, self.solver, self.number = analysis, analysis.solver, number
        self.values: dict[Any, Any] = {}
        self.queue: deque[int] = deque()
        self.done: set[int] = set()
        self.origin: dict[Any, int] = {}  # by variable, the index of the equation it was solved from
        self.slopes: dict[int, Callable[[], Any]] = {}  # the slopes of inverted equations, until they are added
        self.read_partially: list[Any] = []  # variables known here of which other equations read elements

    def is_known(self, atom: Any) -> bool:
        return type(atom) is Literal or atom in self.values or atom in self.solver.values

    def read(self, atom: Any) -> Any:
        return self.values[atom] if type(atom) is not Literal and atom in self.values else self.solver.read(atom)

    def learn(self, var: Any, value: Any, index: int) -> None:
        if self.is_known(var):
            return
        self.values[var] = value
        self.origin[var] = index
        self.queue.extend(self.solver.touching.get(var, ()))
        self.analysis.learned(var)

    def visit(self, index: int) -> None:
        if index in self.done or self.solver.done[index]:
            return
        eqn = self.solver.eqns[index]
        context.source = eqn.source
        if eqn.primitive in READS and eqn.invars[0] in self.values:
            self.read_partially.append(eqn.invars[0])
        if eqn.primitive is select_n_p and self.is_known(eqn.invars[0]):
            which = self.solver.predicate_of(eqn.invars[0])
            if self.solver.analyses.get(which.key) is self.analysis:
                self.select(index, eqn, self.analysis.operand_of(self, which.negated))
                return
        if not self.covers(eqn):
            return
        if all(map(self.is_known, eqn.invars)):
            self.done.add(index)
            outs = context.trace.process(eqn.primitive, [self.read(v) for v in eqn.invars], eqn.params)
            for v, x in zip(eqn.outvars, outs):
                self.learn(v, x, index)
        elif any(map(self.is_known, eqn.outvars)) and eqn.primitive in INVERSES:
            self.invert(index, eqn)

    def select(self, index: int, eqn: JaxprEqn, number: int) -> None:
        """In this case the result of a select_n is its operand of that number."""
        selected, out = eqn.invars[1 + number], eqn.outvars[0]
        if self.is_known(selected):
            self.done.add(index)
            self.learn(out, self.read(selected), index)
        elif self.is_known(out):
            self.done.add(index)
            self.learn(selected, self.read(out), index)

    def covers(self, eqn: JaxprEqn) -> bool:
        if not self.analysis.shape:
            return True
        shapes = {v.aval.shape for v in (*eqn.invars, *eqn.outvars)}
        return eqn.primitive in ELEMENTWISE and shapes <= {self.analysis.shape, ()}

    def partially_read(self) -> list[Any]:
        """The variables known here of which other equations read elements, new since the last call."""
        variables, self.read_partially = self.read_partially, []
        is_seen = self.analysis.case_numbers is not None
        return [v for v in dict.fromkeys(variables) if is_seen and v.aval.shape == self.analysis.shape]

    def pass_elements(self, var: Any) -> bool:
        """Passes this case's elements of a variable to the solver; returns whether they are new to it."""
        indices, known = np.flatnonzero(self.analysis.case_numbers == self.number), self.solver.parts.get(var)
        if var in self.solver.values or (known is not None and known.has(indices)):
            return False
        self.add_slopes(var)
        self.solver.learn_part(var, indices, take(reshape(self.values[var], (var.aval.size,)), indices))
        return True

    def invert(self, index: int, eqn: JaxprEqn) -> None:
        solver = self.solver
        results = [self.read(v) for v in eqn.outvars]
        operands = solver.operands_of(eqn, self.read)
        solution = INVERSES[eqn.primitive](results, operands, solver.wants_log_det, **eqn.params)
        if not isinstance(solution, Solution):
            return
        self.done.add(index)
        if solver.wants_log_det and solution.log_slope is not None:
            self.slopes[index] = solution.log_slope
        for i, x in solution.operands.items():
            self.learn(eqn.invars[i], x, index)
        for i, x in solution.results.items():
            self.learn(eqn.outvars[i], x, index)

    def add_slopes(self, var: Any) -> None:
        """Adds the slopes of the equations that a variable was solved from to the log-determinant, each once."""
        pending, seen = [var], {var}
        while pending:
            index = self.origin.get(pending.pop())
            if index is None:
                continue
            slope = self.slopes.pop(index, None)
            if slope is not None:
                self.solver.add_log_det(self.masked(self.solver.without_counted(index, slope())))
            if self.analysis.case_numbers is not None:
                self.solver.mark_counted(index, self.analysis.case_numbers == self.number)
            eqn = self.solver.eqns[index]
            further = [v for v in (*eqn.invars, *eqn.outvars) if type(v) is not Literal and v not in seen]
            seen.update(further)
            pending.extend(v for v in further if v in self.origin)

    def masked(self, slope: Any) -> Any:
        """The slopes of this case's elements, zeros for the others."""
        which = self.analysis.predicate
        if aval_of(which).dtype == dtypes.bool_:
            in_case = which if self.number else elementwise.bitwise_not(which)
        else:
            in_case = eq(which, np.int32(self.number))
        if not self.analysis.shape:
            slope = reduce_sum(slope, range(aval_of(slope).ndim))
        nothing = full(aval_of(slope).shape, 0, aval_of(slope).dtype)
        return select(in_case, slope, nothing)
