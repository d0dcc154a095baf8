"""The text of arrays: `Array([1., 2.], dtype=float32)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.backend.array import Array
from xpr.core.avals import is_key
from xpr.errors import NotAddressableError


def array_repr(x: Array) -> str:
    """NumPy's text of the values, with the dtype, and the weak type where there is one."""
    if x.is_deleted():
        return f"Array(shape={x.aval.shape}, dtype={x.aval.dtype.name}, deleted)"
    suffix = f", dtype={x.aval.dtype.name}" + (", weak_type=True" if x.aval.weak_type else "") + ")"
    if _has_addends(x):
        return f"Array(shape={x.aval.shape}{suffix[:-1]}, sharding={x.sharding})"
    try:
        value = np.asarray(x.host)
    except NotAddressableError:
        return f"Array(shape={x.aval.shape}{suffix[:-1]}, sharding={x.sharding})"
    if is_key(x.aval):
        return f"Array({x.aval.shape}, dtype={x.aval.dtype}) overlaying:\n{value}"
    if value.size == 0:
        return f"Array([], shape={value.shape}{suffix}"
    text = np.array2string(value, separator=", ", prefix="Array(")
    last_line = text.rsplit("\n", 1)[-1]
    start = len("Array(") if "\n" not in text else 0
    if start + len(last_line) + len(suffix) > np.get_printoptions()["linewidth"]:
        return f"Array({text},\n{' ' * len('Array(')}{suffix[2:]}"
    return f"Array({text}{suffix}"


def _has_addends(x: Array) -> bool:
    """Whether the devices hold addends of the values, which are not yet summed."""
    return x.aval.explicit is not None and bool(x.aval.explicit.unreduced)


def array_str(x: Array) -> str:
    try:
        return array_repr(x) if is_key(x.aval) or _has_addends(x) else str(np.asarray(x.host))
    except NotAddressableError:
        return array_repr(x)


def array_format(x: Array, spec: str) -> str:
    """`format(x, spec)`: a scalar is formatted as a number."""
    value: Any = np.asarray(array_repr(x)) if is_key(x.aval) else np.asarray(x.host)
    return format(value[()], spec) if value.ndim == 0 else format(array_str(x), spec)
