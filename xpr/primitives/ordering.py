"""Sort keys: numbers as integers in the same order, and the permutation that sorts rows by several keys.

XLA:CPU sorts one array of integers by their own `<` with a native sort, and anything else by calling back a compiled
comparison: with 32-bit keys turned into integers, and the index of each in the low half of a 64-bit one, f32[1000000]
is sorted in 65 ms, not 250, and put in order with another array in 60, not 280 (of 1000: 15 and 20 us, not 105 and
190). Wider and further keys are sorted one 32-bit digit after another, the least significant first, as on punched
cards. Functions in C (backend/c/sort.c) do both in 4 to 9 and 9 to 25 ms, where there are any and the program stays
here; selecting a few by their ranks takes them 1.4.

The order: -inf to inf, then nan, whatever its sign; -0 equals 0; complex numbers by their real parts, then by their
imaginary ones; False before True. Everything is written twice here, in StableHLO and in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import native
from xpr.backend.mlir_text import int_array
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.dtypes import COMPLEX, FLOATS, UNSIGNED, int32, int64
from xpr.primitives import native_calls
from xpr.primitives.comparison_lowering import is_nan, lower_comparison

_SIGN = {int32: -(2**31), int64: -(2**63)}
_ALL_BUT_SIGN = {int32: 2**31 - 1, int64: 2**63 - 1}
_BITS = {int32: 32, int64: 64}

# -- In StableHLO


def _with(b: Builder, operation: str, x: Value, constant: Any) -> Value:
    return b.op(f"stablehlo.{operation}", [x, b.constant(constant, x.aval)], x.aval)


def _times(b: Builder, x: Value, size: Any) -> Value:
    return b.op("stablehlo.multiply", [x, b.size(size, x.aval)], x.aval)


def _like(x: Value, dtype: np.dtype) -> ShapedArray:
    return x.aval.update(dtype=dtype, weak_type=False)


def _flipped(b: Builder, bits: Value) -> Value:
    """Between the bits of a float and an integer in the same order: negative ones are reversed."""
    dtype = bits.aval.dtype
    signs = _with(b, "shift_right_arithmetic", bits, _BITS[dtype] - 1)
    mask = _with(b, "and", signs, _ALL_BUT_SIGN[dtype])
    return b.op("stablehlo.xor", [bits, mask], bits.aval)


def ordered(b: Builder, x: Value, merge_zeros: bool = True) -> Value:
    """Signed integers of 32 or 64 bits in the order of real `x`; without `merge_zeros`, -0 comes before 0."""
    dtype = x.aval.dtype
    if dtype in FLOATS:
        x = x if dtype.itemsize > 4 else b.convert(x, dtypes.float32)
        if merge_zeros:
            zero = b.constant(0, x.aval)
            x = b.op("stablehlo.select", [lower_comparison(b, x, zero, "EQ"), zero, x], x.aval)
        wide = int64 if dtype.itemsize > 4 else int32
        bits = _flipped(b, b.op("stablehlo.bitcast_convert", [x], _like(x, wide)))
        last = b.constant(_ALL_BUT_SIGN[wide], bits.aval)
        return b.op("stablehlo.select", [is_nan(b, x), last, bits], bits.aval)
    wide = int64 if dtype.itemsize > 4 else int32
    if dtype in UNSIGNED and dtype.itemsize >= 4:
        return _with(b, "xor", b.op("stablehlo.bitcast_convert", [x], _like(x, wide)), _SIGN[wide])
    return b.convert(x, wide)


def with_one_nan(b: Builder, x: Value) -> Value:
    """float32 or float64 numbers, every nan among them positive.

    Where a float is chosen for nan, LLVM takes all nans for the same, and leaves out the choice; so bits are compared.
    """
    wide = int64 if x.aval.dtype.itemsize > 4 else int32
    bits = b.op("stablehlo.bitcast_convert", [x], _like(x, wide))
    size = _with(b, "and", bits, _ALL_BUT_SIGN[wide])
    infinite = b.constant(np.asarray(np.inf, x.aval.dtype).view(wide)[()], bits.aval)
    chosen = b.op("stablehlo.select", [lower_comparison(b, size, infinite, "GT"), size, bits], bits.aval)
    return b.op("stablehlo.bitcast_convert", [chosen], x.aval)


def restored(b: Builder, v: Value, aval: ShapedArray) -> Value:
    """The inverse of `ordered`; every nan is the same one."""
    dtype = aval.dtype
    if dtype in FLOATS:
        wide = dtypes.float64 if dtype.itemsize > 4 else dtypes.float32
        return b.convert(b.op("stablehlo.bitcast_convert", [_flipped(b, v)], _like(v, wide)), dtype)
    if dtype in UNSIGNED and dtype.itemsize >= 4:
        return b.op("stablehlo.bitcast_convert", [_with(b, "xor", v, _SIGN[v.aval.dtype])], _like(v, dtype))
    return b.convert(v, dtype)


def real_keys(b: Builder, x: Value) -> list[Value]:
    """The real numbers that `x` is ordered by, the most significant first."""
    if x.aval.dtype not in COMPLEX:
        return [x]
    part = _like(x, dtypes.real_part_of(x.aval.dtype))
    return [b.op(f"stablehlo.{name}", [x], part) for name in ("real", "imag")]


def _digits(b: Builder, v: Value) -> list[Value]:
    """A signed integer as 32-bit ones, the most significant first."""
    if v.aval.dtype == int32:
        return [v]
    high = b.convert(_with(b, "shift_right_arithmetic", v, 32), int32)
    return [high, _with(b, "xor", b.convert(v, int32), _SIGN[int32])]


def lower_sort(
    b: Builder, operands: list[Value], dimension: int, less: Callable[..., Value], stable: bool
) -> list[Value]:
    """`stablehlo.sort` with the comparison `less(builder, lefts, rights)`."""
    scalars = [ShapedArray((), x.aval.dtype) for x in operands for _ in range(2)]
    body = b.region(scalars, lambda inner, args: [less(inner, args[::2], args[1::2])])
    properties = f"dimension = {dimension} : i64, is_stable = {str(stable).lower()}"
    return b.ops("stablehlo.sort", operands, [x.aval for x in operands], properties, [body])


def _first_less(b: Builder, lefts: list[Value], rights: list[Value]) -> Value:
    return lower_comparison(b, lefts[0], rights[0], "LT")


def sort_ordered(b: Builder, v: Value, dimension: int) -> Value:
    """Integers sorted by themselves."""
    if native_calls.are_possible(b, v.aval):
        rows = native_calls.moved_last(b, v, dimension)
        count, n = native_calls.rows_of(rows)
        results = [rows.aval, rows.aval.update(shape=(n,))]
        sizes = [count, n, v.aval.dtype.itemsize]
        ordered_rows, _ = native_calls.call(b, native.SORT, sizes, [rows], results, in_place=True)
        return native_calls.moved_last(b, ordered_rows, dimension)
    return lower_sort(b, [v], dimension, _first_less, False)[0]


def select_ordered(b: Builder, v: Value, ranks: Sequence[int], dimension: int) -> Value:
    """The elements at the indices `ranks`, which ascend, of integers sorted by themselves."""
    if native_calls.are_possible(b, v.aval):
        rows = native_calls.moved_last(b, v, dimension)
        count, n = native_calls.rows_of(rows)
        indices = b.constant(np.array(ranks, int64), ShapedArray((len(ranks),), int64))
        selected = rows.aval.update(shape=(*rows.aval.shape[:-1], len(ranks)))
        results = [rows.aval, rows.aval.update(shape=(n,)), selected]
        sizes = [count, n, v.aval.dtype.itemsize, len(ranks)]
        outs = native_calls.call(b, native.SELECT, sizes, [rows, indices], results, in_place=True)
        return native_calls.moved_last(b, outs[2], dimension)
    shape = (*v.aval.shape[:dimension], len(ranks), *v.aval.shape[dimension + 1 :])
    indices = b.constant(np.array(ranks, int32), ShapedArray((len(ranks),), int32))
    return read_rows(b, sort_ordered(b, v, dimension), b.broadcast(indices, shape, [dimension]), dimension)


def _order_of_native(b: Builder, keys: list[Value], dimension: int) -> Value:
    digits = [native_calls.moved_last(b, digit, dimension) for key in keys for digit in _digits(b, key)]
    rows, n = native_calls.rows_of(digits[0])
    work = ShapedArray((2 * n,), int64)
    order, _ = native_calls.call(b, native.ORDER, [rows, n, len(digits)], digits, [digits[0].aval, work])
    return native_calls.moved_last(b, order, dimension)


def order_of(b: Builder, keys: list[Value], dimension: int) -> Value:
    """int32 indices along a dimension that put rows of ordered integers in order; equal ones stay as they are."""
    if b.platform != "cpu":
        return _order_by_comparison(b, keys, dimension)
    if native_calls.are_possible(b, keys[0].aval):
        return _order_of_native(b, keys, dimension)
    order = None
    for digit in reversed([digit for key in keys for digit in _digits(b, key)]):
        positions = _order_by_digit(b, digit if order is None else read_rows(b, digit, order, dimension), dimension)
        order = positions if order is None else read_rows(b, order, positions, dimension)
    assert order is not None  # there is at least one key
    return order


def _order_by_digit(b: Builder, digit: Value, dimension: int) -> Value:
    """Sorts 64-bit integers, the digit in the high half and its index in the low one."""
    high = _with(b, "shift_left", b.convert(digit, int64), 32)
    index = b.op("stablehlo.iota", [], high.aval, f"iota_dimension = {dimension} : i64")
    both = b.op("stablehlo.or", [high, index], high.aval)
    return b.convert(sort_ordered(b, both, dimension), int32)


def _order_by_comparison(b: Builder, keys: list[Value], dimension: int) -> Value:
    """Sorts the keys and the indices together; GPUs have fast sorts for one key."""

    def less(inner: Builder, lefts: list[Value], rights: list[Value]) -> Value:
        *others, result = (lower_comparison(inner, x, y, "LT") for x, y in zip(lefts[:-1], rights[:-1]))
        for at in range(len(others) - 1, -1, -1):
            equal = lower_comparison(inner, lefts[at], rights[at], "EQ")
            later = inner.op("stablehlo.and", [equal, result], equal.aval)
            result = inner.op("stablehlo.or", [others[at], later], equal.aval)
        return result

    index = b.op("stablehlo.iota", [], _like(keys[0], int32), f"iota_dimension = {dimension} : i64")
    return lower_sort(b, [*keys, index], dimension, less, True)[-1]


def read_rows(b: Builder, x: Value, indices: Value, dimension: int) -> Value:
    """For each row along a dimension, its elements at that row's indices."""
    shape = x.aval.shape
    dtype = int32 if is_symbolic_dim(x.aval.size) or x.aval.size < 2**31 else int64
    index = b.convert(indices, dtype)
    step = 1
    for axis in range(len(shape) - 1, -1, -1):
        if axis == dimension:
            index = _times(b, index, step) if step != 1 else index
        step *= shape[axis]
    step = 1
    for axis in range(len(shape) - 1, -1, -1):
        if axis != dimension and shape[axis] != 1:
            count = b.op("stablehlo.iota", [], index.aval, f"iota_dimension = {axis} : i64")
            index = b.op("stablehlo.add", [index, _times(b, count, step)], index.aval)
        step *= shape[axis]
    flat = b.reshape(x, (x.aval.size,))
    vectors = b.reshape(index, (*index.aval.shape, 1))
    numbers = f"collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = {len(shape)}"
    sizes = f"slice_sizes = {int_array([1])}, indices_are_sorted = false"
    properties = f"dimension_numbers = #stablehlo.gather<{numbers}>, {sizes}"
    return b.op("stablehlo.gather", [flat, vectors], x.aval.update(shape=indices.aval.shape), properties)


