"""Convolutions of each feature by itself, as the function in C takes them (backend/c/convolution.c).

XLA:CPU computes these an element at a time, 1.3 ns for each product; C takes 0.03 to 0.1. Sums of shifted images
(`convolution_lowering.py`) are as fast, on several threads, but take 2 ms to compile for each element of the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr import dtypes
from xpr.core.avals import ShapedArray

_DTYPES = (dtypes.float32, dtypes.float64)  # by their numbers in C
_BLOCK = 256  # bytes, in C
_MOST_MEMORY = 1 << 24  # bytes for what a window's numbers are repeated in

# Elements of a window, above which XLA's sum over it is slower; products that one thread adds as soon as several.
SMALL_WINDOW, _FEW_PRODUCTS = 32, 1 << 20

Axes = tuple[int, ...]


class NativeConvolution(NamedTuple):
    """A call of the function in C.

    Attributes:
      image_axes: the axes of the left operand in the order that C takes them, before padding and dilation.
      kernel_axes: those of the right operand.
      kernel_shape: its shape in that order, without the axis of one feature.
      sizes: the numbers of `struct sizes`.
      results: the types of the result, (images, space ..., features), and of the memory to work in.
    """

    image_axes: Axes
    kernel_axes: Axes
    kernel_shape: Axes
    sizes: list[int]
    results: list[ShapedArray]


class _Grid(NamedTuple):
    """Rows and columns of a window's offsets, or of positions, and how far apart in an image they are."""

    rows: int
    columns: int
    row_step: int
    column_step: int


def native_convolution(
    lhs: ShapedArray, rhs: ShapedArray, out: ShapedArray, params: dict[str, Any]
) -> NativeConvolution | None:
    """The call for a convolution, if C is to compute it.

    That is one of single features, or of features by themselves, or the gradient of such a one to its window, in which
    the features are groups of the batch: with one or two spatial axes, and a step of 1 between what is read in a row.
    """
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    features, of_batch = params["feature_group_count"], params["batch_group_count"] > 1
    space = [rhs.shape[axis] for axis in rhs_spec[2:]]
    if out.dtype not in _DTYPES or not 1 <= len(space) <= 2:
        return None
    if of_batch:
        features = params["batch_group_count"]
        is_alone = features == lhs.shape[lhs_spec[0]] == rhs.shape[rhs_spec[0]]
    else:
        is_alone = rhs.shape[rhs_spec[1]] == 1 and rhs.shape[rhs_spec[0]] == features
        is_alone = is_alone and (math.prod(space) > SMALL_WINDOW or out.size * math.prod(space) <= _FEW_PRODUCTS)
    if not is_alone:
        return None
    batch_axis, feature_axis = lhs_spec[1::-1] if of_batch else lhs_spec[:2]
    image_axes = (batch_axis, *lhs_spec[2:], feature_axis)
    kernel_axes = (rhs_spec[1], *rhs_spec[2:], rhs_spec[0]) if of_batch else (*rhs_spec[2:], rhs_spec[1], rhs_spec[0])
    kernel_shape = (rhs.shape[rhs_spec[1]], *space, features) if of_batch else (*space, features)

    sizes = [out.shape[axis] for axis in out_spec[2:]]
    offsets, positions = _grid(space, params["rhs_dilation"]), _grid(sizes, params["window_strides"])
    of_offsets = of_batch or (positions.columns < offsets.columns and offsets.column_step == 1)
    if of_offsets:
        offsets, positions = positions, offsets
    memory = ShapedArray((offsets.rows * offsets.columns * (features + _BLOCK // out.dtype.itemsize),), out.dtype)
    if positions.column_step != 1 or memory.size * out.dtype.itemsize > _MOST_MEMORY:
        return None
    batch = lhs.shape[batch_axis]
    images, summed = (1, batch) if of_batch else (batch, 1)
    dilations = zip(lhs_spec[2:], params["padding"], params["lhs_dilation"])
    padded = [low + high + max((lhs.shape[axis] - 1) * step + 1, 0) for axis, (low, high), step in dilations]
    numbers = [
        int(of_offsets), _DTYPES.index(out.dtype), images, summed, positions.rows, positions.columns, features,
        *(1, *padded)[-2:], offsets.rows, offsets.columns, positions.row_step, offsets.row_step, offsets.column_step,
    ]  # fmt: skip
    results = [out.update(shape=(images, *sizes, features)), memory]
    return NativeConvolution(image_axes, kernel_axes, kernel_shape, numbers, results)


def _grid(sizes: Sequence[int], steps: Sequence[int]) -> _Grid:
    return _Grid(*((1, *sizes)[-2:]), *((1, *steps)[-2:]))
