"""Comparisons of two arrays, element by element: their results are booleans, which have no derivative.

Complex numbers are equal or not, and have no order here; the functions of `xpr.numpy` give them one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.core.primitive import Primitive
from xpr.dtypes import ANY, BOOL, COMPLEX, REAL
from xpr.primitives.comparison_lowering import lower_comparison
from xpr.primitives.elementwise_rules import ZERO, elementwise, function_of, repeated

__all__ = ["eq", "eq_p", "ge", "ge_p", "gt", "gt_p", "le", "le_p", "lt", "lt_p", "ne", "ne_p"]


def compared(b: Builder, operands: Sequence[Value], direction: str) -> Value:
    """Writes the comparison of two values of one type.

    Complex numbers are ordered by their real parts, and by their imaginary parts where those are equal, as in NumPy.
    """
    operand = operands[0].aval
    aval = operand.update(dtype=dtypes.bool_)
    if operand.dtype not in COMPLEX or direction in ("EQ", "NE"):
        # By default XLA compares booleans as signed integers, and folds no constants.
        x, y = operands
        return lower_comparison(b, x, y, direction, "UNSIGNED" if operand.dtype == dtypes.bool_ else None)
    part = operand.update(dtype=dtypes.real_part_of(operand.dtype))
    reals, imags = ([b.op(f"stablehlo.{name}", [v], part) for v in operands] for name in ("real", "imag"))
    return b.op(
        "stablehlo.select",
        [compared(b, reals, "EQ"), compared(b, imags, direction), compared(b, reals, direction)],
        aval,
    )


def _compare(name: str, direction: str, reference: Any) -> Primitive:
    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
        return [compared(b, repeated(b, operands, avals[0].shape), direction)]

    return elementwise(
        name,
        over=ANY if direction in ("EQ", "NE") else REAL | BOOL,
        gives=lambda d: dtypes.bool_,
        lowers_to=lower,
        reference=reference,
        partials=[ZERO, ZERO],
        exact=True,
        commutative=direction in ("EQ", "NE"),
        physical={"EQ": "all", "NE": "any"}.get(direction),  # type: ignore[arg-type]  # a literal, or None
    )


eq_p = _compare("eq", "EQ", np.equal)
eq = function_of(
    eq_p,
    """Whether x == y, elementwise.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      Booleans of the same shape.

    >>> from xpr import lax
    >>> lax.eq(1.0, 2.0)
    Array(False, dtype=bool, weak_type=True)
    """,
    2,
)
ne_p = _compare("ne", "NE", np.not_equal)
ne = function_of(
    ne_p,
    """Whether x != y, elementwise.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      Booleans of the same shape.

    >>> from xpr import lax
    >>> lax.ne(1.0, 2.0)
    Array(True, dtype=bool, weak_type=True)
    """,
    2,
)
lt_p = _compare("lt", "LT", np.less)
lt = function_of(
    lt_p,
    """Whether x < y, elementwise.

    Args:
      x: an array or a number, of real numbers or booleans.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      Booleans of the same shape.

    Raises:
      TypeError: they are complex; `xpr.numpy` orders complex numbers, by their parts.

    >>> from xpr import lax
    >>> lax.lt(1.0, 2.0)
    Array(True, dtype=bool, weak_type=True)
    """,
    2,
)
le_p = _compare("le", "LE", np.less_equal)
le = function_of(
    le_p,
    """Whether x <= y, elementwise.

    Args:
      x: an array or a number, of real numbers or booleans.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      Booleans of the same shape.

    Raises:
      TypeError: they are complex; `xpr.numpy` orders complex numbers, by their parts.

    >>> from xpr import lax
    >>> lax.le(1.0, 2.0)
    Array(True, dtype=bool, weak_type=True)
    """,
    2,
)
gt_p = _compare("gt", "GT", np.greater)
gt = function_of(
    gt_p,
    """Whether x > y, elementwise.

    Args:
      x: an array or a number, of real numbers or booleans.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      Booleans of the same shape.

    Raises:
      TypeError: they are complex; `xpr.numpy` orders complex numbers, by their parts.

    >>> from xpr import lax
    >>> lax.gt(1.0, 2.0)
    Array(False, dtype=bool, weak_type=True)
    """,
    2,
)
ge_p = _compare("ge", "GE", np.greater_equal)
ge = function_of(
    ge_p,
    """Whether x >= y, elementwise.

    Args:
      x: an array or a number, of real numbers or booleans.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      Booleans of the same shape.

    Raises:
      TypeError: they are complex; `xpr.numpy` orders complex numbers, by their parts.

    >>> from xpr import lax
    >>> lax.ge(1.0, 2.0)
    Array(False, dtype=bool, weak_type=True)
    """,
    2,
)
