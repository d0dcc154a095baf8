"""Permutations, choices with and without replacement, and the categorical distribution."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.cond.function import cond
from xpr.core.avals import Shape, aval_of
from xpr.dimensions.expressions import as_size, is_symbolic_dim, max_dim, surely_below
from xpr.numpy.argminmax import argmax
from xpr.numpy.creation import asarray
from xpr.numpy.cumulative import cumsum
from xpr.numpy.indexing.along_axis import read
from xpr.numpy.reshaping import broadcast_to
from xpr.numpy.sorting import searchsorted
from xpr.primitives.dimension_values import size_as
from xpr.primitives.elementwise import convert_element_type, ge, log
from xpr.primitives.random_keys import children, random_bits, random_floats
from xpr.primitives.shapes import move_axis, reshape, shape_of
from xpr.primitives.sharding_constraint import sharded
from xpr.primitives.slicing import broadcasted_iota, slice_in_dim
from xpr.primitives.sorting import sort, top_k
from xpr.random.inverse_transform import gumbels
from xpr.random.keys import one_key
from xpr.random.uniforms import GUMBEL_MODES, _check_mode, randint

__all__ = ["categorical", "choice", "permutation"]

# -- Permutations


def _shuffled(key: Any, x: Any, axis: int) -> Any:
    """Rows in random order, sorted by random words.

    The words have three times as many bits as it takes to number the elements, so that equal words are rare.
    """
    elements = aval_of(x).size
    if is_symbolic_dim(elements):
        return _shuffled_while_needed(key, x, axis)
    for _ in range(math.ceil(3 * math.log(max(1, elements)) / math.log(2**32 - 1))):
        key, x = _sorted_by_words(key, x, axis)
    return x


def _sorted_by_words(key: Any, x: Any, axis: int) -> tuple[Any, Any]:
    key, drawn_from = children(key, 2)
    return key, sort((random_bits(drawn_from, 32, aval_of(x).shape), x), dimension=axis, num_keys=1)[1]


def _shuffled_while_needed(key: Any, x: Any, axis: int) -> Any:
    """A shuffle of a symbolic number of elements: each round is a branch, taken if there are enough elements for it."""
    elements = size_as(aval_of(x).size, dtypes.int32)
    for least in _LEAST_OF_ROUND:
        one_more = ge(elements, np.int32(least))
        key, x = cond(one_more, lambda key, x: _sorted_by_words(key, x, axis), lambda key, x: (key, x), key, x)
    return x


# The least numbers of elements that take one, two and three rounds; a fourth would take more than 2^32 of them.
_LEAST_OF_ROUND = [math.floor((2**32 - 1) ** (i / 3)) + 1 for i in range(3)]


def _order(key: Any, n: int) -> Any:
    return _shuffled(key, broadcasted_iota(dtypes.canonical(int), (n,), 0), 0)


@compiled
def _permutation(key: Any, x: Any, *, axis: int, independent: bool) -> Any:
    aval = aval_of(x)
    if independent or aval.ndim == 1:
        return _shuffled(key, x, axis)
    return read(x, _order(key, aval.shape[axis]), axis)


@compiled
def _random_order(key: Any, *, n: int) -> Any:
    return _order(key, n)


_random_order.name = "permutation"


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None) -> Any:
    """An array whose slices along an axis are randomly permuted, or a permutation of the numbers below an integer.

    Args:
      key: a key.
      x: an integer n, which stands for 0, ..., n - 1 (for nothing if it is negative), or an array.
      axis: the axis to permute.
      independent: whether each row along the axis gets its own permutation; otherwise all rows get the same one.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape and dtype of `x`; integers [n] for an integer.

    Raises:
      TypeError: `x` is a scalar that is not an integer.
      ValueError: there is no such axis.

    >>> from xpr import random
    >>> random.permutation(random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    key = one_key(key, "permutation")
    if hasattr(x, "__index__") and not np.ndim(x):
        _axis("permutation", axis, 1)
        return sharded(_random_order(key, n=max_dim(as_size(x), 0)), out_sharding, "permutation")
    x = asarray(x)
    if not aval_of(x).ndim:
        described = aval_of(x).str_short()
        raise TypeError(f"random.permutation: x must be an integer or an array with an axis, and is {described}.")
    return sharded(
        _permutation(key, x, axis=_axis("permutation", axis, aval_of(x).ndim), independent=bool(independent)),
        out_sharding,
        "permutation",
    )


def _axis(name: str, axis: Any, ndim: int) -> int:
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"random.{name}: there is no axis {axis} in an array of {ndim} axes.")
    return axis % ndim


