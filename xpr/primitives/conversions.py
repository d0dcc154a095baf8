"""Conversions: to another dtype by value or by bits, to reduced precision; copies."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, from_host
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of, integer, is_key
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dtypes import ANY, COMPLEX, FLOATS, INEXACT, INTEGERS, short_name
from xpr.errors import ArgumentError
from xpr.key_types import KeyType
from xpr.primitives.comparison_lowering import is_nan, lower_comparison, nan_where
from xpr.primitives.elementwise_rules import NOT_LINEAR, PYTHON_SCALARS, function_of, linear_unary
from xpr.primitives.flops import per_result
from xpr.primitives.shapes import to_front
from xpr.primitives.sharding_rules import Axes, elementwise_sharding, not_linear, parts_of

__all__ = [
    "bitcast_convert_type", "bitcast_convert_type_p", "convert_element_type", "convert_element_type_p", "copy_p",
    "reduce_precision", "reduce_precision_p",
]  # fmt: skip


def _convert_abstract(avals: Sequence[ShapedArray], *, new_dtype: np.dtype, weak_type: bool) -> list[ShapedArray]:
    if avals[0].dtype == dtypes.float0 != new_dtype:
        raise TypeError(dtypes.NO_OPERATIONS)
    if new_dtype not in dtypes.ANY and new_dtype != dtypes.float0:
        raise TypeError(f"dtype {new_dtype} was asked for. Arrays hold booleans, integers, floats and complex numbers.")
    return [ShapedArray(avals[0].shape, new_dtype, weak_type)]


def _convert_reference(values: Sequence[Any], *, new_dtype: np.dtype, weak_type: bool) -> list[Any]:
    """Converts as XLA does: to booleans by comparing with zero, from floats to integers by saturating, nan to 0."""
    x = np.asarray(values[0])
    if x.dtype in COMPLEX and new_dtype not in COMPLEX and new_dtype != dtypes.bool_:
        x = x.real
    if new_dtype == dtypes.bool_:
        return [x != 0]
    if x.dtype in FLOATS and new_dtype in INTEGERS:
        bounds, wide = dtypes.iinfo(new_dtype), x.astype(np.float64)
        widest = np.int64 if bounds.min < 0 else np.uint64
        low, high = wide <= float(bounds.min), wide >= float(bounds.max)
        outside = low | high | np.isnan(wide)
        if not outside.any():
            return [wide.astype(widest).astype(new_dtype)]
        inside = np.where(outside, 0, wide).astype(widest)
        return [np.where(low, bounds.min, np.where(high, bounds.max, inside)).astype(new_dtype)]
    if {x.dtype, new_dtype} <= INTEGERS and x.dtype.kind == new_dtype.kind == "V":
        x = x.astype(np.int8)  # ml_dtypes has no conversions between all of its integers
    return [x.astype(new_dtype)]


def _convert_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, new_dtype: np.dtype, weak_type: bool
) -> list[Value]:
    (x,) = operands
    if x.aval.dtype == new_dtype:
        return [x]
    if x.aval.dtype in COMPLEX and new_dtype not in COMPLEX and new_dtype != dtypes.bool_:
        x = b.op("stablehlo.real", [x], x.aval.update(dtype=dtypes.real_part_of(x.aval.dtype)))
    if new_dtype == dtypes.bool_:
        zero = b.constant(0 if x.aval.dtype not in COMPLEX else 0j, x.aval)
        return [lower_comparison(b, x, zero, "NE")]
    if new_dtype in _WITHOUT_NEGATIVE_ZERO and x.aval.dtype in FLOATS:
        x = _zero_where_it_vanishes(b, x, new_dtype)
    return [b.convert(x, new_dtype)]


_WITHOUT_NEGATIVE_ZERO = (dtypes.float8_e4m3b11fnuz, dtypes.float8_e4m3fnuz, dtypes.float8_e5m2fnuz)


def _zero_where_it_vanishes(b: Builder, x: Value, dtype: np.dtype) -> Value:
    """The numbers, but 0 where they round to 0: XLA:CPU writes a negative one as -0, whose bits are those of nan."""
    x = b.convert(x, dtypes.float32) if x.aval.dtype.itemsize == 1 else x
    half = b.constant(float(dtypes.finfo(dtype).smallest_subnormal) / 2, x.aval)
    vanishes = lower_comparison(b, b.op("stablehlo.abs", [x], x.aval), half, "LE")
    return b.op("stablehlo.select", [vanishes, b.constant(0, x.aval), x], x.aval)


def _convert_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, new_dtype: np.dtype, weak_type: bool) -> Any:
    out = convert_element_type_p.bind(*primals, new_dtype=new_dtype, weak_type=weak_type)
    (t,) = tangents
    if type(t) is Zero or new_dtype not in INEXACT:
        return [out], [Zero.from_primal_value(out)]
    return [out], [convert_element_type_p.bind(t, new_dtype=new_dtype, weak_type=weak_type)]


def _convert_transpose(
    cts: Sequence[Any], operands: Sequence[Any], *, new_dtype: np.dtype, weak_type: bool
) -> list[Any]:
    (ct,), (x,) = cts, operands
    return [convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type)]


def _convert_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return [convert_element_type_p.bind(*values, **params)], list(dims)


def _convert_sums(every: Sequence[Axes], avals: Sequence[ShapedArray], *, new_dtype: np.dtype, weak_type: bool) -> Axes:
    if new_dtype == dtypes.bool_ or (new_dtype in INTEGERS and avals[0].dtype in INEXACT):
        raise not_linear("", f"to convert it to {new_dtype.name} is not to add up what its addends are converted to")
    return every[0]


convert_element_type_p = register(
    Primitive(
        "convert_element_type",
        fusion="cheap",
        abstract=_convert_abstract,
        reference=_convert_reference,
        lower=_convert_lower,
        jvp=_convert_jvp,
        transpose=_convert_transpose,
        batch=_convert_batch,
        exact=True,
        flops=per_result,
        sharding=elementwise_sharding,
        sums=_convert_sums,
    )
)


def convert_element_type(operand: Any, new_dtype: Any, weak_type: bool = False) -> Any:
    """The array converted to another dtype.

    Floats are rounded towards zero to integers; of complex numbers the real part is converted.

    Args:
      operand: an array or a number.
      new_dtype: the dtype of the result.
      weak_type: whether the result is weakly typed.

    Returns:
      An array of the same shape.

    Raises:
      ValueError: one of the dtypes alone is that of random keys; or an unreduced operand is to become integers or truth
        values.

    >>> from xpr import lax, numpy as jnp
    >>> lax.convert_element_type(jnp.array([1.5, -2.5]), jnp.int32)
    Array([ 1, -2], dtype=int32)
    """
    new_dtype = dtypes.requested(new_dtype)
    aval = aval_of(operand)
    if (type(new_dtype) is KeyType or is_key(aval)) and aval.dtype != new_dtype:
        raise ArgumentError(
            f"Cannot convert_element_type from {aval.dtype} to {new_dtype}: {dtypes.NO_NUMBERS} "
            "random.wrap_key_data(words) makes keys of words."
        )
    if aval.dtype == new_dtype and aval.weak_type == weak_type and hasattr(operand, "aval"):
        return operand
    if not weak_type and type(operand) in PYTHON_SCALARS:
        return _converted_number(operand, aval, new_dtype)
    if not weak_type and isinstance(operand, np.ndarray) and operand.dtype == new_dtype:
        return from_host(operand.copy())
    return convert_element_type_p.bind(operand, new_dtype=new_dtype, weak_type=weak_type)


_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.uint64).max


def _converted_number(x: Any, aval: ShapedArray, new_dtype: np.dtype) -> Array:
    """A Python number in a dtype, known while tracing too; integers may have 64 bits, or be as large as its floats."""
    _convert_abstract([aval], new_dtype=new_dtype, weak_type=False)
    if type(x) is int:
        dtype = np.dtype(np.float64) if new_dtype in INEXACT else None if _LEAST <= x <= _MOST else aval.dtype
        value = np.asarray(x if dtype is None else integer(x, dtype), dtype)
    else:
        value = np.asarray(x, aval.dtype)
    return from_host(_convert_reference([value], new_dtype=new_dtype, weak_type=False)[0])


def _bitcast_abstract(avals: Sequence[ShapedArray], *, new_dtype: np.dtype) -> list[ShapedArray]:
    (aval,) = avals
    old, new = dtypes.itemsize_bits(aval.dtype), dtypes.itemsize_bits(new_dtype)
    unordered = COMPLEX | {dtypes.bool_}
    if aval.dtype != new_dtype and (aval.dtype in unordered or new_dtype in unordered):
        raise TypeError(
            f"bitcast_convert_type: {aval.str_short()} to {short_name(new_dtype)}: the bits of booleans and complex "
            "numbers can't be read as another type. Use x.view(), or take the parts of complex numbers."
        )
    if old == new:
        return [ShapedArray(aval.shape, new_dtype)]
    if old > new:
        return [ShapedArray((*aval.shape, old // new), new_dtype)]
    if not aval.ndim or aval.shape[-1] * old != new:
        raise TypeError(
            f"bitcast_convert_type: {aval.str_short()} to {short_name(new_dtype)}: "
            f"the last axis must hold {new // old} elements."
        )
    return [ShapedArray(aval.shape[:-1], new_dtype)]


def _bitcast_reference(values: Sequence[Any], *, new_dtype: np.dtype) -> list[Any]:
    x = np.ascontiguousarray(values[0])
    shape = _bitcast_abstract([ShapedArray(np.shape(values[0]), x.dtype)], new_dtype=new_dtype)[0].shape
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if old == new or min(old, new) >= 8:
        return [np.frombuffer(x.tobytes(), new_dtype).reshape(shape)]
    bits = np.unpackbits(x.view(np.uint8).reshape(-1, x.dtype.itemsize), axis=1, bitorder="little")
    bits = bits[:, :old].reshape(-1, new)  # NumPy stores numbers of fewer than 8 bits in a byte each
    return [np.packbits(bits, axis=1, bitorder="little").view(new_dtype).reshape(shape)]


def _bitcast_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], *, new_dtype: np.dtype) -> Any:
    return [bitcast_convert_type(to_front(values[0], dims[0] or 0), new_dtype)], [0]


def _bitcast_sharding(avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], **_: Any) -> list[Any]:
    """The axis of an element's parts, which one of both types may have, is not partitioned."""
    parts = parts_of(avals[0])
    return [(*parts, None)[: outs[0].ndim]]


