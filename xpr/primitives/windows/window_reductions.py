"""Reductions over sliding windows: sums, maxima, minima; and their derivatives.

Five parameters define the windows, each with an element for every axis: the windows' sizes (`window_dimensions`), how
far they move (`window_strides`), the `padding` around the operand, and how far apart the elements of the operand
(`base_dilation`) and of the window (`window_dilation`) are. Between and around elements is the neutral value.

The maximum of a window has the tangent of the first element that attains it: `select_and_gather_add` takes it from
there, and its transpose `select_and_scatter_add` adds a cotangent there. Both are linear in their first operand and
piecewise constant in the second, the array that is chosen from; so each is the other's derivative, to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dtypes import BOOL, INEXACT, NUMBERS, REAL, greatest, least, short_name
from xpr.primitives.elementwise import ge_p, le_p
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.flops import per_window
from xpr.primitives.shapes import broadcast_in_dim, linear_jvp, mapped_to, reshape
from xpr.primitives.sharding_rules import resizing
from xpr.primitives.slicing import pad, pad_p
from xpr.primitives.windows.sizes import canonical_pads, canonical_steps, dilated
from xpr.primitives.windows.window_reductions_lowering import (
    WINDOW,
    Window,
    lower_gather,
    lower_reduce_window,
    lower_scatter,
    offsets,
    windowed_shape,
)

__all__ = [
    "reduce_window_max_p", "reduce_window_min_p", "reduce_window_shape_tuple", "reduce_window_sum_p",
    "select_and_gather_add_p", "select_and_scatter_add_p",
]  # fmt: skip

# -- What the family shares


def _check_window(name: str, aval: ShapedArray, over: frozenset[np.dtype], window: Window) -> None:
    if aval.dtype not in over:
        allowed = ", ".join(sorted(map(short_name, over)))
        raise TypeError(f"{name}: takes {allowed}, and got {aval.str_short()}.")
    if any(len(values) != aval.ndim for values in window.values()):
        raise TypeError(
            f"{name}: each window parameter needs an element for each of the {aval.ndim} axes of {aval.str_short()}; "
            f"they are {window}."
        )


def _window_values(x: np.ndarray, fill: Any, window: Window) -> Iterator[np.ndarray]:
    """For each offset in a window, the values of all windows there."""
    config = tuple((low, high, d - 1) for (low, high), d in zip(window["padding"], window["base_dilation"]))
    whole = pad_p.reference([x, np.asarray(fill, x.dtype)], padding_config=config)[0]
    counts = windowed_shape(x.shape, window)
    for starts in offsets(window):
        yield whole[_strided(starts, counts, window["window_strides"])]


def _strided(starts: Sequence[int], counts: Sequence[int], strides: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(a, a + (n - 1) * s + 1 if n else a, s) for a, n, s in zip(starts, counts, strides))


def with_mapped_axis(window: Window, dim: int) -> Window:
    """The same windows of an array with one more axis, each within one row."""
    neutral = {"padding": (0, 0)}
    return {name: (*v[:dim], neutral.get(name, 1), *v[dim:]) for name, v in window.items()}


# -- Sums, maxima, minima


def window_reduction(
    name: str,
    *,
    over: frozenset[np.dtype],
    lowers_to: str,
    start: Callable[[np.dtype], Any],
    ufunc: np.ufunc,
    transpose: Any,
    exact: bool,
) -> Primitive:
    """A reduction over windows by an operation of StableHLO, whose neutral value in each dtype is `start(dtype)`."""

    def abstract(avals: Sequence[ShapedArray], **window: Any) -> list[ShapedArray]:
        _check_window(name, avals[0], over, window)
        return [avals[0].update(shape=windowed_shape(avals[0].shape, window))]

    def reference(values: Sequence[Any], **window: Any) -> list[Any]:
        x = np.asarray(values[0])
        parts = _window_values(x, start(x.dtype), window)
        total = next(parts).copy()
        for part in parts:
            total = ufunc(total, part)
        return [total.astype(x.dtype)]

    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **window: Any) -> list[Value]:
        first = np.asarray(start(avals[0].dtype), avals[0].dtype)[()]
        return [lower_reduce_window(b, operands[0], avals[0], lowers_to, first, window)]

    def batch(size: int, values: Sequence[Any], dims: Sequence[int], **window: Any) -> Any:
        return [primitive.bind(values[0], **with_mapped_axis(window, dims[0]))], [dims[0]]

    primitive = register(
        Primitive(
            name,
            abstract=abstract,
            params=WINDOW,
            sharding=resizing,
            reference=reference,
            lower=lower,
            jvp=Unsupported("it is set below"),
            transpose=transpose,
            batch=batch,
            exact=exact,
            flops=per_window,
        )
    )
    return primitive


def _tiles(counts: Sequence[int], window: Window) -> bool:
    """Whether windows don't overlap, so that an element is in one of them at most."""
    sizes, strides = window["window_dimensions"], window["window_strides"]
    undilated = {*window["base_dilation"], *window["window_dilation"]} <= {1}
    return undilated and all(n == 1 or w == s for n, w, s in zip(counts, sizes, strides))


