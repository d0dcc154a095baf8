"""Functions written with concatenation, slices and top_k: split, stack, tile, the k greatest or least elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import context
from xpr.dtypes import FLOATS
from xpr.errors import ShardingTypeError
from xpr.primitives.elementwise import bitwise_not, neg
from xpr.primitives.shapes import (
    broadcast_in_dim,
    broadcast_to,
    expand_dims,
    full,
    move_axis,
    one_axis,
    reshape,
    shape_of,
    squeeze,
    tuple_of,
)
from xpr.primitives.sharding_constraint import constrain_to, sharded
from xpr.primitives.sharding_rules import RESHARD, count, parts_of
from xpr.primitives.slicing import concatenate, slice_in_dim
from xpr.primitives.sorting import top_k

__all__ = ["approx_max_k", "approx_min_k", "broadcast_like", "empty", "split", "stack", "tile", "unstack"]


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """The array split along an axis into parts of given sizes.

    Args:
      operand: an array.
      sizes: the sizes of the parts, which add up to that of the axis.
      axis: the axis.

    Returns:
      A list of arrays.

    Raises:
      TypeError: `sizes` is a single number.
      ValueError: the sizes are not those of parts that make up the axis.
      ShardingTypeError: the axis is partitioned over Explicit axes of a mesh, and a part can't be split into as many
        equal shards.

    >>> from xpr import lax, numpy as jnp
    >>> lax.split(jnp.arange(3), (1, 2))
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    aval = aval_of(operand)
    sizes = tuple_of(sizes, "split", "sizes")
    if min(sizes, default=0) < 0:
        raise ValueError(f"split: Sizes passed to split must be nonnegative, and are {sizes}.")
    axis = one_axis(axis, aval.ndim)
    if sum(sizes) != aval.shape[axis]:
        raise ValueError(
            f"split: Sum of sizes {sum(sizes)} must be equal to the size of axis {axis} of {aval.str_short()}."
        )
    shards = _shards(aval, axis)
    if any(size % shards for size in sizes):
        raise ShardingTypeError(
            f"split of {aval.str_short()}: split on sharded dims leaves equal shards, {shards} along axis {axis}, and "
            f"the sizes are {sizes}. {RESHARD}"
        )
    parts, start = [], 0
    for size in sizes:
        parts.append(slice_in_dim(operand, start, start + size, axis=axis))
        start += size
    return parts


