"""Rows of xpr/primitives/refs.py: reading and writing a ref, in a program that is discharged."""

from tests.ops.table import ANY, Row, Sample, floats, integers
from xpr.primitives.refs import get_p, swap_p

ROWS = [
    Row(get_p, [Sample(floats(2, 3)), Sample(integers(4))], dtypes=ANY, of_refs=True, meaning=lambda x: [x, x]),
    Row(
        swap_p,
        [Sample(floats(2, 3), floats(2, 3, salt=1)), Sample(integers(4), integers(4, salt=1))],
        dtypes=ANY,
        of_refs=True,
        meaning=lambda x, new: [x, new],
    ),
]
