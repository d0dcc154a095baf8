"""Loops with effects over several rows that may end at different steps: a scan over the rows, each of which has a loop.

Such a loop over all rows at once goes on until the last row has ended. What rows that have ended compute meanwhile is
dropped, but their callbacks would be called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.groups import mask, split_list
from xpr.control.scan.scan import bind_scan
from xpr.core.interpreter import context
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var
from xpr.core.primitive import Primitive
from xpr.primitives.shapes import mapped_to


def while_row_by_row(
    primitive: Primitive, size: int, values: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> tuple[list[Any], list[int | None]]:
    """Results and their mapped axes of a loop for each row of the operands, which are mapped along `dims`."""
    mapped = [d is not None for d in dims]
    consts = mask(values, [not flag for flag in mapped])
    xs = [mapped_to(x, d, size) for x, d in zip(values, dims) if d is not None]
    body_jaxpr, flags = params["body_jaxpr"], tuple(mapped)
    key = ("row by row", flags, params["cond_jaxpr"], params["cond_nconsts"])
    if key not in body_jaxpr.memo:
        body_jaxpr.memo[key] = _loop_of_a_row(primitive, flags, **params)
    outs = bind_scan(body_jaxpr.memo[key], consts, [], xs, {"length": size, "reverse": False, "unroll": 1})
    return outs, [0] * len(outs)


def _loop_of_a_row(
    primitive: Primitive, mapped: Sequence[bool], *, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, **counts: int
) -> Jaxpr:
    """A jaxpr of the loop alone, with the operands that have rows last."""
    cond_consts, _ = split_list(cond_jaxpr.in_avals, counts["cond_nconsts"])
    operands = [Var(aval) for aval in (*cond_consts, *body_jaxpr.in_avals)]
    outs = [Var(aval) for aval in body_jaxpr.out_avals]
    params = {"cond_jaxpr": cond_jaxpr, "body_jaxpr": body_jaxpr, **counts}
    invars = [*mask(operands, [not flag for flag in mapped]), *mask(operands, mapped)]
    return Jaxpr([], invars, outs, [JaxprEqn(operands, outs, primitive, params, context.source)])
