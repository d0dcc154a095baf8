"""Sets: unique elements, unions, intersections, differences, membership.

The number of unique elements depends on the values. So without `size` these functions need concrete values, which
works outside of jit (also under grad: indices are computed on the host, and the elements are then read from the array
itself). With `size` the result is truncated or padded to that many elements, and everything is staged.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import as_size, surely_below
from xpr.numpy import creation, sorting
from xpr.numpy.concrete import concrete_value
from xpr.numpy.indexing.along_axis import put_at, read, true_indices
from xpr.numpy.promotion import as_operand, convert, promote_dtypes, truth
from xpr.primitives import elementwise as e
from xpr.primitives import sorting as primitive
from xpr.primitives.cumulative import cumsum
from xpr.primitives.dimension_values import size_as
from xpr.primitives.reductions import reduce_or_p
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, full, move_axis, one_axis, reshape
from xpr.primitives.slicing import broadcasted_iota, concatenate, select, slice_in_dim

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip

_WAY_OUT = "Give size=, and the result is truncated to that many elements, or padded with fill_value."

# -- Unique elements


class UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements of an array, sorted, or its distinct slices along an axis.

    Args:
      ar: array or number.
      return_index: whether to return the index of the first occurrence of each.
      return_inverse: whether to return for each element of the array its index among the distinct ones.
      return_counts: whether to return the number of occurrences of each.
      axis: the axis whose slices are compared; None for elements.
      equal_nan: whether nans are equal.
      size: the number of elements in the result, needed where an array is traced: more are left out, fewer padded.
      fill_value: pads the result; None for its first element.
      sorted: has no effect; the result is always sorted.

    Returns:
      The distinct elements; a tuple that begins with them where indices or counts are asked for.

    Raises:
      ConcretizationTypeError: the array is traced and there is no `size`.
      ValueError: there is no such axis, or nothing to pad with.

    >>> import xpr.numpy as jnp
    >>> jnp.unique(jnp.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    ar = as_operand(ar)
    results = _unique(ar, axis, equal_nan, None if size is None else as_size(size), fill_value)
    flags = (True, return_index, return_inverse, return_counts)
    chosen = tuple(x for x, flag in zip(results, flags) if flag)
    return chosen if len(chosen) > 1 else chosen[0]


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of an array, sorted; nans are all distinct.

    Args:
      x: array or number.
      size: the number of elements in the result, needed where an array is traced: more are left out, fewer padded.
      fill_value: pads the result; None for its first element.

    Returns:
      A sorted vector.

    Raises:
      ConcretizationTypeError: the array is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCountsResult:
    """The distinct elements of an array, sorted, and the number of their occurrences; nans are all distinct.

    Args:
      x: array or number.
      size: the number of elements in the result, needed where an array is traced: more are left out, fewer padded.
      fill_value: pads the result; None for its first element.

    Returns:
      `(values, counts)`, a named tuple.

    Raises:
      ConcretizationTypeError: the array is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverseResult:
    """The distinct elements of an array, sorted, and the index of each element among them; nans are all distinct.

    Args:
      x: array or number.
      size: the number of elements in the result, needed where an array is traced: more are left out, fewer padded.
      fill_value: pads the result; None for its first element.

    Returns:
      `(values, inverse_indices)`, a named tuple.

    Raises:
      ConcretizationTypeError: the array is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """The distinct elements of an array, sorted, with indices and counts as of `unique`; nans are all distinct.

    Args:
      x: array or number.
      size: the number of elements in the result, needed where an array is traced: more are left out, fewer padded.
      fill_value: pads the result; None for its first element.

    Returns:
      `(values, indices, inverse_indices, counts)`, a named tuple.

    Raises:
      ConcretizationTypeError: the array is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.unique_all(jnp.array([3, 1, 3])).indices
    Array([1, 0], dtype=int32)
    """
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def _unique(ar: Any, axis: int | None, equal_nan: bool, size: int | None, fill_value: Any) -> tuple[Any, ...]:
    """Values, first indices, inverse and counts."""
    aval = aval_of(ar)
    slices = reshape(ar, (aval.size,)) if axis is None else ar
    axis = 0 if axis is None else one_axis(axis, aval.ndim)
    inverse_shape = aval.shape if slices is not ar else (aval.shape[axis],)
    if size is None:
        first, inverse, counts = _unique_on_host(slices, axis, equal_nan)
        values = read(slices, first, axis) if aval.size else slices
    else:
        fill = [] if fill_value is None else [as_operand(fill_value)]
        values, first, inverse, counts = _unique_sorted(slices, *fill, axis=axis, equal_nan=equal_nan, size=size)
    return values, first, reshape(inverse, inverse_shape), counts


def _unique_on_host(slices: Any, axis: int, equal_nan: bool) -> tuple[Any, Any, Any]:
    value = concrete_value(slices, "unique", _WAY_OUT)
    if value.dtype in dtypes.FLOATS and value.dtype.kind == "V":  # NumPy does not know nans of such types
        value = value.astype(np.float32)
    if value.ndim > 1:
        _, *results = np.unique(value, True, True, True, axis=axis, equal_nan=equal_nan)
    else:
        _, *results = np.unique(value, True, True, True, equal_nan=equal_nan)
    first, inverse, counts = (creation.asarray(x.astype(dtypes.of_python(int))) for x in results)
    return first, inverse, counts


@compiled
def _unique_sorted(slices: Any, fill_value: Any = None, *, axis: int, equal_nan: bool, size: int) -> tuple[Any, ...]:
    """Unique elements by sorting: an element that differs from the one before it is the first of its group."""
    index_dtype = dtypes.of_python(int)
    rows = move_axis(slices, axis, 0)
    n, *row_shape = aval_of(rows).shape
    if n == 0:
        if size and fill_value is None:
            raise ValueError("unique: an empty array has nothing to fill up with. Give fill_value=.")
        return _filled_up(rows, row_shape, size, fill_value, axis)
    columns = reshape(rows, (n, math.prod(row_shape)))
    keys = [reshape(slice_in_dim(columns, i, i + 1, axis=1), (n,)) for i in range(aval_of(columns).shape[1])]
    if equal_nan and aval_of(columns).dtype in dtypes.COMPLEX:  # which sort by their real parts
        keys = [select(e.ne(x, x), full((n,), np.nan, aval_of(x).dtype), x) for x in keys]
    *ordered, order = primitive.sort((*keys, broadcasted_iota(index_dtype, (n,), 0)), 0, num_keys=max(len(keys), 1))
    starts = _starts(ordered, n, equal_nan)
    group = e.sub(cumsum(convert(starts, index_dtype), 0), index_dtype.type(1))
    position = true_indices(starts, size + 1, n)
    counts = _differences(convert(position, index_dtype), size)
    real = e.lt(slice_in_dim(position, 0, size), size_as(n, dtypes.int32))
    first = read(order, select(real, slice_in_dim(position, 0, size), full((size,), 0, np.int32)))
    values = read(rows, first)
    if fill_value is not None:
        shape = aval_of(values).shape
        fill = broadcast_to(convert(as_operand(fill_value), aval_of(values).dtype), shape)
        values = select(broadcast_in_dim(real, shape, (0,)), values, fill)
    inverse = put_at(full((n,), 0, index_dtype), order, group)
    return move_axis(values, 0, axis), first, inverse, counts


def _starts(ordered: list[Any], n: int, equal_nan: bool) -> Any:
    """Whether each of the ordered rows differs from the one before it."""
    if n == 0:
        return full((0,), False, dtypes.bool_)
    differs = None
    for column in ordered:
        left, right = slice_in_dim(column, 0, n - 1), slice_in_dim(column, 1, n)
        unlike = e.ne(left, right)
        if equal_nan and aval_of(column).dtype in dtypes.INEXACT:
            unlike = e.bitwise_and(unlike, e.bitwise_or(e.eq(left, left), e.eq(right, right)))
        differs = unlike if differs is None else e.bitwise_or(differs, unlike)
    if differs is None:
        differs = full((n - 1,), False, dtypes.bool_)
    return concatenate([full((1,), True, dtypes.bool_), differs], 0)


def _differences(position: Any, size: int) -> Any:
    return e.sub(slice_in_dim(position, 1, size + 1), slice_in_dim(position, 0, size))  # the end of the last group is n


def _filled_up(rows: Any, row_shape: list[int], size: int, fill_value: Any, axis: int) -> tuple[Any, ...]:
    empty_results = [creation.zeros(n, dtypes.of_python(int)) for n in (size, 0, size)]
    values = creation.full((size, *row_shape), 0 if fill_value is None else fill_value, aval_of(rows).dtype)
    return (move_axis(values, 0, axis), *empty_results)


# -- Two sets, by sorting: an element counts if it differs from the one before it, and is a member of this
# set or that.


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of two arrays together, sorted.

    Args:
      ar1: arrays, which are flattened.
      ar2: arrays, which are flattened.
      size: the number of elements in the result, needed where an array is traced: more are left out, fewer padded.
      fill_value: pads the result; None for its first element.

    Returns:
      A sorted vector.

    Raises:
      ConcretizationTypeError: an array is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.union1d(jnp.array([3, 1]), jnp.array([2, 3]))
    Array([1, 2, 3], dtype=int32)
    """
    return unique(concatenate(_flat_pair(ar1, ar2), 0), size=size, fill_value=fill_value)


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The distinct elements that are in both of two arrays, sorted.

    Args:
      ar1: arrays, which are flattened.
      ar2: arrays, which are flattened.
      assume_unique: a promise that the elements of each array are distinct.
      return_indices: whether to return the index of the first occurrence of each in both arrays; padded with their
        sizes.
      size: the number of elements in the result, needed where an array is traced: more are left out, fewer padded.
      fill_value: pads the result; None for its first element.

    Returns:
      A sorted vector; with `return_indices`, `(elements, indices in ar1, indices in ar2)`.

    Raises:
      ConcretizationTypeError: an array is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.intersect1d(jnp.array([3, 1]), jnp.array([2, 3]))
    Array([3], dtype=int32)
    """
    x, y = _flat_pair(ar1, ar2)
    n, m = aval_of(x).size, aval_of(y).size
    x_order, y_order = sorting.argsort(x), sorting.argsort(y)
    ordered = read(x, x_order) if n else x
    mask = e.bitwise_and(_starts([ordered], n, True), isin(ordered, y))
    position, real = _chosen("intersect1d", mask, size)
    values = _read_or_fill(ordered, position, real, fill_value, first=True)
    values = convert(values, aval_of(x).dtype, size is None and aval_of(x).weak_type)
    if not return_indices:
        return values
    in_y = sorting.searchsorted(read(y, y_order), values) if m else position
    return values, _read_or_fill(x_order, position, real, n), _read_or_fill(y_order, in_y, real, m)


def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """The distinct elements of one array that are not in another, sorted.

    Args:
      ar1: arrays, which are flattened.
      ar2: arrays, which are flattened.
      assume_unique: a promise that the elements of each array are distinct; they then stay in their order.
      size: the number of elements in the result, needed where an array is traced: more are left out, fewer padded.
      fill_value: pads the result; None for 0.

    Returns:
      A sorted vector of the dtype of `ar1`.

    Raises:
      ConcretizationTypeError: an array is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.setdiff1d(jnp.array([3, 1]), jnp.array([2, 3]))
    Array([1], dtype=int32)
    """
    x, y = _flat_pair(ar1, ar2)
    x = x if assume_unique else sorting.sort(x)
    mask = isin(x, y, invert=True)
    if not assume_unique:
        mask = e.bitwise_and(_starts([x], aval_of(x).size, True), mask)
    position, real = _chosen("setdiff1d", mask, size)
    values = _read_or_fill(x, position, real, 0 if fill_value is None else fill_value)
    aval = aval_of(as_operand(ar1))
    return convert(values, aval.dtype, aval.weak_type)


def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """The distinct elements that are in exactly one of two arrays, sorted.

    Args:
      ar1: arrays, which are flattened.
      ar2: arrays, which are flattened.
      assume_unique: a promise that the elements of each array are distinct.
      size: the number of elements in the result, needed where an array is traced: more are left out, fewer padded.
      fill_value: pads the result; None for its first element, or 0 where there is none.

    Returns:
      A sorted vector.

    Raises:
      ConcretizationTypeError: an array is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.setxor1d(jnp.array([3, 1]), jnp.array([2, 3]))
    Array([1, 2], dtype=int32)
    """
    x, y = _flat_pair(ar1, ar2)
    joined = sorting.sort(concatenate([x, y], 0))
    n = aval_of(joined).size
    if assume_unique:  # then an element in both is beside its equal, and no other is
        starts = _starts([joined], n, False)
        ends = concatenate([slice_in_dim(starts, 1, n), full((min(n, 1),), True, dtypes.bool_)], 0)
        mask = e.bitwise_and(starts, ends)
    else:
        in_both = e.bitwise_and(isin(joined, x), isin(joined, y))
        mask = e.bitwise_and(_starts([joined], n, True), e.bitwise_not(in_both))
        if aval_of(joined).dtype in dtypes.INEXACT and n != 0:  # nan of each: the first and the last
            both = e.bitwise_and(*(reduce_or_p.bind(e.ne(each, each), axes=(0,)) for each in (x, y)))
            others = full((n - 1,), False, dtypes.bool_)
            mask = e.bitwise_or(mask, concatenate([others, broadcast_to(both, (1,))], 0))
    position, real = _chosen("setxor1d", mask, size)
    values = _read_or_fill(joined, position, real, fill_value, first=True)
    return convert(values, aval_of(joined).dtype, size is None and aval_of(joined).weak_type)


@compiled_eagerly()
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, method: str = "auto"
) -> Any:
    """Whether each element of an array is in another; nan is in none.

    Args:
      element: array or number.
      test_elements: array or number.
      assume_unique: a promise that the elements of each array are distinct.
      invert: whether to return where elements are not in the other array.
      method: "compare_all" compares all pairs, "binary_search" and "sort" search in sorted elements, "auto" chooses.

    Returns:
      Booleans of the shape of `element`.

    Raises:
      ValueError: there is no such method.

    >>> import xpr.numpy as jnp
    >>> jnp.isin(jnp.array([3, 1]), jnp.array([2, 3]))
    Array([ True, False], dtype=bool)
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(f'isin: there is no method {method!r}; see "auto", "compare_all", "binary_search" and "sort".')
    element, tests = promote_dtypes(element, test_elements)
    shape, count = aval_of(element).shape, aval_of(tests).size
    tests = reshape(tests, (count,))
    if count == 0:
        return creation.full(shape, invert, dtypes.bool_)
    if method == "compare_all" or (method == "auto" and surely_below(count, sorting.COMPARED_BELOW + 1)):
        wide = (*shape, count)
        rows = tuple(range(len(shape)))
        same = e.eq(broadcast_in_dim(element, wide, rows), broadcast_in_dim(tests, wide, (len(shape),)))
        is_member = reduce_or_p.bind(truth(same), axes=(len(shape),))
    else:
        ordered = sorting.sort(tests)
        position = e.min(sorting.searchsorted(ordered, element), size_as(count - 1, dtypes.int32))
        is_member = truth(e.eq(read(ordered, position), element))
    return e.bitwise_not(is_member) if invert else is_member


