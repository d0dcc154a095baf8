"""The groups of a scan's operands and results, and which of its carries a transformation affects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from xpr.control.activity import Flags, affected_outputs, least_fixed_point, trace_fixed_point
from xpr.control.groups import Groups

T = TypeVar("T")
Bind = Callable[..., list[Any]]  # (body, consts, carry, xs, params, linear, **changes) -> results


def loop_groups(params: dict[str, Any]) -> tuple[Groups, Groups]:
    """The groups of the operands (and of the body's arguments), and the groups of the results."""
    body = params["jaxpr"]
    return _groups(params["num_consts"], params["num_carry"], len(body.invars), len(body.outvars))


@lru_cache(4096)
def _groups(num_consts: int, num_carry: int, num_operands: int, num_results: int) -> tuple[Groups, Groups]:
    operands = Groups(consts=num_consts, carry=num_carry, xs=num_operands - num_consts - num_carry)
    return operands, Groups(carry=num_carry, ys=num_results - num_carry)


def affected_operands(params: dict[str, Any], affected: Sequence[bool], differentiable: bool) -> Flags:
    """The affected operands of a loop, with the carries that depend on them through its body."""
    body, (operands, results) = params["jaxpr"], loop_groups(params)
    consts, start, xs = operands.split(affected)

    def affected_carries(carry: Flags) -> list[bool]:
        return results.part("carry", affected_outputs(body, (*consts, *carry, *xs), differentiable))

    return (*consts, *least_fixed_point(tuple(start), affected_carries), *xs)


def carry_fixed_point(
    params: dict[str, Any], affected: Sequence[bool], trace: Callable[[Flags, Flags], tuple[T, Sequence[bool]]]
) -> tuple[T, Flags]:
    """Transforms a loop's body for a set of affected carries that is the same among its arguments and results.

    Args:
      params: those of the loop.
      affected: the operands that have tangents.
      trace: from the affected arguments of the body and the results that must be affected to the transformed body
        and its affected results.
    Returns:
      The transformed body, and the affected operands.
    """
    operands, results = loop_groups(params)
    consts, start, xs = operands.split(affected)
    no_ys = (False,) * len(results.positions("ys"))

    def trace_carry(carry: Flags, forced: Flags) -> tuple[T, list[bool]]:
        transformed, affected_carries = trace((*consts, *carry, *xs), forced + no_ys)
        return transformed, results.part("carry", affected_carries)

    bound = operands.part("carry", affected_operands(params, affected, True))
    transformed, carry = trace_fixed_point(tuple(start), tuple(bound), trace_carry)
    return transformed, (*consts, *carry, *xs)
