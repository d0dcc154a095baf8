"""reduce_window: any reduction over sliding windows.

Sums, maxima and minima, nearly all uses, have primitives (primitives/windows/window_reductions.py). They are recognized
by the jaxpr of the user's function for two scalars. Any other function is applied to shifted slices of the whole
arrays, one after another, as `vmap` would; so all transformations apply to it, and the program grows with the size of
the window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.control.groups import split_list
from xpr.control.reduce import operation_on_two, start_of
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.primitive import Primitive
from xpr.core.source import describe_function
from xpr.dtypes import greatest, least
from xpr.primitives.elementwise import add, add_p, and_p, max, max_p, min, min_p, or_p
from xpr.primitives.shapes import mapped_to, reshape
from xpr.primitives.slicing import pad, slice_
from xpr.primitives.windows.window_reductions import (
    canonical_window,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
)
from xpr.primitives.windows.window_reductions_lowering import Window, offsets, windowed_shape
from xpr.transforms.batch import batch_flat
from xpr.transforms.boundary import boundary

__all__ = ["reduce_window"]


@boundary
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduces the elements of every window that slides over an array; pooling, in neural networks.

    Args:
      operand: an array, or a pytree of arrays of one shape that are reduced together.
      init_value: a scalar (for each array) that is neutral, as 0 for sums; padding holds it.
      computation: an associative function of two scalars (or pytrees of them).
      window_dimensions: the size of the window along each axis.
      window_strides: the step of the window along each axis; None for 1.
      padding: "VALID", "SAME", "SAME_LOWER", or (low, high) for each axis. "SAME" counts elements before dilation.
      base_dilation: the distance of the operand's elements along each axis; None for 1.
      window_dilation: the distance of the window's elements along each axis; None for 1.

    Returns:
      An array, or a pytree of arrays, with an element for each window.

    Raises:
      TypeError: dtypes don't match.
      ValueError: a window parameter is not well formed.

    >>> from xpr import lax, numpy as jnp
    >>> lax.reduce_window(jnp.array([1., 3., 2., 5.]), -jnp.inf, lax.max, (2,), (2,))
    Array([3., 5.], dtype=float32)
    """
    operands, structure = tree.flatten(operand)
    starts = tree.flatten(init_value)[0]
    if not operands or len(starts) != len(operands) or len({aval_of(x).shape for x in operands}) != 1:
        types = ", ".join(aval_of(x).str_short() for x in operands)
        raise TypeError(
            f"reduce_window: takes arrays of one shape and an initial value for each; it was given ({types}) and "
            f"{len(starts)} initial values."
        )
    window = canonical_window(
        "reduce_window", aval_of(operands[0]).shape, window_dimensions, window_strides, padding, base_dilation,
        window_dilation,
    )  # fmt: skip
    starts = [start_of("reduce_window", start, aval_of(x)) for start, x in zip(starts, operands)]
    if len(operands) == 1:
        monoid = _monoid(computation, aval_of(operands[0]), structure)
        if monoid is not None:
            return tree.unflatten(structure, [_reduce_by(monoid, operands[0], starts[0], window)])
    return tree.unflatten(structure, _fold(operands, starts, _flat(computation, structure), window))


# -- Sums, maxima, minima

_MONOIDS: dict[Primitive, tuple[Primitive, Callable[..., Any], Callable[[np.dtype], Any]]] = {
    add_p: (reduce_window_sum_p, add, lambda dtype: 0),
    max_p: (reduce_window_max_p, max, least),
    min_p: (reduce_window_min_p, min, greatest),
}
_LOGICAL = {or_p: max_p, and_p: min_p}  # the same reductions of booleans
_FUNCTIONS = {add: add_p, max: max_p, min: min_p}


def _monoid(computation: Callable[..., Any], aval: ShapedArray, structure: Any) -> Any:
    """The element of `_MONOIDS` for a function that is one of these operations on two scalars, or None."""
    operation = _FUNCTIONS.get(computation) or operation_on_two(_flat(computation, structure), aval.dtype)
    if operation is None:
        return None
    if aval.dtype == dtypes.bool_:
        operation = _LOGICAL.get(operation, operation)
    if (operation is add_p and aval.dtype == dtypes.bool_) or (operation is not add_p and aval.dtype in dtypes.COMPLEX):
        return None
    return _MONOIDS.get(operation)


def _reduce_by(monoid: Any, x: Any, start: Any, window: Window) -> Any:
    """Reduces with a primitive; an initial value that is not neutral enters once, at the end."""
    primitive, join, neutral = monoid
    out = primitive.bind(x, **window)
    known = isinstance(start, (np.generic, np.ndarray))
    return out if known and start == neutral(start.dtype) else join(start, out)


# -- Any other function


def _flat(computation: Callable[..., Any], structure: Any) -> Callable[..., list[Any]]:
    """The function on flat lists of scalars."""

    def flat(*scalars: Any) -> list[Any]:
        halves = split_list(scalars, len(scalars) // 2)
        left, right = (tree.unflatten_sorted(structure, half) for half in halves)
        out, out_tree = tree.flatten(computation(left, right))
        what = (
            "reduce_window output must have the same tree structure as the operands; that of "
            f"{describe_function(computation)} differs"
        )
        tree.check_same_structure(structure, out_tree, what)
        if any(aval_of(x).str_short() != aval_of(y).str_short() for x, y in zip(out, scalars)):
            actual, expected = (", ".join(aval_of(x).str_short() for x in part) for part in (out, halves[0]))
            raise TypeError(
                f"reduce_window: {describe_function(computation)} must return what it takes, scalars of type "
                f"({expected}); it returned ({actual})."
            )
        return out

    return flat


def _fold(operands: Sequence[Any], starts: Sequence[Any], step: Callable[..., Any], window: Window) -> list[Any]:
    """Applies the function to the windows' elements at one position after another."""
    counts = windowed_shape(aval_of(operands[0]).shape, window)
    config = [(low, high, d - 1) for (low, high), d in zip(window["padding"], window["base_dilation"])]
    padded = [pad(x, start, config) for x, start in zip(operands, starts)]
    size = math.prod(counts)
    totals = list(starts)
    dims: list[int | None] = [None] * len(totals)
    for offset in offsets(window):
        limits = [a + (n - 1) * s + 1 if n else a for a, n, s in zip(offset, counts, window["window_strides"])]
        values = [reshape(slice_(x, offset, limits, window["window_strides"]), (size,)) for x in padded]
        totals, dims = batch_flat(step, size, [*totals, *values], [*dims, *(0 for _ in values)])
    return [reshape(mapped_to(total, dim, size), counts) for total, dim in zip(totals, dims)]
