"""Comparisons in StableHLO, and the nans of an array."""

from __future__ import annotations

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value


def lower_comparison(b: Builder, x: Value, y: Value, direction: str, compare_type: str | None = None) -> Value:
    """Booleans that compare two values of one type.

    Args:
      b: the builder.
      x: the left operand.
      y: the right operand.
      direction: "EQ", "NE", "LT", "LE", "GT" or "GE".
      compare_type: how XLA reads the operands, such as "UNSIGNED"; None for its choice.
    """
    properties = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
    if compare_type is not None:
        properties += f", compare_type = #stablehlo<comparison_type {compare_type}>"
    return b.op("stablehlo.compare", [x, y], x.aval.update(dtype=dtypes.bool_), properties)


def is_nan(b: Builder, x: Value) -> Value:
    """Whether each element is nan, the only number that differs from itself."""
    return lower_comparison(b, x, x, "NE")


def nan_where(b: Builder, flags: Value, x: Value) -> Value:
    """`x`, and nan where flags are set."""
    return b.op("stablehlo.select", [flags, b.constant(np.nan, x.aval), x], x.aval)