def _repeat(ct: Any, aval: ShapedArray, window: Window) -> Any:
    """Each element of the cotangent all over its window, without the padding."""
    sizes = window["window_dimensions"]
    counts = aval_of(ct).shape
    tiles = [n for pair in zip(counts, sizes) for n in pair]
    tiled = reshape(broadcast_in_dim(ct, tiles, range(0, len(tiles), 2)), [n * w for n, w in zip(counts, sizes)])
    config = [
        (-low, n + low - count * w, 0) for n, count, w, (low, _) in zip(aval.shape, counts, sizes, window["padding"])
    ]
    return pad(tiled, np.zeros((), aval.dtype)[()], config) if any(map(any, config)) else tiled


def _sum_transpose(cts: Sequence[Any], operands: Sequence[Any], **window: Any) -> list[Any]:
    """An element's cotangent is the sum over the windows that contain it: a windowed sum of the dilated cotangent."""
    (ct,), (x,) = cts, operands
    counts = aval_of(ct).shape
    if 0 in (aval_of(ct).size, x.aval.size):
        return [Zero(x.aval)]
    if _tiles(counts, window):
        return [_repeat(ct, x.aval, window)]
    pads = []
    for i, (n, t) in enumerate(zip(x.aval.shape, counts)):
        reach = dilated(window["window_dimensions"][i], window["window_dilation"][i]) - 1
        low = window["padding"][i][0]
        spans = dilated(n, window["base_dilation"][i]) - dilated(t, window["window_strides"][i])
        pads.append((reach - low, spans + low))
    back = {
        "window_dimensions": window["window_dimensions"],
        "window_strides": window["base_dilation"],
        "padding": tuple(pads),
        "base_dilation": window["window_strides"],
        "window_dilation": window["window_dilation"],
    }
    return [reduce_window_sum_p.bind(ct, **back)]


reduce_window_sum_p = window_reduction(
    "reduce_window_sum", over=NUMBERS, lowers_to="stablehlo.add", start=lambda dtype: 0, ufunc=np.add,
    transpose=_sum_transpose, exact=False,
)  # fmt: skip
reduce_window_sum_p.jvp = linear_jvp(reduce_window_sum_p)

reduce_window_max_p = window_reduction(
    "reduce_window_max", over=REAL | BOOL, lowers_to="stablehlo.maximum", start=least, ufunc=np.maximum,
    transpose=Unsupported(NOT_LINEAR), exact=True,
)  # fmt: skip

reduce_window_min_p = window_reduction(
    "reduce_window_min", over=REAL | BOOL, lowers_to="stablehlo.minimum", start=greatest, ufunc=np.minimum,
    transpose=Unsupported(NOT_LINEAR), exact=True,
)  # fmt: skip


def _extreme_jvp(primitive: Primitive, select_prim: Primitive) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **window: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = primitive.bind(x, **window)
        if type(t) is Zero:
            return [out], [Zero.from_primal_value(out)]
        return [out], [select_and_gather_add_p.bind(t, x, select_prim=select_prim, **window)]

    return jvp


reduce_window_max_p.jvp = _extreme_jvp(reduce_window_max_p, ge_p)
reduce_window_min_p.jvp = _extreme_jvp(reduce_window_min_p, le_p)

# -- The element chosen in each window: the first that is >= (select_prim `ge`) or <= all others


def _choice(select_prim: Primitive, dtype: np.dtype) -> tuple[str, Any, Any]:
    """The comparison in StableHLO, the value that is never chosen, and the comparison in NumPy."""
    most = least if select_prim is ge_p else greatest
    worst = np.asarray(most(dtype), dtype)[()]
    return ("GE", worst, np.greater_equal) if select_prim is ge_p else ("LE", worst, np.less_equal)


def _chosen_offsets(x: np.ndarray, select_prim: Primitive, window: Window) -> np.ndarray:
    """The number of the chosen offset in each window."""
    _, worst, better = _choice(select_prim, x.dtype)
    values = _window_values(x, worst, window)
    best = next(values)
    chosen = np.zeros(best.shape, np.int64)
    for number, value in enumerate(values, 1):
        keep = better(best, value)
        best, chosen = np.where(keep, best, value), np.where(keep, chosen, number)
    return chosen


