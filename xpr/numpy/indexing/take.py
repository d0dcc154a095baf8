"""Elements read and replaced by arrays of indices or masks: take, put, compress, extract and place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import ShapedArray, aval_of
from xpr.dimensions.expressions import max_dim, surely_below
from xpr.errors import ArgumentError
from xpr.numpy.axes import no_out
from xpr.numpy.concrete import concrete_value
from xpr.numpy.cumulative import cumsum
from xpr.numpy.division import remainder
from xpr.numpy.indexing.nonzero import nonzero
from xpr.numpy.indexing.normalize import host_index, host_to_index
from xpr.numpy.indexing.read import getitem, read
from xpr.numpy.indexing.update import update
from xpr.numpy.indexing.update_operations import SET
from xpr.numpy.promotion import as_operand, asarray_like, convert, truth
from xpr.numpy.reshaping import ravel
from xpr.numpy.rounding import clip
from xpr.primitives.dynamic_slices import wrapped
from xpr.primitives.elementwise import convert_element_type, sub
from xpr.primitives.gather.gather_scatter import gather_or_fill
from xpr.primitives.gather.scatter import scatter_p
from xpr.primitives.gather.windows import (
    PROMISE_IN_BOUNDS,
    GatherDimensionNumbers,
    GatherScatterMode,
    scatter_of,
)
from xpr.primitives.shapes import broadcast_to, full, one_axis, reshape
from xpr.primitives.slicing import select

__all__ = ["compress", "extract", "place", "put", "put_along_axis", "take", "take_along_axis"]

Shape = tuple[int, ...]

# -- Along one axis, the same indices in every row


def _integers(name: str, indices: Any) -> Any:
    indices = as_operand(indices)
    aval = aval_of(indices)
    if aval.dtype not in dtypes.INTEGERS:
        if not aval.size:  # an empty list is of floats
            return np.zeros(aval.shape, np.int32)
        raise ArgumentError(
            f"{name} indices must be of integer type, got {aval.dtype.name}: they are {aval.str_short()}. Convert them "
            "with .astype(int)."
        )
    return indices


@compiled_eagerly("axis", "fill_value")
def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | GatherScatterMode | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """The elements at indices along an axis.

    Args:
      a: array or number.
      indices: integers of any shape; negative ones count from the end, but in "clip" mode.
      axis: the axis; None for the flattened array.
      out: must be None.
      mode: for indices out of bounds: "fill" (the default, None) reads `fill_value`, "clip" the nearest element, "wrap"
        counts modulo the size, "promise_in_bounds" says that there are none.
      unique_indices: a promise that indices differ, which makes the derivative faster.
      indices_are_sorted: a promise that indices are sorted.
      fill_value: for "fill"; None for nan, or the least number of signed integers and the greatest of unsigned ones.

    Returns:
      An array of the dtype of `a`, whose axis is replaced by the axes of `indices`.

    Raises:
      TypeError: indices are not integers.
      IndexError: the axis has size 0.
      NotImplementedError: `mode` is "raise", or `out` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.take(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1, 5]), axis=0)
    Array([[ 3.,  4.],
           [nan, nan]], dtype=float32)
    """
    no_out("take", out)
    a, indices = as_operand(a), _integers("take", indices)
    if axis is None:
        a, axis = ravel(a), 0
    aval = aval_of(a)
    axis = one_axis(axis, aval.ndim)
    n = aval.shape[axis]
    if not n and aval_of(indices).size:
        raise IndexError(f"take: cannot do a non-empty jnp.take() from an empty axis: the size of axis {axis} is 0.")
    if mode == "raise":
        raise NotImplementedError(
            'take: mode="raise" is not supported: the indices\' values are not checked. Use "fill" or "clip".'
        )
    on_host = _taken_on_host(a, indices, axis) if mode in (None, "fill") else None
    if on_host is not None:
        return on_host
    if mode == "wrap":
        indices, mode = remainder(indices, n), "promise_in_bounds"
    return read(
        a,
        (*[slice(None)] * axis, _as_array(indices)),
        mode="fill" if mode is None else mode,
        fill_value=fill_value,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        wrap_negative_indices=mode != "clip",
    )


def _as_array(indices: Any) -> Any:
    """Indices as an array: a number is not a static index here."""
    return np.asarray(indices) if isinstance(indices, (int, np.generic)) else indices


def _taken_on_host(a: Any, indices: Any, axis: int) -> Any:
    """The elements as NumPy takes them; None where indices are out of bounds, or values are not on the host."""
    host = host_to_index(a) if type(a) is Array and a.aval.physical is a.aval else None
    positions = host_index(indices) if host is not None else None
    if host is None or positions is None:
        return None
    try:
        taken = np.take(host, positions, axis)
    except IndexError:
        return None
    return Array(ShapedArray(taken.shape, a.aval.dtype, a.aval.weak_type), taken, None, a._device and a.device_of_parts)


# -- Along one axis, indices for each row


class _Rows(NamedTuple):
    """The broadcasting of an array's rows with rows of indices: of equal sizes in pairs, of size 1 repeated."""

    numbers: GatherDimensionNumbers
    sizes: Shape
    indices: Any
    shape: Shape  # of the result


