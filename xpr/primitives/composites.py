"""Functions of `xpr.lax` that are short compositions of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, placement_like
from xpr.backend.sharding import Sharding
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.dimensions.slices import broadcast_sizes
from xpr.errors import ArgumentError
from xpr.primitives import shapes
from xpr.primitives.collectives.varying import varying_as
from xpr.primitives.elementwise import (
    add,
    bitwise_and,
    convert_element_type,
    convert_element_type_p,
    div,
    mul,
    scalar,
    shift_right_arithmetic,
    shift_right_logical,
)
from xpr.primitives.sharding_constraint import decided, sharded
from xpr.primitives.slicing import broadcasted_iota, concatenate

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_shapes", "broadcast_to_rank", "collapse", "dtype", "expand_dims",
    "full", "full_like", "iota", "mulhi", "reciprocal", "reshape", "shape_as_value",
]  # fmt: skip


def mulhi(x: Any, y: Any, /) -> Any:
    """The upper half of the bits of the product of integers, elementwise.

    From products of halves of the operands (Warren, "Hacker's Delight", 2012, chapter 8.2).

    Args:
      x: an array of integers.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      Integers of the same shape and dtype.

    Raises:
      TypeError: the operands are no integers of one dtype.

    >>> import numpy as np
    >>> from xpr import lax
    >>> lax.mulhi(np.int32(2**30), np.int32(12))
    Array(3, dtype=int32)
    """
    dtype = aval_of(x).dtype
    if dtype not in dtypes.INTEGERS or aval_of(y).dtype != dtype:
        types = " and ".join(aval_of(operand).str_short() for operand in (x, y))
        raise TypeError(f"mulhi: takes integers of one dtype, and got {types}.")
    bits = dtypes.itemsize_bits(dtype) // 2
    weak = aval_of(x).weak_type and aval_of(y).weak_type
    half, low = (number if weak else dtype.type(number) for number in (bits, (1 << bits) - 1))
    x0, y0 = bitwise_and(x, low), bitwise_and(y, low)
    upper = shift_right_arithmetic if dtype in dtypes.SIGNED else shift_right_logical
    x1, y1 = upper(x, half), upper(y, half)
    middle = add(mul(x1, y0), shift_right_logical(mul(x0, y0), half))
    other = add(mul(x0, y1), bitwise_and(middle, low))
    return add(add(mul(x1, y1), upper(middle, half)), upper(other, half))


def shape_as_value(shape: Sequence[int]) -> Any:
    """A shape as an array of integers.

    Args:
      shape: the sizes of axes.

    Returns:
      int32[n].

    >>> from xpr import lax
    >>> lax.shape_as_value((2, 3))
    Array([2, 3], dtype=int32)
    """
    if any(map(is_symbolic_dim, shape)):
        return concatenate([expand_dims(convert_element_type(n, dtypes.int32), (0,)) for n in shape], 0)
    return convert_element_type(np.asarray(shape, np.int32), dtypes.int32)


def full(shape: int | Sequence[int], fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """An array filled with one scalar.

    Args:
      shape: the shape of the result.
      fill_value: a scalar, which may be traced.
      dtype: of the result; None for that of the scalar.
      sharding: for the result; None for the compiler's choice.

    Returns:
      An array of the shape.

    Raises:
      TypeError: `fill_value` is not a scalar.

    >>> from xpr import lax
    >>> lax.full((2,), 7, "float32")
    Array([7., 7.], dtype=float32)
    """
    aval = aval_of(fill_value)
    if aval.shape:
        raise TypeError(f"full: the value to repeat must be a scalar, and is {aval.str_short()}. Use broadcast_in_dim.")
    weak = dtype is None and aval.weak_type
    number = fill_value if weak else convert_element_type(fill_value, aval.dtype if dtype is None else dtype)
    return sharded(shapes.broadcast_in_dim(number, shapes.shape_of(shape), ()), sharding, "full")


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: int | Sequence[int] | None = None, sharding: Any = None
) -> Any:
    """An array filled with one scalar, with the shape and dtype of another, on its device or with its sharding.

    Args:
      x: an array.
      fill_value: a scalar.
      dtype: of the result; None for that of `x`.
      shape: of the result; None for that of `x`.
      sharding: for the result; None for that of `x`, if `shape` is None or `x` is not sharded.

    Returns:
      An array.

    >>> from xpr import lax, numpy as jnp
    >>> lax.full_like(jnp.zeros(2), 3)
    Array([3., 3.], dtype=float32)
    """
    aval = aval_of(x)
    if dtype is None and aval.weak_type:
        fill_value = convert_element_type_p.bind(fill_value, new_dtype=aval.dtype, weak_type=True)
    elif dtype is None:
        dtype = aval.dtype
    placement = placement_like(x, shape is None) if sharding is None else None
    if isinstance(placement, Sharding):
        sharding, placement = placement, None
    made = full(aval.shape if shape is None else shape, fill_value, dtype, sharding=sharding)
    if aval.varying:
        return varying_as(made, aval)
    return Array(made.aval, made.host, None, placement) if placement is not None and type(made) is Array else made


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Any:
    """The array repeated along new axes and axes of size 1: its axis i becomes axis `broadcast_dimensions[i]`.

    Args:
      operand: an array.
      shape: the shape of the result.
      broadcast_dimensions: for each axis of `operand` its position in the result.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape.

    Raises:
      TypeError: sizes are neither 1 nor those of the shape, or axes are wrong.

    >>> from xpr import lax, numpy as jnp
    >>> lax.broadcast_in_dim(jnp.arange(2), (2, 2), (0,))
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    shape, dimensions = shapes.shape_of(shape), shapes.shape_of(broadcast_dimensions)
    order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
    if len(dimensions) == aval_of(operand).ndim and order != list(range(len(dimensions))):
        operand, dimensions = shapes.transpose(operand, order), tuple(sorted(dimensions))
    return decided(out_sharding, "broadcast_in_dim", lambda: shapes.broadcast_in_dim(operand, shape, dimensions))


