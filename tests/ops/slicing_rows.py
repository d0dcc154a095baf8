"""Rows of xpr/primitives/slicing.py."""

import numpy as np

from tests.ops.table import ANY, FLOATS, INTEGERS, Row, Sample, booleans, complexes, floats, integers
from xpr.primitives import slicing as p

F32, TRUE = np.float32, np.bool_(True)

ROWS = [
    Row(p.select_n_p,
        [Sample(booleans(2, 3), floats(2, 3), floats(2, 3, salt=1)),
         Sample(TRUE, complexes(2), complexes(2, salt=1)),
         Sample(np.int32([0, 1, 2, 1]), floats(4), floats(4, salt=1), floats(4, salt=2)),
         Sample(booleans(2), floats(2)),
         Sample(np.int32(3), *(floats(2, salt=i) for i in range(5)))], dtypes=ANY),
    Row(p.slice_p,
        [Sample(floats(4, 3), start_indices=(1, 0), limit_indices=(3, 3), strides=None),
         Sample(floats(7), start_indices=(1,), limit_indices=(6,), strides=(2,)),
         Sample(floats(6), start_indices=(5,), limit_indices=(6,), strides=(4,)),
         Sample(complexes(4), start_indices=(2,), limit_indices=(2,), strides=None),
         Sample(floats(), start_indices=(), limit_indices=(), strides=None)], dtypes=ANY),
    Row(p.pad_p,
        [Sample(floats(2, 3), F32(0.5), padding_config=((1, 2, 0), (0, 1, 1))),
         Sample(floats(4), F32(2), padding_config=((-1, 1, 0),)),
         Sample(complexes(3), np.complex64(1j), padding_config=((-2, -1, 2),)),
         Sample(floats(0), F32(1), padding_config=((1, 1, 1),)),
         Sample(floats(), F32(1), padding_config=()),
         Sample(floats(5), F32(3), padding_config=((1, -1, 2),))], dtypes=ANY),
    Row(p.concatenate_p,
        [Sample(floats(2, 1), floats(2, 2), dimension=1),
         Sample(floats(1), floats(2), floats(0), dimension=0),
         Sample(complexes(2, 2), complexes(1, 2), dimension=0)], dtypes=ANY),
    *(Row(p.iota_p, [Sample(dtype=dtype, shape=(2, 3), dimension=1), Sample(dtype=dtype, shape=(2, 1), dimension=0)])
      for dtype in (*INTEGERS, *FLOATS, np.dtype(np.complex64)) if dtype.itemsize < 8 or dtype.kind == "c"),
    Row(p.slice_p, [Sample(integers(5), start_indices=(1,), limit_indices=(5,), strides=(3,))]),
]  # fmt: skip
