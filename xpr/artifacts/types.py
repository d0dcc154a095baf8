"""The types of arguments and results as tables of the schema of exported functions, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.artifacts import schema
from xpr.core.avals import ShapedArray
from xpr.dimensions.scope import SymbolicScope, symbolic_shape


def leaf_types(avals: Sequence[ShapedArray]) -> list[tuple[tuple[str, ...], int]]:
    """The shape and the number of the dtype of each leaf.

    Raises:
      NotImplementedError: a dtype has no number: that of keys of a generator of the user's.
    """
    for aval in avals:
        if aval.dtype not in schema.NUMBERS:
            raise NotImplementedError(f"Arrays of {aval.str_short()} can't be written: the format has no such dtype.")
    return [(tuple(map(str, aval.shape)), schema.NUMBERS[aval.dtype]) for aval in avals]


def aval_as_table(shape: Sequence[str], dtype: int) -> dict[str, Any]:
    """The table of a type."""
    return {"kind": 0, "shape": list(shape), "dtype": dtype, "memory_space": schema.DEVICE_MEMORY}


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
    return ShapedArray(shape, schema.DTYPES[number])
