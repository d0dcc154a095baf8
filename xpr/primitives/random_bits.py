"""Random bits: the counter-based generator Threefry-2x32, arrays of bits made with it, and floats made from bits.

Threefry scrambles a counter of two 32-bit words with a key of two words; the same key and counter always give the same
two words. An array of bits is the scrambled count of its elements. Source: Salmon, Moraes, Dror and Shaw, "Parallel
random numbers: as easy as 1, 2, 3" (SC 2011), with 20 rounds. How elements are counted, and how the two words make 8,
16, 32 or 64 bits, is what JAX does by default, so the same key draws the same numbers in both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from xpr.backend import native
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dimensions.expressions import is_symbolic_dim, surely_below
from xpr.dtypes import bf16, finfo, float16, float32, float64, uint8, uint16, uint32, uint64
from xpr.primitives import native_calls
from xpr.primitives.elementwise import (
    add,
    bitcast_convert_type,
    bitwise_or,
    bitwise_xor,
    convert_element_type,
    mul,
    shift_left,
    shift_right_logical,
    sub,
)
from xpr.primitives.elementwise import max as maximum
from xpr.primitives.elementwise_rules import NOT_LINEAR, batch_elementwise
from xpr.primitives.flops import several
from xpr.primitives.shapes import reshape, squeeze
from xpr.primitives.sharding_rules import elementwise_sharding
from xpr.primitives.slicing import broadcasted_iota, slice_, slice_in_dim
from xpr.primitives.special import erf_inv

__all__ = ["threefry2x32_p"]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # for four rounds and the next four, in turn
PARITY = 0x1BD11BDA  # keeps a key of zeros from leaving the words as they are
MASK = 0xFFFFFFFF
FEW_WORDS, MANY_KEYS = 64, 4096  # elements; see `_threefry_lower`
OF_C = 1 << 14  # elements
FEW = 8  # blocks; up to here Python's own integers are faster than NumPy's arrays


def scrambled(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """The generator on Python integers or on uint32 arrays."""
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    x0, x1 = (x0 + k0) & MASK, (x1 + k1) & MASK
    for group in range(5):
        for shift in ROTATIONS[group % 2]:
            x0 = (x0 + x1) & MASK
            x1 = x0 ^ ((x1 << shift & MASK) | x1 >> 32 - shift)
        x0 = (x0 + keys[(group + 1) % 3]) & MASK
        x1 = (x1 + keys[(group + 2) % 3] + (group + 1)) & MASK
    return x0, x1


# -- threefry2x32: (key word, key word, counter word, counter word) -> (word, word), element by element


def _threefry_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    shapes = {a.shape for a in avals if a.shape}
    if len(shapes) > 1 or any(a.dtype != uint32 for a in avals):
        raise TypeError(
            "threefry2x32: the two words of the key and the two of the counter must be u32, of one shape or scalars, "
            f"and are ({', '.join(a.str_short() for a in avals)})."
        )
    aval = ShapedArray(shapes.pop() if shapes else (), uint32)
    return [aval, aval]


def _threefry_reference(values: Sequence[Any]) -> list[Any]:
    words = [np.asarray(x) for x in values]
    shape = max([w.shape for w in words], key=len)
    if math.prod(shape) > FEW:
        return [np.broadcast_to(x, shape) for x in scrambled(*words)]
    columns = [w.ravel().tolist() if w.shape == shape else repeat(w.item()) for w in words]
    pairs = [scrambled(*block) for block in zip(*columns)]
    return [np.array([pair[i] for pair in pairs], uint32).reshape(shape) for i in (0, 1)]


def _threefry_write(b: Builder, words: list[Value]) -> list[Value]:
    k0, k1, x0, x1 = words
    aval = x0.aval

    def op(name: str, x: Value, y: Value) -> Value:
        return b.op(f"stablehlo.{name}", [x, y], aval)

    def number(value: int) -> Value:
        return b.constant(value, aval)

    keys = (k0, k1, op("xor", op("xor", k0, k1), number(PARITY)))
    x0, x1 = op("add", x0, k0), op("add", x1, k1)
    for group in range(5):
        for shift in ROTATIONS[group % 2]:
            x0 = op("add", x0, x1)
            left, right = op("shift_left", x1, number(shift)), op("shift_right_logical", x1, number(32 - shift))
            x1 = op("xor", x0, op("or", left, right))
        x0 = op("add", x0, keys[(group + 1) % 3])
        x1 = op("add", op("add", x1, keys[(group + 2) % 3]), number(group + 1))
    return [x0, x1]


def _threefry_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """A call of backend/c/threefry.c, or of a function that is written once for each shape in a module.

    XLA:CPU takes 50 to 100 ms to compile the function. Fused with its readers it runs three times faster on large
    arrays. But keys are derived from keys, and a chain of fused calls computes each link once for every use of the next
    and takes seconds to compile. So the call is kept apart where it makes a few keys, or not too many elements with a
    key each. XLA:CPU would compile and run all of it for each of its results, so there both words are one.
    """
    aval = avals[0]
    if native_calls.are_possible(b, aval) and b.runs_once and aval.size <= OF_C:
        kinds, arrays = zip(*[_read_by_c(b, x) for x in operands])
        return native_calls.call(b, native.THREEFRY, [aval.size, *kinds], [x for x in arrays if x is not None], avals)
    separate = surely_below(aval.size, 1 + (FEW_WORDS if operands[0].aval.ndim == 0 else MANY_KEYS))
    together = separate and b.platform == "cpu"
    key = ("threefry2x32", aval, together)
    if key not in b.module.shared:
        write = _write_together if together else _threefry_write
        b.module.shared[key] = b.module.function("threefry2x32", [aval] * 4, write)
    results = [aval.update(dtype=uint64)] if together else avals
    words = b.call(b.module.shared[key], [b.broadcast(x, aval.shape) for x in operands], results, not separate)
    return _words_of(b, words[0]) if together else words


def _read_by_c(b: Builder, x: Value) -> tuple[int, Value | None]:
    """How backend/c/threefry.c is to read an operand, and from which value; None for the counts of a vector's elements.

    XLA would compile a kernel, for 5 ms, to cut each word out of a key, to count, and to repeat a word.
    """
    name, operands, _ = b.definitions.get(x, ("", [], ""))
    if name == "stablehlo.iota" and x.aval.ndim == 1:
        return _COUNTS, None
    if name == "stablehlo.broadcast_in_dim" and operands[0].aval.ndim == 0:
        x = operands[0]
    if x.aval.ndim > 0:
        return _ARRAY, x
    array, place = b.element_of(x)
    return _ONE + place, array


_COUNTS, _ARRAY, _ONE = range(3)  # as in backend/c/threefry.c


def _write_together(b: Builder, words: list[Value]) -> list[Value]:
    """Both words of each result as one of 64 bits, the first one low."""
    low, high = [b.convert(x, uint64) for x in _threefry_write(b, words)]
    high = b.op("stablehlo.shift_left", [high, b.constant(32, high.aval)], high.aval)
    return [b.op("stablehlo.or", [high, low], high.aval)]


def _words_of(b: Builder, together: Value) -> list[Value]:
    high = b.op("stablehlo.shift_right_logical", [together, b.constant(32, together.aval)], together.aval)
    return [b.convert(x, uint32) for x in (together, high)]


def _threefry_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    outs = threefry2x32_p.bind(*primals)
    return outs, [Zero.from_primal_value(x) for x in outs]


threefry2x32_p = register(
    Primitive(
        "threefry2x32",
        abstract=_threefry_abstract,
        sharding=elementwise_sharding,
        reference=_threefry_reference,
        lower=_threefry_lower,
        jvp=_threefry_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=Unsupported("it is set below"),
        multiple_results=True,
        exact=True,
        flops=several(native.FLOPS_OF_THREEFRY),
    )
)
_batch_one = batch_elementwise(threefry2x32_p)


def _threefry_batch(size: int, values: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
    (outs,), (dim,) = _batch_one(size, values, dims)
    return outs, [dim, dim]


threefry2x32_p.batch = _threefry_batch


def threefry2x32(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Two random words for each element, from the two words of a key and of a counter, uint32 of one shape or scalars.

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
    """
    high, low = threefry2x32_p.bind(k0, k1, x0, x1)
    return high, low


