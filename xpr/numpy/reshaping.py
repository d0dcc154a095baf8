"""The same entries in another shape, and axes moved, added, removed and repeated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.numpy.axes import one_axis, reduced_axes
from xpr.numpy.creation import placed, shape_of
from xpr.numpy.key_arrays import moves
from xpr.numpy.promotion import asarray_like, broadcast_shapes, convert, requested_dtype
from xpr.primitives import elementwise as e
from xpr.primitives import shapes
from xpr.primitives.slicing import concatenate, slice_in_dim

# -- What is known without looking


def ndim(a: Any) -> int:
    """The number of axes.

    >>> import xpr.numpy as jnp
    >>> jnp.ndim(jnp.ones((2, 3)))
    2
    """
    return len(shape(a))


def shape(a: Any) -> tuple[int, ...]:
    """The sizes of the axes.

    >>> import xpr.numpy as jnp
    >>> jnp.shape(jnp.ones((2, 3)))
    (2, 3)
    """
    found = getattr(a, "shape", None)
    return tuple(found) if found is not None else np.shape(a)


def size(a: Any, axis: int | Sequence[int] | None = None) -> int:
    """The number of entries, or the size of an axis, or the product of those of several.

    >>> import xpr.numpy as jnp
    >>> jnp.size(jnp.ones((2, 3)))
    6
    """
    sizes = shape(a)
    return math.prod(sizes[i] for i in reduced_axes(axis, len(sizes)))


def iterable(y: Any) -> bool:
    """Whether this can be iterated over.

    >>> import xpr.numpy as jnp
    >>> jnp.iterable(jnp.ones(2)), jnp.iterable(jnp.float32(2))
    (True, False)
    """
    return np.iterable(y)


# -- reshape


@moves("a")
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """The same entries in another shape; one size may be -1, and is what is left.

    Args:
      a: an array.
      shape: an integer or a sequence of them.
      order: "C" to read and write with the last axis fastest, "F" with the first.
      copy: arrays are immutable, so this makes no difference.
    Raises:
      TypeError: the number of entries differs.

    >>> import xpr.numpy as jnp
    >>> jnp.reshape(jnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if not hasattr(a, "aval"):
        a = asarray_like(a)
    sizes = _completed(a.aval, shape)
    if order == "C":
        return shapes.reshape(a, sizes)
    if order != "F":
        raise NotImplementedError(f"reshape: order is 'C' or 'F': arrays have no memory order. {order!r} was given.")
    return _reversed(shapes.reshape(_reversed(a), sizes[::-1]))


def _reversed(a: Any) -> Any:
    return shapes.transpose(a, range(aval_of(a).ndim)[::-1])


def _completed(aval: Any, shape: Any) -> tuple[int, ...]:
    """The shape with -1 replaced by the size that is left for it."""
    if type(shape) is not tuple:
        shape = (shape,) if type(shape) is int else tuple(shape) if isinstance(shape, list) else _as_tuple(shape)
    if -1 not in shape:
        return shape_of(shape)
    rest = math.prod(shape_of([n for n in shape if n != -1]))
    if shape.count(-1) > 1 or not rest or aval.size % rest:
        raise TypeError(
            f"reshape: {aval.str_short()} has {aval.size} entries, which can't be put into shape {shape}: "
            "one size at most may be -1, and the product of the others must divide the number of entries."
        )
    return shape_of([aval.size // rest if n == -1 else n for n in shape])


def _as_tuple(shape: Any) -> tuple[Any, ...]:
    sizes = shape if hasattr(shape, "__iter__") and getattr(shape, "ndim", 1) > 0 else (shape,)
    return tuple([n.__index__() if hasattr(n, "__index__") else n for n in sizes])


@moves("a")
def ravel(a: Any, order: str = "C") -> Any:
    """All entries in one axis.

    >>> import xpr.numpy as jnp
    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    return reshape(a, (-1,), order)


# -- Axes


@moves("a")
def expand_dims(a: Any, axis: int | Sequence[int]) -> Any:
    """Axes of size 1 inserted, at the places that `axis` names in the result.

    >>> import xpr.numpy as jnp
    >>> jnp.expand_dims(jnp.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    a = asarray_like(a)
    count = 1 if not isinstance(axis, (tuple, list)) else len(axis)
    axes = reduced_axes(axis, a.aval.ndim + count)
    return shapes.expand_dims(a, axes) if axes else a


@moves("a")
def squeeze(a: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Without axes of size 1: all of them, or those named.

    Raises:
      ValueError: an axis that is named has another size.

    >>> import xpr.numpy as jnp
    >>> jnp.squeeze(jnp.ones((1, 3, 1))).shape
    (3,)
    """
    a = asarray_like(a)
    sizes = a.aval.shape
    axes = [i for i, n in enumerate(sizes) if n == 1] if axis is None else reduced_axes(axis, len(sizes))
    return shapes.squeeze(a, axes)


@moves("a")
def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """The axes in another order, or reversed: axis i of the result is axis `axes[i]` of the array.

    >>> import xpr.numpy as jnp
    >>> jnp.transpose(jnp.ones((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    a = asarray_like(a)
    count = a.aval.ndim
    order = range(count)[::-1] if axes is None else reduced_axes(tuple(axes), count)
    return shapes.transpose(a, order)


@moves("a")
def permute_dims(a: Any, /, axes: Sequence[int]) -> Any:
    """The axes in another order: axis i of the result is axis `axes[i]` of the array.

    >>> import xpr.numpy as jnp
    >>> jnp.permute_dims(jnp.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return transpose(a, axes)


@moves("x")
def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged.

    >>> import xpr.numpy as jnp
    >>> jnp.matrix_transpose(jnp.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = asarray_like(x)
    if x.aval.ndim < 2:
        raise ValueError(f"matrix_transpose: takes an array of at least two axes, and its shape is {x.aval.shape}.")
    return swapaxes(x, -1, -2)


@moves("a")
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged.

    >>> import xpr.numpy as jnp
    >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    a = asarray_like(a)
    order = list(range(a.aval.ndim))
    first, second = one_axis(axis1, len(order)), one_axis(axis2, len(order))
    order[first], order[second] = second, first
    return shapes.transpose(a, order)


@moves("a")
def moveaxis(a: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Axes moved to other places, the rest kept in order.

    >>> import xpr.numpy as jnp
    >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = asarray_like(a)
    count = a.aval.ndim
    sources, targets = reduced_axes(source, count), reduced_axes(destination, count)
    if len(sources) != len(targets):
        raise ValueError(f"moveaxis: the sources {source} and the destinations {destination} are not equally many.")
    order = [i for i in range(count) if i not in sources]
    for target, axis in sorted(zip(targets, sources)):
        order.insert(target, axis)
    return shapes.transpose(a, order)


@moves("a")
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """One axis moved to lie before the one that is at `start`.

    >>> import xpr.numpy as jnp
    >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    a = asarray_like(a)
    count = a.aval.ndim
    axis = one_axis(axis, count)
    if not -count <= start <= count:
        raise ValueError(f"rollaxis: start={start} is not between {-count} and {count}.")
    start = start + count if start < 0 else start
    return shapes.move_axis(a, axis, start - (start > axis))


# -- Broadcasting


@moves("array")
def broadcast_to(array: Any, shape: Any) -> Any:
    """The array repeated along new axes in front and along axes of size 1.

    Raises:
      ValueError: the array does not broadcast to the shape.

    >>> import xpr.numpy as jnp
    >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    array = asarray_like(array)
    sizes, own = shape_of(shape), array.aval.shape
    if own != sizes and (len(own) > len(sizes) or any(n not in (1, m) for n, m in zip(own[::-1], sizes[::-1]))):
        raise ValueError(
            f"broadcast_to: shape {own} does not broadcast to {sizes}: aligned at their last axes, sizes must be equal "
            "or 1. Insert axes with x[:, None], or reshape."
        )
    return shapes.broadcast_to(array, sizes)


@moves("args")
def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays, each broadcast to the shape of all.

    >>> import xpr.numpy as jnp
    >>> jnp.broadcast_arrays(jnp.arange(2), 7)
    [Array([0, 1], dtype=int32), Array([7, 7], dtype=int32, weak_type=True)]
    """
    arrays = [asarray_like(x) for x in args]
    sizes = broadcast_shapes(*(x.aval.shape for x in arrays))
    return [shapes.broadcast_to(x, sizes) for x in arrays]


def _each(arrays: Sequence[Any], axes_added: Any) -> Any:
    """Every array with axes added to it: the one result, or a list of them."""
    results = []
    for x in map(asarray_like, arrays):
        axes = axes_added(x.aval.ndim)
        results.append(shapes.expand_dims(x, axes) if axes else x)
    return results[0] if len(results) == 1 else results


@moves("arys")
def atleast_1d(*arys: Any) -> Any:
    """Scalars as vectors of one entry, other arrays as they are; a list for several.

    >>> import xpr.numpy as jnp
    >>> jnp.atleast_1d(1.0)
    Array([1.], dtype=float32, weak_type=True)
    """
    return _each(arys, lambda n: () if n else (0,))


@moves("arys")
def atleast_2d(*arys: Any) -> Any:
    """Vectors as matrices of one row; a list for several.

    >>> import xpr.numpy as jnp
    >>> jnp.atleast_2d(jnp.arange(2))
    Array([[0, 1]], dtype=int32)
    """
    return _each(arys, lambda n: range(2 - n))


@moves("arys")
def atleast_3d(*arys: Any) -> Any:
    """Arrays with axes of size 1 added until there are three: one in front and one behind a vector.

    >>> import xpr.numpy as jnp
    >>> jnp.atleast_3d(jnp.ones((2, 3))).shape
    (2, 3, 1)
    """
    return _each(arys, lambda n: ((0, 1, 2), (0, 2), (2,))[n] if n < 3 else ())


# -- Types


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """The array in another dtype; floats become integers towards zero, complex numbers real ones by their real part.

    >>> import xpr.numpy as jnp
    >>> jnp.astype(jnp.array([1.5, -2.5]), jnp.int32)
    Array([ 1, -2], dtype=int32)
    """
    x = asarray_like(x)
    target = dtypes.of_python(float) if dtype is None else requested_dtype(dtype)
    return placed(convert(x, target), device)


def view(x: Any, dtype: Any = None) -> Any:
    """The same bits read as another dtype; the last axis grows or shrinks with the size of an entry.

    Raises:
      ValueError: the last axis does not hold a whole number of the new entries.

    >>> import xpr.numpy as jnp
    >>> jnp.array([1.0, 2.0]).view("int32")
    Array([1065353216, 1073741824], dtype=int32)
    """
    x = asarray_like(x)
    target = x.aval.dtype if dtype is None else requested_dtype(dtype)
    if target == x.aval.dtype:
        return x
    if target == dtypes.bool_:
        return e.ne(view(x, dtypes.uint8), dtypes.uint8.type(0))
    if target in dtypes.COMPLEX:
        parts = view(x, dtypes.real_part_of(target))
        halves = (shapes.squeeze(half, (-1,)) for half in _halves(parts))
        return e.complex_(*halves)
    return _bits_as(_real_bits(x), target)


def _real_bits(x: Any) -> Any:
    """The array in a dtype that XLA reads the bits of: booleans as bytes, complex numbers as pairs."""
    if x.aval.dtype == dtypes.bool_:
        return convert(x, dtypes.uint8)
    if x.aval.dtype not in dtypes.COMPLEX:
        return x
    last = (aval_of(x).ndim,)
    pairs = concatenate([shapes.expand_dims(e.real(x), last), shapes.expand_dims(e.imag(x), last)], *last)
    return _joined_last(pairs)


def _joined_last(x: Any) -> Any:
    """The last two axes as one."""
    *rest, n, m = aval_of(x).shape
    return shapes.reshape(x, (*rest, n * m))


def _bits_as(x: Any, dtype: np.dtype) -> Any:
    own, ratio = aval_of(x), dtype.itemsize / aval_of(x).dtype.itemsize
    if ratio == 1:
        return e.bitcast_convert_type(x, dtype)
    if not own.ndim or own.shape[-1] * own.dtype.itemsize % dtype.itemsize:
        raise ValueError(
            f"view: the last axis of {own.str_short()} is no whole number of {dtypes.short_name(dtype)} entries."
        )
    if ratio < 1:
        return _joined_last(e.bitcast_convert_type(x, dtype))
    count = dtype.itemsize // own.dtype.itemsize
    return e.bitcast_convert_type(shapes.reshape(x, (*own.shape[:-1], own.shape[-1] // count, count)), dtype)


def _halves(x: Any) -> tuple[Any, Any]:
    """The even and the odd entries of the last axis, which it keeps, at size 1."""
    *rest, n = aval_of(x).shape
    if n % 2:
        raise ValueError(f"view: {n} floats are no whole number of complex numbers.")
    pairs = shapes.reshape(x, (*rest, n // 2, 2))
    return slice_in_dim(pairs, 0, 1, axis=-1), slice_in_dim(pairs, 1, 2, axis=-1)
