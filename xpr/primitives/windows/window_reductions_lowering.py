"""Lowering of reductions over sliding windows to StableHLO.

XLA:CPU walks every window element by element. Shifted slices of the whole array, joined one after the other, are the
same function and run as vectorized loops (f32, 2 cores; before -> after):

* maximum of 32x28x28x32 over 3x3: 3.5 -> 0.9 ms; its gradient, which scatters: 20 -> 1.2 ms;
* larger windows that overlap are slid along one axis after the other, and along an axis in doubling steps: the maximum
  of 8x64x64x8 over 8x8: 41 -> 0.4 ms.

Elsewhere than on CPU, and for large windows that don't overlap, it is StableHLO's `reduce_window`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.mlir_text import int_array, int_matrix
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.primitives.comparison_lowering import lower_comparison
from xpr.primitives.windows.sizes import count_windows

FEW = 16  # so many slices are joined directly
MANY = 64  # so many choices are made by comparing slices

Window = dict[str, Any]  # the five parameters that define windows: see window_reductions.py
WINDOW = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")


def along_axis(window: Window, axis: int) -> Window:
    """The part of a window that slides along one axis; along the others it is one element."""
    neutral = {"padding": (0, 0)}
    return {
        name: tuple(v if i == axis else neutral.get(name, 1) for i, v in enumerate(values))
        for name, values in window.items()
    }


def windowed_shape(shape: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """How many windows there are along each axis."""
    return tuple(
        count_windows(n, w, s, pads, d, r)
        for n, w, s, pads, d, r in zip(
            shape, window["window_dimensions"], window["window_strides"], window["padding"],
            window["base_dilation"], window["window_dilation"],
        )
    )  # fmt: skip


def is_symbolic(window: Window) -> bool:
    """Whether one of the parameters is a symbolic dimension."""
    sizes = [n for name, values in window.items() if name != "padding" for n in values]
    return any(map(is_symbolic_dim, (*sizes, *(n for pair in window["padding"] for n in pair))))


# -- Reductions


def lower_reduce_window(b: Builder, x: Value, out: ShapedArray, operation: str, start: Any, window: Window) -> Value:
    """Joins the elements of every window by a StableHLO operation, whose neutral value is `start`."""
    sums_short = operation == "stablehlo.add" and out.dtype in dtypes.FLOATS and out.dtype.itemsize < 4
    if b.platform != "cpu" or not out.size or sums_short or x.aval.is_symbolic or is_symbolic(window):
        return _lower_native(b, [x], [start], [out], window, _joining(operation, out.dtype))[0]
    sizes = window["window_dimensions"]
    if math.prod(sizes) > FEW and not _overlaps(out.shape, window):
        return _lower_native(b, [x], [start], [out], window, _joining(operation, out.dtype))[0]
    x = b.fusion_barrier(padded(b, x, start, window))
    window = window | {"padding": ((0, 0),) * out.ndim, "base_dilation": (1,) * out.ndim}
    if math.prod(sizes) <= FEW:
        return _join(b, list(window_slices(b, x, out.shape, window)), operation)
    for axis in range(out.ndim):
        if sizes[axis] > 1 or window["window_strides"][axis] > 1:
            x = _slide(b, x, axis, along_axis(window, axis), operation)
    return x


def _overlaps(counts: tuple[int, ...], window: Window) -> bool:
    sizes, strides = window["window_dimensions"], window["window_strides"]
    return any(n > 1 and w > s for n, w, s in zip(counts, sizes, strides))


def _join(b: Builder, values: list[Value], operation: str) -> Value:
    total = values[0]
    for value in values[1:]:
        total = b.op(operation, [total, value], total.aval)
    return total


def _slide(b: Builder, x: Value, axis: int, window: Window, operation: str) -> Value:
    """Slides along one axis. A long window is joined from windows of 1, 2, 4, ... elements, by its binary digits."""
    shape = windowed_shape(x.aval.shape, window)
    size, step = window["window_dimensions"][axis], window["window_dilation"][axis]
    if size <= FEW:
        return b.fusion_barrier(_join(b, list(window_slices(b, x, shape, window)), operation))
    stride = window["window_strides"][axis]
    power, width, offset = x, 1, 0
    parts = []
    while width <= size:
        if size & width:
            parts.append(_part(b, power, axis, offset * step, shape[axis], stride))
            offset += width
        if 2 * width <= size:
            longer = power.aval.shape[axis] - width * step
            halves = [_part(b, power, axis, start, longer) for start in (0, width * step)]
            power = b.fusion_barrier(_join(b, halves, operation))
        width *= 2
    return b.fusion_barrier(_join(b, parts, operation))


def _part(b: Builder, x: Value, axis: int, start: int, count: int, stride: int = 1) -> Value:
    """`count` elements along an axis, `stride` apart."""
    starts, counts, strides = [0] * x.aval.ndim, list(x.aval.shape), [1] * x.aval.ndim
    starts[axis], counts[axis], strides[axis] = start, count, stride
    return _slice(b, x, starts, counts, strides)


def _slice(b: Builder, x: Value, starts: list[int], counts: list[int], strides: list[int]) -> Value:
    limits = [start + (n - 1) * step + 1 if n else start for start, n, step in zip(starts, counts, strides)]
    return b.slice(x, starts, limits, strides)


def _all_one(values: tuple[int, ...]) -> bool:
    return all(v == 1 for v in values)


def padded(b: Builder, x: Value, fill: Any, window: Window) -> Value:
    """The operand with the window's padding and base dilation."""
    pads, dilation = window["padding"], window["base_dilation"]
    if not any(map(any, pads)) and _all_one(dilation):
        return x
    return pad(b, x, fill, [low for low, _ in pads], [high for _, high in pads], [d - 1 for d in dilation])


