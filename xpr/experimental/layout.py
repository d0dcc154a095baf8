"""`jax.experimental.layout`: the order of an array's elements in memory."""

from xpr.backend.layout import Format as Format
from xpr.backend.layout import Layout as Layout
from xpr.primitives.layout_constraint import with_layout_constraint

__all__ = ["Format", "Layout", "with_layout_constraint"]
