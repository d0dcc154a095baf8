"""Convolutions on several devices: each convolves its part of the images and a halo, the edges of neighbours' parts.

XLA asks for the program of one device when it has chosen shardings, see `backend/partitioners.py`. How the convolution
is partitioned by these, and which edges a device needs, says `convolution_halos.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.hlo_shardings import hlo_sharding, spec_from_hlo
from xpr.backend.mesh import Mesh
from xpr.backend.partitioners import Partitioner, can_partition, partitioned_call, sharding_rule_text
from xpr.backend.sharding import NamedSharding, PartitionSpec
from xpr.backend.stablehlo import Builder, Value
from xpr.backend.stablehlo_module import Module
from xpr.core.avals import ShapedArray
from xpr.primitives.collectives.lowering import lower_axis_index, lower_ppermute, lower_reduction
from xpr.primitives.windows.convolution_halos import (
    ConvolutionFactor,
    Halo,
    Names,
    Params,
    Shapes,
    factors_of,
    halo_of,
    partitioning_of,
)
from xpr.primitives.windows.convolution_lowering import convolved, lower_convolution

INDEX = ShapedArray((), dtypes.int32)


def lower_partitioned_convolution(
    b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any
) -> list[Value]:
    """The lowering rule of conv_general_dilated; where XLA can't ask for the program of one device, space is whole."""
    mesh = b.module.mesh
    shapes = [aval.shape for aval in (*[x.aval for x in operands], *avals)]
    if not isinstance(mesh, Mesh) or not _is_asked_for(b) or not _may_partition_space(mesh, shapes, params):
        return lower_convolution(b, operands, avals, **params)
    key = f"convolution {(mesh.shape_tuple, b.platform, *sorted(params.items()))}"
    partitioner, rule = _Partitioner(mesh, b.platform, params), _rule(shapes, params)
    return partitioned_call(b, partitioner, key, operands, avals, rule, inline=False)


def _is_asked_for(b: Builder) -> bool:
    """Whether XLA will ask for programs of one device: in whole programs that run here."""
    return b.may_be_partitioned and can_partition(b.platform) and not b.module.manual and not b.module.exported


def _may_partition_space(mesh: Mesh, shapes: Shapes, params: Params) -> bool:
    """Whether some axis of the mesh can partition a spatial axis."""
    if not all(isinstance(n, int) and n for shape in shapes for n in shape):
        return False
    return any(
        size > 1 and halo_of(factor, size, shapes, params) is not None
        for factor in factors_of(shapes, params)
        if factor.space is not None
        for size in mesh.axis_sizes
    )


def _rule(shapes: Shapes, params: Params) -> str:
    """The sharding rule; axes of no factor, and the members of groups, are not partitioned."""
    arrays: list[list[tuple[Any, ...]]] = [[()] * len(shape) for shape in shapes]
    sizes: dict[Any, int] = {}
    kinds: dict[str, list[Any]] = {"reduction": [], "need_replication": [], "permutation": []}

    def whole(n: int) -> Any:
        name = len(sizes)
        sizes[name] = n
        kinds["need_replication"].append(name)
        return name

    for factor in factors_of(shapes, params):
        held = [(array, axis, shapes[array][axis]) for array, axis in enumerate(factor.axes) if axis is not None]
        name = len(sizes)
        sizes[name] = factor.groups or min(n for _, _, n in held)
        if factor.is_contracted:
            kinds["reduction"].append(name)
        elif factor.space is not None:
            kinds["permutation"].append(name)
        for array, axis, n in held:
            members = n // factor.groups if factor.groups else 1
            arrays[array][axis] = (name,) if members == 1 else (name, whole(members))
    for array, axes in enumerate(arrays):
        arrays[array] = [axis or (whole(shapes[array][i]),) for i, axis in enumerate(axes)]
    return sharding_rule_text(arrays[:2], arrays[2:], sizes, kinds)


# -- Space


def _with_halo(b: Builder, images: Value, axis: int, halo: Halo, names: Names, count: int) -> Value:
    """The images of one device between edges of its neighbours' along one axis."""

    def edge(start: int, limit: int, perm: Sequence[tuple[int, int]]) -> Value:
        starts, limits = [0] * images.aval.ndim, list(images.aval.shape)
        starts[axis], limits[axis] = start, limit
        sent = b.slice(images, starts, limits)
        return lower_ppermute(b, [sent], [sent.aval], axis_name=names, perm=perm)[0]

    n, parts = images.aval.shape[axis], [images]
    if halo.before:
        parts.insert(0, edge(n - halo.before, n, [(i, i + 1) for i in range(count - 1)]))
    if halo.after:
        parts.append(edge(0, halo.after, [(i + 1, i) for i in range(count - 1)]))
    if len(parts) == 1:
        return images
    shape = list(images.aval.shape)
    shape[axis] += halo.before + halo.after
    return b.op("stablehlo.concatenate", parts, images.aval.update(shape=tuple(shape)), f"dimension = {axis} : i64")