def _choosing(name: str, **rules: Any) -> Primitive:
    """A primitive that is linear in its first operand and chooses by its second."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (first, x), (t, _) = primals, tangents
        out = primitive.bind(first, x, **params)
        if type(t) is Zero:
            return [out], [Zero.from_primal_value(out)]
        return [out], [primitive.bind(t, x, **params)]

    def batch(size: int, values: Sequence[Any], dims: Sequence[int | None], *, select_prim: Any, **window: Any) -> Any:
        first, x = (mapped_to(v, d, size) for v, d in zip(values, dims))
        return [primitive.bind(first, x, select_prim=select_prim, **with_mapped_axis(window, 0))], [0]

    primitive = register(Primitive(name, jvp=jvp, batch=batch, **rules))
    return primitive


def _gather_abstract(avals: Sequence[ShapedArray], *, select_prim: Primitive, **window: Any) -> list[ShapedArray]:
    tangents, x = avals
    _check_window("select_and_gather_add", x, REAL, window)
    if tangents.shape != x.shape or tangents.dtype not in INEXACT:
        raise TypeError(
            f"select_and_gather_add: the tangents, {tangents.str_short()}, must have the shape of the operand, "
            f"{x.str_short()}, and a floating-point dtype."
        )
    return [tangents.update(shape=windowed_shape(x.shape, window))]


def _gather_reference(values: Sequence[Any], *, select_prim: Primitive, **window: Any) -> list[Any]:
    tangents, x = map(np.asarray, values)
    chosen = _chosen_offsets(x, select_prim, window)
    out = np.zeros(chosen.shape, tangents.dtype)
    for number, part in enumerate(_window_values(tangents, 0, window)):
        out = np.where(chosen == number, part, out)
    return [out]


def _gather_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, select_prim: Primitive, **window: Any
) -> list[Value]:
    tangents, x = operands
    direction, worst, _ = _choice(select_prim, x.aval.dtype)
    return [lower_gather(b, tangents, x, avals[0], direction, worst, window)]


def _gather_transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    return [select_and_scatter_add_p.bind(cts[0], operands[1], **params), None]


select_and_gather_add_p = _choosing(
    "select_and_gather_add",
    abstract=_gather_abstract,
    params=(*WINDOW, "select_prim"),
    reference=_gather_reference,
    lower=_gather_lower,
    transpose=_gather_transpose,
    exact=True,
)


def _scatter_abstract(avals: Sequence[ShapedArray], *, select_prim: Primitive, **window: Any) -> list[ShapedArray]:
    source, x = avals
    _check_window("select_and_scatter_add", x, REAL, window)
    if source.shape != windowed_shape(x.shape, window) or source.dtype not in INEXACT:
        raise TypeError(
            f"select_and_scatter_add: the source, {source.str_short()}, must have an element for each window of the "
            f"operand {x.str_short()}, {windowed_shape(x.shape, window)}, and a floating-point dtype."
        )
    return [source.update(shape=x.shape)]


def _scatter_reference(values: Sequence[Any], *, select_prim: Primitive, **window: Any) -> list[Any]:
    source, x = map(np.asarray, values)
    chosen = _chosen_offsets(x, select_prim, window)
    ends, dilation = window["padding"], window["base_dilation"]
    whole = np.zeros([dilated(n, d) + sum(pads) for n, d, pads in zip(x.shape, dilation, ends)], source.dtype)
    for number, starts in enumerate(offsets(window)):
        whole[_strided(starts, source.shape, window["window_strides"])] += np.where(chosen == number, source, 0)
    back = pad_p.reference([whole, np.zeros((), whole.dtype)], padding_config=[(-low, -high, 0) for low, high in ends])
    return [back[0][tuple(slice(None, None, d) for d in dilation)].astype(source.dtype)]


def _scatter_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, select_prim: Primitive, **window: Any
) -> list[Value]:
    source, x = operands
    direction, worst, _ = _choice(select_prim, x.aval.dtype)
    return [lower_scatter(b, source, x, avals[0], direction, worst, window)]


def _scatter_transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    return [select_and_gather_add_p.bind(cts[0], operands[1], **params), None]


select_and_scatter_add_p = _choosing(
    "select_and_scatter_add",
    abstract=_scatter_abstract,
    params=(*WINDOW, "select_prim"),
    reference=_scatter_reference,
    lower=_scatter_lower,
    transpose=_scatter_transpose,
    exact=False,
)

# -- From what users give


def canonical_window(
    function: str,
    shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
) -> Window:
    """The five parameters, checked and as tuples.

    Raises:
      ValueError: one does not have an element for each axis, or is not positive.
    """
    rank = len(shape)
    sizes = canonical_steps(function, "window_dimensions", window_dimensions, rank)
    strides = canonical_steps(function, "window_strides", window_strides, rank)
    base = canonical_steps(function, "base_dilation", base_dilation, rank)
    dilation = canonical_steps(function, "window_dilation", window_dilation, rank)
    reach = [dilated(w, d) for w, d in zip(sizes, dilation)]
    return {
        "window_dimensions": sizes,
        "window_strides": strides,
        "padding": canonical_pads(function, padding, shape, reach, strides),
        "base_dilation": base,
        "window_dilation": dilation,
    }


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of the result of `reduce_window`.

    Args:
      operand_shape: the shape of the operand.
      window_dimensions: the sizes of the window.
      window_strides: the steps of the window.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each axis.
      base_dilation: the distance of the operand's elements along each axis; None for 1.
      window_dilation: the distance of the window's elements along each axis; None for 1.

    Returns:
      A tuple of sizes.

    >>> from xpr import lax
    >>> lax.reduce_window_shape_tuple((5, 6), (2, 3), (1, 3), "VALID")
    (4, 2)
    """
    window = canonical_window(
        "reduce_window", operand_shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    return windowed_shape(tuple(operand_shape), window)
