"""xla_call: a call of a jaxpr that is compiled as a whole, which is what `jit` makes of a function.

Operands are laid out as the jaxpr's invars; it has no constants, whatever the function closed over is among the
operands. Every rule turns the jaxpr into another one, remembers it with the first, and calls that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_jaxpr
from xpr.compile.lower import lower_call
from xpr.core.avals import ShapedArray, Zero
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, constvars_to_invars
from xpr.core.primitive import Linear, Primitive, Unsupported, register
from xpr.core.regions import whole_call
from xpr.passes.dce import dce_call
from xpr.passes.partial_eval import partial_eval_jaxpr
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.linearize import LinearizeTrace, linearize_jaxpr
from xpr.transforms.transpose import transpose_jaxpr


def call(closed: ClosedJaxpr, operands: Sequence[Any], name: str) -> list[Any]:
    """Calls a closed jaxpr, its constants as leading operands."""
    return xla_call_p.bind(*closed.consts, *operands, call_jaxpr=constvars_to_invars(closed), name=name)


def _abstract(avals: Sequence[ShapedArray], *, call_jaxpr: Jaxpr, name: str) -> list[ShapedArray]:
    if len(avals) != len(call_jaxpr.invars) or any(
        a.shape != v.aval.shape or a.dtype != v.aval.dtype for a, v in zip(avals, call_jaxpr.invars)
    ):
        given, wanted = ([a.str_short() for a in types] for types in (avals, call_jaxpr.in_avals))
        raise TypeError(f"xla_call: {name} takes ({', '.join(wanted)}) and was given ({', '.join(given)}).")
    return call_jaxpr.out_avals


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, call_jaxpr: Jaxpr, name: str) -> list[Value]:
    return lower_call(b, call_jaxpr, operands, name)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: Jaxpr, name: str) -> Any:
    is_active = tuple(type(t) is not Zero for t in tangents)
    closed, out_active = jvp_jaxpr(call_jaxpr, is_active)
    results = call(closed, [*primals, *(t for t in tangents if type(t) is not Zero)], name)
    n = len(out_active)
    return results[:n], with_zeros(results[n:], out_active, call_jaxpr.out_avals)


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """One call for the results and residuals, one in the linear program for the tangents."""
    jaxpr, name = params["call_jaxpr"], params["name"]
    split = linearize_jaxpr(jaxpr, tuple(type(t) is not Zero for t in tangents))
    primal = constvars_to_invars(split.primal)
    operands = [*split.primal.consts, *primals]
    given = trace.parent.process(xla_call_p, operands, {"call_jaxpr": primal, "name": name})  # type: ignore[union-attr]
    outs, computed = given[: len(jaxpr.outvars)], given[len(jaxpr.outvars) :]
    if not any(split.active_outs):
        return outs, with_zeros([], split.active_outs, jaxpr.out_avals)
    residuals = split.residuals(primals, computed)
    active = [t for t in tangents if type(t) is not Zero]
    out_tangents = xla_call_p.bind(*residuals, *active, call_jaxpr=split.linear, name=name)
    return outs, with_zeros(out_tangents, split.active_outs, jaxpr.out_avals)


def call_transpose(cts: Sequence[Any], operands: Sequence[Any], *, call_jaxpr: Jaxpr, name: str) -> list[Any]:
    """Calls the transposed jaxpr."""
    is_linear = tuple(type(x) is Linear for x in operands)
    has_ct = tuple(type(ct) is not Zero for ct in cts)
    closed, reached = transpose_jaxpr(call_jaxpr, is_linear, has_ct)
    known = [x for x in operands if type(x) is not Linear]
    given = iter(call(closed, [*known, *(ct for ct in cts if type(ct) is not Zero)], name))
    found = iter([next(given) if has else None for has in reached])
    return [next(found) if linear else None for linear in is_linear]


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], *, call_jaxpr: Jaxpr, name: str) -> Any:
    return _batch_named(None, size, values, dims, call_jaxpr=call_jaxpr, name=name)


def _batch_named(
    axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], *, call_jaxpr: Jaxpr, name: str
) -> Any:
    closed, out_dims = batch_jaxpr(call_jaxpr, size, tuple(dims), axis_name)
    return call(closed, values, name), out_dims


def _threaded(state: Any, thread: Any, values: Sequence[Any], *, call_jaxpr: Jaxpr, name: str) -> Any:
    outs = xla_call_p.bind(*state, *values, call_jaxpr=thread(call_jaxpr), name=name)
    return outs[: len(state)], outs[len(state) :]


def _split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Calls the known half, and then the unknown half."""
    jaxpr = eqn.params["call_jaxpr"]
    key = ("call split", tuple(is_known))
    if key not in jaxpr.memo:
        jaxpr.memo[key] = partial_eval_jaxpr(jaxpr, is_known)
    half = jaxpr.memo[key]
    given = [v for v, flag in zip(eqn.invars, is_known) if flag]
    residuals = [
        Var(aval) if place is None else given[place] for aval, place in zip(half.residual_avals, half.residual_sources)
    ]
    computed = [v for v, place in zip(residuals, half.residual_sources) if place is None]
    known = eqn.replace(
        invars=given,
        outvars=[*half.known_results(eqn.outvars), *computed],
        params={**eqn.params, "call_jaxpr": half.computing},
    )
    unknown = eqn.replace(
        invars=[*residuals, *(v for v, flag in zip(eqn.invars, is_known) if not flag)],
        outvars=half.unknown_results(eqn.outvars),
        params={**eqn.params, "call_jaxpr": half.unknown},
    )
    return ([known] if known.outvars else []), ([unknown] if unknown.outvars else [])


xla_call_p = register(
    Primitive(
        "xla_call",
        abstract=_abstract,
        reference=Unsupported("It is evaluated by evaluating its jaxpr."),
        lower=_lower,
        jvp=_jvp,
        transpose=call_transpose,
        batch=_batch,
        linearize=_linearize,
        batch_named=_batch_named,
        dce=partial(dce_call, "call_jaxpr"),
        split=_split,
        threaded=_threaded,
        evaluate=lambda args, params: run_jaxpr(params["call_jaxpr"], args, params["name"]),
        multiple_results=True,
        regions=lambda call_jaxpr, **params: whole_call(call_jaxpr, inlined="always"),
        call=True,
    )
)
