"""Convolution: a kernel slid over the spatial axes of a stack of images, and summed over their features.

The operands are images (batch, features, space ...) and kernels (features out, features in, space ...), in whatever
order `dimension_numbers` say. With `feature_group_count` = g the features are split into g groups that are convolved
each by itself; with `batch_group_count` = g the batch is split so instead, and group i of it meets group i of the
kernel's outputs. Both are read (group, member), the group slowest.

A convolution is bilinear, and its derivatives are convolutions again. Along one axis, with stride s, dilations d of the
images and r of the kernel, and `low` padding,

    out[n, o, t] = sum over i, k of  images[n, i, (t s + k r - low) / d]  kernel[o, i, k]

* to the images: the cotangent, dilated by s, is convolved with the flipped kernel, its features in and out exchanged,
  with stride d;
* to the kernel: the images, batch and features exchanged, are convolved with the cotangent as the kernel, dilated by s,
  with stride r.

A mapped axis is merged into the batch (mapped images), into the features out (mapped kernels), or makes more groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.errors import ArgumentError, ShardingTypeError
from xpr.primitives.dot import bilinear_jvp
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.precision import result_dtype
from xpr.primitives.shapes import full, move_axis, reshape, rev
from xpr.primitives.sharding_rules import OUT_SHARDING, mesh_of_types, parts_of, resized
from xpr.primitives.slicing import pad_p
from xpr.primitives.windows.convolution_halos import sent_by_convolution
from xpr.primitives.windows.convolution_partitioning import lower_partitioned_convolution
from xpr.primitives.windows.sizes import Pads, count_elements, count_windows, dilated
from xpr.text.parameters import register_parameter

__all__ = ["conv_general_dilated_p", "ConvDimensionNumbers"]

Axes = tuple[int, ...]


@register_parameter
class ConvDimensionNumbers(NamedTuple):
    """The axes of a convolution's operands and result.

    lhs_spec: the batch, the features, and the spatial axes of the images.
    rhs_spec: the features out, the features in, and the spatial axes of the kernel.
    out_spec: the batch, the features, and the spatial axes of the result.
    """

    lhs_spec: Axes
    rhs_spec: Axes
    out_spec: Axes


# -- Typing


def _conv_abstract(
    avals: Sequence[ShapedArray],
    *,
    window_strides: Axes,
    padding: Pads,
    lhs_dilation: Axes,
    rhs_dilation: Axes,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
) -> list[ShapedArray]:
    lhs, rhs = avals
    _check_sizes(lhs, rhs, dimension_numbers, feature_group_count, batch_group_count)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    shape = [0] * lhs.ndim
    shape[out_spec[0]] = lhs.shape[lhs_spec[0]] // batch_group_count
    shape[out_spec[1]] = rhs.shape[rhs_spec[0]]
    for i, (image, kernel, out) in enumerate(zip(lhs_spec[2:], rhs_spec[2:], out_spec[2:])):
        shape[out] = count_windows(
            lhs.shape[image], rhs.shape[kernel], window_strides[i], padding[i], lhs_dilation[i], rhs_dilation[i]
        )
    dtype = result_dtype(lhs, rhs, preferred_element_type)
    return [ShapedArray(tuple(shape), dtype, lhs.weak_type and rhs.weak_type)]


def _check_sizes(
    lhs: ShapedArray, rhs: ShapedArray, numbers: ConvDimensionNumbers, features: int, batches: int
) -> None:
    types = f"images {lhs.str_short()} and kernel {rhs.str_short()}"
    if lhs.ndim != rhs.ndim or any(sorted(spec) != list(range(lhs.ndim)) for spec in numbers):
        raise TypeError(
            f"conv_general_dilated: {types} must have the same number of axes, and each spec of {numbers} name all."
        )
    if (lhs.dtype == dtypes.bool_) != (rhs.dtype == dtypes.bool_):
        raise TypeError(
            f"conv_general_dilated: {types}: booleans are convolved with booleans alone. Convert them to numbers."
        )
    if features < 1 or batches < 1 or (features > 1 and batches > 1):
        raise ValueError(
            f"conv_general_dilated: feature_group_count={features} and batch_group_count={batches} must be "
            "positive, and one of them 1."
        )
    batch, into = lhs.shape[numbers.lhs_spec[0]], lhs.shape[numbers.lhs_spec[1]]
    out, into_group = rhs.shape[numbers.rhs_spec[0]], rhs.shape[numbers.rhs_spec[1]]
    if into != into_group * features:
        raise ArgumentError(
            f"conv_general_dilated: {types}: the images have {into} features, and the kernel takes {into_group} in "
            f"each of feature_group_count={features} groups: {into_group * features}. Check dimension_numbers, "
            f"{numbers}."
        )
    if out % (features * batches) or batch % batches:
        raise ArgumentError(
            f"conv_general_dilated: {types}: the kernel's {out} output features, and a batch of {batch}, must be "
            f"multiples of the group counts, feature_group_count={features} and batch_group_count={batches}."
        )


# -- The meaning


def _conv_reference(values: Sequence[Any], *, window_strides: Axes, padding: Pads, **params: Any) -> list[Any]:
    """Products of the kernel with every window of the padded images."""
    lhs, rhs = map(np.asarray, values)
    params |= {"window_strides": window_strides, "padding": padding}
    (out,) = _conv_abstract([aval_of(lhs), aval_of(rhs)], **params)
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    working = np.promote_types(out.dtype, np.float32) if out.dtype in dtypes.FLOATS | dtypes.BOOL else out.dtype
    images = _dilated(lhs.astype(working).transpose(lhs_spec), padding, params["lhs_dilation"])
    kernel = _dilated(rhs.astype(working).transpose(rhs_spec), [(0, 0)] * len(padding), params["rhs_dilation"])
    stacked = np.zeros([out.shape[a] for a in out_spec], working)
    if stacked.size:
        stacked += _slide(images, kernel, window_strides, params["feature_group_count"], params["batch_group_count"])
    return [stacked.transpose(np.argsort(out_spec)).astype(out.dtype)]


def _dilated(x: np.ndarray, pads: Sequence[tuple[int, int]], dilation: Axes) -> np.ndarray:
    config = ((0, 0, 0), (0, 0, 0), *((low, high, d - 1) for (low, high), d in zip(pads, dilation)))
    return pad_p.reference([x, np.zeros((), x.dtype)], padding_config=config)[0]


def _slide(images: np.ndarray, kernel: np.ndarray, strides: Axes, features: int, batches: int) -> np.ndarray:
    """[n, c, space] and [o, i, window] give [n, o, windows]."""
    rank = len(strides)
    axes = tuple(range(2, 2 + rank))
    every = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    windows = np.lib.stride_tricks.sliding_window_view(images, kernel.shape[2:], axes)[every]
    (n, c), sizes, window = windows.shape[:2], windows.shape[2 : 2 + rank], kernel.shape[2:]
    groups = features * batches
    o = kernel.shape[0]
    kernel = kernel.reshape(groups, o // groups, kernel.shape[1], *window)
    if batches > 1:
        windows = windows.reshape(groups, n // groups, c, *sizes, *window).swapaxes(0, 1)
        n //= groups
    else:
        windows = windows.reshape(n, groups, c // groups, *sizes, *window)
    space, inside = list(range(10, 10 + rank)), list(range(20, 20 + rank))
    # The labels: 0 the batch, 1 the group, 2 and 3 the features in and out of a group.
    result = np.einsum(
        windows, [0, 1, 2, *space, *inside], kernel, [1, 3, 2, *inside], [0, 1, 3, *space], optimize=True
    )
    return result.reshape(n, o, *sizes)


# -- Transposing


def _conv_transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    (ct,), (lhs, rhs) = cts, operands
    if is_linear(lhs):
        return [_to_images(ct, lhs.aval, rhs, **params), None]
    return [None, _to_kernel(ct, lhs, rhs.aval, **params)]


def _to_images(
    ct: Any,
    aval: ShapedArray,
    kernel: Any,
    *,
    window_strides: Axes,
    padding: Pads,
    lhs_dilation: Axes,
    rhs_dilation: Axes,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> Any:
    if 0 in (aval_of(ct).size, aval.size, aval_of(kernel).size):
        return Zero(aval)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    sizes = zip(_space(aval, lhs_spec), _space(kernel, rhs_spec), _space(ct, out_spec))
    pads = []
    for (n, k, t), (low, _), s, d, r in zip(sizes, padding, window_strides, lhs_dilation, rhs_dilation):
        reach = dilated(k, r) - 1
        pads.append((reach - low, dilated(n, d) - dilated(t, s) + low))
    groups = feature_group_count * batch_group_count
    back = conv_general_dilated_p.bind(
        ct,
        rev(_move_groups(kernel, rhs_spec[0], rhs_spec[1], groups), rhs_spec[2:]),
        window_strides=lhs_dilation,
        padding=tuple(pads),
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out_spec, _exchanged(rhs_spec), lhs_spec),
        feature_group_count=groups,
        batch_group_count=1,
        **params,
    )
    back = _move_groups(back, lhs_spec[1], lhs_spec[0], batch_group_count)
    return convert_element_type(back, aval.dtype)


def _to_kernel(
    ct: Any,
    images: Any,
    aval: ShapedArray,
    *,
    window_strides: Axes,
    padding: Pads,
    lhs_dilation: Axes,
    rhs_dilation: Axes,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> Any:
    if 0 in (aval_of(ct).size, aval.size, aval_of(images).size):
        return Zero(aval)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    sizes = zip(_space(images, lhs_spec), _space(aval, rhs_spec), _space(ct, out_spec))
    pads = []
    for (n, k, t), (low, _), s, d, r in zip(sizes, padding, window_strides, lhs_dilation, rhs_dilation):
        pads.append((low, dilated(k, r) - 1 + dilated(t, s) - dilated(n, d) - low))
    back = conv_general_dilated_p.bind(
        images,
        ct,
        window_strides=rhs_dilation,
        padding=tuple(pads),
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(_exchanged(lhs_spec), _exchanged(out_spec), _exchanged(rhs_spec)),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        **params,
    )
    return convert_element_type(back, aval.dtype)


def _space(x: Any, spec: Axes) -> list[int]:
    shape = x.shape if type(x) is ShapedArray else aval_of(x).shape
    return [shape[a] for a in spec[2:]]


def _exchanged(spec: Axes) -> Axes:
    """The spec with batch and features, or features in and out, exchanged."""
    return (spec[1], spec[0], *spec[2:])


def _move_groups(x: Any, source: int, target: int, groups: int) -> Any:
    """Splits axis `source` into (group, member) and merges the groups into axis `target`, where they are slowest."""
    if groups == 1:
        return x
    shape = list(aval_of(x).shape)
    shape[source : source + 1] = [groups, shape[source] // groups]
    split = reshape(x, shape)
    return _merge(split, source, target)


def _merge(x: Any, source: int, target: int) -> Any:
    """Merges axis `source`, as the slower part, into axis `target` of the other axes."""
    moved = move_axis(x, source, target)
    shape = list(aval_of(moved).shape)
    shape[target : target + 2] = [shape[target] * shape[target + 1]]
    return reshape(moved, shape)


def _split(x: Any, axis: int, *sizes: int) -> Any:
    """Splits an axis into several; one size is -1."""
    shape = list(aval_of(x).shape)
    known = -int(np.prod(sizes))
    shape[axis : axis + 1] = [shape[axis] // known if n < 0 else n for n in sizes]
    return reshape(x, shape)


def _merge_below_groups(x: Any, source: int, target: int, groups: int) -> Any:
    """Merges axis `source` into axis `target`, which is then (group, element of `source`, member)."""
    if groups == 1:
        return _merge(x, source, target)
    split = _split(move_axis(x, source, aval_of(x).ndim - 1), target, groups, -1)
    return _merge(_merge(split, aval_of(split).ndim - 1, target + 1), target, target)


# -- Batching


def _conv_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    if size == 0:
        rows = [_row(x, d) for x, d in zip(values, dims)]
        (out,) = conv_general_dilated_p.type_of(tuple(rows), params)
        return [full((0, *out.shape), 0, out.dtype)], [0]
    (lhs, rhs), (lhs_dim, rhs_dim) = values, dims
    if rhs_dim is None:
        return _batch_images(size, lhs, lhs_dim, rhs, params)
    if lhs_dim is None:
        return _batch_kernels(size, lhs, rhs, rhs_dim, params)
    return _batch_both(size, lhs, lhs_dim, rhs, rhs_dim, params)


def _row(x: Any, dim: int | None) -> ShapedArray:
    aval = aval_of(x)
    return aval if dim is None else aval.update(shape=aval.shape[:dim] + aval.shape[dim + 1 :])


def _batch_images(size: int, lhs: Any, dim: Any, rhs: Any, params: dict[str, Any]) -> Any:
    """The mapped axis goes into the batch; below the groups, if the batch has groups."""
    lhs_spec, _, out_spec = params["dimension_numbers"]
    merged = _merge_below_groups(lhs, dim, lhs_spec[0], params["batch_group_count"])
    out = conv_general_dilated_p.bind(merged, rhs, **params)
    return [_split(out, out_spec[0], size, -1)], [out_spec[0]]


def _batch_kernels(size: int, lhs: Any, rhs: Any, dim: int, params: dict[str, Any]) -> Any:
    """The mapped axis goes into the features out; below the groups, if there are any."""
    _, rhs_spec, out_spec = params["dimension_numbers"]
    groups = params["feature_group_count"] * params["batch_group_count"]
    out = conv_general_dilated_p.bind(lhs, _merge_below_groups(rhs, dim, rhs_spec[0], groups), **params)
    if groups == 1:
        return [_split(out, out_spec[1], size, -1)], [out_spec[1]]
    out = _split(out, out_spec[1], groups, size, -1)
    separate = move_axis(out, out_spec[1] + 1, 0)
    return [_merge(separate, out_spec[1] + 1, out_spec[1] + 1)], [0]


def _batch_both(size: int, lhs: Any, lhs_dim: int, rhs: Any, rhs_dim: int, params: dict[str, Any]) -> Any:
    """Each row becomes one group, or as many groups as it had."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    kind = "feature_group_count" if params["batch_group_count"] == 1 else "batch_group_count"
    grouped = _merge(lhs, lhs_dim, lhs_spec[1] if kind == "feature_group_count" else lhs_spec[0])
    params = params | {kind: size * params[kind]}
    out = conv_general_dilated_p.bind(grouped, _merge(rhs, rhs_dim, rhs_spec[0]), **params)
    return [_split(out, out_spec[1], size, -1)], [out_spec[1]]


