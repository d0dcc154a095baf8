"""Functions that return arrays of indices: of nonzero elements, diagonals and triangles, and from flat indices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import from_host, placement_beside
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.dimensions.expressions import as_size, is_symbolic_dim, max_dim, min_dim
from xpr.numpy.concatenation import stack
from xpr.numpy.concrete import concrete_value, is_known
from xpr.numpy.creation import placed
from xpr.numpy.division import remainder
from xpr.numpy.indexing.along_axis import true_indices
from xpr.numpy.promotion import (
    as_operand,
    asarray_like,
    convert,
    promote_dtypes,
    promote_shapes,
    requested_dtype,
    truth,
)
from xpr.numpy.reshaping import broadcast_to, ravel, shape
from xpr.numpy.rounding import clip
from xpr.primitives.dimension_values import size_as
from xpr.primitives.dynamic_slices import wrapped
from xpr.primitives.elementwise import add, convert_element_type, div, ge, le, lt, mul, rem
from xpr.primitives.shapes import full, reshape, shape_of
from xpr.primitives.slicing import broadcasted_iota, select

__all__ = [
    "argwhere", "diag_indices", "diag_indices_from", "flatnonzero", "ix_", "mask_indices", "nonzero",
    "ravel_multi_index", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip

Shape = tuple[int, ...]

_SAY_SIZE = (
    "Say how many at most with size=...; missing ones are then fill_value. To choose between values, which keeps the "
    "shape, use jnp.where(condition, a, b)."
)


def _indices(values: Any, beside: Any = None) -> Any:
    """A host array of indices as an array of the default integer dtype, on the devices of the array `beside`."""
    return placed(from_host(np.asarray(values, dtypes.of_python(int))), placement_beside(beside))


# -- Where something holds


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The indices of the elements that are not zero, in row-major order, as one vector for each axis.

    Args:
      a: an array with at least one axis.
      size: the number of indices in the result, needed where `a` is traced: more are left out, fewer padded.
      fill_value: pads the result, one for all axes or one for each; None for 0. To the dtype of one that is no integer
        the indices are promoted.

    Returns:
      A tuple of vectors of integers, or of the dtype to which those and the fill value promote.

    Raises:
      ConcretizationTypeError: `a` is traced and there is no `size`.
      TypeError: a fill value is no number.
      ValueError: `a` has no axes, or there are not as many fill values as axes.

    >>> import xpr.numpy as jnp
    >>> jnp.nonzero(jnp.array([[0, 5], [7, 0]]))
    (Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
    >>> jnp.nonzero(jnp.array([0, 1, 1]), size=3, fill_value=-1)
    (Array([ 1,  2, -1], dtype=int32),)
    """
    a = as_operand(a)
    sizes = aval_of(a).shape
    if not sizes:
        raise ValueError("nonzero: a scalar has no indices. Give it an axis with x[None].")
    if size is None:
        return tuple([_indices(each, a) for each in np.nonzero(concrete_value(a, "nonzero", _SAY_SIZE))])
    count = as_size(size)
    fills = _fills(fill_value, len(sizes))
    if not count or not math.prod(sizes):
        return tuple([_repeated(fill, count) for fill in fills])
    if not is_symbolic_dim(count) and is_known(a) and all(type(fill) is int for fill in fills):
        return _padded(a, np.nonzero(concrete_value(a, "nonzero", _SAY_SIZE)), count, fills)
    return _computed(a, sizes, count, fills)


def _fills(fill_value: Any, ndim: int) -> list[Any]:
    """The fill value of missing indices along each axis: integers, or scalars that are traced or no integers."""
    values = fill_value if isinstance(fill_value, (tuple, list)) else [0 if fill_value is None else fill_value] * ndim
    if len(values) != ndim:
        raise ValueError(f"nonzero: fill_value has {len(values)} elements, and the array has {ndim} axes.")
    return [asarray_like(v) if is_symbolic_dim(v) else _number(v) if is_known(v) else v for v in values]


def _number(fill: Any) -> Any:
    try:
        return operator.index(fill)
    except TypeError:
        return asarray_like(fill)


def _padded(a: Any, indices: Sequence[np.ndarray], count: int, fills: Sequence[int]) -> tuple[Any, ...]:
    missing = max(count - len(indices[0]), 0)
    rows = [np.append(positions[:count], [fill] * missing) for positions, fill in zip(indices, fills)]
    return tuple([_indices(row, a) for row in rows])


def _repeated(fill: Any, count: int) -> Any:
    fill = asarray_like(fill)
    if aval_of(fill).dtype in dtypes.INTEGERS | dtypes.BOOL:
        fill = convert(fill, dtypes.of_python(int))
    return broadcast_to(fill, (count,))


