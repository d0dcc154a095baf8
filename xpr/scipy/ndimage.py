"""Images of any number of dimensions."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly

__all__ = ["map_coordinates"]


def _mirrored(index: Any, size: int) -> Any:
    """Reflection about the middles of the first and the last element: a triangular wave of period 2 (size - 1)."""
    last = max(size - 1, 1)
    return jnp.minimum(jnp.abs((index + last) % (2 * last) - last), size - 1)


def _reflected(index: Any, size: int) -> Any:
    """Reflection about the edges: a triangular wave of period 2 size."""
    within = index % (2 * size)
    return jnp.minimum(within, 2 * size - 1 - within)


_BEYOND: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: jnp.clip(index, 0, size - 1),
    "nearest": lambda index, size: jnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": _reflected,
}


def _rounded(x: Any) -> Any:
    """The nearest integers, halves away from 0."""
    return jnp.trunc(x + jnp.copysign(0.5, x)) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _neighbours(coordinate: Any, order: int) -> list[tuple[Any, Any]]:
    """The indices along an axis whose elements are weighted, and the weights."""
    if order == 0:
        return [(_rounded(coordinate).astype(jnp.int32), jnp.ones((), coordinate.dtype))]
    below = jnp.floor(coordinate)
    weight = coordinate - below
    index = below.astype(jnp.int32)
    return [(index, 1 - weight), (index + 1, weight)]


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Any:  # fmt: skip
    """The values of an array between its elements, by interpolation.

    Args:
      input: array.
      coordinates: for each axis an array of positions, in elements; they broadcast.
      order: 0 for the nearest element, 1 for linear interpolation.
      mode: what is beyond the array: "constant" for `cval`, "nearest" for the last element, "wrap" for the array again,
        "mirror" for it reflected about the middle of the last element, "reflect" about its edge.
      cval: the value of "constant".

    Returns:
      An array of the dtype of `input` and the shape of the coordinates; integers are rounded, halves away from 0.

    Raises:
      ValueError: there is not one array of coordinates for each axis.
      NotImplementedError: another order or mode.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import ndimage
    >>> ndimage.map_coordinates(jnp.array([[0., 1.], [2., 3.]]), [jnp.array([0.5]), jnp.array([0.25])], order=1)
    Array([1.25], dtype=float32)
    """
    input, cval = jnp.asarray(input), jnp.asarray(cval)
    positions = [jnp.asarray(x) for x in coordinates]
    if len(positions) != input.ndim:
        raise ValueError(
            f"map_coordinates: coordinates are a sequence of length {input.ndim}, one array for each axis of "
            f"{input.aval.str_short()}, and {len(positions)} are given."
        )
    if mode not in _BEYOND:
        raise NotImplementedError(
            f"map_coordinates does not yet support mode {mode!r}: it is one of {', '.join(map(repr, _BEYOND))}."
        )
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates requires order<=1, and order={order} was asked for.")
    return _interpolated(input, cval, *positions, order=order, mode=mode)


@compiled_eagerly("order")
def _interpolated(input: Any, cval: Any, *positions: Any, order: int, mode: str) -> Any:
    along = []
    for position, size in zip(positions, input.shape):
        choices = []
        for index, weight in _neighbours(position, order):
            inside = (index >= 0) & (index < size) if mode == "constant" else True
            choices.append((_BEYOND[mode](index, size), inside, weight))
        along.append(choices)
    terms = []
    for corner in itertools.product(*along):
        indices, insides, weights = zip(*corner) if corner else ((), (True,), (1,))
        values = input[indices]
        if mode == "constant":
            values = jnp.where(functools.reduce(operator.and_, insides), values, cval.astype(input.dtype))
        terms.append(functools.reduce(operator.mul, weights) * values)
    out = functools.reduce(operator.add, terms)
    return (_rounded(out) if jnp.issubdtype(input.dtype, jnp.integer) else out).astype(input.dtype)