def _conv_flops(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, window_strides: Axes, padding: Pads,
    lhs_dilation: Axes, rhs_dilation: Axes, dimension_numbers: ConvDimensionNumbers, **params: Any,
) -> int:  # fmt: skip
    """Two for each product of an element of the images and one of the kernel, which padding and gaps have not."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    (images, kernel), (out,) = operands, results
    products = out.shape[out_spec[0]] * out.shape[out_spec[1]] * kernel.shape[rhs_spec[1]]
    spaces = zip(lhs_spec[2:], rhs_spec[2:], window_strides, padding, lhs_dilation, rhs_dilation)
    for image, window, stride, pads, dilation, window_dilation in spaces:
        products *= count_elements(images.shape[image], kernel.shape[window], stride, pads, dilation, window_dilation)
    return 2 * products


def _conv_sharding(
    avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], *, dimension_numbers: ConvDimensionNumbers, **_: Any
) -> list[Any]:
    """Results are partitioned as the images are; the images' features and the kernels must not be partitioned."""
    lhs_spec, out_spec = dimension_numbers.lhs_spec, dimension_numbers.out_spec
    lhs, rhs = avals
    parts: list[Any] = [None] * lhs.ndim
    for axis, out_axis in zip(lhs_spec, out_spec):
        parts[out_axis] = parts_of(lhs)[axis]
    if any(parts_of(rhs)) or parts_of(lhs)[lhs_spec[1]] is not None:
        raise ShardingTypeError(f"the kernels, or the features of the images, are partitioned. {OUT_SHARDING}")
    sizes: list[Any] = [None] * lhs.ndim
    for axis, out_axis in zip(lhs_spec, out_spec):
        sizes[out_axis] = lhs.shape[axis]
    return [resized(mesh_of_types(avals), lhs.plain.update(shape=tuple(sizes)), outs[0], tuple(parts))]


conv_general_dilated_p = register(
    Primitive(
        "conv_general_dilated",
        abstract=_conv_abstract,
        sharding=_conv_sharding,
        reference=_conv_reference,
        lower=lower_partitioned_convolution,
        jvp=Unsupported("it is set below"),
        transpose=_conv_transpose,
        batch=_conv_batch,
        flops=_conv_flops,
        collectives=sent_by_convolution,
    )
)
conv_general_dilated_p.jvp = bilinear_jvp(conv_general_dilated_p)
