"""MLIR's text of types, constants and attributes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.errors import ArrayTooLargeError

_ELEMENT = {
    dtypes.bool_: "i1", dtypes.bf16: "bf16", dtypes.float16: "f16", dtypes.float32: "f32", dtypes.float64: "f64",
    dtypes.complex64: "complex<f32>", dtypes.complex128: "complex<f64>", dtypes.float0: "i1",
    **{np.dtype(f"int{n}"): f"i{n}" for n in (8, 16, 32, 64)},
    **{np.dtype(f"uint{n}"): f"ui{n}" for n in (8, 16, 32, 64)},
    dtypes.int4: "i4", dtypes.uint4: "ui4", dtypes.int2: "i2", dtypes.uint2: "ui2",
    dtypes.float8_e4m3fn: "f8E4M3FN", dtypes.float8_e5m2: "f8E5M2", dtypes.float8_e4m3b11fnuz: "f8E4M3B11FNUZ",
    dtypes.float8_e4m3fnuz: "f8E4M3FNUZ", dtypes.float8_e5m2fnuz: "f8E5M2FNUZ",
    dtypes.float8_e3m4: "f8E3M4", dtypes.float8_e4m3: "f8E4M3", dtypes.float8_e8m0fnu: "f8E8M0FNU",
    dtypes.float4_e2m1fn: "f4E2M1FN",
}  # fmt: skip


class _Token:
    """The type of a token: operations with effects are put in order by taking the last one's and giving the next."""

    __slots__ = ()
    is_symbolic, size, dtype = False, 0, np.dtype("V0")  # no bytes


TOKEN: Any = _Token()
NUMBER_AS_TOKEN = ShapedArray((), dtypes.int32)
_MOST_BYTES = 2**63 - 1
_type_texts: dict[Any, str] = {TOKEN: "!stablehlo.token"}


def tensor_type(aval: ShapedArray) -> str:
    """`tensor<2x3xf32>`.

    Raises:
      ArrayTooLargeError: XLA, which ends the process, can't count its bytes.
      TypeError: programs have no such dtype.
    """
    try:
        return _type_texts[aval]
    except KeyError:
        if not aval.is_symbolic and aval.size * aval.dtype.itemsize > _MOST_BYTES:
            raise ArrayTooLargeError(
                f"An array of type {aval.str_short()} has {aval.size * aval.dtype.itemsize:.3g} bytes; no array can "
                f"have more than {_MOST_BYTES:.3g} (2**63 - 1). Is one of its sizes a mistake?"
            ) from None
        if aval.dtype not in _ELEMENT:
            raise TypeError(
                f"Argument of type {aval.str_short()} is not a valid JAX type: programs compute with booleans and "
                "numbers. Arrays of strings are put on devices, moved and read by np.asarray(x)."
            ) from None
        sizes = "".join(f"{'?' if is_symbolic_dim(n) else n}x" for n in aval.shape)
        text = f"tensor<{sizes}{_ELEMENT[aval.dtype]}>"
        return _type_texts.setdefault(aval, text)


def scalar_text(value: Any, dtype: np.dtype) -> str:
    """One number as MLIR writes it; floats that have no exact decimal form are written as bits."""
    if dtype == dtypes.bool_ or dtype == dtypes.float0:
        return "true" if value else "false"
    if dtype in dtypes.INTEGERS:
        return str(int(value))
    if dtype in dtypes.COMPLEX:
        part = dtypes.real_part_of(dtype)
        return f"({scalar_text(value.real, part)}, {scalar_text(value.imag, part)})"
    number = float(value)
    if math.isfinite(number):
        text = repr(number)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    bits = np.asarray(value, dtype).view(np.dtype(f"uint{8 * dtype.itemsize}"))
    return f"0x{int(bits):0{2 * dtype.itemsize}X}"


_LONG = 64  # elements, from which on a constant is written as its bytes
_PACKED = frozenset({dtypes.bool_, dtypes.float0, dtypes.int4, dtypes.uint4, dtypes.int2, dtypes.uint2})


def dense(value: Any, dtype: np.dtype) -> str:
    """The text of a constant array, `dense<[1, 2]>`; a scalar is a splat of whatever shape the type says.

    Long ones are written as bytes, `dense<"0x01000000...">`.
    """
    array = np.asarray(value)
    if array.ndim == 0:
        return f"dense<{scalar_text(array[()], dtype)}>"
    if array.size > _LONG and dtype not in _PACKED:
        return f'dense<"0x{np.ascontiguousarray(array, dtype).tobytes().hex().upper()}">'

    def rows(part: np.ndarray) -> str:
        if part.ndim == 0:
            return scalar_text(part[()], dtype)
        return f"[{', '.join(map(rows, part))}]"

    return f"dense<{rows(array)}>" if array.size else "dense<>"


def int_array(values: Iterable[int]) -> str:
    """`array<i64: 0, 1>`, the form of most shape-like attributes."""
    values = list(values)
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def int_list(values: Iterable[int]) -> str:
    """`[0, 1]`, the form of the fields of dimension-number attributes."""
    return f"[{', '.join(map(str, values))}]"


def int_matrix(rows: Sequence[Sequence[int]], columns: int = 2) -> str:
    """`dense<[[0, 1]]> : tensor<1x2xi64>`, the form of paddings and replica groups."""
    body = f"dense<[{', '.join(int_list(row) for row in rows)}]>" if rows else "dense<>"
    return f"{body} : tensor<{len(rows)}x{columns}xi64>"


def axis_text(name: Any) -> str:
    """The name of an axis of a mesh, in quotes; XLA ends the process where it meets characters that are escaped."""
    plain = [c if (c.isascii() and c.isalnum()) or c in "_:.-" else f"_{ord(c):x}_" for c in str(name)]
    return f'"{"".join(plain)}"'


def attribute_text(value: Any) -> str:
    """A Python value as an MLIR attribute: numbers, texts, dtypes, NumPy arrays, and sequences and dicts of them.

    Raises:
      TypeError: there is no attribute for it.
    """
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (int, float)):
        return f"{value} : i64" if isinstance(value, int) else f"{scalar_text(value, dtypes.float64)} : f64"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return _ELEMENT[np.dtype(value)]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype in _ELEMENT:
        aval = ShapedArray(value.shape, value.dtype)
        if isinstance(value, np.generic):
            return f"{scalar_text(value, value.dtype)} : {_ELEMENT[value.dtype]}"
        splat = value.size > 0 and (value == value.flat[0]).all()
        return f"{dense(value.flat[0] if splat else value, value.dtype)} : {tensor_type(aval)}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(attribute_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{quoted(str(name))} = {attribute_text(each)}' for name, each in value.items())}}}"
    raise TypeError(f"{value!r} of type {type(value).__qualname__} is no attribute of an operation.")


def symbol(name: str) -> str:
    """The name of a module or function in MLIR; characters that it does not allow become underscores."""
    clean = "".join(c if (c.isascii() and c.isalnum()) or c in "_." else "_" for c in name) or "f"
    return clean if clean[0].isalpha() or clean[0] == "_" else f"_{clean}"


_BARE = re.compile(r"[a-zA-Z_][\w$.]*", re.ASCII)


def attribute_name(name: str) -> str:
    """The name of an attribute, in quotes where MLIR needs them."""
    return name if _BARE.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """Any text as an MLIR string."""
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else _escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode())
