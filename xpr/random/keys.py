"""Keys: what random numbers are drawn from, and how one key makes others.

A key is two 32-bit words. It comes in two forms, which every function takes: an array `uint32[..., 2]` of words
(`PRNGKey`), or a `PRNGKeyArray` around one, which hides the last axis (`key`). Functions that give keys give them in
the form they got. A key should be used once: draw from the keys it splits into.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xpr.backend.array import Array, from_host
from xpr.backend.devices import default_backend
from xpr.config import settings
from xpr.control.compiled import compiled
from xpr.core.avals import Shape, aval_of, describe
from xpr.core.interpreter import Tracer
from xpr.dtypes import BOOL, INTEGERS, KeyType, short_name, uint32
from xpr.numpy.creation import is_eager, shape_of
from xpr.primitives.elementwise import convert_element_type, shift_right_logical
from xpr.primitives.random_bits import ZERO_WORD, entry_counts, key_words, scrambled, threefry2x32
from xpr.primitives.shapes import expand_dims, reshape
from xpr.primitives.slicing import concatenate
from xpr.random.typed import KEY_TYPE, PRNGKeyArray

IMPLEMENTATION = "threefry2x32"


# -- Reading what was given as a key


def words_of(key: Any) -> Any:
    """The words of a key or an array of keys, in either form.

    Raises:
      TypeError: it is neither.
    """
    if type(key) is PRNGKeyArray:
        return key.words
    aval = aval_of(key) if hasattr(key, "dtype") else None
    if aval is None or aval.dtype != uint32 or not aval.ndim or aval.shape[-1] != 2:
        found = describe(key) if aval is None else aval.str_short()
        raise TypeError(
            f"Expected a random key, and got {found}. Keys are made with xpr.random.key(seed), or as u32[2] with "
            "xpr.random.PRNGKey(seed)."
        )
    return key


def one_key(key: Any, name: str) -> Any:
    """The words of a single key, u32[2].

    Raises:
      TypeError: it is not a key.
      ValueError: it is an array of keys.
    """
    words = key.words if type(key) is PRNGKeyArray else words_of(key)
    shape = words.aval.shape if type(words) is Array else aval_of(words).shape
    if len(shape) != 1:
        raise ValueError(
            f"random.{name}: takes a single key, and was given an array of keys of shape {shape[:-1]}. Use one of "
            f"them, or vmap over them: xpr.vmap(lambda key: random.{name}(key, ...))(keys)."
        )
    return words


def like(key: Any, words: Any) -> Any:
    """Keys in the form of `key`."""
    return PRNGKeyArray(words) if type(key) is PRNGKeyArray else words


def _check_implementation(impl: Any) -> None:
    if impl is not None and str(impl) not in (IMPLEMENTATION, KEY_TYPE.name):
        raise ValueError(f"xpr.random has one generator, {IMPLEMENTATION!r}, and impl={impl!r} was asked for.")


# -- Making keys


def _seeded(seed: Any, name: str) -> Any:
    """The words of an integer: its higher half, which is 0 for 32-bit integers, and its lower half."""
    aval = aval_of(seed)
    if aval.dtype not in INTEGERS | BOOL:
        found = f"{short_name(aval.dtype)}: {describe(seed)}"
        raise TypeError(f"random.{name}: the seed must be an integer, and is {found}.")
    if aval.ndim:
        raise TypeError(
            f"random.{name}: the seed must be a scalar, and has shape {aval.shape}. For many keys split one, or vmap "
            f"random.{name} over the seeds."
        )
    if isinstance(seed, Tracer):
        high = shift_right_logical(seed, aval.dtype.type(32)) if aval.dtype.itemsize == 8 else ZERO_WORD
        return concatenate([reshape(convert_element_type(x, uint32), (1,)) for x in (high, seed)], 0)
    number = operator.index(seed.host[()] if type(seed) is Array else seed)
    if not -(1 << 63) <= number < 1 << 64:
        raise OverflowError(f"random.{name}: the seed {number} has more than 64 bits.")
    high = number >> 32 & 0xFFFFFFFF if settings.enable_x64 else 0
    return from_host(np.array([high, number & 0xFFFFFFFF], uint32))


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A key as an array of two words, uint32[2], from an integer seed.

    Raises:
      TypeError: the seed is not an integer scalar.

    >>> from xpr import random
    >>> random.PRNGKey(42)
    Array([ 0, 42], dtype=uint32)
    """
    _check_implementation(impl)
    return _seeded(seed, "PRNGKey")


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> PRNGKeyArray:
    """A key, from an integer seed.

    Raises:
      TypeError: the seed is not an integer scalar.

    >>> from xpr import random
    >>> random.key(42)
    Array((), dtype=key<fry>) overlaying:
    [ 0 42]
    """
    _check_implementation(impl)
    _check_implementation(dtype)
    return PRNGKeyArray(_seeded(seed, "key"))


