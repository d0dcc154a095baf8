"""What an analysis counts, and the types that its rules are given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xpr.core.avals import ShapedArray


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineShape:
    """The shape and dtype of an operand, as rules get it.

    Attributes:
      shape: a size for each axis.
      dtype: the dtype, also one of random keys.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.roofline import RooflineShape
    >>> RooflineShape(shape=(2, 3), dtype=jnp.dtype("bfloat16")).bytes
    12
    """

    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def from_aval(cls, aval: Any) -> RooflineShape:
        """That of the type of an array.

        Raises:
          TypeError: it is another type, as that of a ref.
        """
        if type(aval) is not ShapedArray:
            raise TypeError(f"RooflineShape.from_aval takes the type of an array, a ShapedArray, and got {aval!r}.")
        return cls(shape=aval.shape, dtype=aval.dtype)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    @classmethod
    def total_bytes(cls, avals: Iterable[Any]) -> int:
        """The bytes of values of several types together."""
        return sum([cls.from_aval(aval).bytes for aval in avals])


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineResult:
    """The counts of a program or of an equation. Results are added, and multiplied by numbers.

    Attributes:
      flops: operations of what is not fused with others, products above all.
      unfused_flops: operations of all.
      ici_bytes: for each axis of a mesh, the bytes that its links carry; the busiest link counts.
      ici_latency: for each axis, how many steps from device to neighbour follow each other.
      hbm_bytes: what is read from memory and written to it if all is fused that can be.
      peak_hbm_bytes: the most bytes in use at a time. The sum of two results has the greater one.
      unfused_hbm_bytes: what is read and written if nothing is fused.

    >>> from xpr.experimental.roofline import RooflineResult
    >>> two = RooflineResult(flops=3, ici_bytes={"x": 8}) + RooflineResult(flops=4)
    >>> (2 * two).flops, two.ici_bytes
    (14, {'x': 8})
    """

    flops: int = 0
    unfused_flops: int = 0
    ici_bytes: dict[Any, int] = field(default_factory=dict)
    ici_latency: dict[Any, int] = field(default_factory=dict)
    hbm_bytes: int = 0
    peak_hbm_bytes: int = 0
    unfused_hbm_bytes: int = 0

    @classmethod
    def zeros(cls) -> RooflineResult:
        """The result of what counts nothing."""
        return cls()

    def __add__(self, other: RooflineResult) -> RooflineResult:
        return RooflineResult(
            flops=self.flops + other.flops,
            unfused_flops=self.unfused_flops + other.unfused_flops,
            ici_bytes=_added(self.ici_bytes, other.ici_bytes),
            ici_latency=_added(self.ici_latency, other.ici_latency),
            hbm_bytes=self.hbm_bytes + other.hbm_bytes,
            peak_hbm_bytes=max(self.peak_hbm_bytes, other.peak_hbm_bytes),
            unfused_hbm_bytes=self.unfused_hbm_bytes + other.unfused_hbm_bytes,
        )

    def __mul__(self, constant: float) -> RooflineResult:
        return RooflineResult(
            flops=int(self.flops * constant),
            unfused_flops=int(self.unfused_flops * constant),
            ici_bytes={axis: int(n * constant) for axis, n in self.ici_bytes.items()},
            ici_latency={axis: int(n * constant) for axis, n in self.ici_latency.items()},
            hbm_bytes=int(self.hbm_bytes * constant),
            peak_hbm_bytes=int(self.peak_hbm_bytes * constant),
            unfused_hbm_bytes=int(self.unfused_hbm_bytes * constant),
        )

    __rmul__ = __mul__


def _added(left: Mapping[Any, int], right: Mapping[Any, int]) -> dict[Any, int]:
    return {axis: left.get(axis, 0) + right.get(axis, 0) for axis in {**left, **right}}