def pad(b: Builder, x: Value, fill: Any, low: list[int], high: list[int], interior: list[int]) -> Value:
    return b.pad(x, b.constant(fill, ShapedArray((), x.aval.dtype)), low, high, interior)


def offsets(window: Window) -> Iterator[list[int]]:
    """The offsets of a window's elements from its start, in order."""
    for index in np.ndindex(*window["window_dimensions"]):
        yield [k * d for k, d in zip(index, window["window_dilation"])]


def window_slices(b: Builder, x: Value, counts: tuple[int, ...], window: Window) -> Iterator[Value]:
    """For each offset in a window, the values of all windows there."""
    for starts in offsets(window):
        yield _slice(b, x, starts, list(counts), list(window["window_strides"]))


# -- Choosing an element of each window


def lower_gather(
    b: Builder, tangents: Value, x: Value, out: ShapedArray, direction: str, worst: Any, window: Window
) -> Value:
    """The tangent at the first element of each window that compares with all others as `direction` says."""
    if not out.size:
        return b.constant(0, out)
    if is_symbolic(window) or math.prod(window["window_dimensions"]) > MANY:
        types = [out.update(dtype=x.aval.dtype), out]
        return _lower_native(b, [x, tangents], [worst, 0], types, window, _keeping_better(direction, types))[1]
    x, tangents = b.fusion_barrier(padded(b, x, worst, window)), b.fusion_barrier(padded(b, tangents, 0, window))
    slices = zip(window_slices(b, x, out.shape, window), window_slices(b, tangents, out.shape, window))
    best, best_tangent = next(slices)
    for value, tangent in slices:
        keep = lower_comparison(b, best, value, direction)
        best = b.op("stablehlo.select", [keep, best, value], best.aval)
        best_tangent = b.op("stablehlo.select", [keep, best_tangent, tangent], best_tangent.aval)
    return best_tangent


def lower_scatter(
    b: Builder, source: Value, x: Value, out: ShapedArray, direction: str, worst: Any, window: Window
) -> Value:
    """The transpose of `lower_gather`: each element of the source is added where its window's choice is."""
    plain = _all_one(window["base_dilation"]) and _all_one(window["window_dilation"])
    small = math.prod(map(int, window["window_dimensions"])) <= MANY
    if not source.aval.size:
        return b.constant(0, out)
    if plain and (b.platform != "cpu" or not small):
        return _lower_select_and_scatter(b, source, x, out, direction, worst, window)
    padded_x = b.fusion_barrier(padded(b, x, worst, window))
    chosen = b.fusion_barrier(_chosen(b, padded_x, source.aval, direction, window))
    zero = b.constant(0, source.aval)
    direct = _all_one(window["base_dilation"])
    lows = [low if direct else 0 for low, _ in window["padding"]]
    shape = out.shape if direct else padded_x.aval.shape
    total = None
    for number, starts in enumerate(offsets(window)):
        is_chosen = lower_comparison(b, chosen, b.constant(number, chosen.aval), "EQ")
        share = b.op("stablehlo.select", [is_chosen, source, zero], source.aval)
        share = _scattered(b, share, [start - low for start, low in zip(starts, lows)], shape, window["window_strides"])
        total = share if total is None else b.op("stablehlo.add", [total, share], share.aval)
    assert total is not None  # a window has at least one element
    return total if direct else _without_padding_and_dilation(b, total, out, window)