def key_data(keys: Any) -> Any:
    """The words that keys are made of, uint32[..., 2].

    >>> from xpr import random
    >>> random.key_data(random.key(1))
    Array([0, 1], dtype=uint32)
    """
    return words_of(keys)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> PRNGKeyArray:
    """Keys made of the words uint32[..., 2].

    Raises:
      TypeError: the words have another dtype or shape.

    >>> from xpr import random, numpy as jnp
    >>> random.wrap_key_data(jnp.array([0, 1], jnp.uint32))
    Array((), dtype=key<fry>) overlaying:
    [0 1]
    """
    _check_implementation(impl)
    _check_implementation(dtype)
    words = words_of(key_bits_array)
    return PRNGKeyArray(from_host(np.array(words)) if isinstance(words, np.ndarray) else words)


def key_impl(keys: Any) -> str:
    """The name of the generator that keys are for.

    >>> from xpr import random
    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    words_of(keys)
    return IMPLEMENTATION


def key_dtype(impl_spec: Any = None) -> KeyType:
    """The dtype of typed keys.

    >>> from xpr import random
    >>> random.key_dtype()
    key<fry>
    """
    _check_implementation(impl_spec)
    return KEY_TYPE


def clone(key: Any) -> Any:
    """The same key again, for a second use on purpose.

    >>> from xpr import random
    >>> random.clone(random.PRNGKey(1))
    Array([0, 1], dtype=uint32)
    """
    return like(key, words_of(key))


# -- Keys from keys. A few of them, from a key at hand, are made at once, in Python: there is nothing to compile for it.

AT_ONCE = 16


def _at_hand(words: Any) -> Any:
    """The words of a key as Python integers, or None where there is something to trace or to wait for."""
    if type(words) is not Array or not is_eager() or words._device is not None:
        return None
    if words._host is None and default_backend() != "cpu":
        return None
    return words.host.tolist()


def _children(words: Sequence[int], counts: Iterable[int]) -> list[tuple[int, int]]:
    k0, k1 = words
    return [scrambled(k0, k1, 0, count) for count in counts]


@compiled
def _split(words: Any, *, shape: Shape) -> Any:
    return _joined(threefry2x32(*key_words(words), *entry_counts(shape)))


@compiled
def _fold_in(words: Any, data: Any) -> Any:
    return _joined(threefry2x32(*key_words(words), ZERO_WORD, convert_element_type(data, uint32)))


def _joined(pair: Sequence[Any]) -> Any:
    """Two arrays of words as one with a last axis of size 2."""
    ndim = aval_of(pair[0]).ndim
    return concatenate([expand_dims(x, (ndim,)) for x in pair], ndim)


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """New keys made from one, `num` of them or an array of that shape.

    Raises:
      ValueError: `key` is an array of keys, or a size is negative.

    >>> from xpr import random
    >>> first, second = random.split(random.key(0))
    >>> random.split(random.key(0), (2, 3)).shape
    (2, 3)
    """
    words = one_key(key, "split")
    if isinstance(num, int) and 0 < num <= AT_ONCE:
        known = _at_hand(words)
        if known is not None:
            return like(key, from_host(np.array(_children(known, range(num)), uint32)))
    return like(key, _split(words, shape=shape_of(num)))


def fold_in(key: Any, data: Any) -> Any:
    """A new key made from a key and an integer.

    Raises:
      OverflowError: a Python integer that is not a uint32.
      TypeError: `data` is not a scalar.

    >>> from xpr import random
    >>> random.fold_in(random.PRNGKey(0), 7)
    Array([2716826189,  292468403], dtype=uint32)
    """
    words = one_key(key, "fold_in")
    if type(data) is int:
        if not 0 <= data <= 0xFFFFFFFF:
            raise OverflowError(f"random.fold_in: {data} is not a 32-bit unsigned integer.")
        known = _at_hand(words)
        if known is not None:
            return like(key, from_host(np.array(_children(known, [data])[0], uint32)))
        data = np.uint32(data)
    elif aval_of(data).ndim:
        raise TypeError(
            f"random.fold_in: takes a scalar to fold in, and got {aval_of(data).str_short()}. For many, use "
            "xpr.vmap(random.fold_in, in_axes=(None, 0))."
        )
    return like(key, _fold_in(words, data))
