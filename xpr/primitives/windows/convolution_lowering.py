"""Lowering of convolutions to StableHLO.

On CPU, XLA has a fast kernel for plain convolutions alone; others become nested loops, an element at a time.
Five kinds are therefore lowered to other operations (f32, 2 cores; before -> after):

* depthwise (one feature in each group), small window: a sum over the window's elements of shifted images times a
  kernel element. 32x1000x16, window 5: 42 -> 0.8 ms; 8x28x28x32, window 3x3: 5.1 -> 0.5 ms.
* depthwise, other windows, and gradients to the kernel: a call of C (`native_convolution.py`). 2x56x56x64, window 7x7:
  25 -> 1.1 ms, its gradients 76 -> 4; two vectors of 1000: 6.5 -> 0.2 ms.
* a few groups: a convolution for each. The gradient to the kernel of 4 groups of 8 features: 117 -> 2 ms.
* windows that cover the whole image, or one position: a dot. The gradient to a 1x1 kernel, 25088 positions: 12 -> 4 ms.
* complex numbers, on any platform: four real convolutions.

Of a convolution on several devices these are the programs of one (`convolution_partitioning.py`). Where the compiler
partitions it by itself, spatial axes are whole: where those of the images or of the window are partitioned, results of
jaxlib 0.10 are wrong by a factor.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import native
from xpr.backend.mlir_text import int_array, int_matrix
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.primitives import native_calls
from xpr.primitives.dot_lowering import free_axes, lower_dot_general
from xpr.primitives.precision import in_one_dtype, precision_text, summed_in
from xpr.primitives.windows.native_convolution import SMALL_WINDOW, native_convolution
from xpr.primitives.windows.sizes import Pads

Axes = tuple[int, ...]


def lower_convolution(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
    """A convolution whose spatial axes the compiler does not partition."""
    lhs, rhs, out = params["dimension_numbers"]
    images, kernel = b.whole(operands[0], lhs[2:]), b.whole(operands[1], rhs[2:])
    return [b.convert(b.whole(convolved(b, [images, kernel], avals[0], params), out[2:]), avals[0].dtype)]


def convolved(b: Builder, operands: list[Value], out: ShapedArray, params: dict[str, Any]) -> Value:
    """A convolution in the dtype in which products are summed, of which booleans are whether it isn't 0."""
    lhs, rhs = in_one_dtype(b, operands, out.dtype)
    if lhs.aval.dtype == dtypes.bool_:
        lhs, rhs = (b.convert(x, dtypes.float32) for x in (lhs, rhs))
    summed = summed_in(lhs.aval.dtype, out)
    return (_lower_complex if summed.dtype in dtypes.COMPLEX else _lower_real)(b, lhs, rhs, summed, params)


def _lower_complex(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, params: dict[str, Any]) -> Value:
    part = dtypes.real_part_of(out.dtype)

    def parts(x: Value) -> list[Value]:
        return [b.op(f"stablehlo.{name}", [x], x.aval.update(dtype=part)) for name in ("real", "imag")]

    aval = out.update(dtype=part)
    product = [[_lower_real(b, x, y, aval, params) for y in parts(rhs)] for x in parts(lhs)]
    real = b.op("stablehlo.subtract", [product[0][0], product[1][1]], aval)
    imaginary = b.op("stablehlo.add", [product[0][1], product[1][0]], aval)
    return b.op("stablehlo.complex", [real, imaginary], out)


def _lower_real(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, params: dict[str, Any]) -> Value:
    tuned = b.platform == "cpu" and out.dtype == lhs.aval.dtype and out.dtype.itemsize >= 4
    if tuned and out.size and lhs.aval.size and not (lhs.aval.is_symbolic or rhs.aval.is_symbolic):
        if (called := _called(b, lhs, rhs, out, params)) is not None:
            return called
        if _is_depthwise(rhs.aval, params):
            return _lower_depthwise(b, lhs, rhs, out, params)
        if _is_contraction(lhs.aval, rhs.aval, params):
            return _lower_contraction(b, lhs, rhs, out, params)
        if 1 < params["feature_group_count"] * params["batch_group_count"] <= 8:
            return _lower_groups(b, lhs, rhs, out, params)
    return _lower_plain(b, lhs, rhs, out, params)


# -- As StableHLO's convolution


