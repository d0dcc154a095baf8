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

    @staticmethod
    def from_pjrt_layout(pjrt_layout: Any) -> Layout:
        """The layout of an array or a program, as jaxlib says it."""
        layout = pjrt_layout._xla_layout()
        return Layout(layout.minor_to_major()[::-1], layout.tiling(), layout.element_size_in_bits())

    def update(self, **changes: Any) -> Layout:
        """The layout with some of its parts replaced."""
        parts = dict(zip(("major_to_minor", "tiling", "sub_byte_element_size_in_bits"), self._key()))
        return Layout(**{**parts, **changes})

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """Raises ValueError if arrays of the shape can't have the layout."""
        if sorted(self.major_to_minor) != list(range(len(aval_shape))):
            raise ValueError(
                f"A layout names the axes of an array, the slowest first: {self.major_to_minor} are not those of an "
                f"array of shape {tuple(aval_shape)}."
            )

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

    __slots__ = ("layout", "sharding")

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
