"""scan, linearized: a loop that computes the values and stacks the residuals, and a linear one over the stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.activity import Flags, picked, reached_outputs, settle, spread
from xpr.control.scan.layout import Bind, Layout, is_active, layout_of
from xpr.control.scan.residuals import Residuals
from xpr.core.avals import Zero, aval_of
from xpr.core.interpreter import current
from xpr.core.jaxpr import Jaxpr, eval_jaxpr
from xpr.primitives.shapes import expand_dims
from xpr.primitives.slicing import concatenate, slice_in_dim
from xpr.transforms.jvp import with_zeros
from xpr.transforms.linearize import LinearizeTrace, linearize_jaxpr


class _Split:
    """A body split in two, which of its results have tangents, and which carries do."""

    __slots__ = ("active", "carry", "residuals")

    def __init__(self, residuals: Residuals, active: Sequence[bool], carry: Flags):
        self.residuals, self.active, self.carry = residuals, active, carry


def _split_body(body: Jaxpr, layout: Layout, active: Flags, all_rows: bool) -> _Split:
    key = ("scan linearize", layout.num_consts, layout.num_carry, active, all_rows)
    if key not in body.memo:
        consts, start, xs = layout.operands(active)
        num_ys = len(body.outvars) - layout.num_carry

        def trace(carry: Flags, forced: Flags) -> Any:
            made = linearize_jaxpr(body, (*consts, *carry, *xs), forced + (False,) * num_ys)
            return made, made.active_outs[: layout.num_carry]

        bound = spread(tuple(start), lambda c: reached_outputs(body, (*consts, *c, *xs), True)[: layout.num_carry])
        split, carry = settle(tuple(start), bound, trace)
        body.memo[key] = _Split(Residuals(split, layout, all_rows), split.active_outs, carry)
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
    """`bind_linear` applies the linear loop, once the first has been; `all_rows`: the loop reaches every row."""
    body, layout = params["jaxpr"], layout_of(params)
    active = is_active(tangents)
    split = _split_body(body, layout, active, all_rows)
    made = split.residuals
    consts, carry, xs = layout.operands(primals)
    all_consts = [*consts, *made.forward_consts]
    with current(trace.parent):  # type: ignore[arg-type]  # a linearize trace always has one
        given = bind(made.forward, all_consts, carry, xs, params)
        outs, stacks = given[: len(body.outvars)], given[layout.num_carry :]
        if not any(split.active):
            return outs, with_zeros([], split.active, body.out_avals)
        hoisted = eval_jaxpr(made.hoisted, (), *all_consts, *carry, *xs) if made.hoisted.outvars else []
        found = {"const": consts, "x": xs, "hoisted": hoisted, "stacked": stacks}
        residuals = [
            _shifted(carry[at[0]], stacks[at[1]], params) if kind == "shifted" else found[kind][at]
            for kind, at in made.sources
        ]
    constant = made.is_constant()
    t_consts, t_carry, t_xs = layout.operands(tangents)
    c_active, _, x_active = layout.operands(active)
    first = [*picked(residuals, constant), *picked(t_consts, c_active)]
    second = [trace.tangents.zeros(t.aval) if type(t) is Zero else t for t in picked(t_carry, split.carry)]
    last = [*picked(t_xs, x_active), *picked(residuals, [not c for c in constant])]
    linear = [
        *(i >= sum(constant) for i in range(len(first))),
        *(True for _ in second),
        *(i < sum(x_active) for i in range(len(last))),
    ]
    out_tangents = bind_linear(made.linear, first, second, last, params, linear)
    return outs, with_zeros(out_tangents, split.active, [aval_of(x) for x in outs])


def _shifted(start: Any, leaving: Any, params: dict[str, Any]) -> Any:
    """What the carry was when it entered each step, from what it was when it left."""
    length = params["length"]
    if not length:
        return leaving
    first = expand_dims(start, (0,))
    if params["reverse"]:
        return concatenate([slice_in_dim(leaving, 1, length), first], 0)
    return concatenate([first, slice_in_dim(leaving, 0, length - 1)], 0)
