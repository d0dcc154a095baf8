"""Functions with custom derivative rules, called with elements that a mask selects.

The call is made of all elements, with the masks as further constants; the function and its rule run in an interpreter
of their own, in which they see the selected elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.control.custom import rules
from xpr.control.custom.custom_jvp import custom_jvp_call_p
from xpr.control.custom.custom_vjp import custom_vjp_call_p
from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import context, current
from xpr.numpy.indexing.masked import CALLS, MaskTrace


class _Selecting:
    """A function of flat lists that runs on selected elements; the masks are its first operands.

    `out_avals` are the types of its results, as selected elements, once it has run.
    """

    def __init__(self, trace: MaskTrace, fun: Callable[..., Sequence[Any]]):
        self.masks, self.fun = trace.masks, fun
        self.out_avals: list[ShapedArray] = []

    def __call__(self, flats: Sequence[Any], *groups: tuple[Sequence[Any], Sequence[ShapedArray]]) -> list[Any]:
        """The results as all elements, for groups of values with their types; 0 where nothing is selected."""
        inner = MaskTrace(context.trace, [mask.of(flat) for mask, flat in zip(self.masks, flats)])
        seen = [[_selected(inner, x, aval) for x, aval in zip(*group)] for group in groups]
        with current(inner):
            outs = self.fun(*seen)
        self.out_avals = [aval_of(x) if type(x) is not Zero else x.aval for x in outs]
        return [_all_of(inner, x) for x in outs]


def _selected(trace: MaskTrace, x: Any, aval: ShapedArray) -> Any:
    if type(x) is Zero:
        return Zero(aval.to_tangent_aval())
    return trace.selected(x, aval)


def _all_of(trace: MaskTrace, x: Any) -> Any:
    if type(x) is Zero:
        return Zero(x.aval.update(shape=trace.sizes(x.aval.shape)))
    return trace.neutral_value(x, range(x.aval.ndim), 0) if trace.is_own(x) else x


def _call_jvp(trace: MaskTrace, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    n, k, avals = len(trace.masks), params["num_consts"], [aval_of(x) for x in args]
    const_avals, arg_avals = split_list(avals, k)
    run = _Selecting(trace, lambda xs: rules.apply(params["call_jaxpr"], xs))

    def called(*operands: Any) -> list[Any]:
        flats, values = split_list(operands, n)
        return run(flats, (values, avals))

    def rule(constants: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        flats, consts = split_list(constants, n)
        both = _Selecting(trace, lambda c, p, t: [x for part in params["jvp"](c, p, t) for x in part])
        results = both(flats, (consts, const_avals), (primals, arg_avals), (tangents, arg_avals))
        outs, moved = split_list(results, len(results) // 2)
        run.out_avals = split_list(both.out_avals, len(outs))[0]
        return outs, moved

    outs = custom_jvp_call_p.bind(
        *[mask.flat for mask in trace.masks], *map(trace.safe_value, args), call_jaxpr=called, jvp=rule,
        name=params["name"], num_consts=n + k,
    )  # fmt: skip
    return [trace.selected(x, aval) for x, aval in zip(outs, run.out_avals)]


def _call_vjp(trace: MaskTrace, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    n, k, avals = len(trace.masks), params["num_consts"], [aval_of(x) for x in args]
    const_avals, arg_avals = split_list(avals, k)
    run = _Selecting(trace, lambda xs: rules.apply(params["call_jaxpr"], xs))

    def called(*operands: Any) -> list[Any]:
        flats, values = split_list(operands, n)
        return run(flats, (values, avals))

    def fwd(constants: Sequence[Any], primals: Sequence[Any], active: tuple[bool, ...]) -> Any:
        flats, consts = split_list(constants, n)
        pulls: list[Any] = []
        counts: list[int] = []

        def first(c: Sequence[Any], p: Sequence[Any]) -> list[Any]:
            outs, residuals, pull = params["fwd"](c, p, active)
            pulls.append(pull)
            counts.append(len(outs))
            return [*outs, *residuals]

        both = _Selecting(trace, first)
        results = both(flats, (consts, const_avals), (primals, arg_avals))
        outs, residuals = split_list(results, counts[0])
        run.out_avals, residual_avals = split_list(both.out_avals, counts[0])
        out_avals = run.out_avals

        def pull(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            flats, rest = split_list(residuals, n)
            back = _Selecting(trace, pulls[0])
            return back(flats, (rest, residual_avals), (cts, [aval.to_tangent_aval() for aval in out_avals]))

        return outs, [*flats, *residuals], pull

    outs = custom_vjp_call_p.bind(
        *[mask.flat for mask in trace.masks], *map(trace.safe_value, args), call_jaxpr=called, fwd=fwd,
        name=params["name"], num_consts=n + k,
    )  # fmt: skip
    return [trace.selected(x, aval) for x, aval in zip(outs, run.out_avals)]


CALLS.update({custom_jvp_call_p: _call_jvp, custom_vjp_call_p: _call_vjp})
