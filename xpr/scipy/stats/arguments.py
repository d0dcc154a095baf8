"""What the functions of distributions do with their arguments first: meet in a type, be moved and stretched."""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp
from xpr.numpy.promotion import promote_inexact, promote_shapes


def together(*xs: Any) -> Any:
    """The arguments in the float dtype and the shape that they meet in."""
    return promote_shapes(*promote_inexact(*xs))


def moved(x: Any, *parameters: Any) -> Any:
    """(x - loc) / scale, the parameters in between, and the scale; `parameters` end in loc and scale."""
    x, *own, loc, scale = together(x, *parameters)
    return jnp.divide(jnp.subtract(x, loc), scale), *own, scale


def between(x: Any) -> Any:
    """Whether each entry lies between 0 and 1."""
    return jnp.logical_and(jnp.greater_equal(x, 0), jnp.less_equal(x, 1))


def positive_part(x: Any) -> Any:
    """Each entry, or 0 where it is negative."""
    return jnp.where(jnp.greater_equal(x, 0), x, 0.0)
