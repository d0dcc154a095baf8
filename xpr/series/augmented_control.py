"""How companions go through operations that hold programs: calls, conditionals, loops.

Each rule takes `(trace, values, companions, params)`, with the trace below current, and gives results and companions.
It turns the programs into programs that carry companions too, and applies the same operation to those. Functions with
derivative rules of their own, and solutions of equations, are not among them: a trace applies their rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from xpr.control.activity import reached_outputs, settle, spread
from xpr.control.cond.cond import bind_cond, cond_p
from xpr.control.custom import rules
from xpr.control.custom.custom_lin import custom_lin_p
from xpr.control.custom.custom_vmap import custom_vmap_call_p
from xpr.control.devices.xla_pmap import pmap_params, xla_pmap_p
from xpr.control.remat.checkpoint import checkpoint_p
from xpr.control.scan.layout import layout_of
from xpr.control.scan.scan import bind_scan, scan_p
from xpr.control.tracing import join_consts
from xpr.control.while_.while_loop import Loop, bind_while, while_p, with_more_arguments
from xpr.control.xla_call import call, xla_call_p
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import NamedAxis, axes_in_scope
from xpr.core.jaxpr import Jaxpr, constvars_to_invars
from xpr.primitives.shapes import move_axis
from xpr.series.augmented import (
    Carried,
    CarryTrace,
    Companions,
    Flags,
    arrays_among,
    carried_jaxpr,
    carry_forward,
    taken,
)

Given = Sequence[Companions | None]


def _active(companions: Given) -> Flags:
    return tuple([c is not None for c in companions])


def _flat(companions: Given) -> list[Any]:
    """The arrays of the companions that are there."""
    return [x for c in companions if c is not None for x in c if x is not None]


def _grouped(trace: CarryTrace, arrays: Sequence[Any], active: Sequence[Any], avals: Sequence[ShapedArray]) -> Given:
    """The companions of active values, from their arrays one after another."""
    rest = iter(arrays)
    return [taken(trace, a, flags, rest) for flags, a in zip(active, avals)]


def _whole(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule for companions that are all arrays."""

    def for_any(trace: CarryTrace, values: Sequence[Any], companions: Given, params: dict[str, Any]) -> Any:
        arrays = [c if c is None else trace.arrays(c, x) for c, x in zip(companions, values)]
        return rule(trace, values, arrays, params)

    return for_any


def _required(trace: CarryTrace, values: Sequence[Any], companions: Given, flags: Flags) -> list[Any]:
    """The arrays of the companions of the values marked, zeros for those that have none."""
    return _flat([(c or trace.zeros(aval_of(x))) if flag else None for x, c, flag in zip(values, companions, flags)])


# -- Calls: what is known to be zero stays so inside, and behind them


def _carried(trace: CarryTrace, jaxpr: Jaxpr, companions: Given) -> Carried:
    return carried_jaxpr(trace, jaxpr, tuple(map(arrays_among, companions)), whole=False)


def _call(trace: CarryTrace, values: Sequence[Any], companions: Given, params: dict[str, Any]) -> Any:
    jaxpr = params["call_jaxpr"]
    carried = _carried(trace, jaxpr, companions)
    results = call(carried.closed, [*values, *_flat(companions)], params["name"])
    n = len(jaxpr.outvars)
    return results[:n], _grouped(trace, results[n:], carried.active_outs, jaxpr.out_avals)


def _checkpoint(trace: CarryTrace, values: Sequence[Any], companions: Given, params: dict[str, Any]) -> Any:
    jaxpr = params["jaxpr"]
    carried = _carried(trace, jaxpr, companions)
    closed = carried.closed
    operands = [*closed.consts, *values, *_flat(companions)]
    results = checkpoint_p.bind(*operands, **{**params, "jaxpr": constvars_to_invars(closed)})
    n = len(jaxpr.outvars)
    return results[:n], _grouped(trace, results[n:], carried.active_outs, jaxpr.out_avals)


