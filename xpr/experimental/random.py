"""`jax.experimental.random`: generators of random numbers that update themselves, as NumPy's do."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr import random
from xpr.backend.array import Array
from xpr.core.avals import aval_of, is_key
from xpr.core.interpreter import Tracer, context
from xpr.core.refs import Ref
from xpr.numpy import asarray, zeros
from xpr.numpy.refs import addupdate, get, new_ref
from xpr.tree_nodes import register_dataclass

__all__ = ["StatefulPRNG", "stateful_rng"]


def _shape_of(size: int | Sequence[int] | None, *arguments: Any) -> tuple[int, ...]:
    """The shape of a draw: `size`, or that to which the parameters of the distribution broadcast."""
    if size is None:
        return np.broadcast_shapes(*(aval_of(x).shape for x in arguments))
    return (operator.index(size),) if isinstance(size, (int, np.integer)) else tuple(map(operator.index, size))


@register_dataclass
@dataclass(frozen=True, slots=True)
class StatefulPRNG:
    """A generator of random numbers that keeps count of what it has drawn, in a `Ref`.

    `stateful_rng` makes one. It is a pytree of a key and a counter: functions that are transformed take it as an
    argument or close over it, and don't return it.

    Raises:
      ValueError: the first is an array and not one of typed keys, or the second is not a `Ref` then.

    >>> from xpr.experimental import random
    >>> rng = random.stateful_rng(42)
    >>> rng.uniform(), rng.uniform()
    (Array(0.5302608, dtype=float32), Array(0.72766423, dtype=float32))
    """

    _base_key: Any
    _counter: Ref

    def __post_init__(self) -> None:
        key, counter = self._base_key, self._counter
        if not isinstance(key, (Array, Tracer)):
            return  # pytrees are unflattened with leaves of any kind
        if not is_key(aval_of(key)):
            raise ValueError(
                f"StatefulPRNG: Expected base_key to be a typed PRNG key; got {aval_of(key).str_short()}. "
                "random.key(seed) makes one, and stateful_rng(seed) the generator."
            )
        if not isinstance(counter, Ref):
            raise ValueError(
                f"StatefulPRNG: Expected counter to be a scalar integer ref; got {counter!r}. new_ref(0) makes one, "
                "and stateful_rng(seed) the generator."
            )

    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A new typed key, or an array of keys.

        Args:
          shape: the shape of the array; `()` for a single key.

        Returns:
          Keys that are independent of those before.

        Raises:
          ValueError: the generator is one of several, made by `split`, outside of the `vmap` that maps them.

        >>> import xpr
        >>> from xpr.experimental import random
        >>> xpr.random.key_data(random.stateful_rng(0).key())
        Array([1797259609, 2579123966], dtype=uint32)
        """
        if self._base_key.shape:
            raise ValueError(
                f"StatefulPRNG: this is an array of generators, of shape {self._base_key.shape}, which split has made. "
                "Map a function of one generator over it with vmap."
            )
        key = random.fold_in(self._base_key, get(self._counter))
        addupdate(self._counter, ..., 1)
        sizes = _shape_of(shape)
        return random.split(key, sizes) if sizes else key

    def random(self, size: int | Sequence[int] | None = None, dtype: Any = float) -> Any:
        """Uniform random floats from [0, 1).

        Args:
          size: the shape of the result; None for a scalar.
          dtype: a floating-point dtype.

        Returns:
          An array.

        >>> from xpr.experimental import random
        >>> random.stateful_rng(0).random(2).shape
        (2,)
        """
        return random.uniform(self.key(), _shape_of(size), dtype)

    def uniform(
        self, low: Any = 0, high: Any = 1, size: int | Sequence[int] | None = None, *, dtype: Any = float
    ) -> Any:
        """Uniform random floats.

        Args:
          low: the least value; an array that broadcasts to the shape.
          high: the limit, which is not drawn; likewise.
          size: the shape of the result; None for that to which the others broadcast.
          dtype: a floating-point dtype.

        Returns:
          An array.

        >>> from xpr.experimental import random
        >>> random.stateful_rng(0).uniform(1, 2, size=(2, 3)).shape
        (2, 3)
        """
        return random.uniform(self.key(), _shape_of(size, low, high), dtype, minval=low, maxval=high)

    def normal(
        self, loc: Any = 0, scale: Any = 1, size: int | Sequence[int] | None = None, *, dtype: Any = float
    ) -> Any:
        """Normally distributed random numbers.

        Args:
          loc: the mean; an array that broadcasts to the shape.
          scale: the standard deviation; likewise.
          size: the shape of the result; None for that to which the others broadcast.
          dtype: a floating-point dtype.

        Returns:
          An array.

        >>> from xpr.experimental import random
        >>> random.stateful_rng(0).normal(size=2).shape
        (2,)
        """
        drawn = random.normal(self.key(), _shape_of(size, loc, scale), dtype)
        return (asarray(loc) + asarray(scale) * drawn).astype(drawn.dtype)

    def integers(self, low: Any, high: Any = None, size: int | Sequence[int] | None = None, *, dtype: Any = int) -> Any:
        """Uniform random integers.

        Args:
          low: the least value; an array that broadcasts to the shape. Without `high` it is the limit, and 0 the least.
          high: the limit, which is not drawn; likewise.
          size: the shape of the result; None for that to which the others broadcast.
          dtype: an integer dtype.

        Returns:
          An array.

        >>> from xpr.experimental import random
        >>> random.stateful_rng(0).integers(10, size=2).shape
        (2,)
        """
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _shape_of(size, low, high), low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Generators in one object, over which `vmap` maps.

        Args:
          num: how many, or the shape of the array of generators.

        Returns:
          A `StatefulPRNG` of keys and counters.

        >>> import xpr, xpr.numpy as jnp
        >>> from xpr.experimental import random
        >>> xpr.vmap(lambda rng, x: x + rng.uniform())(random.stateful_rng(123).split(3), jnp.zeros(3))
        Array([0.35525954, 0.21937883, 0.5336956 ], dtype=float32)
        """
        return StatefulPRNG(self.key(num), new_ref(zeros(num, int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of independent generators.

        Args:
          n_children: how many.

        Returns:
          As many generators.

        >>> from xpr.experimental import random
        >>> [rng.integers(0, 10, 2) for rng in random.stateful_rng(123).spawn(2)]
        [Array([4, 5], dtype=int32), Array([2, 1], dtype=int32)]
        """
        keys = self.key(n_children)
        return [StatefulPRNG(keys[i], new_ref(0)) for i in range(n_children)]


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator of random numbers that updates itself, as `numpy.random.default_rng` makes one.

    Args:
      seed: an integer scalar; None for one that differs each time, outside of functions that are transformed.
      impl: the name of the generator of keys; None for the default one.

    Returns:
      A generator, with methods that draw.

    Raises:
      TypeError: there is no seed inside of a function that is transformed, which would have it once for all calls.

    >>> import xpr
    >>> from xpr.experimental import random
    >>> rng = random.stateful_rng(42)
    >>> draw = xpr.jit(rng.uniform)
    >>> draw(), draw()
    (Array(0.5302608, dtype=float32), Array(0.72766423, dtype=float32))
    """
    if seed is None:
        if context.trace.parent is not None:
            raise TypeError(
                "stateful_rng: When used within transformed code, as it is here, a generator would be traced with one "
                "seed. Give a seed, or make the generator outside."
            )
        seed = np.int64(np.random.SeedSequence().entropy & np.iinfo(np.int64).max)  # type: ignore[operator]
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))
