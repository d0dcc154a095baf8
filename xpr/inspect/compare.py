"""compare : (program, program) -> what changed. Aligns the equations of two jaxprs.

Two equations are the same if they apply one primitive with equal parameters to the same operands, all the way back to
the arguments; so names don't matter, nor what is between. Of the others, those between the same neighbours that
have the same primitive, and a first result of the same type, are taken for one equation: changed if its parameters or
operands are, and else the same, whatever came of what it reads. What is left was removed, or added; what is the same
but out of order was moved.

Linear, but for sorting; after A. Cohen's patience diff: what is surely the same is aligned first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import Any

from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from xpr.core.primitive import cache_key
from xpr.inspect.tables import inner_jaxprs
from xpr.text.literals import literal_text
from xpr.text.parameters import parameter_text

SAME, CHANGED, REMOVED, ADDED, MOVED = range(5)
Row = tuple[int, int, int]  # position before, position after (-1: none), and one of the above


class Comparison:
    """The differences of two programs; `rows(before, after)` aligns two of their jaxprs."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._jaxprs: dict[int, tuple[Jaxpr, int, list[int]]] = {}  # by identity: its number, its equations'

    def rows(self, before: Jaxpr, after: Jaxpr) -> list[Row]:
        """The equations of both in one list; moved ones are there twice."""
        old, new = self._equations(before), self._equations(after)
        same = _matched(old, new)
        anchors = _increasing(same)
        moved = set(same) - set(anchors)
        left, right = {i for i, _ in moved}, {j for _, j in moved}
        rows: list[Row] = []
        start = (0, 0)
        for i, j in [*anchors, (len(old), len(new))]:
            gap_before = [k for k in range(start[0], i) if k not in left]
            gap_after = [k for k in range(start[1], j) if k not in right]
            matching = _increasing(_matched(
                [_kind(before.eqns[k]) for k in gap_before], [_kind(after.eqns[k]) for k in gap_after]
            ))  # fmt: skip
            changed = [(gap_before[m], gap_after[n]) for m, n in matching]
            rows += _gap_rows(start, (i, j), changed, left, right)
            if i < len(old):
                rows.append((i, j, SAME))
            start = (i + 1, j + 1)
        return self._with_causes(rows, before, after)

    def _with_causes(self, rows: list[Row], before: Jaxpr, after: Jaxpr) -> list[Row]:
        """The rows, of which only those stay marked as changed that do not merely follow from changes further up."""
        partner: dict[Any, Any] = dict(zip(before.constvars, after.constvars))
        partner.update(zip(before.invars, after.invars))
        statuses = []
        for i, j, status in rows:
            if i >= 0 and j >= 0:
                if status == CHANGED and self._alike(before.eqns[i], after.eqns[j], partner):
                    status = SAME
                partner.update(zip(before.eqns[i].outvars, after.eqns[j].outvars))
            statuses.append((i, j, status))
        return statuses

    def _alike(self, before: JaxprEqn, after: JaxprEqn, partner: dict[Any, Any]) -> bool:
        operands = [self._literal(v) if type(v) is Literal else partner.get(v) for v in before.invars]
        others = [self._literal(v) if type(v) is Literal else v for v in after.invars]
        return operands == others and self._params(before) == self._params(after)

    def _number(self, *key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _equations(self, jaxpr: Jaxpr) -> list[int]:
        return self._numbered(jaxpr)[2]

    def _numbered(self, jaxpr: Jaxpr) -> tuple[Jaxpr, int, list[int]]:
        """A number for what a jaxpr computes, and for what each of its equations does."""
        if id(jaxpr) in self._jaxprs:
            return self._jaxprs[id(jaxpr)]
        env: dict[Var, int] = {}
        for kind, group in (("const", jaxpr.constvars), ("arg", jaxpr.invars)):
            env.update({v: self._number(kind, index, v.aval) for index, v in enumerate(group)})
        eqns = []
        for eqn in jaxpr.eqns:
            number = self._number(eqn.primitive, self._params(eqn), *[self._atom(v, env) for v in eqn.invars])
            env.update({v: self._number("result", number, index) for index, v in enumerate(eqn.outvars)})
            eqns.append(number)
        whole = self._number("jaxpr", tuple(eqns), *[self._atom(v, env) for v in jaxpr.outvars])
        self._jaxprs[id(jaxpr)] = jaxpr, whole, eqns
        return self._jaxprs[id(jaxpr)]

    def _atom(self, atom: Any, env: dict[Var, int]) -> int:
        return self._literal(atom) if type(atom) is Literal else env[atom]

    def _literal(self, literal: Literal) -> int:
        return self._number("literal", literal.aval, literal_text(literal))

    def _params(self, eqn: JaxprEqn) -> int:
        """A number for the parameters: jaxprs by what they compute, all else by its value."""
        key: list[Hashable] = []
        for name, value in sorted(eqn.params.items()):
            inner = list(inner_jaxprs(value))
            key.append((name, tuple([self._numbered(each)[1] for each in inner]) if inner else _hashable(value)))
        return self._number("params", *key)


def _hashable(value: Any) -> Hashable:
    try:
        hash(value)
        return cache_key(value)
    except TypeError:
        return parameter_text(value)


def _kind(eqn: JaxprEqn) -> Hashable:
    return eqn.primitive, eqn.outvars[0].aval if eqn.outvars else None


def _matched(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of positions of equal items, the first with the first, the second with the second, and so on."""
    positions: dict[Hashable, list[int]] = {}
    for j in reversed(range(len(after))):
        positions.setdefault(after[j], []).append(j)
    return [(i, positions[item].pop()) for i, item in enumerate(before) if positions.get(item)]


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of some pairs, sorted by their first, in which the second increases too (patience sorting)."""
    ends: list[int] = []  # the least last item of an increasing part of each length
    at: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        previous.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        at[length : length + 1] = [index]
    chosen = []
    index = at[-1] if at else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = previous[index]
    return chosen[::-1]


def _gap_rows(
    start: tuple[int, int], end: tuple[int, int], changed: list[tuple[int, int]], left: set[int], right: set[int]
) -> list[Row]:
    """The rows between two equations that are equal: changed ones side by side, the others before them."""
    rows: list[Row] = []
    i, j = start
    for to_i, to_j in [*changed, end]:
        rows += [(k, -1, MOVED if k in left else REMOVED) for k in range(i, to_i)]
        rows += [(-1, k, MOVED if k in right else ADDED) for k in range(j, to_j)]
        if (to_i, to_j) != end:
            rows.append((to_i, to_j, CHANGED))
        i, j = to_i + 1, to_j + 1
    return rows
