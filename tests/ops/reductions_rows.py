"""Rows of xpr/primitives/reductions.py and primitives/argminmax.py."""

import numpy as np

from tests.ops.table import (
    BOOLS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Row,
    Sample,
    booleans,
    complexes,
    distinct,
    floats,
    integers,
    positive,
)  # fmt: skip
from xpr.primitives import argminmax as e
from xpr.primitives import reductions as r

ORDERED = BOOLS + INTEGERS + FLOATS
SPECIAL = np.array([[1, np.nan, 2], [np.inf, -np.inf, 0], [-np.inf, -np.inf, -np.inf]], np.float32)
TIES = np.array([[1, 2, 2], [0, 0, 0]], np.float32)

extreme = [
    Sample(distinct(2, 3), axes=(1,)),
    Sample(distinct(2, 1, 3), axes=(0, 2)),
    Sample(distinct(3), axes=()),
    Sample(floats(0, 2), axes=(1,)),
    Sample(integers(2, 3), axes=(0,)),
    Sample(SPECIAL, axes=(1,), edges=True),
    Sample(TIES, axes=(1,), edges=True),
    Sample(floats(0, 2), axes=(0,), edges=True),
]
bits = [
    Sample(booleans(2, 3), axes=(1,)),
    Sample(booleans(2, 1, 3), axes=(0, 2)),
    Sample(integers(4, below=100), axes=(0,)),
    Sample(booleans(0, 2), axes=(0,)),
    Sample(booleans(2), axes=()),
]
arg_extremes = [
    Sample(distinct(2, 3), axes=(1,), index_dtype=np.dtype(np.int32)),
    Sample(distinct(2, 3), axes=(0,), index_dtype=np.dtype(np.int8)),
    Sample(distinct(40, 2), axes=(0,), index_dtype=np.dtype(np.uint16)),
    Sample(integers(50, below=5), axes=(0,), index_dtype=np.dtype(np.int32)),
    Sample(SPECIAL, axes=(1,), index_dtype=np.dtype(np.int32), edges=True),
    Sample(np.tile(SPECIAL, (1, 20)), axes=(1,), index_dtype=np.dtype(np.int32), edges=True),
    Sample(np.tile(TIES, (1, 20)), axes=(1,), index_dtype=np.dtype(np.int32), edges=True),
]

ROWS = [
    Row(r.reduce_max_p, extreme, dtypes=ORDERED, signed_zeros=False),
    Row(r.reduce_max_of_numbers_p, [s for s in extreme if s.operands[0] is not SPECIAL], dtypes=ORDERED,
        signed_zeros=False),
    Row(r.reduce_min_p, extreme, dtypes=ORDERED, signed_zeros=False),
    Row(r.reduce_prod_p,
        [Sample(positive(2, 3), axes=(1,)),
         Sample(positive(2, 1, 3), axes=(0, 2)),
         Sample(np.array([[0, 2, 3], [0, 5, 0]], np.float32), axes=(1,)),
         Sample(complexes(2, 2), axes=(0,)),
         Sample(floats(0, 2), axes=(0,)),
         Sample(floats(3), axes=())], dtypes=NUMBERS),
    Row(r.reduce_and_p, bits, dtypes=BOOLS + INTEGERS, differentiable=False),
    Row(r.reduce_or_p, bits, dtypes=BOOLS + INTEGERS, differentiable=False),
    Row(r.reduce_xor_p, bits, dtypes=BOOLS + INTEGERS, differentiable=False),
    Row(e.argmax_p, arg_extremes, dtypes=ORDERED, differentiable=False),
    Row(e.argmin_p, arg_extremes, dtypes=ORDERED, differentiable=False),
]  # fmt: skip
