"""Arrays joined and taken apart: concatenate, stack, block, split and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from xpr.backend.array import Array
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.errors import ArgumentError
from xpr.numpy.axes import no_out, one_axis
from xpr.numpy.key_arrays import moves
from xpr.numpy.promotion import as_operand, asarray_like, convert, promote_dtypes, requested_dtype
from xpr.numpy.reshaping import atleast_1d, atleast_2d, atleast_3d, ravel
from xpr.primitives import slicing
from xpr.primitives.shapes import expand_dims, squeeze, transpose

# -- Joining


def _operands(name: str, arrays: Any, dtype: Any) -> list[Any]:
    """The arrays of a sequence, or the rows of one array, in one dtype.

    Raises:
      TypeError: an item is a list, or no array at all.
      ValueError: there are none.
    """
    if type(arrays) is Array or isinstance(arrays, (Tracer, np.ndarray)):
        arrays = unstack(arrays)
    items = [as_operand(x) for x in arrays]
    if not items:
        raise ValueError(f"{name}: needs at least one array.")
    if dtype is None:
        return promote_dtypes(*items)
    target = requested_dtype(dtype)
    return [convert(x, target) for x in items]


@moves("arrays")
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Arrays joined along an axis that they have; with axis None, their entries in one axis.

    Raises:
      ValueError: there are no arrays, they have no axes, or their other axes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.concatenate([jnp.arange(2), jnp.array([0.5])])
    Array([0. , 1. , 0.5], dtype=float32)
    """
    operands = _operands("concatenate", arrays, dtype)
    if axis is None:
        operands, axis = [ravel(x) for x in operands], 0
    shapes = [aval_of(x).shape for x in operands]
    first = shapes[0]
    if not first:
        raise ValueError("concatenate: arrays without axes can't be joined along one. Use jnp.stack.")
    axis = one_axis(axis, len(first))
    for shape in shapes:
        if shape != first and (shape[:axis], shape[axis + 1 :]) != (first[:axis], first[axis + 1 :]):
            listed = ", ".join(map(str, shapes[:8])) + (" ..." if len(shapes) > 8 else "")
            raise ArgumentError(
                f"concatenate: shapes {listed} can't be joined along axis {axis}: other sizes must agree."
            )
    return slicing.concatenate(operands, axis)


@moves("arrays")
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays joined along an axis that they have.

    >>> import xpr.numpy as jnp
    >>> jnp.concat([jnp.arange(2), jnp.arange(1)])
    Array([0, 1, 0], dtype=int32)
    """
    return concatenate(arrays, axis)


@moves("arrays")
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Arrays of one shape joined along a new axis.

    Raises:
      ValueError: there are no arrays, or their shapes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.stack([jnp.arange(2), jnp.arange(2)], axis=1)
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    no_out("stack", out)
    operands = _operands("stack", arrays, dtype)
    shapes = [aval_of(x).shape for x in operands]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(f"stack: all shapes must be equal, and they are {', '.join(map(str, dict.fromkeys(shapes)))}.")
    axis = one_axis(axis, len(shapes[0]) + 1)
    return slicing.concatenate([expand_dims(x, (axis,)) for x in operands], axis)


@moves("tup")
def vstack(tup: Any, dtype: Any = None) -> Any:
    """Rows on top of each other: arrays joined along the first axis, vectors being rows.

    >>> import xpr.numpy as jnp
    >>> jnp.vstack([jnp.arange(2), jnp.arange(2)])
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in _operands("vstack", tup, dtype)], 0)


