"""Statistics of samples: the most frequent element, ranks, and the error of the mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.numpy.axes import one_axis
from xpr.numpy.indexing.take import take_along_axis
from xpr.numpy.promotion import promote_inexact
from xpr.primitives.cumulative import cummax, cummin
from xpr.primitives.dimension_values import size_as

__all__ = ["mode", "rankdata", "sem"]


class ModeResult(NamedTuple):
    """The most frequent elements, and how often they come."""

    mode: Any
    count: Any


def _check_policy(name: str, nan_policy: str, omit: bool = False) -> None:
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(f"{name}: nan_policy is 'propagate', 'omit' or 'raise', and not {nan_policy!r}.")
    if nan_policy == "raise" or (nan_policy == "omit" and not omit):
        others = "'propagate' or 'omit'" if omit else "'propagate'"
        raise NotImplementedError(
            f"{name}: nan_policy={nan_policy!r} depends on values, which are not known while tracing. Use {others}, "
            "and look for nans beforehand."
        )


def _along_last(a: Any, axis: int | None) -> Any:
    return a.ravel() if axis is None else jnp.moveaxis(a, axis, -1)


def _starts(x: Any) -> Any:
    """Whether each of ascending elements along the last axis differs from the one before; nans are equal."""
    before, after = x[..., :-1], x[..., 1:]
    differs = (after != before) & ~(jnp.isnan(after) & jnp.isnan(before))
    return jnp.concatenate([jnp.ones((*x.shape[:-1], 1), bool), differs], -1)


def _runs(starts: Any) -> tuple[Any, Any]:
    """For each element the position of the first and the last one that are equal to it."""
    last = starts.ndim - 1
    positions = jnp.broadcast_to(jnp.arange(starts.shape[-1], dtype=np.int32), starts.shape)
    first = cummax(jnp.where(starts, positions, 0), axis=last)
    ends = jnp.concatenate([starts[..., 1:], jnp.ones_like(starts[..., :1])], -1)
    return first, cummin(jnp.where(ends, positions, starts.shape[-1]), axis=last, reverse=True)


@compiled_eagerly("axis")
def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent elements along an axis, and of several the smallest; nans are equal to each other.

    Args:
      a: array of real numbers.
      axis: the axis; None for all elements.
      nan_policy: "propagate".
      keepdims: whether to keep the axis with size 1.

    Returns:
      `(mode, count)`; nan and 0 where there are no elements.

    Raises:
      ValueError: there is no such axis or policy.
      NotImplementedError: `nan_policy` is "omit" or "raise".

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import stats
    >>> stats.mode(jnp.array([3, 1, 3, 1, 2]))
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    _check_policy("mode", nan_policy)
    a = jnp.atleast_1d(a)
    axis = None if axis is None else one_axis(axis, a.ndim)
    x = jnp.sort(_along_last(a, axis), axis=-1)
    if x.shape[-1]:
        first, last = _runs(_starts(x))
        count = (jnp.max(last - first, -1) + 1).astype(int)
        value = take_along_axis(x, jnp.argmax(last - first, -1)[..., None], -1)[..., 0]
    else:
        value = jnp.full(x.shape[:-1], math.nan, jnp.result_type(float))
        count = jnp.zeros(x.shape[:-1], jnp.result_type(float))
    if keepdims:
        shape = tuple([1 if axis in (None, i) else n for i, n in enumerate(a.shape)])
        return ModeResult(value.reshape(shape), count.reshape(shape))
    return ModeResult(value, count)


@compiled_eagerly("axis")
def rankdata(a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Any:
    """The rank of each element, from 1; nans where there is one among them.

    Args:
      a: array of real numbers.
      method: the rank of equal elements: "average", "min", "max", "dense", which is "min" without gaps, or "ordinal"
        for different ones in their order.
      axis: the axis; None for all elements.
      nan_policy: "propagate".

    Returns:
      An array of floats of the shape of `a`, or, where the axis is None, a vector.

    Raises:
      ValueError: there is no such method, axis or policy.
      NotImplementedError: `nan_policy` is "omit" or "raise".

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import stats
    >>> stats.rankdata(jnp.array([10, 30, 20, 20]))
    Array([1. , 4. , 2.5, 2.5], dtype=float32)
    """
    _check_policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"rankdata: method is 'average', 'min', 'max', 'dense' or 'ordinal', and not {method!r}.")
    a = jnp.asarray(a)
    axis = None if axis is None else one_axis(axis, a.ndim)
    x = _along_last(a, axis)
    dtype = jnp.result_type(float)
    if not x.size:
        return jnp.zeros(a.shape if axis is not None else (0,), dtype)
    order = jnp.argsort(x, axis=-1, stable=True)
    position = jnp.argsort(order, axis=-1)
    starts = _starts(take_along_axis(x, order, -1))
    first, last = _runs(starts)
    if method == "ordinal":
        ranks = position + 1
    elif method == "dense":
        ranks = take_along_axis(jnp.cumsum(starts, -1), position, -1)
    else:
        low, high = first.astype(dtype) + 1, last.astype(dtype) + 1
        rank_of_sorted = {"min": low, "max": high, "average": 0.5 * (low + high)}[method]
        ranks = take_along_axis(rank_of_sorted, position, -1)
    ranks = jnp.where(jnp.any(jnp.isnan(x), -1, keepdims=True), math.nan, ranks.astype(dtype))
    return ranks if axis is None else jnp.moveaxis(ranks, -1, axis)


@compiled_eagerly("axis", "ddof")
def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """The standard error of the mean: the standard deviation over the square root of the number of elements.

    Args:
      a: array of numbers.
      axis: the axis; None for all elements.
      ddof: what is subtracted from the number of elements in the variance.
      nan_policy: "propagate", or "omit" to leave nans out.
      keepdims: whether to keep the axis with size 1.

    Returns:
      An array of floats without the axis.

    Raises:
      ValueError: there is no such axis or policy.
      NotImplementedError: `nan_policy` is "raise".

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import stats
    >>> round(float(stats.sem(jnp.array([1., 2., 3.]))), 4)
    0.5774
    """
    _check_policy("sem", nan_policy, omit=True)
    a = jnp.asarray(*promote_inexact(a))
    axis = None if axis is None else one_axis(axis, a.ndim)
    if nan_policy == "omit":
        count = jnp.sum(~jnp.isnan(a), axis, keepdims=keepdims)
        return jnp.nanstd(a, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(count).astype(a.real.dtype)
    size = a.size if axis is None else a.shape[axis]
    root = jnp.sqrt(size_as(size, a.real.dtype)) if is_symbolic_dim(size) else math.sqrt(size)
    return jnp.std(a, axis, ddof=ddof, keepdims=keepdims) / root
