"""Numbers of floating-point operations of primitives, for their `flops` slots.

An addition, a comparison and an exponential are one operation each, as XLA's own analysis has it, which counts the
latter apart. Moving data takes none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import JaxprEqn
from xpr.dimensions.expressions import max_dim

Avals = Sequence[ShapedArray]


def operations(eqn: JaxprEqn) -> int:
    """The operations that an equation takes, without those of its inner jaxprs."""
    rule = eqn.primitive.flops
    return 0 if rule is None else rule([v.aval for v in eqn.invars], [v.aval for v in eqn.outvars], **eqn.params)


def per_result(operands: Avals, results: Avals, **params: Any) -> int:
    """One for each element of the result."""
    return results[0].size


def per_operand(operands: Avals, results: Avals, **params: Any) -> int:
    """One for each element of the operand."""
    return operands[0].size


def reducing(operands: Avals, results: Avals, **params: Any) -> int:
    """n - 1 for each result of a reduction of n elements."""
    return max_dim(operands[0].size - results[0].size, 0)


def per_update(operands: Avals, results: Avals, **params: Any) -> int:
    """One for each element of the last operand, as of a scatter."""
    return operands[-1].size


def per_window(operands: Avals, results: Avals, *, window_dimensions: Sequence[int], **params: Any) -> int:
    """One for each element of the window of each element of the result."""
    return results[0].size * math.prod(window_dimensions)


def sorting(operands: Avals, results: Avals, **params: Any) -> int:
    """n log n comparisons along the axis that is sorted."""
    axis = params["dimension"] if "dimension" in params else params["axis"]
    length = operands[0].shape[axis]
    return operands[0].size * max(1, math.ceil(math.log2(length))) if length else 0


def several(number: int) -> Callable[..., int]:
    """A rule for primitives that take this number of operations for each element of the result."""
    return lambda operands, results, **params: number * results[0].size
