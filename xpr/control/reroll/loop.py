"""The scan that replaces groups of equations, with the equations that stack its xs and unstack its ys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from xpr.control.reroll.groups import EquationGroups, Equations, ResultRef
from xpr.control.scan.scan import scan_p
from xpr.core.jaxpr import Atom, DropVar, Jaxpr, JaxprEqn, Literal, Var
from xpr.passes.structure import operand_key
from xpr.primitives.shapes import broadcast_in_dim_p, rev_p, squeeze_p
from xpr.primitives.slicing import concatenate_p, slice_p


class RerolledLoop:
    """The scan that replaces groups of equations."""

    def __init__(self, whole: Equations, groups: EquationGroups):
        self.whole, self.groups = whole, groups
        self.consts: dict[Any, Var] = {}  # by the outer variable: the inner one
        # by ref and first value: the value, and the inner variable
        self.carry: dict[tuple[ResultRef, Any], tuple[Atom, Var]] = {}
        self.rows: dict[Any, tuple[list[Atom], Var]] = {}  # by the values of all groups: those, and the inner variable
        self.inside: dict[tuple[int, int], Var] = {}  # the results of the body's equations
        self.body = [self.body_equation(position, eqn) for position, eqn in enumerate(groups.group(0))]
        self.finals, self.stacked = self.results()

    def body_equation(self, position: int, eqn: JaxprEqn) -> JaxprEqn:
        invars = [self.operand(position, i) for i in range(len(eqn.invars))]
        outvars = [Var(v.aval) for v in eqn.outvars]
        self.inside.update(((position, i), v) for i, v in enumerate(outvars))
        return eqn.replace(invars=invars, outvars=outvars)

    def operand(self, position: int, i: int) -> Atom:
        ref, first = self.groups.slots[position][i], self.groups.group(0)[position].invars[i]
        if ref is not None and ref.back == 0:
            return self.inside[ref.position, ref.result]
        if ref is not None:
            return self.carry.setdefault((ref, operand_key(first)), (first, Var(first.aval)))[1]
        eqns, start, period = self.whole.eqns, self.groups.start + position, self.groups.period
        values = [eqns[index].invars[i] for index in range(start, self.groups.end, period)]
        key = tuple(map(operand_key, values))
        if len(set(key)) > 1:
            return self.rows.setdefault(key, (values, Var(first.aval)))[1]
        return first if type(first) is Literal else self.consts.setdefault(first, Var(first.aval))

    def is_worth_it(self) -> bool:
        """Whether stacking and unstacking take fewer operations than the groups."""
        copied = sum(self.rows_of_one(values) is None for values, _ in self.rows.values())
        taken_out = sum(len(needed) for needed in self.stacked.values())
        groups = self.groups
        return copied * groups.count + taken_out < groups.period * groups.count

    def written(self) -> list[JaxprEqn]:
        """The equations that stack the xs, the scan, and the equations that unstack the ys."""
        ordered: list[JaxprEqn] = []
        groups, source = self.groups, self.body[0].source
        stacks = [self.stack(values, ordered) for values, _ in self.rows.values()]
        carried = [self.inside[ref.position, ref.result] for ref, _ in self.carry]
        finals, stacked = self.finals, self.stacked
        rows_out = [self.inside[key] for key in stacked]
        body = Jaxpr(
            [],
            [*self.consts.values(), *(v for _, v in self.carry.values()), *(v for _, v in self.rows.values())],
            [*carried, *rows_out],
            self.body,
        )
        outs = [Var(v.aval.with_axis(0, groups.count)) for v in rows_out]
        operands: list[Atom] = [*self.consts, *(x for x, _ in self.carry.values()), *stacks]
        params = {
            "jaxpr": body, "length": groups.count, "linear": (False,) * len(operands), "num_carry": len(carried),
            "num_consts": len(self.consts), "reverse": False, "unroll": 1,
        }  # fmt: skip
        ordered.append(JaxprEqn(operands, [*finals, *outs], scan_p, params, source))
        for stack, needed in zip(outs, stacked.values()):
            for number, v in needed:
                ordered += _row(stack, number, v, source)
        return ordered

    def results(self) -> tuple[list[Var], dict[tuple[int, int], list[tuple[int, Var]]]]:
        """The variables of the last carry; and by result of a group, the groups and variables that are read outside."""
        groups = self.groups
        final: dict[tuple[int, int], Var] = {}
        stacked: dict[tuple[int, int], list[tuple[int, Var]]] = {}
        carried = {(ref.position, ref.result) for ref, _ in self.carry}
        for number in range(groups.count):
            for position, eqn in enumerate(groups.group(number)):
                for i, v in enumerate(eqn.outvars):
                    if self.whole.last_readers.get(v, -1) < groups.end:
                        continue
                    if number == groups.count - 1 and (position, i) in carried:
                        final[position, i] = v
                    else:
                        stacked.setdefault((position, i), []).append((number, v))
        finals = []
        for (ref, _), (_, v) in self.carry.items():
            key = ref.position, ref.result
            finals.append(final.pop(key) if key in final else DropVar(v.aval))
        return finals, stacked

    def stack(self, values: Sequence[Atom], ordered: list[JaxprEqn]) -> Var:
        """An array whose rows are the values: the one they are slices of, or a new one."""
        source = self.body[0].source
        rows = self.rows_of_one(values)
        if rows is not None:
            whole, first, step = rows
            low = min(first, first + step * (len(values) - 1))
            if len(values) < whole.aval.shape[0]:
                whole = _applied(ordered, slice_p, [whole], _slice_params(whole, low, low + len(values)), source)
            return whole if step > 0 else _applied(ordered, rev_p, [whole], {"dimensions": (0,)}, source)
        key = tuple(map(operand_key, values))
        if key not in self.whole.stacks and key[::-1] in self.whole.stacks:
            return _applied(ordered, rev_p, [self.whole.stacks[key[::-1]]], {"dimensions": (0,)}, source)
        if key not in self.whole.stacks:
            self.whole.stacks[key] = self.new_stack(values, ordered)
        return self.whole.stacks[key]

    def new_stack(self, values: Sequence[Atom], ordered: list[JaxprEqn]) -> Var:
        source, shape = self.body[0].source, values[0].aval.shape
        params = {"shape": (1, *shape), "broadcast_dimensions": tuple(range(1, len(shape) + 1))}
        expanded: dict[Any, Var] = {}
        for v in values:
            if operand_key(v) not in expanded:
                expanded[operand_key(v)] = _applied(ordered, broadcast_in_dim_p, [v], params, source)
        return _applied(ordered, concatenate_p, [expanded[operand_key(v)] for v in values], {"dimension": 0}, source)

    def rows_of_one(self, values: Sequence[Atom]) -> tuple[Var, int, int] | None:
        """The array that has the values as consecutive rows, with the first index and the step, 1 or -1; or None."""
        rows = [self.row_of(v) for v in values]
        if any(row is None or row[0] is not rows[0][0] for row in rows):  # type: ignore[index]
            return None
        indices = [row[1] for row in rows]  # type: ignore[index]
        step = indices[1] - indices[0]
        if abs(step) == 1 and all(b - a == step for a, b in pairwise(indices)):
            return rows[0][0], indices[0], step  # type: ignore[index]
        return None

    def row_of(self, atom: Atom) -> tuple[Var, int] | None:
        """The array that a value is a row of, and the index of that row."""
        squeezed = self.whole.producer_of(atom, squeeze_p)
        eqn = squeezed and squeezed.params["dimensions"] == (0,) and self.whole.producer_of(squeezed.invars[0], slice_p)
        if not eqn:
            return None
        whole: Any = eqn.invars[0]
        index = eqn.params["start_indices"][0]
        return (whole, index) if eqn.params == _slice_params(whole, index, index + 1) else None


def _slice_params(whole: Any, start: int, limit: int) -> dict[str, Any]:
    shape = whole.aval.shape
    return {"start_indices": (start, *[0] * (len(shape) - 1)), "limit_indices": (limit, *shape[1:]), "strides": None}


def _row(stack: Var, number: int, var: Var, source: Any) -> list[JaxprEqn]:
    """Slices a row of a stack."""
    ordered: list[JaxprEqn] = []
    row = _applied(ordered, slice_p, [stack], _slice_params(stack, number, number + 1), source)
    return [*ordered, JaxprEqn([row], [var], squeeze_p, {"dimensions": (0,)}, source)]


def _applied(ordered: list[JaxprEqn], primitive: Any, operands: list[Any], params: dict[str, Any], source: Any) -> Var:
    """Appends an equation and returns its result."""
    out = Var(primitive.type_of(tuple([v.aval for v in operands]), params)[0])
    ordered.append(JaxprEqn(operands, [out], primitive, params, source))
    return out
