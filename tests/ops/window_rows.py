"""Rows of xpr/primitives/windows/window_reductions.py."""

import numpy as np

from tests.ops.table import FLOATS, INTEGERS, NUMBERS, Row, Sample, booleans, complexes, distinct, floats, integers
from xpr.primitives.elementwise import ge_p, le_p
from xpr.primitives.windows.window_reductions import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)


def window(*operands, sizes, strides=None, pads=None, base=None, spread=None, edges=False, **params):
    ones = (1,) * len(sizes)
    return Sample(
        *operands, window_dimensions=sizes, window_strides=strides or ones, padding=pads or ((0, 0),) * len(sizes),
        base_dilation=base or ones, window_dilation=spread or ones, edges=edges, **params,
    )  # fmt: skip


NARROW = [
    {"sizes": (2,)},
    {"sizes": (3,), "strides": (2,), "pads": ((1, 1),)},
    {"sizes": (2,), "strides": (2,)},
    {"sizes": (2,), "pads": ((-1, 2),), "spread": (2,)},
    {"sizes": (4,), "base": (2,), "pads": ((0, 1),)},
    {"sizes": (7,)},
]
WIDE = [
    {"sizes": (2, 3), "strides": (1, 2), "pads": ((0, 1), (1, 1))},
    {"sizes": (5, 4), "pads": ((2, 2), (1, 2))},  # more elements than are joined directly
]
LONG = {"sizes": (19,), "spread": (2,), "pads": ((3, 2),), "strides": (3,)}


def samples(data):
    return [
        *(window(data(6), **window_of) for window_of in NARROW),
        *(window(data(5, 6), **window_of) for window_of in WIDE),
        window(data(50), **LONG),
    ]


def chosen(select_prim):
    """Long enough for any two arrays to choose otherwise somewhere, since the laws look at what is linear."""
    return [
        *(window(floats(17), distinct(17), **window_of, select_prim=select_prim) for window_of in NARROW[:5]),
        *(window(floats(5, 6), distinct(5, 6), **window_of, select_prim=select_prim) for window_of in WIDE),
        window(floats(80), distinct(80), sizes=(70,), pads=((40, 0),), select_prim=select_prim),
    ]


def scattered(select_prim):
    """The samples of `chosen`, with an element for each window in the first operand."""
    found = []
    for sample in chosen(select_prim):
        windows = select_and_gather_add_p.reference(sample.operands, **sample.params)[0]
        found.append(Sample(floats(*windows.shape, salt=3), sample.operands[1], **sample.params))
    return found


SPECIAL = np.array([1, np.nan, 2, np.inf, -np.inf, 0], np.float32)
EXTREME = [*samples(distinct), window(integers(6), sizes=(2,)), window(booleans(6), sizes=(2,)),
           window(SPECIAL, sizes=(2,), edges=True), window(floats(0), sizes=(1,))]  # fmt: skip

ROWS = [
    Row(reduce_window_sum_p, [*samples(floats), window(complexes(5), sizes=(2,)), window(integers(6), sizes=(2,))],
        dtypes=NUMBERS, tolerance=64),
    Row(reduce_window_max_p, EXTREME, dtypes=INTEGERS + FLOATS, signed_zeros=False),
    Row(reduce_window_min_p, EXTREME, dtypes=INTEGERS + FLOATS, signed_zeros=False),
    Row(select_and_gather_add_p, [*chosen(ge_p), *chosen(le_p)[:2]]),
    Row(select_and_scatter_add_p, [*scattered(ge_p), *scattered(le_p)[:2]]),
]  # fmt: skip
