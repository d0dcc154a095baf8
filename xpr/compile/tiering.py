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
from xpr.core.jaxpr import Jaxpr
from xpr.core.regions import total_cost

_MOST = 1e8  # elements that are computed, a few tenths of a second if it isn't optimized
_STEPS = 50  # of loops of unknown length, which may be nested


def is_tiered(jaxpr: Jaxpr) -> bool:
    """Whether the setting tiered_compilation is on, and the program is to be compiled quickly first."""
    return settings.tiered_compilation and _elements(jaxpr) <= _MOST


def is_operation_tiered(out_avals: Sequence[ShapedArray]) -> bool:
    """The same for an operation that holds no jaxprs, by the types of its results."""
    return settings.tiered_compilation and sum(aval.size for aval in out_avals) <= _MOST


def _elements(jaxpr: Jaxpr) -> float:
    """How many elements a run computes; cached with the jaxpr."""
    return total_cost(jaxpr, "elements", lambda eqn: sum(map(_size, eqn.outvars)), _STEPS)


def _size(v: Any) -> float:
    return math.inf if getattr(v.aval, "is_symbolic", False) else getattr(v.aval, "size", 1)