@moves("tup")
def hstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays side by side: joined along the second axis, or the first if they have one only.

    >>> import xpr.numpy as jnp
    >>> jnp.hstack([jnp.arange(2), 7])
    Array([0, 1, 7], dtype=int32)
    """
    operands = [atleast_1d(x) for x in _operands("hstack", tup, dtype)]
    return concatenate(operands, 0 if aval_of(operands[0]).ndim == 1 else 1)


@moves("tup")
def dstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays behind each other: joined along the third axis.

    >>> import xpr.numpy as jnp
    >>> jnp.dstack([jnp.arange(2), jnp.arange(2)]).shape
    (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in _operands("dstack", tup, dtype)], 2)


@moves("tup")
def column_stack(tup: Any) -> Any:
    """Arrays side by side, vectors being columns.

    >>> import xpr.numpy as jnp
    >>> jnp.column_stack([jnp.arange(2), jnp.ones((2, 1), int)])
    Array([[0, 1],
           [1, 1]], dtype=int32)
    """
    operands = _operands("column_stack", tup, None)
    return concatenate([x if aval_of(x).ndim > 1 else transpose(atleast_2d(x), (1, 0)) for x in operands], 1)


@moves("arr", "values")
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """The values behind the array along an axis; with axis None, in one axis.

    >>> import xpr.numpy as jnp
    >>> jnp.append(jnp.arange(2), 7)
    Array([0, 1, 7], dtype=int32)
    """
    return concatenate([arr, values], axis)


def block(arrays: Any) -> Any:
    """An array made of blocks: the innermost lists are joined along the last axis, the next along the one before.

    Raises:
      ValueError: an empty list, or lists of different depths.

    >>> import xpr.numpy as jnp
    >>> jnp.block([[jnp.eye(2), jnp.zeros((2, 1))], [jnp.ones((1, 3))]])
    Array([[1., 0., 0.],
           [0., 1., 0.],
           [1., 1., 1.]], dtype=float32)
    """
    result, _ = _block(arrays)
    return result


def _block(x: Any) -> tuple[Any, int]:
    if not isinstance(x, list):
        return asarray_like(x), 0
    if not x:
        raise ValueError("block: an empty list is no block.")
    blocks, depths = zip(*map(_block, x))
    depth = depths[0]
    if any(d != depth for d in depths):
        raise ValueError("block: all blocks must be nested in lists to one depth.")
    count = max(depth + 1, *(part.aval.ndim for part in blocks))
    parts = [expand_dims(p, range(count - p.aval.ndim)) if p.aval.ndim < count else p for p in blocks]
    return concatenate(parts, -depth - 1), depth + 1


# -- Taking apart


@moves("x")
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, which they lose.

    >>> import xpr.numpy as jnp
    >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = asarray_like(x)
    axis = one_axis(axis, x.aval.ndim)
    return tuple([squeeze(part, (axis,)) for part in _cut(x, range(x.aval.shape[axis] + 1), axis)])


def _cut(x: Any, bounds: Sequence[int], axis: int) -> list[Any]:
    """The pieces of an axis between bounds that follow each other."""
    return [slicing.slice_in_dim(x, a, max(a, b), axis=axis) for a, b in pairwise(bounds)]


def _split(name: str, ary: Any, indices_or_sections: Any, axis: int, equal: bool) -> list[Any]:
    ary = asarray_like(ary)
    axis = one_axis(axis, ary.aval.ndim)
    size = ary.aval.shape[axis]
    if not isinstance(indices_or_sections, (tuple, list)) and not getattr(indices_or_sections, "ndim", 0):
        count = indices_or_sections.__index__()
        if count < 1 or (equal and size % count):
            raise ValueError(f"{name}: an axis of size {size} can't be split into {count} {'equal ' * equal}parts.")
        longer, short = size % count, size // count
        return _cut(ary, [i * short + min(i, longer) for i in range(count + 1)], axis)
    places = [slice(i.__index__()).indices(size)[1] for i in indices_or_sections]
    return _cut(ary, [0, *places, size], axis)


@moves("ary")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array cut along an axis into so many equal parts, or at the indices given.

    Raises:
      ValueError: the axis can't be cut into so many equal parts.

    >>> import xpr.numpy as jnp
    >>> jnp.split(jnp.arange(4), [1])
    [Array([0], dtype=int32), Array([1, 2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, True)


@moves("ary")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array cut along an axis into so many parts, the first ones longer by one where it doesn't come out even.

    >>> import xpr.numpy as jnp
    >>> jnp.array_split(jnp.arange(3), 2)
    [Array([0, 1], dtype=int32), Array([2], dtype=int32)]
    """
    return _split("array_split", ary, indices_or_sections, axis, False)


@moves("ary")
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along its first axis.

    >>> import xpr.numpy as jnp
    >>> [part.shape for part in jnp.vsplit(jnp.ones((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    return _split("vsplit", ary, indices_or_sections, 0, True)


@moves("ary")
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along its second axis, or the first if it has one only.

    >>> import xpr.numpy as jnp
    >>> [part.shape for part in jnp.hsplit(jnp.ones((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    ary = asarray_like(ary)
    return _split("hsplit", ary, indices_or_sections, 0 if ary.aval.ndim == 1 else 1, True)


@moves("ary")
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along its third axis.

    >>> import xpr.numpy as jnp
    >>> [part.shape for part in jnp.dsplit(jnp.ones((2, 2, 4)), 2)]
    [(2, 2, 2), (2, 2, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2, True)
