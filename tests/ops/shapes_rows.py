"""Rows of xpr/primitives/shapes.py."""

from tests.ops.table import ANY, NUMBERS, Row, Sample, complexes, floats, integers
from xpr.primitives import shapes as s

ROWS = [
    Row(s.broadcast_in_dim_p,
        [Sample(floats(), shape=(2, 3), broadcast_dimensions=()),
         Sample(floats(3), shape=(2, 3), broadcast_dimensions=(1,)),
         Sample(floats(2, 1), shape=(2, 4, 3), broadcast_dimensions=(0, 2)),
         Sample(floats(1), shape=(1, 2), broadcast_dimensions=(0,)),
         Sample(complexes(2), shape=(2, 0), broadcast_dimensions=(0,))], dtypes=ANY),
    Row(s.reshape_p,
        [Sample(floats(2, 3), new_sizes=(3, 2)),
         Sample(complexes(2, 2), new_sizes=(4,)),
         Sample(floats(), new_sizes=(1, 1)),
         Sample(floats(0, 2), new_sizes=(4, 0))], dtypes=ANY),
    Row(s.squeeze_p,
        [Sample(floats(1, 2, 1), dimensions=(0, 2)),
         Sample(floats(2, 1), dimensions=(1,)),
         Sample(complexes(1, 1), dimensions=(0,)),
         Sample(floats(1), dimensions=(0,))], dtypes=ANY),
    Row(s.transpose_p,
        [Sample(floats(2, 3), permutation=(1, 0)),
         Sample(floats(2, 1, 3), permutation=(2, 0, 1)),
         Sample(complexes(2, 0), permutation=(1, 0))], dtypes=ANY),
    Row(s.rev_p,
        [Sample(floats(2, 3), dimensions=(1,)),
         Sample(floats(2, 3), dimensions=(0, 1)),
         Sample(complexes(3), dimensions=(0,)),
         Sample(integers(3), dimensions=())], dtypes=ANY),
    Row(s.reduce_sum_p,
        [Sample(floats(2, 3), axes=(1,)),
         Sample(floats(2, 1, 3), axes=(0, 2)),
         Sample(complexes(2, 2), axes=(0,)),
         Sample(floats(0, 2), axes=(0,)),
         Sample(floats(3), axes=())], dtypes=NUMBERS),
]  # fmt: skip
