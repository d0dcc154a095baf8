"""Comparisons of two arrays, entry by entry: they give booleans, which have no slope."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.core.primitive import Primitive
from xpr.dtypes import ANY, BOOL, REAL
from xpr.primitives.elementwise_rules import ZERO, elementwise, function_of, repeated


def _compare(name: str, direction: str, reference: Any, over: frozenset[np.dtype]) -> Primitive:
    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
        return [
            b.op(
                "stablehlo.compare",
                repeated(b, operands, avals[0].shape),
                avals[0],
                f"comparison_direction = #stablehlo<comparison_direction {direction}>",
            )
        ]

    return elementwise(
        name,
        over=over,
        gives=lambda d: dtypes.bool_,
        lowers_to=lower,
        reference=reference,
        partials=[ZERO, ZERO],
        exact=True,
        commutative=direction in ("EQ", "NE"),
    )


_ORDERED = REAL | BOOL
eq_p = _compare("eq", "EQ", np.equal, ANY)
eq = function_of(eq_p, "Whether entries are equal.", 2)
ne_p = _compare("ne", "NE", np.not_equal, ANY)
ne = function_of(ne_p, "Whether entries differ.", 2)
lt_p = _compare("lt", "LT", np.less, _ORDERED)
lt = function_of(lt_p, "Whether entries of `x` are less than those of `y`.", 2)
le_p = _compare("le", "LE", np.less_equal, _ORDERED)
le = function_of(le_p, "Whether entries of `x` are at most those of `y`.", 2)
gt_p = _compare("gt", "GT", np.greater, _ORDERED)
gt = function_of(gt_p, "Whether entries of `x` are greater than those of `y`.", 2)
ge_p = _compare("ge", "GE", np.greater_equal, _ORDERED)
ge = function_of(ge_p, "Whether entries of `x` are at least those of `y`.", 2)
