"""Bounds checks for `checkify`: whether computed indices are inside an array, and divisors are not zero.

A `hazard` of a primitive is a pair of a kind of error ("index", "division") and a rule that says whether an equation
has it: `(values, **params) -> (a bool[], the values in the message)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.avals import aval_of
from xpr.primitives.elementwise import bitwise_or, convert_element_type, div_p, eq, gt, lt
from xpr.primitives.reductions import reduce_max, reduce_min, reduce_or
from xpr.primitives.shapes import broadcast_to, full, reshape
from xpr.primitives.slicing import broadcasted_iota, select

INDEX, DIVISION = "index", "division"
_LEAST: Any = np.int32(np.iinfo(np.int32).min)
_NONE: Any = np.int32(np.iinfo(np.int32).max)


def outside(columns: Sequence[tuple[Any, int, int]]) -> tuple[Any, list[Any]]:
    """Whether some start is out of bounds; and the first such start and its axis, as i32 scalars.

    Each column is the starts along one axis (an array of any shape), the greatest start that is inside, the axis. The
    first start is that of the first slice, and among those of one slice that along the first axis.
    """
    first, index, axis = _NONE, np.int32(0), np.int32(0)
    for starts, limit, number in columns:
        starts = convert_element_type(starts, np.dtype(np.int32))
        wrong = bitwise_or(lt(starts, np.int32(0)), gt(starts, np.int32(limit)))
        slices, bad_start = _first_of(starts, wrong)
        new = lt(slices, first)
        index, axis = select(new, bad_start, index), select(new, np.int32(number), axis)
        first = select(new, slices, first)
    return lt(first, _NONE), [index, axis]


def _first_of(starts: Any, wrong: Any) -> tuple[Any, Any]:
    """The number of the first start that is wrong, `_NONE` where there is none, and the start."""
    size = aval_of(starts).size
    if not aval_of(starts).shape:
        return select(wrong, np.int32(0), _NONE), starts
    starts, wrong = reshape(starts, (size,)), reshape(wrong, (size,))
    numbers = broadcasted_iota(np.dtype(np.int32), (size,), 0)
    first = reduce_min(select(wrong, numbers, full((size,), _NONE, np.dtype(np.int32))), (0,))
    is_first = eq(numbers, broadcast_to(first, (size,)))
    return first, reduce_max(select(is_first, starts, full((size,), _LEAST, np.dtype(np.int32))), (0,))


def zero_divisor(values: Sequence[Any], **_: Any) -> tuple[Any, list[Any]]:
    """Whether an element is divided by zero."""
    divisor = values[1]
    aval = aval_of(divisor)
    is_zero = eq(divisor, np.zeros((), aval.dtype)[()])
    return (reduce_or(is_zero, tuple(range(aval.ndim))) if aval.ndim else is_zero), []


div_p.hazard = (DIVISION, zero_divisor)  # here, since reductions are imported after the elementwise functions
