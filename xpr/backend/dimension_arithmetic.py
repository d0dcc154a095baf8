"""Arithmetic of symbolic dimensions: expressions over dimension variables as StableHLO operations on i32 scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xpr import dtypes
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import DimExpr, Factor, unexpected

if TYPE_CHECKING:
    from xpr.backend.stablehlo import Builder, Value

SIZE = ShapedArray((), dtypes.int32)  # the type of dimensions


def polynomial(b: Builder, size: DimExpr) -> Value:
    """The value of an expression, from those of the builder's dimension variables.

    Raises:
      UnexpectedDimVar: it has another variable.
    """
    total: Value | None = None
    for term, count in size.terms:
        part = _product(b, [_factor(b, f) for f, n in term.factors for _ in range(n)], count)
        total = part if total is None else b.op("stablehlo.add", [total, part], SIZE)
    return total  # type: ignore[return-value]  # an expression has terms


def _product(b: Builder, factors: Sequence[Value], count: int) -> Value:
    product = b.constant(count, SIZE) if count != 1 or not factors else factors[0]
    for each in factors if count != 1 else factors[1:]:
        product = b.op("stablehlo.multiply", [product, each], SIZE)
    return product


def _factor(b: Builder, factor: Factor) -> Value:
    if factor.variable:
        if factor.variable not in b.dimensions:
            raise unexpected(factor.variable, b.dimensions)
        return b.dimensions[factor.variable]
    x, y = map(b.dimension, factor.operands)
    if factor.operation in ("max", "min"):
        return b.op(f"stablehlo.{factor.operation}imum", [x, y], SIZE)
    return _floor_division(b, x, y)[factor.operation == "mod"]


def _floor_division(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """The quotient rounded down, and the remainder, which has the sign of the divisor."""
    zero = b.constant(0, SIZE)
    quotient, remainder = [b.op(f"stablehlo.{name}", [x, y], SIZE) for name in ("divide", "remainder")]
    product = b.op("stablehlo.multiply", [remainder, y], SIZE)
    rounded_up = compare(b, product, "LT", zero)
    below = b.op("stablehlo.subtract", [quotient, b.constant(1, SIZE)], SIZE)
    shifted = b.op("stablehlo.add", [remainder, y], SIZE)
    return (
        b.op("stablehlo.select", [rounded_up, below, quotient], SIZE),
        b.op("stablehlo.select", [rounded_up, shifted, remainder], SIZE),
    )


def compare(b: Builder, x: Value, direction: str, y: Value) -> Value:
    """Whether two scalars compare so: EQ, GE or LT."""
    return b.op(
        "stablehlo.compare", [x, y], SIZE.update(dtype=dtypes.bool_),
        f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
        "compare_type = #stablehlo<comparison_type SIGNED>",
    )  # fmt: skip
