"""What NumPy's functions do to their operands first: meet in a dtype, broadcast to a shape.

The common cases are decided by a dictionary look-up or two: operands of one dtype, and a Python scalar beside an
array, which takes the array's dtype.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, from_host
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.source import is_internal
from xpr.errors import NarrowingWarning
from xpr.primitives.composites import broadcast_shapes as broadcast_shapes
from xpr.primitives.elementwise import convert_element_type_p
from xpr.primitives.shapes import broadcast_to
from xpr.primitives.slicing import select

SCALARS = frozenset({bool, int, float, complex})


def _converter(aval: ShapedArray, kind: type) -> Callable[[Any], Any] | None:
    """How a Python scalar becomes an operand beside a value of type `aval`; None where that value changes instead."""
    dtype, weak = dtypes.promote_pair(aval.dtype, aval.weak_type, dtypes.of_python(kind), kind is not bool)
    if dtype != aval.dtype or weak != aval.weak_type:
        return None
    if not weak:
        return dtype.type
    return complex if dtype in dtypes.COMPLEX else float if dtype in dtypes.FLOATS else int


_converters: dict[tuple[ShapedArray, type, bool], Callable[[Any], Any] | None] = {}


def converter(aval: ShapedArray, kind: type) -> Callable[[Any], Any] | None:
    """`_converter`, remembered; a 64-bit array may outlive the block in which 64-bit types were on."""
    key = (aval, kind, settings.enable_x64)
    try:
        return _converters[key]
    except KeyError:
        return _converters.setdefault(key, _converter(aval, kind))


def promoted_pair(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands in one dtype and in shapes that elementwise primitives take."""
    a, b = getattr(x, "aval", None), getattr(y, "aval", None)
    if b is None and type(y) in SCALARS and a is not None:
        convert = converter(a, type(y))
        if convert is not None:
            return x, convert(y)
    elif a is None and type(x) in SCALARS and b is not None:
        convert = converter(b, type(x))
        if convert is not None:
            return convert(x), y
    x, y = promote_dtypes(x, y)
    return promote_ranks(x, y)


def promote_dtypes(*xs: Any) -> list[Any]:
    """The operands converted to the dtype they meet in."""
    xs = tuple(as_operand(x) for x in xs)
    avals = [aval_of(x) for x in xs]
    first = avals[0]
    if all(a.dtype == first.dtype and a.weak_type == first.weak_type for a in avals):
        return list(xs)
    dtype, weak = dtypes.promote_all([(a.dtype, a.weak_type) for a in avals])
    return [convert(x, dtype, weak) for x in xs]


def promote_inexact(*xs: Any) -> list[Any]:
    """The operands converted to the floating-point or complex dtype they meet in."""
    xs = tuple(as_operand(x) for x in xs)
    dtype, weak = dtypes.promote_all([(a.dtype, a.weak_type) for a in map(aval_of, xs)])
    return [convert(x, dtypes.to_inexact(dtype), weak) for x in xs]


def promote_ranks(*xs: Any) -> Any:
    """The operands in shapes that elementwise primitives take: of as many axes, of one size or 1, or scalars."""
    shapes = [aval_of(x).shape for x in xs]
    first = next((s for s in shapes if s), ())
    if all(s == first or not s for s in shapes):
        return xs
    shape = broadcast_shapes(*shapes)
    return tuple(broadcast_to(x, shape) if s and len(s) < len(shape) else x for x, s in zip(xs, shapes))


def promote_shapes(*xs: Any) -> Any:
    """The operands broadcast to one shape, scalars left as they are."""
    shapes = [aval_of(x).shape for x in xs]
    first = next((s for s in shapes if s), ())
    if all(s == first or not s for s in shapes):
        return xs
    shape = broadcast_shapes(*shapes)
    return tuple(broadcast_to(x, shape) if s else x for x, s in zip(xs, shapes))


def convert(x: Any, dtype: np.dtype, weak: bool = False) -> Any:
    """The operand in a canonical dtype; a Python scalar or host value is converted where it stands."""
    if type(x) in SCALARS:
        if weak:
            kind = complex if dtype in dtypes.COMPLEX else float if dtype in dtypes.FLOATS else int
            if type(x) is kind:
                return x
            if kind is not int:
                return kind(x)
        elif not (type(x) is complex and dtype not in dtypes.COMPLEX):
            return np.asarray(x).astype(dtype)[()] if type(x) is not int else _typed_int(x, dtype)
    aval = aval_of(x)
    if aval.dtype == dtype and aval.weak_type == weak:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak)


