"""Which programs may be compiled quickly first, and optimized later: those that take little time in any case.

Programs that are not optimized take up to ten times as long for elementwise operations; products and other calls of
libraries take as long. A run is not interrupted to go on in the optimized program, so what may take seconds has that
from the beginning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xpr.config import settings
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr, JaxprEqn
from xpr.core.regions import regions_of

_MOST = 1e8  # elements that are computed, a few tenths of a second if it isn't optimized
_STEPS = 50  # of loops of unknown length, which may be nested


def is_tiered(jaxpr: Jaxpr) -> bool:
    """Whether the setting tiered_compilation is on, and the program is to be compiled quickly first."""
    return settings.tiered_compilation and _elements(jaxpr) <= _MOST


def is_operation_tiered(out_avals: Sequence[ShapedArray]) -> bool:
    """The same for an operation that holds no jaxprs, by the types of its results."""
    return settings.tiered_compilation and sum(aval.size for aval in out_avals) <= _MOST


def _elements(jaxpr: Jaxpr) -> float:
    """How many elements a run computes, those of all steps of loops; cached with the jaxpr."""
    if "elements" not in jaxpr.memo:
        jaxpr.memo["elements"] = sum(map(_elements_of, jaxpr.eqns), 0.0)
    return jaxpr.memo["elements"]


def _elements_of(eqn: JaxprEqn) -> float:
    regions = regions_of(eqn)
    if not regions:
        return sum(map(_size, eqn.outvars))
    branches = [_elements(region.jaxpr) for region in regions if region.kind == "branch"]
    others = [region for region in regions if region.kind != "branch"]
    return max(branches, default=0.0) + sum(
        (_STEPS if region.times is None else region.times) * _elements(region.jaxpr) for region in others
    )


def _size(v: Any) -> float:
    return math.inf if getattr(v.aval, "is_symbolic", False) else getattr(v.aval, "size", 1)
