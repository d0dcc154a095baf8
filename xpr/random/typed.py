"""Typed keys: an array of keys as an object of its own, on which arithmetic is an error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xpr.backend.sharding import NamedSharding, Shard, Sharding
from xpr.core.avals import describe
from xpr.core.interpreter import Tracer
from xpr.core.key_words import Words
from xpr.dtypes import KeyType
from xpr.numpy.indexing.at import IndexUpdateRef
from xpr.numpy.indexing.read import getitem
from xpr.primitives.shapes import transpose
from xpr.tree_nodes import register_pytree_with_keys

KEY_TYPE = KeyType()


class PRNGKeyArray(Words):
    """An array of keys: a pytree node around an array of words, uint32[..., 2], whose last axis it hides.

    >>> from xpr import random
    >>> keys = random.split(random.key(0), 3)
    >>> keys.shape
    (3,)
    >>> keys[0]
    Array((), dtype=key<fry>) overlaying:
    [1797259609 2579123966]
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # equality is entry by entry

    dtype = KEY_TYPE
    itemsize = KEY_TYPE.itemsize

    @property
    def size(self) -> int:
        """The number of keys."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of all keys."""
        return self.size * self.itemsize

    @property
    def T(self) -> PRNGKeyArray:
        """The array with its axes in reverse order."""
        return self.transpose()

    def __repr__(self) -> str:
        if isinstance(self.words, Tracer):
            return f"Traced<key<fry>[{','.join(map(str, self.shape))}]>of<{self.words!r}>"
        return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{np.asarray(self.words)}"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a single key, which has no axes.")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("A key is neither true nor false.")

    def __getitem__(self, index: Any) -> PRNGKeyArray:
        return PRNGKeyArray(getitem(self.words, _index_of_words(index)))

    @property
    def at(self) -> KeyUpdateHelper:
        """Keys to be replaced or read: `keys.at[index].set(others)`, `keys.at[index].get()`."""
        return KeyUpdateHelper(self)

    def __iter__(self) -> Iterator[PRNGKeyArray]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> Any:
        return (self.words == other.words).all(axis=-1) if isinstance(other, PRNGKeyArray) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return (self.words != other.words).any(axis=-1) if isinstance(other, PRNGKeyArray) else NotImplemented

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("An array of keys has no NumPy form; xpr.random.key_data(keys) gives their words.")

    def reshape(self, *shape: Any) -> PRNGKeyArray:
        """The same keys in another shape; one size may be -1."""
        return PRNGKeyArray(self.words.reshape((*_sizes(shape), 2)))

    def ravel(self) -> PRNGKeyArray:
        """The keys along one axis."""
        return self.reshape(-1)

    flatten = ravel

    def squeeze(self, axis: int | Sequence[int] | None = None) -> PRNGKeyArray:
        """The array without axes of size 1."""
        axes = [i for i, n in enumerate(self.shape) if n == 1] if axis is None else axis
        axes = [axes] if isinstance(axes, int) else axes
        return PRNGKeyArray(self.words.squeeze(tuple(a % self.ndim for a in axes)))

    def transpose(self, *axes: Any) -> PRNGKeyArray:
        """The array with its axes in another order, in reverse order where none is given."""
        order = _sizes(axes) if axes and axes != (None,) else tuple(reversed(range(self.ndim)))
        return PRNGKeyArray(transpose(self.words, (*(a % self.ndim for a in order), self.ndim)))

    def copy(self) -> PRNGKeyArray:
        """The same keys; they can't be changed, so nothing is copied."""
        return PRNGKeyArray(self.words)

    def block_until_ready(self) -> PRNGKeyArray:
        """Waits until the keys have been computed."""
        self.words.block_until_ready()
        return self

    def devices(self) -> set[Any]:
        """The devices the keys are on."""
        return self.words.devices()

    @property
    def device(self) -> Any:
        """The device the keys are on; for those that were put by a sharding, that."""
        return self.sharding if isinstance(self.words.device, NamedSharding) else self.words.device

    @property
    def sharding(self) -> Sharding:
        """How the keys lie on devices."""
        found = self.words.sharding
        return found.with_spec(found.spec[: self.ndim]) if isinstance(found, NamedSharding) else found

    @property
    def addressable_shards(self) -> list[Shard]:
        """What each device of this process holds of the keys."""
        return [
            Shard(each.device, each.index[:-1], each.replica_id, PRNGKeyArray(each.data))
            for each in self.words.addressable_shards
        ]

    @property
    def committed(self) -> bool:
        """Whether the keys were put on their device by name."""
        return self.words.committed

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device of the keys holds all of them."""
        return self.words.is_fully_replicated

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all of the keys are on devices of this process."""
        return self.words.is_fully_addressable


class KeyUpdateHelper:
    """`keys.at`, to be indexed."""

    __slots__ = ("keys",)

    def __init__(self, keys: PRNGKeyArray):
        self.keys = keys

    def __getitem__(self, index: Any) -> KeyUpdateRef:
        return KeyUpdateRef(IndexUpdateRef(self.keys.words, _index_of_words(index)))


class KeyUpdateRef:
    """`keys.at[index]`: keys are replaced and read, and nothing else makes sense of them."""

    __slots__ = ("words",)

    def __init__(self, words: IndexUpdateRef):
        self.words = words

    def set(self, values: PRNGKeyArray, **options: Any) -> PRNGKeyArray:
        """The array with other keys in the places of these; options are those of `x.at[i].set`.

        Raises:
          TypeError: the values are no keys.
        """
        if not isinstance(values, PRNGKeyArray):
            raise TypeError(f"keys.at[...].set: takes keys, and got {describe(values)}.")
        return PRNGKeyArray(self.words.set(values.words, **options))

    def get(self, **options: Any) -> PRNGKeyArray:
        """These keys; options are those of `x.at[i].get`."""
        return PRNGKeyArray(self.words.get(**options))


def _index_of_words(index: Any) -> tuple[Any, ...]:
    index = index if isinstance(index, tuple) else (index,)
    rest = (slice(None),) if any(i is Ellipsis for i in index) else (Ellipsis, slice(None))
    return (*index, *rest)


def _sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def _unflatten(data: None, children: Any) -> PRNGKeyArray:
    (words,) = children
    return PRNGKeyArray(words)


class _NoStep:
    """The step of a path from an array of keys to its words, which users don't take: it prints as nothing."""

    def __str__(self) -> str:
        return ""


_NO_STEP = _NoStep()
register_pytree_with_keys(
    PRNGKeyArray, lambda keys: (((_NO_STEP, keys.words),), None), _unflatten, lambda keys: ((keys.words,), None)
)