def _rows(name: str, a: Any, indices: Any, axis: int, wraps: bool) -> _Rows:
    shape, indices_shape = aval_of(a).shape, aval_of(indices).shape
    if len(shape) != len(indices_shape):
        counts = f"the array has {len(shape)} axes and the indices {len(indices_shape)}"
        raise ValueError(f"{name}: {counts}; they must have as many.")
    offset: list[int] = []
    collapsed: list[int] = []
    batching: list[int] = []
    indices_batching: list[int] = []
    sizes: list[int] = []
    kept: list[int] = []  # axes of the indices that stay
    for d, (n, m) in enumerate(zip(shape, indices_shape)):
        if d == axis or n == 1:
            collapsed.append(d)
        elif n == m:
            batching.append(d)
            indices_batching.append(len(kept))
        elif m == 1:
            offset.append(d)
        else:
            shapes = f"shapes {shape} and {indices_shape}"
            raise ValueError(f"{name}: {shapes} don't broadcast at axis {d}: sizes must be equal or 1.")
        sizes.append(n if d in offset else 1)
        if d not in offset:
            kept.append(m)
    if aval_of(indices).dtype.itemsize < 4:
        indices = convert_element_type(indices, np.int32)
    indices = wrapped(indices, shape[axis]) if wraps else indices
    numbers = GatherDimensionNumbers(tuple(offset), tuple(collapsed), (axis,), tuple(batching), tuple(indices_batching))
    result = tuple([n if d in offset else m for d, (n, m) in enumerate(zip(shape, indices_shape))])
    return _Rows(numbers, tuple(sizes), reshape(indices, (*kept, 1)), result)


@compiled_eagerly("axis", "fill_value")
def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Any:
    """For each row along an axis, the elements at that row's indices, such as `argsort` returns.

    Args:
      arr: an array.
      indices: integers, with as many axes as `arr`; the axes other than `axis` broadcast.
      axis: the axis; None for both flattened.
      mode: for indices out of bounds, see `jnp.take`; there is no "wrap". "one_hot" gives 0 for them.
      fill_value: for mode "fill"; None as in `jnp.take`.
      wrap_negative_indices: whether negative indices count from the end; None for yes, but with the mode
        "promise_in_bounds".

    Returns:
      An array of the dtype of `arr`, and the shape of `indices` broadcast.

    Raises:
      ValueError: the shapes don't fit.
      TypeError: indices are not integers.

    >>> import xpr.numpy as jnp
    >>> x = jnp.array([[3.0, 1.0], [4.0, 5.0]])
    >>> jnp.take_along_axis(x, jnp.array([[1], [0]]), axis=1)
    Array([[1.],
           [4.]], dtype=float32)
    """
    arr, indices = as_operand(arr), _integers("take_along_axis", indices)
    if axis is None:
        arr, axis = ravel(arr), 0
        if aval_of(indices).ndim != 1:
            raise ValueError("take_along_axis: with axis=None the indices must be a vector.")
    aval = aval_of(arr)
    axis = one_axis(axis, aval.ndim)
    if mode == "one_hot":
        mode, fill_value = "fill", 0
    mode = GatherScatterMode.from_any(mode)
    wraps = mode is not PROMISE_IN_BOUNDS if wrap_negative_indices is None else wrap_negative_indices
    rows = _rows("take_along_axis", arr, indices, axis, wraps)
    if 0 in rows.shape:
        return full(rows.shape, 0, aval.dtype)
    if not aval.shape[axis]:
        raise IndexError(f"take_along_axis: there is nothing to take along axis {axis}, whose size is 0.")
    return gather_or_fill(
        arr,
        rows.indices,
        dimension_numbers=rows.numbers,
        slice_sizes=rows.sizes,
        indices_are_sorted=False,
        unique_indices=False,
        mode=mode,
        fill_value=fill_value,
    )


