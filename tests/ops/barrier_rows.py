"""Rows of xpr/primitives/barrier.py."""

from tests.ops.table import ANY, Row, Sample, booleans, complexes, floats, integers
from xpr.primitives.barrier import optimization_barrier_p

ROWS = [
    Row(optimization_barrier_p,
        [Sample(floats(2, 3)), Sample(floats(3), complexes(2)), Sample(integers(3), booleans(2), floats())],
        dtypes=ANY),
]  # fmt: skip
