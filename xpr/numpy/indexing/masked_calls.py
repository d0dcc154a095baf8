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
from xpr.core.primitive import Primitive
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


class _Call:
    """A call of a function with a derivative rule: the function, and its operands, for selected elements and for all.

    Attributes:
      avals: the types of its operands, as selected elements; `const_avals` and `arg_avals` are its two parts.
      run: the function, of all elements.
    """

    def __init__(self, trace: MaskTrace, args: Sequence[Any], params: dict[str, Any]):
        self.trace, self.args, self.params = trace, args, params
        self.avals = [aval_of(x) for x in args]
        self.const_avals, self.arg_avals = split_list(self.avals, params["num_consts"])
        self.run = _Selecting(trace, lambda xs: rules.apply(params["call_jaxpr"], xs))

    def split(self, operands: Sequence[Any]) -> list[list[Any]]:
        """The elements of the masks, which are the first operands, and the others."""
        return split_list(operands, len(self.trace.masks))

    def bind(self, primitive: Primitive, **rule: Any) -> list[Any]:
        """The results of the call with a rule for all elements."""

        def called(*operands: Any) -> list[Any]:
            flats, values = self.split(operands)
            return self.run(flats, (values, self.avals))

        flats, name = [mask.flat for mask in self.trace.masks], self.params["name"]
        values = map(self.trace.safe_value, self.args)
        num_consts = len(flats) + self.params["num_consts"]
        outs = primitive.bind(*flats, *values, call_jaxpr=called, name=name, num_consts=num_consts, **rule)
        return [self.trace.selected(x, aval) for x, aval in zip(outs, self.run.out_avals)]


def _call_jvp(trace: MaskTrace, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    call = _Call(trace, args, params)

    def jvp(constants: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        flats, consts = call.split(constants)
        both = _Selecting(trace, lambda c, p, t: [x for part in params["jvp"](c, p, t) for x in part])
        results = both(flats, (consts, call.const_avals), (primals, call.arg_avals), (tangents, call.arg_avals))
        outs, out_tangents = split_list(results, len(results) // 2)
        call.run.out_avals = both.out_avals[: len(outs)]
        return outs, out_tangents

    return call.bind(custom_jvp_call_p, jvp=jvp)


def _call_vjp(trace: MaskTrace, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    call = _Call(trace, args, params)

    def fwd(constants: Sequence[Any], primals: Sequence[Any], active: tuple[bool, ...]) -> Any:
        flats, consts = call.split(constants)
        count = 0
        pull_selected: Any = None

        def fwd_selected(c: Sequence[Any], p: Sequence[Any]) -> list[Any]:
            nonlocal count, pull_selected
            outs, residuals, pull_selected = params["fwd"](c, p, active)
            count = len(outs)
            return [*outs, *residuals]

        both = _Selecting(trace, fwd_selected)
        results = both(flats, (consts, call.const_avals), (primals, call.arg_avals))
        outs, residuals = split_list(results, count)
        out_avals, residual_avals = split_list(both.out_avals, count)
        call.run.out_avals = out_avals

        def pull(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            flats, residuals = call.split(residuals)
            back = _Selecting(trace, pull_selected)
            return back(flats, (residuals, residual_avals), (cts, [aval.to_tangent_aval() for aval in out_avals]))

        return outs, [*flats, *residuals], pull

    return call.bind(custom_vjp_call_p, fwd=fwd)


CALLS.update({custom_jvp_call_p: _call_jvp, custom_vjp_call_p: _call_vjp})
