"""scan, linearized: a loop that computes the values and stacks the residuals, and a linear loop over the stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.activity import Flags, is_active
from xpr.control.groups import mask
from xpr.control.scan.layout import Bind, carry_fixed_point, loop_groups
from xpr.control.scan.residuals import SplitLoop
from xpr.core.avals import Zero, aval_of
from xpr.core.interpreter import current
from xpr.transforms.jvp import with_zeros
from xpr.transforms.linearize import LinearizeTrace, linearize_jaxpr


def _split(params: dict[str, Any], active: Flags, all_rows: bool) -> tuple[SplitLoop, list[bool], Flags]:
    """The body in two halves, which of its results have tangents, and which of its operands do."""
    body, (operands, results) = params["jaxpr"], loop_groups(params)
    key = ("scan linearize", *operands.sizes, active, all_rows)
    if key not in body.memo:

        def trace(active: Flags, forced: Flags) -> Any:
            halves = linearize_jaxpr(body, active, forced)
            return halves, halves.active_outs

        halves, active = carry_fixed_point(params, active, trace)
        loop = SplitLoop(halves.primal, halves.residual_vars, halves.linear, operands, results, all_rows)
        body.memo[key] = loop, halves.active_outs, active
    return body.memo[key]


def loop_linearize(
    bind: Bind,
    bind_linear: Bind,
    all_rows: bool,
    trace: LinearizeTrace,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    params: dict[str, Any],
) -> Any:
    """The `linearize` rule; `bind_linear` applies the linear loop; `all_rows`: the loop reaches every row."""
    operands, _ = loop_groups(params)
    loop, active_outs, active = _split(params, is_active(tangents), all_rows)
    consts, carry, xs = operands.split(primals)
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        outs, stacks = loop.run(bind, consts, carry, xs, params)
        if not any(active_outs):
            return outs, with_zeros([], active_outs, params["jaxpr"].out_avals)
        constants, rows = loop.residuals(consts, carry, xs, stacks, params)
    t_consts, t_carry, t_xs = map(mask, operands.split(tangents), operands.split(active))
    t_carry = [trace.tangents.zeros(t.aval) if type(t) is Zero else t for t in t_carry]
    num_linear = len(t_consts) + len(t_carry) + len(t_xs)
    linear = [False] * len(constants) + [True] * num_linear + [False] * len(rows)
    moved = bind_linear(loop.second, [*constants, *t_consts], t_carry, [*t_xs, *rows], params, linear)
    return outs, with_zeros(moved, active_outs, [aval_of(x) for x in outs])
