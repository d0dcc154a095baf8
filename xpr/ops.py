"""Segment reductions: sums, products, minima and maxima of the rows with equal segment ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.interpreter import Tracer
from xpr.errors import ConcretizationTypeError
from xpr.primitives.sharding_constraint import decided, unreduced_axes

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _segments(
    name: str,
    identity: Any,
    data: Any,
    segment_ids: Any,
    num_segments: int | None,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
) -> Any:
    data, segment_ids = jnp.asarray(data), jnp.asarray(segment_ids)
    if segment_ids.dtype not in dtypes.INTEGERS:
        raise TypeError(f"segment_{name}: the numbers of segments are integers, not {segment_ids.aval.str_short()}.")
    if segment_ids.ndim == 1 and data.shape[:1] not in ((), (1,), segment_ids.shape):
        raise ValueError(
            f"segment_{name}: each row of the data has a segment, or there is one row for all of them, and the data is "
            f"{data.aval.str_short()}, the numbers {segment_ids.aval.str_short()}."
        )
    if num_segments is None:
        if isinstance(segment_ids, Tracer) and segment_ids.concrete() is None:
            raise ConcretizationTypeError(
                f"segment_{name}: how many segments there are depends on traced values. Say num_segments=."
            )
        ids = np.asarray(segment_ids)
        num_segments = max(int(ids.max()) + 1, 0) if ids.size else 0
    if num_segments < 0:
        raise ValueError(f"segment_{name}: num_segments must not be negative, and is {num_segments}.")
    start = jnp.full((num_segments, *data.shape[1:]), identity, data.dtype)
    positions = start.at[segment_ids]
    write = {"sum": positions.add, "prod": positions.multiply, "max": positions.max, "min": positions.min}[name]
    return write(
        data,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
        wrap_negative_indices=False,
    )


def _refuse_unreduced(name: str, out_sharding: Any) -> None:
    """Raises a NotImplementedError if the result is to be unreduced, and the operation is no sum."""
    if unreduced_axes(out_sharding):
        raise NotImplementedError(
            f"segment_{name}: out_sharding={out_sharding!r} has unreduced axes, over which devices hold the addends of "
            f"a sum, and the {name} of each segment is none. Leave them out: out_sharding=P()."
        )


def _bound(dtype: Any, sign: int) -> Any:
    """The least (-1) or greatest (1) number of a dtype."""
    if dtype == dtypes.bool_:
        return sign > 0
    if dtype in dtypes.INTEGERS:
        info = dtypes.iinfo(dtype)
        return info.max if sign > 0 else info.min
    return sign * np.inf


@compiled_eagerly("num_segments", "bucket_size")
def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of the rows of each segment.

    Args:
      data: an array of rows; a single row, or a number, is that of all ids.
      segment_ids: integers, the segment of each row; rows of segments that don't exist are left out.
      num_segments: the number of segments, needed where `segment_ids` is traced; None for the greatest id plus 1.
      indices_are_sorted: a promise that `segment_ids` are sorted.
      unique_indices: a promise that `segment_ids` are distinct.
      bucket_size: has no effect.
      mode: for ids out of bounds, as in `x.at[i].add`; None to drop their rows.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      [num_segments, ...], of the dtype of `data`.

    Raises:
      ConcretizationTypeError: `segment_ids` is traced and there is no `num_segments`.
      ValueError: there is not a segment id for each row.

    >>> from xpr import ops, numpy as jnp
    >>> ops.segment_sum(jnp.arange(4), jnp.array([0, 0, 2, 2]))
    Array([1, 0, 5], dtype=int32)
    """
    return decided(
        out_sharding,
        "segment_sum",
        lambda: _segments("sum", 0, data, segment_ids, num_segments, indices_are_sorted, unique_indices, mode),
    )


