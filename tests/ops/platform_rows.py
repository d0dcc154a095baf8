"""Rows of xpr/control/cond/platforms.py."""

from tests.ops.table import Row, Sample
from xpr.control.cond.platforms import platform_index_p

ROWS = [
    Row(platform_index_p,
        [Sample(platforms=(("cpu",), None)), Sample(platforms=(("rocm",), ("tpu", "cpu"), ("cuda",)))]),
]  # fmt: skip
