"""The order of an array's elements in memory.

Arrays are row-major: the last axis runs fastest. Others are made where a `Format` asks for them, by `device_put` and by
`jit`. Such an array holds a buffer with that layout, and gets a row-major copy when something else takes it than a
program that was compiled for the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.backend.sharding import Sharding


class AutoLayout:
    """The layout that the compiler chooses for an argument or a result; `Layout.AUTO` is the only one."""

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> str:
        return "AUTO"


AUTO = AutoLayout()


class Layout:
    """The order of axes in memory, the slowest first.

    Args:
      major_to_minor: the axes in that order.
      tiling: the blocks of contiguous elements, which only TPUs have.
      sub_byte_element_size_in_bits: of dtypes with less than 8 bits, where these are packed.
    """

    AUTO = AUTO

    def __init__(self, major_to_minor: tuple[int, ...], tiling: Any = None, sub_byte_element_size_in_bits: int = 0):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    @staticmethod
    def from_pjrt_layout(pjrt_layout: Any) -> Layout:
        """The layout of an array or a program, as jaxlib says it."""
        layout = pjrt_layout._xla_layout()
        return Layout(layout.minor_to_major()[::-1], layout.tiling(), layout.element_size_in_bits())

    def update(self, **changes: Any) -> Layout:
        """The layout with some of its parts replaced."""
        names = ("major_to_minor", "tiling", "sub_byte_element_size_in_bits")
        return Layout(**{**{name: getattr(self, name) for name in names}, **changes})

    def check_compatible_aval(self, aval_shape: Sequence[Any]) -> None:
        """Raises ValueError if arrays of the shape can't have the layout."""
        if sorted(self.major_to_minor) != list(range(len(aval_shape))):
            raise ValueError(
                f"A layout names each axis of an array once, the slowest first: {self.major_to_minor} are not the axes "
                f"of an array of shape {tuple(aval_shape)}. Length of major_to_minor and the rank of the value should "
                "match."
            )

    @property
    def is_row_major(self) -> bool:
        """Whether the last axis runs fastest, and the first slowest, as in every array that was not asked otherwise."""
        return self.major_to_minor == tuple(range(len(self.major_to_minor))) and not self.tiling

    def _key(self) -> Any:
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling}, "
            f"sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})"
        )


class Format:
    """A layout and a sharding.

    Args:
      layout: a `Layout`; `Layout.AUTO` for that which the compiler chooses; or None for the usual one.
      sharding: a sharding, which a `Layout` needs; or None for what it would be without the format.

    Raises:
      TypeError: one of them is something else.
      ValueError: there is a `Layout`, and no sharding.
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Layout | AutoLayout | None = None, sharding: Any = None):
        if layout is not None and not isinstance(layout, (Layout, AutoLayout)):
            raise TypeError(
                "Format: Invalid value received for the layout argument, which is a Layout, Layout.AUTO or None: "
                f"{layout!r}. The sharding is the second argument."
            )
        if sharding is not None and not isinstance(sharding, Sharding):
            raise TypeError(
                "Format: Invalid value received for the sharding argument, which is a sharding or None: "
                f"{sharding!r}. The layout is the first argument."
            )
        if isinstance(layout, Layout) and sharding is None:
            raise ValueError(
                f"Format: Sharding has to be concrete when layout is of type {type(layout)}, and there is none beside "
                f"{layout!r}. Give one, such as SingleDeviceSharding(device)."
            )
        self.layout, self.sharding = layout, sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def row_major(ndim: int) -> Layout:
    """The layout of every array that was not asked to have another."""
    return Layout(tuple(range(ndim)), ())


class RequestedLayouts(NamedTuple):
    """The layouts that the arguments of a program and its results are to have; None for row-major ones."""

    inputs: tuple[Layout | AutoLayout | None, ...]
    outputs: tuple[Layout | AutoLayout | None, ...]


class ProgramLayouts(NamedTuple):
    """The layouts of the arguments of a compiled program and of its results; None for row-major ones."""

    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout | None, ...]