def _lower_plain(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, params: dict[str, Any]) -> Value:
    images, padding = _without_removed(b, lhs, params)
    if images is None:
        return b.constant(0, out)
    if b.platform == "cpu" and rhs not in b.varied:  # as for a product, see dot_lowering
        rhs = b.fusion_barrier(rhs)
    strides = params["window_strides"]
    reversal = f"array<i1: {', '.join(['false'] * len(strides))}>" if strides else "array<i1>"
    is_symbolic = any(is_symbolic_dim(pad) for pads in padding for pad in pads)
    properties = (
        f"window_strides = {int_array(strides)}, {'' if is_symbolic else f'padding = {int_matrix(padding)}, '}"
        f"lhs_dilation = {int_array(params['lhs_dilation'])}, rhs_dilation = {int_array(params['rhs_dilation'])}, "
        f"window_reversal = {reversal}, dimension_numbers = {_numbers_text(*params['dimension_numbers'])}, "
        f"feature_group_count = {params['feature_group_count']} : i64, "
        f"batch_group_count = {params['batch_group_count']} : i64, {precision_text(params['precision'])}"
    )
    operands = [images, rhs, b.pairs(padding)] if is_symbolic else [images, rhs]
    return b.op(f"stablehlo.{'dynamic_conv' if is_symbolic else 'convolution'}", operands, out, properties)