# -- Elements of an array


@compiled
def _weighted_with_replacement(key: Any, p: Any, *, shape: Shape) -> Any:
    """The first index at which the cumulative sum reaches a number drawn uniformly from (0, total]."""
    running = cumsum(p)
    total = running[-1]
    unit = random_floats(key, shape, aval_of(p).dtype)
    return searchsorted(running, total * (aval_of(p).dtype.type(1) - unit))


@compiled
def _weighted_without_replacement(key: Any, p: Any, *, count: int, mode: str) -> Any:
    """The indices of the greatest of log-probabilities plus Gumbel noise (the Gumbel-max trick), `count` at once."""
    aval = aval_of(p)
    return top_k(gumbels(key, aval.shape, aval.dtype, mode) + log(p), count)[1]


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, mode: str | None = None
) -> Any:
    """Random elements of an array, or random numbers below an integer.

    Args:
      key: a key.
      a: an integer n, which stands for 0, ..., n - 1, or an array whose slices along `axis` are drawn.
      shape: how many to draw.
      replace: whether a slice can be drawn more than once.
      p: the probabilities of the slices, a vector; None for equal ones.
      axis: the axis to draw along, of an array.
      mode: of the Gumbel noise that is used with `p` and without replacement, see `gumbel`; None for "low".

    Returns:
      An array of the dtype of `a`, in which `shape` replaces the axis.

    Raises:
      ValueError: there are too few slices to draw without replacement, or `p` has another size.

    >>> from xpr import random, numpy as jnp
    >>> random.choice(random.key(0), jnp.array([10, 20, 30]), (4,))
    Array([20, 10, 30, 20], dtype=int32)
    """
    key = one_key(key, "choice")
    _check_mode("choice", mode or "low", GUMBEL_MODES)
    shape = shape_of(shape)
    if hasattr(a, "__index__") and not np.ndim(a):
        n, a, axis = as_size(a), None, 0
    else:
        a = asarray(a)
        if not aval_of(a).ndim:
            described = aval_of(a).str_short()
            raise ValueError(f"random.choice: a must be an integer or an array with an axis, and is {described}.")
        axis = _axis("choice", axis, aval_of(a).ndim)
        n = aval_of(a).shape[axis]
    count = math.prod(shape)
    _check_count(n, count, replace)
    if not count:
        return _elements(a, np.zeros(shape, np.int32), axis)
    if p is None and not replace:
        return _first(permutation(key, n if a is None else a, axis), count, shape, axis)
    return _elements(a, _drawn_indices(key, n, shape, replace, p, mode or "low"), axis)


def _check_count(n: int, count: int, replace: bool) -> None:
    if surely_below(n, 1) and count:
        raise ValueError("random.choice: there is nothing to draw from; a must be greater than 0, or not be empty.")
    if not replace and n < count:
        raise ValueError(f"random.choice: {count} elements were asked for without replacement, and there are {n}.")


def _drawn_indices(key: Any, n: int, shape: Shape, replace: bool, p: Any, mode: str) -> Any:
    if p is None:
        return randint(key, shape, 0, n)
    p = asarray(p)
    if aval_of(p).dtype not in dtypes.FLOATS:
        p = convert_element_type(p, dtypes.canonical(float))
    if aval_of(p).shape != (n,):
        described = aval_of(p).str_short()
        raise ValueError(f"random.choice: p must be a vector of the chances of the {n} elements, and is {described}.")
    if replace:
        return _weighted_with_replacement(key, p, shape=shape)
    return reshape(_weighted_without_replacement(key, p, count=math.prod(shape), mode=mode), shape)