def _computed(a: Any, sizes: Shape, count: int, fills: Sequence[Any]) -> tuple[Any, ...]:
    """Indices computed on the device: each true element scatters its flat index to its rank among them."""
    total = math.prod(sizes)
    are_zero = all(type(fill) is int and fill == 0 for fill in fills)
    flat = true_indices(ravel(truth(a)), count, 0 if are_zero else total)
    if are_zero:
        return tuple([convert(x, dtypes.of_python(int)) for x in _unraveled(flat, sizes)])
    missing = ge(flat, size_as(total, dtypes.int32))
    positions = _unraveled(select(missing, full((count,), 0, np.int32), flat), sizes)
    indices = [convert(x, dtypes.of_python(int)) for x in positions]
    pairs = [promote_dtypes(_repeated(fill, count), x) for x, fill in zip(indices, fills)]
    return tuple([select(missing, filled, x) for filled, x in pairs])


def _unraveled(flat: Any, sizes: Sequence[Any]) -> list[Any]:
    """Flat indices, in bounds of an array of these sizes, converted to one index for each axis.

    Sizes are integers, or traced scalars of the dtype of the indices.
    """

    def number(n: Any) -> Any:
        return n if isinstance(n, Tracer) else size_as(n, aval_of(flat).dtype)

    result = []
    for axis, n in enumerate(sizes):
        stride = math.prod(sizes[axis + 1 :])
        rows = flat if type(stride) is int and stride == 1 else div(flat, number(stride))
        result.append(rows if axis == 0 else rem(rows, number(n)))
    return result


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices, in the flattened array, of the elements that are not zero.

    Args:
      a: array or number.
      size: the number of indices in the result, needed where the array is traced: more are left out, fewer padded.
      fill_value: pads the result, one for all axes or one for each; None for 0.

    Returns:
      A vector of integers.

    Raises:
      ConcretizationTypeError: `a` is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.flatnonzero(jnp.array([[0, 5], [7, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(as_operand(a)), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices of the elements that are not zero, one in each row.

    Args:
      a: array or number.
      size: the number of indices in the result, needed where the array is traced: more are left out, fewer padded.
      fill_value: pads the result, one for all axes or one for each; None for 0.

    Returns:
      Integers [number of indices, number of axes].

    Raises:
      ConcretizationTypeError: `a` is traced and there is no `size`.

    >>> import xpr.numpy as jnp
    >>> jnp.argwhere(jnp.array([[0, 5], [7, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    a = as_operand(a)
    if aval_of(a).ndim:
        return stack(nonzero(a, size=size, fill_value=fill_value), -1)
    count = size if size is not None else int(bool(concrete_value(a, "argwhere", _SAY_SIZE)))
    return full((count, 0), 0, dtypes.of_python(int))


# -- Flat indices, and indices for each axis


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Indices into a flattened array converted to one index for each axis.

    Args:
      indices: integers of any shape; negative ones count from the end, those out of bounds are clipped.
      shape: the shape of the array, as a size, a sequence of sizes or a vector; sizes may be traced.

    Returns:
      A tuple of arrays of the shape and dtype of `indices`.

    Raises:
      TypeError: `indices` are not integers.
      ValueError: an array of that shape has no elements.

    >>> import xpr.numpy as jnp
    >>> jnp.unravel_index(jnp.array([1, 5]), (2, 3))
    (Array([0, 1], dtype=int32), Array([1, 2], dtype=int32))
    """
    flat = asarray_like(indices)
    dtype = flat.aval.dtype
    if flat.aval.dtype not in dtypes.INTEGERS:
        raise TypeError(f"unravel_index: indices must be integers, and are {flat.aval.str_short()}.")
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) or getattr(shape, "ndim", 0) == 1 else (shape,)
    if flat.aval.dtype.itemsize < 4:
        flat = convert_element_type(flat, np.int32)
    sizes = tuple(convert(n, aval_of(flat).dtype) if isinstance(n, Tracer) else as_size(n) for n in sizes)
    total = math.prod(sizes)
    if isinstance(total, Tracer):
        is_negative = lt(flat, aval_of(flat).dtype.type(0))
        counted = flat if flat.aval.dtype in dtypes.UNSIGNED else select(is_negative, add(flat, total), flat)
    elif not total:
        raise ValueError(f"unravel_index: an array of shape {sizes} has no elements.")
    else:
        counted = wrapped(flat, total)
    last = size_as(total - 1, aval_of(flat).dtype) if is_symbolic_dim(total) else total - 1
    axes = _unraveled(clip(counted, 0, last), sizes)
    return tuple([convert(asarray_like(x), dtype, flat.aval.weak_type) for x in axes])


def ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise", order: str = "C", *, dtype: Any = None
) -> Any:
    """One index for each axis converted to indices into the flattened array.

    Args:
      multi_index: integers for each axis, which broadcast.
      dims: the shape of the array.
      mode: for indices out of bounds: "raise" needs known values, "wrap" counts modulo the size, "clip" clips them,
        "ignore" takes them as they are.
      order: "C" for row-major order, "F" for column-major order.
      dtype: of the result; None for that to which the indices promote.

    Returns:
      Integers of the broadcast shape.

    Raises:
      TypeError: indices are not integers.
      ValueError: indices are out of bounds, for "raise"; or the dtype is not one of integers, or too narrow for the
        greatest index into an array of that shape.
      ConcretizationTypeError: indices are traced, for "raise".

    >>> import xpr.numpy as jnp
    >>> jnp.ravel_multi_index((jnp.array([0, 1]), jnp.array([1, 2])), (2, 3))
    Array([1, 5], dtype=int32)
    """
    columns = [asarray_like(x) for x in multi_index]
    sizes = tuple(map(operator.index, dims))
    if len(columns) != len(sizes):
        raise ValueError(f"ravel_multi_index: {len(columns)} indices for {len(sizes)} axes.")
    if any(c.aval.dtype not in dtypes.INTEGERS for c in columns):
        types = ", ".join(c.aval.str_short() for c in columns)
        raise TypeError(f"ravel_multi_index: indices must be integers, and are {types}.")
    if order not in ("C", "F"):
        raise ValueError(f'ravel_multi_index: order must be "C" or "F", and is {order!r}.')
    if dtype is None:
        index_types = [(c.aval.dtype, c.aval.weak_type) for c in columns]
        chosen, _ = dtypes.promote_all([(dtypes.of_python(int), True), *index_types])
    else:
        chosen = requested_dtype(dtype)
    if chosen not in dtypes.INTEGERS or math.prod(sizes) - 1 > dtypes.iinfo(chosen).max:
        raise ValueError(
            f"ravel_multi_index: {chosen.name} is not large enough to hold a flattened index into an array of shape "
            f"{sizes}, or is no integer dtype. Give a wider one, as dtype={np.min_scalar_type(-math.prod(sizes))}."
        )
    wide = [convert(c, dtypes.int32) if c.aval.dtype.itemsize < 4 else c for c in columns]
    columns = [convert(_inside(c, n, mode), chosen) for c, n in zip(wide, sizes)]
    pairs = list(zip(promote_shapes(*columns), sizes))
    total: Any = None
    for column, n in pairs if order == "C" else reversed(pairs):
        total = column if total is None else add(mul(total, chosen.type(n)), column)
    return total if total is not None else convert(_indices(0), chosen)


_TRACED = (
    "The error occurred because ravel_multi_index was jit-compiled with mode='raise'. Use mode='wrap' or mode='clip' "
    "instead."
)


def _inside(column: Any, n: int, mode: str) -> Any:
    if mode == "clip":
        return clip(column, 0, n - 1)
    if mode == "wrap":
        return remainder(column, n)
    if mode == "ignore":
        return column
    if mode != "raise":
        raise ValueError(f'ravel_multi_index: mode must be "raise", "wrap", "clip" or "ignore", and is {mode!r}.')
    value = concrete_value(column, 'ravel_multi_index(mode="raise")', _TRACED)
    if ((value < 0) | (value >= n)).any():
        raise ValueError(
            f"invalid entry in coordinates array: ravel_multi_index: indices lie outside of an axis of size {n}."
        )
    return column


# -- Grids and triangles


def ix_(*args: Any) -> tuple[Any, ...]:
    """Vectors reshaped to index a grid: `x[jnp.ix_(rows, columns)]` has the elements at all their pairs.

    Args:
      *args: vectors of integers, or masks with known values.

    Returns:
      A tuple of arrays, vector i lying along axis i.

    Raises:
      ValueError: an argument is not a vector.

    >>> import xpr.numpy as jnp
    >>> jnp.ix_(jnp.array([0, 2]), jnp.array([1]))
    (Array([[0],
           [2]], dtype=int32), Array([[1]], dtype=int32))
    """
    vectors = []
    for axis, arg in enumerate(args):
        vector = asarray_like(arg)
        if vector.aval.ndim != 1:
            raise ValueError(f"ix_: takes vectors, and argument {axis} is {vector.aval.str_short()}.")
        if vector.aval.dtype == dtypes.bool_:
            (vector,) = nonzero(vector)
        elif not vector.aval.size:
            vector = _indices([])
        shape = [1] * len(args)
        shape[axis] = aval_of(vector).size
        vectors.append(reshape(vector, shape))
    return tuple(vectors)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array whose axes have size n.

    Args:
      n: the size of the axes.
      ndim: the number of axes.

    Returns:
      A tuple of `ndim` vectors [n].

    Raises:
      ValueError: a size is negative.

    >>> import xpr.numpy as jnp
    >>> jnp.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0 or ndim < 0:
        raise ValueError(f"diag_indices: sizes can't be negative, and {n} and {ndim} were given.")
    return (_indices(np.arange(n)),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array whose axes have the same size.

    Raises:
      ValueError: the array has fewer than two axes, or axes of different sizes.

    >>> import xpr.numpy as jnp
    >>> jnp.diag_indices_from(jnp.ones((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    sizes = shape(arr)
    if len(sizes) < 2 or len(set(sizes)) != 1:
        raise ValueError(f"diag_indices_from: needs two axes or more, all of one size, and the shape is {sizes}.")
    return diag_indices(sizes[0], len(sizes))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of the elements on and below the k-th diagonal of an n by m matrix.

    Args:
      n: the number of rows.
      k: the diagonal; 0 is the main one, positive ones are above it.
      m: the number of columns; None for n.

    Returns:
      Two vectors of integers.

    >>> import xpr.numpy as jnp
    >>> jnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    width = n if m is None else m
    if any(map(is_symbolic_dim, (n, k, width))):
        return _triangle_indices(n, width, k, le, n * width - _upper_count(n, width, k + 1))
    rows, columns = np.tril_indices(n, k, m)
    return _indices(rows), _indices(columns)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of the elements on and above the k-th diagonal of an n by m matrix.

    Args:
      n: the number of rows.
      k: the diagonal; 0 is the main one, positive ones are above it.
      m: the number of columns; None for n.

    Returns:
      Two vectors of integers.

    >>> import xpr.numpy as jnp
    >>> jnp.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    width = n if m is None else m
    if any(map(is_symbolic_dim, (n, k, width))):
        return _triangle_indices(n, width, k, ge, _upper_count(n, width, k))
    rows, columns = np.triu_indices(n, k, m)
    return _indices(rows), _indices(columns)


def _upper_count(n: Any, m: Any, k: Any) -> Any:
    """How many elements of an n by m matrix are on and above its k-th diagonal: whole rows, then ever shorter ones."""
    whole = min_dim(n, max_dim(-k, 0))
    longest = max_dim(m - max_dim(k, 0), 0)
    shorter = min_dim(n - whole, longest)
    return whole * m + shorter * longest - shorter * (shorter - 1) // 2


def _triangle_indices(n: Any, m: Any, k: Any, compare: Callable[..., Any], count: Any) -> tuple[Any, Any]:
    """The indices of the `count` elements whose column and row + k satisfy a comparison; sizes may be symbolic."""
    rows, columns = (broadcasted_iota(dtypes.int32, (n, m), axis) for axis in (0, 1))
    chosen = compare(columns, add(rows, size_as(k, dtypes.int32)))
    return nonzero(chosen, size=count)  # type: ignore[return-value]  # one for each axis


def _matrix_shape(name: str, arr: Any) -> Shape:
    sizes = shape(arr)
    if len(sizes) != 2:
        raise ValueError(f"{name}: takes a matrix, and the shape is {sizes}.")
    return sizes


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the elements on and below the k-th diagonal of a matrix.

    Args:
      arr: a matrix.
      k: the diagonal; 0 is the main one, positive ones are above it.

    Returns:
      Two vectors of integers.

    >>> import xpr.numpy as jnp
    >>> jnp.tril_indices_from(jnp.ones((2, 2)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, m = _matrix_shape("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the elements on and above the k-th diagonal of a matrix.

    Args:
      arr: a matrix.
      k: the diagonal; 0 is the main one, positive ones are above it.

    Returns:
      Two vectors of integers.

    >>> import xpr.numpy as jnp
    >>> jnp.triu_indices_from(jnp.ones((2, 2)))
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    n, m = _matrix_shape("triu_indices_from", arr)
    return triu_indices(n, k, m)


def mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0, *, size: int | None = None) -> tuple[Any, Any]:
    """The indices of the elements of an n by n matrix that a function like `jnp.triu` keeps.

    Args:
      n: the size of the matrix.
      mask_func: `mask_func(ones, k)` returns an array that is not zero at these elements.
      k: the second argument of `mask_func`.
      size: the number of indices in the result, see `nonzero`.

    Returns:
      Two vectors of integers.

    >>> import xpr.numpy as jnp
    >>> jnp.mask_indices(2, jnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = nonzero(mask_func(full(shape_of((n, n)), 1, np.int32), k), size=size)
    return rows, columns