def _chosen(b: Builder, x: Value, counts: ShapedArray, direction: str, window: Window) -> Value:
    """The number of the chosen offset in each window."""
    slices = window_slices(b, x, counts.shape, window)
    best = next(slices)
    chosen = b.constant(0, counts.update(dtype=dtypes.int32))
    for number, value in enumerate(slices, 1):
        keep = lower_comparison(b, best, value, direction)
        best = b.op("stablehlo.select", [keep, best, value], best.aval)
        chosen = b.op("stablehlo.select", [keep, chosen, b.constant(number, chosen.aval)], chosen.aval)
    return chosen


def _scattered(b: Builder, share: Value, starts: list[int], shape: tuple[int, ...], strides: tuple[int, ...]) -> Value:
    """Elements in zeros of the given shape, `strides` apart from `starts` on; those outside are dropped."""
    spans = [(n - 1) * s + 1 for n, s in zip(share.aval.shape, strides)]
    high = [n - start - span for n, start, span in zip(shape, starts, spans)]
    return pad(b, share, 0, starts, high, [s - 1 for s in strides])


def _without_padding_and_dilation(b: Builder, total: Value, out: ShapedArray, window: Window) -> Value:
    """The elements of the operand itself, without those that padding and base dilation put around and between."""
    if total.aval.shape == out.shape:
        return total
    low, high = ([-n for n in ends] for ends in zip(*window["padding"]))
    inner = pad(b, total, 0, low, high, [0] * out.ndim)
    return _slice(b, inner, [0] * out.ndim, list(out.shape), list(window["base_dilation"]))


# -- StableHLO's operations


def _joining(operation: str, dtype: np.dtype) -> Any:
    scalar = ShapedArray((), dtype)
    return lambda b, values: [b.op(operation, values, scalar)]


def _keeping_better(direction: str, types: list[ShapedArray]) -> Any:
    scalars = [ShapedArray((), t.dtype) for t in types]

    def body(b: Builder, values: list[Value]) -> list[Value]:
        best, best_tangent, value, tangent = values
        keep = lower_comparison(b, best, value, direction)
        pairs = zip(((best, value), (best_tangent, tangent)), scalars)
        return [b.op("stablehlo.select", [keep, *pair], scalar) for pair, scalar in pairs]

    return body


def _lower_native(
    b: Builder, xs: list[Value], starts: list[Any], outs: list[ShapedArray], window: Window, body: Any
) -> list[Value]:
    scalars = [ShapedArray((), x.aval.dtype) for x in xs]
    first = [b.constant(start, scalar) for start, scalar in zip(starts, scalars)]
    if is_symbolic(window):
        reducer = b.module.function("reducer", [*scalars, *scalars], body, takes_dimensions=False)
        return b.ops(
            "stablehlo.custom_call",
            [*xs, *first, *_parameters(b, window)],
            outs,
            'call_target_name = "stablehlo.dynamic_reduce_window", api_version = 2 : i32, '
            f"called_computations = [@{reducer}]",
        )
    properties = (
        f"window_dimensions = {int_array(window['window_dimensions'])}, "
        f"window_strides = {int_array(window['window_strides'])}, "
        f"base_dilations = {int_array(window['base_dilation'])}, "
        f"window_dilations = {int_array(window['window_dilation'])}, padding = {int_matrix(window['padding'])}"
    )
    return b.ops("stablehlo.reduce_window", [*xs, *first], outs, properties, [b.region([*scalars, *scalars], body)])


def _parameters(b: Builder, window: Window) -> list[Value]:
    """The parameters as operands of dynamic_reduce_window, which becomes reduce_window once shapes are known."""
    names = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    return [*(b.shape(window[name]) for name in names), b.pairs(window["padding"])]


def _lower_select_and_scatter(
    b: Builder, source: Value, x: Value, out: ShapedArray, direction: str, worst: Any, window: Window
) -> Value:
    """StableHLO's select_and_scatter, of an operand padded with the value that is never chosen; without dilation."""
    scalar, key = ShapedArray((), out.dtype), ShapedArray((), x.aval.dtype)
    padded_x = padded(b, x, worst, window)
    properties = (
        f"window_dimensions = {int_array(window['window_dimensions'])}, "
        f"window_strides = {int_array(window['window_strides'])}, padding = {int_matrix([(0, 0)] * out.ndim)}"
    )
    regions = [
        b.region([key, key], lambda inner, values: [lower_comparison(inner, values[0], values[1], direction)]),
        b.region([scalar, scalar], lambda inner, values: [inner.op("stablehlo.add", values, scalar)]),
    ]
    whole = out.update(shape=padded_x.aval.shape)
    scattered = b.op(
        "stablehlo.select_and_scatter", [padded_x, source, b.constant(0, scalar)], whole, properties, regions
    )
    return _without_padding_and_dilation(b, scattered, out, window)
