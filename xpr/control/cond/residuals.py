"""The branches of a cond in two halves; the second halves read residuals of the first ones.

Linearization splits them into equations that compute values and equations linear in the tangents, partial evaluation
into equations that read known operands and the other equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import FillerVar, Jaxpr, JaxprEqn, Literal, Var
from xpr.errors import UnsupportedRule
from xpr.primitives.shapes import broadcast_in_dim_p, zeros_like_aval
from xpr.transforms.stage import stage

T = TypeVar("T")
Source = tuple[str, int]  # of a residual: ("operand", i), ("result", i) of the cond, or ("slot", i)


class SplitBranches:
    """Branches in two halves; the second halves take `residuals | operands of the second half`.

    Residuals that are operands or results of the first cond are passed on. The others go from a branch to its second
    half through slots, each of one type, which are further results of the first halves. Branches share the slots, and
    fill unused ones with zeros: of each type there are as many as any one branch needs.
    """

    __slots__ = ("first", "residuals", "second", "slots")

    def __init__(
        self,
        firsts: Sequence[Jaxpr],
        positions: Sequence[Sequence[int | None]],
        seconds: Sequence[Jaxpr],
        operands: Sequence[ShapedArray],
        num_results: int,
    ):
        """
        Args:
          firsts: the first halves, which return `results | residuals that are no operands`.
          positions: for each residual of each branch, which operand it is, or None.
          seconds: the second halves, each of which takes `its residuals | its operands`.
          operands: the types of the operands of the first halves.
          num_results: how many results the first halves have.
        """
        slots: list[ShapedArray] = []
        sources = [_sources(jaxpr, operand_of, slots, num_results) for jaxpr, operand_of in zip(firsts, positions)]
        passed_on = sorted({source for of_branch in sources for source in of_branch if source[0] != "slot"})
        self.residuals: list[Source] = [*passed_on, *(("slot", i) for i in range(len(slots)))]
        results, _ = split_list(firsts[0].out_avals, num_results)
        types = {"operand": operands, "result": results, "slot": slots}
        avals = [types[kind][i] for kind, i in self.residuals]
        self.slots = slots
        self.first = tuple(
            [_with_slots(jaxpr, of_branch, slots, num_results) for jaxpr, of_branch in zip(firsts, sources)]
        )
        self.second = tuple([self._second(jaxpr, of_branch, avals) for jaxpr, of_branch in zip(seconds, sources)])

    def _second(self, jaxpr: Jaxpr, sources: list[Source], avals: Sequence[ShapedArray]) -> Jaxpr:
        """A second half that takes the residuals of all branches."""
        residuals, operands = split_list(jaxpr.invars, len(sources))
        variables = dict(zip(sources, residuals))
        taken = [variables.get(source) or FillerVar(aval) for source, aval in zip(self.residuals, avals)]
        return jaxpr.replace(invars=[*taken, *operands])

    def residuals_among(self, operands: Sequence[T], results: Sequence[T], slots: Sequence[T]) -> list[T]:
        """The residuals, from the operands, results and slots of the first cond."""
        values = {"operand": operands, "result": results, "slot": slots}
        return [values[kind][i] for kind, i in self.residuals]


def _sources(jaxpr: Jaxpr, positions: Sequence[int | None], slots: list[ShapedArray], num_results: int) -> list[Source]:
    """The sources of the residuals of a branch; `slots` grows as needed."""
    results, residuals = split_list(jaxpr.outvars, num_results)
    computed = iter(residuals)
    result_numbers = {id(v): i for i, v in reversed([*enumerate(results)])}  # of equal results the first
    free: dict[ShapedArray, list[int]] = {}
    for i, aval in reversed([*enumerate(slots)]):
        free.setdefault(aval, []).append(i)

    def slot_for(aval: ShapedArray) -> int:
        """The first free slot of that type, or a new one if there is none."""
        if free.get(aval):
            return free[aval].pop()
        slots.append(aval)
        return len(slots) - 1

    sources: list[Source] = []
    for position in positions:
        if position is not None:
            sources.append(("operand", position))
            continue
        residual = next(computed)
        if (result := result_numbers.get(id(residual))) is not None:
            sources.append(("result", result))
        else:
            sources.append(("slot", slot_for(residual.aval.strip_weak_type())))
    return sources


def _with_slots(jaxpr: Jaxpr, sources: Sequence[Source], slots: Sequence[ShapedArray], num_results: int) -> Jaxpr:
    """A first half that returns the results and a value for every slot."""
    results, residuals = split_list(jaxpr.outvars, num_results)
    computed = [source for source in sources if source[0] != "operand"]
    filled: dict[int, Any] = {i: v for (kind, i), v in zip(computed, residuals) if kind == "slot"}
    zeros: dict[ShapedArray, Var] = {}
    eqns = list(jaxpr.eqns)
    for i, aval in enumerate(slots):
        if i not in filled:
            if aval not in zeros:
                zeros[aval] = zeros_in(eqns, aval)
            filled[i] = zeros[aval]
    return jaxpr.replace(outvars=[*results, *(filled[i] for i in range(len(slots)))], eqns=eqns)


def zeros_in(eqns: list[JaxprEqn], aval: ShapedArray) -> Any:
    """Zeros in a jaxpr; appends the equation that makes them to `eqns`."""
    if aval.is_high or aval.plain is not aval:
        closed = stage(lambda: [zeros_like_aval(aval)], [])
        if closed.consts:
            raise UnsupportedRule(
                f"cond: only some branches keep a value of type {aval.str_short()}, whose zero is an object. Let its "
                "class define vspace_zero by an operation, a HiPrimitive or VJPHiPrimitive."
            )
        eqns.extend(closed.eqns)
        return closed.outvars[0]
    zero = Literal(np.zeros((), aval.dtype)[()])
    if not aval.shape:
        return zero
    out = Var(aval)
    eqns.append(JaxprEqn([zero], [out], broadcast_in_dim_p, {"shape": aval.shape, "broadcast_dimensions": ()}))
    return out
