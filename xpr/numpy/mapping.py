"""Functions of vectors applied along an axis of an array: mapped over all the other axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.core.avals import aval_of
from xpr.numpy.axes import one_axis
from xpr.numpy.shaping import expand_dims
from xpr.numpy.ufuncs import asarray_like
from xpr.primitives.shapes import mapped_to, move_axis
from xpr.transforms.batch import batch_flat


def map_rows(function: Callable[[Any], Any], x: Any, depth: int) -> Any:
    """`function`, which gives a pytree of arrays, mapped over the first `depth` axes, which lead the results too."""
    if not depth:
        return function(x)
    size = aval_of(x).shape[0]
    structure = None

    def row(x: Any) -> list[Any]:
        nonlocal structure
        leaves, structure = tree.flatten(map_rows(function, x, depth - 1))
        return leaves

    outs, dims = batch_flat(row, size, [x], [0])
    return tree.unflatten(structure, [mapped_to(out, dim, size) for out, dim in zip(outs, dims)])  # type: ignore[arg-type]


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of vectors applied to every vector along an axis, which becomes the axes of the function's result.

    >>> import xpr.numpy as jnp
    >>> jnp.apply_along_axis(lambda v: v - v[0], 1, jnp.array([[1, 2], [5, 7]]))
    Array([[0, 1],
           [0, 2]], dtype=int32)
    """
    arr = asarray_like(arr)
    ndim = arr.aval.ndim
    axis = one_axis(axis, ndim)
    result = map_rows(lambda v: func1d(v, *args, **kwargs), move_axis(arr, axis, ndim - 1), ndim - 1)

    def placed_back(out: Any) -> Any:
        for i in range(aval_of(out).ndim - ndim + 1):
            out = move_axis(out, ndim - 1 + i, axis + i)
        return out

    return tree.map(placed_back, result)


def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Sequence[int]) -> Any:
    """`func(a, axis)` for one axis after the other; an axis that a result has lost comes back with size 1.

    >>> import xpr.numpy as jnp
    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), (0, 1))
    Array([[6.]], dtype=float32)
    """
    a = asarray_like(a)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        result = func(a, axis)
        a = expand_dims(result, axis) if result.ndim == a.ndim - 1 else result
        if a.ndim != result.ndim and a.ndim != result.ndim + 1:
            raise ValueError(f"apply_over_axes: the function gave {result.ndim} axes for an array of {a.ndim}.")
    return a
