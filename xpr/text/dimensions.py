"""Symbolic dimensions among the parameters of equations: `DimExpr(dim='a + 1')`."""

from xpr.dimensions.expressions import DimExpr
from xpr.dimensions.scope import dimension_of_text
from xpr.text.parameters import register_parameter

register_parameter(DimExpr, lambda dimension: {"dim": str(dimension)}, dimension_of_text)
