"""Arrays joined and split: concatenate, stack, block, split and related functions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from xpr.backend.array import Array
from xpr.compile.host import HOST_LIMIT
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.errors import ArgumentError
from xpr.numpy.axes import no_out
from xpr.numpy.creation import is_eager
from xpr.numpy.promotion import as_operand, asarray_like, convert, promote_dtypes, requested_dtype
from xpr.numpy.reshaping import axes_to_1d, axes_to_2d, axes_to_3d, ravel
from xpr.primitives import concatenation, slicing
from xpr.primitives.shapes import expand_dims, move_axis, one_axis, reshape

__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit", "hstack",
    "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip

# -- Joining


def _operands(name: str, arrays: Any, dtype: Any) -> list[Any]:
    """The arrays of a sequence, in one dtype.

    Raises:
      TypeError: an item is a list, or no array at all.
      ValueError: there are none.
    """
    items = [as_operand(x) for x in arrays]
    if not items:
        raise ValueError(f"{name}: needs at least one array.")
    if dtype is None:
        return promote_dtypes(*items)
    target = requested_dtype(dtype)
    return [convert(x, target) for x in items]


def _is_stacked(arrays: Any) -> bool:
    """Whether `arrays` is one array, whose slices along its first axis are the arrays to join."""
    return type(arrays) is Array or isinstance(arrays, (Tracer, np.ndarray))


def _stacked(name: str, arrays: Any, dtype: Any) -> Any:
    """One array whose slices along its first axis are to be joined, in the dtype.

    Raises:
      ValueError: it has no axes, or no slices.
    """
    x = as_operand(arrays)
    if aval_of(x).ndim == 0:
        raise ArgumentError(f"{name}: takes a sequence of arrays, or one with axes, and got {aval_of(x).str_short()}.")
    if aval_of(x).shape[0] == 0:
        raise ValueError(f"{name}: needs at least one array.")
    return x if dtype is None else convert(x, requested_dtype(dtype))


def _concatenated_slices(stacked: Any, axis: int) -> Any:
    """The slices of an array along its first axis, concatenated along one of their axes: a transpose and a reshape."""
    moved = move_axis(stacked, 0, axis)
    shape = aval_of(moved).shape
    return reshape(moved, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _concatenated_with_axes_added(
    name: str, arrays: Any, dtype: Any, axes_added: Callable[[int], tuple[int, ...]], axis: int
) -> Any:
    """Arrays with axes of size 1 added, concatenated along `axis`, or along their last axis if they have fewer.

    Args:
      name: that of the public function.
      arrays: a sequence of arrays, or one array whose slices along its first axis they are.
      dtype: of the result; None for the dtype to which all promote.
      axes_added: the axes to add to an array, by its number of axes.
      axis: counted from the front.
    """
    if _is_stacked(arrays):
        stacked = _stacked(name, arrays, dtype)
        stacked = expand_dims(stacked, [i + 1 for i in axes_added(aval_of(stacked).ndim - 1)])
        return _concatenated_slices(stacked, min(axis, aval_of(stacked).ndim - 2))
    operands = _operands(name, arrays, dtype)
    operands = [expand_dims(x, axes) if (axes := axes_added(aval_of(x).ndim)) else x for x in operands]
    return concatenate(operands, min(axis, aval_of(operands[0]).ndim - 1))


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Arrays joined along an existing axis.

    Args:
      arrays: arrays whose shapes agree but along `axis`, or one array of them.
      axis: the axis; None to join the arrays flattened.
      dtype: of the result; None for the dtype to which all promote.

    Returns:
      An array of the common dtype, whose size along `axis` is the sum of theirs.

    Raises:
      ValueError: there are no arrays, they have no axes, or their other sizes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.concatenate([jnp.arange(2), jnp.array([0.5])])
    Array([0. , 1. , 0.5], dtype=float32)
    """
    if _is_stacked(arrays) and np.ndim(arrays) != 1:
        stacked = _stacked("concatenate", arrays, dtype)
        if axis is None:
            return ravel(stacked)
        return _concatenated_slices(stacked, one_axis(axis, aval_of(stacked).ndim - 1))
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


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays joined along an existing axis; see `concatenate`.

    Args:
      arrays: arrays whose shapes agree but along `axis`.
      axis: the axis; None to join the arrays flattened.

    Returns:
      An array of the common dtype, whose size along `axis` is the sum of theirs.

    Raises:
      ValueError: there are no arrays, they have no axes, or their other sizes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.concat([jnp.arange(2), jnp.arange(1)])
    Array([0, 1, 0], dtype=int32)
    """
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Arrays of one shape joined along a new axis.

    Args:
      arrays: arrays of one shape, or one array of them.
      axis: the position of the new axis in the result.
      out: must be None; arrays are immutable.
      dtype: of the result; None for the dtype to which all promote.

    Returns:
      An array of the common dtype with one more axis.

    Raises:
      ValueError: there are no arrays, or their shapes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.stack([jnp.arange(2), jnp.arange(2)], axis=1)
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    no_out("stack", out)
    if _is_stacked(arrays):
        stacked = _stacked("stack", arrays, dtype)
        return move_axis(stacked, 0, one_axis(axis, aval_of(stacked).ndim))
    operands = _operands("stack", arrays, dtype)
    shapes = [aval_of(x).shape for x in operands]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(f"stack: all shapes must be equal, and they are {', '.join(map(str, dict.fromkeys(shapes)))}.")
    axis = one_axis(axis, len(shapes[0]) + 1)
    if is_eager() and aval_of(operands[0]).size > HOST_LIMIT:  # each new axis would be a copy
        return _stack_program(*operands, axis=axis)
    return _stack(*operands, axis=axis)


def _stack(*operands: Any, axis: int) -> Any:
    return slicing.concatenate([expand_dims(x, (axis,)) for x in operands], axis)


_stack_program = compiled(_stack)


def vstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays joined along the first axis; vectors count as rows.

    Args:
      tup: arrays whose shapes agree but along the first axis.
      dtype: of the result; None for the dtype to which all promote.

    Returns:
      An array of the common dtype with at least two axes.

    Raises:
      ValueError: there are no arrays, or their other sizes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.vstack([jnp.arange(2), jnp.arange(2)])
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return _concatenated_with_axes_added("vstack", tup, dtype, axes_to_2d, 0)


def hstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays joined along the second axis; vectors along their only one.

    Args:
      tup: arrays whose shapes agree but along that axis.
      dtype: of the result; None for the dtype to which all promote.

    Returns:
      An array of the common dtype.

    Raises:
      ValueError: there are no arrays, or their other sizes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.hstack([jnp.arange(2), 7])
    Array([0, 1, 7], dtype=int32)
    """
    return _concatenated_with_axes_added("hstack", tup, dtype, axes_to_1d, 1)


def dstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays joined along the third axis; vectors and matrices get axes of size 1.

    Args:
      tup: arrays whose shapes agree but along the third axis.
      dtype: of the result; None for the dtype to which all promote.

    Returns:
      An array of the common dtype with at least three axes.

    Raises:
      ValueError: there are no arrays, or their other sizes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.dstack([jnp.arange(2), jnp.arange(2)]).shape
    (1, 2, 2)
    """
    return _concatenated_with_axes_added("dstack", tup, dtype, axes_to_3d, 2)


def column_stack(tup: Any) -> Any:
    """Vectors as columns, and matrices, joined along the second axis.

    >>> import xpr.numpy as jnp
    >>> jnp.column_stack([jnp.arange(2), jnp.ones((2, 1), int)])
    Array([[0, 1],
           [1, 1]], dtype=int32)
    """
    return _concatenated_with_axes_added("column_stack", tup, None, lambda n: tuple(range(n, 2)), 1)


@compiled_eagerly("axis")
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """The array with values appended along an axis.

    Args:
      arr: array or number.
      values: array whose shape agrees with that of `arr` but along `axis`.
      axis: the axis; None to join both flattened.

    Returns:
      An array of the dtype to which both promote.

    Raises:
      ValueError: the other sizes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.append(jnp.arange(2), 7)
    Array([0, 1, 7], dtype=int32)
    """
    return concatenate([arr, values], axis)


def block(arrays: Any) -> Any:
    """An array assembled from nested lists of blocks: the innermost are joined along the last axis.

    The next level of lists is joined along the axis before, and so on.

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


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices of an array along an axis, without that axis.

    Args:
      x: an array.
      axis: the axis.

    Returns:
      A tuple of arrays.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = asarray_like(x)
    axis = one_axis(axis, x.aval.ndim)
    return concatenation.unstack(x, axis)


