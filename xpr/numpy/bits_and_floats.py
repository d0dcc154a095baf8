"""Functions of the representation of numbers: packed bits, mantissas and exponents, replacement of nan and inf."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import max_dim
from xpr.numpy import predicates
from xpr.numpy.promotion import as_operand, asarray_like, convert, promote_inexact, promote_ranks, truth
from xpr.numpy.where_select import where
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import broadcast_in_dim, full, move_axis, one_axis, reduce_sum, reshape, rev
from xpr.primitives.slicing import broadcasted_iota, pad, select

__all__ = ["frexp", "ldexp", "nan_to_num", "packbits", "spacing", "unpackbits"]

# -- Bits in bytes


def _bit_positions(bitorder: str) -> Any:
    """The position of each bit of a byte, in the order of `bitorder`.

    They are computed, since XLA:CPU does not vectorize a loop that reads a constant.

    Raises:
      ValueError: there is no such order.
    """
    if bitorder not in ("big", "little"):
        raise ValueError(f'bitorder must be "big" or "little", and is {bitorder!r}.')
    positions = broadcasted_iota(dtypes.uint8, (8,), 0)
    return rev(positions, (0,)) if bitorder == "big" else positions


@compiled_eagerly("axis")
def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Groups of eight elements along an axis packed into bytes, a bit being 1 where an element is not zero.

    The last group is padded with zeros.

    Args:
      a: array of integers or booleans.
      axis: the axis; None for the flattened array.
      bitorder: whether the first element is the highest bit ("big") or the lowest ("little").

    Returns:
      uint8, the axis having ceil(n / 8) elements.

    Raises:
      TypeError: elements are neither integers nor booleans.
      ValueError: there is no such axis or order.

    >>> import xpr.numpy as jnp
    >>> jnp.packbits(jnp.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    a, axis = _array_and_axis("packbits", a, axis, dtypes.INTEGERS | dtypes.BOOL)
    bits = move_axis(convert(truth(a), dtypes.uint8), axis, aval_of(a).ndim - 1)
    *shape, n = aval_of(bits).shape
    count = -(-n // 8)
    bits = pad(bits, np.uint8(0), [(0, 0, 0)] * len(shape) + [(0, 8 * count - n, 0)])
    octets = reshape(bits, (*shape, count, 8))
    positions = broadcast_in_dim(_bit_positions(bitorder), aval_of(octets).shape, (len(shape) + 1,))
    packed = reduce_sum(e.shift_left(octets, positions), (len(shape) + 1,))
    return move_axis(packed, len(shape), axis)


@compiled_eagerly("axis", "count")
def unpackbits(a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Any:
    """The bits of bytes as elements 0 or 1 along an axis, eight for each byte.

    Args:
      a: array of uint8.
      axis: the axis; None for the flattened array.
      count: how many bits to return, zeros being appended if there are fewer; a negative one drops so many; None for
        all.
      bitorder: whether the highest bit comes first ("big") or the lowest ("little").

    Returns:
      uint8, eight elements along the axis for each of `a`.

    Raises:
      TypeError: elements are not of uint8.
      ValueError: there is no such axis or order.

    >>> import xpr.numpy as jnp
    >>> jnp.unpackbits(jnp.array([160], jnp.uint8), count=3)
    Array([1, 0, 1], dtype=uint8)
    """
    a, axis = _array_and_axis("unpackbits", a, axis, frozenset({dtypes.uint8}))
    octets = move_axis(a, axis, aval_of(a).ndim - 1)
    *shape, n = aval_of(octets).shape
    shape_of_bits = (*shape, n, 8)
    octets = broadcast_in_dim(octets, shape_of_bits, tuple(range(len(shape) + 1)))
    masks = e.shift_left(full((8,), 1, dtypes.uint8), _bit_positions(bitorder))
    masks = broadcast_in_dim(masks, shape_of_bits, (len(shape) + 1,))
    are_set = e.ne(e.bitwise_and(octets, masks), np.uint8(0))
    bits = reshape(convert(are_set, dtypes.uint8), (*shape, 8 * n))
    if count is not None:
        length = count if count >= 0 else max_dim(8 * n + count, 0)
        bits = pad(bits, np.uint8(0), [(0, 0, 0)] * len(shape) + [(0, length - 8 * n, 0)])
    return move_axis(bits, len(shape), axis)


def _array_and_axis(name: str, a: Any, axis: int | None, over: frozenset[np.dtype]) -> tuple[Any, int]:
    """The array, flattened where `axis` is None, and the axis counted from the front.

    Raises:
      TypeError: its dtype is none of `over`.
      ValueError: there is no such axis.
    """
    a = as_operand(a)
    if aval_of(a).dtype not in over:
        allowed = ", ".join(sorted(map(dtypes.short_name, over)))
        raise TypeError(f"{name}: takes {allowed}, and got {aval_of(a).str_short()}.")
    if axis is None:
        return reshape(a, (aval_of(a).size,)), 0
    return a, one_axis(axis, aval_of(a).ndim)


# -- Mantissas and exponents


class _Parts(NamedTuple):
    """The layout of a float's bits: its sign, its exponent plus a bias, its fraction."""

    dtype: np.dtype
    integer: Any  # the unsigned integer of as many bits
    fraction_bits: int
    bias: int  # and the greatest exponent of a power of two
    least: int  # the exponent of the least normal number

    @property
    def sign_mask(self) -> int:
        return 1 << (8 * self.dtype.itemsize - 1)


