"""`jax.interpreters.partial_eval`: tracing functions to jaxprs, and dead code elimination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, constvars_to_invars, eval_jaxpr
from xpr.extend.linear_util import WrappedFun
from xpr.passes import dce
from xpr.passes.partial_eval import partial_eval_jaxpr
from xpr.transforms.stage import StageTrace as DynamicJaxprTrace
from xpr.transforms.stage import StageTracer as DynamicJaxprTracer
from xpr.transforms.stage import stage

__all__ = [
    "DynamicJaxprTrace", "DynamicJaxprTracer", "JaxprTracer", "PartialVal", "dce_jaxpr", "dce_jaxpr_consts",
    "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits",
]  # fmt: skip

JaxprTracer = DynamicJaxprTracer


def trace_to_jaxpr_dynamic(
    fun: WrappedFun, in_avals: Sequence[ShapedArray], **_: Any
) -> tuple[Jaxpr, list[ShapedArray], list[Any]]:
    """The jaxpr of a function of arrays that returns a list, the types of its results, and its constants."""
    closed = stage(fun.call_wrapped, in_avals)
    return closed.jaxpr, closed.out_avals, closed.consts


class PartialVal(tuple[Any, Any]):
    """A known value, `(None, value)`, or an unknown one, `(aval, None)`."""

    def __new__(cls, xs: tuple[Any, Any]) -> PartialVal:
        return super().__new__(cls, xs)

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        """A known value."""
        return cls((None, value))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """An unknown value of a type."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_aval(self) -> Any:
        """The type of an unknown value; None for a known one."""
        return self[0]

    def get_known(self) -> Any:
        """The known value; None for an unknown one."""
        return self[1]


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """The jaxpr of the unknown results, the results (known or not), and the residuals, the jaxpr's first inputs."""
    unknown = [p[0] for p in pvals if not p.is_known()]

    def flat(*xs: Any) -> list[Any]:
        remaining = iter(xs)
        return list(fun.call_wrapped(*[p[1] if p.is_known() else next(remaining) for p in pvals]))

    closed = stage(flat, unknown)
    deferred = [instantiate] * len(closed.out_avals) if isinstance(instantiate, bool) else list(instantiate)
    is_known = [True] * len(closed.consts) + [False] * len(unknown)
    halves = partial_eval_jaxpr(constvars_to_invars(closed), is_known, deferred)
    computed = eval_jaxpr(halves.known, (), *closed.consts)
    known, residuals = split_list(computed, len(computed) - halves.num_residuals)
    values = iter(known)
    results = [
        PartialVal.known(next(values)) if flag else PartialVal.unknown(aval)
        for flag, aval in zip(halves.out_known, closed.out_avals)
    ]
    return halves.unknown, results, residuals


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """The part of a jaxpr that its used results need, and which of its arguments that takes."""
    return dce.dce_jaxpr(jaxpr, used_outputs, instantiate)


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """`dce_jaxpr` for a jaxpr with constants: which constants, and which arguments, it takes."""
    n = len(jaxpr.constvars)
    whole = Jaxpr((), [*jaxpr.constvars, *jaxpr.invars], jaxpr.outvars, jaxpr.eqns)
    keep = [False] * n + ([instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else list(instantiate))
    smaller, used = dce.dce_jaxpr(whole, used_outputs, keep)
    count = sum(used[:n])
    return Jaxpr(smaller.invars[:count], smaller.invars[count:], smaller.outvars, smaller.eqns), used[:n], used[n:]