# -- Arrays of bits

UNSIGNED_OF_WIDTH = {8: uint8, 16: uint16, 32: uint32, 64: uint64}
ZERO_WORD = np.uint32(0)


def key_words(key: Any) -> tuple[Any, Any]:
    """The two words of a key, uint32[2]."""
    return squeeze(slice_(key, (0,), (1,)), (0,)), squeeze(slice_(key, (1,), (2,)), (0,))


def element_counts(shape: Sequence[int]) -> tuple[Any, Any]:
    """The number of each element in row-major order, as its high and its low word; the high one mostly a scalar 0."""
    size = math.prod(shape)
    if is_symbolic_dim(size) or size <= 1 << 32:
        low = broadcasted_iota(uint32, (size,), 0) if shape else ZERO_WORD
        return ZERO_WORD, reshape(low, shape)
    words = reshape(bitcast_convert_type(broadcasted_iota(uint64, (size,), 0), uint32), (*shape, 2))
    low, high = (squeeze(slice_in_dim(words, i, i + 1, axis=len(shape)), (len(shape),)) for i in (0, 1))
    return high, low


def threefry_bits(k0: Any, k1: Any, bit_width: int, shape: Sequence[int]) -> Any:
    """Random unsigned integers of 8, 16, 32 or 64 bits, from the two words of a key."""
    return joined(*threefry2x32(k0, k1, *element_counts(shape)), bit_width)