def _slices(x: Any, bounds: Sequence[int], axis: int) -> list[Any]:
    """The slices of an axis between consecutive bounds."""
    return [slicing.slice_in_dim(x, a, max(a, b), axis=axis) for a, b in pairwise(bounds)]


def _count(sections: Any) -> int:
    """A number of parts; a float without a fraction counts as one, as in NumPy."""
    return int(sections) if isinstance(sections, float) and sections.is_integer() else operator.index(sections)


def _split(name: str, ary: Any, indices_or_sections: Any, axis: int, equal: bool) -> list[Any]:
    ary = asarray_like(ary)
    axis = one_axis(axis, ary.aval.ndim)
    size = ary.aval.shape[axis]
    if not isinstance(indices_or_sections, (tuple, list)) and not getattr(indices_or_sections, "ndim", 0):
        count = _count(indices_or_sections)
        if count < 1 or (equal and size % count):
            raise ValueError(f"{name}: an axis of size {size} can't be split into {count} {'equal ' * equal}parts.")
        longer, short = size % count, size // count
        return _slices(ary, [i * short + min(i, longer) for i in range(count + 1)], axis)
    if any(map(is_symbolic_dim, (size, *indices_or_sections))):
        before = (slice(None),) * axis
        return [ary[(*before, slice(*ends))] for ends in pairwise([None, *indices_or_sections, None])]
    positions = [slice(operator.index(i)).indices(size)[1] for i in indices_or_sections]
    return _slices(ary, [0, *positions, size], axis)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array split along an axis into equal parts, or at indices.

    Args:
      ary: an array.
      indices_or_sections: the number of equal parts, or the indices at which parts begin.
      axis: the axis.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the axis can't be split into so many equal parts.

    >>> import xpr.numpy as jnp
    >>> jnp.split(jnp.arange(4), [1])
    [Array([0], dtype=int32), Array([1, 2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array split along an axis into parts of nearly equal sizes, or at indices.

    Args:
      ary: an array.
      indices_or_sections: the number of parts, the first ones longer by one if need be, or the indices at which parts
        begin.
      axis: the axis.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the number of parts is not positive.

    >>> import xpr.numpy as jnp
    >>> jnp.array_split(jnp.arange(3), 2)
    [Array([0, 1], dtype=int32), Array([2], dtype=int32)]
    """
    return _split("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along its first axis; see `split`.

    Args:
      ary: an array with at least two axes.
      indices_or_sections: the number of equal parts, or the indices at which parts begin.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the axis can't be split into so many equal parts.

    >>> import xpr.numpy as jnp
    >>> [part.shape for part in jnp.vsplit(jnp.ones((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    return _split("vsplit", ary, indices_or_sections, 0, True)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along its second axis, or the only one of a vector; see `split`.

    Args:
      ary: an array.
      indices_or_sections: the number of equal parts, or the indices at which parts begin.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the axis can't be split into so many equal parts.

    >>> import xpr.numpy as jnp
    >>> [part.shape for part in jnp.hsplit(jnp.ones((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    ary = asarray_like(ary)
    return _split("hsplit", ary, indices_or_sections, 0 if ary.aval.ndim == 1 else 1, True)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along its third axis; see `split`.

    Args:
      ary: an array with at least three axes.
      indices_or_sections: the number of equal parts, or the indices at which parts begin.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the axis can't be split into so many equal parts.

    >>> import xpr.numpy as jnp
    >>> [part.shape for part in jnp.dsplit(jnp.ones((2, 2, 4)), 2)]
    [(2, 2, 2), (2, 2, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2, True)
