"""Rules of augmented traces for operations with inner jaxprs: calls, conditionals, loops.

Each rule takes `(trace, values, jets, params)`, with the trace below current, and returns results and their jets. It
augments the inner jaxprs, and applies the same operation to those. Functions with custom derivative rules are not among
them, nor solutions of equations: a trace applies their rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.control.activity import trace_fixed_point
from xpr.control.cond.cond import bind_cond, cond_p
from xpr.control.custom import rules
from xpr.control.custom.custom_lin import custom_lin_p
from xpr.control.custom.custom_vmap import custom_vmap_call_p
from xpr.control.devices.xla_pmap import common_params, named_axis, pmap_params, xla_pmap_p
from xpr.control.groups import Groups, rearranged, split_list, with_unused_arguments
from xpr.control.remat.checkpoint import checkpoint_p
from xpr.control.scan.layout import carry_fixed_point, loop_groups
from xpr.control.scan.scan import bind_scan, scan_p
from xpr.control.tracing import join_consts
from xpr.control.while_.while_loop import Loop, bind_while, while_p
from xpr.control.xla_call import call, xla_call_p
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import axes_in_scope
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars
from xpr.primitives.shapes import move_axis
from xpr.series.augmented import (
    AugmentedJaxpr,
    AugmentedTrace,
    Flags,
    Jet,
    array_flags,
    augmented_jaxpr,
    next_jet,
    run_augmented,
)

Jets = Sequence[Jet | None]


def _active(jets: Jets) -> Flags:
    return tuple([c is not None for c in jets])


def _flat(jets: Jets) -> list[Any]:
    """The arrays of the jets, one after another."""
    return [x for c in jets if c is not None for x in c if x is not None]


def _grouped(trace: AugmentedTrace, arrays: Sequence[Any], active: Sequence[Any], avals: Sequence[ShapedArray]) -> Jets:
    """The jets of active values, from their arrays."""
    remaining = iter(arrays)
    return [next_jet(trace, a, flags, remaining) for flags, a in zip(active, avals)]


def _with_jets(
    trace: AugmentedTrace, results: Sequence[Any], active: Sequence[Any], avals: Sequence[ShapedArray]
) -> tuple[list[Any], Jets]:
    """The results of an operation that gives `values | arrays of jets`, the latter of active values."""
    values, arrays = split_list(results, len(avals))
    return values, _grouped(trace, arrays, active, avals)


def _whole(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule, for jets whose parts are all arrays."""

    def for_any(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, params: dict[str, Any]) -> Any:
        arrays = [c if c is None else trace.arrays(c, x) for c, x in zip(jets, values)]
        return rule(trace, values, arrays, params)

    return for_any


def _required(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, flags: Sequence[bool]) -> list[Any]:
    """The arrays of the jets of the marked values, zeros for those without one."""
    return _flat([(c or trace.zeros(aval_of(x))) if flag else None for x, c, flag in zip(values, jets, flags)])


# -- Calls: symbolic zeros remain symbolic inside and behind them


def _augmented(trace: AugmentedTrace, jaxpr: Jaxpr, jets: Jets) -> AugmentedJaxpr:
    return augmented_jaxpr(trace, jaxpr, tuple(map(array_flags, jets)), whole=False)


def _call(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, params: dict[str, Any]) -> Any:
    jaxpr = params["call_jaxpr"]
    augmented = _augmented(trace, jaxpr, jets)
    results = call(augmented.closed, [*values, *_flat(jets)], params["name"])
    return _with_jets(trace, results, augmented.active_outs, jaxpr.out_avals)


def _checkpoint(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, params: dict[str, Any]) -> Any:
    jaxpr = params["jaxpr"]
    augmented = _augmented(trace, jaxpr, jets)
    closed = augmented.closed
    operands = [*closed.consts, *values, *_flat(jets)]
    results = checkpoint_p.bind(*operands, **{**params, "jaxpr": constvars_to_invars(closed)})
    return _with_jets(trace, results, augmented.active_outs, jaxpr.out_avals)


def _pmap(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, params: dict[str, Any]) -> Any:
    """The same on every device; jets are partitioned along the axis of their value, after their leading axes."""
    jaxpr, in_axes, out_axes = params["call_jaxpr"], params["in_axes"], params["out_axes"]
    with axes_in_scope(named_axis(params)):
        augmented = augmented_jaxpr(trace, jaxpr, _active(jets))
    closed, active = augmented.closed, augmented.active_outs
    more = _axes_of(trace, in_axes, [v.aval for v in jaxpr.invars], _active(jets))
    more_out = _axes_of(trace, out_axes, jaxpr.out_avals, active)
    results = xla_pmap_p.bind(
        *closed.consts, *values, *_flat(jets),
        **pmap_params(
            constvars_to_invars(closed),
            [*[None] * len(closed.consts), *in_axes, *more],
            [*out_axes, *more_out],
            **common_params(params),
        ),
    )  # fmt: skip
    return _with_jets(trace, results, active, jaxpr.out_avals)


def _axes_of(
    trace: AugmentedTrace, axes: Sequence[int | None], avals: Sequence[ShapedArray], active: Sequence[bool]
) -> list[int | None]:
    """The mapped axis of each array of the jets."""
    return [
        None if axis is None else axis + t.ndim - a.ndim
        for axis, a, flag in zip(axes, avals, active)
        if flag
        for t in trace.types(a)
    ]


