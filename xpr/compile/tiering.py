"""Which programs may be compiled quickly first, and optimized later: those that take little time in any case.

In programs that are not optimized, elementwise operations take up to ten times as long; products and other calls of
libraries take no longer. A run that has started goes on in the same program, so what may take seconds is optimized from
the beginning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xpr.config import settings
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr
from xpr.core.regions import total_cost

_MOST = 1e8  # elements that are computed: a few tenths of a second without optimization
_STEPS = 50  # that a loop of unknown length is supposed to take; loops may be nested


def is_tiered(jaxpr: Jaxpr) -> bool:
    """Whether the setting tiered_compilation is on, and the program is to be compiled quickly first."""
    return settings.tiered_compilation and _elements(jaxpr) <= _MOST


def is_operation_tiered(out_avals: Sequence[ShapedArray]) -> bool:
    """Whether the program of one operation, which holds no jaxprs, is to be compiled quickly first."""
    return settings.tiered_compilation and sum(aval.size for aval in out_avals) <= _MOST


def _elements(jaxpr: Jaxpr) -> float:
    """How many elements a run computes; cached with the jaxpr."""
    return total_cost(jaxpr, "elements", lambda eqn: sum(map(_size, eqn.outvars)), _STEPS)


def _size(v: Any) -> float:
    return math.inf if getattr(v.aval, "is_symbolic", False) else getattr(v.aval, "size", 1)