bitcast_convert_type_p = register(
    Primitive(
        "bitcast_convert_type",
        fusion="cheap",
        abstract=_bitcast_abstract,
        reference=_bitcast_reference,
        lower=lambda b, operands, avals, *, new_dtype: [b.op("stablehlo.bitcast_convert", operands, avals[0])],
        jvp=lambda primals, tangents, **params: (
            [bitcast_convert_type_p.bind(*primals, **params)],
            [Zero(bitcast_convert_type_p.type_of((aval_of(primals[0]),), params)[0].to_tangent_aval())],
        ),
        transpose=Unsupported(NOT_LINEAR),
        batch=_bitcast_batch,
        exact=True,
        sharding=_bitcast_sharding,
    )
)


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of an array interpreted as another dtype.

    Args:
      operand: an array.
      new_dtype: the dtype of the result; a narrower one adds a last axis, a wider one removes it.

    Returns:
      An array.

    >>> from xpr import lax
    >>> lax.bitcast_convert_type(1.0, "int32")
    Array(1065353216, dtype=int32)
    """
    return bitcast_convert_type_p.bind(operand, new_dtype=dtypes.requested(new_dtype))


def _reduce_precision_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, exponent_bits: int, mantissa_bits: int
) -> list[Value]:
    (x,) = operands
    bits = f"exponent_bits = {exponent_bits} : i32, mantissa_bits = {mantissa_bits} : i32"
    result = b.op("stablehlo.reduce_precision", [x], avals[0], bits)
    return [result if mantissa_bits else nan_where(b, is_nan(b, x), result)]  # XLA's is infinity there


def _reduce_precision_reference(x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounds the significand to `mantissa_bits` and sends what overflows to infinity, what underflows to zero."""
    x = np.asarray(x)
    wide = x.astype(np.float64)
    fraction, exponent = np.frexp(wide)
    rounded = np.ldexp(np.round(np.ldexp(fraction, mantissa_bits + 1)), exponent - mantissa_bits - 1)
    bias = 2 ** (exponent_bits - 1) - 1
    size = np.abs(rounded)
    rounded = np.where(size >= 2.0 ** (bias + 1), np.copysign(np.inf, wide), rounded)
    rounded = np.where(size < 2.0 ** (1 - bias), np.copysign(0.0, wide), rounded)
    return np.where(np.isfinite(wide), rounded, wide).astype(x.dtype)


