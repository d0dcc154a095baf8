"""The types of arguments and results as tables of the schema of exported functions, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from xpr.artifacts import schema
from xpr.core.avals import ShapedArray
from xpr.core.memory import MemorySpace
from xpr.dimensions.scope import SymbolicScope, symbolic_shape

LeafType: TypeAlias = tuple[tuple[str, ...], int, int]


def leaf_types(avals: Sequence[ShapedArray]) -> list[LeafType]:
    """The shape of each leaf, and the numbers of its dtype and of the memory that it is in.

    Raises:
      NotImplementedError: a dtype has no number: that of keys of a generator of the user's.
    """
    for aval in avals:
        if aval.dtype not in schema.NUMBERS:
            raise NotImplementedError(f"Arrays of {aval.str_short()} can't be written: the format has no such dtype.")
    return [
        (tuple(map(str, aval.shape)), schema.NUMBERS[aval.dtype], schema.MEMORY_SPACES[aval.memory_space])
        for aval in avals
    ]


def aval_as_table(leaf: LeafType) -> dict[str, Any]:
    """The table of a type."""
    shape, dtype, memory_space = leaf
    return {"kind": 0, "shape": list(shape), "dtype": dtype, "memory_space": memory_space}


def leaf_of_table(table: dict[str, Any], scope: SymbolicScope | None = None) -> ShapedArray:
    """The type of a table.

    Args:
      table: of the type.
      scope: of the symbolic dimensions; None where there are none.

    Raises:
      NotImplementedError: its dtype is one that xpr does not have.
    """
    number = table.get("dtype", 0)
    if number not in schema.DTYPES:
        raise NotImplementedError(f"The program has arrays of a dtype that xpr does not have: number {number}.")
    texts = table.get("shape", [])
    shape = tuple(map(int, texts)) if scope is None else symbolic_shape(",".join(texts), scope=scope)
    is_on_host = table.get("memory_space") == schema.MEMORY_SPACES[MemorySpace.Host]
    return ShapedArray(shape, schema.DTYPES[number]).in_memory(MemorySpace.Host if is_on_host else MemorySpace.Device)
