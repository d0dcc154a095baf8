"""Rows of gather, the scatters, and dynamic slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.table import ANY, NUMBERS, FromTypes, Row, Sample, distinct, floats, integers
from xpr.control.scatter_apply import scatter_apply_p
from xpr.core.avals import ShapedArray
from xpr.primitives.dynamic_slices import dynamic_slice_p, dynamic_update_slice_p
from xpr.primitives.elementwise import mul, scalar, sub
from xpr.primitives.gather.gather_scatter import gather_p, scatter_add_p, scatter_sub_p
from xpr.primitives.gather.scatter import scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p
from xpr.primitives.gather.windows import (
    CLIP,
    FILL_OR_DROP,
    PROMISE_IN_BOUNDS,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)  # fmt: skip
from xpr.transforms.stage import stage

ROWS_OF_A_MATRIX = (1,), (0,), (0,)
ELEMENTS = (), (0, 1), (1, 0)
BLOCKS = (0, 2), (), (0, 1)
ROW_BY_ROW = (), (1,), (1,), (0,), (0,)  # x[i, index[i, j]]

OUTSIDE = np.array([[0], [9], [-1], [1]], np.int32)
TWICE = np.array([[2], [0], [2], [1]], np.int32)
ORDER = np.array([[2], [0], [1]], np.int32)


def gather(
    operand: Any, indices: Any, numbers: Any, sizes: Any, mode: Any = FILL_OR_DROP, fill: Any = None, **flags: Any
) -> Sample:
    flags = {"indices_are_sorted": False, "unique_indices": False, **flags}
    numbers = GatherDimensionNumbers(*numbers)
    return Sample(operand, indices, dimension_numbers=numbers, slice_sizes=sizes, mode=mode, fill_value=fill, **flags)


def scatter(operand: Any, indices: Any, updates: Any, numbers: Any, mode: Any = FILL_OR_DROP, **flags: Any) -> Sample:
    flags = {"indices_are_sorted": False, "unique_indices": False, **flags}
    return Sample(operand, indices, updates, dimension_numbers=ScatterDimensionNumbers(*numbers), mode=mode, **flags)


def writes(spread: Any = floats) -> list[Sample]:
    """What every scatter is tried on: windows that overlap, lie outside, are single, or are one for each row."""
    return [
        scatter(spread(3, 2), TWICE, spread(4, 2, salt=1), ROWS_OF_A_MATRIX, PROMISE_IN_BOUNDS),
        scatter(spread(3, 2), OUTSIDE, spread(4, 2, salt=1), ROWS_OF_A_MATRIX),
        scatter(spread(3, 2), OUTSIDE, spread(4, 2, salt=1), ROWS_OF_A_MATRIX, CLIP),
        scatter(spread(3, 2), ORDER, spread(3, 2, salt=1), ROWS_OF_A_MATRIX, unique_indices=True),
        scatter(spread(3, 4), integers(2, 3, 2, below=4), spread(2, 3, salt=1), ELEMENTS),
        scatter(spread(4, 4), np.array([[0, 1], [-1, 0], [2, 0]], np.int32), spread(2, 3, 3, salt=1), BLOCKS),
        scatter(spread(3, 4), np.array([1], np.int32), spread(4, salt=1), ((0,), (0,), (0,))),
        scatter(spread(3, 4), np.array([2], np.int32), spread(4, salt=1), ((0,), (0,), (0,)), unique_indices=True),
        scatter(spread(3, 4), np.array([2, 9], np.int32), spread(2, 2, salt=1), ((0, 1), (), (0, 1)), CLIP),
        scatter(spread(2, 4), integers(2, 3, 1, below=4), spread(2, 3, salt=1), ROW_BY_ROW),
        scatter(spread(3), np.zeros((2, 0), np.int32), spread(2, 3, salt=1), ((1,), (), ())),
    ]


def applied(operand: Any, indices: Any, shape: tuple[int, ...], numbers: Any, mode: Any = FILL_OR_DROP) -> Sample:
    """1 - 2x at the indices; where one occurs twice, of that."""

    def body(x: Any) -> list[Any]:
        return [sub(scalar(1, x), mul(scalar(2, x), x))]

    jaxpr = FromTypes(lambda aval, _: stage(body, [ShapedArray((), aval.dtype)]).jaxpr)
    sample = scatter(operand, indices, None, numbers, mode, update_shape=shape, update_jaxpr=jaxpr)
    sample.operands.pop()
    return sample


ROWS = [
    Row(
        gather_p,
        [
            gather(floats(3, 2), TWICE, ROWS_OF_A_MATRIX, (1, 2), PROMISE_IN_BOUNDS),
            gather(floats(3, 2), OUTSIDE, ROWS_OF_A_MATRIX, (1, 2), edges=True),
            gather(floats(3, 2), OUTSIDE, ROWS_OF_A_MATRIX, (1, 2), fill=1, edges=True),
            gather(floats(3, 2), OUTSIDE, ROWS_OF_A_MATRIX, (1, 2), fill=0),
            gather(floats(3, 2), OUTSIDE.astype(np.int8), ROWS_OF_A_MATRIX, (1, 2), CLIP),
            gather(floats(300, 2), OUTSIDE.astype(np.uint8), ROWS_OF_A_MATRIX, (1, 2)),
            gather(floats(3, 2), ORDER, ROWS_OF_A_MATRIX, (1, 2), unique_indices=True),
            gather(floats(2, 4, 3), integers(2, 2, 1, below=4), ((0, 3), (1,), (1,)), (2, 1, 3)),
            gather(floats(3, 4), integers(2, 3, 2, below=4), ELEMENTS, (1, 1), fill=0),
            gather(floats(4, 4), np.array([[0, 1], [-1, 0], [2, 0]], np.int32), BLOCKS, (2, 3), CLIP),
            gather(floats(3, 4), np.array([1], np.int32), ((0,), (0,), (0,)), (1, 4), fill=0),
            gather(floats(2, 4), integers(2, 3, 1, below=4), ROW_BY_ROW, (1, 1), fill=0),
            gather(floats(4, 2), OUTSIDE[:, None], ROW_BY_ROW, (1, 1), CLIP),
            gather(floats(4, 2), OUTSIDE, ((1,), (), (1,), (0,), (0,)), (1, 1), fill=0),
            gather(floats(2, 3, 4), integers(4, 2, 1, below=3), ((), (1,), (1,), (0, 2), (1, 0)), (1, 1, 1)),
            gather(floats(3), np.zeros((2, 0), np.int32), ((1,), (), ()), (3,)),
            gather(floats(), np.zeros((2, 0), np.int32), ((), (), ()), ()),
        ],
        dtypes=ANY,
    ),
    Row(scatter_p, writes(), dtypes=ANY),
    Row(scatter_add_p, writes(), dtypes=NUMBERS),
    Row(scatter_sub_p, writes(), dtypes=NUMBERS),
    Row(scatter_mul_p, writes(), dtypes=NUMBERS),
    Row(scatter_min_p, writes(distinct)),
    Row(scatter_max_p, writes(distinct)),
    Row(
        scatter_apply_p,
        [
            applied(floats(3, 2), TWICE, (4, 2), ROWS_OF_A_MATRIX, PROMISE_IN_BOUNDS),
            applied(floats(3, 2), OUTSIDE, (4, 2), ROWS_OF_A_MATRIX),
            applied(floats(3, 2), OUTSIDE, (4, 2), ROWS_OF_A_MATRIX, CLIP),
            applied(floats(3, 4), np.array([1], np.int32), (4,), ((0,), (0,), (0,))),
            applied(floats(2, 4), integers(2, 3, 1, below=4), (2, 3), ROW_BY_ROW),
        ],
        differentiable=False,
        dtypes=(np.int32, np.float32, np.complex64),
    ),
    Row(
        dynamic_slice_p,
        [
            Sample(floats(5), np.int32(1), slice_sizes=(3,)),
            Sample(floats(5), np.int32(4), slice_sizes=(3,)),
            Sample(floats(3, 4), np.uint32(1), np.uint32(2), slice_sizes=(2, 4)),
            Sample(floats(3, 4), np.int32(-1), np.int32(9), slice_sizes=(1, 2)),
            Sample(floats(3, 4), np.int32(0), np.int32(0), slice_sizes=(3, 4)),
            Sample(floats(3, 4), 1, 0, slice_sizes=(0, 4)),
            Sample(floats(), slice_sizes=()),
        ],
        dtypes=ANY,
    ),
    Row(
        dynamic_update_slice_p,
        [
            Sample(floats(5), floats(3), np.int32(1)),
            Sample(floats(5), floats(3), np.int32(4)),
            Sample(floats(3, 4), floats(2, 4), np.uint32(1), np.uint32(2)),
            Sample(floats(3, 4), floats(1, 2), np.int32(-1), np.int32(9)),
            Sample(floats(3, 4), floats(3, 4, salt=1), np.int32(0), np.int32(0)),
            Sample(floats(3, 4), floats(0, 4), 1, 0),
            Sample(floats(), floats(salt=1)),
        ],
        dtypes=ANY,
    ),
]
