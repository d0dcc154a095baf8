"""Trends of signals."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.numpy.axes import one_axis
from xpr.numpy.promotion import promote_inexact


def detrend(
    data: Any,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: Any = None,
) -> Any:
    """The data less their mean, or less the straight line through them by least squares.

    Args:
      data: array.
      axis: the axis along which there is a trend.
      type: "linear" for a line, "constant" for the mean.
      bp: positions between which lines are fitted separately.
      overwrite_data: has no effect; arrays are immutable.

    Returns:
      An array of floats of the same shape.

    Raises:
      ValueError: there is no such type, or a position is beyond the data.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> signal.detrend(jnp.array([1., 3., 5., 8.])).round(2)
    Array([ 0.2, -0.1, -0.4,  0.3], dtype=float32)
    """
    if type not in ("linear", "constant"):
        raise ValueError(f"detrend: type is 'linear' or 'constant', and not {type!r}.")
    data = jnp.asarray(*promote_inexact(data))
    axis = one_axis(axis, data.ndim)
    if type == "constant":
        return data - jnp.mean(data, axis, keepdims=True)
    size = operator.index(data.shape[axis])
    bounds = np.unique(np.concatenate([[0], np.atleast_1d(np.asarray(bp, int)), [size]]))
    if bounds[0] < 0 or bounds[-1] > size:
        raise ValueError(f"detrend: positions are from 0 to {size}, and bp is {bp}.")
    parts = jnp.split(jnp.moveaxis(data, axis, -1), [int(b) for b in bounds[1:-1]], axis=-1)
    return jnp.moveaxis(jnp.concatenate([_without_line(part) for part in parts], axis=-1), -1, axis)


def _without_line(x: Any) -> Any:
    """Each vector less its line: the slope is the sum of t x over that of t^2, for times t whose mean is 0."""
    size = x.shape[-1]
    times = np.arange(size) - (size - 1) / 2
    centred = x - jnp.mean(x, -1, keepdims=True)
    times = times.reshape(*[1] * (x.ndim - 1), size)
    weights = (times / (np.sum(times**2) or 1)).astype(x.dtype)
    return centred - times.astype(x.dtype) * jnp.sum(weights * centred, -1, keepdims=True)
