"""Bounds of dimension expressions, from what holds of their terms, and from the user's constraints.

Each term is taken for a variable of its own. What holds of it (a dimension variable is at least 1, mod(x, 4) is from 0
to 3, 4*floordiv(x, 4) + mod(x, 4) is x ...) and what the user says are linear inequalities between terms. Eliminating
all terms but the value of the expression leaves inequalities of that value alone, its bounds (Fourier, Motzkin; see
Schrijver, Theory of linear and integer programming, 12.2). Coefficients and terms are integers, so each inequality is
divided by the common divisor of its coefficients and rounded. Of a max or min both cases are tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from xpr.dimensions.expressions import ONE, DimExpr, Factor, Term, normal, terms_of

INF = math.inf
Bounds = tuple[float, float]
Row = dict[Any, int]  # the coefficients of terms, and of ONE, in a sum that is at least 0
_VALUE = "value"
_MOST_ROWS = 400  # beyond which nothing is concluded


class Unsatisfiable(ValueError):
    """Constraints that no values of the variables satisfy."""


def bounds_of(expression: DimExpr, constraints: Sequence[tuple[str, Any]]) -> Bounds:
    """The least and the greatest value, as far as they are known; infinite where they are not.

    Args:
      expression: what to bound.
      constraints: pairs of ">=" or "==" and an expression, which is so compared with 0.

    Raises:
      Unsatisfiable: no values satisfy the constraints.
    """
    split = next((t.factor for t, _ in expression.terms if t.factor and t.factor.operation in ("max", "min")), None)
    if split is None:
        return _System(constraints).bounds(expression)
    bounds_of_cases = []
    for one, other in (split.operands, split.operands[::-1]):
        case = (one - other) if split.operation == "max" else (other - one)
        try:
            replaced = _substituted(expression, split, one)
            if isinstance(case, DimExpr):
                bounded = _bounds(replaced, [*constraints, (">=", case)])
            elif case >= 0:
                bounded = _bounds(replaced, constraints)
            else:
                continue
        except Unsatisfiable:
            continue
        bounds_of_cases.append(bounded)
    if not bounds_of_cases:
        raise Unsatisfiable("no case of a max or min is possible")
    return min(lower for lower, _ in bounds_of_cases), max(upper for _, upper in bounds_of_cases)


def _bounds(value: Any, constraints: Sequence[tuple[str, Any]]) -> Bounds:
    return bounds_of(value, constraints) if isinstance(value, DimExpr) else (value, value)


def _substituted(expression: DimExpr, factor: Factor, by: Any) -> Any:
    """The expression with another one in place of the term that is this factor."""
    others = {t: n for t, n in expression.terms if t.factor is None or t.factor.key != factor.key}
    (count,) = [n for t, n in expression.terms if t.factor is not None and t.factor.key == factor.key]
    return normal(others, expression.scope) + count * by


class _System:
    """Inequalities between terms: those of the user, and those that hold of each term that occurs."""

    def __init__(self, constraints: Sequence[tuple[str, Any]]):
        self.constraints = constraints
        self.rows: list[Row] = []
        self.seen: set[Term] = set()
        for kind, expression in constraints:
            self.add(expression, kind == "==")

    def add(self, expression: Any, equal: bool = False) -> None:
        """An expression is at least 0, or is 0."""
        if not isinstance(expression, DimExpr):
            if expression < 0 or (equal and expression):
                raise Unsatisfiable(f"{expression} would have to be {'0' if equal else 'at least 0'}")
            return
        self.rows.append(dict(expression.terms))
        if equal:
            self.rows.append({t: -n for t, n in expression.terms})
        self.describe(expression)

    def describe(self, expression: Any) -> None:
        """Adds what holds of the terms of an expression."""
        for term, _ in expression.terms if isinstance(expression, DimExpr) else ():
            if term.factors and term not in self.seen:
                self.seen.add(term)
                self._describe_term(term, normal({term: 1}, expression.scope), expression.scope)

    def _describe_term(self, term: Term, value: Any, scope: Any) -> None:
        if not isinstance(value, DimExpr):
            return
        factor = term.factor
        if factor is None:
            self._describe_product(term, value, scope)
        elif factor.variable:
            self.add(value - 1)
        else:
            for each in factor.operands:
                self.describe(each)
            getattr(self, f"_describe_{factor.operation}")(value, *factor.operands)

    def _known(self, expression: Any) -> Bounds:
        """The bounds that follow from what has been added so far."""
        return self.bounds(expression) if isinstance(expression, DimExpr) else (expression, expression)

    def _describe_product(self, term: Term, value: Any, scope: Any) -> None:
        """Where x >= m and y >= n, (x - m)(y - n) is at least 0."""
        first = Term([(term.factors[0][0], 1)])
        others: Any = term.over(first)
        x, y = normal({first: 1}, scope), normal({others: 1}, scope)
        self.describe(x)
        self.describe(y)
        (m, most_x), (n, most_y) = self._known(x), self._known(y)
        if m > -INF and n > -INF:
            self.add(value - n * x - m * y + m * n)
        if most_x < INF and n > -INF:  # (u - x)(y - n) is at least 0
            self.add(most_x * y - most_x * n - value + n * x)
        if most_y < INF and m > -INF:
            self.add(most_y * x - most_y * m - value + m * y)

    def _describe_mod(self, value: Any, x: Any, y: Any) -> None:
        least, most = self._known(y)
        if least > 0:
            self.add(value)
            self.add(y - 1 - value)
            if self._known(x)[0] >= 0:
                self.add(x - value)
        elif most < 0:
            self.add(-value)
            self.add(value - y - 1)

    def _describe_floordiv(self, value: Any, x: Any, y: Any) -> None:
        least, most = self._known(y)
        if least <= 0 <= most:
            return
        scope = value.scope
        remainder = normal({Term([(Factor(operation="mod", operands=(x, y)), 1)]): 1}, scope)
        low, high = self._known(x)
        if least > 0 and low >= 0:
            self.add(value)
            self.add(x - value)
            if low > -INF and most < INF:
                self.add(value - low // most)
            if high < INF:
                self.add(high // least - value)
        if isinstance(y, DimExpr):
            self.add(y * value + remainder - x, equal=True)
            return
        difference = remainder - x  # y * value would be rewritten where an equality says that x is a multiple of y
        row: Row = {t: y * n for t, n in value.terms}
        row.update(terms_of(difference, scope, "a bound"))
        self.rows += [row, {t: -n for t, n in row.items()}]
        self.describe(difference)

    def _describe_max(self, value: Any, x: Any, y: Any) -> None:
        self.add(value - x)
        self.add(value - y)
        most = max(self._known(x)[1], self._known(y)[1])
        if most < INF:
            self.add(int(most) - value)

    def _describe_min(self, value: Any, x: Any, y: Any) -> None:
        self.add(x - value)
        self.add(y - value)
        least = min(self._known(x)[0], self._known(y)[0])
        if least > -INF:
            self.add(value - int(least))

    def bounds(self, expression: DimExpr) -> Bounds:
        """The bounds of an expression."""
        self.describe(expression)
        value: Row = {_VALUE: 1}
        value.update((t, -n) for t, n in expression.terms)
        rows = _reduced([*self.rows, value, {t: -n for t, n in value.items()}])
        while rows is not None and (terms := {t for row in rows for t in row} - {_VALUE, ONE}):
            _, _, cheapest = min([(_growth(rows, t), t.key, t) for t in terms], key=lambda item: item[:2])
            rows = _eliminated(rows, cheapest)
        lower, upper = -INF, INF
        for row in rows or ():
            n, constant = row.get(_VALUE, 0), row.get(ONE, 0)
            if n > 0:
                lower = max(lower, -(constant // n))
            elif n < 0:
                upper = min(upper, constant // -n)
        if lower > upper:
            raise Unsatisfiable(f"{expression} would have to be at least {lower} and at most {upper}")
        return lower, upper


def _growth(rows: Iterable[Row], term: Any) -> int:
    """How many rows more there are after a term was eliminated."""
    signs = [row[term] > 0 for row in rows if term in row]
    return sum(signs) * (len(signs) - sum(signs)) - len(signs)


def _eliminated(rows: Sequence[Row], term: Any) -> list[Row] | None:
    """The inequalities that follow, without a term; None if there are too many."""
    without = [row for row in rows if term not in row]
    above = [row for row in rows if row.get(term, 0) > 0]
    below = [row for row in rows if row.get(term, 0) < 0]
    if len(above) * len(below) > _MOST_ROWS:
        return None
    for one in above:
        for two in below:
            m, n = -two[term], one[term]
            combined = {t: m * one.get(t, 0) + n * two.get(t, 0) for t in {**one, **two}}
            del combined[term]
            without.append(combined)
    return _reduced(without)


def _reduced(rows: Iterable[Row]) -> list[Row] | None:
    """The rows divided by the common divisors of their coefficients; of those with the same ones the strictest.

    Raises:
      Unsatisfiable: one can't hold.
    """
    strictest: dict[Any, int] = {}
    for row in rows:
        coefficients = {t: n for t, n in row.items() if n and t is not ONE and (t == _VALUE or t.factors)}
        constant = sum(n for t, n in row.items() if t != _VALUE and not t.factors)
        if not coefficients:
            if constant < 0:
                raise Unsatisfiable("the constraints contradict each other")
            continue
        divisor = math.gcd(*coefficients.values())
        key = frozenset((t, n // divisor) for t, n in coefficients.items())
        constant //= divisor
        strictest[key] = min(strictest.get(key, constant), constant)
    if len(strictest) > _MOST_ROWS:
        return None
    return [{**dict(key), ONE: constant} for key, constant in strictest.items()]
