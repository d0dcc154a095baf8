"""The binomial and the multinomial distribution.

Where n p <= 10 the trials up to each success are drawn, geometric numbers, and successes counted until none are left
(Devroye, "Non-uniform random variate generation", 1986, chapter X.4). Beyond that candidates are computed from two
uniform numbers and accepted or rejected: algorithm BTRS of Hormann, "The generation of binomial random variates"
(Journal of Statistical Computation and Simulation 46, 1993). If p >= 1/2, failures are counted instead of successes.
Every round draws numbers for all elements from a new key, until the last element is done. Which keys these are is
JAX's choice, so that the numbers are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.scan.function import scan
from xpr.control.stop_gradient import stop_gradient
from xpr.control.while_.function import while_loop
from xpr.core.avals import Shape, aval_of
from xpr.numpy.creation import asarray, shape_of
from xpr.numpy.indexing.take import take
from xpr.numpy.promotion import promote_dtypes
from xpr.numpy.where_select import where
from xpr.primitives.cumulative import cumsum
from xpr.primitives.elementwise import abs, ceil, clamp, convert_element_type, floor, log, log1p, sqrt
from xpr.primitives.random_keys import children, random_floats
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import broadcast_to, full, move_axis
from xpr.random.keys import clone, one_key, split
from xpr.random.parameters import float_dtype, shape_for

__all__ = ["binomial", "multinomial"]

_COUNTED_UP_TO = 10.0


def _by_trials(key: Any, n: Any, p: Any) -> Any:
    """The number of successes: how many geometric numbers have a sum of at most `n`."""
    aval, log_failure = aval_of(p), log1p(-p)

    def going(state: Any) -> Any:
        return _any(state[1] <= n)

    def step(state: tuple[Any, Any, Any]) -> Any:
        count, trials, key = state
        count = where(trials <= n, count + 1, count)
        drawn_from, following = children(key, 2)
        u = random_floats(drawn_from, aval.shape, aval.dtype)
        return count, trials + ceil(log(u) / log_failure), following

    none = full(aval.shape, 0, aval.dtype)
    return while_loop(going, step, (none, none, key))[0] - 1


def _by_rejection(key: Any, n: Any, p: Any) -> Any:
    """The candidate floor((2 a / h + b) u + n p + 1/2), where h = 1/2 - |u|; most are accepted by a squeeze test."""
    aval = aval_of(p)
    deviation = sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    limit, odds = 0.92 - 4.2 / b, p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    middle, mode = n * p + 0.5, floor((n + 1) * p)

    def step(state: tuple[Any, Any, Any]) -> Any:
        drawn, done, key = state
        following, for_u, for_v = children(key, 3)
        u = random_floats(for_u, aval.shape, aval.dtype) - 0.5
        v = random_floats(for_v, aval.shape, aval.dtype)
        h = 0.5 - abs(u)
        k = floor((2 * a / h + b) * u + middle)
        density = log(v * alpha / (a / (h * h) + b))
        bound = (
            (mode + 0.5) * log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * log(odds * (n - k + 1) / (k + 1))
            + _correction(mode)
            + _correction(n - mode)
            - _correction(k)
            - _correction(n - k)
        )
        possible = (k >= 0) & (k <= n)
        taken = ((h >= 0.07) & (v <= limit)) | (possible & (density <= bound))
        return where(taken, k, drawn), done | taken, following

    start = (full(aval.shape, -1, aval.dtype), full(aval.shape, False, dtypes.bool_), key)
    return while_loop(lambda state: _any(~state[1]), step, start)[0]


# log(k!) less Stirling's formula for it, 1/2 log(2 pi) + (k + 1/2) log(k + 1) - (k + 1), for k from 0 on.
_CORRECTIONS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _correction(k: Any) -> Any:
    """The correction to Stirling's formula. As in JAX, all k > 9 get the value that the series has at 9."""
    dtype = aval_of(k).dtype
    listed = k <= 9
    k = clamp(dtype.type(0), k, dtype.type(9))
    square = (k + 1) * (k + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    table = asarray(np.array(_CORRECTIONS, dtype))
    return where(listed, take(table, convert_element_type(floor(k), dtypes.int32)), series)


def _any(x: Any) -> Any:
    return reduce_or(x, tuple(range(aval_of(x).ndim)))


@compiled
def _binomial(key: Any, n: Any, p: Any, *, shape: Shape, dtype: np.dtype) -> Any:
    n, p = broadcast_to(n, shape), broadcast_to(p, shape)
    rare = p < 0.5
    chance = where(rare, p, 1 - p)
    no_count = (n != n) | (n < 0)
    no_chance = (chance != chance) | (chance < 0)
    endless = n == np.inf
    chance = where(no_chance, 0.01, chance)
    by_trials = no_count | (n * chance <= _COUNTED_UP_TO)
    n = floor(n)
    drawn = where(
        by_trials | endless,
        convert_element_type(_by_trials(key, where(by_trials & ~no_count, n, 0), chance), dtype),
        convert_element_type(
            _by_rejection(clone(key), where(by_trials | endless, 1e4, n), where(by_trials | endless, 0.5, chance)),
            dtype,
        ),
    )
    drawn = where(rare, drawn, convert_element_type(n, dtype) - drawn)
    return where(no_count | no_chance, dtype.type(np.nan), where(endless, dtype.type(np.inf), drawn))


def _inexact(*parameters: Any) -> list[Any]:
    """Parameters as arrays of one float dtype. What is drawn of them is discrete: no derivative goes through it."""
    xs = promote_dtypes(*(asarray(x) for x in parameters))
    if aval_of(xs[0]).dtype not in dtypes.FLOATS:
        xs = [convert_element_type(x, dtypes.canonical(float)) for x in xs]
    return [stop_gradient(x) for x in xs]


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Random numbers from the binomial distribution: how many of `n` trials succeed, each with chance `p`.

    Args:
      key: a random key.
      n: numbers of trials, integers or floats of at least 0 that broadcast to the shape.
      p: chances, floats between 0 and 1 that broadcast to the shape; the numbers are drawn in their dtype.
      shape: the shape of the result; None for that of the parameters, broadcast.
      dtype: a float dtype; None for the default one.

    Returns:
      Floats of the shape; nan where `n` or `p` is nan or out of range, infinite where `n` is.

    Raises:
      ValueError: `dtype` is not a float dtype, or the parameters do not broadcast to the shape.

    >>> from xpr import random
    >>> random.binomial(random.key(0), 20, 0.3, (4,))
    Array([6., 4., 6., 5.], dtype=float32)
    """
    key, dtype = one_key(key, "binomial"), float_dtype(dtype, "binomial")
    (p,) = _inexact(p)
    n = stop_gradient(convert_element_type(asarray(n), aval_of(p).dtype))
    return _binomial(key, n, p, shape=shape_for("binomial", shape, n=n, p=p), dtype=dtype)


def multinomial(key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1) -> Any:
    """Random counts from the multinomial distribution: how many of `n` trials have each of several outcomes.

    Each count is a binomial number of the trials that are left (Devroye, "Non-uniform random variate generation", 1986,
    chapter XI.1.4).

    Args:
      key: a random key.
      n: numbers of trials, which broadcast to the shape without its last axis.
      p: [..., k], the chances of the k outcomes, which broadcast to the shape.
      shape: the shape of the result, with the axis of outcomes; None for that of `p`.
      dtype: the dtype of the result; None for the default float dtype.
      unroll: how many outcomes a step of the loop over them draws; True for all.

    Returns:
      Counts of the shape, whose sum over the last axis is `n`.

    Raises:
      ValueError: `p` has no axis, or the parameters do not broadcast to the shape.

    >>> from xpr import random, numpy as jnp
    >>> random.multinomial(random.key(0), 10, jnp.array([0.2, 0.3, 0.5]))
    Array([1., 1., 8.], dtype=float32)
    """
    key = one_key(key, "multinomial")
    n, p = _inexact(n, p)
    shape = aval_of(p).shape if shape is None else shape_of(shape)
    if not shape or not aval_of(p).ndim:
        raise ValueError("random.multinomial: p must have an axis, that of the outcomes, and is a scalar.")
    shape = shape_for("multinomial", shape, p=p)
    n = broadcast_to(n, shape_for("multinomial", shape[:-1], n=n))
    chances = move_axis(broadcast_to(p, shape), len(shape) - 1, 0)
    left = cumsum(chances, 0, reverse=True)
    ratios = chances / where(left == 0, 1, left)

    def draw(trials: Any, of_outcome: Any) -> tuple[Any, Any]:
        ratio, key = of_outcome
        dtype = aval_of(trials).dtype
        count = binomial(key, trials, clamp(dtype.type(0), ratio, dtype.type(1)), dtype=dtype)
        return trials - count, count

    keys = split(key, shape[-1])
    _, counts = scan(draw, n, (ratios, keys), unroll=unroll)
    return convert_element_type(
        move_axis(counts, 0, len(shape) - 1), dtypes.requested(float if dtype is None else dtype)
    )
