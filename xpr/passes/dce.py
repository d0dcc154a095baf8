"""dce : (a -> b) -> (a' -> b'). A jaxpr without the equations that nothing reads, and the arguments they alone read.

An equation with an effect stays. One that holds jaxprs may give up some of its results: its primitive's `dce` rule,
where it has one, takes the equation and which results are read, and gives a smaller equation.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    effects,
    given_program,
    subjaxprs,
    used_vars,
    with_subjaxprs,
)


def has_effect(eqn: JaxprEqn) -> bool:
    """Whether running the equation does something beside giving results."""
    primitive = eqn.primitive
    if primitive.effect is not None and primitive.effect(**eqn.params):
        return True
    return primitive.call and any(map(effects, subjaxprs(eqn)))


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], keep_inputs: Sequence[bool] | bool = False
) -> tuple[Jaxpr, list[bool]]:
    """The part of a jaxpr that its used results need, and which of its invars that has.

    Args:
      jaxpr: the program; its constvars are all kept.
      used_outputs: which results are wanted.
      keep_inputs: invars that stay although nothing reads them; True for all.
    """
    keep = [keep_inputs] * len(jaxpr.invars) if isinstance(keep_inputs, bool) else keep_inputs
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs) if used]
    live: set[Any] = {v for v in outvars if isinstance(v, Var)}
    kept: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        smaller = _live_part(eqn, live)
        if smaller is not None:
            kept.append(smaller)
            live.update(v for v in smaller.invars if type(v) is not Literal)
    used_inputs = [must or v in live for v, must in zip(jaxpr.invars, keep)]
    invars = [v for v, used in zip(jaxpr.invars, used_inputs) if used]
    return Jaxpr(jaxpr.constvars, invars, outvars, kept[::-1]), used_inputs


def smaller_call(jaxpr: Jaxpr, used: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """`dce_jaxpr`, remembered with the jaxpr."""
    if jaxpr.memo.get("all is read") and all(used):
        return jaxpr, [True] * len(jaxpr.invars)
    key = ("dce", tuple(used))
    if key not in jaxpr.memo:
        jaxpr.memo[key] = dce_jaxpr(jaxpr, used)
    return jaxpr.memo[key]


def dce_call(parameter: str, eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    """The `dce` rule of a call of the jaxpr in `parameter`: a call of the part of it that the used results need."""
    smaller, inputs = smaller_call(eqn.params[parameter], used)
    if smaller is eqn.params[parameter]:
        return eqn
    return JaxprEqn(
        [v for v, read in zip(eqn.invars, inputs) if read],
        [v for v, read in zip(eqn.outvars, used) if read],
        eqn.primitive,
        {**eqn.params, parameter: smaller},
        eqn.source,
    )


def _live_part(eqn: JaxprEqn, live: set[Any]) -> JaxprEqn | None:
    used = [v in live for v in eqn.outvars]
    if not any(used) and not has_effect(eqn):
        return None
    if eqn.primitive.dce is None or all(used):
        return eqn
    return eqn.primitive.dce(eqn, used)


# -- The whole of a program, at every depth


def dce(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program without the equations, constants and parts of loops, branches and calls that nothing reads.

    Arguments stay, and so do equations with an effect.

    >>> import xpr, xpr.numpy as jnp
    >>> closed = xpr.make_jaxpr(lambda x: (jnp.sin(x), jnp.cos(x))[0])(1.0)
    >>> closed
    { lambda ; a:f32[]. let b:f32[] = sin a; _:f32[] = cos a in (b,) }
    >>> xpr.jaxpr.dce(closed)
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    closed = given_program("dce", closed)
    return without_unread_constants(live_jaxpr(closed.jaxpr), closed.consts)


def live_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr of the same type without what nothing reads, at any depth, or itself; remembered with it."""
    if "dce" not in jaxpr.memo:
        live: set[Any] = set(jaxpr.outvars)  # and literals, which nothing binds
        kept: list[JaxprEqn] = []
        for eqn in reversed(jaxpr.eqns):
            if not live.isdisjoint(eqn.outvars) or has_effect(eqn):
                if eqn.primitive.call or eqn.primitive.dce is not None:
                    eqn = _live_call(eqn, [v in live for v in eqn.outvars])
                kept.append(eqn)
                live.update(eqn.invars)
        kept.reverse()
        is_live = len(kept) == len(jaxpr.eqns) and all(map(operator.is_, kept, jaxpr.eqns))
        smaller = jaxpr if is_live else jaxpr.replace(eqns=kept)
        jaxpr.memo["dce"] = smaller.memo["dce"] = smaller
        smaller.memo["all is read"] = live.issuperset(jaxpr.invars)
    return jaxpr.memo["dce"]


def _live_call(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    """First what it holds, then what that reads."""
    eqn = with_subjaxprs(eqn, live_jaxpr)
    if eqn.primitive.dce is None:
        return eqn
    smaller = eqn.primitive.dce(eqn, used)
    return eqn if all(used) and len(smaller.invars) == len(eqn.invars) else smaller


def without_unread_constants(jaxpr: Jaxpr, consts: Sequence[Any]) -> ClosedJaxpr:
    """The closed jaxpr with the constants that something reads."""
    if not jaxpr.constvars:
        return ClosedJaxpr(jaxpr)
    used = used_vars(jaxpr)
    pairs = [(v, x) for v, x in zip(jaxpr.constvars, consts) if v in used]
    if len(pairs) == len(jaxpr.constvars):
        return ClosedJaxpr(jaxpr, consts)
    return ClosedJaxpr(jaxpr.replace(constvars=[v for v, _ in pairs]), [x for _, x in pairs])
