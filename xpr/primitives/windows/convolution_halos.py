"""How a convolution is partitioned over a mesh, what a device needs of its neighbours, and what devices send.

Axes of images, kernel and result that are partitioned together are a `ConvolutionFactor`: the batch, the features in
and out, groups, and each spatial axis. `Shapes` are the sizes of images, kernel and result.

NOTE [halos]. Along one spatial axis, with stride s, dilations d of the images and r of the window, and `low` padding,
window t meets element k of the kernel at position t s + k r - low of the dilated images. Either the windows are
partitioned, T on each device, or the window itself is, K elements on each, as in the gradient to the kernel, and
devices add up what they have. In both cases device i needs positions

    i step - low ... i step - low + extent - 1,  with  step = T s,  extent = (T - 1) s + (whole window - 1) r + 1
                                           or  with  step = K r,  extent = (K - 1) r + (all windows - 1) s + 1,

and holds N elements, at positions i N d, i N d + d ... So with shift = N d - step it takes from its neighbours

    before = floor((low + max_i i shift) / d)  and  after = ceil((extent - low - N d - min_i i shift) / d)

elements, and zeros where there are none, which are the padding. Where shift is 0, the rest is a convolution with other
padding, the same on all devices; elsewhere each device slices the positions that it needs. Where more than the
neighbour's part would be needed, or parts are not equal, the axis is gathered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xpr.backend.communication import Collective
from xpr.core.avals import ShapedArray
from xpr.core.explicit import ExplicitSharding
from xpr.core.specs import axes_of, normalized
from xpr.primitives.communication import of_contraction, shard_bytes
from xpr.primitives.sharding_rules import mesh_of_types, parts_of

Params = dict[str, Any]
Names = tuple[Any, ...]  # axes of a mesh
Shapes = Sequence[Sequence[int]]


class ConvolutionFactor(NamedTuple):
    """An axis of images, of the kernel and of the result that are partitioned together; None where one has none.

    `space` is the number of a spatial axis; `groups` how many groups there are along these axes, or 0.
    """

    axes: tuple[int | None, int | None, int | None]
    space: int | None = None
    groups: int = 0

    @property
    def is_contracted(self) -> bool:
        return self.axes[2] is None


def factors_of(shapes: Shapes, params: Params) -> list[ConvolutionFactor]:
    """The factors of a convolution. Of a spatial axis the windows are partitioned, or a larger window itself."""
    lhs, rhs, out = params["dimension_numbers"]
    if params["feature_group_count"] > 1:
        factors = [
            ConvolutionFactor((lhs[0], None, out[0])),
            ConvolutionFactor((lhs[1], rhs[0], out[1]), groups=params["feature_group_count"]),
        ]
    elif params["batch_group_count"] > 1:
        factors = [
            ConvolutionFactor((lhs[0], rhs[0], out[1]), groups=params["batch_group_count"]),
            ConvolutionFactor((lhs[1], rhs[1], None)),
        ]
    else:
        factors = [
            ConvolutionFactor((lhs[0], None, out[0])),
            ConvolutionFactor((lhs[1], rhs[1], None)),
            ConvolutionFactor((None, rhs[0], out[1])),
        ]
    for i, (image, window, windows) in enumerate(zip(lhs[2:], rhs[2:], out[2:])):
        larger = shapes[1][window] > shapes[2][windows]
        factors.append(ConvolutionFactor((image, window, None) if larger else (image, None, windows), space=i))
    return factors


def partitioning_of(
    factors: Sequence[ConvolutionFactor], parts: Sequence[Sequence[Any]], mesh: Any, shapes: Shapes, params: Params
) -> list[Names]:
    """For each factor the axes of the mesh that partition it, no axis twice; `parts` are those of each array.

    An axis that partitions both operands along what is contracted comes first, then those of the result, then others.
    """
    chosen: list[Names] = [()] * len(factors)

    def names(factor: ConvolutionFactor, array: int) -> Names:
        axis = factor.axes[array]
        return () if axis is None else tuple([name for name in axes_of(parts[array][axis]) if mesh.shape[name] > 1])

    def candidates() -> Iterator[tuple[int, Names]]:
        for i, factor in enumerate(factors):
            if factor.is_contracted and names(factor, 0) == names(factor, 1):
                yield i, names(factor, 0)
        for array in (2, 0, 1):
            for i, factor in enumerate(factors):
                yield i, names(factor, array)

    for i, wanted in candidates():
        used = set(itertools.chain(*chosen))
        count = math.prod([mesh.shape[name] for name in wanted])
        if count > 1 and not chosen[i] and used.isdisjoint(wanted) and _fits(factors[i], count, shapes, params):
            chosen[i] = wanted
    return chosen


def _fits(factor: ConvolutionFactor, count: int, shapes: Shapes, params: Params) -> bool:
    """Whether so many devices get equal parts, and need no more than their neighbours' parts."""
    if factor.space is not None:
        return halo_of(factor, count, shapes, params) is not None
    sizes = [shape[axis] for shape, axis in zip(shapes, factor.axes) if axis is not None]
    return all(n % count == 0 for n in (*sizes, factor.groups))


