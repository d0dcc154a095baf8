"""The functions of `xpr.lax` that are a line or two of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.primitives import shapes
from xpr.primitives.elementwise import convert_element_type, convert_element_type_p, div, scalar
from xpr.primitives.slicing import broadcasted_iota


def full(shape: int | Sequence[int], fill_value: Any, dtype: Any = None) -> Any:
    """An array of one scalar repeated.

    Args:
      shape: the shape of the result.
      fill_value: a scalar, which may be traced.
      dtype: of the result; that of the scalar where not given.
    Raises:
      TypeError: `fill_value` is no scalar.

    >>> from xpr import lax
    >>> lax.full((2,), 7, "float32")
    Array([7., 7.], dtype=float32)
    """
    aval = aval_of(fill_value)
    if aval.shape:
        raise TypeError(f"full: the value to repeat must be a scalar, and is {aval.str_short()}. Use broadcast_in_dim.")
    weak = dtype is None and aval.weak_type
    number = fill_value if weak else convert_element_type(fill_value, aval.dtype if dtype is None else dtype)
    return shapes.broadcast_in_dim(number, shapes.shape_of(shape), ())


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: int | Sequence[int] | None = None) -> Any:
    """An array of one scalar repeated, with the shape and dtype of `x` where no others are given.

    >>> from xpr import lax, numpy as jnp
    >>> lax.full_like(jnp.zeros(2), 3)
    Array([3., 3.], dtype=float32)
    """
    aval = aval_of(x)
    if dtype is None and aval.weak_type:
        fill_value = convert_element_type_p.bind(fill_value, new_dtype=aval.dtype, weak_type=True)
    elif dtype is None:
        dtype = aval.dtype
    return full(aval.shape if shape is None else shape, fill_value, dtype)


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """Repeats an array along new or size-1 axes: axis i of `operand` becomes axis `broadcast_dimensions[i]`.

    Raises:
      TypeError: sizes are neither 1 nor those of the shape, or an axis is named twice or is not there.

    >>> from xpr import lax, numpy as jnp
    >>> lax.broadcast_in_dim(jnp.arange(2), (2, 2), (0,))
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    shape, places = shapes.shape_of(shape), shapes.shape_of(broadcast_dimensions)
    order = sorted(range(len(places)), key=places.__getitem__)
    if len(places) == aval_of(operand).ndim and order != list(range(len(places))):
        operand, places = shapes.transpose(operand, order), tuple(sorted(places))
    return shapes.broadcast_in_dim(operand, shape, places)


def iota(dtype: Any, size: int) -> Any:
    """The numbers 0, 1, ..., size - 1.

    >>> from xpr import lax
    >>> lax.iota("int32", 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtypes.canonical(dtype), (size,), 0)


def reshape(operand: Any, new_sizes: int | Sequence[int]) -> Any:
    """The same elements, in row-major order, in another shape.

    Raises:
      TypeError: the shape has another number of elements, or is none.

    >>> from xpr import lax, numpy as jnp
    >>> lax.reshape(jnp.arange(4), (2, 2))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    return shapes.reshape(operand, shapes.shape_of(new_sizes))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Axes of size 1 inserted where `dimensions` says that they are in the result.

    Raises:
      ValueError: the result has no such axis.

    >>> from xpr import lax, numpy as jnp
    >>> lax.expand_dims(jnp.zeros(3), (0, 2)).shape
    (1, 3, 1)
    """
    count = aval_of(array).ndim + len(dimensions)
    return shapes.expand_dims(array, [shapes.one_axis(axis, count) for axis in dimensions])


def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """The array repeated along new leading axes of the given sizes.

    >>> from xpr import lax, numpy as jnp
    >>> lax.broadcast(jnp.zeros(3), (2,)).shape
    (2, 3)
    """
    own = aval_of(operand).shape
    return shapes.broadcast_in_dim(operand, (*sizes, *own), range(len(sizes), len(sizes) + len(own)))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """The array with leading axes of size 1, to have `rank` axes in all.

    >>> from xpr import lax, numpy as jnp
    >>> lax.broadcast_to_rank(jnp.zeros(3), 3).shape
    (1, 1, 3)
    """
    return shapes.expand_dims(x, range(rank - aval_of(x).ndim))


def broadcast_shapes(*args: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    Raises:
      ValueError: they don't broadcast.

    >>> from xpr import lax
    >>> lax.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    try:
        return tuple(map(int, np.broadcast_shapes(*map(tuple, args))))
    except ValueError:
        listed = ", ".join(str(tuple(s)) for s in args)
        raise ArgumentError(
            f"Shapes {listed} do not broadcast: aligned at their last axes, sizes must be equal or 1. "
            "Insert axes with x[:, None], or reshape."
        ) from None


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """The array with the axes from `start_dimension` up to `stop_dimension` made one.

    >>> from xpr import lax, numpy as jnp
    >>> lax.collapse(jnp.zeros((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    shape = aval_of(operand).shape
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    return shapes.reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


def reciprocal(x: Any) -> Any:
    """One over each entry.

    >>> from xpr import lax
    >>> lax.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return div(scalar(1, x), x)


def dtype(x: Any) -> np.dtype:
    """The dtype of anything array-like, as xpr holds it.

    >>> from xpr import lax
    >>> lax.dtype(1.0)
    dtype('float32')
    """
    return aval_of(x).dtype
