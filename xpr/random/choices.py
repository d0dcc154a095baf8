"""Orders and choices: permutations, entries drawn with or without replacement, categories by log-probabilities."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.core.avals import Shape, aval_of
from xpr.numpy.argminmax import argmax
from xpr.numpy.creation import asarray, shape_of
from xpr.numpy.cumulative import cumsum
from xpr.numpy.indexing.along_axis import read
from xpr.numpy.reshaping import broadcast_to
from xpr.numpy.sorting import searchsorted
from xpr.primitives.elementwise import convert_element_type, log
from xpr.primitives.random_bits import child, key_words, random_bits, random_floats
from xpr.primitives.shapes import move_axis, reshape
from xpr.primitives.slicing import broadcasted_iota, slice_in_dim
from xpr.primitives.sorting import sort, top_k
from xpr.random.inverse_transform import gumbels
from xpr.random.keys import one_key
from xpr.random.uniforms import _check_mode, randint

# -- Permutations


def _shuffled(words: tuple[Any, Any], x: Any, axis: int) -> Any:
    """Sorted by random words, often enough that equal words hardly matter: three times as many bits are drawn as it
    takes to number the entries.
    """
    entries = max(1, aval_of(x).size)
    for _ in range(math.ceil(3 * math.log(entries) / math.log(2**32 - 1))):
        words, drawn_from = child(*words, 0), child(*words, 1)
        _, x = sort((random_bits(*drawn_from, 32, aval_of(x).shape), x), dimension=axis, num_keys=1)
    return x


def _order(words: tuple[Any, Any], n: int) -> Any:
    return _shuffled(words, broadcasted_iota(dtypes.canonical(int), (n,), 0), 0)


@compiled
def _permutation(key: Any, x: Any, *, axis: int, independent: bool) -> Any:
    words, aval = key_words(key), aval_of(x)
    if independent or aval.ndim == 1:
        return _shuffled(words, x, axis)
    return read(x, _order(words, aval.shape[axis]), axis)


@compiled
def _random_order(words: Any, *, n: int) -> Any:
    return _order(key_words(words), n)


_random_order.name = "permutation"


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The entries of an array in random order along an axis, or the numbers below an integer `x`.

    Args:
      key: a key.
      x: an integer, or an array.
      axis: the axis to permute.
      independent: each row along the axis gets an order of its own; otherwise all get one.
    Raises:
      TypeError: `x` is a scalar that is not an integer.
      ValueError: there is no such axis.

    >>> from xpr import random
    >>> random.permutation(random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    words = one_key(key, "permutation")
    if hasattr(x, "__index__") and not np.ndim(x):
        return _random_order(words, n=operator.index(x))
    x = asarray(x)
    if not aval_of(x).ndim:
        found = aval_of(x).str_short()
        raise TypeError(f"random.permutation: x must be an integer or an array with an axis, and is {found}.")
    return _permutation(words, x, axis=_axis("permutation", axis, aval_of(x).ndim), independent=bool(independent))


def _axis(name: str, axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise ValueError(f"random.{name}: there is no axis {axis} in an array of {ndim} axes.")
    return axis % ndim


# -- Entries of an array


@compiled
def _weighted_with_replacement(words: Any, p: Any, *, shape: Shape) -> Any:
    """The first place where the running sum reaches a number drawn evenly from (0, total]."""
    running = cumsum(p)
    total = running[-1]
    unit = random_floats(*key_words(words), shape, aval_of(p).dtype)
    return searchsorted(running, total * (aval_of(p).dtype.type(1) - unit))


@compiled
def _weighted_without_replacement(words: Any, p: Any, *, count: int, mode: str) -> Any:
    """The places of the greatest among the logarithms plus Gumbel numbers: Gumbel's trick, `count` times at once."""
    aval = aval_of(p)
    return top_k(gumbels(key_words(words), aval.shape, aval.dtype, mode) + log(p), count)[1]


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, mode: str | None = None
) -> Any:
    """Entries drawn from an array, or numbers drawn from those below an integer `a`.

    Args:
      key: a key.
      a: an integer, or an array whose slices along `axis` are drawn from.
      shape: how many to draw; it stands in the result where `axis` was.
      replace: whether an entry can be drawn more than once.
      p: how likely each entry is, a vector; all alike where not given.
      axis: the axis to draw along.
      mode: of the Gumbel numbers that are used with `p` and without replacement, see `gumbel`.
    Raises:
      ValueError: there are too few entries, or `p` has another size.

    >>> from xpr import random, numpy as jnp
    >>> random.choice(random.key(0), jnp.array([10, 20, 30]), (4,))
    Array([20, 10, 30, 20], dtype=int32)
    """
    one_key(key, "choice")
    _check_mode("choice", mode or "low")
    shape = shape_of(shape)
    if hasattr(a, "__index__") and not np.ndim(a):
        n, a = operator.index(a), None
    else:
        a = asarray(a)
        if not aval_of(a).ndim:
            found = aval_of(a).str_short()
            raise ValueError(f"random.choice: a must be an integer or an array with an axis, and is {found}.")
        axis = _axis("choice", axis, aval_of(a).ndim)
        n = aval_of(a).shape[axis]
    count = math.prod(shape)
    _check_count(n, count, replace)
    if not count:
        return _entries(a, np.zeros(shape, np.int32), axis)
    if p is None and not replace:
        return _first(permutation(key, n if a is None else a, axis), count, shape, axis)
    return _entries(a, _places(key, n, shape, replace, p, mode or "low"), axis)


