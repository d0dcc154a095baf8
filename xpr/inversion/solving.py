"""solve : (jaxpr, some of its arguments and results) -> all of them. Solves the equations of a jaxpr, for `inverse`.

A jaxpr is a set of equations. One whose operands are known is evaluated; one whose results are known is inverted if
its primitive has an inverse for the operands that are not known. Either may come first: in y = x1, x2 * f(x1) the
second equation waits for the first, so coupling layers need no special rule. Of a value whose elements become known
one after another, the known ones can be read before the others. The walk visits an equation when one of its variables
becomes known, and calls are inlined only where nothing else can be solved, so it takes linear time.

The logarithm of the determinant of the Jacobian from the solved arguments to the known results is the sum, over
inverted equations, of that of each from the operands it was solved for to its results: the equations in the order in
which they are solved are a triangular system.

Choices whose predicate is known are split into cases (cases.py) once nothing else can be solved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.avals import aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from xpr.core.source import line_with_text
from xpr.errors import NotInvertible
from xpr.inversion.cases import CaseAnalysis, Predicate, predicate_of
from xpr.inversion.solutions import (
    CALLS,
    INVERSES,
    READS,
    WRITES,
    KnownElements,
    PartialSolution,
    Solution,
    Unknown,
    is_unknown,
)
from xpr.primitives.elementwise import add, copy_p
from xpr.primitives.shapes import reduce_sum, zeros_like_aval
from xpr.primitives.slicing import select, select_n_p
from xpr.text.printer import format_eqn

NOT_SELECTED = "Of its operands, not all that is needed follows from the elements that it selects."
OVERWRITTEN = "What it writes, or what it writes over, does not follow from what is known."


class Solver:
    """Variables with their values, and equations that are not solved yet."""

    def __init__(self, log_det: bool):
        self.wants_log_det = log_det
        self.log_det: Any = None
        self.values: dict[Any, Any] = {}
        self.touching: dict[Any, list[int]] = {}  # by variable, the equations it occurs in
        self.eqns: list[JaxprEqn] = []
        self.done: list[bool] = []
        self.reasons: dict[int, str] = {}
        self.parts: dict[Any, KnownElements] = {}  # by variable that is known in part
        self.reads: dict[int, np.ndarray | str] = {}  # by equation, the indices of the elements that it reads
        self.queue: deque[int] = deque()
        self.calls: list[int] = []  # that were not inlined
        self.producers: dict[Any, JaxprEqn] = {}
        self.analyses: dict[Any, CaseAnalysis] = {}  # by predicate
        self.counted: dict[int, np.ndarray] = {}  # by equation, the elements whose slopes were added in a case
        self.replaces: dict[int, int] = {}  # by equation, the one of the program that it replaces

    def add(self, eqns: Sequence[JaxprEqn]) -> None:
        for eqn in eqns:
            index = len(self.eqns)
            self.eqns.append(eqn)
            self.done.append(False)
            for v in (*eqn.invars, *eqn.outvars):
                if type(v) is not Literal:
                    self.touching.setdefault(v, []).append(index)
            self.producers.update((v, eqn) for v in eqn.outvars)
            self.queue.append(index)
            for analysis in self.analyses.values():
                analysis.enqueue([index])

    def learn(self, var: Any, value: Any) -> None:
        if type(var) is not Literal and var not in self.values:
            self.values[var] = value
            self.queue.extend(self.touching.get(var, ()))
            for analysis in self.analyses.values():
                analysis.enqueue(self.touching.get(var, ()))

    def read(self, atom: Any) -> Any:
        if type(atom) is Literal:
            return atom.val
        return self.values[atom] if atom in self.values else Unknown(atom.aval)

    def run(self) -> None:
        """Runs until nothing more can be solved."""
        before = context.source
        try:
            while self.queue or self.inline_a_call() or any(analysis.run() for analysis in self.analyses.values()):
                if self.queue:
                    self.visit(self.queue.popleft())
        finally:
            context.source = before

    def visit(self, index: int) -> None:
        if self.done[index]:
            return
        eqn = self.eqns[index]
        context.source = eqn.source
        operands = self.operands_of(eqn, self.read)
        if not any(map(is_unknown, operands)):
            self.done[index] = True
            if any(v not in self.values for v in eqn.outvars):
                outs = context.trace.process(eqn.primitive, operands, eqn.params)
                for v, x in zip(eqn.outvars, outs):
                    self.learn(v, x)
            return
        if eqn.primitive in CALLS:
            self.calls.append(index)
            return
        if eqn.primitive in WRITES and index not in self.replaces:
            self.replace_write(index, eqn, operands)
            return
        results = [self.read(v) for v in eqn.outvars]
        if eqn.primitive is select_n_p and not is_unknown(operands[0]):
            self.split_into_cases(index, eqn)
            return
        if all(map(is_unknown, results)) and results:
            if eqn.primitive in READS and eqn.invars[0] in self.parts:
                self.read_elements(index, eqn, operands)
            return
        rule = INVERSES.get(eqn.primitive)
        solution = rule(results, operands, self.wants_log_det, **eqn.params) if rule else "It has no inverse."
        if isinstance(solution, str):
            self.reasons[index] = solution
        elif isinstance(solution, PartialSolution):
            self.done[index] = True
            self.learn_part(eqn.invars[0], solution.indices, results[0])
        else:
            self.accept(index, solution)

    def split_into_cases(self, index: int, eqn: JaxprEqn) -> None:
        """Leaves a choice whose predicate is known to the case analysis of that predicate."""
        self.reasons[index] = OVERWRITTEN if index in self.replaces else NOT_SELECTED
        which = self.predicate_of(eqn.invars[0])
        if which.key not in self.analyses:
            self.analyses[which.key] = CaseAnalysis(self, self.read(eqn.invars[0]), which.negated, len(eqn.invars) - 1)
        self.analyses[which.key].enqueue([index])

    def predicate_of(self, atom: Any) -> Predicate:
        return predicate_of(atom, self.producers, self.read)

    @staticmethod
    def operands_of(eqn: JaxprEqn, read: Callable[[Any], Any]) -> list[Any]:
        """The operands; one `Unknown` for a variable that is read twice."""
        unknown: dict[Any, Any] = {}
        values = [read(v) for v in eqn.invars]
        return [unknown.setdefault(v, x) if is_unknown(x) else x for v, x in zip(eqn.invars, values)]

    def accept(self, index: int, solution: Solution) -> None:
        eqn = self.eqns[index]
        self.done[index] = True
        for i, x in solution.operands.items():
            self.learn(eqn.invars[i], x)
        for i, x in solution.results.items():
            self.learn(eqn.outvars[i], x)
        if self.wants_log_det and solution.log_slope is not None:
            self.add_log_det(self.without_counted(index, solution.log_slope()))

    def without_counted(self, index: int, slope: Any) -> Any:
        """The slope of an equation, zero at the elements for which it was added before."""
        if index not in self.counted:
            return slope
        return select(self.counted[index], zeros_like_aval(aval_of(slope)), slope)

    def mark_counted(self, index: int, elements: np.ndarray) -> None:
        """Records the elements of an equation whose slopes have been added, or are not to be."""
        if self.eqns[index].outvars[0].aval.shape == elements.shape:
            self.counted[index] = self.counted.get(index, False) | elements

    def add_log_det(self, slope: Any) -> None:
        """Adds the sum of an array to the log-determinant."""
        summed = reduce_sum(slope, range(aval_of(slope).ndim))
        self.log_det = summed if self.log_det is None else add(self.log_det, summed)

    def learn_part(self, var: Any, indices: np.ndarray, value: Any) -> None:
        """Adds known elements of a value, which is known once all are; until then, others may read the known ones."""
        elements = self.parts.setdefault(var, KnownElements(var.aval.size))
        if not elements.add(indices, value):
            return
        all_elements = np.arange(var.aval.size).reshape(var.aval.shape)
        if elements.has(all_elements):
            self.learn(var, elements.at(all_elements))
        else:
            self.queue.extend(self.touching[var])

    def read_elements(self, index: int, eqn: JaxprEqn, operands: Sequence[Any]) -> None:
        """Learns the result of an equation that reads elements of a value, if they are known."""
        if index not in self.reads:
            self.reads[index] = READS[eqn.primitive](operands, **eqn.params)
        indices, elements = self.reads[index], self.parts[eqn.invars[0]]
        if not isinstance(indices, str) and elements.has(indices):
            self.done[index] = True
            self.learn(eqn.outvars[0], elements.at(indices))

    def replace_write(self, index: int, eqn: JaxprEqn, operands: Sequence[Any]) -> None:
        """Replaces an equation that writes at known indices by choices, see scatters.py."""
        equivalent = WRITES[eqn.primitive](eqn, operands)
        if isinstance(equivalent, str):
            self.reasons[index] = equivalent
            return
        self.done[index] = True
        self.values.update(equivalent.values)
        self.replaces.update((len(self.eqns) + i, index) for i in range(len(equivalent.eqns)))
        self.add(equivalent.eqns)

    def inline_a_call(self) -> bool:
        """Replaces a call by its equations; returns whether there was one."""
        while self.calls:
            index = self.calls.pop()
            if self.done[index]:
                continue
            self.done[index] = True
            eqn = self.eqns[index]
            jaxpr = CALLS[eqn.primitive](eqn.params)
            renamed: dict[Any, Any] = dict(zip(jaxpr.invars, eqn.invars))
            equal: list[tuple[Any, Any]] = []
            for inner in jaxpr.eqns:
                renamed.update((v, Var(v.aval)) for v in inner.outvars)
            for v, out in zip(jaxpr.outvars, eqn.outvars):
                atom = v if type(v) is Literal else renamed[v]
                equal.append((atom, out))
            self.add([self.renamed(inner, renamed) for inner in jaxpr.eqns])
            self.add([JaxprEqn([atom], [out], copy_p, {}, eqn.source) for atom, out in equal])
            return True
        return False

    @staticmethod
    def renamed(eqn: JaxprEqn, names: dict[Any, Any]) -> JaxprEqn:
        invars = [v if type(v) is Literal else names[v] for v in eqn.invars]
        return eqn.replace(invars=invars, outvars=[names[v] for v in eqn.outvars])

    def explain_failure(self, unsolved: Any) -> str:
        """The lines of a message about a variable that was not solved: the equation that can't be inverted."""
        for index in reversed(range(len(self.eqns))):
            eqn = self.eqns[index]
            if not self.done[index] and index in self.reasons and self.leads_to(unsolved, eqn):
                eqn = self.eqns[self.replaces.get(index, index)]
                has_jaxprs = any(True for _ in subjaxprs(eqn))
                lines = [
                    f"  {format_eqn(eqn.replace(params={}) if has_jaxprs else eqn)}",
                    f"  at {line_with_text(eqn.source)}",
                ]
                return "\n".join([*lines, f"  {self.reasons[index]}"])
        return "  The result does not determine it: it is not used, or a result that depends on it is not known."

    def leads_to(self, var: Any, eqn: JaxprEqn) -> bool:
        """Whether the equation reads something that depends on a variable."""
        dependent = {var}
        for other in self.eqns:
            if any(type(v) is not Literal and v in dependent for v in other.invars):
                if other is eqn:
                    return True
                dependent.update(other.outvars)
        return False


def solve(
    jaxpr: Jaxpr, operands: Sequence[Any], results: Sequence[Any], log_det: bool, name: Callable[[int], str]
) -> tuple[list[Any], list[Any], Any]:
    """All arguments and results of a jaxpr without constants, and the log-determinant (None where it is zero).

    Args:
      operands, results: values, `Unknown` where they are to be solved.
      name: how messages call an argument.
    Raises:
      NotInvertible: something can't be solved.
    """
    solver = Solver(log_det)
    for v, x in (*zip(jaxpr.invars, operands), *zip(jaxpr.outvars, results)):
        if not is_unknown(x):
            solver.learn(v, x)
    solver.add(jaxpr.eqns)
    solver.run()
    for i, v in enumerate(jaxpr.invars):
        if v not in solver.values:
            raise NotInvertible(f"{name(i)} can't be found from what is known.\n{solver.explain_failure(v)}")
    return [solver.values[v] for v in jaxpr.invars], [solver.read(v) for v in jaxpr.outvars], solver.log_det
