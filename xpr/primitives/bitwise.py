"""Bitwise operations on integers; on booleans, which are one bit, they are the logical ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.core.primitive import Primitive
from xpr.dtypes import BOOL, INTEGERS, NARROW_INTEGERS
from xpr.primitives.elementwise_rules import ZERO, elementwise, function_of

__all__ = [
    "and_p", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clz", "clz_p", "not_p", "or_p",
    "population_count", "population_count_p", "shift_left", "shift_left_p", "shift_right_arithmetic",
    "shift_right_arithmetic_p", "shift_right_logical", "shift_right_logical_p", "xor_p",
]  # fmt: skip

_BITS = INTEGERS | BOOL
_WORDS = frozenset(dtype for dtype in INTEGERS if dtypes.iinfo(dtype).bits >= 8)
_MOVED = frozenset(dtype for dtype in INTEGERS if dtypes.iinfo(dtype).bits >= 4)


def _bits(
    name: str,
    lowers_to: str | Callable[..., Any],
    reference: Any,
    arity: int = 2,
    over: frozenset[np.dtype] = _BITS,
    exact: bool = True,
    commutative: bool = False,
) -> Primitive:
    return elementwise(
        name,
        over=over,
        lowers_to=lowers_to,
        reference=reference,
        partials=[ZERO] * arity,
        exact=exact,
        commutative=commutative,
    )


def _shift_reference(shift: Callable[[Any, Any], Any], overflow: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """The rule of a shift as XLA does it: by the width or more, all bits are those that `overflow` gives."""

    def reference(x: Any, y: Any) -> Any:
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype in NARROW_INTEGERS:
            return _shifted_as_bytes(reference, x, y, zeros_in=overflow is np.zeros_like)
        width = 8 * x.dtype.itemsize
        if y.ndim == 0 and 0 <= y.item() < width:
            return shift(x, y.astype(x.dtype))
        within = (y >= 0) & (y < width)
        return np.where(within, shift(x, np.where(within, y, 0).astype(x.dtype)), overflow(x)).astype(x.dtype)

    return reference


def _shifted_as_bytes(shift: Callable[[Any, Any], Any], x: np.ndarray, y: np.ndarray, zeros_in: bool) -> np.ndarray:
    """Shifts of integers of 2 or 4 bits, as the low bits of bytes: with zeros above them, or with their sign."""
    bits = dtypes.iinfo(x.dtype).bits
    count = np.where(y.astype(np.int8) < 0, 8, y.astype(np.int8)).astype(np.int8)
    low = x.astype(np.int8) & np.int8(2**bits - 1)
    if not zeros_in:
        low = (low << np.int8(8 - bits)) >> np.int8(8 - bits)
    return shift(low, count).astype(x.dtype)


def _arithmetic_right(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Shifts right, filled with the highest bit, also for unsigned integers."""
    signed = np.dtype(f"int{8 * x.dtype.itemsize}")
    return (x.view(signed) >> y.astype(signed)).view(x.dtype)


def _sign_bits(x: np.ndarray) -> np.ndarray:
    return _arithmetic_right(x, np.asarray(8 * x.dtype.itemsize - 1))