def _function(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, params: dict[str, Any]) -> Any:
    """Runs the function; its custom batch rule is ignored."""
    fresh = trace.like(trace.parent)  # type: ignore[arg-type]  # never the bottom
    return run_augmented(fresh, lambda *xs: rules.apply(params["call_jaxpr"], xs), values, jets)


def _forward_map(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, params: dict[str, Any]) -> Any:
    """Runs the operation's map of tangents, the transpose of a custom_vjp function's `bwd`."""
    fresh, pushforward = trace.like(trace.parent), custom_lin_p.lower_as  # type: ignore[arg-type]  # never the bottom
    return run_augmented(fresh, lambda *xs: pushforward(*xs, **params), values, jets)  # type: ignore[misc]  # it has one


# -- Conditionals


def _cond(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, params: dict[str, Any]) -> Any:
    """Branches that agree on which results have jets."""
    (index, *operands), (_, *operand_jets) = values, jets
    active, branches = _active(operand_jets), params["branches"]
    active_outs = [augmented_jaxpr(trace, branch, active).active_outs for branch in branches]
    flags = tuple([any(each) for each in zip(*active_outs)])
    consts, jaxprs = join_consts([augmented_jaxpr(trace, branch, active, flags).closed for branch in branches])
    results = bind_cond(tuple(jaxprs), index, [*consts, *operands, *_flat(operand_jets)], params)
    return _with_jets(trace, results, flags, branches[0].out_avals)


# -- Loops


def _counts(trace: AugmentedTrace, avals: Sequence[ShapedArray], active: Sequence[bool]) -> list[int]:
    """The number of arrays in the jet of each value."""
    return [len(trace.types(a)) if flag else 0 for a, flag in zip(avals, active)]


def _scan(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, params: dict[str, Any]) -> Any:
    """One loop that carries the jets of its carry; those of rows are rows of arrays."""
    body, (operands, results) = params["jaxpr"], loop_groups(params)

    def augment(active: Flags, forced: Flags) -> Any:
        augmented = augmented_jaxpr(trace, body, active, forced)
        return augmented, augmented.active_outs

    augmented, active = carry_fixed_point(params, _active(jets), augment)
    closed, active_outs = augmented.closed, augmented.active_outs
    added = operands.masked(_counts(trace, body.in_avals, active))
    out_counts = _counts(trace, body.out_avals, active_outs)
    added_results = results.masked(out_counts)
    jaxpr = rearranged(closed.jaxpr, operands, added, results, added_results)
    (consts, carry, xs), (j_consts, j_carry, j_xs) = operands.split(values), operands.split(jets)
    rows = [move_axis(c, aval_of(c).ndim - aval_of(x).ndim, 0) for x, cs in zip(xs, j_xs) for c in cs or ()]
    outs = bind_scan(
        constvars_to_invars(ClosedJaxpr(jaxpr, closed.consts)),
        [*closed.consts, *consts, *_flat(j_consts)],
        [*carry, *_required(trace, carry, j_carry, operands.part("carry", active))],
        [*xs, *rows],
        params,
    )
    outs, arrays = results.deinterleave(outs, added_results)
    avals = [aval_of(x) for x in outs]
    carry_arrays, stacks = added_results.split(arrays)
    y_ndims = [a.ndim for a, n in zip(results.part("ys", avals), results.part("ys", out_counts)) for _ in range(n)]
    turned = [move_axis(c, 0, aval_of(c).ndim - ndim) for c, ndim in zip(stacks, y_ndims)]
    return outs, _grouped(trace, [*carry_arrays, *turned], active_outs, avals)


def _while(trace: AugmentedTrace, values: Sequence[Any], jets: Jets, params: dict[str, Any]) -> Any:
    """One loop that carries the jets of its carry; its predicate does not read them."""
    loop, jet_loop = Loop.of(values, **params), Loop.of(jets, **params)
    flags = jet_loop.like(_active(jet_loop.operands))
    consts = tuple(flags.body_consts)

    def augment(carry: Flags, forced: Flags) -> Any:
        augmented = augmented_jaxpr(trace, loop.body, (*consts, *carry), forced)
        return augmented, augmented.active_outs

    augmented, active = trace_fixed_point(tuple(flags.carry), flags.affected(True), augment)
    operands = Groups(consts=len(consts), carry=len(active))
    added = operands.masked(_counts(trace, loop.body.in_avals, (*consts, *active)))
    jaxpr = rearranged(augmented.closed.jaxpr, operands, added)
    extra = _required(trace, loop.carry, jet_loop.carry, active)
    outs = bind_while(
        Loop(
            with_unused_arguments(loop.cond, after=[aval_of(x) for x in extra]),
            loop.cond_consts,
            constvars_to_invars(ClosedJaxpr(jaxpr, augmented.closed.consts)),
            [*augmented.closed.consts, *loop.body_consts, *_flat(jet_loop.body_consts)],
            [*loop.carry, *extra],
        )
    )
    return _with_jets(trace, outs, active, loop.body.out_avals)


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
AugmentedTrace.control.update(RULES)
