"""lower : jaxpr -> StableHLO. Walks the equations and writes each with its primitive's `lower` rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend.sharding import Mesh, NamedSharding
from xpr.backend.stablehlo import TOKEN, Builder, Module, Value
from xpr.compile.fusion import kept_apart
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, effects
from xpr.core.primitive import Primitive, Unsupported
from xpr.core.source import summarize
from xpr.errors import UnsupportedRule
from xpr.transforms.stage import stage


def lower_jaxpr(
    jaxpr: Jaxpr,
    platform: str = "cpu",
    donated: Sequence[int] = (),
    mesh: Mesh | None = None,
    in_shardings: Sequence[NamedSharding | None] = (),
    out_shardings: Sequence[NamedSharding | None] = (),
) -> Module:
    """A module whose `main` takes the jaxpr's constvars and then its invars.

    Args:
      jaxpr: the program. Its constants are arguments of `main`, never part of the text.
      platform: what it is lowered for.
      donated: which arguments of `main` may be overwritten.
      mesh: the devices, of a program on several.
      in_shardings, out_shardings: how arguments and results lie on them, as far as that is asked for.
    """
    module = Module(platform)
    module.mesh = mesh
    variables = [*jaxpr.constvars, *jaxpr.invars]
    given_up = set(donated)
    texts = [["jax.buffer_donor = true"] if i in given_up else [] for i in range(len(variables))]
    for text, sharding, aval in zip(texts, in_shardings, [v.aval for v in variables]):
        text += _sharding_texts(module, sharding, aval)
    outs = [_sharding_texts(module, *each) for each in zip(out_shardings, jaxpr.out_avals)]
    module.function(
        "main",
        [v.aval for v in variables],
        lambda builder, arguments: lower_eqns(builder, jaxpr, arguments),
        public=True,
        argument_attributes=[f" {{{', '.join(text)}}}" if text else "" for text in texts],
        result_attributes=[f" {{{', '.join(text)}}}" if text else "" for text in outs],
    )
    return module


def _sharding_texts(module: Module, sharding: NamedSharding | None, aval: ShapedArray) -> list[str]:
    """The attribute by which an argument or a result lies as asked for, if that is."""
    if sharding is None:
        return []
    return [f"sdy.sharding = #sdy.sharding{module.sharding(sharding.mesh, sharding.spec, aval.ndim)}"]


def lower_eqns(builder: Builder, jaxpr: Jaxpr, arguments: Sequence[Value]) -> list[Value]:
    """Writes a jaxpr's equations where `builder` stands; gives the results."""
    env: dict[Any, Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], arguments))
    apart = kept_apart(jaxpr) if builder.platform == "cpu" else ()
    fenced: dict[str, Value] = {}  # by name: what is computed twice in the jaxpr is written once, and fenced once
    for eqn in jaxpr.eqns:
        operands = [env[v] if type(v) is not Literal else literal(builder, v) for v in eqn.invars]
        results = lower_eqn(builder, eqn, operands)
        for v, x in zip(eqn.outvars, results):
            if v in apart:
                x = fenced.get(x.name) or fenced.setdefault(x.name, builder.fence(x))
            env[v] = x
    return [env[v] if type(v) is not Literal else literal(builder, v) for v in jaxpr.outvars]


def lower_eqn(builder: Builder, eqn: JaxprEqn, operands: list[Value]) -> list[Value]:
    avals = [v.aval for v in eqn.outvars]
    try:
        return lower_operation(builder, eqn.primitive, operands, avals, eqn.params)
    except UnsupportedRule as error:
        error.add_note(f"  at {summarize(eqn.source)}")
        raise


def lower_operation(
    builder: Builder, primitive: Primitive, operands: list[Value], avals: list[ShapedArray], params: dict[str, Any]
) -> list[Value]:
    """Writes one operation; one whose rule is a traceable function is traced, and its equations written."""
    if primitive.lower_as is None or not isinstance(primitive.lower, Unsupported):
        return primitive.lower(builder, operands, avals, **params)
    closed = stage(lambda *xs: primitive.lower_as(*xs, **params), [v.aval for v in operands])  # type: ignore[misc]
    return lower_eqns(builder, closed.jaxpr, [*constants(builder, closed), *operands])


def constants(builder: Builder, closed: ClosedJaxpr) -> list[Value]:
    """The constants of a jaxpr made while lowering, written into the text: small tables, never user data."""
    return [builder.constant(np.asarray(c), v.aval) for c, v in zip(closed.consts, closed.jaxpr.constvars)]


def literal(builder: Builder, atom: Literal) -> Value:
    return builder.constant(np.asarray(atom.val).astype(atom.aval.dtype)[()], atom.aval)


def lower_call(
    builder: Builder, jaxpr: Jaxpr, operands: Sequence[Value], name: str, inline: bool = True
) -> list[Value]:
    """A call of a function of its own, made once for each jaxpr in a module; `inline` as in `Builder.call`."""
    key = ("call", jaxpr, *builder.module.manual.items())
    shared = builder.module.shared
    ordered = "ordered" in effects(jaxpr)
    if key not in shared:

        def body(inner: Builder, args: list[Value]) -> list[Value]:
            if not ordered:
                return lower_eqns(inner, jaxpr, args)
            inner.token = args[0]
            results = lower_eqns(inner, jaxpr, args[1:])
            return [inner.take_token(), *results]

        shared[key] = builder.module.function(name, [TOKEN] * ordered + jaxpr.in_avals, body)
    if not ordered:
        return builder.call(shared[key], operands, jaxpr.out_avals, inline)
    types = [TOKEN, *jaxpr.out_avals]
    builder.token, *results = builder.call(shared[key], [builder.take_token(), *operands], types, inline)
    return results