class Halo(NamedTuple):
    """What a device needs of the images along one spatial axis, see NOTE [halos].

    `before` and `after`: how many elements of its neighbours; `extent`: the positions that its windows span, the first
    of which is for device i `low` + i `shift` before the first element that it has then.
    """

    before: int
    after: int
    extent: int
    low: int
    shift: int


def halo_of(factor: ConvolutionFactor, count: int, shapes: Shapes, params: Params) -> Halo | None:
    """The halo along a spatial axis of images that are in `count` parts; None where it has to be gathered."""
    i = factor.space
    assert i is not None
    lhs, rhs, out = params["dimension_numbers"]
    n, window, windows = shapes[0][lhs[2 + i]], shapes[1][rhs[2 + i]], shapes[2][out[2 + i]]
    stride, dilation, apart = params["window_strides"][i], params["lhs_dilation"][i], params["rhs_dilation"][i]
    low = params["padding"][i][0]
    split, whole = (window, windows) if factor.is_contracted else (windows, window)
    by, along = (apart, stride) if factor.is_contracted else (stride, apart)
    if n % count or split % count or not n * split:
        return None
    n, split = n // count, split // count
    extent = (split - 1) * by + (whole - 1) * along + 1
    shift = n * dilation - split * by
    last = (count - 1) * shift
    before = max(0, (low + max(0, last)) // dilation)
    after = max(0, -((n * dilation + low + min(0, last) - extent) // dilation))
    if max(before, after) > n:
        return None
    return Halo(before, after, extent, low - before * dilation, shift)


# -- Communication


def sent_by_convolution(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], sizes: Mapping[Any, int], **params: Any
) -> list[Collective]:
    """What devices send of operands and results that are partitioned over Explicit axes: see `communication.py`."""
    avals = [*operands, *results]
    if all(aval.explicit is None for aval in operands):
        return []
    mesh, shapes = mesh_of_types(operands), [aval.shape for aval in avals]
    factors = factors_of(shapes, params)
    partitioning = partitioning_of(factors, list(map(parts_of, avals)), mesh, shapes, params)
    found, parts, contracted = [], [], []
    for i, aval in enumerate(operands):
        by_axis = {factor.axes[i]: names for factor, names in zip(factors, partitioning)}
        held = [(axis, name) for axis, part in enumerate(parts_of(aval)) for name in axes_of(part)]
        gathered = [name for axis, name in held if mesh.shape[name] > 1 and name not in by_axis.get(axis, ())]
        count = math.prod([mesh.shape[name] for name in gathered])
        if count > 1:
            found.append(Collective("all-gather", shard_bytes(aval) * count, tuple(gathered), count, 1))
        spec = tuple([normalized(by_axis.get(axis, ())) for axis in range(aval.ndim)])
        parts.append(aval.with_explicit(ExplicitSharding(mesh, spec)))
        summed = [factor.axes[i] for factor in factors if factor.is_contracted]
        contracted.append([axis for axis in summed if axis is not None])
    size = shard_bytes(parts[0])
    for factor, names in zip(factors, partitioning):
        count, axis = math.prod([mesh.shape[name] for name in names]), factor.axes[0]
        if factor.space is None or axis is None or count == 1:
            continue
        halo, n = halo_of(factor, count, shapes, params), shapes[0][axis] // count
        assert halo is not None
        found += [Collective("collective-permute", size // n * edge, names, 2, 1) for edge in halo[:2] if edge]
        # What a device holds while edges along the next axis are sent
        size = size // n * (halo.extent if halo.shift else n + halo.before + halo.after)
    return found + of_contraction(list(zip(parts, contracted)), results[0])
