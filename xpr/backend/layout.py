"""The order of an array's elements in memory, which is row-major in xpr."""

from __future__ import annotations

from typing import Any


class Layout:
    """The order of axes in memory, the slowest first.

    Args:
      major_to_minor: the axes in that order.
      tiling: the blocks of contiguous elements.
    """

    AUTO: Any = None

    def __init__(self, major_to_minor: tuple[int, ...], tiling: Any = None, sub_byte_element_size_in_bits: int = 0):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling, self.sub_byte_element_size_in_bits = tiling, sub_byte_element_size_in_bits

    def _key(self) -> Any:
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling})"


class Format:
    """A layout and a sharding; None leaves the choice to the compiler."""

    def __init__(self, layout: Layout | None = None, sharding: Any = None):
        self.layout, self.sharding = layout, sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def row_major(ndim: int) -> Layout:
    """The layout of every array in xpr."""
    return Layout(tuple(range(ndim)), ())