def _check_count(n: int, count: int, replace: bool) -> None:
    if n <= 0 and count:
        raise ValueError("random.choice: there is nothing to draw from; a must be greater than 0, or not be empty.")
    if not replace and count > n:
        raise ValueError(f"random.choice: {count} entries were asked for without replacement, and there are {n}.")


def _places(key: Any, n: int, shape: Shape, replace: bool, p: Any, mode: str) -> Any:
    if p is None:
        return randint(key, shape, 0, n)
    p = asarray(p)
    if aval_of(p).dtype not in dtypes.FLOATS:
        p = convert_element_type(p, dtypes.canonical(float))
    if aval_of(p).shape != (n,):
        found = aval_of(p).str_short()
        raise ValueError(f"random.choice: p must be a vector of the chances of the {n} entries, and is {found}.")
    words = one_key(key, "choice")
    if replace:
        return _weighted_with_replacement(words, p, shape=shape)
    return reshape(_weighted_without_replacement(words, p, count=math.prod(shape), mode=mode), shape)


def _entries(a: Any, places: Any, axis: int) -> Any:
    if a is None:
        return convert_element_type(asarray(places), dtypes.canonical(int))
    return read(a, asarray(places), axis)


def _first(x: Any, count: int, shape: Shape, axis: int) -> Any:
    x = slice_in_dim(x, 0, count, axis=axis if aval_of(x).ndim > 1 else 0)
    sizes = aval_of(x).shape
    return reshape(x, (*sizes[:axis], *shape, *sizes[axis + 1 :])) if len(sizes) > 1 else reshape(x, shape)


# -- Categories


@compiled
def _categorical(words: Any, logits: Any, *, axis: int, drawn: Shape, mode: str) -> Any:
    """The greatest of the logits plus Gumbel numbers, drawn of shape `drawn`; `axis` counts from the end."""
    noise = gumbels(key_words(words), drawn, aval_of(logits).dtype, mode)
    return argmax(noise + logits, axis=axis)


@compiled
def _distinct_categories(words: Any, logits: Any, *, axis: int, count: int, mode: str) -> Any:
    aval = aval_of(logits)
    noise = gumbels(key_words(words), aval.shape, aval.dtype, mode)
    return move_axis(top_k(logits + noise, count, axis=axis)[1], axis, 0)


def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True, mode: str | None = None
) -> Any:
    """Categories drawn by their log-probabilities, which need not be normalized.

    Args:
      key: a key.
      logits: floats, whose size along `axis` is the number of categories.
      axis: the axis of the categories.
      shape: of the result. It ends with the shape of `logits` without `axis`, or one that broadcasts to it; what comes
        before is how many to draw of each. By default one of each.
      replace: whether a category can be drawn more than once for the same logits.
      mode: of the Gumbel numbers, see `gumbel`.
    Raises:
      ValueError: the shape does not fit, or more categories are asked for, without replacement, than there are.

    >>> from xpr import random, numpy as jnp
    >>> random.categorical(random.key(0), jnp.array([0.0, 1.0, 2.0]), shape=(5,))
    Array([1, 1, 2, 1, 2], dtype=int32)
    """
    words, mode = one_key(key, "categorical"), mode or "low"
    _check_mode("categorical", mode)
    logits = asarray(logits)
    if aval_of(logits).dtype not in dtypes.FLOATS:
        logits = convert_element_type(logits, dtypes.canonical(float))
    own = aval_of(logits).shape
    axis = _axis("categorical", axis, len(own))
    categories, rows = own[axis], own[:axis] + own[axis + 1 :]
    shape = rows if shape is None else shape_of(shape)
    if len(shape) < len(rows):
        raise ValueError(f"random.categorical: the shape {shape} must end with that of the rows of logits, {rows}.")
    prefix, rows = shape[: len(shape) - len(rows)], shape[len(shape) - len(rows) :]
    logits = broadcast_to(logits, (*rows[:axis], categories, *rows[axis:]))
    if replace:
        drawn = (*prefix, *aval_of(logits).shape)
        return _categorical(words, logits, axis=axis - len(own), drawn=drawn, mode=mode)
    count = math.prod(prefix)
    if count > categories:
        raise ValueError(
            f"random.categorical: {count} categories were asked for without replacement, and there are {categories}."
        )
    return reshape(_distinct_categories(words, logits, axis=axis, count=count, mode=mode), shape)