# -- In NumPy


def np_ordered(x: np.ndarray, merge_zeros: bool = True) -> np.ndarray:
    """`ordered`, in NumPy."""
    wide = int64 if x.dtype.itemsize > 4 else int32
    if x.dtype in FLOATS:
        x = x.astype(np.float64 if wide == int64 else np.float32)
        bits = (x + x.dtype.type(0) if merge_zeros else x).view(wide)  # -0 + 0 is 0
        bits = bits ^ ((bits >> (_BITS[wide] - 1)) & wide.type(_ALL_BUT_SIGN[wide]))
        return np.where(np.isnan(x), wide.type(_ALL_BUT_SIGN[wide]), bits)
    if x.dtype in UNSIGNED and x.dtype.itemsize >= 4:
        return np.ascontiguousarray(x).view(wide) ^ wide.type(_SIGN[wide])
    return x.astype(wide)


def np_real_keys(x: np.ndarray) -> list[np.ndarray]:
    """`real_keys`, in NumPy."""
    return [x.real, x.imag] if x.dtype in COMPLEX else [x]


def np_order_of(keys: Sequence[np.ndarray]) -> np.ndarray:
    """The order along the last axis of rows of ordered integers; equal ones stay as they are."""
    order = None
    for digit in reversed([digit for key in keys for digit in _np_digits(key)]):
        if order is not None:
            digit = np_read_rows(digit, order)
        both = (digit.astype(int64) << 32) | np.arange(digit.shape[-1])
        both.sort(-1)
        positions = both.astype(int32)
        order = positions if order is None else np_read_rows(order, positions)
    assert order is not None  # there is at least one key
    return order


def np_read_rows(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """`read_rows` along the last axis, in NumPy."""
    return x[indices] if x.ndim == 1 else np.take_along_axis(x, indices, -1)


def _np_digits(v: np.ndarray) -> list[np.ndarray]:
    if v.dtype == int32:
        return [v]
    return [(v >> 32).astype(int32), v.astype(int32) ^ int32.type(_SIGN[int32])]
