"""scan, split by which of its operands are known: one loop over known values, then one over the unknown ones.

Values that depend on known constants alone are computed once, before both. The second loop reads residuals of the
first, see residuals.py, except shifted ones: shifting them takes longer to compile than stacking them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.control.activity import Flags
from xpr.control.groups import Groups, partition, split_list
from xpr.control.scan.layout import loop_groups
from xpr.control.scan.residuals import SplitLoop
from xpr.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from xpr.passes.partial_eval import PartialJaxpr, partial_eval_jaxpr
from xpr.transforms.stage import stage


class LoopHalves(NamedTuple):
    """The equations of a loop in two halves: `before | known | after` are known, `unknown` reads their results."""

    before: list[JaxprEqn]
    known: JaxprEqn
    after: list[JaxprEqn]
    unknown: JaxprEqn


def loop_split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The `split` rule of scan: the equations of `loop_halves`."""
    before, known, after, unknown = loop_halves(eqn, is_known)
    return [*before, *[known] * bool(known.outvars), *after], [unknown] * bool(unknown.outvars)


def loop_halves(eqn: JaxprEqn, is_known: Sequence[bool]) -> LoopHalves:
    """The equations hoisted before the loop, the loop over known carries and rows, and the loop over unknown ones.

    Only the parameters of a scan are read, and the operands and results are those of a scan.
    """
    hoisted, eqn, is_known = _hoisted(eqn, is_known)
    body, (operands, _) = eqn.params["jaxpr"], loop_groups(eqn.params)
    key = ("scan split", *operands.sizes, tuple(is_known))
    if key not in body.memo:
        body.memo[key] = _LoopHalves(eqn.params, is_known)
    return LoopHalves(hoisted, *body.memo[key].apply(eqn))


def _hoisted(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], JaxprEqn, list[bool]]:
    """The body's equations that read known constants alone, moved outside, and the loop that takes their results."""
    body, (operands, _) = eqn.params["jaxpr"], loop_groups(eqn.params)
    consts, carry, xs = operands.split(is_known)
    key = ("scan hoisted", len(consts), tuple(consts))
    if key not in body.memo:
        moving = (False,) * (len(carry) + len(xs))
        body.memo[key] = partial_eval_jaxpr(body, (*consts, *moving), (True,) * len(body.outvars))
    split = body.memo[key]
    if not split.known.eqns or not eqn.params["length"]:
        return [], eqn, list(is_known)
    loop_consts, loop_carry, loop_xs = operands.split(eqn.invars)
    known, others = partition(loop_consts, consts)
    before, residuals = inlined(split.known, known)
    groups = Groups(consts=len(residuals) + len(others), carry=len(loop_carry), xs=len(loop_xs))
    invars = [*residuals, *others, *loop_carry, *loop_xs]
    flags = [True] * len(residuals) + [False] * len(others) + [*carry, *xs]
    return before, _loop(eqn, split.unknown, groups, invars, eqn.outvars), flags


def inlined(jaxpr: Jaxpr, operands: Sequence[Any]) -> tuple[list[JaxprEqn], list[Any]]:
    """The equations of a jaxpr without constants, applied to other operands, and its results."""
    atoms: dict[Any, Any] = dict(zip(jaxpr.invars, operands))

    def read(atom: Any) -> Any:
        return atom if type(atom) is Literal else atoms[atom]

    eqns = []
    for eqn in jaxpr.eqns:
        outvars = [Var(v.aval) for v in eqn.outvars]
        eqns.append(eqn.replace(invars=list(map(read, eqn.invars)), outvars=outvars))
        atoms.update(zip(eqn.outvars, outvars))
    return eqns, list(map(read, jaxpr.outvars))


class _LoopHalves:
    """The body of a loop in two halves, and which operands and results of the loop are known."""

    def __init__(self, params: dict[str, Any], is_known: Sequence[bool]):
        operands, results = loop_groups(params)
        consts, start, xs = operands.split(is_known)
        split, carry = known_carry_fixed_point(params["jaxpr"], consts, tuple(start), xs, len(results.positions("ys")))
        self.in_known, self.out_known = (*consts, *carry, *xs), split.out_known
        self.known, self.known_results = operands.masked(self.in_known), results.masked(split.out_known)
        self.unknown = operands.masked([not flag for flag in self.in_known])
        first = ClosedJaxpr(split.known)
        self.loop = SplitLoop(first, split.residuals, split.unknown, self.known, self.known_results, False)

    def apply(self, eqn: JaxprEqn) -> tuple[JaxprEqn, list[JaxprEqn], JaxprEqn]:
        """The first loop, the equations that compute residuals from its results, and the second loop."""
        loop, length = self.loop, eqn.params["length"]
        known_ins, unknown_ins = partition(eqn.invars, self.in_known)
        known_outs, unknown_outs = partition(eqn.outvars, self.out_known)
        carry_out, ys = self.known_results.split(known_outs)
        rows = loop.results.part("stacks", loop.first.outvars)
        stacks = [Var(y.aval) if type(y) is DropVar else y for y in ys]
        stacks += [Var(v.aval.with_axis(0, length)) for v in rows]
        known = _loop(eqn, loop.first, self.known, known_ins, [*carry_out, *stacks])

        def residuals(*args: Any) -> list[Any]:
            operands, stacks = split_list(args, len(known_ins))
            consts, carry, xs = self.known.split(operands)
            constants, rows = loop.residuals(consts, carry, xs, stacks, eqn.params)
            return [*constants, *rows]

        atoms = [*known_ins, *stacks]
        gathered = stage(residuals, [v.aval for v in atoms])
        after, residual_atoms = inlined(gathered.jaxpr, atoms)
        constants, rows = split_list(residual_atoms, sum(loop.is_constant))
        consts, carry, xs = self.unknown.split(unknown_ins)
        consts, xs = [*constants, *consts], [*xs, *rows]
        groups = Groups(consts=len(consts), carry=len(carry), xs=len(xs))
        return known, after, _loop(eqn, loop.second, groups, [*consts, *carry, *xs], unknown_outs)


def known_carry_fixed_point(
    body: Jaxpr, consts: Sequence[bool], carry: Flags, xs: Sequence[bool], num_ys: int
) -> tuple[PartialJaxpr, Flags]:
    """The body's halves, and the carries that are known in every step."""
    while True:
        late = [not flag for flag in carry] + [False] * num_ys
        split = partial_eval_jaxpr(body, (*consts, *carry, *xs), late)
        known = tuple([a and b for a, b in zip(carry, split.out_known)])
        if known == carry:
            return split, carry
        carry = known


def _loop(eqn: JaxprEqn, body: Jaxpr, groups: Groups, operands: Sequence[Any], results: Sequence[Any]) -> JaxprEqn:
    num_consts, num_carry, _ = groups.sizes
    linear = (False,) * len(operands)
    changes = {"jaxpr": body, "linear": linear, "num_consts": num_consts, "num_carry": num_carry}
    return eqn.replace(invars=operands, outvars=results, params={**eqn.params, **changes})
