"""Rows of what says something of its operands, and gives them as they are."""

from tests.ops.table import ANY, Row, Sample, booleans, complexes, floats, integers
from xpr.backend.layout import Layout
from xpr.primitives.dce_sink import dce_sink_p
from xpr.primitives.layout_constraint import layout_constraint_p
from xpr.primitives.shard_alike import shard_alike_p
from xpr.primitives.xla_metadata import xla_metadata_value_p

METADATA = (("kind", "wave"), ("number", 3))

ROWS = [
    Row(xla_metadata_value_p,
        [Sample(floats(2, 3), xla_metadata_kvs=METADATA), Sample(integers(3), xla_metadata_kvs=METADATA),
         Sample(booleans(2), xla_metadata_kvs=METADATA)],
        dtypes=ANY),
    Row(layout_constraint_p,
        [Sample(floats(2, 3), layout=Layout((1, 0))), Sample(complexes(2), layout=Layout((0,))),
         Sample(integers(2, 3, 2), layout=Layout((1, 2, 0)))]),
    Row(dce_sink_p, [Sample(floats(2, 3)), Sample(integers(3)), Sample(floats(2, 3), prevent_mlir_dce=True)],
        differentiable=False),
    Row(shard_alike_p, [Sample(floats(2, 3), floats(2, 3, salt=1)), Sample(complexes(2), integers(2))]),
]  # fmt: skip
