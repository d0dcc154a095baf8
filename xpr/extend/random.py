"""Generators of random bits: those of the library, and one's own.

A generator is functions of the words of one key. `define_prng_impl` makes one that `random.key(seed, impl=...)` takes;
its keys then split and draw by these functions, under every transformation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core.avals import aval_of
from xpr.dtypes import uint32
from xpr.key_types import PRNGImpl
from xpr.numpy.creation import asarray
from xpr.primitives import generators, random_keys
from xpr.primitives.random_bits import threefry2x32_p as threefry2x32_p
from xpr.primitives.shapes import reshape
from xpr.random.keys import PRNGSpec

__all__ = [
    "define_prng_impl", "random_seed", "rbg_prng_impl", "seed_with_impl", "threefry2x32_p", "threefry_2x32",
    "threefry_prng_impl", "unsafe_rbg_prng_impl",
]  # fmt: skip

threefry_prng_impl = generators.THREEFRY
rbg_prng_impl = generators.RBG
unsafe_rbg_prng_impl = generators.UNSAFE_RBG


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable[[Any], Any],
    split: Callable[[Any, tuple[int, ...]], Any],
    random_bits: Callable[[Any, int, tuple[int, ...]], Any],
    fold_in: Callable[[Any, Any], Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> PRNGSpec:
    """A generator of random bits of one's own.

    Its functions are traced, each for one key; for arrays of keys they are mapped, as by `vmap`.

    Args:
      key_shape: the shape of the words of one key, which are uint32.
      seed: `seed(integer)` returns the words of a key, uint32[key_shape], of an integer scalar.
      split: `split(words, shape)` returns the words of new keys, uint32[*shape, *key_shape].
      random_bits: `random_bits(words, bit_width, shape)` returns unsigned integers of `bit_width` bits (8, 16, 32 or
        64), of a shape.
      fold_in: `fold_in(words, data)` returns the words of a key, of those of one and a uint32 scalar.
      name: the name of the generator in messages.
      tag: the name that the dtype of its keys has: `key<tag>`.

    Returns:
      What `random.key`, `wrap_key_data` and others take as `impl`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.extend.random import define_prng_impl
    >>> counting = define_prng_impl(
    ...     key_shape=(1,), name="counting", tag="count",
    ...     seed=lambda seed: jnp.uint32(seed)[None],
    ...     split=lambda words, shape: jnp.broadcast_to(words, (*shape, 1)) + 1,
    ...     random_bits=lambda words, bit_width, shape: jnp.full(shape, words[0], f"uint{bit_width}"),
    ...     fold_in=lambda words, data: words + data,
    ... )
    >>> key = xpr.random.key(5, impl=counting)
    >>> key.dtype, xpr.random.bits(xpr.random.fold_in(key, 2))
    (key<count>, Array(7, dtype=uint32))
    """
    shape = tuple(int(n) for n in key_shape)
    return PRNGSpec(PRNGImpl(shape, seed, split, random_bits, fold_in, name, tag))


def random_seed(seeds: Any, impl: PRNGImpl) -> Any:
    """Typed random keys made from integers.

    Args:
      seeds: an integer, or an array of integers [...].
      impl: a generator, such as `threefry_prng_impl`.

    Returns:
      An array of keys [...].

    Raises:
      TypeError: the seeds are not integers.

    >>> from xpr.extend import random
    >>> random.random_seed(7, random.threefry_prng_impl)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    return random_keys.random_seed(asarray(np.int64(seeds) if type(seeds) is int else seeds), impl)


def seed_with_impl(impl: PRNGImpl, seed: Any) -> Any:
    """Typed random keys of a generator, made from integers; `random_seed` with its arguments in another order.

    >>> from xpr.extend import random
    >>> random.seed_with_impl(random.rbg_prng_impl, 7).dtype
    key<rbg>
    """
    return random_seed(seed, impl)


def threefry_2x32(keypair: tuple[Any, Any], count: Any) -> Any:
    """Counts scrambled by Threefry-2x32, those of the first half together with those of the second.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

    Args:
      keypair: the two words of a key, uint32 scalars.
      count: uint32[...], in row-major order; of an odd number the second half has a 0 at its end.

    Returns:
      uint32[...].

    Raises:
      TypeError: they are of other dtypes.

    >>> import xpr.numpy as jnp
    >>> from xpr.extend import random
    >>> random.threefry_2x32((jnp.uint32(0), jnp.uint32(7)), jnp.arange(3, dtype=jnp.uint32)).shape
    (3,)
    """
    count = asarray(count)
    first, second = keypair
    if any(aval_of(x).dtype != uint32 for x in (first, second, count)):
        types = ", ".join(aval_of(x).str_short() for x in (first, second, count))
        raise TypeError(f"threefry_2x32: takes a key and counts of u32, and got {types}.")
    flat = reshape(count, (aval_of(count).size,))
    return reshape(generators.scrambled_in_halves(first, second, flat), aval_of(count).shape)
