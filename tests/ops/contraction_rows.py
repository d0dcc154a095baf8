"""Rows of xpr/primitives/dot.py and windows/convolution.py."""

import numpy as np

from tests.ops.table import NUMBERS, Row, Sample, booleans, complexes, floats, integers
from xpr.primitives.dot import dot_general_p
from xpr.primitives.precision import Precision
from xpr.primitives.windows.convolution import ConvDimensionNumbers, conv_general_dilated_p

F32 = np.dtype(np.float32)
BOTH = (Precision.HIGHEST, Precision.DEFAULT)


def product(lhs, rhs, contracted=((), ()), batched=((), ()), precision=None, preferred=None, edges=False):
    return Sample(
        lhs, rhs, dimension_numbers=(contracted, batched), precision=precision, preferred_element_type=preferred,
        edges=edges,
    )  # fmt: skip


PRODUCTS = [
    product(floats(2, 3), floats(3, 4), ((1,), (0,))),
    product(floats(3), floats(3, salt=1), ((0,), (0,))),
    product(floats(2, 3), floats(4, 3), ((1,), (1,)), precision=BOTH),
    product(np.float32(2), floats(3)),
    product(floats(2), floats(3)),
    product(floats(2, 3, 2), floats(2, 2, 4), ((2,), (1,)), ((0,), (0,))),
    product(floats(3, 2, 2), floats(4, 2, 3), ((0, 2), (2, 1))),
    product(floats(3, 2, 4), floats(3, 2, 5), ((0, 1), (0, 1))),
    product(floats(2, 3, 4, 2), floats(4, 2, 2, 3), ((1,), (3,)), ((3, 0), (1, 2))),
    product(complexes(2, 3), complexes(3, 2), ((1,), (0,))),
    product(floats(2, 0), floats(0, 3), ((1,), (0,)), edges=True),
    product(floats(0, 2), floats(2, 3), ((1,), (0,)), edges=True),
    product(floats(70, 4, 4), floats(70, 4, 4, salt=1), ((2,), (1,)), ((0,), (0,))),  # a sum of products on CPU
    product(floats(3, 200, 2), floats(2, 3, 4), ((2, 0), (0, 1))),
    product(integers(2, 3), floats(3), ((1,), (0,))),
    product(floats(2, 3, dtype=np.float16), floats(3, dtype=np.float16), ((1,), (0,)), preferred=F32),
    product(integers(2, 3, dtype=np.int8), integers(3, 2, dtype=np.int8), ((1,), (0,)), preferred=np.dtype(np.int32)),
    product(booleans(2, 3), booleans(3, 2), ((1,), (0,))),
]


def spec(lhs, rhs, out):
    return ConvDimensionNumbers(lhs, rhs, out)


FIRST = spec((0, 1), (0, 1), (0, 1)), spec((0, 1, 2), (0, 1, 2), (0, 1, 2)), spec(*[(0, 1, 2, 3)] * 3)
LAST = spec((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))


def slid(lhs, rhs, numbers=None, strides=None, pads=None, spread=None, kernel_spread=None, features=1, batches=1,
         precision=None, preferred=None):  # fmt: skip
    rank = lhs.ndim - 2
    ones = (1,) * rank
    return Sample(
        lhs, rhs, window_strides=strides or ones, padding=pads or ((0, 0),) * rank, lhs_dilation=spread or ones,
        rhs_dilation=kernel_spread or ones, dimension_numbers=numbers or FIRST[rank], feature_group_count=features,
        batch_group_count=batches, precision=precision, preferred_element_type=preferred,
    )  # fmt: skip


CONVOLUTIONS = [
    slid(floats(2, 2, 5), floats(3, 2, 2)),
    slid(floats(2, 2, 5), floats(3, 2, 2), strides=(2,), pads=((1, 2),), precision=BOTH),
    slid(floats(2, 2, 5), floats(3, 2, 2), pads=((-1, 2),), spread=(2,), kernel_spread=(3,)),
    slid(floats(2, 4, 5), floats(6, 2, 2), features=2, strides=(2,)),
    slid(floats(1, 3, 5), floats(6, 1, 3), features=3, pads=((1, 1),)),
    slid(floats(4, 2, 5), floats(6, 2, 2), batches=2, pads=((0, 1),)),
    slid(floats(1, 4, 4, 2), floats(2, 2, 2, 3), LAST, pads=((0, 1), (1, 0)), strides=(1, 2)),
    slid(floats(1, 4, 3, 2), floats(1, 1, 2, 3), LAST),
    slid(floats(2, 3, 2, 2), floats(3, 2, 2, 3), LAST),
    slid(floats(2, 3), floats(4, 3)),
    slid(complexes(1, 2, 3), complexes(2, 2, 2)),
    slid(floats(1, 2, 2), floats(2, 2, 3)),  # the kernel is larger than the image
    slid(floats(1, 2, 4, dtype=np.float16), floats(2, 2, 3, dtype=np.float16), preferred=F32),
    slid(integers(1, 2, 4), integers(2, 2, 3)),
    slid(floats(2, 2, 5), floats(3, 2, 2), pads=((-4, 4),), spread=(2,)),
]

ROWS = [
    Row(dot_general_p, PRODUCTS, tolerance=64, dtypes=NUMBERS),
    Row(conv_general_dilated_p, CONVOLUTIONS, tolerance=64, dtypes=NUMBERS),
]
