"""Whether computed places lie inside an array: what `checkify` asks of the operations that read and write there.

A `hazard` of a primitive is a pair of what can go wrong ("index", "division") and a rule
`(values, **params) -> (whether it does, a bool[]; what the message needs)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.avals import aval_of
from xpr.primitives.elementwise import bitwise_and, bitwise_not, bitwise_or, convert_element_type, div_p, eq, gt, lt
from xpr.primitives.elementwise import max as maximum
from xpr.primitives.reductions import reduce_max, reduce_or
from xpr.primitives.shapes import full
from xpr.primitives.slicing import select

INDEX, DIVISION = "index", "division"
_LEAST = np.int32(np.iinfo(np.int32).min)


def outside(columns: Sequence[tuple[Any, int, int]]) -> tuple[Any, list[Any]]:
    """Whether some start lies outside, and then such a start and its axis, as i32 scalars.

    Each column is the starts along one axis (an array of any shape), the greatest start that lies inside, the axis.
    """
    failed: Any = np.bool_(False)
    index: Any = np.int32(0)
    axis: Any = np.int32(0)
    for starts, limit, number in columns:
        starts = convert_element_type(starts, np.dtype(np.int32))
        shape = aval_of(starts).shape
        wrong = bitwise_or(lt(starts, np.int32(0)), gt(starts, np.int32(limit)))
        some = reduce_or(wrong, tuple(range(len(shape)))) if shape else wrong
        found = select(wrong, starts, full(shape, _LEAST, np.dtype(np.int32)) if shape else _LEAST)
        found = reduce_max(found, tuple(range(len(shape)))) if shape else found
        new = bitwise_and(some, bitwise_not(failed))
        index, axis = select(new, maximum(found, _LEAST), index), select(new, np.int32(number), axis)
        failed = bitwise_or(failed, some)
    return failed, [index, axis]


def zero_divisor(values: Sequence[Any], **_: Any) -> tuple[Any, list[Any]]:
    """Whether an entry is divided by zero."""
    divisor = values[1]
    aval = aval_of(divisor)
    is_zero = eq(divisor, np.zeros((), aval.dtype)[()])
    return (reduce_or(is_zero, tuple(range(aval.ndim))) if aval.ndim else is_zero), []


div_p.hazard = (DIVISION, zero_divisor)  # here, since reductions stand above the elementwise functions
