"""`jax.experimental.layout`: the order of an array's elements in memory, which is row-major in xpr."""

from xpr.backend.layout import Format as Format
from xpr.backend.layout import Layout as Layout

__all__ = ["Format", "Layout"]
