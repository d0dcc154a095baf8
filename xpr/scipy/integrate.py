"""Integrals of sampled functions."""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp

__all__ = ["trapezoid"]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule; see `jnp.trapezoid`.

    Args:
      y: the values of the function.
      x: where they are taken: a vector, or an array that broadcasts with `y`; None for equal distances.
      dx: the distance, where `x` is not given.
      axis: the axis.

    Returns:
      An array of floats without the axis.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import integrate
    >>> integrate.trapezoid(jnp.array([1., 2., 3.]))
    Array(4., dtype=float32)
    """
    return jnp.trapezoid(y, x, dx, axis)
