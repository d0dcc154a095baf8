"""Rows of xpr/primitives/sorting.py."""

import numpy as np

from tests.ops.table import ANY, BOOLS, FLOATS, INTEGERS, Row, Sample, complexes, distinct, floats, integers
from xpr.primitives.sorting import order_statistics_p, sort_p, top_k_p
from xpr.primitives.true_indices import true_indices_p

SPECIAL = np.array([[1, np.nan, 0, -0.0], [np.inf, -np.inf, -np.nan, 2]], np.float32)


def sorting(*operands: np.ndarray, dimension: int = 0, num_keys: int = 1, **kind: bool) -> Sample:
    return Sample(*operands, dimension=dimension, is_stable=True, num_keys=num_keys, **kind)


ROWS = [
    Row(sort_p,
        [sorting(distinct(5)),
         sorting(distinct(2, 3), dimension=1),
         sorting(complexes(3, 2)),
         sorting(distinct(3, 2), floats(3, 2)),
         sorting(distinct(2, 3), floats(2, 3), integers(2, 3), dimension=1),
         sorting(integers(6, below=2), distinct(6), floats(6), num_keys=2),
         sorting(floats(0)),
         sorting(floats(2, 1), floats(2, 1, salt=1), dimension=1),
         sorting(SPECIAL, dimension=1, edges=True),
         sorting(SPECIAL, integers(2, 4), dimension=1, edges=True)], dtypes=ANY, signed_zeros=False),
    Row(order_statistics_p,
        [Sample(distinct(5), ranks=(1, 4), axis=0),
         Sample(distinct(3, 2), ranks=(0, 1), axis=0),
         Sample(distinct(2, 3), ranks=(2,), axis=1),
         Sample(floats(3), ranks=(), axis=0),
         Sample(integers(8, below=3), ranks=(0, 3, 4), axis=0),
         Sample(SPECIAL, ranks=(0, 2, 3), axis=1, edges=True)],
        dtypes=BOOLS + INTEGERS + FLOATS, signed_zeros=False),
    Row(true_indices_p,
        [Sample(integers(7, below=2) > 0, size=3, fill_value=7),
         Sample(integers(2, 9, below=2) > 0, size=6, fill_value=-1),
         Sample(integers(2, 3, 5, below=2, salt=1) > 0, size=5, fill_value=0),
         Sample(integers(3, below=2) > 0, size=0, fill_value=0)], dtypes=BOOLS, differentiable=False),
    Row(top_k_p,
        [Sample(distinct(5), k=2, axis=0),
         Sample(distinct(3, 2), k=2, axis=0),
         Sample(distinct(2, 3), k=3, axis=1),
         Sample(floats(3), k=0, axis=0),
         Sample(integers(8, below=3), k=5, axis=0),
         Sample(SPECIAL, k=3, axis=1, edges=True)], dtypes=BOOLS + INTEGERS + FLOATS, signed_zeros=False),
]  # fmt: skip