@compiled_eagerly("num_segments", "bucket_size")
def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product of the rows of each segment; 1 for a segment without rows.

    Args:
      data: an array of rows; a single row, or a number, is that of all ids.
      segment_ids: integers, the segment of each row; rows of segments that don't exist are left out.
      num_segments: the number of segments, needed where `segment_ids` is traced; None for the greatest id plus 1.
      indices_are_sorted: a promise that `segment_ids` are sorted.
      unique_indices: a promise that `segment_ids` are distinct.
      bucket_size: has no effect.
      mode: for ids out of bounds, as in `x.at[i].add`; None to drop their rows.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      [num_segments, ...], of the dtype of `data`.

    Raises:
      ConcretizationTypeError: `segment_ids` is traced and there is no `num_segments`.
      NotImplementedError: `out_sharding` has unreduced axes.
      ValueError: there is not a segment id for each row.

    >>> from xpr import ops, numpy as jnp
    >>> ops.segment_prod(jnp.arange(1, 5), jnp.array([0, 0, 2, 2]))
    Array([ 2,  1, 12], dtype=int32)
    """
    _refuse_unreduced("prod", out_sharding)
    return decided(
        out_sharding,
        "segment_prod",
        lambda: _segments("prod", 1, data, segment_ids, num_segments, indices_are_sorted, unique_indices, mode),
    )


@compiled_eagerly("num_segments", "bucket_size")
def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The maximum of the rows of each segment, elementwise; the dtype's least number for a segment without rows.

    Args:
      data: an array of rows; a single row, or a number, is that of all ids.
      segment_ids: integers, the segment of each row; rows of segments that don't exist are left out.
      num_segments: the number of segments, needed where `segment_ids` is traced; None for the greatest id plus 1.
      indices_are_sorted: a promise that `segment_ids` are sorted.
      unique_indices: a promise that `segment_ids` are distinct.
      bucket_size: has no effect.
      mode: for ids out of bounds, as in `x.at[i].add`; None to drop their rows.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      [num_segments, ...], of the dtype of `data`.

    Raises:
      ConcretizationTypeError: `segment_ids` is traced and there is no `num_segments`.
      NotImplementedError: `out_sharding` has unreduced axes.
      ValueError: there is not a segment id for each row.

    >>> from xpr import ops, numpy as jnp
    >>> ops.segment_max(jnp.array([1.0, 2.0]), jnp.array([1, 1]))
    Array([-inf,   2.], dtype=float32)
    """
    _refuse_unreduced("max", out_sharding)
    data = jnp.asarray(data)
    least = _bound(data.dtype, -1)
    return decided(
        out_sharding,
        "segment_max",
        lambda: _segments("max", least, data, segment_ids, num_segments, indices_are_sorted, unique_indices, mode),
    )


@compiled_eagerly("num_segments", "bucket_size")
def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The minimum of the rows of each segment, elementwise; the dtype's greatest number for a segment without rows.

    Args:
      data: an array of rows; a single row, or a number, is that of all ids.
      segment_ids: integers, the segment of each row; rows of segments that don't exist are left out.
      num_segments: the number of segments, needed where `segment_ids` is traced; None for the greatest id plus 1.
      indices_are_sorted: a promise that `segment_ids` are sorted.
      unique_indices: a promise that `segment_ids` are distinct.
      bucket_size: has no effect.
      mode: for ids out of bounds, as in `x.at[i].add`; None to drop their rows.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      [num_segments, ...], of the dtype of `data`.

    Raises:
      ConcretizationTypeError: `segment_ids` is traced and there is no `num_segments`.
      NotImplementedError: `out_sharding` has unreduced axes.
      ValueError: there is not a segment id for each row.

    >>> from xpr import ops, numpy as jnp
    >>> ops.segment_min(jnp.array([1.0, 2.0]), jnp.array([1, 1]))
    Array([inf,  1.], dtype=float32)
    """
    _refuse_unreduced("min", out_sharding)
    data = jnp.asarray(data)
    greatest = _bound(data.dtype, 1)
    return decided(
        out_sharding,
        "segment_min",
        lambda: _segments("min", greatest, data, segment_ids, num_segments, indices_are_sorted, unique_indices, mode),
    )