def _pmap(trace: CarryTrace, values: Sequence[Any], companions: Given, params: dict[str, Any]) -> Any:
    """The same on every device; companions are cut along the axis of their value, behind their own axes."""
    jaxpr, in_axes, out_axes = params["call_jaxpr"], params["in_axes"], params["out_axes"]
    with axes_in_scope(NamedAxis(params["axis_name"], params["axis_size"])):
        carried = carried_jaxpr(trace, jaxpr, _active(companions))
    closed, active = carried.closed, carried.active_outs
    more = _axes_of(trace, in_axes, [v.aval for v in jaxpr.invars], _active(companions))
    more_out = _axes_of(trace, out_axes, jaxpr.out_avals, active)
    results = xla_pmap_p.bind(
        *closed.consts, *values, *_flat(companions),
        **pmap_params(
            constvars_to_invars(closed),
            [*[None] * len(closed.consts), *in_axes, *more],
            [*out_axes, *more_out],
            **{key: params[key] for key in ("axis_name", "axis_size", "name", "backend", "devices")},
        ),
    )  # fmt: skip
    n = len(jaxpr.outvars)
    return results[:n], _grouped(trace, results[n:], active, jaxpr.out_avals)


def _axes_of(
    trace: CarryTrace, axes: Sequence[int | None], avals: Sequence[ShapedArray], active: Sequence[bool]
) -> list[int | None]:
    """Where the rows of each array of the companions are."""
    return [
        None if axis is None else axis + t.ndim - a.ndim
        for axis, a, flag in zip(axes, avals, active)
        if flag
        for t in trace.types(a)
    ]


def _function(trace: CarryTrace, values: Sequence[Any], companions: Given, params: dict[str, Any]) -> Any:
    """Runs the function; its rule, which says how it is mapped over rows, is left aside."""
    again = trace.again(trace.parent)  # type: ignore[arg-type]  # never the bottom
    return carry_forward(again, lambda *xs: rules.apply(params["call_jaxpr"], xs), values, companions)


def _forward_map(trace: CarryTrace, values: Sequence[Any], companions: Given, params: dict[str, Any]) -> Any:
    """Runs what the operation does to tangents, the transpose of a custom_vjp function's `bwd`."""
    again, push = trace.again(trace.parent), custom_lin_p.lower_as  # type: ignore[arg-type]  # never the bottom
    return carry_forward(again, lambda *xs: push(*xs, **params), values, companions)  # type: ignore[misc]  # it has one


# -- Conditionals


def _cond(trace: CarryTrace, values: Sequence[Any], companions: Given, params: dict[str, Any]) -> Any:
    """Branches that agree on which results have companions."""
    index, *operands = values
    active, branches = _active(companions[1:]), params["branches"]
    found = [carried_jaxpr(trace, branch, active).active_outs for branch in branches]
    flags = tuple([any(some) for some in zip(*found)])
    consts, jaxprs = join_consts([carried_jaxpr(trace, branch, active, flags).closed for branch in branches])
    results = bind_cond(tuple(jaxprs), index, [*consts, *operands, *_flat(companions[1:])], params)
    outs = results[: len(flags)]
    return outs, _grouped(trace, results[len(flags) :], flags, [aval_of(x) for x in outs])


# -- Loops


def _places(trace: CarryTrace, avals: Sequence[ShapedArray], active: Sequence[bool]) -> list[int]:
    """To which of the values each array of the companions belongs."""
    return [i for i, (a, flag) in enumerate(zip(avals, active)) if flag for _ in trace.types(a)]


def _beside(
    jaxpr: Jaxpr, cuts: tuple[int, int], places: Sequence[int], n_carry: int, out_places: Sequence[int]
) -> Jaxpr:
    """A carried body with the companions of each group (constants, carry, rows) right behind the group.

    `jaxpr` has its constants first, then the values, then the arrays whose places say to which value they belong.
    """
    total = len(jaxpr.invars) - len(places)
    own, extra = jaxpr.invars[:total], jaxpr.invars[total:]
    invars = []
    for low, high in pairwise((0, *cuts, total)):
        invars += own[low:high] + [v for v, p in zip(extra, places) if low <= p < high]
    m = len(jaxpr.outvars) - len(out_places)
    outs, extra_outs = jaxpr.outvars[:m], jaxpr.outvars[m:]
    of_carry = [v for v, p in zip(extra_outs, out_places) if p < n_carry]
    of_ys = [v for v, p in zip(extra_outs, out_places) if p >= n_carry]
    return jaxpr.replace(invars=invars, outvars=[*outs[:n_carry], *of_carry, *outs[n_carry:], *of_ys])