def _shards(aval: ShapedArray, axis: int) -> int:
    """Into how many shards an axis is split over Explicit axes of a mesh; 1 while another operation decides that."""
    part = parts_of(aval)[axis]
    return 1 if part is None or context.decides_later else count(aval.explicit.mesh, part)  # type: ignore[union-attr]


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one type joined along a new axis.

    Args:
      operands: arrays of one shape and dtype.
      axis: the position of the new axis.

    Returns:
      An array with one more axis.

    Raises:
      ValueError: there are no arrays, or the result has no such axis.

    >>> from xpr import lax, numpy as jnp
    >>> lax.stack([jnp.arange(2), jnp.arange(2)], 1).shape
    (2, 2)
    """
    if not len(operands):
        raise ValueError("stack: needs at least one array.")
    axis = one_axis(axis, aval_of(operands[0]).ndim + 1)
    return concatenate([expand_dims(x, (axis,)) for x in operands], axis)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of an array along an axis, without that axis.

    Args:
      x: an array.
      axis: the axis.

    Returns:
      A tuple of arrays.

    Raises:
      ShardingTypeError: the axis is partitioned over Explicit axes of a mesh.

    >>> from xpr import lax, numpy as jnp
    >>> lax.unstack(jnp.arange(2))
    (Array(0, dtype=int32), Array(1, dtype=int32))
    """
    aval = aval_of(x)
    axis = one_axis(axis, aval.ndim)
    if _shards(aval, axis) > 1:
        raise ShardingTypeError(
            f"unstack of {aval.str_short()}: an unstack operand cannot be sharded on the unstacking axis, which is "
            f"{axis}. {RESHARD}"
        )
    return tuple(squeeze(slice_in_dim(x, i, i + 1, axis=axis), (axis,)) for i in range(aval.shape[axis]))


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """The array repeated as a whole along each of its axes.

    Args:
      operand: an array.
      reps: how often, for each axis.

    Returns:
      An array whose sizes are multiplied by `reps`.

    Raises:
      TypeError: there is not a count for each axis.
      ShardingTypeError: an axis that is repeated is partitioned over Explicit axes of a mesh.

    >>> from xpr import lax, numpy as jnp
    >>> lax.tile(jnp.arange(2), (2,))
    Array([0, 1, 0, 1], dtype=int32)
    """
    shape = aval_of(operand).shape
    if len(reps) != len(shape) or min(reps, default=0) < 0:
        raise TypeError(f"tile: {aval_of(operand).str_short()} needs a count for each axis, not {tuple(reps)}.")
    for axis, times in enumerate(reps):
        if times != 1 and _shards(aval_of(operand), axis) > 1:
            raise ShardingTypeError(
                f"tile of {aval_of(operand).str_short()}: axis {axis} cannot be sharded where its tiling is "
                f"non-trivial, {times} times. {RESHARD}"
            )
    interleaved = [n for pair in zip(reps, shape) for n in pair]
    repeated = broadcast_in_dim(operand, interleaved, range(1, len(interleaved), 2))
    return reshape(repeated, [n * r for n, r in zip(shape, reps)])


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """The array broadcast to the shape of another, and partitioned as that over Explicit axes of a mesh.

    Args:
      arr: an array.
      like_arr: an array of the shape to broadcast to.

    Returns:
      An array of that shape.

    Raises:
      ShardingTypeError: `arr` is partitioned otherwise.

    >>> from xpr import lax, numpy as jnp
    >>> lax.broadcast_like(1.0, jnp.zeros(2))
    Array([1., 1.], dtype=float32, weak_type=True)
    """
    like = aval_of(like_arr)
    result = broadcast_to(arr, like.shape)
    if any(own not in (None, part) for own, part in zip(parts_of(aval_of(result)), parts_of(like))):
        raise ShardingTypeError(
            f"broadcast_like: Incompatible shardings for broadcasting: an array of type {aval_of(arr).str_short()} has "
            f"type {aval_of(result).str_short()} in the shape of one of type {like.str_short()}, whose sharding the "
            f"result is to have. {RESHARD}"
        )
    return constrain_to(result, aval_of(result).with_explicit(like.explicit))


def empty(shape: int | Sequence[int], dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array whose values are not specified; they are zeros.

    Args:
      shape: the shape.
      dtype: the dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array.

    >>> from xpr import lax
    >>> lax.empty((2,), "float32")
    Array([0., 0.], dtype=float32)
    """
    return sharded(full(shape_of(shape), 0, dtype), out_sharding, "empty")


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """The k greatest elements along an axis and their indices, exactly, whatever the recall asked for.

    Args:
      operand: an array of real numbers or booleans.
      k: how many; at most the size of the axis.
      reduction_dimension: the axis.
      recall_target: has no effect.
      reduction_input_size_override: has no effect.
      aggregate_to_topk: has no effect.

    Returns:
      `(elements, indices)`, with size `k` along the axis.

    Raises:
      TypeError: the operand is complex.
      ValueError: there is no such axis, or it has fewer than `k` elements.

    >>> from xpr import lax, numpy as jnp
    >>> lax.approx_max_k(jnp.array([1.0, 3.0, 2.0]), 2)
    (Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
    last = aval_of(operand).ndim - 1
    axis = one_axis(reduction_dimension, last + 1)
    values, indices = top_k(move_axis(operand, axis, last), k)
    return move_axis(values, last, axis), move_axis(indices, last, axis)


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """The k least elements along an axis and their indices, exactly, whatever the recall asked for.

    Args:
      operand: an array of real numbers or booleans.
      k: how many; at most the size of the axis.
      reduction_dimension: the axis.
      recall_target: has no effect.
      reduction_input_size_override: has no effect.
      aggregate_to_topk: has no effect.

    Returns:
      `(elements, indices)`, with size `k` along the axis.

    Raises:
      TypeError: the operand is complex.
      ValueError: there is no such axis, or it has fewer than `k` elements.

    >>> from xpr import lax, numpy as jnp
    >>> lax.approx_min_k(jnp.array([1.0, 3.0, 2.0]), 2)
    (Array([1., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    reversed_order = neg if aval_of(operand).dtype in FLOATS else bitwise_not  # no integer is lost: ~x is -x - 1
    values, indices = approx_max_k(reversed_order(operand), k, reduction_dimension)
    return reversed_order(values), indices
