"""Sorting, partitioning, and binary search.

Nan sorts after everything else. Sorts are stable unless `stable=False` allows otherwise, also in descending order,
which is ascending order of the reversed array, reversed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.errors import ArgumentError
from xpr.numpy.comparisons import greater_equal, less, less_equal
from xpr.numpy.indexing.along_axis import read
from xpr.numpy.promotion import as_operand, asarray_like, convert, promote_dtypes, requested_dtype, select_scalar
from xpr.primitives import elementwise as e
from xpr.primitives import sorting as primitive
from xpr.primitives.shapes import broadcast_in_dim, full, one_axis, reduce_sum, reshape, rev
from xpr.primitives.slicing import broadcasted_iota, concatenate

__all__ = ["argpartition", "argsort", "digitize", "lexsort", "partition", "searchsorted", "sort", "sort_complex"]

# -- Sorting


def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """The elements sorted along an axis; nan is last.

    Args:
      a: array or number.
      axis: the axis; None for the flattened array.
      kind: must be None.
      order: must be None.
      stable: whether equal elements keep their order.
      descending: whether to sort from the greatest to the least.

    Returns:
      An array of the dtype and shape of `a`, flattened for axis None.

    Raises:
      ValueError: there is no such axis, or `kind` or `order` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.sort(jnp.array([3, 1, 2]), descending=True)
    Array([3, 2, 1], dtype=int32)
    """
    a, axis = _lined_up("sort", a, axis, kind, order)
    result = primitive.sort(a, axis, is_stable=stable)
    return rev(result, (axis,)) if descending else result


def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Any:
    """The indices that sort the elements along an axis; nan is last.

    Args:
      a: array or number.
      axis: the axis; None for the flattened array.
      kind: must be None.
      order: must be None.
      stable: whether equal elements keep their order.
      descending: whether to sort from the greatest to the least.
      dtype: an integer dtype for the result; None for the default.

    Returns:
      Integers of the shape of `a`, flattened for axis None.

    Raises:
      ValueError: there is no such axis, or `kind` or `order` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.argsort(jnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    a, axis = _lined_up("argsort", a, axis, kind, order)
    shape = aval_of(a).shape
    positions = broadcasted_iota(_index_dtype(dtype), shape, axis)
    if not descending:
        return primitive.sort((a, positions), axis, is_stable=stable, num_keys=1)[1]
    flipped = [rev(x, (axis,)) for x in (a, positions)]
    return rev(primitive.sort(flipped, axis, is_stable=stable, num_keys=1)[1], (axis,))


def _lined_up(name: str, a: Any, axis: int | None, kind: None, order: None) -> tuple[Any, int]:
    """The operand, flattened for axis None, and its axis."""
    if kind is not None or order is not None:
        raise ArgumentError(f"{name}: kind and order are not supported; see stable= and descending=.")
    a = as_operand(a)
    if axis is None:
        return reshape(a, (aval_of(a).size,)), 0
    return a, one_axis(axis, aval_of(a).ndim)


def _index_dtype(dtype: Any) -> np.dtype:
    return dtypes.of_python(int) if dtype is None else requested_dtype(dtype)


def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by several keys, of which the last is the primary one.

    Args:
      keys: arrays of one shape, or an array of them.
      axis: the axis to sort along.

    Returns:
      Integers of the shape of a key.

    Raises:
      TypeError: there is no key.
      ValueError: keys differ in shape, or there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.lexsort((jnp.array([2, 1, 0]), jnp.array([1, 1, 0])))
    Array([2, 1, 0], dtype=int32)
    """
    rows = _keys(keys)
    if not rows:
        raise TypeError("lexsort: needs at least one key.")
    shape = aval_of(rows[0]).shape
    if any(aval_of(row).shape != shape for row in rows):
        shapes = ", ".join(str(aval_of(row).shape) for row in rows)
        raise ValueError(f"lexsort: keys must have one shape, and have {shapes}.")
    if not shape:
        return asarray_like(convert(np.int32(0), dtypes.of_python(int)))
    axis = one_axis(axis, len(shape))
    positions = broadcasted_iota(dtypes.of_python(int), shape, axis)
    return primitive.sort((*rows[::-1], positions), axis, num_keys=len(rows))[-1]


def _keys(keys: Any) -> list[Any]:
    if isinstance(keys, (list, tuple)):
        return [convert(x := as_operand(key), aval_of(x).dtype) for key in keys]
    keys = as_operand(keys)
    if not aval_of(keys).ndim:
        raise TypeError(f"lexsort: takes a sequence of keys or an array of them, and got {aval_of(keys).str_short()}.")
    count, *shape = aval_of(keys).shape
    return [reshape(read(keys, np.array([i], np.int32)), shape) for i in range(count)]


def partition(a: Any, kth: int, axis: int = -1) -> Any:
    """The elements with the k-th smallest at index k, none before it greater and none after it less.

    The elements are sorted altogether.

    Args:
      a: array.
      kth: the index k.
      axis: the axis to partition along.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: there is no such axis or index.

    >>> import xpr.numpy as jnp
    >>> jnp.partition(jnp.array([3, 1, 2]), 1)[1]
    Array(2, dtype=int32)
    """
    _check_kth("partition", a, kth, axis)
    return sort(a, axis)


def argpartition(a: Any, kth: int, axis: int = -1) -> Any:
    """The indices that `partition` the elements along an axis.

    Args:
      a: array.
      kth: the index k.
      axis: the axis to partition along.

    Returns:
      Integers of the shape of `a`.

    Raises:
      ValueError: there is no such axis or index.

    >>> import xpr.numpy as jnp
    >>> jnp.argpartition(jnp.array([3, 1, 2]), 1)
    Array([1, 2, 0], dtype=int32)
    """
    _check_kth("argpartition", a, kth, axis)
    return argsort(a, axis)


def _check_kth(name: str, a: Any, kth: int, axis: int) -> None:
    shape = aval_of(as_operand(a)).shape
    n = shape[one_axis(axis, len(shape))]
    if not -n <= kth < n:
        raise ValueError(f"{name}: there is no position {kth} along an axis of {n} elements.")


def sort_complex(a: Any) -> Any:
    """The elements as complex numbers, sorted along the last axis by real, then by imaginary part.

    >>> import xpr.numpy as jnp
    >>> jnp.sort_complex(jnp.array([2.0, 1.0]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    a = sort(a)
    return convert(a, dtypes.complex_of(dtypes.to_inexact(aval_of(a).dtype)))


# -- Searching

COMPARED_BELOW = 32  # elements: comparing so few is faster than binary search, and many times slower beyond


@compiled_eagerly()
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Any:
    """The indices at which values would be inserted into a sorted vector to keep it sorted.

    Args:
      a: a vector, sorted in ascending order, or by `sorter`.
      v: values, of any shape.
      side: "left" for the index before elements equal to the value, "right" for that after them.
      sorter: indices that sort `a`; None where it is sorted.
      method: "scan" and "scan_unrolled" are binary searches, "sort" sorts both, "compare_all" compares all pairs.

    Returns:
      Integers of the shape of `v`, from 0 to the length of `a`.

    Raises:
      ValueError: `a` is not a vector, or there is no such side or method.

    >>> import xpr.numpy as jnp
    >>> jnp.searchsorted(jnp.array([1, 2, 2, 3]), 2, side="right")
    Array(3, dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(f'searchsorted: side must be "left" or "right", and is {side!r}.')
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(f'searchsorted: there is no method {method!r}; see "scan", "sort" and "compare_all".')
    if aval_of(as_operand(a)).ndim != 1:
        raise ValueError(f"searchsorted: takes a vector, and got {aval_of(a).str_short()}.")
    if sorter is not None:
        a = read(as_operand(a), as_operand(sorter))
    a, v = promote_dtypes(a, v)
    a, v = convert(a, aval_of(a).dtype), convert(v, aval_of(v).dtype)
    n = aval_of(a).size
    dtype = _position_dtype(aval_of(a).size)
    if n == 0 or aval_of(v).size == 0:
        return broadcast_in_dim(dtype.type(0), aval_of(v).shape, ())
    if method == "sort":
        search = _by_sorting
    else:
        few = is_symbolic_dim(n) or n <= COMPARED_BELOW
        search = _by_comparing if method == "compare_all" or few else _by_halving
    return _searchsorted(a, v, side=side, search=search, dtype=dtype)


@compiled
def _searchsorted(a: Any, v: Any, *, side: str, search: Callable[..., Any], dtype: np.dtype) -> Any:
    return convert(search(a, v, side), dtype)


def _goes_before(x: Any, v: Any, side: str) -> Any:
    """Whether an element `x` of the vector stays before `v`, where nan is greater than all numbers."""
    before = less(x, v) if side == "left" else less_equal(x, v)
    if aval_of(x).dtype not in dtypes.FLOATS:
        return before
    v_is_nan = e.ne(v, v)
    return e.bitwise_or(before, e.bitwise_and(v_is_nan, e.eq(x, x)) if side == "left" else v_is_nan)


def _by_comparing(a: Any, v: Any, side: str) -> Any:
    shape = (*aval_of(v).shape, aval_of(a).size)
    rows = range(len(shape) - 1)
    before = _goes_before(broadcast_in_dim(a, shape, (len(rows),)), broadcast_in_dim(v, shape, tuple(rows)), side)
    return reduce_sum(convert(before, dtypes.int32), (len(rows),))


def _position_dtype(n: Any) -> np.dtype:
    """The integers that number the elements of a vector: of 64 bits, where those are on, if there are 2^31 or more."""
    return dtypes.canonical(np.int64) if type(n) is int and n >= 1 << 31 else dtypes.int32


def _by_halving(a: Any, v: Any, side: str) -> Any:
    """Binary search among 2^k - 1 elements from `low` on, k times: is the middle one still before `v`?

    The first step leaves so many, the last ones or the first. Steps are added, not chosen: choices become branches,
    which processors foresee only half of the time.
    """
    n = aval_of(a).size
    dtype = _position_dtype(n)
    dtype.type(n)  # an OverflowError, where positions don't fit
    low: Any = full(aval_of(v).shape, 0, dtype)
    half = 1 << (n.bit_length() - 1)
    middle, step = n - half, n - half + 1
    while half:
        goes = _goes_before(read(a, e.add(low, dtype.type(middle))), v, side)
        low = e.add(low, e.mul(convert(goes, dtype), dtype.type(step)))
        half //= 2
        middle, step = half - 1, half
    return low


def _by_sorting(a: Any, v: Any, side: str) -> Any:
    """The position of each element of `v` when both are sorted together, less the elements of `v` before it."""
    shape, n, m = aval_of(v).shape, aval_of(a).size, aval_of(v).size
    flat = reshape(v, (m,))
    parts = [flat, a] if side == "left" else [a, flat]  # a stable sort keeps this order of equal elements
    order = argsort(concatenate(parts, 0))
    position = argsort(order)  # its inverse: where each element went
    start = 0 if side == "left" else n
    position = read(position, np.arange(start, start + m, dtype=np.int32))
    rank = argsort(argsort(flat))
    return reshape(e.sub(position, rank), shape)


@compiled_eagerly()
def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The number of the bin that each element lies in: bin i is from bins[i - 1] to bins[i].

    Args:
      x: values, of any shape.
      bins: a vector of edges, increasing or decreasing.
      right: whether bins include their right edge instead of their left.
      method: see `searchsorted`; None for its default.

    Returns:
      Integers of the shape of `x`, from 0 (below all edges) to the number of edges.

    Raises:
      ValueError: `bins` is not a vector.

    >>> import xpr.numpy as jnp
    >>> jnp.digitize(jnp.array([0.5, 1.0, 7.0]), jnp.array([0.0, 1.0, 2.0]))
    Array([1, 2, 3], dtype=int32)
    """
    x, bins = as_operand(x), as_operand(bins)
    if aval_of(bins).ndim != 1:
        raise ValueError(f"digitize: bins must be a vector, and are {aval_of(bins).str_short()}.")
    n = aval_of(bins).size
    if n == 0:
        return searchsorted(bins, x)
    rising = greater_equal(*(read(bins, np.int32(i)) for i in (n - 1, 0)))
    upward = select_scalar(rising, bins, rev(bins, (0,)))
    position = searchsorted(upward, x, "left" if right else "right", method=method or "scan")
    return select_scalar(rising, position, e.sub(aval_of(position).dtype.type(n), position))