def iota(dtype: Any, size: int) -> Any:
    """The numbers 0, 1, ..., size - 1.

    Args:
      dtype: of the result.
      size: the number of elements.

    Returns:
      A vector.

    >>> from xpr import lax
    >>> lax.iota("int32", 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtypes.requested(dtype), (size,), 0)


def reshape(
    operand: Any,
    new_sizes: int | Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The same elements, in row-major order, in another shape.

    Args:
      operand: an array.
      new_sizes: the shape of the result.
      dimensions: the order of the operand's axes in which its elements are taken; None for their own.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape.

    Raises:
      TypeError: the shape has another number of elements.

    >>> from xpr import lax, numpy as jnp
    >>> lax.reshape(jnp.arange(4), (2, 2))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    if dimensions is not None:
        operand = shapes.transpose(operand, tuple(dimensions))
    return decided(out_sharding, "reshape", lambda: shapes.reshape(operand, shapes.shape_of(new_sizes)))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """The array with new axes of size 1.

    Args:
      array: an array.
      dimensions: the positions of the new axes in the result.

    Returns:
      An array with as many more axes.

    Raises:
      ValueError: the result has no such axis.

    >>> from xpr import lax, numpy as jnp
    >>> lax.expand_dims(jnp.zeros(3), (0, 2)).shape
    (1, 3, 1)
    """
    dimensions = shapes.tuple_of(dimensions, "expand_dims", "dimensions")
    count = aval_of(array).ndim + len(dimensions)
    return shapes.expand_dims(array, [shapes.one_axis(axis, count) for axis in dimensions])


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The array repeated along new leading axes.

    Args:
      operand: an array.
      sizes: the sizes of the new axes.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape `(*sizes, *operand.shape)`.

    Raises:
      TypeError: `sizes` is a single number.

    >>> from xpr import lax, numpy as jnp
    >>> lax.broadcast(jnp.zeros(3), (2,)).shape
    (2, 3)
    """
    old_shape = aval_of(operand).shape
    shape = shapes.tuple_of(sizes, "broadcast", "sizes") + old_shape
    old_axes = range(len(shape) - len(old_shape), len(shape))
    return decided(out_sharding, "broadcast", lambda: shapes.broadcast_in_dim(operand, shape, old_axes))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """The array with leading axes of size 1, so that it has a number of axes.

    Args:
      x: an array.
      rank: the number of axes.

    Returns:
      An array with `rank` axes.

    >>> from xpr import lax, numpy as jnp
    >>> lax.broadcast_to_rank(jnp.zeros(3), 3).shape
    (1, 1, 3)
    """
    return shapes.expand_dims(x, range(rank - aval_of(x).ndim))


def broadcast_shapes(*args: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    Raises:
      ValueError: they don't broadcast, or a size is negative.
      TypeError: one is no sequence of integers.

    >>> from xpr import lax
    >>> lax.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    try:
        return broadcast_sizes(args)
    except (TypeError, ValueError):
        return broadcast_operands(list(map(shapes.shape_of, args)))


def broadcast_operands(shapes: Sequence[Sequence[int]], name: str = "") -> tuple[int, ...]:
    """The shape that the operands of an operation of this name broadcast to, as `broadcast_shapes` gives it."""
    try:
        return broadcast_sizes(shapes)
    except ValueError:
        listed = ", ".join(str(tuple(s)) for s in shapes)
        what = f"{name} got incompatible shapes for broadcasting: {listed}" if name else ""
        raise ArgumentError(
            f"{what or f'Incompatible shapes for broadcasting: shapes=[{listed}]'}. "
            "Aligned at their last axes, sizes must be equal or 1. Insert axes with x[:, None], or reshape."
        ) from None


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """The array with consecutive axes joined into one.

    Args:
      operand: an array.
      start_dimension: the first of the axes.
      stop_dimension: the axis behind the last; None for all axes to the end.

    Returns:
      An array with fewer axes.

    >>> from xpr import lax, numpy as jnp
    >>> lax.collapse(jnp.zeros((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    shape = aval_of(operand).shape
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    return shapes.reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


def reciprocal(x: Any) -> Any:
    """One over each element.

    >>> from xpr import lax
    >>> lax.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return div(scalar(1, x), x)


def dtype(x: Any) -> np.dtype:
    """The dtype of anything array-like, or the dtype itself that a scalar type or a name stands for, as xpr holds it.

    >>> from xpr import lax
    >>> lax.dtype(1.0), lax.dtype("int8"), lax.dtype(float)
    (dtype('float32'), dtype('int8'), dtype('float32'))
    """
    if isinstance(x, (type, str, np.dtype)) or (callable(x) and hasattr(x, "dtype")):  # the last as jnp.float32 is
        return dtypes.requested(x)
    return aval_of(x).dtype
