"""The values of dimension variables from the shapes of arguments, and what these shapes have to satisfy.

Dimensions of arguments are equations: where `args[0].shape = (a, a + 2*b)`, the sizes s and t of its axes give a = s
and b = (t - s) // 2, and have to satisfy (t - s) % 2 == 0, a >= 1 and b >= 1. An equation that is linear in one unknown
variable gives that variable, with those found before; one without unknowns is a check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xpr.dimensions.expressions import DimExpr, Term, evaluate, is_symbolic_dim, normal, variable
from xpr.errors import InconclusiveDimensionOperation


class ShapeCheck(NamedTuple):
    """What sizes have to satisfy: a value is 0 (`"=="`), or at least 0; in the message {0} is the first number."""

    kind: str
    value: Any
    message: str
    numbers: tuple[Any, ...]


class DimensionSolution(NamedTuple):
    """How dimension variables are computed from sizes, which are variables named as `args[0].shape[1]`.

    Attributes:
      sizes: of each symbolic axis its name, the number of the argument, and that of the axis.
      values: the variables of the arguments' shapes, as expressions of sizes.
      checks: what sizes have to satisfy.
    """

    sizes: Sequence[tuple[str, int, int]]
    values: dict[str, Any]
    checks: Sequence[ShapeCheck]

    def check(self, sizes: Mapping[str, Any]) -> None:
        """Raises ValueError if sizes don't satisfy the checks."""
        for check in self.checks:
            value = evaluate(check.value, sizes)
            try:
                holds = value == 0 if check.kind == "==" else value >= 0
            except InconclusiveDimensionOperation:
                holds = False
            if not holds:
                raise ValueError(check.message.format(*[evaluate(n, sizes) for n in check.numbers]))


def solve(avals: Sequence[Any], names: Sequence[str]) -> DimensionSolution:
    """How the dimension variables of arguments' types are computed.

    Args:
      avals: the types.
      names: of the arguments, for messages.

    Raises:
      ValueError: a variable can't be computed, or the dimensions are of several scopes.
    """
    sizes = [
        (f"{name}.shape[{axis}]", i, axis)
        for i, (aval, name) in enumerate(zip(avals, names))
        for axis, n in enumerate(aval.shape)
        if is_symbolic_dim(n)
    ]
    equations = [_Equation(name, avals[i].shape[axis]) for name, i, axis in sizes]
    for each in equations:
        equations[0].expression.scope.check_same(each.expression, f"in the types of arguments, at {each.name}")
    shapes = [f"{name}.shape = {aval.shape}" for aval, name in zip(avals, names) if aval.is_symbolic]
    listed = ", ".join(shapes).replace(",)", ")")
    solver = _Solver(f"Using the following polymorphic shapes specifications: {listed}.")
    while equations:
        waiting = [each for each in equations if not solver.take(each)]
        if len(waiting) == len(equations):
            unknown = sorted({v for each in equations for v in each.expression.variables()} - solver.values.keys())
            raise ValueError(
                f"The dimension variables {', '.join(unknown)} can't be computed from the shapes of arguments, "
                f"{', '.join(shapes)}: a dimension gives the one variable in which it is linear. Add an argument of "
                f"shape (0, {unknown[0]}), which is empty."
            )
        equations = waiting
    if sizes:
        solver.add_constraints(avals[sizes[0][1]].shape[sizes[0][2]].scope)
    return DimensionSolution(sizes, solver.values, solver.checks)


class _Equation(NamedTuple):
    """The size of an axis, by its name, is an expression of dimension variables."""

    name: str
    expression: DimExpr


class _Solver:
    """Solves equations one after the other.

    Attributes:
      shapes: the types of the arguments, for messages.
      values: the variables that are solved, as expressions of sizes.
      checks: what sizes have to satisfy so far.
    """

    def __init__(self, shapes: str):
        self.shapes = shapes
        self.values: dict[str, Any] = {}
        self.checks: list[ShapeCheck] = []
        self.known: list[tuple[str, tuple[Any, Any]]] = []  # for messages: of each variable a text, and its two numbers

    def take(self, equation: _Equation) -> bool:
        """Solves an equation for its unknown variable, or makes a check of it; False if it has to wait for others."""
        scope = equation.expression.scope
        size = variable(equation.name, scope)
        remaining, unknown, coefficient = size, "", 0  # coefficient * unknown == remaining
        for term, n in equation.expression.terms:
            name = term.factor.variable if term.factor else ""
            if _variables_of(term, scope) <= self.values.keys():
                remaining = remaining - evaluate(normal({term: n}, scope), self.values)
            elif name and not unknown:
                unknown, coefficient = name, n
            else:
                return False
        if not unknown:
            what = (
                f"Found inconsistency between dimension size {equation.name} (= {{0}}) and the specification "
                f"'{equation.expression}' (= {{1}})"
            )
            self.check("==", remaining, what, size, size - remaining)
            return True
        value, remainder = divmod(remaining, coefficient)
        self.values[unknown] = value
        source = f"from specification '{equation.expression}' for dimension {equation.name}"
        self.known.append((f"'{unknown}' = {{}} {source} (= {{}})", (value, size)))
        what = f"Division had remainder {{0}} when computing the value of '{unknown}', by {coefficient}"
        self.check("==", remainder, what, remainder)
        self.check(">=", value - 1, f"Expected value >= 1 for dimension variable '{unknown}'")
        return True

    def check(self, kind: str, value: Any, what: str, *numbers: Any) -> None:
        if not is_symbolic_dim(value) and (value == 0 if kind == "==" else value >= 0):
            return
        numbers = (*numbers, *[n for _, both in self.known for n in both])
        message = f"Shapes of arguments do not match the symbolic ones. {what}. {self.shapes}"
        if self.known:
            positions = iter(range(len(numbers) - 2 * len(self.known), len(numbers)))
            variables = [text.format(f"{{{next(positions)}}}", f"{{{next(positions)}}}") for text, _ in self.known]
            message += f" Obtained dimension variables: {', '.join(variables)}."
        self.checks.append(ShapeCheck(kind, value, message, numbers))

    def add_constraints(self, scope: Any) -> None:
        """The checks of the user's constraints."""
        values = dict(self.values)
        for name, expression in reversed(scope.replaced().items()):  # which may have variables that are replaced later
            if all(each in values for each in _variables(expression)):
                values.setdefault(name, evaluate(expression, values))
        for text, (kind, difference) in zip(scope.constraints, scope.inequalities):
            value = evaluate(difference, values)
            self.check(kind, value, f"They have to satisfy {text}; the difference of the two sides is {{0}}", value)


def _variables_of(term: Term, scope: Any) -> set[str]:
    return _variables(normal({term: 1}, scope))


def _variables(value: Any) -> set[str]:
    return value.variables() if is_symbolic_dim(value) else set()
