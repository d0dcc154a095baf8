"""Extended dtypes, which are no numbers: those of random keys. Each names the generator that its keys are for.

An array of keys is in memory an array of uint32 *words*, with the axes of one key's words behind those of the array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np


class extended(np.generic):
    """The dtypes that are no numbers."""


class prng_key(extended):
    """The dtypes of typed random keys."""


@dataclass(frozen=True, repr=False)
class PRNGImpl:
    """A generator of random bits: the shape of its keys' words, and functions of the words of one key.

    Attributes:
      key_shape: the shape of the words of one key, which are uint32.
      seed: `seed(integer) -> words`.
      split: `split(words, shape) -> words [*shape, *key_shape]`.
      random_bits: `random_bits(words, bit_width, shape) -> unsigned integers` of that many bits.
      fold_in: `fold_in(words, integer) -> words`.
      name: the name by which it is asked for.
      tag: the name that the dtype of its keys has in types: `fry` in `key<fry>`.
    """

    key_shape: tuple[int, ...]
    seed: Callable[..., Any]
    split: Callable[..., Any]
    random_bits: Callable[..., Any]
    fold_in: Callable[..., Any]
    name: str = "<unnamed>"
    tag: str = "?"

    def __hash__(self) -> int:
        return hash(self.tag)

    def __str__(self) -> str:
        return self.tag

    def __repr__(self) -> str:
        return f"PRNGImpl({self.name!r}, tag={self.tag!r}, key_shape={self.key_shape})"

    def __reduce__(self) -> Any:
        if implementations.get(self.name) is self:
            return _named, (self.name,)
        return PRNGImpl, tuple([getattr(self, field.name) for field in fields(self)])

    def __deepcopy__(self, memo: Any) -> PRNGImpl:
        return self


implementations: dict[str, PRNGImpl] = {}  # by name, those that have one of their own


def register_implementation(impl: PRNGImpl) -> PRNGImpl:
    """Makes a generator known by its name, and the dtype of its keys in texts of jaxprs by its tag.

    Raises:
      ValueError: another one has that name.
    """
    if impl.name in implementations:
        raise ValueError(f"There is a generator of the name {impl.name!r} already.")
    implementations[impl.name] = impl
    return impl


def _named(name: str) -> PRNGImpl:
    return implementations[name]


class KeyType:
    """The dtype of the typed keys of a generator: not a number's, so arithmetic on keys is an error.

    There is one for each generator: `is` is equality.
    """

    __slots__ = ("_impl", "itemsize", "name", "__weakref__")
    _impl: PRNGImpl
    name: str
    itemsize: int
    type = prng_key
    kind = "key"  # where NumPy's dtypes have one letter

    _interned: ClassVar[dict[PRNGImpl, KeyType]] = {}

    def __new__(cls, impl: PRNGImpl) -> KeyType:
        known = cls._interned.get(impl)
        if known is None:
            known = object.__new__(cls)
            known._impl, known.name, known.itemsize = impl, f"key<{impl.tag}>", 4 * math.prod(impl.key_shape)
            known = cls._interned.setdefault(impl, known)
        return known

    @property
    def key_shape(self) -> tuple[int, ...]:
        """The shape of the words of one key."""
        return self._impl.key_shape

    def __reduce__(self) -> Any:
        return KeyType, (self._impl,)

    def __repr__(self) -> str:
        return self.name


def of_tag(tag: str) -> PRNGImpl | None:
    """The generator with a tag, among those that have names; None if there is none."""
    return next((impl for impl in implementations.values() if impl.tag == tag), None)


def key_type_of_text(text: str) -> KeyType | None:
    """The dtype `key<tag>` of the named generator with a tag; None if there is none."""
    impl = of_tag(text[4:-1]) if text.startswith("key<") else None
    return None if impl is None else KeyType(impl)
