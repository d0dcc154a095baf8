"""scaled_dot: the product of arrays of few bits, whose elements share scales in blocks along the contracted axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.primitives.dot import DotDimensionNumbers, dot_general
from xpr.primitives.elementwise import convert_element_type, mul
from xpr.primitives.shapes import broadcast_in_dim, reshape

__all__ = ["scaled_dot"]


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: Any = None,
) -> Any:
    """The contraction of (lhs * lhs_scale) and (rhs * rhs_scale), in which blocks of elements share a scale.

    Scales and operands are multiplied in bfloat16, as in JAX.

    Args:
      lhs: an array.
      rhs: an array.
      lhs_scale: an array with the axes of `lhs`, of which the contracted ones may be shorter by a whole factor; None
        for no scale.
      rhs_scale: likewise for `rhs`.
      dimension_numbers: see `dot_general`; None for products of matrices, or of stacks of them.
      preferred_element_type: the dtype to sum in, and of the result; None for bfloat16.

    Returns:
      What `dot_general` gives.

    Raises:
      TypeError: operands are no matrices, or the shapes don't fit.

    >>> from xpr import lax, numpy as jnp
    >>> lax.scaled_dot(jnp.ones((1, 4)), jnp.ones((4, 1)), lhs_scale=jnp.array([[1.0, 2.0]]))
    Array([[6]], dtype=bfloat16)
    """
    if dimension_numbers is None:
        n = aval_of(lhs).ndim
        if n < 2 or aval_of(rhs).ndim != n:
            types = " and ".join(aval_of(x).str_short() for x in (lhs, rhs))
            raise ArgumentError(f"scaled_dot: {types} are no matrices or stacks of them: give dimension_numbers.")
        stack = tuple(range(n - 2))
        dimension_numbers = ((n - 1,), (n - 2,)), (stack, stack)
    contracted, _ = dimension_numbers
    total = dtypes.bf16 if preferred_element_type is None else dtypes.requested(preferred_element_type)
    pairs = ((lhs, lhs_scale, contracted[0]), (rhs, rhs_scale, contracted[1]))
    x, y = (scaled_in_blocks("scaled_dot", x, scale, axes, dtypes.bf16) for x, scale, axes in pairs)
    return dot_general(x, y, dimension_numbers, preferred_element_type=total)


def scaled_in_blocks(function: str, x: Any, scale: Any, axes: Sequence[int], dtype: np.dtype) -> Any:
    """The elements in a dtype, times their scales, which are repeated along the axes.

    Raises:
      TypeError: the scale is not of the operand's shape, but for whole factors along the axes.
    """
    x = convert_element_type(x, dtype)
    if scale is None:
        return x
    shape, blocks = aval_of(x).shape, aval_of(scale).shape
    if len(shape) != len(blocks) or any(
        n != m and (axis not in axes or not m or n % m) for axis, (n, m) in enumerate(zip(shape, blocks))
    ):
        raise ArgumentError(
            f"{function}: a scale {aval_of(scale).str_short()} for {aval_of(x).str_short()}: it has the same sizes, "
            f"or, along the axes {tuple(axes)}, ones that divide them."
        )
    scale = convert_element_type(scale, dtype)
    for axis in axes:
        m, *_ = blocks[axis:]
        current = aval_of(scale).shape
        spread = (*current[: axis + 1], shape[axis] // m if m else 1, *current[axis + 1 :])
        kept = [a for a in range(len(spread)) if a != axis + 1]
        scale = reshape(broadcast_in_dim(scale, spread, kept), (*current[:axis], shape[axis], *current[axis + 1 :]))
    return mul(x, scale)
