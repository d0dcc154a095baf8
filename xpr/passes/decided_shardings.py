"""decided_shardings : jaxpr -> shardings. The shardings of values whose types leave them undecided.

A contraction, or an operation in reverse mode, may have a result of undecided sharding, which a `reshard` decides,
perhaps after other operations. The compiler then computes the result with that sharding in the first place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpr.core.avals import ShapedArray
from xpr.core.explicit import ExplicitSharding
from xpr.core.jaxpr import Jaxpr, Literal
from xpr.core.specs import axes_of

Shardings = Mapping[Any, ExplicitSharding | None]


def decided_shardings(jaxpr: Jaxpr) -> Shardings:
    """For each variable of undecided sharding the one that a `reshard` of it, or of a value computed from it, gives."""
    if "decided" not in jaxpr.memo:
        decided: dict[Any, ExplicitSharding | None] = {}
        for eqn in reversed(jaxpr.eqns):
            for v in eqn.invars if eqn.outvars else ():
                if type(v) is not Literal and _is_undecided(v.aval):
                    out = eqn.outvars[0]
                    decided[v] = decided.get(out) if _is_undecided(out.aval) else out.aval.explicit
        jaxpr.memo["decided"] = decided
    return jaxpr.memo["decided"]


def _is_undecided(aval: Any) -> bool:
    explicit = getattr(aval, "explicit", None)
    return explicit is not None and explicit.is_undecided


def decided_type(v: Any, decided: Shardings) -> ShapedArray:
    """The type of an atom with the sharding that is decided for it.

    Where that is the sharding of a value with another number of axes, its mesh axes partition the first axis.
    """
    aval: ShapedArray = v.aval
    if not _is_undecided(aval):
        return aval
    sharding = None if type(v) is Literal else decided.get(v)
    if sharding is None or sharding.parts is None or not aval.ndim:
        return aval.plain
    parts = sharding.parts
    if len(parts) != aval.ndim:
        axes = tuple([name for part in parts for name in axes_of(part)])
        parts = (axes or None, *[None] * (aval.ndim - 1))
    return aval.with_explicit(ExplicitSharding(sharding.mesh, parts, sharding.unreduced))