def _elements(a: Any, positions: Any, axis: int) -> Any:
    """The slices of an array at positions along an axis; the positions themselves for None."""
    if a is None:
        return convert_element_type(asarray(positions), dtypes.canonical(int))
    return read(a, asarray(positions), axis)


def _first(x: Any, count: int, shape: Shape, axis: int) -> Any:
    """The first `count` slices along an axis, which `shape` replaces."""
    x = slice_in_dim(x, 0, count, axis=axis)
    sizes = aval_of(x).shape
    return reshape(x, (*sizes[:axis], *shape, *sizes[axis + 1 :]))


# -- Categories


@compiled
def _categorical(key: Any, logits: Any, *, axis: int, drawn: Shape, mode: str) -> Any:
    """The argmax of the logits plus Gumbel noise of shape `drawn`; `axis` counts from the end."""
    noise = gumbels(key, drawn, aval_of(logits).dtype, mode)
    return argmax(noise + logits, axis=axis)


@compiled
def _distinct_categories(key: Any, logits: Any, *, axis: int, count: int, mode: str) -> Any:
    aval = aval_of(logits)
    noise = gumbels(key, aval.shape, aval.dtype, mode)
    return move_axis(top_k(logits + noise, count, axis=axis)[1], axis, 0)


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Random categories with given log-probabilities, which need not be normalized.

    Args:
      key: a key.
      logits: floats, whose size along `axis` is the number of categories.
      axis: the axis of the categories.
      shape: the shape of the result; it ends with the shape of `logits` without `axis`, or one that this broadcasts to,
        and what is before is the number of draws of each. None for one of each.
      replace: whether a category can be drawn more than once for the same logits.
      mode: of the Gumbel noise, see `gumbel`; None for "low".
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      Integers of the shape, from 0 up to the number of categories.

    Raises:
      ValueError: the shape does not fit, or without replacement more are drawn than there are categories.

    >>> from xpr import random, numpy as jnp
    >>> random.categorical(random.key(0), jnp.array([0.0, 1.0, 2.0]), shape=(5,))
    Array([1, 1, 2, 1, 2], dtype=int32)
    """
    key, mode = one_key(key, "categorical"), mode or "low"
    _check_mode("categorical", mode, GUMBEL_MODES)
    logits = asarray(logits)
    if aval_of(logits).dtype not in dtypes.FLOATS:
        logits = convert_element_type(logits, dtypes.canonical(float))
    logits_shape = aval_of(logits).shape
    axis = _axis("categorical", axis, len(logits_shape))
    categories, rows = logits_shape[axis], logits_shape[:axis] + logits_shape[axis + 1 :]
    shape = rows if shape is None else shape_of(shape)
    if len(shape) < len(rows):
        raise ValueError(f"random.categorical: the shape {shape} must end with that of the rows of logits, {rows}.")
    prefix, rows = shape[: len(shape) - len(rows)], shape[len(shape) - len(rows) :]
    logits = broadcast_to(logits, (*rows[:axis], categories, *rows[axis:]))
    if replace:
        drawn = (*prefix, *aval_of(logits).shape)
        return sharded(
            _categorical(key, logits, axis=axis - len(logits_shape), drawn=drawn, mode=mode),
            out_sharding,
            "categorical",
        )
    count = math.prod(prefix)
    if surely_below(categories, count):
        raise ValueError(
            f"random.categorical: Number of samples without replacement ({count}) is greater than that of "
            f"categories ({categories}). Ask for fewer, or say replace=True."
        )
    return sharded(
        reshape(_distinct_categories(key, logits, axis=axis, count=count, mode=mode), shape),
        out_sharding,
        "categorical",
    )
