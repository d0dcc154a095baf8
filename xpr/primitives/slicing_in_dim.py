"""Slices and elements along one axis, at static or computed indices; and elements along several axes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.avals import aval_of
from xpr.primitives.dimension_values import size_as
from xpr.primitives.dynamic_slices import dynamic_slice, dynamic_update_slice, one_dtype, wrapped
from xpr.primitives.elementwise import rem
from xpr.primitives.gather.gather_scatter import gather_p
from xpr.primitives.gather.windows import FILL_OR_DROP, GatherDimensionNumbers
from xpr.primitives.shapes import one_axis, reshape, squeeze
from xpr.primitives.slicing import concatenate, number_like, slice_

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice_in_dim", "dynamic_update_index_in_dim", "dynamic_update_slice_in_dim",
    "index_in_dim", "index_take",
]  # fmt: skip


def _axis_of(operand: Any, axis: int) -> tuple[tuple[int, ...], int]:
    shape = aval_of(operand).shape
    return shape, one_axis(axis, len(shape))


def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Any:
    """A slice of static size along one axis; see `lax.dynamic_slice`.

    Args:
      operand: an array.
      start_index: an integer scalar, which may be traced.
      slice_size: the size of the slice along the axis.
      axis: the axis.
      allow_negative_indices: whether negative indices count from the end.

    Returns:
      An array with size `slice_size` along the axis.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dynamic_slice_in_dim(jnp.arange(5), 1, 2)
    Array([1, 2], dtype=int32)
    """
    shape, axis = _axis_of(operand, axis)
    starts: list[Any] = [0] * len(shape)
    starts[axis] = start_index
    sizes = (*shape[:axis], slice_size, *shape[axis + 1 :])
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Any:
    """The slice at an index along one axis, which may be traced.

    Args:
      operand: an array.
      index: an integer scalar, which may be traced; it is clipped to the axis.
      axis: the axis.
      keepdims: whether the axis stays, with size 1.
      allow_negative_indices: whether negative indices count from the end.

    Returns:
      An array.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dynamic_index_in_dim(jnp.arange(5), 1, keepdims=False)
    Array(1, dtype=int32)
    """
    part = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return part if keepdims else squeeze(part, (axis,))


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """The array with a slice along one axis replaced; see `lax.dynamic_update_slice`.

    Args:
      operand: an array.
      update: an array of the same dtype and number of axes.
      start_index: an integer scalar, which may be traced.
      axis: the axis.
      allow_negative_indices: whether negative indices count from the end.

    Returns:
      An array of the shape and dtype of `operand`.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dynamic_update_slice_in_dim(jnp.zeros(3), jnp.ones(2), 0, axis=0)
    Array([1., 1., 0.], dtype=float32)
    """
    shape, axis = _axis_of(operand, axis)
    starts: list[Any] = [0] * len(shape)
    starts[axis] = start_index
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """The array with the slice at an index along one axis replaced.

    Args:
      operand: an array.
      update: an array of the same dtype, with the axis or without it.
      index: an integer scalar, which may be traced; it is clipped to the axis.
      axis: the axis.
      allow_negative_indices: whether negative indices count from the end.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: the update has another number of axes, or another dtype.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dynamic_update_index_in_dim(jnp.zeros(3), 1.0, 2, axis=0)
    Array([0., 0., 1.], dtype=float32)
    """
    shape, axis = _axis_of(operand, axis)
    aval = aval_of(update)
    update = number_like(update, operand)
    if aval.ndim != len(shape):
        if aval.ndim != len(shape) - 1:
            raise TypeError(
                f"dynamic_update_index_in_dim: an update {aval.str_short()} of {aval_of(operand).str_short()} along "
                f"axis {axis} must have as many axes, or one less."
            )
        update = reshape(update, (*aval.shape[:axis], 1, *aval.shape[axis:]))
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """The slice at a static index along one axis.

    Args:
      operand: an array.
      index: a Python integer.
      axis: the axis.
      keepdims: whether the axis stays, with size 1.

    Returns:
      An array.

    Raises:
      IndexError: the index is out of bounds.

    >>> from xpr import lax, numpy as jnp
    >>> lax.index_in_dim(jnp.arange(5), -1, keepdims=False)
    Array(4, dtype=int32)
    """
    shape, axis = _axis_of(operand, axis)
    n = shape[axis]
    if not -n <= index < n:
        raise IndexError(f"index {index} out of bounds for axis {axis} with size {n}")
    starts, limits = [0] * len(shape), list(shape)
    starts[axis] = index % n
    limits[axis] = starts[axis] + 1
    part = slice_(operand, starts, limits)
    return part if keepdims else squeeze(part, (axis,))


def _modulo(indices: Any, n: int) -> Any:
    """Indices modulo the size of an axis, as Python's remainder."""
    return wrapped(rem(indices, size_as(n, aval_of(indices).dtype)), n)


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Any:
    """The slices at indices along several axes at once.

    Args:
      src: an array.
      idxs: vectors of integers of one length, one for each of `axes`; they count modulo the size of the axis.
      axes: the axes, which the result lacks.

    Returns:
      An array with a leading axis for the indices.

    >>> from xpr import lax, numpy as jnp
    >>> lax.index_take(jnp.arange(6).reshape(2, 3), (jnp.array([0, 1]), jnp.array([2, 0])), (0, 1))
    Array([2, 3], dtype=int32)
    """
    shape = aval_of(src).shape
    columns = [_modulo(column, shape[axis]) for column, axis in zip(one_dtype(idxs), axes)]
    vectors = concatenate([reshape(c, (aval_of(c).shape[0], 1)) for c in columns], 1)
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, len(shape) - len(axes) + 1)),
        collapsed_slice_dims=tuple(sorted(axes)),
        start_index_map=tuple(axes),
    )
    sizes = tuple([1 if d in axes else n for d, n in enumerate(shape)])
    return gather_p.bind(
        src, vectors, dimension_numbers=numbers, slice_sizes=sizes, indices_are_sorted=False, unique_indices=False,
        mode=FILL_OR_DROP, fill_value=None,
    )  # fmt: skip