def _refuse_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(f"{name}: arrays are immutable. Pass inplace=False, and use the result.")


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: str | None = None
) -> Any:
    """The array with the elements that `take_along_axis` would take replaced by values.

    Args:
      arr: an array.
      indices: integers, with as many axes as `arr`; the axes other than `axis` broadcast.
      values: broadcast to the shape of `indices`.
      axis: the axis; None for both flattened.
      inplace: must be False; arrays are immutable.
      mode: for indices out of bounds: "drop" (the default, None) or "clip".

    Returns:
      An array of the shape and dtype of `arr`.

    Raises:
      ValueError: `inplace` is True, or the shapes don't fit.
      TypeError: indices are not integers.

    >>> import xpr.numpy as jnp
    >>> jnp.put_along_axis(jnp.zeros((2, 2)), jnp.array([[1], [0]]), 5.0, axis=1, inplace=False)
    Array([[0., 5.],
           [5., 0.]], dtype=float32)
    """
    _refuse_in_place("put_along_axis", inplace)
    arr, indices = as_operand(arr), _integers("put_along_axis", indices)
    aval = aval_of(arr)
    if axis is None:
        flat = put_along_axis(ravel(arr), ravel(indices), values, 0, False, mode=mode)
        return reshape(flat, aval.shape)
    rows = _rows("put_along_axis", arr, indices, one_axis(axis, aval.ndim), True)
    values = broadcast_to(convert(as_operand(values), aval.dtype), rows.shape)
    if 0 in rows.shape or not aval.size:
        return arr
    return scatter_p.bind(
        arr,
        rows.indices,
        values,
        dimension_numbers=scatter_of(rows.numbers),
        indices_are_sorted=False,
        unique_indices=False,
        mode=GatherScatterMode.from_any(mode),
    )