reduce_precision_p = linear_unary(
    "reduce_precision", over=FLOATS, lowers_to=_reduce_precision_lower, reference=_reduce_precision_reference,
    back=lambda ct, aval, **params: reduce_precision_p.bind(ct, **params),
)  # fmt: skip


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Each element rounded to a float format with fewer exponent and mantissa bits, in its dtype.

    Args:
      operand: an array of floats.
      exponent_bits: the number of exponent bits, at least 1.
      mantissa_bits: the number of mantissa bits.

    Returns:
      An array of the same shape and dtype.

    Raises:
      ValueError: there is not at least one exponent bit, or the number of mantissa bits is negative.
      TypeError: a number of bits is no integer.

    >>> from xpr import lax
    >>> lax.reduce_precision(1.1, 8, 3)
    Array(1.125, dtype=float32, weak_type=True)
    """
    exponent_bits, mantissa_bits = operator.index(exponent_bits), operator.index(mantissa_bits)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(
            f"reduce_precision: a float has at least 1 exponent bit and 0 mantissa bits, and {exponent_bits} and "
            f"{mantissa_bits} were asked for."
        )
    return reduce_precision_p.bind(operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


copy_p = linear_unary(
    "copy", fusion="view", over=ANY, back=lambda ct, aval: copy_p.bind(ct),
    lowers_to=lambda b, operands, avals: operands, reference=np.array, exact=True, physical="moved",
)  # fmt: skip
copy_p.flops = None
copy = function_of(copy_p, "The array itself, as a new array.")