def joined(high: Any, low: Any, bit_width: int) -> Any:
    """Two random words as one unsigned integer: concatenated for 64 bits, else combined by xor and truncated."""
    if bit_width == 64:
        high, low = (convert_element_type(x, uint64) for x in (high, low))
        return bitwise_or(shift_left(high, np.uint64(32)), low)
    word = bitwise_xor(high, low)
    return word if bit_width == 32 else convert_element_type(word, UNSIGNED_OF_WIDTH[bit_width])


def child(k0: Any, k1: Any, index: int) -> tuple[Any, Any]:
    """The words of the `index`-th key that a key splits into."""
    return threefry2x32(k0, k1, ZERO_WORD, np.uint32(index))


# -- Floats from bits

BITS_FOR = {float16: 16, bf16: 8, float32: 32, float64: 64}  # at least as many as the fraction has


def unit_floats(bits: Any, dtype: np.dtype) -> Any:
    """Numbers of [0, 1): random bits, as many as `dtype` needs, fill the fraction of a number in [1, 2), less 1."""
    if dtype == bf16:
        bits = convert_element_type(bits, uint16)
    word = aval_of(bits).dtype.type
    spare = BITS_FOR[dtype] - finfo(dtype).nmant
    bits = bitwise_or(shift_right_logical(bits, word(spare)), word(_bits_of_one(dtype)))
    return sub(bitcast_convert_type(bits, dtype), dtype.type(1))


def scaled(unit: Any, low: Any, high: Any) -> Any:
    """Numbers of [0, 1) moved to [low, high); rounding may bring one a little below `low`, so it is clamped.

    The bounds are scalars or arrays of the numbers' dtype and shape.
    """
    known = isinstance(low, np.generic) and isinstance(high, np.generic)
    span: Any = np.subtract(high, low) if known else sub(high, low)
    return maximum(low, add(mul(unit, span), low))


def _bits_of_one(dtype: np.dtype) -> int:
    return int(np.ones((), dtype).view(np.dtype(f"uint{8 * dtype.itemsize}")))


def normal_quantiles(unit: Any) -> Any:
    """Standard normal numbers from numbers of [0, 1), through the normal quantile function sqrt(2) erf_inv(2 u - 1)."""
    dtype = aval_of(unit).dtype
    return mul(dtype.type(np.sqrt(2)), erf_inv(scaled(unit, just_above_minus_one(dtype), dtype.type(1))))


def just_above_minus_one(dtype: np.dtype) -> Any:
    """The least number greater than -1."""
    return dtype.type(np.nextafter(dtype.type(-1), dtype.type(0)))
