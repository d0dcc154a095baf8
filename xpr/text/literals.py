"""Literals as text. A literal is written without its dtype where the equation says it, as in `mul a 2.0`.

It then has the dtype of the first operand of its kind (boolean, integer, real, complex) that is a variable, or of the
first result of its kind; where there is none, the narrow dtype of Python scalars: bool, i32, f32, c64. Any other dtype
is written behind it: `2.0:f16`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Literal, Unit, Var
from xpr.dtypes import float0, short_name

DEFAULTS = {"b": dtypes.bool_, "i": dtypes.int32, "f": dtypes.float32, "c": dtypes.complex64}
KINDS: dict[np.dtype, str] = {
    **dict.fromkeys(dtypes.BOOL, "b"),
    **dict.fromkeys(dtypes.INTEGERS, "i"),
    **dict.fromkeys(dtypes.FLOATS, "f"),
    **dict.fromkeys(dtypes.COMPLEX, "c"),
    float0: "0",
}
DTYPES = {short_name(dtype): dtype for dtype in KINDS}  # by the names that types in jaxprs have


def expected_dtype(kind: str, operands: Sequence[Any], results: Sequence[Any]) -> np.dtype | None:
    """The dtype of a literal that is written without one, in an equation with these operands and results."""
    for atom in operands:
        if isinstance(atom, Var) and KINDS.get(atom.aval.dtype) == kind:
            return atom.aval.dtype
    for var in results:
        if KINDS.get(var.aval.dtype) == kind:
            return var.aval.dtype
    return DEFAULTS.get(kind)


def literal_text(literal: Literal, operands: Sequence[Any] = (), results: Sequence[Any] = ()) -> str:
    """A literal as it is written among these operands, in an equation with these results."""
    if isinstance(literal.val, Unit):
        return "*"
    dtype = literal.aval.dtype
    text = scalar_text(literal.val, dtype)
    kind = KINDS.get(dtype, "0")
    return text if expected_dtype(kind, operands, results) == dtype else f"{text}:{short_name(dtype)}"


def scalar_text(value: Any, dtype: np.dtype) -> str:
    """The digits of a number, as many as distinguish it from others of its dtype."""
    kind = KINDS.get(dtype)
    if kind == "0":
        return "0"
    scalar = np.asarray(value)
    if kind == "i":
        return str(int(scalar))
    if scalar.dtype.isbuiltin != 1:
        scalar = scalar.astype(np.float32)
    return str(scalar)


def kind_of_text(text: str) -> str:
    """The kind of number of a text without a dtype."""
    if text in ("True", "False"):
        return "b"
    if text[-1] in "j)":
        return "c"
    return "i" if text.lstrip("+-").isdigit() else "f"


def number(text: str) -> Any:
    """The Python number of a text."""
    kind = kind_of_text(text)
    if kind == "b":
        return text == "True"
    return int(text) if kind == "i" else complex(text) if kind == "c" else float(text)


@lru_cache(8192)
def literal(text: str, dtype: np.dtype) -> Literal:
    """The literal of that text and dtype.

    Raises:
      OverflowError: an integer does not fit in the dtype.
    """
    if dtype == float0:
        return Literal(np.zeros((), float0), ShapedArray((), float0))
    value = number(text)
    if dtype in dtypes.INTEGERS:
        np.asarray(value, dtypes.int8 if dtype.itemsize == 1 and dtype.kind == "V" else dtype)
    return Literal(np.asarray(value).astype(dtype)[()], ShapedArray((), dtype))
