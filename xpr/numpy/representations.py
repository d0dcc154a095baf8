"""How numbers are represented: bits packed into bytes, mantissas and exponents, what is not a finite number."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.numpy import predicates
from xpr.numpy.axes import one_axis
from xpr.numpy.choosing import where
from xpr.numpy.promotion import as_operand, asarray_like, convert, promote_inexact, truth
from xpr.primitives import elementwise as e
from xpr.primitives.placing import pad, select
from xpr.primitives.shapes import broadcast_in_dim, full, move_axis, reduce_sum, reshape

# -- Bits in bytes


def _bit_places(bitorder: str) -> np.ndarray:
    """By how much the bits of a byte are shifted, in order.

    Raises:
      ValueError: there is no such order.
    """
    if bitorder not in ("big", "little"):
        raise ValueError(f'bitorder must be "big" or "little", and is {bitorder!r}.')
    places = np.arange(8, dtype=np.uint8)
    return places[::-1].copy() if bitorder == "big" else places


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight entries along an axis as the bits of a byte, set where they are not zero; zeros fill the last one up.

    Args:
      a: integers or booleans.
      axis: by default that of the flattened array.
      bitorder: whether the first entry is the highest bit ("big") or the lowest ("little").
    Raises:
      TypeError: entries are neither integers nor booleans.
      ValueError: there is no such axis or order.

    >>> import xpr.numpy as jnp
    >>> jnp.packbits(jnp.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    a, axis = _lined_up("packbits", a, axis, dtypes.INTEGERS | dtypes.BOOL)
    bits = move_axis(convert(truth(a), dtypes.uint8), axis, aval_of(a).ndim - 1)
    *shape, n = aval_of(bits).shape
    count = -(-n // 8)
    bits = pad(bits, np.uint8(0), [(0, 0, 0)] * len(shape) + [(0, 8 * count - n, 0)])
    octets = reshape(bits, (*shape, count, 8))
    places = broadcast_in_dim(_bit_places(bitorder), aval_of(octets).shape, (len(shape) + 1,))
    packed = reduce_sum(e.shift_left(octets, places), (len(shape) + 1,))
    return move_axis(packed, len(shape), axis)


def unpackbits(a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Any:
    """The bits of bytes as entries 0 or 1 along an axis, eight for each byte.

    Args:
      a: of uint8.
      axis: by default that of the flattened array.
      count: how many bits to give: zeros are added, or the last bits left out; a negative one says how many of those.
      bitorder: whether the highest bit comes first ("big") or the lowest ("little").
    Raises:
      TypeError: entries are not of uint8.
      ValueError: there is no such axis or order.

    >>> import xpr.numpy as jnp
    >>> jnp.unpackbits(jnp.array([160], jnp.uint8), count=3)
    Array([1, 0, 1], dtype=uint8)
    """
    a, axis = _lined_up("unpackbits", a, axis, frozenset({dtypes.uint8}))
    octets = move_axis(a, axis, aval_of(a).ndim - 1)
    *shape, n = aval_of(octets).shape
    wide = (*shape, n, 8)
    spread = broadcast_in_dim(octets, wide, tuple(np.arange(len(wide) - 1).tolist()))
    places = broadcast_in_dim(_bit_places(bitorder), wide, (len(wide) - 1,))
    bits = reshape(e.bitwise_and(e.shift_right_logical(spread, places), np.uint8(1)), (*shape, 8 * n))
    if count is not None:
        length = count if count >= 0 else 8 * n + count
        bits = pad(bits, np.uint8(0), [(0, 0, 0)] * len(shape) + [(0, length - 8 * n, 0)])
    return move_axis(bits, len(shape), axis)


def _lined_up(name: str, a: Any, axis: int | None, over: frozenset[np.dtype]) -> tuple[Any, int]:
    a = as_operand(a)
    if aval_of(a).dtype not in over:
        allowed = ", ".join(sorted(map(dtypes.short_name, over)))
        raise TypeError(f"{name}: takes {allowed}, and got {aval_of(a).str_short()}.")
    if axis is None:
        return reshape(a, (aval_of(a).size,)), 0
    return a, one_axis(axis, aval_of(a).ndim)


# -- Mantissas and exponents

_MANTISSA_BITS = {dtypes.float16: 10, dtypes.bfloat16: 7, dtypes.float32: 23, dtypes.float64: 52}


def frexp(x: Any, /) -> tuple[Any, Any]:
    """A mantissa from 0.5 up to 1, with the sign of x, and an exponent: x = mantissa * 2^exponent.

    Raises:
      TypeError: entries are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.frexp(jnp.array([3.0]))
    (Array([0.75], dtype=float32), Array([2], dtype=int32))
    """
    x, mantissa_bits, exponent_bits = _as_float("frexp", x)
    dtype = aval_of(x).dtype
    scale = 2.0 ** (mantissa_bits + 1)
    size = e.abs(x)
    tiny = e.lt(size, dtype.type(dtypes.finfo(dtype).smallest_normal))
    normal = select(tiny, e.mul(x, dtype.type(scale)), x)
    bits = e.bitcast_convert_type(normal, f"uint{8 * dtype.itemsize}")
    kind = aval_of(bits).dtype.type
    mask = ((1 << exponent_bits) - 1) << mantissa_bits
    middle = (1 << (exponent_bits - 1)) - 2  # the exponent field of 0.5
    field = e.shift_right_logical(e.bitwise_and(bits, kind(mask)), kind(mantissa_bits))
    none = full(aval_of(x).shape, 0, dtypes.int32)
    shift = select(tiny, full(aval_of(x).shape, mantissa_bits + 1, dtypes.int32), none)
    exponent = e.sub(e.sub(convert(field, dtypes.int32), np.int32(middle)), shift)
    whole = e.bitwise_or(e.bitwise_and(bits, kind(~mask & int(np.iinfo(kind).max))), kind(middle << mantissa_bits))
    mantissa = e.bitcast_convert_type(whole, dtype)
    special = e.bitwise_or(e.eq(x, dtype.type(0)), e.bitwise_not(e.is_finite(x)))
    return select(special, x, mantissa), select(special, none, exponent)


def spacing(x: Any, /) -> Any:
    """The distance from each element to the next float away from zero, with its sign; nan where it is not finite.

    As in NumPy the next float is the next greater one for float16, and the distance positive. It is put together of
    bits, so that subnormal distances are not flushed to zero.

    Raises:
      TypeError: elements are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.spacing(jnp.float32(1))
    Array(1.1920929e-07, dtype=float32)
    """
    x, mantissa_bits, exponent_bits = _as_float("spacing", x)
    dtype, shape = aval_of(x).dtype, aval_of(x).shape
    bits = e.bitcast_convert_type(x, f"uint{8 * dtype.itemsize}")
    kind = aval_of(bits).dtype.type
    sign = kind(1 << (mantissa_bits + exponent_bits))
    size = e.bitwise_and(bits, kind(int(sign) - 1))
    if dtype == dtypes.float16:
        inwards = e.bitwise_and(e.ne(e.bitwise_and(bits, sign), kind(0)), e.ne(size, kind(0)))
        size = e.sub(size, convert(inwards, aval_of(bits).dtype))
    exponent = e.max(e.shift_right_logical(size, kind(mantissa_bits)), kind(1))
    normal = e.gt(exponent, kind(mantissa_bits))
    shifted = e.shift_left(e.sub(exponent, kind(mantissa_bits)), kind(mantissa_bits))
    subnormal = e.shift_left(full(shape, 1, kind), e.sub(exponent, kind(1)))
    infinite = ((1 << exponent_bits) - 1) << mantissa_bits
    last = e.eq(size, kind(infinite - 1))
    distance = select(last, full(shape, infinite, kind), select(normal, shifted, subnormal))
    if dtype != dtypes.float16:
        distance = e.bitwise_or(distance, e.bitwise_and(bits, sign))
    return select(e.is_finite(x), e.bitcast_convert_type(distance, dtype), full(shape, np.nan, dtype))


def _as_float(name: str, x: Any) -> tuple[Any, int, int]:
    """The operand as a strong float, and how many bits its mantissa and its exponent have."""
    (x,) = promote_inexact(x)
    dtype = aval_of(x).dtype
    if dtype not in _MANTISSA_BITS:
        raise TypeError(f"{name}: takes real floats of 16 bits or more, and got {aval_of(x).str_short()}.")
    bits = _MANTISSA_BITS[dtype]
    return asarray_like(convert(x, dtype)), bits, 8 * dtype.itemsize - 1 - bits


# -- What is not finite


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """The entries with numbers in place of nan and the infinities.

    Args:
      copy: not used: arrays are immutable.
      nan: for nan.
      posinf, neginf: for the infinities, by default the greatest and the least finite number.

    >>> import xpr.numpy as jnp
    >>> jnp.nan_to_num(jnp.array([jnp.nan, jnp.inf, 1.0]), posinf=9.0)
    Array([0., 9., 1.], dtype=float32)
    """
    x = as_operand(x)
    dtype = aval_of(x).dtype
    if dtype not in dtypes.INEXACT:
        return asarray_like(x)
    if dtype in dtypes.COMPLEX:
        return e.complex_(*(nan_to_num(f(x), copy, nan, posinf, neginf) for f in (e.real, e.imag)))
    limits = dtypes.finfo(dtype)
    for is_it, number in (
        (predicates.isnan(x), nan),
        (predicates.isposinf(x), limits.max if posinf is None else posinf),
        (predicates.isneginf(x), limits.min if neginf is None else neginf),
    ):
        x = where(is_it, convert(number, dtype), x)
    return x
