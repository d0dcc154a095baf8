"""Rows of xpr/primitives/cumulative.py and primitives/recurrences.py."""

import numpy as np

from tests.ops.table import (
    INEXACT,
    NUMBERS,
    Row,
    Sample,
    complexes,
    distinct,
    floats,
    integers,
    positive,
)  # fmt: skip
from xpr.primitives import cumulative as c
from xpr.primitives.recurrences import linear_recurrence_p

SPECIAL = np.array([[1, 2, np.inf, 0], [-np.inf, -np.inf, -1, np.nan]], np.float32)
TIES = np.array([1, 1, 2, 2, 2, 0], np.float32)


def along(x: np.ndarray, axis: int, reverse: bool = False, **kind: bool) -> Sample:
    return Sample(x, axis=axis, reverse=reverse, **kind)


extreme = [
    along(distinct(5), 0),
    along(distinct(2, 3), 1, True),
    along(distinct(3, 2), 0),
    along(floats(2, 1), 1),
    along(floats(0, 2), 0),
    along(integers(4), 0),
    along(TIES, 0, edges=True),
    along(SPECIAL, 1, edges=True),
    along(complexes(3, 2), 0),
    along(complexes(2, 3), 1, True),
    along(np.array([1 + 1j, 2, 2 + 1j, 2 - 1j, 3], np.complex64), 0, edges=True),
]

ROWS = [
    Row(c.cumsum_p,
        [along(floats(5), 0), along(floats(2, 3), 1, True), along(complexes(3, 2), 0), along(floats(2, 0), 1),
         along(integers(4), 0), along(SPECIAL, 1, edges=True)], dtypes=NUMBERS),
    Row(c.cumprod_p,
        [along(positive(5), 0), along(floats(2, 3), 1, True), along(complexes(3, 2), 0), along(floats(2, 0), 1),
         along(np.array([2, 0, 3, 0, 5], np.float32), 0), along(integers(4), 0)], dtypes=NUMBERS),
    Row(c.cummax_p, extreme, dtypes=NUMBERS, signed_zeros=False),
    Row(c.cummin_p, extreme, dtypes=NUMBERS, signed_zeros=False),
    Row(c.cumlogsumexp_p,
        [along(floats(5), 0), along(floats(2, 3), 1, True), along(floats(3, 2), 0), along(floats(0), 0),
         along(complexes(3, 2), 0), along(complexes(2, 3), 1, True), along(SPECIAL, 1, edges=True)], dtypes=INEXACT),
    Row(linear_recurrence_p,
        [Sample(floats(5), floats(5, salt=1), axis=0, reverse=False),
         Sample(floats(2, 3), floats(2, 3, salt=1), axis=1, reverse=True),
         Sample(complexes(3, 2), complexes(3, 2, salt=1), axis=0, reverse=False)], dtypes=INEXACT),
]  # fmt: skip
