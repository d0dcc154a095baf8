"""solve : (jaxpr, some of its arguments and results) -> the rest of them. What `inverse` rests on.

A jaxpr is a set of equations. One whose operands are known is run; one whose results are known is run backwards where
its primitive has an inverse for the operands that are not known. Either may come first: in y = x1, x2 * f(x1) the
second equation waits for the first, so coupling layers need nothing of their own. The walk visits an equation when one
of its variables becomes known, and calls are opened only where they hold things up, so it takes linear time.

The logarithm of the determinant of the Jacobian from what is solved for to what was given is the sum, over equations
run backwards, of that of each from the operands it was solved for to its results: the equations in the order in which
they are solved are a triangular system.

A rule takes `(results, operands, log_det, **params)`, in which `Unknown(aval)` stands for what is not known, and gives
the solved operands by position, the results that were not known by position, and what the log-determinant gains; or a
text that says why it can't.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from xpr.core.printer import format_eqn
from xpr.core.source import summarize, text_of
from xpr.errors import NotInvertible
from xpr.numpy.index_functions import take
from xpr.primitives.elementwise import add, copy_p
from xpr.primitives.placing import concatenate
from xpr.primitives.shapes import reduce_sum, reshape


class Unknown:
    """Stands for a value that is not known, in rules."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval


def is_unknown(x: Any) -> bool:
    return type(x) is Unknown


class Solution:
    """What a rule found: operands and results by position; `log_slope`, an array whose sum the log-determinant gains.

    `log_slope` is a function, or None where it is zero; it is asked for only if the log-determinant is.
    """

    __slots__ = ("log_slope", "operands", "results")

    def __init__(
        self,
        operands: dict[int, Any],
        log_slope: Callable[[], Any] | None = None,
        results: dict[int, Any] | None = None,
    ):
        self.operands, self.log_slope, self.results = operands, log_slope, results or {}


class Part:
    """A rule's answer where the result is a part of its first operand: the flat places of its entries there."""

    __slots__ = ("places",)

    def __init__(self, places: np.ndarray):
        self.places = places


INVERSES: dict[Any, Callable[..., Solution | Part | str]] = {}
CALLS: dict[Any, Callable[[dict[str, Any]], Jaxpr]] = {}  # primitives that call a jaxpr on their operands


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
        self.parts: dict[Any, list[tuple[np.ndarray, Any]]] = {}
        self.queue: deque[int] = deque()
        self.calls: list[int] = []  # that were not opened

    def add(self, eqns: Sequence[JaxprEqn]) -> None:
        for eqn in eqns:
            place = len(self.eqns)
            self.eqns.append(eqn)
            self.done.append(False)
            for v in (*eqn.invars, *eqn.outvars):
                if type(v) is not Literal:
                    self.touching.setdefault(v, []).append(place)
            self.queue.append(place)

    def learn(self, var: Any, value: Any) -> None:
        if type(var) is not Literal and var not in self.values:
            self.values[var] = value
            self.queue.extend(self.touching.get(var, ()))

    def read(self, atom: Any) -> Any:
        if type(atom) is Literal:
            return atom.val
        return self.values[atom] if atom in self.values else Unknown(atom.aval)

    def run(self) -> None:
        """Goes on until nothing more can be learned."""
        before = context.source
        try:
            while self.queue or self.open_a_call():
                if self.queue:
                    self.visit(self.queue.popleft())
        finally:
            context.source = before

    def visit(self, place: int) -> None:
        if self.done[place]:
            return
        eqn = self.eqns[place]
        context.source = eqn.source
        operands = self.operands_of(eqn)
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
        results = [self.read(v) for v in eqn.outvars]
        if all(map(is_unknown, results)) and results:
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

    def operands_of(self, eqn: JaxprEqn) -> list[Any]:
        """The operands; one `Unknown` for a variable that is read twice."""
        unknown: dict[Any, Any] = {}
        return [
            self.read(v) if type(v) is Literal or v in self.values else unknown.setdefault(v, Unknown(v.aval))
            for v in eqn.invars
        ]

    def take(self, place: int, found: Solution) -> None:
        eqn = self.eqns[place]
        self.done[place] = True
        for i, x in found.operands.items():
            self.learn(eqn.invars[i], x)
        for i, x in found.results.items():
            self.learn(eqn.outvars[i], x)
        if self.wants_log_det and found.log_slope is not None:
            slope = found.log_slope()
            summed = reduce_sum(slope, range(aval_of(slope).ndim))
            self.log_det = summed if self.log_det is None else add(self.log_det, summed)

    def learn_part(self, var: Any, places: np.ndarray, value: Any) -> None:
        """Puts a value together once all of its parts are known."""
        parts = self.parts.setdefault(var, [])
        parts.append((places.reshape(-1), reshape(value, (places.size,))))
        order, first = np.unique(np.concatenate([p for p, _ in parts]), return_index=True)
        if order.size == var.aval.size:
            joined = concatenate([x for _, x in parts], 0) if len(parts) > 1 else parts[0][1]
            is_in_order = np.array_equal(first, np.arange(aval_of(joined).size))
            self.learn(var, reshape(joined if is_in_order else take(joined, first), var.aval.shape))

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
