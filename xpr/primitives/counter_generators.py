"""More generators that scramble counts: Threefry-4x32, Philox-2x32 and Philox-4x32, as elementwise operations.

Each is a function of the words of a key and those of a counter; arrays of bits, keys that are split and data that are
folded in are counters with the count in some of their words. Which words those are, and how the results are put
together, is JAX's choice, so that the numbers are the same. Source: Salmon, Moraes, Dror and Shaw, "Parallel random
numbers: as easy as 1, 2, 3" (SC 2011), with 20 rounds of Threefry and 10 of Philox.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from xpr.dtypes import uint32
from xpr.key_types import PRNGImpl, register_implementation
from xpr.primitives.composites import mulhi
from xpr.primitives.elementwise import (
    add,
    bitwise_or,
    bitwise_xor,
    convert_element_type,
    mul,
    shift_left,
    shift_right_logical,
)
from xpr.primitives.generators import check_width, halves_of_seed, stacked
from xpr.primitives.random_bits import PARITY, ZERO_WORD, element_counts, joined
from xpr.primitives.shapes import squeeze
from xpr.primitives.slicing import slice_in_dim

__all__: list[str] = []

Words = list[Any]

_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))  # are added to the key after each round of Philox
_PHILOX_2, _PHILOX_4 = np.uint32(0xD256D193), (np.uint32(0xD2511F53), np.uint32(0xCD9E8D57))


def _xor(*words: Any) -> Any:
    return reduce(bitwise_xor, words)


def _rotated(x: Any, shift: int) -> Any:
    return bitwise_or(shift_left(x, np.uint32(shift)), shift_right_logical(x, np.uint32(32 - shift)))


def threefry4x32(key: Sequence[Any], counter: Sequence[Any]) -> Words:
    """Four words scrambled by a key of four words."""
    keys = [*key, _xor(*key, np.uint32(PARITY))]
    x = list(map(add, counter, key))
    for i in range(20):
        for target, source, shift in zip((0, 2), (1, 3) if i % 2 == 0 else (3, 1), _ROTATIONS[i % 8]):
            x[target] = add(x[target], x[source])
            x[source] = bitwise_xor(x[target], _rotated(x[source], shift))
        if i % 4 == 3:
            group = i // 4 + 1
            x = [add(word, keys[(group + j) % 5]) for j, word in enumerate(x)]
            x[3] = add(x[3], np.uint32(group))
    return x


def philox2x32(key: Sequence[Any], counter: Sequence[Any]) -> Words:
    """Two words scrambled by a key of one word."""
    (k,), (x0, x1) = key, counter
    for i in range(10):
        k = add(k, _WEYL[0]) if i else k
        x0, x1 = _xor(mulhi(x0, _PHILOX_2), x1, k), mul(x0, _PHILOX_2)
    return [x0, x1]


def philox4x32(key: Sequence[Any], counter: Sequence[Any]) -> Words:
    """Four words scrambled by a key of two words."""
    (k0, k1), (x0, x1, x2, x3) = key, counter
    first, second = _PHILOX_4
    for i in range(10):
        k0, k1 = (add(k0, _WEYL[0]), add(k1, _WEYL[1])) if i else (k0, k1)
        x0, x1, x2, x3 = (
            _xor(mulhi(x2, second), x1, k0), mul(x2, second), _xor(mulhi(x0, first), x3, k1), mul(x0, first),
        )  # fmt: skip
    return [x0, x1, x2, x3]


# -- Generators made of them


def _words(key: Any, count: int) -> Words:
    return [squeeze(slice_in_dim(key, i, i + 1), (0,)) for i in range(count)]


def _generator(name: str, tag: str, scramble: Any, key_size: int, size: int, seeded: Any, combined: Any) -> PRNGImpl:
    """A generator of keys of `key_size` words, the first ones of the `size` words that `scramble` gives.

    Counts of elements are the first two words of a counter, those of keys and data that are folded in the last two.
    """
    zeros = [ZERO_WORD] * (size - 2)

    def as_key(words: Words) -> Any:
        return stacked(words[:key_size])

    def seed(number: Any) -> Any:
        return as_key(seeded(_words(halves_of_seed(number), 2)))

    def split(key: Any, shape: tuple[int, ...]) -> Any:
        return as_key(scramble(_words(key, key_size), [*zeros, *element_counts(shape)]))

    def fold_in(key: Any, data: Any) -> Any:
        counter = [*zeros, ZERO_WORD, convert_element_type(data, uint32)]
        return as_key(scramble(_words(key, key_size), counter))

    def random_bits(key: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
        check_width(bit_width)
        drawn = scramble(_words(key, key_size), [*element_counts(shape), *zeros])
        high, low = combined(drawn, bit_width)
        return joined(high, low, bit_width)

    return register_implementation(PRNGImpl((key_size,), seed, split, random_bits, fold_in, name, tag))


def _philox4x32_pair(words: Words, bit_width: int) -> Words:
    return words[:2] if bit_width == 64 else [_xor(words[0], words[1]), _xor(words[2], words[3])]


THREEFRY4X32 = _generator(
    "threefry4x32", "fry4", threefry4x32, 4, 4,
    lambda halves: threefry4x32([*halves, ZERO_WORD, ZERO_WORD], [ZERO_WORD] * 4),
    lambda words, _: [_xor(words[0], words[2]), _xor(words[1], words[3])],
)  # fmt: skip
PHILOX2X32 = _generator(
    "philox2x32", "phx2", philox2x32, 1, 2,
    lambda halves: philox2x32([ZERO_WORD], halves),
    lambda words, _: words,
)  # fmt: skip
PHILOX4X32 = _generator(
    "philox4x32", "phx4", philox4x32, 2, 4,
    lambda halves: philox4x32([ZERO_WORD] * 2, [*halves, ZERO_WORD, ZERO_WORD]),
    _philox4x32_pair,
)  # fmt: skip
