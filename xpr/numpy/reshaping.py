"""Shapes and axes: reshaping, broadcasting, and axes transposed, added and removed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import array_in, aval_of
from xpr.core.source import depth_of_user
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.notices import warn
from xpr.numpy.axes import broadcasts_to, listed_axes, reduced_axes
from xpr.numpy.creation import copied, to_device
from xpr.numpy.promotion import asarray_like, convert, requested_dtype
from xpr.primitives import elementwise as e
from xpr.primitives import shapes
from xpr.primitives.composites import broadcast_shapes
from xpr.primitives.shapes import one_axis, shape_of
from xpr.primitives.sharding_constraint import decided
from xpr.primitives.slicing import concatenate, slice_in_dim

__all__ = [
    "astype", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "expand_dims", "iterable", "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel", "reshape", "rollaxis",
    "shape", "size", "squeeze", "swapaxes", "transpose",
]  # fmt: skip

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
    a = array_in(a)
    sizes = getattr(a, "shape", None)
    return tuple(sizes) if sizes is not None else np.shape(a)


def size(a: Any, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements of an array, or the product of the sizes of some axes.

    Args:
      a: array, number or nested list.
      axis: the axis or axes; None for all.

    Returns:
      A Python integer.

    Raises:
      ValueError: there is no such axis.

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


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Any:
    """The same elements in another shape.

    Args:
      a: array or number.
      shape: an integer or a sequence of them; one may be -1, and is then computed from the others.
      order: "C" to read and write with the last axis fastest, "F" with the first.
      copy: has no effect; arrays are immutable.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape, and the dtype of `a`.

    Raises:
      TypeError: the number of elements differs.
      NotImplementedError: `order` is neither "C" nor "F".

    >>> import xpr.numpy as jnp
    >>> jnp.reshape(jnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if out_sharding is not None:
        return decided(out_sharding, "reshape", lambda: reshape(a, shape, order, copy=copy))
    if not hasattr(a, "aval"):
        a = asarray_like(a)
    sizes = completed_shape(a.aval, shape)
    if order == "C":
        return shapes.reshape(a, sizes)
    if order != "F":
        raise NotImplementedError(f"reshape: order is 'C' or 'F': arrays have no memory order. {order!r} was given.")
    return _reversed(shapes.reshape(_reversed(a), sizes[::-1]))


def _reversed(a: Any) -> Any:
    return shapes.transpose(a, range(aval_of(a).ndim)[::-1])


def completed_shape(aval: Any, shape: Any) -> tuple[int, ...]:
    """The shape with -1 replaced by the size that the number of elements implies."""
    if type(shape) is not tuple:
        shape = (shape,) if type(shape) is int else tuple(shape) if isinstance(shape, list) else _as_tuple(shape)
    if -1 not in shape:
        return shape_of(shape)
    known = math.prod(shape_of([n for n in shape if n != -1]))
    if shape.count(-1) > 1 or not known or aval.size % known:
        raise TypeError(
            f"reshape: {aval.str_short()} has {aval.size} elements, which can't be put into shape {shape}: "
            "one size at most may be -1, and the product of the others must divide the number of elements."
        )
    return shape_of([aval.size // known if n == -1 else n for n in shape])


def _as_tuple(shape: Any) -> tuple[Any, ...]:
    sizes = shape if hasattr(shape, "__iter__") and getattr(shape, "ndim", 1) > 0 else (shape,)
    return tuple([n.__index__() if hasattr(n, "__index__") and not is_symbolic_dim(n) else n for n in sizes])


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """All elements as a vector.

    Args:
      a: array or number.
      order: "C" to read with the last axis fastest, "F" with the first.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      A vector of the dtype of `a`.

    >>> import xpr.numpy as jnp
    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    return decided(out_sharding, "ravel", lambda: reshape(a, (-1,), order))


# -- Axes


def expand_dims(a: Any, axis: int | Sequence[int]) -> Any:
    """The array with new axes of size 1.

    Args:
      a: array or number.
      axis: the positions of the new axes in the result, an integer or several.

    Returns:
      An array with as many more axes.

    Raises:
      ValueError: the result has no such axis, or an axis is named twice.

    >>> import xpr.numpy as jnp
    >>> jnp.expand_dims(jnp.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    a = asarray_like(a)
    count = len(listed_axes(axis))
    axes = reduced_axes(axis, a.aval.ndim + count)
    return shapes.expand_dims(a, axes) if axes else a


def squeeze(a: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The array without axes of size 1.

    Args:
      a: array or number.
      axis: the axis or axes to remove; None for all of size 1.

    Returns:
      An array without those axes.

    Raises:
      ValueError: there is no such axis, or its size is not 1.
      InconclusiveDimensionOperation: there is no axis given, and a symbolic size may be 1.

    >>> import xpr.numpy as jnp
    >>> jnp.squeeze(jnp.ones((1, 3, 1))).shape
    (3,)
    """
    a = asarray_like(a)
    sizes = a.aval.shape
    axes = [i for i, n in enumerate(sizes) if n < 2 and n == 1] if axis is None else reduced_axes(axis, len(sizes))
    return shapes.squeeze(a, axes)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """The array with its axes permuted, or reversed.

    Args:
      a: array or number.
      axes: axis i of the result is axis `axes[i]` of the array; None reverses the order.

    Returns:
      An array whose shape is permuted alike.

    Raises:
      TypeError: `axes` is not a permutation of the axes.

    >>> import xpr.numpy as jnp
    >>> jnp.transpose(jnp.ones((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    a = asarray_like(a)
    count = a.aval.ndim
    order = range(count)[::-1] if axes is None else reduced_axes(tuple(axes), count)
    return shapes.transpose(a, order)


def permute_dims(a: Any, /, axes: Sequence[int]) -> Any:
    """The array with its axes permuted.

    Args:
      a: array or number.
      axes: axis i of the result is axis `axes[i]` of the array.

    Returns:
      An array whose shape is permuted alike.

    Raises:
      TypeError: `axes` is not a permutation of the axes.

    >>> import xpr.numpy as jnp
    >>> jnp.permute_dims(jnp.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return transpose(a, axes)


def matrix_transpose(x: Any, /) -> Any:
    """The array with its last two axes exchanged.

    Raises:
      ValueError: the array has fewer than two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.matrix_transpose(jnp.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = asarray_like(x)
    if x.aval.ndim < 2:
        raise ValueError(f"matrix_transpose: takes an array of at least two axes, and its shape is {x.aval.shape}.")
    return swapaxes(x, -1, -2)


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """The array with two axes exchanged.

    Args:
      a: array or number.
      axis1: the axes.
      axis2: the axes.

    Returns:
      An array with these axes exchanged.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    a = asarray_like(a)
    order = list(range(a.aval.ndim))
    first, second = one_axis(axis1, len(order)), one_axis(axis2, len(order))
    order[first], order[second] = second, first
    return shapes.transpose(a, order)


def moveaxis(a: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """The array with axes moved to other positions, the others staying in order.

    Args:
      a: array or number.
      source: the axis or axes to move.
      destination: their positions in the result, as many.

    Returns:
      An array with its axes in that order.

    Raises:
      ValueError: there is no such axis, or there are not as many destinations as sources.

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


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """The array with one axis moved before the axis at `start`.

    Args:
      a: array or number.
      axis: the axis to move.
      start: the axis before which it is moved.

    Returns:
      An array with its axes in that order.

    Raises:
      ValueError: there is no such axis, or `start` is out of range.

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


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """The array repeated along new leading axes and along axes of size 1.

    Args:
      array: array or number.
      shape: the shape, an integer or a sequence of them.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape, and the dtype of `array`.

    Raises:
      ValueError: the array does not broadcast to the shape.

    >>> import xpr.numpy as jnp
    >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    if out_sharding is not None:
        return decided(out_sharding, "broadcast_to", lambda: broadcast_to(array, shape))
    array = asarray_like(array)
    sizes, old = shape_of(shape), array.aval.shape
    if old != sizes and not broadcasts_to(old, sizes):
        fault = "Cannot broadcast to shape with fewer dimensions" if len(old) > len(sizes) else ""
        raise ValueError(
            f"broadcast_to: {fault or 'Incompatible shapes for broadcasting'}: {old} does not broadcast to {sizes}. "
            "Aligned at their last axes, sizes must be equal or 1. Insert axes with x[:, None], or reshape."
        )
    return shapes.broadcast_to(array, sizes)


def broadcast_arrays(*args: Any) -> list[Any]:
    """Arrays, each broadcast to their common shape.

    >>> import xpr.numpy as jnp
    >>> jnp.broadcast_arrays(jnp.arange(2), 7)
    [Array([0, 1], dtype=int32), Array([7, 7], dtype=int32, weak_type=True)]
    """
    arrays = [asarray_like(x) for x in args]
    sizes = broadcast_shapes(*(x.aval.shape for x in arrays))
    return [shapes.broadcast_to(x, sizes) for x in arrays]


def _with_axes_added(arrays: Sequence[Any], axes_added: Callable[[int], tuple[int, ...]]) -> Any:
    """Arrays with new axes of size 1, whose positions `axes_added(ndim)` gives; a list if there are several arrays."""
    results = []
    for x in map(asarray_like, arrays):
        axes = axes_added(x.aval.ndim)
        results.append(shapes.expand_dims(x, axes) if axes else x)
    return results[0] if len(results) == 1 else results


def axes_to_1d(n: int) -> tuple[int, ...]:
    """The axes of size 1 that make an array of n axes one of at least one."""
    return () if n else (0,)


def axes_to_2d(n: int) -> tuple[int, ...]:
    """The axes of size 1 that make an array of n axes one of at least two: in front."""
    return tuple(range(2 - n))


def axes_to_3d(n: int) -> tuple[int, ...]:
    """The axes of size 1 that make an array of n axes one of at least three: on both sides of a vector."""
    return ((0, 1, 2), (0, 2), (2,))[n] if n < 3 else ()


def atleast_1d(*arys: Any) -> Any:
    """Scalars as vectors of one element, other arrays as they are; a list for several.

    >>> import xpr.numpy as jnp
    >>> jnp.atleast_1d(1.0)
    Array([1.], dtype=float32, weak_type=True)
    """
    return _with_axes_added(arys, axes_to_1d)


def atleast_2d(*arys: Any) -> Any:
    """Vectors as matrices of one row; a list for several.

    >>> import xpr.numpy as jnp
    >>> jnp.atleast_2d(jnp.arange(2))
    Array([[0, 1]], dtype=int32)
    """
    return _with_axes_added(arys, axes_to_2d)


def atleast_3d(*arys: Any) -> Any:
    """Arrays with axes of size 1 added until there are three: one in front and one behind a vector.

    >>> import xpr.numpy as jnp
    >>> jnp.atleast_3d(jnp.ones((2, 3))).shape
    (2, 3, 1)
    """
    return _with_axes_added(arys, axes_to_3d)


# -- Types


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """The array converted to another dtype.

    Floats are rounded towards zero to integers. Of complex numbers the real part is converted, with a
    DeprecationWarning.

    Args:
      x: array or number.
      dtype: of the result.
      copy: whether an array that has the dtype already is copied, so that either may be donated.
      device: a device or sharding for the result; None for the default device.

    Returns:
      An array of the shape of `x`.

    >>> import xpr.numpy as jnp
    >>> jnp.astype(jnp.array([1.5, -2.5]), jnp.int32)
    Array([ 1, -2], dtype=int32)
    """
    x = asarray_like(x)
    target = dtypes.of_python(float) if dtype is None else requested_dtype(dtype)
    source = aval_of(x).dtype
    if source in dtypes.COMPLEX and target in dtypes.REAL:
        warn(
            f"astype: {source.name} is converted to {target.name}, and imaginary parts are lost. Casting from complex "
            "to real dtypes will be an error in JAX. Take jnp.real(x) or jnp.imag(x) first.",
            DeprecationWarning,
            stacklevel=depth_of_user(),
        )
    result = to_device(convert(x, target), device)
    return copied(x) if copy and result is x else result


def view(x: Any, dtype: Any = None) -> Any:
    """The same bits read as another dtype; the last axis grows or shrinks with the size of an element.

    Raises:
      ValueError: the last axis does not hold a whole number of the new elements.

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
    *leading, n, m = aval_of(x).shape
    return shapes.reshape(x, (*leading, n * m))


def _bits_as(x: Any, dtype: np.dtype) -> Any:
    aval = aval_of(x)
    old, new = dtypes.itemsize_bits(aval.dtype), dtypes.itemsize_bits(dtype)
    if old == new:
        return e.bitcast_convert_type(x, dtype)
    if not aval.ndim or aval.shape[-1] * old % new:
        raise ValueError(
            f"view: the last axis of {aval.str_short()} is no whole number of {dtypes.short_name(dtype)} elements."
        )
    if new < old:
        return _joined_last(e.bitcast_convert_type(x, dtype))
    count = new // old
    return e.bitcast_convert_type(shapes.reshape(x, (*aval.shape[:-1], aval.shape[-1] // count, count)), dtype)


def _halves(x: Any) -> tuple[Any, Any]:
    """The even and the odd elements of the last axis, which it keeps, at size 1."""
    *leading, n = aval_of(x).shape
    if n % 2:
        raise ValueError(f"view: {n} floats are no whole number of complex numbers.")
    pairs = shapes.reshape(x, (*leading, n // 2, 2))
    return slice_in_dim(pairs, 0, 1, axis=-1), slice_in_dim(pairs, 1, 2, axis=-1)
