"""The generators of random bits that random keys can be for: functions of the words of one key.

threefry2x32 counts elements and scrambles the counts, so each key of a batch draws what it draws alone. With the
setting `threefry_partitionable` off it draws the numbers that JAX drew before version 0.5. rbg draws by XLA's own
generator, and derives keys by Threefry; unsafe_rbg derives keys by XLA's generator, too. What these draw for a batch
of keys is drawn from the first. Which words and counts are used is JAX's choice, so that the numbers are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.config import settings
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import surely_at_least
from xpr.dtypes import uint32, uint64
from xpr.errors import ArgumentError
from xpr.key_types import PRNGImpl, register_implementation
from xpr.primitives.elementwise import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    convert_element_type,
    mul,
    shift_left,
    shift_right_logical,
)
from xpr.primitives.random_bits import (
    UNSIGNED_OF_WIDTH,
    ZERO_WORD,
    element_counts,
    key_words,
    threefry2x32,
    threefry_bits,
)
from xpr.primitives.rng_bit_generator import rng_bit_generator
from xpr.primitives.shapes import broadcast_in_dim, expand_dims, reshape, squeeze, transpose
from xpr.primitives.slicing import broadcasted_iota, concatenate, slice_in_dim

__all__: list[str] = []


def check_width(bit_width: int) -> None:
    if bit_width not in UNSIGNED_OF_WIDTH:
        raise ArgumentError(f"Random bits are drawn in words of 8, 16, 32 or 64, and {bit_width} were asked for.")


def stacked(arrays: Sequence[Any]) -> Any:
    """Arrays of one shape along a new last axis."""
    ndim = aval_of(arrays[0]).ndim
    return concatenate([expand_dims(x, (ndim,)) for x in arrays], ndim)


# -- Threefry


def halves_of_seed(seed: Any) -> Any:
    """The integer's higher half, which is 0 for 32-bit integers, and its lower half."""
    dtype = aval_of(seed).dtype
    high = shift_right_logical(seed, dtype.type(32)) if dtype.itemsize == 8 else ZERO_WORD
    return stacked([convert_element_type(x, uint32) for x in (high, seed)])


def _threefry_split(words: Any, shape: tuple[int, ...]) -> Any:
    if settings.threefry_partitionable:
        return stacked(threefry2x32(*key_words(words), *element_counts(shape)))
    return reshape(_scrambled_counts(words, 2 * math.prod(shape)), (*shape, 2))


def _threefry_fold_in(words: Any, data: Any) -> Any:
    return stacked(threefry2x32(*key_words(words), ZERO_WORD, convert_element_type(data, uint32)))


def _threefry_random_bits(words: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    check_width(bit_width)
    if settings.threefry_partitionable:
        return threefry_bits(*key_words(words), bit_width, shape)
    size = math.prod(shape)
    count = -(-bit_width * size // 32)
    if surely_at_least(count, (1 << 32) - 1):
        raise ArgumentError(
            f"{count} random words of one key can't be drawn while the setting threefry_partitionable is off. Draw "
            "them from several keys, or switch it on."
        )
    return reshape(_of_width(_scrambled_counts(words, count), bit_width, size), shape)


def scrambled_in_halves(k0: Any, k1: Any, counts: Any) -> Any:
    """Counts, a vector, scrambled: those of the first half together with those of the second, which a 0 may end."""
    (size,) = aval_of(counts).shape
    if size % 2:
        counts = concatenate([counts, np.zeros(1, uint32)], 0)
    half = -(-size // 2)
    first, second = (slice_in_dim(counts, i * half, (i + 1) * half) for i in (0, 1))
    return slice_in_dim(concatenate(threefry2x32(k0, k1, first, second), 0), 0, size)


def _scrambled_counts(words: Any, count: int) -> Any:
    return scrambled_in_halves(*key_words(words), broadcasted_iota(uint32, (count,), 0))


def _of_width(words: Any, bit_width: int, size: int) -> Any:
    """Words of 32 bits as `size` words of another width."""
    if bit_width == 32:
        return words
    if bit_width == 64:
        high, low = (convert_element_type(slice_in_dim(words, i * size, (i + 1) * size), uint64) for i in (0, 1))
        return bitwise_or(shift_left(high, np.uint64(32)), low)
    (count,) = aval_of(words).shape
    parts = 32 // bit_width
    shifts = mul(broadcasted_iota(uint32, (parts, count), 0), np.uint32(bit_width))
    split = shift_right_logical(broadcast_in_dim(words, (parts, count), (1,)), shifts)
    split = reshape(transpose(bitwise_and(split, np.uint32((1 << bit_width) - 1)), (1, 0)), (parts * count,))
    return slice_in_dim(convert_element_type(split, UNSIGNED_OF_WIDTH[bit_width]), 0, size)


THREEFRY = register_implementation(
    PRNGImpl((2,), halves_of_seed, _threefry_split, _threefry_random_bits, _threefry_fold_in, "threefry2x32", "fry")
)


# -- XLA's generator


def _halves(words: Any) -> list[Any]:
    return [slice_in_dim(words, i, i + 2) for i in (0, 2)]


def _rbg_seed(seed: Any) -> Any:
    half = halves_of_seed(seed)
    return concatenate([half, half], 0)


def _rbg_split(words: Any, shape: tuple[int, ...]) -> Any:
    """Both halves of the key are split by Threefry; the halves of the results are their halves, in that order."""
    axis = len(shape)
    pair = [expand_dims(_threefry_split(half, shape), (axis,)) for half in _halves(words)]
    return reshape(concatenate(pair, axis), (*shape, 4))


def _rbg_fold_in(words: Any, data: Any) -> Any:
    return concatenate([_threefry_fold_in(half, data) for half in _halves(words)], 0)


def _rbg_random_bits(words: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    check_width(bit_width)
    return rng_bit_generator(words, shape, UNSIGNED_OF_WIDTH[bit_width])[1]


def _unsafe_rbg_split(words: Any, shape: tuple[int, ...]) -> Any:
    """Each tenth row of random words."""
    rows = rng_bit_generator(words, (10 * math.prod(shape), 4), uint32)[1]
    return reshape(slice_in_dim(rows, 0, None, 10), (*shape, 4))


def _unsafe_rbg_fold_in(words: Any, data: Any) -> Any:
    rows = rng_bit_generator(_rbg_seed(data), (10, 4), uint32)[1]
    return bitwise_xor(words, squeeze(slice_in_dim(rows, 9, 10), (0,)))


RBG = register_implementation(PRNGImpl((4,), _rbg_seed, _rbg_split, _rbg_random_bits, _rbg_fold_in, "rbg", "rbg"))
UNSAFE_RBG = register_implementation(
    PRNGImpl((4,), _rbg_seed, _unsafe_rbg_split, _rbg_random_bits, _unsafe_rbg_fold_in, "unsafe_rbg", "urbg")
)
