"""Rows of xpr/primitives/dimension_values.py: the number of a dimension, which is symbolic only while tracing."""

from tests.ops.table import Row, Sample
from xpr.primitives.dimension_values import dim_as_value_p

WEAK = "A dimension is a Python integer, which is weakly typed, and there is no operand that is."

ROWS = [Row(dim_as_value_p, [Sample(dim=7)], differentiable=False, skip={"typing": WEAK})]
