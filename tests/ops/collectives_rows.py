"""Rows of the collectives, each mapped over axis 0 with a name."""

import numpy as np

from tests.ops.table import Row, Sample, complexes, distinct, floats, integers
from xpr.primitives.collectives.exchange import all_gather_p, all_to_all_p, ppermute_p, reduce_scatter_p
from xpr.primitives.collectives.reduce import axis_index_p, pmax_p, pmin_p, psum_p
from xpr.primitives.collectives.varying import pvary_p

GROUPS = ((0, 3), (2, 1))


def reduction(reduce):
    """Every row is the reduction of its group's rows."""

    def meaning(*operands, axes, axis_index_groups):
        return [_by_group(reduce, x, axis_index_groups) for x in operands]

    return meaning


def _by_group(reduce, x, groups):
    out = np.empty_like(x)
    for group in groups or [range(len(x))]:
        out[list(group)] = reduce(x[list(group)], axis=0)
    return out


def _others(groups, size):
    """For each row those whose elements it gets."""
    groups = groups or [range(size)]
    return [next(list(group) for group in groups if i in group) for i in range(size)]


def gathered(x, *, all_gather_dimension, axis_index_groups, tiled, **_):
    join = np.concatenate if tiled else np.stack
    return [np.stack([join(list(x[rows]), all_gather_dimension) for rows in _others(axis_index_groups, len(x))])]


def scattered(x, *, scatter_dimension, axis_index_groups, tiled, **_):
    outs = []
    for i, rows in enumerate(_others(axis_index_groups, len(x))):
        part = np.split(x[rows].sum(0), len(rows), scatter_dimension)[rows.index(i)]
        outs.append(part if tiled else part.squeeze(scatter_dimension))
    return [np.stack(outs)]


def permuted(x, *, axis_name, perm):
    out = np.zeros_like(x)
    for source, target in perm:
        out[target] = x[source]
    return [out]


def exchanged(x, *, split_axis, concat_axis, axis_index_groups, **_):
    outs = []
    for i, rows in enumerate(_others(axis_index_groups, len(x))):
        outs.append(np.stack([x[row].take(rows.index(i), split_axis) for row in rows], concat_axis))
    return [np.stack(outs)]


def reduced(*operands, groups=None):
    return Sample(*operands, axes=("i",), axis_index_groups=groups)


def gathering(x, axis=0, tiled=False, groups=None):
    size = len(groups[0]) if groups else len(x)
    return Sample(x, all_gather_dimension=axis, axis_index_groups=groups, axis_name=("i",), axis_size=size, tiled=tiled)


def scattering(x, axis=0, tiled=False, groups=None):
    size = len(groups[0]) if groups else len(x)
    return Sample(x, scatter_dimension=axis, axis_index_groups=groups, axis_name=("i",), axis_size=size, tiled=tiled)


def exchanging(x, split, concat, groups=None):
    return Sample(x, split_axis=split, concat_axis=concat, axis_index_groups=groups, axis_name=("i",))


def permuting(x, *perm):
    return Sample(x, axis_name=("i",), perm=perm)


ROWS = [
    Row(psum_p, [reduced(floats(3, 2), floats(3, salt=1)), reduced(complexes(2, 2)), reduced(integers(3)),
                 reduced(floats(4, 2), groups=GROUPS)], along="i", meaning=reduction(np.sum)),
    *(Row(p, [reduced(distinct(3, 2)), reduced(distinct(4, 2), groups=GROUPS), reduced(integers(3))], along="i",
          meaning=reduction(meaning)) for p, meaning in ((pmax_p, np.max), (pmin_p, np.min))),
    Row(pvary_p, [Sample(floats(3, 2), axes=("i",)), Sample(integers(2), axes=("i",))], along="i",
        meaning=lambda x, **_: [x]),
    Row(axis_index_p, [Sample(axis_name="i")],
        skip={"value": "it has no operand that could be mapped", "eager": "it has no operand that could be mapped"}),
    Row(all_gather_p, [gathering(floats(3, 2)), gathering(floats(2, 2, 3), 1, tiled=True), gathering(complexes(3), 0),
                       gathering(floats(4, 2), 1, groups=GROUPS)], along="i", meaning=gathered),
    Row(reduce_scatter_p, [scattering(floats(3, 3)), scattering(floats(2, 2, 4), 1, tiled=True),
                           scattering(complexes(2, 2)), scattering(floats(4, 3, 2), 1, groups=GROUPS)],
        along="i", meaning=scattered),
    Row(ppermute_p, [permuting(floats(3, 2), (0, 1), (1, 2), (2, 0)), permuting(floats(4), (0, 2), (3, 0)),
                     permuting(complexes(2), (1, 0))], along="i", meaning=permuted),
    Row(all_to_all_p, [exchanging(floats(3, 3, 2), 0, 0), exchanging(floats(3, 2, 3), 1, 0),
                       exchanging(floats(2, 2, 3), 0, 1), exchanging(floats(4, 2, 3), 0, 1, GROUPS)],
        along="i", meaning=exchanged),
]  # fmt: skip
