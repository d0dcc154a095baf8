"""Entries by their places, as functions: take, put, compress, extract and place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.core.avals import ShapedArray, aval_of
from xpr.errors import ArgumentError
from xpr.numpy.axes import no_out, one_axis
from xpr.numpy.cumulative import cumsum
from xpr.numpy.division import remainder
from xpr.numpy.indexing.nonzero import nonzero
from xpr.numpy.indexing.normalize import host_index, host_of
from xpr.numpy.indexing.read import getitem, read
from xpr.numpy.indexing.update import update
from xpr.numpy.indexing.update_operations import SET
from xpr.numpy.key_arrays import moves
from xpr.numpy.promotion import as_operand, asarray_like, convert, truth
from xpr.numpy.reshaping import ravel
from xpr.numpy.rounding import clip
from xpr.primitives.dynamic_slices import wrapped
from xpr.primitives.elementwise import convert_element_type, sub
from xpr.primitives.gather.gather_scatter import gather_p
from xpr.primitives.gather.scatter import scatter_p
from xpr.primitives.gather.windows import (
    GatherDimensionNumbers,
    GatherScatterMode,
    scatter_of,
)
from xpr.primitives.shapes import broadcast_to, full, reshape
from xpr.primitives.slicing import select

Shape = tuple[int, ...]

# -- Along one axis, the same places in every row


def _integers(name: str, indices: Any) -> Any:
    indices = as_operand(indices)
    aval = aval_of(indices)
    if aval.dtype not in dtypes.INTEGERS:
        if not aval.size:  # an empty list is of floats
            return np.zeros(aval.shape, np.int32)
        raise ArgumentError(
            f"{name}: indices must be integers, and are {aval.str_short()}. Convert them with .astype(int)."
        )
    return indices


@moves("a")
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
    """The entries at places along an axis, which becomes the axes of `indices`.

    Args:
      a: an array.
      indices: integers of any shape; negative ones count from the end, but in "clip" mode.
      axis: the axis; by default the places are counted along the whole array, row by row.
      out: must be None.
      mode: what is read at places outside: "fill" (the default) reads `fill_value`, "clip" the nearest entry inside,
        "wrap" counts on from the other end, "promise_in_bounds" says that there are none.
      unique_indices: a promise that no place is named twice, which helps the derivative.
      indices_are_sorted: a promise that places are in order.
      fill_value: by default nan, or the integer furthest from zero.
    Raises:
      TypeError: indices are not integers.
      IndexError: places along an axis of size 0.

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
        raise IndexError(f"take: there is nothing to take along axis {axis}, whose size is 0.")
    if mode == "raise":
        raise NotImplementedError(
            'take: mode="raise" is not supported: places are not looked at. Use "fill" or "clip".'
        )
    quick = _taken_on_host(a, indices, axis) if mode in (None, "fill") else None
    if quick is not None:
        return quick
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
    """Indices as the index of an array sees them: a number is not a static one."""
    return np.asarray(indices) if isinstance(indices, (int, np.generic)) else indices


def _taken_on_host(a: Any, indices: Any, axis: int) -> Any:
    """What NumPy takes; None where places lie outside, or the values are not at hand."""
    host = host_of(a) if type(a) is Array else None
    places = host_index(indices) if host is not None else None
    if host is None or places is None:
        return None
    try:
        found = np.take(host, places, axis)
    except IndexError:
        return None
    return Array(ShapedArray(found.shape, a.aval.dtype, a.aval.weak_type), found, None, a._device and a.device_of_parts)


# -- Along one axis, other places in every row


class _Rows(NamedTuple):
    """How rows of an array and of indices go together: axes of equal size pair by pair, axes of size 1 with each."""

    numbers: GatherDimensionNumbers
    sizes: Shape
    indices: Any
    shape: Shape  # of the result


def _rows(name: str, a: Any, indices: Any, axis: int, wraps: bool) -> _Rows:
    shape, own = aval_of(a).shape, aval_of(indices).shape
    if len(shape) != len(own):
        raise ValueError(f"{name}: the array has {len(shape)} axes and the indices {len(own)}; they must have as many.")
    offset: list[int] = []
    collapsed: list[int] = []
    batching: list[int] = []
    indices_batching: list[int] = []
    sizes: list[int] = []
    kept: list[int] = []  # axes of the indices that stay
    for d, (n, m) in enumerate(zip(shape, own)):
        if d == axis or n == 1:
            collapsed.append(d)
        elif n == m:
            batching.append(d)
            indices_batching.append(len(kept))
        elif m == 1:
            offset.append(d)
        else:
            raise ValueError(f"{name}: shapes {shape} and {own} don't broadcast at axis {d}: sizes must be equal or 1.")
        sizes.append(n if d in offset else 1)
        if d not in offset:
            kept.append(m)
    if aval_of(indices).dtype.itemsize < 4:
        indices = convert_element_type(indices, np.int32)
    indices = wrapped(indices, shape[axis]) if wraps else indices
    numbers = GatherDimensionNumbers(tuple(offset), tuple(collapsed), (axis,), tuple(batching), tuple(indices_batching))
    result = tuple([n if d in offset else m for d, (n, m) in enumerate(zip(shape, own))])
    return _Rows(numbers, tuple(sizes), reshape(indices, (*kept, 1)), result)