def _logical_right(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")
    return (x.view(unsigned) >> y.astype(unsigned)).view(x.dtype)


and_p = _bits("and", "stablehlo.and", np.bitwise_and, commutative=True)
bitwise_and = function_of(
    and_p,
    """The bitwise and of two arrays of integers or booleans.

    Args:
      x: an array of integers or booleans.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.bitwise_and(6, 3)
    Array(2, dtype=int32, weak_type=True)
    """,
    2,
)
or_p = _bits("or", "stablehlo.or", np.bitwise_or, commutative=True)
bitwise_or = function_of(
    or_p,
    """The bitwise or of two arrays of integers or booleans.

    Args:
      x: an array of integers or booleans.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.bitwise_or(6, 3)
    Array(7, dtype=int32, weak_type=True)
    """,
    2,
)
xor_p = _bits("xor", "stablehlo.xor", np.bitwise_xor, commutative=True)
bitwise_xor = function_of(
    xor_p,
    """The bitwise exclusive or of two arrays of integers or booleans.

    Args:
      x: an array of integers or booleans.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.bitwise_xor(6, 3)
    Array(5, dtype=int32, weak_type=True)
    """,
    2,
)
not_p = _bits("not", "stablehlo.not", np.invert, arity=1)
bitwise_not = function_of(
    not_p,
    """The bits of each element inverted; logical not for booleans.

    >>> from xpr import lax
    >>> lax.bitwise_not(6)
    Array(-7, dtype=int32, weak_type=True)
    """,
)
shift_left_p = _bits("shift_left", "stablehlo.shift_left", _shift_reference(np.left_shift, np.zeros_like), over=_MOVED)
shift_left = function_of(
    shift_left_p,
    """The bits of `x` shifted left by `y` positions.

    Args:
      x: an array of integers.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.shift_left(6, 1)
    Array(12, dtype=int32, weak_type=True)
    """,
    2,
)
shift_right_logical_p = _bits(
    "shift_right_logical",
    "stablehlo.shift_right_logical",
    _shift_reference(_logical_right, np.zeros_like),
    over=_MOVED,
)
shift_right_logical = function_of(
    shift_right_logical_p,
    """The bits of `x` shifted right by `y` positions, filled with zeros.

    Args:
      x: an array of integers.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.shift_right_logical(6, 1)
    Array(3, dtype=int32, weak_type=True)
    """,
    2,
)
shift_right_arithmetic_p = _bits(
    "shift_right_arithmetic", "stablehlo.shift_right_arithmetic",
    _shift_reference(_arithmetic_right, _sign_bits), over=_MOVED,
)  # fmt: skip
shift_right_arithmetic = function_of(
    shift_right_arithmetic_p,
    """The bits of `x` shifted right by `y` positions, filled with its sign bit.

    Args:
      x: an array of integers.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.shift_right_arithmetic(-6, 1)
    Array(-3, dtype=int32, weak_type=True)
    """,
    2,
)


def _count_bits(x: Any) -> Any:
    x = np.asarray(x)
    return np.bitwise_count(x.view(np.dtype(f"uint{8 * x.dtype.itemsize}"))).astype(x.dtype)


population_count_p = _bits("population_count", "stablehlo.popcnt", _count_bits, arity=1, over=_WORDS)
population_count = function_of(
    population_count_p,
    """The number of bits set in each element.

    >>> from xpr import lax
    >>> lax.population_count(6)
    Array(2, dtype=int32, weak_type=True)
    """,
)


def _clz_reference(x: Any) -> Any:
    """Counts the bits above the highest set bit."""
    x = np.asarray(x)
    width = 8 * x.dtype.itemsize
    unsigned = x.view(np.dtype(f"uint{width}"))
    length = np.zeros(x.shape, np.int64)
    for bit in range(width):
        length = np.where((unsigned >> bit) & 1, bit + 1, length)
    return (width - length).astype(x.dtype)


def _clz_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """Counts in unsigned integers: XLA sign-extends a negative int32 constant to 64 bits, and would fold it to -32."""
    (x,) = operands
    unsigned = x.aval.update(dtype=np.dtype(f"uint{8 * x.aval.dtype.itemsize}"), weak_type=False)
    if x.aval.dtype == unsigned.dtype:
        return [b.op("stablehlo.count_leading_zeros", [x], avals[0])]
    bits = b.op("stablehlo.bitcast_convert", [x], unsigned)
    count = b.op("stablehlo.count_leading_zeros", [bits], unsigned)
    return [b.op("stablehlo.bitcast_convert", [count], avals[0])]


clz_p = _bits("clz", _clz_lower, _clz_reference, arity=1, over=_WORDS)
clz = function_of(
    clz_p,
    """The number of zero bits above the highest bit set in each element.

    >>> from xpr import lax
    >>> lax.clz(6)
    Array(29, dtype=int32, weak_type=True)
    """,
)
