"""decided_shardings : jaxpr -> shardings. How results are partitioned in the end whose types leave it undecided.

A contraction, or an operation in reverse mode, may have a result whose sharding a `reshard` decides, maybe behind other
operations; the compiler computes it so in the first place.
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
    """For each value of an undecided sharding the one that a `reshard` of it, or of what is made of it, decides."""
    if "decided" not in jaxpr.memo:
        found: dict[Any, ExplicitSharding | None] = {}
        for eqn in reversed(jaxpr.eqns):
            for v in eqn.invars if eqn.outvars else ():
                if type(v) is not Literal and _is_undecided(v.aval):
                    out = eqn.outvars[0]
                    found[v] = found.get(out) if _is_undecided(out.aval) else out.aval.explicit
        jaxpr.memo["decided"] = found
    return jaxpr.memo["decided"]


def _is_undecided(aval: Any) -> bool:
    explicit = getattr(aval, "explicit", None)
    return explicit is not None and explicit.is_undecided


def decided_type(v: Any, decided: Shardings) -> ShapedArray:
    """The type of a value as it is partitioned in the end; of another shape than what is decided, by the same axes."""
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
