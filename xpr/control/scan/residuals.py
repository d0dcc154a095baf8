"""What a loop keeps of its steps for its linear loop: as few stacks as will do.

The linear body reads values of the original body, its residuals. Where they come from, the cheapest first:

    const     an operand of the loop, the same in every step
    hoisted   computed from such operands alone, so once, outside the loop
    x         an operand of the loop, a row in every step
    stacked   a result of the loop, a row of it in every step: one it has anyway, or one more
    shifted   a carry that is also stacked when it leaves a step: the first carry, and all rows but the last

A residual that a few cheap operations make of others is made of them again in the linear body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.activity import picked
from xpr.control.scan.layout import Layout
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from xpr.passes.dce import dce_jaxpr, has_effect
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import broadcast_in_dim_p
from xpr.primitives.slicing import select_n_p
from xpr.transforms.linearize import Linearized

CHEAP = frozenset({
    e.add_p, e.sub_p, e.mul_p, e.neg_p, e.abs_p, e.sign_p, e.max_p, e.min_p, e.eq_p, e.ne_p, e.lt_p, e.le_p, e.gt_p,
    e.ge_p, e.and_p, e.or_p, e.not_p, e.convert_element_type_p, e.integer_pow_p, select_n_p, broadcast_in_dim_p,
})  # fmt: skip
LONGEST = 4  # operations that a residual is made of again

Source = tuple[str, Any]


class Residuals:
    """A body split in two, and where each residual of the linear one comes from.

    `forward` is the body of the first loop: the results of the original one, then a row of each further stack.
    `hoisted` gives what is the same in every step. `linear` takes `residuals that are | tangents | tangents | tangents,
    rows of residuals`. `sources` says where its residuals come from, as above; of a "shifted" one, the carry and the
    stack.
    """

    __slots__ = ("forward", "forward_consts", "hoisted", "linear", "sources")

    def __init__(self, split: Linearized, layout: Layout, all_rows: bool):
        consts, carry, xs = layout.operands(split.primal.jaxpr.invars)
        constants = split.primal.jaxpr.constvars
        self.forward_consts = split.primal.consts
        whole = split.primal.jaxpr.replace(constvars=[], invars=[*consts, *constants, *carry, *xs])
        n_outs = len(split.active_outs)
        computed = iter(whole.outvars[n_outs:])
        own = [*consts, *carry, *xs]
        wanted = [next(computed) if i is None else own[i] for i in split.residual_sources]

        plan = _Plan(whole, layout, consts, carry, xs, constants, whole.outvars[:n_outs], all_rows)
        plan.make(wanted)
        self.sources, self.linear = _linear_body(split.linear, wanted, plan)
        outvars = [*plan.carry_out, *plan.stacks]
        self.forward, _ = dce_jaxpr(whole.replace(outvars=outvars), [True] * len(outvars), keep_inputs=True)
        silent = [eqn for eqn in whole.eqns if not has_effect(eqn)]  # effects belong to the steps
        once = whole.replace(outvars=plan.hoisted, eqns=silent)
        self.hoisted, _ = dce_jaxpr(once, [True] * len(plan.hoisted), keep_inputs=True)

    def is_constant(self) -> list[bool]:
        """Which residuals are the same in every step."""
        return [kind in ("const", "hoisted") for kind, _ in self.sources]


class _Plan:
    """Decides what is stacked, and what is made again (`recipes`)."""

    def __init__(
        self,
        whole: Jaxpr,
        layout: Layout,
        consts: list[Var],
        carry: list[Var],
        xs: list[Var],
        constants: list[Var],
        outvars: Sequence[Any],
        all_rows: bool,
    ):
        self.eqns, self.all_rows = whole.eqns, all_rows
        self.makers = {v: eqn for eqn in whole.eqns for v in eqn.outvars}
        self.order = {id(eqn): i for i, eqn in enumerate(whole.eqns)}
        self.carry_out, ys = layout.results(outvars)
        self.carry = {v: i for i, v in enumerate(carry)}
        self.stacks: list[Any] = list(ys)
        self.hoisted: list[Any] = []
        self.invariant = _invariants(whole, [*consts, *constants])
        self.given: dict[Any, Source] = {v: ("const", i) for i, v in enumerate(consts)}
        self.given.update((v, ("x", i)) for i, v in enumerate(xs))
        self.recipes: dict[Any, list[JaxprEqn]] = {}

    def make(self, wanted: Sequence[Any]) -> None:
        """Plans for the residuals that are wanted, those first that others may be made of."""
        kept = {v for v in wanted if v in self.carry}
        computed = [v for v in wanted if not self.is_free(v) and v not in kept]
        for v in sorted(computed, key=lambda v: self.order[id(self.makers[v])]):
            eqns = self.recipe(v, kept)
            if eqns is None:
                self.stacks.append(v)
            else:
                self.recipes[v] = eqns

    def is_free(self, v: Any) -> bool:
        """Whether a value is at hand in every step without another stack."""
        return type(v) is Literal or v in self.given or v in self.invariant or any(v is y for y in self.stacks)

    def recipe(self, v: Any, kept: set[Any]) -> list[JaxprEqn] | None:
        """The few cheap equations that make a value of what is at hand or `kept` anyway, or None."""
        found: dict[int, JaxprEqn] = {}
        pending = [v]
        while pending:
            atom = pending.pop()
            if atom is not v and (self.is_free(atom) or atom in kept):
                continue
            eqn = self.makers.get(atom)
            if eqn is None or eqn.primitive not in CHEAP or len(found) == LONGEST:
                return None
            if id(eqn) not in found:
                found[id(eqn)] = eqn
                pending.extend(eqn.invars)
        return sorted(found.values(), key=lambda eqn: self.order[id(eqn)])

    def source(self, v: Any) -> Source:
        """Where a value comes from that is no recipe."""
        if v in self.given:
            return self.given[v]
        if type(v) is Literal or v in self.invariant:
            self.hoisted.append(v)
            return "hoisted", len(self.hoisted) - 1
        if v in self.carry and self.all_rows:
            leaving = self.carry_out[self.carry[v]]
            if any(leaving is y for y in self.stacks):
                return "shifted", (self.carry[v], self.place(leaving))
        if not any(v is y for y in self.stacks):
            self.stacks.append(v)
        return "stacked", self.place(v)

    def place(self, v: Any) -> int:
        return next(i for i, y in enumerate(self.stacks) if y is v)


def _invariants(jaxpr: Jaxpr, constants: Sequence[Var]) -> set[Any]:
    """The variables computed from constants alone."""
    found: set[Any] = set(constants)
    for eqn in jaxpr.eqns:
        if all(type(v) is Literal or v in found for v in eqn.invars) and not has_effect(eqn):
            found.update(eqn.outvars)
    return found


def _linear_body(linear: Jaxpr, wanted: Sequence[Any], plan: _Plan) -> tuple[list[Source], Jaxpr]:
    """Where the residuals come from that the linear body takes, and that body, which makes the others of them."""
    residuals, tangents = linear.invars[: len(wanted)], linear.invars[len(wanted) :]
    taken = [(v, r) for v, r in zip(wanted, residuals) if v not in plan.recipes]
    inside: dict[Any, Var] = {v: r for v, r in taken if type(v) is not Literal}
    inside.update((v, r) for v, r in zip(wanted, residuals) if v in plan.recipes)
    made: set[Any] = set()
    eqns: list[JaxprEqn] = []

    def read(atom: Any) -> Any:
        if type(atom) is Literal:
            return atom
        if atom not in inside:
            inside[atom] = Var(atom.aval)
            if atom not in made:
                taken.append((atom, inside[atom]))
        return inside[atom]

    for recipe in plan.recipes.values():
        for eqn in recipe:
            if eqn.outvars[0] not in made:
                made.add(eqn.outvars[0])
                operands = [read(atom) for atom in eqn.invars]
                (out,) = eqn.outvars
                inside.setdefault(out, Var(out.aval))
                eqns.append(eqn.replace(invars=operands, outvars=[inside[out]]))

    sources = [plan.source(v) for v, _ in taken]
    constant = [kind in ("const", "hoisted") for kind, _ in sources]
    variables = [r for _, r in taken]
    invars = [*picked(variables, constant), *tangents, *picked(variables, [not c for c in constant])]
    return sources, linear.replace(invars=invars, eqns=[*eqns, *linear.eqns])
