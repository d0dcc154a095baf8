"""dce : jaxpr -> jaxpr. Dead code elimination: removes equations and arguments that no used result depends on.

An equation with an effect stays. One that holds jaxprs may lose some of its results: its primitive's `dce` rule,
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
    own_effects,
    require_closed_jaxpr,
    subjaxprs,
    used_vars,
    with_subjaxprs,
)


def has_effect(eqn: JaxprEqn) -> bool:
    """Whether the equation has a side effect."""
    primitive = eqn.primitive
    if primitive.effects is not None and own_effects(eqn):
        return True
    return primitive.call and any(map(effects, subjaxprs(eqn)))


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], keep_inputs: Sequence[bool] | bool = False
) -> tuple[Jaxpr, list[bool]]:
    """The part of a jaxpr that its used results need, and which of the invars this part has.

    Args:
      jaxpr: the program; all its constvars remain.
      used_outputs: which results are wanted.
      keep_inputs: invars that remain although they are unused; True for all.
    """
    keep = [keep_inputs] * len(jaxpr.invars) if isinstance(keep_inputs, bool) else keep_inputs
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs) if used]
    live: set[Any] = {v for v in outvars if isinstance(v, Var)}
    eqns: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        smaller = _live_part(eqn, live)
        if smaller is not None:
            eqns.append(smaller)
            live.update(v for v in smaller.invars if type(v) is not Literal)
    used_inputs = [must or v in live for v, must in zip(jaxpr.invars, keep)]
    invars = [v for v, used in zip(jaxpr.invars, used_inputs) if used]
    return Jaxpr(jaxpr.constvars, invars, outvars, eqns[::-1]), used_inputs


def smaller_call(jaxpr: Jaxpr, used: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """`dce_jaxpr`, cached with the jaxpr."""
    if jaxpr.memo.get("all inputs used") and all(used):
        return jaxpr, [True] * len(jaxpr.invars)
    key = ("dce", tuple(used))
    if key not in jaxpr.memo:
        jaxpr.memo[key] = dce_jaxpr(jaxpr, used)
    return jaxpr.memo[key]


def _live_part(eqn: JaxprEqn, live: set[Any]) -> JaxprEqn | None:
    used = [v in live for v in eqn.outvars]
    if not any(used) and not has_effect(eqn):
        return None
    if eqn.primitive.dce is None or all(used):
        return eqn
    return eqn.primitive.dce(eqn, used)


# -- The whole of a program, at every depth


def dce(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program without unused equations and constants, also within loops, branches and calls.

    Arguments stay, and so do equations with an effect.

    >>> import xpr, xpr.numpy as jnp
    >>> closed = xpr.make_jaxpr(lambda x: (jnp.sin(x), jnp.cos(x))[0])(1.0)
    >>> closed
    { lambda ; a:f32[]. let b:f32[] = sin a; _:f32[] = cos a in (b,) }
    >>> xpr.jaxpr.dce(closed)
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    closed = require_closed_jaxpr("dce", closed)
    return without_unused_constants(live_jaxpr(closed.jaxpr), closed.consts)


def live_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr of the same type without dead code at any depth, or itself; memoized with it."""
    if "dce" not in jaxpr.memo:
        live: set[Any] = set(jaxpr.outvars)  # and literals, which nothing binds
        eqns: list[JaxprEqn] = []
        for eqn in reversed(jaxpr.eqns):
            if not live.isdisjoint(eqn.outvars) or has_effect(eqn):
                if eqn.primitive.call or eqn.primitive.dce is not None:
                    eqn = _live_call(eqn, [v in live for v in eqn.outvars])
                eqns.append(eqn)
                live.update(eqn.invars)
        eqns.reverse()
        is_live = len(eqns) == len(jaxpr.eqns) and all(map(operator.is_, eqns, jaxpr.eqns))
        smaller = jaxpr if is_live else jaxpr.replace(eqns=eqns)
        jaxpr.memo["dce"] = smaller
        smaller.memo["dce"] = None  # itself, which would be a reference cycle
        smaller.memo["all inputs used"] = live.issuperset(jaxpr.invars)
    return jaxpr.memo["dce"] or jaxpr


def _live_call(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    """The equation with the dead code of its inner jaxprs removed, and then its unused operands and results."""
    eqn = with_subjaxprs(eqn, live_jaxpr)
    if eqn.primitive.dce is None:
        return eqn
    smaller = eqn.primitive.dce(eqn, used)
    return eqn if all(used) and len(smaller.invars) == len(eqn.invars) else smaller


def without_unused_constants(jaxpr: Jaxpr, consts: Sequence[Any]) -> ClosedJaxpr:
    """The closed jaxpr without unused constants."""
    if not jaxpr.constvars:
        return ClosedJaxpr(jaxpr)
    used = used_vars(jaxpr)
    pairs = [(v, x) for v, x in zip(jaxpr.constvars, consts) if v in used]
    if len(pairs) == len(jaxpr.constvars):
        return ClosedJaxpr(jaxpr, consts)
    return ClosedJaxpr(jaxpr.replace(constvars=[v for v, _ in pairs]), [x for _, x in pairs])