def _parts_of(dtype: np.dtype, integer: Any, fraction_bits: int) -> _Parts:
    bias = (1 << (8 * dtype.itemsize - 2 - fraction_bits)) - 1
    return _Parts(dtype, integer, fraction_bits, bias, 1 - bias)


_PARTS = {
    dtypes.float16: _parts_of(dtypes.float16, np.uint16, 10), dtypes.bf16: _parts_of(dtypes.bf16, np.uint16, 7),
    dtypes.float32: _parts_of(dtypes.float32, np.uint32, 23), dtypes.float64: _parts_of(dtypes.float64, np.uint64, 52),
}  # fmt: skip


@compiled_eagerly()
def frexp(x: Any, /) -> tuple[Any, Any]:
    """The mantissa and the exponent of each element: x = mantissa * 2^exponent, with 0.5 <= |mantissa| < 1, or 0 for 0.

    Raises:
      TypeError: elements are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.frexp(jnp.array([3.0]))
    (Array([0.75], dtype=float32), Array([2], dtype=int32))
    """
    x = _as_float("frexp", x)
    mantissa, exponent, special = _mantissa_and_exponent(x)
    if type(x) is not Array:
        # Integers have no derivatives: that of x times 2^-exponent comes with a difference that is 0.
        mantissa = e.add(mantissa, _scaled(e.sub(x, stop_gradient(x)), e.neg(exponent)))
    return select(special, x, mantissa), exponent


def _mantissa_and_exponent(x: Any) -> tuple[Any, Any, Any]:
    """`frexp` by integer operations, which read subnormal numbers on machines that flush them to zero.

    The fraction of a subnormal number, as a float, has the same mantissa, and an exponent that is too large by a
    constant.
    """
    parts = _PARTS[aval_of(x).dtype]
    bits = e.bitcast_convert_type(x, parts.integer)
    size = e.bitwise_and(bits, parts.integer(parts.sign_mask - 1))
    subnormal = e.lt(size, parts.integer(1 << parts.fraction_bits))
    lifted = e.bitcast_convert_type(convert(size, parts.dtype), parts.integer)
    normal = select(subnormal, lifted, size)
    field = convert(e.shift_right_logical(normal, parts.integer(parts.fraction_bits)), dtypes.int32)
    lowest = full(aval_of(x).shape, parts.least - parts.fraction_bits, dtypes.int32)
    none = full(aval_of(x).shape, 0, dtypes.int32)
    exponent = e.add(e.sub(field, np.int32(parts.bias - 1)), select(subnormal, lowest, none))
    sign = e.bitwise_and(bits, parts.integer(parts.sign_mask))
    fraction = e.bitwise_and(normal, parts.integer((1 << parts.fraction_bits) - 1))
    half = parts.integer((parts.bias - 1) << parts.fraction_bits)
    mantissa = e.bitcast_convert_type(e.bitwise_or(sign, e.bitwise_or(fraction, half)), parts.dtype)
    special = e.bitwise_or(e.eq(size, parts.integer(0)), e.bitwise_not(e.is_finite(x)))
    return mantissa, select(special, none, exponent), special


@compiled_eagerly()
def ldexp(x: Any, y: Any, /) -> Any:
    """x * 2^y, elementwise, rounded once.

    The result is infinite or 0 only where it is too large or too small for its dtype.

    Args:
      x: array of real numbers.
      y: array of integers that broadcasts against `x`.

    Returns:
      Floats of the broadcast shape.

    Raises:
      ValueError: `x` is complex, or `y` is of floats.

    >>> import xpr.numpy as jnp
    >>> jnp.ldexp(3.0, 2)
    Array(12., dtype=float32)
    """
    x, y = as_operand(x), as_operand(y)
    if aval_of(x).dtype in dtypes.COMPLEX or aval_of(y).dtype in dtypes.INEXACT:
        raise ValueError(
            f"ldexp: takes real numbers and integer exponents, and got {aval_of(x).str_short()} and "
            f"{aval_of(y).str_short()}. Multiply by jnp.exp2 of an exponent that is no integer."
        )
    return _scaled(*promote_ranks(_as_float("ldexp", x), _as_exponent(y), name="ldexp"))


