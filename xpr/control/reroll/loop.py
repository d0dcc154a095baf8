"""The scan that groups of equations become, with what makes its stacks and takes its stacked results apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from xpr.control.reroll.groups import Equations, Groups, Place
from xpr.control.scan.scan import scan_p
from xpr.core.jaxpr import Atom, DropVar, Jaxpr, JaxprEqn, Literal, Var
from xpr.passes.structure import operand_key
from xpr.primitives.shapes import broadcast_in_dim_p, rev_p, squeeze_p
from xpr.primitives.slicing import concatenate_p, slice_p


class Loop:
    """The scan that groups become."""

    def __init__(self, whole: Equations, groups: Groups):
        self.whole, self.groups = whole, groups
        self.consts: dict[Any, Var] = {}  # by the variable outside: the one inside
        self.carry: dict[tuple[Place, Any], tuple[Atom, Var]] = {}  # by place and first value: that, and inside
        self.rows: dict[Any, tuple[list[Atom], Var]] = {}  # by the values of all groups: those, and inside
        self.inside: dict[tuple[int, int], Var] = {}  # the results of the body's equations
        self.body = [self.body_equation(position, eqn) for position, eqn in enumerate(groups.group(0))]
        self.finals, self.stacked = self.results()

    def body_equation(self, position: int, eqn: JaxprEqn) -> JaxprEqn:
        invars = [self.operand(position, i) for i in range(len(eqn.invars))]
        outvars = [Var(v.aval) for v in eqn.outvars]
        self.inside.update(((position, i), v) for i, v in enumerate(outvars))
        return eqn.replace(invars=invars, outvars=outvars)

    def operand(self, position: int, i: int) -> Atom:
        place, first = self.groups.slots[position][i], self.groups.group(0)[position].invars[i]
        if place is not None and place.back == 0:
            return self.inside[place.position, place.result]
        if place is not None:
            return self.carry.setdefault((place, operand_key(first)), (first, Var(first.aval)))[1]
        eqns, start, period = self.whole.eqns, self.groups.start + position, self.groups.period
        values = [eqns[index].invars[i] for index in range(start, self.groups.end, period)]
        key = tuple(map(operand_key, values))
        if len(set(key)) > 1:
            return self.rows.setdefault(key, (values, Var(first.aval)))[1]
        return first if type(first) is Literal else self.consts.setdefault(first, Var(first.aval))

    def is_worth_it(self) -> bool:
        """Whether less is done to make stacks and take them apart than in the groups."""
        copied = sum(self.rows_of_one(values) is None for values, _ in self.rows.values())
        taken_out = sum(len(needed) for needed in self.stacked.values())
        groups = self.groups
        return copied * groups.count + taken_out < groups.period * groups.count

    def written(self) -> list[JaxprEqn]:
        """What makes the stacks, the scan, and what takes its stacked results apart."""
        ordered: list[JaxprEqn] = []
        groups, source = self.groups, self.body[0].source
        stacks = [self.stack(values, ordered) for values, _ in self.rows.values()]
        carried = [self.inside[place.position, place.result] for place, _ in self.carry]
        finals, stacked = self.finals, self.stacked
        body = Jaxpr(
            [],
            [*self.consts.values(), *(v for _, v in self.carry.values()), *(v for _, v in self.rows.values())],
            [*carried, *(self.inside[key] for key in stacked)],
            self.body,
        )
        outs = [Var(v.aval.update(shape=(groups.count, *v.aval.shape))) for v in body.outvars[len(carried) :]]
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
        carried = {(place.position, place.result) for place, _ in self.carry}
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
        for (place, _), (_, v) in self.carry.items():
            key = place.position, place.result
            finals.append(final.pop(key) if key in final else DropVar(v.aval))
        return finals, stacked

    def stack(self, values: Sequence[Atom], ordered: list[JaxprEqn]) -> Var:
        """An array whose rows are the values: the one they were taken out of, or a new one."""
        source = self.body[0].source
        found = self.rows_of_one(values)
        if found is not None:
            whole, first, step = found
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
        made: dict[Any, Var] = {}
        for v in values:
            if operand_key(v) not in made:
                made[operand_key(v)] = _applied(ordered, broadcast_in_dim_p, [v], params, source)
        return _applied(ordered, concatenate_p, [made[operand_key(v)] for v in values], {"dimension": 0}, source)

    def rows_of_one(self, values: Sequence[Atom]) -> tuple[Var, int, int] | None:
        """The array that the values are rows of, one after another, with the first place and 1 or -1; or None."""
        found = [self.row_of(v) for v in values]
        if any(row is None or row[0] is not found[0][0] for row in found):  # type: ignore[index]
            return None
        places = [row[1] for row in found]  # type: ignore[index]
        step = places[1] - places[0]
        if abs(step) == 1 and all(b - a == step for a, b in pairwise(places)):
            return found[0][0], places[0], step  # type: ignore[index]
        return None

    def row_of(self, atom: Atom) -> tuple[Var, int] | None:
        """The array that a value is a row of, and which."""
        squeezed = self.whole.made_by(atom, squeeze_p)
        cut = squeezed and squeezed.params["dimensions"] == (0,) and self.whole.made_by(squeezed.invars[0], slice_p)
        if not cut:
            return None
        whole: Any = cut.invars[0]
        place = cut.params["start_indices"][0]
        return (whole, place) if cut.params == _slice_params(whole, place, place + 1) else None


def _slice_params(whole: Any, start: int, limit: int) -> dict[str, Any]:
    shape = whole.aval.shape
    return {"start_indices": (start, *[0] * (len(shape) - 1)), "limit_indices": (limit, *shape[1:]), "strides": None}


def _row(stack: Var, number: int, var: Var, source: Any) -> list[JaxprEqn]:
    """Takes a row of a stack."""
    ordered: list[JaxprEqn] = []
    row = _applied(ordered, slice_p, [stack], _slice_params(stack, number, number + 1), source)
    return [*ordered, JaxprEqn([row], [var], squeeze_p, {"dimensions": (0,)}, source)]


def _applied(ordered: list[JaxprEqn], primitive: Any, operands: list[Any], params: dict[str, Any], source: Any) -> Var:
    """The result of one more equation."""
    out = Var(primitive.type_of(tuple([v.aval for v in operands]), params)[0])
    ordered.append(JaxprEqn(operands, [out], primitive, params, source))
    return out
