"""Rejection sampling: how its loops draw numbers, for each element or block of elements from a key of its own.

Keys of threefry2x32 are two arrays of words with an element for each key, so one loop draws for all elements at once. A
key of any other generator is one array of words, and elements are drawn one after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.config import settings
from xpr.core.avals import aval_of
from xpr.key_types import PRNGImpl
from xpr.primitives.dimension_values import size_as
from xpr.primitives.dynamic_slices import dynamic_slice_p, dynamic_update_slice_p
from xpr.primitives.elementwise import add, lt
from xpr.primitives.elementwise_while import iterate, iterate_blocks
from xpr.primitives.generators import THREEFRY
from xpr.primitives.random_bits import BITS_FOR, child, element_counts, joined, threefry2x32, unit_floats
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, full, reshape, squeeze
from xpr.primitives.slicing import slice_in_dim

Condition = Callable[..., Any]
Step = Callable[..., Sequence[Any]]
Words = list[Any]  # the words of a key, or of many keys, as arrays


class ByElement:
    """Draws by threefry2x32: keys are two arrays, of one shape."""

    def split(self, words: Words, number: int) -> list[Words]:
        """The keys that each key splits into."""
        return [list(child(words[0], words[1], i)) for i in range(number)]

    def floats(self, words: Words, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Numbers of [0, 1) of a shape, whose first axes number the keys: each draws a block."""
        keys = range(aval_of(words[0]).ndim)
        k0, k1 = (broadcast_in_dim(k, shape, keys) for k in words)
        high, low = element_counts(shape[len(keys) :])
        return unit_floats(joined(*threefry2x32(k0, k1, high, broadcast_to(low, shape)), BITS_FOR[dtype]), dtype)

    def repeat(self, condition: Condition, step: Step, *state: Any) -> list[Any]:
        """The state after a loop in which each element has its own number of steps."""
        return iterate(condition, step, *state)

    def repeat_blocks(self, condition: Condition, step: Step, words: Words, *state: Any) -> list[Any]:
        """The state, which begins with the words, after a loop with a number of steps for each key's block."""
        return iterate_blocks(condition, step, aval_of(words[0]).ndim, *words, *state)


class ByKey:
    """Draws by any generator: a key is one array of words."""

    def __init__(self, impl: PRNGImpl):
        self.impl = impl

    def split(self, words: Words, number: int) -> list[Words]:
        keys = self.impl.split(words[0], (number,))
        return [[squeeze(slice_in_dim(keys, i, i + 1), (0,))] for i in range(number)]

    def floats(self, words: Words, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return unit_floats(self.impl.random_bits(words[0], BITS_FOR[dtype], shape), dtype)

    def repeat(self, condition: Condition, step: Step, *state: Any) -> list[Any]:
        return iterate_blocks(condition, step, 0, *state)

    def repeat_blocks(self, condition: Condition, step: Step, words: Words, *state: Any) -> list[Any]:
        return iterate_blocks(condition, step, 0, *words, *state)


Draws = ByElement | ByKey


def drawn(
    fun: Callable[[Draws, Words, Any], Any], impl: PRNGImpl, words: Any, parameters: Any, rank: int, dtype: np.dtype
) -> Any:
    """The results of `fun(draws, words, parameters)`, which have the shape of the parameters and a dtype.

    Args:
      fun: draws for many keys at once by threefry2x32, and for one key by other generators.
      impl: the generator.
      words: those of the keys, whose axes are the first `rank` ones of the parameters.
      parameters: the parameters of the distribution.
      rank: the number of axes of the keys.
      dtype: the dtype of the results.
    """
    if impl is THREEFRY and settings.threefry_partitionable:
        return fun(
            ByElement(), [squeeze(slice_in_dim(words, i, i + 1, axis=rank), (rank,)) for i in (0, 1)], parameters
        )
    draws, aval = ByKey(impl), aval_of(parameters)
    if not rank:
        return fun(draws, [words], parameters)
    count, block = math.prod(aval.shape[:rank]), aval.shape[rank:]
    if not count:
        return full(aval.shape, 0, dtype)

    def row(x: Any, i: Any) -> Any:
        shape = aval_of(x).shape[1:]
        starts = (i, *[np.int32(0)] * len(shape))
        return reshape(dynamic_slice_p.bind(x, *starts, slice_sizes=(1, *shape)), shape)

    def step(i: Any, words: Any, parameters: Any, outs: Any) -> list[Any]:
        out = fun(draws, [row(words, i)], row(parameters, i))
        start = (i, *[np.int32(0)] * len(block))
        outs = dynamic_update_slice_p.bind(outs, reshape(out, (1, *block)), *start)
        return [add(i, np.int32(1)), words, parameters, outs]

    rows = reshape(words, (count, *impl.key_shape)), reshape(parameters, (count, *block))
    outs = full((count, *block), 0, dtype)

    def goes_on(i: Any, *_: Any) -> Any:
        return lt(i, size_as(count, np.dtype(np.int32)))

    *_, outs = iterate_blocks(goes_on, step, 0, np.int32(0), *rows, outs)
    return reshape(outs, aval.shape)
