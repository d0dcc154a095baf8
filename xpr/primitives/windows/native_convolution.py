"""Convolutions of each feature by itself, by a function in C (backend/c/convolution.c).

XLA:CPU computes these an element at a time, 1.3 ns for each product; C takes 0.03 to 0.1. Sums of shifted images
(`convolution_lowering.py`) are as fast, on several threads, but take 2 ms to compile for each element of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr import dtypes
from xpr.backend import native
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.primitives import native_calls

_DTYPES = (dtypes.float32, dtypes.float64)  # by their numbers in C
_BLOCK = 256  # bytes, in C
_MOST_MEMORY = 1 << 24  # bytes for what a window's numbers are repeated in


class _Grid(NamedTuple):
    """Rows and columns of a window's offsets, or of positions, and how far apart in an image they are."""

    rows: int
    columns: int
    row_step: int
    column_step: int


def native_convolution(
    b: Builder, images: Value, kernel: Value, out: ShapedArray, params: dict[str, Any]
) -> Value | None:
    """A convolution of one feature, or of one in each group, or the gradient to its window, with one or two axes.

    Args:
      images: the operand as it is padded and dilated, with axes (batch, space ..., features), or, where groups are of
        the batch, (features, space ..., batch).
      kernel: the window, with axes (space ..., features out), or (features in, space ..., features out).
      out: the type of the result.
      params: those of the convolution.

    Returns:
      The result with axes (batch, space ..., features), or (space ..., features); None if C does not compute it.
    """
    of_groups = params["batch_group_count"] > 1
    space = kernel.aval.shape[int(of_groups) : -1]
    if out.dtype not in _DTYPES or not 1 <= len(space) <= 2 or not native_calls.are_possible(b, images.aval):
        return None
    results = [out.shape[axis] for axis in params["dimension_numbers"].out_spec[2:]]
    window = _grid(space, params["rhs_dilation"])
    positions = _grid(results, params["window_strides"])
    if of_groups or (positions.columns < window.columns and window.column_step == 1):
        positions, window, of_offsets = window, positions, True
    else:
        of_offsets = False
    features = images.aval.shape[-1]
    memory = ShapedArray((window.rows * window.columns * (features + _BLOCK // out.dtype.itemsize),), out.dtype)
    if positions.column_step != 1 or memory.size * out.dtype.itemsize > _MOST_MEMORY:
        return None
    batch = images.aval.shape[0]
    count, summed = (1, batch) if of_groups else (batch, 1)
    rows, columns = ((1, *images.aval.shape[1:-1]))[-2:]
    sizes = [
        of_offsets, _DTYPES.index(out.dtype), count, summed, positions.rows, positions.columns, features, rows, columns,
        window.rows, window.columns, positions.row_step, window.row_step, window.column_step,
    ]  # fmt: skip
    shape = (*results, features) if of_groups else (batch, *results, features)
    avals = [out.update(shape=shape), memory]
    return native_calls.call(b, native.CONVOLUTION, list(map(int, sizes)), [images, kernel], avals)[0]


def _grid(sizes: Sequence[int], steps: Sequence[int]) -> _Grid:
    return _Grid(*((1, *sizes)[-2:]), *((1, *steps)[-2:]))
