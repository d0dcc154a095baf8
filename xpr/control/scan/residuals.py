"""Loops in two halves, of which the second reads residuals of the first, with as few stacked residuals as possible.

Linearization, partial evaluation and transposition split the body of a loop in two. The second half reads values of the
first, its residuals. Their sources, the cheapest first:

    const     an operand of the loop, the same in every step
    hoisted   computed from such operands alone, so once, outside the loop
    x         an operand of the loop, a row in every step
    stacked   a result of the loop, a row of it in every step: an existing or an additional one
    shifted   a carry that is also stacked when it leaves a step: the first carry, and all rows but the last

A residual that a few cheap operations compute from others is recomputed from them in the second half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.groups import Groups, consts_after, partition, split_list
from xpr.control.scan.layout import Bind
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from xpr.passes.dce import dce_jaxpr, has_effect
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import broadcast_in_dim_p, expand_dims
from xpr.primitives.slicing import concatenate, select_n_p, slice_in_dim

CHEAP = frozenset({
    e.add_p, e.sub_p, e.mul_p, e.neg_p, e.abs_p, e.sign_p, e.max_p, e.min_p, e.eq_p, e.ne_p, e.lt_p, e.le_p, e.gt_p,
    e.ge_p, e.and_p, e.or_p, e.not_p, e.convert_element_type_p, e.integer_pow_p, select_n_p, broadcast_in_dim_p,
})  # fmt: skip
LONGEST = 4  # operations that recompute a residual

Source = tuple[str, Any]


class SplitLoop:
    """A loop body in two halves, and the source of each residual of the second half.

    Args:
      first: the program of the first half, of `operands`; its leading results are `results`.
      wanted: the residuals, each a variable of the first half.
      second: takes `residuals | its operands`.
      operands: the groups consts, carry, xs.
      results: the groups carry, ys.
      shifts: whether residuals may be shifted; False if the loop may not reach every row.

    Attributes:
      first: the body of the first loop: from `consts | carry | xs` to its results and a row of each additional stack.
      first_consts: the last of its consts.
      results: the groups of its results.
      hoisted: computes from the same operands the residuals that are the same in every step; None if there are none.
      second: takes `constant residuals | its operands | rows of residuals`.
      sources: the sources of its residuals, as above; for a "shifted" one, the carry and the stack.
      is_constant: which of them are the same in every step.
    """

    __slots__ = ("first", "first_consts", "hoisted", "is_constant", "results", "second", "sources")

    def __init__(
        self,
        first: ClosedJaxpr,
        wanted: Sequence[Any],
        second: Jaxpr,
        operands: Groups,
        results: Groups,
        shifts: bool,
    ):
        self.first_consts = first.consts
        consts, carry, xs = operands.sizes
        whole = consts_after(first, consts)
        plan = _Plan(whole, Groups(consts=consts + len(first.consts), carry=carry, xs=xs), results, shifts)
        plan.compute(wanted)
        self.sources, self.is_constant, self.second = _second_half(second, wanted, plan)
        outvars = [*plan.carry_out, *plan.stacks]
        self.first, _ = dce_jaxpr(whole.replace(outvars=outvars), [True] * len(outvars), keep_inputs=True)
        num_carry, num_ys = results.sizes
        self.results = Groups(carry=num_carry, ys=num_ys, stacks=len(outvars) - num_carry - num_ys)
        self.hoisted = _once(whole, plan.hoisted) if plan.hoisted else None

    def run(
        self, bind: Bind, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], params: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """Applies the first loop; returns its results and all of its stacks."""
        outs = bind(self.first, [*consts, *self.first_consts], carry, xs, params)
        carry_out, ys, stacks = self.results.split(outs)
        return [*carry_out, *ys], [*ys, *stacks]

    def residuals(
        self,
        consts: Sequence[Any],
        carry: Sequence[Any],
        xs: Sequence[Any],
        stacks: Sequence[Any],
        params: dict[str, Any],
    ) -> tuple[list[Any], list[Any]]:
        """The residuals that are the same in every step, and the stacks of the others."""
        consts = [*consts, *self.first_consts]
        hoisted = eval_jaxpr(self.hoisted, (), *consts, *carry, *xs) if self.hoisted else []
        arrays = {"const": consts, "x": xs, "hoisted": hoisted, "stacked": stacks}
        residuals = [
            _shifted(carry[at[0]], stacks[at[1]], params) if kind == "shifted" else arrays[kind][at]
            for kind, at in self.sources
        ]
        return partition(residuals, self.is_constant)


def _once(body: Jaxpr, results: Sequence[Any]) -> Jaxpr:
    """The part of a body that computes results which are the same in every step, without its effects."""
    silent = [eqn for eqn in body.eqns if not has_effect(eqn)]
    return dce_jaxpr(body.replace(outvars=results, eqns=silent), [True] * len(results), keep_inputs=True)[0]


def _shifted(start: Any, leaving: Any, params: dict[str, Any]) -> Any:
    """The stack of the carry before each step, from the stack of the carry after each step."""
    length = params["length"]
    if not length:
        return leaving
    first = expand_dims(start, (0,))
    if params["reverse"]:
        return concatenate([slice_in_dim(leaving, 1, length), first], 0)
    return concatenate([first, slice_in_dim(leaving, 0, length - 1)], 0)


class _Plan:
    """Decides which residuals are stacked, and which are recomputed (`recipes`)."""

    def __init__(self, whole: Jaxpr, operands: Groups, results: Groups, shifts: bool):
        self.eqns, self.shifts = whole.eqns, shifts
        self.producers = {v: eqn for eqn in whole.eqns for v in eqn.outvars}
        self.order = {id(eqn): i for i, eqn in enumerate(whole.eqns)}
        consts, carry, xs = operands.split(whole.invars)
        outvars, _ = split_list(whole.outvars, sum(results.sizes))
        self.carry_out, self.stacks = results.split(outvars)
        self.stack_numbers = {id(v): i for i, v in reversed([*enumerate(self.stacks)])}  # of equal stacks the first
        self.carry = {v: i for i, v in enumerate(carry)}
        self.hoisted: list[Any] = []
        self.invariant = _invariants(whole, consts)
        self.operands: dict[Any, Source] = {v: ("const", i) for i, v in enumerate(consts)}
        self.operands.update((v, ("x", i)) for i, v in enumerate(xs))
        self.recipes: dict[Any, list[JaxprEqn]] = {}

    def compute(self, wanted: Sequence[Any]) -> None:
        """Plans for the `wanted` residuals, beginning with those that others may be computed from."""
        carries = {v for v in wanted if v in self.carry}
        computed = [v for v in wanted if not self.is_free(v) and v not in carries]
        for v in sorted(computed, key=lambda v: self.order[id(self.producers[v])]):
            eqns = self.recipe(v, carries)
            if eqns is None:
                self.stack_of(v)
            else:
                self.recipes[v] = eqns

    def is_free(self, v: Any) -> bool:
        """Whether a value is available in every step without another stack."""
        return type(v) is Literal or v in self.operands or v in self.invariant or id(v) in self.stack_numbers

    def recipe(self, v: Any, carries: set[Any]) -> list[JaxprEqn] | None:
        """The few cheap equations that compute a value from available ones, or from `carries`; or None."""
        eqns: dict[int, JaxprEqn] = {}
        pending = [v]
        while pending:
            atom = pending.pop()
            if atom is not v and (self.is_free(atom) or atom in carries):
                continue
            eqn = self.producers.get(atom)
            if eqn is None or eqn.primitive not in CHEAP or len(eqns) == LONGEST:
                return None
            if id(eqn) not in eqns:
                eqns[id(eqn)] = eqn
                pending.extend(eqn.invars)
        return sorted(eqns.values(), key=lambda eqn: self.order[id(eqn)])

    def source(self, v: Any) -> Source:
        """The source of a value that has no recipe."""
        if v in self.operands:
            return self.operands[v]
        if type(v) is Literal or v in self.invariant:
            self.hoisted.append(v)
            return "hoisted", len(self.hoisted) - 1
        if v in self.carry and self.shifts:
            leaving = self.carry_out[self.carry[v]]
            if id(leaving) in self.stack_numbers:
                return "shifted", (self.carry[v], self.stack_of(leaving))
        return "stacked", self.stack_of(v)

    def stack_of(self, v: Any) -> int:
        """The number of the stack of a value; a new one if there is none."""
        number = self.stack_numbers.setdefault(id(v), len(self.stacks))
        if number == len(self.stacks):
            self.stacks.append(v)
        return number


def _invariants(jaxpr: Jaxpr, constants: Sequence[Var]) -> set[Any]:
    """The variables computed from constants alone."""
    invariant: set[Any] = set(constants)
    for eqn in jaxpr.eqns:
        if all(type(v) is Literal or v in invariant for v in eqn.invars) and not has_effect(eqn):
            invariant.update(eqn.outvars)
    return invariant


def _second_half(second: Jaxpr, wanted: Sequence[Any], plan: _Plan) -> tuple[list[Source], list[bool], Jaxpr]:
    """The sources of the second half's residuals, which of them are the same in every step, and the second half.

    It computes the other residuals from those.
    """
    residuals, operands = split_list(second.invars, len(wanted))
    taken = [(v, r) for v, r in zip(wanted, residuals) if v not in plan.recipes]
    inside: dict[Any, Var] = {v: r for v, r in taken if type(v) is not Literal}
    inside.update((v, r) for v, r in zip(wanted, residuals) if v in plan.recipes)
    computed: set[Any] = set()
    eqns: list[JaxprEqn] = []

    def read(atom: Any) -> Any:
        if type(atom) is Literal:
            return atom
        if atom not in inside:
            inside[atom] = Var(atom.aval)
            if atom not in computed:
                taken.append((atom, inside[atom]))
        return inside[atom]

    for recipe in plan.recipes.values():
        for eqn in recipe:
            if eqn.outvars[0] not in computed:
                computed.add(eqn.outvars[0])
                invars = [read(atom) for atom in eqn.invars]
                (out,) = eqn.outvars
                inside.setdefault(out, Var(out.aval))
                eqns.append(eqn.replace(invars=invars, outvars=[inside[out]]))

    sources = [plan.source(v) for v, _ in taken]
    constant = [kind in ("const", "hoisted") for kind, _ in sources]
    constants, rows = partition([r for _, r in taken], constant)
    return sources, constant, second.replace(invars=[*constants, *operands, *rows], eqns=[*eqns, *second.eqns])
