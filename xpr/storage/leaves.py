"""Leaves of a checkpoint: arrays, whose pieces are in files, and Python numbers and texts, which the manifest holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.core.avals import ShapedArray, is_key
from xpr.core.interpreter import Tracer
from xpr.key_types import KeyType, implementations
from xpr.primitives.random_keys import impl_of
from xpr.storage.structure import number_in_json

DTYPES = {dtype.name: dtype for dtype in dtypes.ANY}
_PYTHON = (bool, int, float, complex, str)


def record_of(leaf: Any) -> dict[str, Any] | None:
    """What the manifest says of a leaf, but for the pieces of arrays; None where it can't be saved."""
    kind = type(leaf)
    if kind in _PYTHON:
        return {kind.__name__: _value_in_json(leaf)}
    if kind not in (Array, np.ndarray) and not isinstance(leaf, np.generic):
        return None
    if kind is Array and is_key(leaf.aval):
        words, name = leaf.aval.physical, impl_of(leaf.aval).name
        named = implementations.get(name) == impl_of(leaf.aval)
        record = {"array": "Array", "dtype": words.dtype.name, "shape": list(words.shape), "keys": name, "pieces": []}
        return record if named else None
    dtype = _native(leaf)
    if dtype not in dtypes.ANY:
        return None
    name = kind.__name__ if kind in (Array, np.ndarray) else "scalar"
    weak = {"weak": True} if kind is Array and leaf.aval.weak_type else {}
    return {"array": name, "dtype": dtype.name, "shape": list(leaf.shape), **weak, "pieces": []}


def why_not(leaf: Any) -> str:
    """What a leaf is that can't be saved."""
    if isinstance(leaf, Tracer):
        return f"a traced {leaf.aval.str_short()}"
    if isinstance(leaf, Array):
        return f"{leaf.aval.str_short()}, whose generator has no name of its own"
    more = f" of dtype {leaf.dtype}" if isinstance(leaf, (np.ndarray, np.generic)) else ""
    return type(leaf).__name__ + more


def _value_in_json(value: Any) -> Any:
    if isinstance(value, complex):
        return [number_in_json(value.real), number_in_json(value.imag)]
    return number_in_json(value) if isinstance(value, float) else value


def is_array(record: dict[str, Any]) -> bool:
    """Whether a record is that of an array, of one kind or another."""
    return "array" in record


def value_of(record: dict[str, Any]) -> Any:
    """The number or the text of a record."""
    ((kind, value),) = record.items()
    if kind == "complex":
        return complex(*map(float, value))
    return float(value) if kind == "float" else value


# -- Types, for messages and for comparing


def text_of(record: dict[str, Any]) -> str:
    """The type of a leaf, `f32[2,3]` or `int`, from its record."""
    if not is_array(record):
        return next(iter(record))
    return _aval(record).str_short()


def _aval(record: dict[str, Any]) -> ShapedArray:
    """The type of an array, from its record."""
    words = ShapedArray(tuple(record["shape"]), DTYPES[record["dtype"]])
    if "keys" not in record:
        return words
    impl = implementations[record["keys"]]
    return ShapedArray(words.shape[: words.ndim - len(impl.key_shape)], KeyType(impl))


def text_of_like(leaf: Any) -> str:
    """The type of a leaf of `like`, in the same words."""
    if has_type(leaf):
        return ShapedArray(tuple(leaf.shape), _native(leaf)).str_short()
    return type(leaf).__name__


def has_type(leaf: Any) -> bool:
    """Whether a leaf of `like` has a shape and a dtype: an array, or what stands for one."""
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


_NUMBERS = {bool: dtypes.BOOL, int: dtypes.INTEGERS, float: dtypes.FLOATS, complex: dtypes.COMPLEX}
_NUMBER_NAMES = {kind.__name__: kind for kind in _NUMBERS}


def fits(record: dict[str, Any], leaf: Any) -> bool:
    """Whether a saved leaf can be restored as this leaf of `like`.

    Arrays need the same shape and dtype. A Python number and an array of shape () stand for each other where the kind
    is the same: a count that began as 0 is an array after the first jitted step.
    """
    if not is_array(record):
        kind = next(iter(record))
        if has_type(leaf):
            return kind in _NUMBER_NAMES and _is_scalar(tuple(leaf.shape), _native(leaf), _NUMBER_NAMES[kind])
        return kind == type(leaf).__name__
    dtype, shape = _aval(record).dtype, _aval(record).shape
    if has_type(leaf):
        return tuple(leaf.shape) == shape and _native(leaf) == dtype
    return type(leaf) in _NUMBERS and _is_scalar(shape, dtype, type(leaf))


def _is_scalar(shape: tuple[int, ...], dtype: np.dtype, kind: type) -> bool:
    return shape == () and dtype in _NUMBERS[kind]


def _native(leaf: Any) -> Any:
    """The dtype of an array in the byte order of the machine; that of random keys as it is."""
    return leaf.dtype if type(leaf.dtype) is KeyType else np.dtype(leaf.dtype).newbyteorder("=")
