"""xla_call: a call of a jaxpr that is compiled as a whole; the primitive of `jit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_jaxpr
from xpr.compile.lower import lower_call
from xpr.control.call_family import JaxprCall, Specs, call_family
from xpr.control.groups import mask
from xpr.control.refs import call_on_values
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, constvars_to_invars
from xpr.core.primitive import Primitive
from xpr.core.regions import whole_call
from xpr.core.source import Call
from xpr.passes.discharge import uses_of_refs
from xpr.passes.partial_eval import partial_eval_jaxpr

__all__ = ["xla_call_p"]


def call(closed: ClosedJaxpr, operands: Sequence[Any], name: str) -> list[Any]:
    """Calls a closed jaxpr, its constants as leading operands."""
    jaxpr = constvars_to_invars(closed)
    if uses_of_refs(jaxpr).used:
        params = {"call_jaxpr": jaxpr, "name": name}
        return call_on_values(xla_call_p, [*closed.consts, *operands], params, "call_jaxpr")
    return xla_call_p.bind(*closed.consts, *operands, call_jaxpr=jaxpr, name=name)


class CallParams(dict[str, Any]):
    """The parameters of an `xla_call`, which answer to JAX's names as well: `jaxpr`, and `inline`, which is False."""

    def __missing__(self, name: str) -> Any:
        if name == "jaxpr":
            return self["call_jaxpr"]
        if name == "inline":
            return False
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def pop(self, name: str, *default: Any) -> Any:
        if name in self or name not in ("jaxpr", "inline"):
            return super().pop(name, *default)
        return super().pop("call_jaxpr", *default) if name == "jaxpr" else False

    def copy(self) -> CallParams:
        return CallParams(self)


class _XlaCall(Primitive):
    __slots__ = ()

    def bind(self, *args: Any, **params: Any) -> Any:
        if "jaxpr" in params:  # JAX's names, and there the jaxpr is closed
            jaxpr = params["jaxpr"]
            if type(jaxpr) is ClosedJaxpr:
                args, jaxpr = (*jaxpr.consts, *args), constvars_to_invars(jaxpr)
            params = {"call_jaxpr": jaxpr, "name": params["name"]}
        return super().bind(*args, **params)


class CompiledCall(JaxprCall):
    """A call whose parameters are the jaxpr and its name."""

    parameter = "call_jaxpr"

    def bind(
        self, closed: ClosedJaxpr, operands: Sequence[Any], in_specs: Specs = (), out_specs: Specs = ()
    ) -> list[Any]:
        return call(closed, operands, self.params["name"])

    def mismatch(self, expected: str, actual: str) -> str:
        return f"xla_call: {self.params['name']} takes ({expected}) and was given ({actual})."


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, call_jaxpr: Jaxpr, name: str) -> list[Value]:
    return lower_call(b, call_jaxpr, operands, name)


def _split(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Calls the known half, and then the unknown half."""
    jaxpr = eqn.params["call_jaxpr"]
    key = ("call split", tuple(is_known))
    if key not in jaxpr.memo:
        jaxpr.memo[key] = partial_eval_jaxpr(jaxpr, is_known)
    half = jaxpr.memo[key]
    operands = mask(eqn.invars, is_known)
    residuals = [
        Var(aval) if source is None else operands[source]
        for aval, source in zip(half.residual_avals, half.residual_sources)
    ]
    computed = [v for v, source in zip(residuals, half.residual_sources) if source is None]
    known = eqn.replace(
        invars=operands,
        outvars=[*half.known_results(eqn.outvars), *computed],
        params={**eqn.params, "call_jaxpr": half.computing},
    )
    unknown = eqn.replace(
        invars=[*residuals, *(v for v, flag in zip(eqn.invars, is_known) if not flag)],
        outvars=half.unknown_results(eqn.outvars),
        params={**eqn.params, "call_jaxpr": half.unknown},
    )
    return ([known] if known.outvars else []), ([unknown] if unknown.outvars else [])


xla_call_p = call_family(
    "xla_call",
    CompiledCall,
    params=("call_jaxpr", "name"),
    lower=_lower,
    evaluate=lambda args, params: run_jaxpr(params["call_jaxpr"], args, params["name"]),
    split=_split,
    regions=lambda call_jaxpr, **params: whole_call(call_jaxpr, inlined="always"),
    prepare=lambda args, params: (args, CallParams(params)),
    cls=_XlaCall,
    scope=lambda name, **params: Call(f"jit({name})"),
)
call_transpose = xla_call_p.transpose
