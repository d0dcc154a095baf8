"""Random keys: made from seeds, split into new keys, and read by the functions that draw random numbers.

A typed key (`key`) is an array of a dtype that names its generator, `key<fry>`. A key can also be an array of its
words, uint32 (`PRNGKey`), of the generator that the setting `default_prng_impl` names. Functions that return keys
return them in the form of their argument. A key should be used once: draw from the keys it splits into.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xpr.backend.array import Array, from_words
from xpr.backend.devices import default_backend
from xpr.compile.over_mesh import MeshTrace
from xpr.config import settings
from xpr.core.avals import Shape, aval_of, describe, is_key
from xpr.core.interpreter import Tracer, transformation
from xpr.core.source import depth_of_user
from xpr.dtypes import BOOL, INTEGERS, short_name, uint32
from xpr.key_types import KeyType, PRNGImpl, implementations
from xpr.notices import warn
from xpr.numpy.creation import is_eager
from xpr.primitives import counter_generators as counter_generators  # which makes generators known by their names
from xpr.primitives.elementwise import add, convert_element_type
from xpr.primitives.generators import THREEFRY
from xpr.primitives.random_bits import scrambled
from xpr.primitives.random_keys import (
    impl_of,
    random_fold_in,
    random_seed,
    random_split,
    random_unwrap,
    random_wrap,
)
from xpr.primitives.shapes import shape_of
from xpr.transforms.stage import StageTrace

__all__ = ["clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "PRNGKey", "split", "wrap_key_data"]


# -- Generators


class PRNGSpec:
    """A generator without a registered name, as `define_prng_impl` makes it; `impl` may be one."""

    __slots__ = ("_impl",)

    def __init__(self, impl: PRNGImpl):
        self._impl = impl

    def __repr__(self) -> str:
        return f"PRNGSpec({self._impl.name!r})"

    def __str__(self) -> str:
        return str(self._impl)

    def __hash__(self) -> int:
        return hash(self._impl)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PRNGSpec) and self._impl == other._impl


def implementation(impl: Any, dtype: Any = None, name: str = "key") -> PRNGImpl:
    """The generator that a name, a dtype of keys or a generator itself stands for; the default one for None.

    Raises:
      ValueError: there is no generator of that name, or both `impl` and `dtype` are given.
      TypeError: `impl` or `dtype` is anything else.
    """
    if dtype is not None and impl is not None:
        raise ValueError(f"random.{name}: Cannot specify both `impl` and `dtype`, and got {impl!r} and {dtype!r}.")
    spec = impl if dtype is None else dtype
    if spec is None:
        return implementations[settings.default_prng_impl]
    if isinstance(spec, PRNGImpl):
        return spec
    if isinstance(spec, (PRNGSpec, KeyType)):
        return spec._impl
    if not isinstance(spec, str):
        raise TypeError(
            f"random.{name}: unrecognized type of a PRNG implementation: {describe(spec)}. Give its name, or the dtype "
            "of its keys."
        )
    if spec not in implementations:
        known = ", ".join(map(repr, implementations))
        raise ValueError(f"random.{name}: unrecognized PRNG implementation {spec!r}; those with a name are {known}.")
    return implementations[spec]


# -- Keys as arguments


def typed_keys(key: Any) -> Any:
    """A key or an array of keys, in either form, as an array of a dtype of keys.

    Raises:
      TypeError: it is neither.
    """
    aval = getattr(key, "aval", None)
    if aval is not None and is_key(aval):
        return key
    impl = implementations[settings.default_prng_impl]
    aval = aval_of(key) if hasattr(key, "dtype") else None
    ndim = len(impl.key_shape)
    if aval is None or aval.dtype != uint32 or aval.ndim < ndim or aval.shape[aval.ndim - ndim :] != impl.key_shape:
        described = describe(key) if aval is None else aval.str_short()
        raise TypeError(
            f"JAX encountered invalid PRNG key data: expected a random key, and got {described}. Keys are made with "
            f"xpr.random.key(seed), or as u32[{','.join(map(str, impl.key_shape))}] with xpr.random.PRNGKey(seed)."
        )
    if settings.legacy_prng_key != "allow":
        _warn_legacy_key()
    return random_wrap(key, impl)


def _warn_legacy_key() -> None:
    text = (
        "Legacy uint32 key array passed as key to jax.random function. This is said since the setting legacy_prng_key "
        f'is "{settings.legacy_prng_key}". Make keys with '
        "xpr.random.key(seed), or turn this one into such a key with xpr.random.wrap_key_data."
    )
    if settings.legacy_prng_key == "error":
        raise ValueError(text)
    warn(text, UserWarning, stacklevel=depth_of_user())


def one_key(key: Any, name: str) -> Any:
    """A single key, of a dtype of keys.

    Raises:
      TypeError: it is not a key.
      ValueError: it is an array of keys.
    """
    typed = typed_keys(key)
    shape = typed.aval.shape
    if shape:
        raise ValueError(
            f"random.{name}: takes a single key, and was given an array of keys of shape {shape}. Use one of "
            f"them, or vmap over them: xpr.vmap(lambda key: random.{name}(key, ...))(keys)."
        )
    return typed


def like(key: Any, keys: Any) -> Any:
    """Keys in the form of `key`, or typed ones where the setting enable_custom_prng is on."""
    return keys if settings.enable_custom_prng or is_key(aval_of(key)) else random_unwrap(keys)


# -- Making keys


def _seeded(seed: Any, impl: PRNGImpl, name: str) -> Any:
    """The key of a seed. Of a known integer, while nothing is staged, no program is needed for Threefry's."""
    aval = aval_of(seed)
    if is_key(aval):
        raise TypeError(
            f"random.{name} accepts a scalar seed, an integer, and got random keys, {aval.str_short()}. New keys are "
            "made from keys by random.split and random.fold_in."
        )
    if aval.dtype not in INTEGERS | BOOL:
        described = f"{short_name(aval.dtype)}: {describe(seed)}"
        raise TypeError(f"random.{name}: the PRNG key seed must be an integer, and is {described}.")
    if aval.ndim:
        raise TypeError(
            f"random.{name} accepts a scalar seed, and this one has shape {aval.shape}. For many keys split one, or "
            f"vmap random.{name} over the seeds."
        )
    if isinstance(seed, Tracer):
        seed = convert_element_type(seed, uint32) if aval.dtype in BOOL else seed
        offset = settings.random_seed_offset
        return random_seed(add(seed, aval_of(seed).dtype.type(offset)) if offset else seed, impl)
    number = operator.index(seed.host[()] if type(seed) is Array else seed) + settings.random_seed_offset
    if not -(1 << 63) <= number < 1 << (63 if isinstance(seed, int) else 64):
        raise OverflowError(f"random.{name}: the seed {number} is out of int64's range, -2**63 to 2**63 - 1.")
    if impl is THREEFRY and type(transformation()) not in (StageTrace, MeshTrace):
        high = number >> 32 & 0xFFFFFFFF if settings.enable_x64 else 0
        return from_words(np.array([high, number & 0xFFFFFFFF], uint32), KeyType(impl))
    bits = 64 if settings.enable_x64 else 32
    signed = (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    return random_seed(np.dtype(f"int{bits}").type(signed), impl)


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A random key as an array of words, made from an integer seed.

    Args:
      seed: an integer scalar.
      impl: the generator, by its name or the dtype of its keys; None for that which the setting `default_prng_impl`
        names.

    Returns:
      The words of a key, as many as the generator has: uint32[2] for "threefry2x32", uint32[4] for "rbg". A typed key
      where the setting enable_custom_prng is on.

    Raises:
      TypeError: the seed is not an integer scalar.
      OverflowError: the seed is out of the range of int64.
      ValueError: there is no such generator.

    >>> from xpr import random
    >>> random.PRNGKey(42)
    Array([ 0, 42], dtype=uint32)
    """
    made = _seeded(seed, implementation(impl, name="PRNGKey"), "PRNGKey")
    return made if settings.enable_custom_prng else random_unwrap(made)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """A typed random key, made from an integer seed.

    Args:
      seed: an integer scalar.
      impl: the generator, by its name; None for that which the setting `default_prng_impl` names.
      dtype: the dtype of keys, or the name of the generator, instead of `impl`.

    Returns:
      A scalar array of the generator's dtype of keys.

    Raises:
      TypeError: the seed is not an integer scalar.
      OverflowError: the seed is out of the range of int64.
      ValueError: there is no such generator, or `impl` and `dtype` are both given.

    >>> from xpr import random
    >>> random.key(42)
    Array((), dtype=key<fry>) overlaying:
    [ 0 42]
    """
    return _seeded(seed, implementation(impl, dtype), "key")


def key_data(keys: Any) -> Any:
    """The words that keys consist of.

    Args:
      keys: an array of keys [...].

    Returns:
      uint32[..., n]: the axes of the keys, and those of one key's words.

    >>> from xpr import random
    >>> random.key_data(random.key(1))
    Array([0, 1], dtype=uint32)
    """
    return random_unwrap(typed_keys(keys))


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Typed random keys made from their words.

    Args:
      key_bits_array: words, uint32[..., n], whose last axes have the shape of one key's.
      impl: the generator, by its name; None for that which the setting `default_prng_impl` names.
      dtype: the dtype of keys, or the name of the generator, instead of `impl`.

    Returns:
      An array of keys [...].

    Raises:
      TypeError: the words have another dtype or shape.
      ValueError: there is no such generator, or `impl` and `dtype` are both given.

    >>> from xpr import random, numpy as jnp
    >>> random.wrap_key_data(jnp.array([0, 1], jnp.uint32))
    Array((), dtype=key<fry>) overlaying:
    [0 1]
    """
    return random_wrap(key_bits_array, implementation(impl, dtype, "wrap_key_data"))


def key_impl(keys: Any) -> Any:
    """The generator of keys: its name, which `key` and others take as `impl`.

    Args:
      keys: an array of keys.

    Returns:
      The name, a string; for a generator without a name a `PRNGSpec`, which `impl` may be, too.

    >>> from xpr import random
    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    impl = impl_of(typed_keys(keys).aval)
    return impl.name if implementations.get(impl.name) == impl else PRNGSpec(impl)


def key_dtype(impl_spec: Any = None) -> KeyType:
    """The dtype of the typed keys of a generator.

    Args:
      impl_spec: the generator, by its name; None for that which the setting `default_prng_impl` names.

    Returns:
      The dtype.

    >>> from xpr import random
    >>> random.key_dtype()
    key<fry>
    """
    return KeyType(implementation(impl_spec, name="key_dtype"))


def clone(key: Any) -> Any:
    """The same key again, for a second use on purpose.

    >>> from xpr import random
    >>> random.clone(random.PRNGKey(1))
    Array([0, 1], dtype=uint32)
    """
    return like(key, random_wrap(random_unwrap(typed := typed_keys(key)), impl_of(typed.aval)))


# -- Keys from keys. A few of them, from a key with a known value, are computed in Python: nothing is compiled.

MOST_ON_HOST = 16


def _words_on_host(key: Any) -> Any:
    """The words of a Threefry key as Python integers; None if the key is traced or still being computed."""
    if type(key) is not Array or not is_eager() or key._device is not None or not settings.threefry_partitionable:
        return None
    if impl_of(key.aval) is not THREEFRY or (key._host is None and default_backend() != "cpu"):
        return None
    return key.host.tolist()


def _keys_of_counts(words: Sequence[int], counts: Iterable[int], dtype: Any, shape: Shape) -> Array:
    """The keys that a key of those words gives for counts, as `random_split` and `random_fold_in` compute them."""
    k0, k1 = words
    pairs = [scrambled(k0, k1, 0, count) for count in counts]
    return from_words(np.array(pairs, uint32).reshape(*shape, 2), dtype)


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """New random keys made from one.

    Args:
      key: a single random key.
      num: the number of keys, or the shape of the array of keys.

    Returns:
      An array of keys, in the form of `key`.

    Raises:
      ValueError: `key` is an array of keys, or a size is negative.

    >>> from xpr import random
    >>> first, second = random.split(random.key(0))
    >>> random.split(random.key(0), (2, 3)).shape
    (2, 3)
    """
    typed = one_key(key, "split")
    if isinstance(num, int) and 0 < num <= MOST_ON_HOST:
        words = _words_on_host(typed)
        if words is not None:
            return like(key, _keys_of_counts(words, range(num), typed.dtype, (num,)))
    return like(key, random_split(typed, shape_of(num)))


def fold_in(key: Any, data: Any) -> Any:
    """A new random key made from a key and an integer.

    Args:
      key: a single random key.
      data: a Python integer from 0 to 2^32 - 1, or an integer scalar.

    Returns:
      A key in the form of `key`.

    Raises:
      OverflowError: a Python integer that is not a uint32.
      TypeError: `data` is not a scalar.

    >>> from xpr import random
    >>> random.fold_in(random.PRNGKey(0), 7)
    Array([2716826189,  292468403], dtype=uint32)
    """
    typed = one_key(key, "fold_in")
    if type(data) is int:
        if not 0 <= data <= 0xFFFFFFFF:
            raise OverflowError(f"random.fold_in: {data} is not a 32-bit unsigned integer.")
        words = _words_on_host(typed)
        if words is not None:
            return like(key, _keys_of_counts(words, [data], typed.dtype, ()))
        data = np.uint32(data)
    elif aval_of(data).ndim:
        raise TypeError(
            f"random.fold_in: takes a scalar to fold in, and got {aval_of(data).str_short()}. For many, use "
            "xpr.vmap(random.fold_in, in_axes=(None, 0))."
        )
    if aval_of(data).dtype != uint32:
        data = convert_element_type(data, uint32)
    return like(key, random_fold_in(typed, data))