def _scan(trace: CarryTrace, values: Sequence[Any], companions: Given, params: dict[str, Any]) -> Any:
    """One loop that carries the companions of its carry; those of rows are rows of arrays."""
    body, layout = params["jaxpr"], layout_of(params)
    k = layout.num_carry
    consts, start, xs = layout.operands(_active(companions))
    n_ys = len(body.outvars) - k

    def carried(carry: Flags, forced: Flags) -> Any:
        made = carried_jaxpr(trace, body, (*consts, *carry, *xs), forced + (False,) * n_ys)
        return made, made.active_outs[:k]

    bound = spread(tuple(start), lambda c: reached_outputs(body, (*consts, *c, *xs), True)[:k])
    made, carry = settle(tuple(start), bound, carried)
    jaxpr, shift = constvars_to_invars(made.closed), len(made.closed.consts)
    places = [shift + p for p in _places(trace, body.in_avals, (*consts, *carry, *xs))]
    out_places = _places(trace, body.out_avals, made.active_outs)
    cuts = (shift + layout.num_consts, shift + layout.num_consts + k)
    own, given = layout.operands(values), layout.operands(companions)
    rows = [move_axis(c, aval_of(c).ndim - aval_of(x).ndim, 0) for x, cs in zip(own[2], given[2]) for c in cs or ()]
    outs = bind_scan(
        _beside(jaxpr, cuts, places, k, out_places),
        [*made.closed.consts, *own[0], *_flat(given[0])],
        [*own[1], *_required(trace, own[1], given[1], carry)],
        [*own[2], *rows],
        params,
    )
    m = sum(p < k for p in out_places)
    results = [*outs[:k], *outs[k + m : k + m + n_ys]]
    stacks = outs[k + m + n_ys :]
    turned = [move_axis(c, 0, aval_of(c).ndim - aval_of(results[p]).ndim) for c, p in zip(stacks, out_places[m:])]
    avals = [aval_of(x) for x in results]
    return results, _grouped(trace, [*outs[k : k + m], *turned], made.active_outs, avals)


def _while(trace: CarryTrace, values: Sequence[Any], companions: Given, params: dict[str, Any]) -> Any:
    """One loop that carries the companions of its carry; its predicate does not read them."""
    loop, given = Loop.of(values, **params), Loop.of(companions, **params)
    flags = given.like(_active(given.operands))
    consts = tuple(flags.body_consts)

    def carried(carry: Flags, forced: Flags) -> Any:
        made = carried_jaxpr(trace, loop.body, (*consts, *carry), forced)
        return made, made.active_outs

    made, active = settle(tuple(flags.carry), flags.reached(True), carried)
    jaxpr, shift = constvars_to_invars(made.closed), len(made.closed.consts)
    places = [shift + p for p in _places(trace, loop.body.in_avals, (*consts, *active))]
    n_consts, n_carry = shift + len(loop.body_consts), len(loop.carry)
    extra = _required(trace, loop.carry, given.carry, active)
    out_places = _places(trace, loop.body.out_avals, active)
    outs = bind_while(
        Loop(
            with_more_arguments(loop.cond, [aval_of(x) for x in extra]),
            loop.cond_consts,
            _beside(jaxpr, (n_consts, n_consts + n_carry), places, n_carry, out_places),
            [*made.closed.consts, *loop.body_consts, *_flat(given.body_consts)],
            [*loop.carry, *extra],
        )
    )
    return outs[:n_carry], _grouped(trace, outs[n_carry:], active, loop.body.out_avals)


RULES: dict[Any, Callable[..., Any]] = {
    xla_call_p: _call,
    checkpoint_p: _checkpoint,
    custom_vmap_call_p: _function,
    custom_lin_p: _forward_map,
    cond_p: _whole(_cond),
    scan_p: _whole(_scan),
    while_p: _whole(_while),
    xla_pmap_p: _whole(_pmap),
}
CarryTrace.control.update(RULES)
