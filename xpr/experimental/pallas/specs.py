"""Specs of a kernel's arguments and results: block shapes, index maps, memory spaces, hints."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol, runtime_checkable

from xpr import dtypes
from xpr.core.avals import ShapedArray, describe
from xpr.core.refs import AbstractRef

__all__ = [
    "ANY", "HOST", "BlockDim", "BlockSpec", "Blocked", "BoundedSlice", "Buffered", "CompilerParams", "CostEstimate",
    "Element", "MemoryRef", "MemorySpace", "RevisitMode", "Squeezed", "no_block_spec", "squeezed",
]  # fmt: skip


# -- Blocks


@dataclass(frozen=True)
class Blocked:
    """An axis that is split into blocks: the index map gives the number of the block. An integer stands for it.

    Args:
      block_size: the size of the blocks.

    >>> from xpr.experimental import pallas as pl
    >>> pl.Blocked(128)
    Blocked(block_size=128)
    """

    block_size: int


@dataclass(frozen=True)
class Element:
    """An axis of which a block may start at any element: the index map gives that element.

    Args:
      block_size: the size of the blocks.
      padding: how many elements the array is padded by, at its start, where the index map counts them, and at its end.

    >>> from xpr.experimental import pallas as pl
    >>> pl.Element(8, padding=(0, 2))
    Element(block_size=8, padding=(0, 2))
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Squeezed:
    """An axis of which a block has one element, and the kernel's ref none. None stands for it."""

    block_size: ClassVar[int] = 1


@dataclass(frozen=True)
class BoundedSlice:
    """An axis of which a block has some elements: the index map gives `ds(start, size)`, which may be traced.

    A kernel finds the elements at the start of its ref. Of what it writes the first `size` elements are kept.

    Args:
      block_size: the size of the ref, and the largest size of a block.

    >>> from xpr.experimental import pallas as pl
    >>> pl.BoundedSlice(8)
    BoundedSlice(block_size=8)
    """

    block_size: int


squeezed = Squeezed()
BlockDim = Blocked | Element | Squeezed | BoundedSlice


@dataclass
class BlockSpec:
    """Which block of an array each program of a kernel gets.

    Args:
      block_shape: for each axis the size of the blocks, None for a size of 1 that the kernel does not see, or a
        `BlockDim`. None for the whole array.
      index_map: a function of the program's indices along the axes of the grid (and of refs of scalars, where the grid
        spec has them), which gives a number for each axis, that of the block, or as the `BlockDim` says. None for the
        first block.
      memory_space: a hint, which changes nothing.
      pipeline_mode: a hint, which changes nothing.

    >>> from xpr.experimental import pallas as pl
    >>> spec = pl.BlockSpec((128, None), lambda i, j: (i, j))
    >>> spec.index_map(1, 2)
    (1, 2)
    """

    block_shape: Sequence[BlockDim | int | None] | None = None
    index_map: Callable[..., Any] | None = None
    memory_space: Any = dataclasses.field(kw_only=True, default=None)
    pipeline_mode: Any = None

    def replace(self, **changes: Any) -> BlockSpec:
        """A spec with other fields.

        >>> from xpr.experimental import pallas as pl
        >>> pl.BlockSpec((4,)).replace(block_shape=(8,)).block_shape
        (8,)
        """
        return dataclasses.replace(self, **changes)


class _NoBlockSpec:
    """The spec of a whole array."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec = _NoBlockSpec()


# -- Memory


class MemorySpaceBase(Enum):
    """Kinds of memory. A call of a member makes the type of a ref of arrays there."""

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        return MemoryRef(ShapedArray(tuple(shape), dtypes.canonical(dtype)), self)

    def __str__(self) -> str:
        return self.value


class MemorySpace(MemorySpaceBase):
    """Where a kernel's arrays are: a hint, as XLA decides. A call makes the type of a ref there.

    >>> from xpr.experimental import pallas as pl
    >>> pl.MemorySpace.ANY((8, 128), "float32").shape
    (8, 128)
    """

    ANY = "any"
    DEFAULT = "default"
    ERROR = "error"
    INDEX = "index"
    KEY = "key"
    HOST = "host"

    def from_type(self, type: Any) -> MemoryRef:
        """The type of a ref of arrays of a type in this memory."""
        return MemoryRef(type, self)


ANY, HOST = MemorySpace.ANY, MemorySpace.HOST


@dataclass(frozen=True)
class MemoryRef:
    """The type of a ref that a kernel uses besides its arguments: of `scratch_shapes`, and of `run_scoped`.

    Args:
      inner_aval: the type of its arrays, anything with a shape and a dtype.
      memory_space: a hint, which changes nothing.

    >>> from xpr.experimental import pallas as pl
    >>> pl.ANY((8,), "int32").dtype
    dtype('int32')
    """

    inner_aval: Any
    memory_space: Any

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)

    def get_array_aval(self) -> ShapedArray:
        """The type of the arrays."""
        return ShapedArray(tuple(self.shape), dtypes.canonical(self.dtype))

    def get_ref_aval(self) -> AbstractRef:
        """The type of the ref."""
        return AbstractRef(self.get_array_aval())


# -- Hints


class RevisitMode(Enum):
    """When a block of a result may be written again: a hint, as it always may be."""

    IMMEDIATE = "immediate"
    ANY = "any"


@dataclass(frozen=True)
class Buffered:
    """How many blocks are in memory at a time: a hint, which changes nothing."""

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode | None = None


@runtime_checkable
class CompilerParams(Protocol):
    """What compilers of kernels take, dataclasses: hints, which change nothing."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


@dataclass(frozen=True)
class CostEstimate:
    """What a kernel costs: a hint, which changes nothing. `estimate_cost` makes one.

    Args:
      flops: the number of operations.
      transcendentals: the number of functions as exp and sin.
      bytes_accessed: the number of bytes that are read and written.
      remote_bytes_transferred: the number of bytes that are sent to other devices.

    Raises:
      ValueError: one of them is no integer.

    >>> from xpr.experimental import pallas as pl
    >>> pl.CostEstimate(flops=16, transcendentals=0, bytes_accessed=64)
    CostEstimate(flops=16, transcendentals=0, bytes_accessed=64, remote_bytes_transferred=0)
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int):
                raise ValueError(f"CostEstimate: {field.name} must be an integer, and is {describe(value)}.")

    def to_json(self) -> bytes:
        """The estimate as a JSON object, as text in ASCII.

        >>> from xpr.experimental import pallas as pl
        >>> pl.CostEstimate(1, 2, 3).to_json()
        b'{"flops": 1, "transcendentals": 2, "bytes_accessed": 3, "remote_bytes_transferred": 0}'
        """
        fields = [f'"{field.name}": {getattr(self, field.name)}' for field in dataclasses.fields(self)]
        return f"{{{', '.join(fields)}}}".encode("ascii")