def _typed_int(x: int, dtype: np.dtype) -> Any:
    return dtype.type(x) if dtype in dtypes.INTEGERS else np.asarray(x).astype(dtype)[()]


def as_operand(x: Any) -> Any:
    """Anything array-like as an operand of a primitive; a host array is checked for narrowing.

    A 64-bit array that has outlived the block in which 64-bit types were on is narrowed.

    Raises:
      TypeError: `x` is a list or tuple, or no array at all.
    """
    if type(x) is Array or isinstance(x, Tracer):
        dtype = x.aval.dtype
        return convert(x, dtypes.canonical(dtype), x.aval.weak_type) if dtypes.is_narrowed(dtype) else x
    if type(x) in SCALARS:
        return x
    if isinstance(x, np.ndarray):
        return from_host(narrowed(x).copy())
    if isinstance(x, np.generic):
        return x
    if isinstance(x, (list, tuple)):
        raise TypeError(
            f"Expected an array, and got a {type(x).__name__}. Convert it with jnp.array(...): "
            "lists are not converted on the way, because each entry would become an operation of its own."
        )
    wrapped = getattr(x, "__jax_array__", None)
    if wrapped is not None:
        return wrapped()
    aval_of(x)
    return x


def asarray_like(x: Any) -> Any:
    """An operand as an array or tracer, keeping its type."""
    x = as_operand(x)
    if hasattr(x, "aval"):
        return x
    aval = aval_of(x)
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


def truth(x: Any) -> Any:
    """Each entry as a boolean."""
    x = as_operand(x)
    return x if aval_of(x).dtype == dtypes.bool_ else convert(x, dtypes.bool_)


def arithmetic_operand(x: Any) -> Any:
    """An operand of arithmetic: booleans are int32 there."""
    return convert(x, dtypes.int32) if aval_of(x).dtype == dtypes.bool_ else x


def arithmetic_operands(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands of arithmetic in one dtype and in shapes that elementwise primitives take."""
    x, y = promoted_pair(x, y)
    return arithmetic_operand(x), arithmetic_operand(y)


def select_scalar(condition: Any, on_true: Any, on_false: Any) -> Any:
    """`select` whose operands may be scalars beside arrays, or have axes of size 1 that stretch."""
    own = aval_of(condition).shape
    shape = broadcast_shapes(own, aval_of(on_true).shape, aval_of(on_false).shape)
    condition = broadcast_to(condition, shape) if own else condition
    return select(condition, broadcast_to(on_true, shape), broadcast_to(on_false, shape))


def narrowed(x: np.ndarray) -> np.ndarray:
    """A host array in its canonical dtype.

    Warns:
      NarrowingWarning: a 64-bit value changed on the way. Python shows it once for each line.
    """
    dtype = dtypes.canonical(x.dtype)
    if dtype == x.dtype:
        return x
    with np.errstate(all="ignore"):
        result = x.astype(dtype)
        same = result == x
    if not np.all(same | (x != x)):
        warn_narrowing(
            f"An array of dtype {x.dtype.name} was narrowed to {dtype.name}, and some of its values changed."
        )
    return result


def warn_narrowing(what: str) -> None:
    """Warns at the user's line that 64-bit values are being narrowed."""
    warnings.warn(
        f'{what} Switch 64-bit types on with xpr.config.update("enable_x64", True), or convert to 32 bits beforehand.',
        NarrowingWarning,
        stacklevel=depth_of_user(),
    )


def depth_of_user() -> int:
    """How many frames above the function that asks the user's own line is."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        frame, depth = frame.f_back, depth + 1
    return depth


_HELD = dtypes.ANY | {dtypes.float0}


def requested_dtype(dtype: Any) -> np.dtype:
    """A dtype that the user asked for by name, in canonical form.

    Raises:
      TypeError: arrays have no such dtype.
    Warns:
      NarrowingWarning: it is a 64-bit type and those are off.
    """
    canonical = dtypes.canonical(dtype)
    if canonical not in _HELD:
        raise TypeError(f"dtype {canonical} was asked for. Arrays hold booleans, integers, floats and complex numbers.")
    if canonical in dtypes.NARROWED and dtype not in (int, float, complex):
        wide = np.dtype(dtype)
        if wide != canonical:
            warn_narrowing(f"dtype {wide.name} was asked for and {canonical.name} is used.")
    return canonical