# -- In the flattened array


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """The array with elements at indices into the flattened array replaced by values.

    Args:
      a: an array.
      ind: integers; negative ones count from the end, but in "clip" mode.
      v: values in order; fewer than indices are repeated.
      mode: for indices out of bounds: None drops them, "clip" clips them, "wrap" counts modulo the size.
      inplace: must be False; arrays are immutable.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: `inplace` is True, or there is no such mode.
      TypeError: indices are not integers.
      NotImplementedError: `mode` is "raise": the indices' values are not checked.

    >>> import xpr.numpy as jnp
    >>> jnp.put(jnp.zeros((2, 2)), jnp.array([0, 3]), jnp.array([1.0, 2.0]), inplace=False)
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    _refuse_in_place("put", inplace)
    if mode not in (None, "clip", "wrap"):
        error = NotImplementedError if mode == "raise" else ValueError
        raise error(f'put: mode is "clip", "wrap" or None, and {mode!r} was given.')
    a, positions, values = asarray_like(a), ravel(_integers("put", ind)), ravel(as_operand(v))
    count, num_values = aval_of(positions).size, aval_of(values).size
    if not count or not num_values or not a.aval.size:
        return a
    if mode == "wrap":
        positions = remainder(positions, a.aval.size)
    elif mode == "clip":
        positions = clip(positions, 0, a.aval.size - 1)
    if num_values != count:
        values = getitem(asarray_like(values), np.arange(count) % num_values)
    return reshape(update(ravel(a), positions, values, SET), a.aval.shape)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """The array with elements where a mask is true replaced by values, in order.

    Args:
      arr: an array.
      mask: booleans, as many as `arr` has elements.
      vals: values; fewer than true elements are repeated.
      inplace: must be False; arrays are immutable.

    Returns:
      An array of the shape and dtype of `arr`.

    Raises:
      ValueError: `inplace` is True, the mask has another number of elements, or there are no values.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(4.0)
    >>> jnp.place(x, x > 1, jnp.array([7.0, 8.0]), inplace=False)
    Array([0., 1., 7., 8.], dtype=float32)
    """
    _refuse_in_place("place", inplace)
    arr, mask, values = asarray_like(arr), ravel(truth(mask)), ravel(as_operand(vals))
    num_values = aval_of(values).size
    if aval_of(mask).size != arr.aval.size:
        raise ValueError(f"place: the mask has {aval_of(mask).size} elements and the array {arr.aval.size}.")
    if not arr.aval.size:
        return arr
    if not num_values:
        raise ValueError("place: there are no values to place.")
    ranks = cumsum(mask)
    ranks = remainder(sub(ranks, aval_of(ranks).dtype.type(1)), num_values)
    chosen = take(convert(values, arr.aval.dtype), ranks, mode="promise_in_bounds")
    return reshape(select(mask, chosen, ravel(arr)), arr.aval.shape)


# -- By a mask


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Any:
    """The slices along an axis at which a condition is true.

    Args:
      condition: a vector of booleans; slices beyond its length are left out. What it has beyond the axis is false.
      a: an array.
      axis: the axis; None for the flattened array.
      size: the number of slices in the result, needed where `condition` is traced: more are left out, fewer padded.
      fill_value: pads the result.
      out: must be None; arrays are immutable.

    Returns:
      An array of the dtype of `a`.

    Raises:
      ConcretizationTypeError: the condition is traced and there is no `size`.
      ValueError: the condition is no vector, or it is true beyond the axis.

    >>> import xpr.numpy as jnp
    >>> jnp.compress(jnp.array([False, True, True]), jnp.array([1, 2, 3]))
    Array([2, 3], dtype=int32)
    """
    no_out("compress", out)
    condition, a = truth(condition), as_operand(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = one_axis(axis, aval_of(a).ndim)
    n, condition_aval = aval_of(a).shape[axis], aval_of(condition)
    if condition_aval.ndim != 1:
        raise ValueError(f"compress: the condition must be a vector, and is {condition_aval.str_short()}.")
    (positions,) = nonzero(condition, size=size, fill_value=max_dim(n, condition_aval.size))
    if size is None and surely_below(n, condition_aval.size) and concrete_value(condition, "compress", "")[n:].any():
        raise ValueError(f"compress: the condition is true beyond the {n} elements along axis {axis}.")
    if not n:
        return a if size is None else _filled_along(a, axis, size, fill_value)
    return take(a, positions, axis, mode="fill", fill_value=fill_value, indices_are_sorted=True)


def _filled_along(a: Any, axis: int, size: int, value: Any) -> Any:
    shape = aval_of(a).shape
    return full((*shape[:axis], size, *shape[axis + 1 :]), value, aval_of(a).dtype)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements at which a condition is true, as a vector.

    Args:
      condition: booleans, as many as `arr` has elements.
      arr: array or number.
      size: the number of elements in the result, needed where `condition` is traced: more are left out, fewer padded.
      fill_value: pads the result.

    Returns:
      A vector of the dtype of `arr`.

    Raises:
      ConcretizationTypeError: the condition is traced and there is no `size`.
      ValueError: the condition is true beyond the elements.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(4)
    >>> jnp.extract(x % 2 == 1, x)
    Array([1, 3], dtype=int32)
    """
    return compress(ravel(truth(condition)), ravel(as_operand(arr)), size=size, fill_value=fill_value)