def _needed(b: Builder, images: Value, axis: int, halo: Halo, names: Names, count: int, dilation: int) -> Value:
    """The positions along one axis that a device's windows span, dilated, where each device starts elsewhere."""
    first, last = -halo.low, -halo.low - (count - 1) * halo.shift
    low = max(0, -min(first, last))
    length = (images.aval.shape[axis] - 1) * dilation + 1
    high = max(0, max(first, last) + halo.extent - length)
    zero = b.constant(0, images.aval.update(shape=()))
    ndim = images.aval.ndim
    at = [np.eye(ndim, dtype=int)[axis] * size for size in (low, high, dilation - 1)]
    padded = b.pad(images, zero, *[each.tolist() for each in at])
    (index,) = lower_axis_index(b, [], [INDEX], axis_name=names)
    moved = b.op("stablehlo.multiply", [index, b.constant(-halo.shift, INDEX)], INDEX)
    start = b.op("stablehlo.add", [moved, b.constant(first + low, INDEX)], INDEX)
    starts, sizes = [b.constant(0, INDEX)] * ndim, list(padded.aval.shape)
    starts[axis], sizes[axis] = start, halo.extent
    return b.window(padded, starts, sizes)


# -- The program of one device


class _Partitioner(Partitioner):
    """The program of one device, of convolutions with the same parameters."""

    def __init__(self, mesh: Mesh, platform: str, params: Params):
        self.mesh, self.platform, self.params = mesh, platform, params

    def partition(
        self, arg_shapes: Sequence[Any], arg_shardings: Sequence[Any], out_shapes: Sequence[Any],
        out_shardings: Sequence[Any],
    ) -> tuple[bytes, list[Any], list[Any]]:  # fmt: skip
        mesh = self.mesh
        wholes = [ShapedArray(tuple(s.dimensions()), s.numpy_dtype()) for s in (*arg_shapes, *out_shapes)]
        shapes = [aval.shape for aval in wholes]
        asked = [self._parts(hlo, aval.ndim) for hlo, aval in zip((*arg_shardings, *out_shardings), wholes)]
        factors = factors_of(shapes, self.params)
        partitioning = partitioning_of(factors, asked, mesh, shapes, self.params)
        specs: list[list[Any]] = [[None] * aval.ndim for aval in wholes]
        for factor, names in zip(factors, partitioning):
            for spec, axis in zip(specs, factor.axes):
                if axis is not None and names:
                    spec[axis] = names
        shardings = [NamedSharding(mesh, PartitionSpec(*spec)) for spec in specs]
        parts = [aval.update(shape=each.shard_shape(aval.shape)) for aval, each in zip(wholes, shardings)]
        module = Module(self.platform)
        module.mesh, module.manual = mesh, dict.fromkeys(mesh.axis_names, mesh)
        module.function(
            "main", parts[:2],
            lambda b, xs: [self._of_one_device(b, xs, parts[2], shapes, factors, partitioning)], public=True,
        )  # fmt: skip
        hlo = [hlo_sharding(each, aval.ndim) for each, aval in zip(shardings, wholes)]
        return module.text().encode(), hlo[:2], hlo[2:]

    def _parts(self, hlo: Any, ndim: int) -> list[Any]:
        """The axes of the mesh for each axis of an array; none where these can't express its parts."""
        spec = spec_from_hlo(hlo, self.mesh, ndim) or ()
        return [*spec, *[None] * (ndim - len(spec))]

    def _of_one_device(
        self, b: Builder, operands: list[Value], out: ShapedArray, shapes: Shapes, factors: Sequence[ConvolutionFactor],
        partitioning: Sequence[Names],
    ) -> Value:  # fmt: skip
        images, kernel = operands
        params = dict(self.params)
        padding, dilation = list(params["padding"]), list(params["lhs_dilation"])
        for factor, names in zip(factors, partitioning):
            count = math.prod([self.mesh.shape[name] for name in names])
            if count == 1:
                continue
            if factor.groups:
                kind = "batch_group_count" if params["batch_group_count"] > 1 else "feature_group_count"
                params[kind] //= count
            if factor.space is None:
                continue
            i, axis = factor.space, factor.axes[0]
            halo = halo_of(factor, count, shapes, self.params)
            assert halo is not None and axis is not None  # `partitioning_of` leaves such axes whole
            images = _with_halo(b, images, axis, halo, names, count)
            if halo.shift:
                images = _needed(b, images, axis, halo, names, count, dilation[i])
                padding[i], dilation[i] = (0, 0), 1
            else:
                length = (images.aval.shape[axis] - 1) * dilation[i] + 1
                padding[i] = (halo.low, halo.extent - halo.low - length)
        params |= {"padding": tuple(padding), "lhs_dilation": tuple(dilation)}
        result = convolved(b, [images, kernel], out, params)
        summed = [name for factor, names in zip(factors, partitioning) if factor.is_contracted for name in names]
        if summed:
            reduce = lower_reduction("conv_general_dilated", "stablehlo.add")
            (result,) = reduce(b, [result], [result.aval], axes=summed, axis_index_groups=None)
        return b.convert(result, out.dtype)