def _without_removed(b: Builder, lhs: Value, params: dict[str, Any]) -> tuple[Value | None, Pads]:
    """The images less the elements that negative padding removes, None if it removes all; and the padding that is left.

    XLA:CPU reads what is beyond the end of images whose padding is negative at the start and positive at the end.
    """
    padding, spec = params["padding"], params["dimension_numbers"].lhs_spec
    if any(is_symbolic_dim(pad) for pads in padding for pad in pads) and set(params["lhs_dilation"]) == {1}:
        lows, highs, zero = [0] * lhs.aval.ndim, [0] * lhs.aval.ndim, ShapedArray((), lhs.aval.dtype)
        for axis, (low, high) in zip(spec[2:], padding):
            lows[axis], highs[axis] = low, high
        return b.pad(lhs, b.constant(0, zero), lows, highs, [0] * lhs.aval.ndim), ((0, 0),) * len(padding)
    if lhs.aval.is_symbolic or all(low >= 0 and high >= 0 for low, high in padding):
        return lhs, padding
    starts, limits, left = [0] * lhs.aval.ndim, list(lhs.aval.shape), []
    for axis, pads, step in zip(spec[2:], padding, params["lhs_dilation"]):
        first, last = (-(min(pad, 0) // step) for pad in pads)  # elements, `step` apart, that are removed at the ends
        starts[axis], limits[axis] = first, limits[axis] - last
        left.append((pads[0] + first * step, pads[1] + last * step))
    if any(start >= limit for start, limit in zip(starts, limits)):
        return None, ()
    return b.slice(lhs, starts, limits), tuple(left)


def _numbers_text(lhs: Axes, rhs: Axes, out: Axes) -> str:
    """`#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`."""

    def one(spec: Axes, first: str, second: str) -> str:
        names = [first, second, *map(str, range(len(spec) - 2))]
        return f"[{', '.join(names[spec.index(axis)] for axis in range(len(spec)))}]"

    return f"#stablehlo.conv<{one(lhs, 'b', 'f')}x{one(rhs, 'o', 'i')}->{one(out, 'b', 'f')}>"


# -- As a call of C


def _called(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, params: dict[str, Any]) -> Value | None:
    """By a function in C, where each feature is convolved with a window of its own and C can."""
    call = native_convolution(lhs.aval, rhs.aval, out, params) if native_calls.are_possible(b, lhs.aval) else None
    if call is None:
        return None
    images = _padded(b, b.transpose(lhs, call.image_axes), params["padding"], params["lhs_dilation"])
    kernel = b.reshape(b.transpose(rhs, call.kernel_axes), call.kernel_shape)
    result, _ = native_calls.call(b, native.CONVOLUTION, call.sizes, [images, kernel], call.results)
    spec = params["dimension_numbers"].out_spec
    return _in_order(b, result, (spec[0], *spec[2:], spec[1]))


# -- As a sum over the window


def _is_depthwise(rhs: ShapedArray, params: dict[str, Any]) -> bool:
    _, into, *space = params["dimension_numbers"].rhs_spec
    return (
        rhs.shape[into] == 1
        and params["batch_group_count"] == 1
        and math.prod(rhs.shape[a] for a in space) <= SMALL_WINDOW
    )


def _lower_depthwise(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, params: dict[str, Any]) -> Value:
    """For each element of the window, the images from there on, times that element of each feature's kernel.

    The result is made with axes (batch, space ..., group, member) and then put in order.
    """
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    groups, strides, dilation = params["feature_group_count"], params["window_strides"], params["rhs_dilation"]
    members = rhs.aval.shape[rhs_spec[0]] // groups
    images = b.transpose(lhs, (lhs_spec[0], *lhs_spec[2:], lhs_spec[1]))
    images = b.fusion_barrier(_padded(b, images, params["padding"], params["lhs_dilation"]))
    window = [rhs.aval.shape[a] for a in rhs_spec[2:]]
    kernel = b.fusion_barrier(
        b.reshape(b.transpose(rhs, (*rhs_spec[2:], rhs_spec[1], rhs_spec[0])), (*window, groups, members))
    )
    sizes = [out.shape[a] for a in out_spec[2:]]
    total = None
    batch = images.aval.shape[0]
    summed = ShapedArray((batch, *sizes, groups, members), out.dtype)
    rank = len(sizes)
    for offset in np.ndindex(*window):
        starts = [k * d for k, d in zip(offset, dilation)]
        limits = [start + (n - 1) * step + 1 for start, n, step in zip(starts, sizes, strides)]
        moved = b.slice(images, [0, *starts, 0], [batch, *limits, groups], [1, *strides, 1])
        moved = b.broadcast(moved, summed.shape, range(rank + 2))
        element = b.slice(kernel, [*offset, 0, 0], [*(k + 1 for k in offset), groups, members])
        element = b.broadcast(b.reshape(element, (groups, members)), summed.shape, (rank + 1, rank + 2))
        term = b.op("stablehlo.multiply", [moved, element], summed)
        total = term if total is None else b.op("stablehlo.add", [total, term], summed)
    assert total is not None  # a window has at least one element
    merged = b.reshape(total, (*summed.shape[:-2], groups * members))
    spec = (out_spec[0], *out_spec[2:], out_spec[1])
    return _in_order(b, merged, spec)


def _in_order(b: Builder, x: Value, axes: Axes) -> Value:
    """`x` with its axes sorted by `axes`."""
    return x if list(axes) == sorted(axes) else b.transpose(x, np.argsort(axes).tolist())


def _padded(b: Builder, images: Value, padding: Pads, dilation: Axes) -> Value:
    """Images (batch, space ..., features), padded and dilated."""
    if not any(map(any, padding)) and set(dilation) <= {1}:
        return images
    low, high = zip(*padding)
    zero = b.constant(0, ShapedArray((), images.aval.dtype))
    return b.pad(images, zero, [0, *low, 0], [0, *high, 0], [0, *(d - 1 for d in dilation), 0])


# -- As a contraction


def _is_contraction(lhs: ShapedArray, rhs: ShapedArray, params: dict[str, Any]) -> bool:
    """Whether along each axis the window is the whole image, or one position and the stride 1."""
    lhs_spec, rhs_spec, _ = params["dimension_numbers"]
    if params["feature_group_count"] * params["batch_group_count"] > 1 or any(map(any, params["padding"])):
        return False
    if not {1}.issuperset(params["lhs_dilation"] + params["rhs_dilation"]):
        return False
    sizes = [(lhs.shape[i], rhs.shape[k]) for i, k in zip(lhs_spec[2:], rhs_spec[2:])]
    return all(n == k or (k == 1 and s == 1) for (n, k), s in zip(sizes, params["window_strides"]))


def _lower_contraction(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, params: dict[str, Any]) -> Value:
    """Features in and whole axes are contracted; axes of size 1 are dropped before and put back after."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    pairs = list(zip(lhs_spec[2:], rhs_spec[2:]))
    whole = [(i, k) for i, k in pairs if lhs.aval.shape[i] == rhs.aval.shape[k]]
    kernel_axes = [k for k in range(rhs.aval.ndim) if k in rhs_spec[:2] or k in [w for _, w in whole]]
    kernel = b.reshape(rhs, [rhs.aval.shape[k] for k in kernel_axes])
    contracted = (lhs_spec[1], *(i for i, _ in whole))
    numbers = ((contracted, tuple(kernel_axes.index(k) for k in (rhs_spec[1], *(k for _, k in whole)))), ((), ()))
    free = free_axes(lhs.aval.ndim, contracted, ())
    product = out.update(shape=(*(lhs.aval.shape[a] for a in free), rhs.aval.shape[rhs_spec[0]]))
    precision = params["precision"]
    (result,) = lower_dot_general(
        b, [lhs, kernel], [product], dimension_numbers=numbers, precision=precision, preferred_element_type=None
    )
    positions = dict(zip(lhs_spec, out_spec))
    return b.reshape(_in_order(b, result, (*(positions[a] for a in free), out_spec[1])), out.shape)


# -- As one convolution for each group


def _lower_groups(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, params: dict[str, Any]) -> Value:
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    groups = params["feature_group_count"] * params["batch_group_count"]
    grouped = lhs_spec[1] if params["batch_group_count"] == 1 else lhs_spec[0]
    alone = params | {"feature_group_count": 1, "batch_group_count": 1}
    part = out.update(shape=tuple(n // groups if a == out_spec[1] else n for a, n in enumerate(out.shape)))
    parts = []
    for g in range(groups):
        images, kernel = _group(b, lhs, grouped, g, groups), _group(b, rhs, rhs_spec[0], g, groups)
        parts.append(_lower_real(b, images, kernel, part, alone))
    return b.op("stablehlo.concatenate", parts, out, f"dimension = {out_spec[1]} : i64")


def _group(b: Builder, x: Value, axis: int, index: int, groups: int) -> Value:
    size = x.aval.shape[axis] // groups
    starts, limits = [0] * x.aval.ndim, list(x.aval.shape)
    starts[axis], limits[axis] = index * size, (index + 1) * size
    return b.slice(x, starts, limits)