def _flat_pair(ar1: Any, ar2: Any) -> list[Any]:
    return [reshape(x, (aval_of(x).size,)) for x in promote_dtypes(ar1, ar2)]


def _chosen(name: str, mask: Any, size: int | None) -> tuple[Any, Any]:
    """The indices of the first `size` true elements of a mask, and which of these positions are filled."""
    n = aval_of(mask).size
    if size is None:
        size = int(np.sum(concrete_value(mask, name, _WAY_OUT)))
    position = true_indices(mask, as_size(size), n)
    return position, e.lt(position, size_as(n, dtypes.int32))


def _read_or_fill(x: Any, position: Any, real: Any, fill_value: Any, first: bool = False) -> Any:
    """The elements at indices where `real`, and the fill value elsewhere: by default 0, or with `first` the first."""
    aval, shape = aval_of(x), aval_of(position).shape
    if aval.size == 0:
        return creation.full(shape, 0 if fill_value is None else fill_value, aval.dtype)
    values = read(x, e.min(position, size_as(aval.size - 1, aval_of(position).dtype)))
    if first and fill_value is None:
        if shape == (0,):
            return values
        zero = full((1,), 0, aval.dtype)
        fill = select(slice_in_dim(real, 0, 1), slice_in_dim(values, 0, 1), zero)
        return select(real, values, broadcast_in_dim(fill, shape, (0,)))
    return select(real, values, broadcast_to(convert(as_operand(fill_value), aval.dtype), shape))
