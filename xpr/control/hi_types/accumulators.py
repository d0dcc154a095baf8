"""Accumulators of cotangents: what rules for reverse mode get for each operand, and add its cotangents to."""

from __future__ import annotations

from typing import Any

from xpr.core.avals import Zero, aval_of, same_type
from xpr.errors import ArgumentError
from xpr.primitives.elementwise import add_tangents


class GradAccum:
    """The cotangent of an operand, to which rules add: `accum(ct)`.

    Args:
      aval: the type of the cotangent.
    """

    def __init__(self, aval: Any):
        self.aval = aval
        self.value: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval.str_short()})"

    def accum(self, x: Any) -> None:
        """Adds a cotangent; None and symbolic zeros add nothing.

        Raises:
          ArgumentError: it has another type than the operand's cotangents.
        """
        if x is None or type(x) is Zero:
            return
        if not same_type(self.aval, aval_of(x)):
            raise ArgumentError(
                f"accum: the operand's cotangents are of type {self.aval.str_short()}, and one of type "
                f"{aval_of(x).str_short()} was added."
            )
        self.value = x if self.value is None else add_tangents(self.value, x)


class NullAccum(GradAccum):
    """The accumulator of an operand whose cotangent is not asked for: what is added to it is dropped."""

    def accum(self, x: Any) -> None:
        """Drops a cotangent."""