@moves("arr")
def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Any:
    """For each row along an axis, its entries at that row's indices, such as `argsort` gives.

    Args:
      arr: an array.
      indices: integers, with as many axes; the axes besides `axis` broadcast.
      axis: the axis; None takes both as vectors.
      mode: see `jnp.take`; there is no "wrap".
      fill_value: what is read outside, for "fill".
      wrap_negative_indices: whether negative indices count from the end; by default they do.
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
    rows = _rows("take_along_axis", arr, indices, axis, wrap_negative_indices is not False)
    if 0 in rows.shape:
        return full(rows.shape, 0, aval.dtype)
    if not aval.shape[axis]:
        raise IndexError(f"take_along_axis: there is nothing to take along axis {axis}, whose size is 0.")
    return gather_p.bind(
        arr,
        rows.indices,
        dimension_numbers=rows.numbers,
        slice_sizes=rows.sizes,
        indices_are_sorted=False,
        unique_indices=False,
        mode=GatherScatterMode.from_any(mode),
        fill_value=fill_value,
    )


def _refuse_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(f"{name}: arrays are immutable. Pass inplace=False, and use the result.")


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: str | None = None
) -> Any:
    """`arr` with the entries that `take_along_axis` would take replaced by values, which broadcast.

    Args:
      arr, indices, axis: as in `take_along_axis`.
      values: broadcast to the shape of what is replaced.
      inplace: must be False.
      mode: for places outside: "drop" (the default) or "clip".

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


# -- In a whole array, row by row


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """`a` with the entries at places counted along the whole array replaced by values, which are repeated as needed.

    Args:
      a: an array.
      ind: integers; negative ones count from the end, but in "clip" mode.
      v: values, taken row by row, and from the start again where there are fewer than places.
      mode: for places outside: dropped by default, "clip" to the nearest inside, "wrap" counts on from the other end.
      inplace: must be False.

    >>> import xpr.numpy as jnp
    >>> jnp.put(jnp.zeros((2, 2)), jnp.array([0, 3]), jnp.array([1.0, 2.0]), inplace=False)
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    _refuse_in_place("put", inplace)
    a, places, values = asarray_like(a), ravel(_integers("put", ind)), ravel(as_operand(v))
    count, given = aval_of(places).size, aval_of(values).size
    if not count or not given or not a.aval.size:
        return a
    if mode == "wrap":
        places = remainder(places, a.aval.size)
    elif mode == "clip":
        places = clip(places, 0, a.aval.size - 1)
    if given != count:
        values = getitem(asarray_like(values), np.arange(count) % given)
    return reshape(update(ravel(a), places, values, SET), a.aval.shape)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """`arr` with the entries where a mask holds replaced by the values in order, which are repeated as needed.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(4.0)
    >>> jnp.place(x, x > 1, jnp.array([7.0, 8.0]), inplace=False)
    Array([0., 1., 7., 8.], dtype=float32)
    """
    _refuse_in_place("place", inplace)
    arr, mask, values = asarray_like(arr), ravel(truth(mask)), ravel(as_operand(vals))
    given = aval_of(values).size
    if aval_of(mask).size != arr.aval.size:
        raise ValueError(f"place: the mask has {aval_of(mask).size} entries and the array {arr.aval.size}.")
    if not given or not arr.aval.size:
        return arr
    ranks = remainder(sub(cumsum(mask), np.int32(1)), given)
    chosen = take(convert(values, arr.aval.dtype), ranks, mode="promise_in_bounds")
    return reshape(select(mask, chosen, ravel(arr)), arr.aval.shape)


# -- By a mask


@moves("a")
def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Any:
    """The entries along an axis where a condition holds.

    Args:
      condition: a vector; where it is shorter than the axis, the rest is left out.
      a: an array.
      axis: the axis; by default the array is taken as a vector.
      size: how many entries the result has, which must be said while a function is traced: more are left out, and
        what is missing is `fill_value`.
      fill_value: stands for what is missing.
      out: must be None.
    Raises:
      ConcretizationTypeError: the condition is traced, and no size given.

    >>> import xpr.numpy as jnp
    >>> jnp.compress(jnp.array([False, True, True]), jnp.array([1, 2, 3]))
    Array([2, 3], dtype=int32)
    """
    no_out("compress", out)
    condition, a = truth(condition), as_operand(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = one_axis(axis, aval_of(a).ndim)
    n, held = aval_of(a).shape[axis], aval_of(condition)
    if held.ndim != 1:
        raise ValueError(f"compress: the condition must be a vector, and is {held.str_short()}.")
    (places,) = nonzero(condition, size=size, fill_value=max(n, held.size))
    if not n:
        return a if size is None else _filled_along(a, axis, size, fill_value)
    return take(a, places, axis, mode="fill", fill_value=fill_value, indices_are_sorted=True)


def _filled_along(a: Any, axis: int, size: int, value: Any) -> Any:
    shape = aval_of(a).shape
    return full((*shape[:axis], size, *shape[axis + 1 :]), value, aval_of(a).dtype)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The entries where a condition of the same size holds, as a vector; `size` and `fill_value` as in `compress`.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(4)
    >>> jnp.extract(x % 2 == 1, x)
    Array([1, 3], dtype=int32)
    """
    return compress(ravel(truth(condition)), ravel(as_operand(arr)), size=size, fill_value=fill_value)