def _as_exponent(y: Any) -> Any:
    """Integers of any dtype as int32; those that don't fit are out of the range of every float."""
    dtype = aval_of(y).dtype
    if dtype.itemsize >= 4 and dtype != dtypes.int32:
        y = e.min(y, e.scalar(1 << 16, y))
        y = y if dtype in dtypes.UNSIGNED else e.max(y, e.scalar(-(1 << 16), y))
    return convert(y, dtypes.int32)


def _scaled(x: Any, exponent: Any) -> Any:
    """x times 2^exponent, by three powers of two that are normal numbers; computed in 32 bits at least.

    Downwards, the first two steps are so short that what they round to a subnormal number becomes 0 in the next.
    """
    dtype = aval_of(x).dtype
    parts = _PARTS[dtypes.float32 if dtype.itemsize == 2 else dtype]
    x, remaining = convert(x, parts.dtype), exponent
    down = full(aval_of(remaining).shape, parts.least + parts.fraction_bits + 1, dtypes.int32)
    for _ in range(2):
        step = select(e.lt(remaining, np.int32(parts.least)), down, e.min(remaining, np.int32(parts.bias)))
        x, remaining = e.mul(x, _power_of_two(step, parts)), e.sub(remaining, step)
    last = e.clamp(np.int32(parts.least), remaining, np.int32(parts.bias))
    return convert(e.mul(x, _power_of_two(last, parts)), dtype)


def _power_of_two(exponent: Any, parts: _Parts) -> Any:
    """2^exponent, exactly, for exponents of normal numbers."""
    field = convert(e.add(exponent, np.int32(parts.bias)), np.dtype(parts.integer))
    return e.bitcast_convert_type(e.shift_left(field, parts.integer(parts.fraction_bits)), parts.dtype)


@compiled_eagerly()
def spacing(x: Any, /) -> Any:
    """The distance from each element to the next float away from zero, with its sign; nan where it is not finite.

    As in NumPy the next float is the next greater one for float16, and the distance positive. It is assembled from
        bits, so that subnormal distances are not flushed to zero.

        Raises:
          TypeError: elements are complex.

        >>> import xpr.numpy as jnp
        >>> jnp.spacing(jnp.float32(1))
        Array(1.1920929e-07, dtype=float32)
    """
    x = _as_float("spacing", x)
    parts, shape = _PARTS[aval_of(x).dtype], aval_of(x).shape
    kind, infinite = parts.integer, (2 * parts.bias + 1) << parts.fraction_bits
    bits = e.bitcast_convert_type(x, kind)
    sign = kind(parts.sign_mask)
    size = e.bitwise_and(bits, kind(parts.sign_mask - 1))
    if parts.dtype == dtypes.float16:
        inwards = e.bitwise_and(e.ne(e.bitwise_and(bits, sign), kind(0)), e.ne(size, kind(0)))
        size = e.sub(size, convert(inwards, aval_of(bits).dtype))
    exponent = e.max(e.shift_right_logical(size, kind(parts.fraction_bits)), kind(1))
    normal = e.gt(exponent, kind(parts.fraction_bits))
    shifted = e.shift_left(e.sub(exponent, kind(parts.fraction_bits)), kind(parts.fraction_bits))
    subnormal = e.shift_left(full(shape, 1, kind), e.sub(exponent, kind(1)))
    last = e.eq(size, kind(infinite - 1))
    distance = select(last, full(shape, infinite, kind), select(normal, shifted, subnormal))
    if parts.dtype != dtypes.float16:
        distance = e.bitwise_or(distance, e.bitwise_and(bits, sign))
    return select(e.is_finite(x), e.bitcast_convert_type(distance, parts.dtype), full(shape, np.nan, parts.dtype))


def _as_float(name: str, x: Any) -> Any:
    """The operand as a strong float."""
    (x,) = promote_inexact(x)
    dtype = aval_of(x).dtype
    if dtype not in _PARTS:
        raise TypeError(f"{name}: takes real floats of 16 bits or more, and got {aval_of(x).str_short()}.")
    return asarray_like(convert(x, dtype))


# -- What is not finite


@compiled_eagerly()
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """The array with nan and the infinities replaced by finite numbers.

    Args:
      x: array or number.
      copy: has no effect; arrays are immutable.
      nan: the replacement for nan.
      posinf: the replacement for inf; None for the greatest finite number of the dtype.
      neginf: the replacement for -inf; None for the least finite number of the dtype.

    Returns:
      An array of the shape and dtype of `x`.

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
