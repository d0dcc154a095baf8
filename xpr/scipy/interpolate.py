"""Interpolation of functions that are known on a grid."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

from xpr import numpy as jnp
from xpr.numpy.promotion import promote_inexact
from xpr.tree_nodes import register_pytree_node

__all__ = ["RegularGridInterpolator"]

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """A function that interpolates values on a grid, whose points may be at any distances; a pytree.

    Args:
      points: for each dimension of the grid the ascending coordinates of its points.
      values: array whose first axes are those of the grid.
      method: "linear" or "nearest".
      bounds_error: must be False: whether points are outside of the grid is not known while tracing.
      fill_value: the value outside of the grid; None to extrapolate.

    Raises:
      ValueError: the shapes or dtypes don't fit, or there is no such method.
      NotImplementedError: `bounds_error` is asked for.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.interpolate import RegularGridInterpolator
    >>> squares = RegularGridInterpolator((jnp.array([0., 1., 3.]),), jnp.array([0., 1., 9.]))
    >>> squares(jnp.array([[0.5], [2.0]]))
    Array([0.5, 5. ], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = math.nan,
    ):
        self.method = _checked(method)
        if bounds_error:
            raise NotImplementedError(
                "RegularGridInterpolator: bounds_error=True can't be, since values are not known while tracing. Give a "
                "fill_value, or check the points beforehand."
            )
        self.bounds_error = bool(bounds_error)
        self.grid = tuple([jnp.asarray(p) for p in points])
        self.values = jnp.asarray(*promote_inexact(values))
        sizes = tuple([p.size for p in self.grid])
        if any(p.ndim != 1 or p.size < 2 for p in self.grid) or self.values.shape[: len(sizes)] != sizes:
            types = ", ".join(p.aval.str_short() for p in self.grid)
            raise ValueError(
                f"RegularGridInterpolator: points are vectors of 2 elements or more, and values begin with an axis for "
                f"each of them. They are {types} and {self.values.aval.str_short()}."
            )
        self.fill_value = None if fill_value is None else jnp.asarray(fill_value)
        if self.fill_value is not None and not jnp.can_cast(self.fill_value.dtype, self.values.dtype, "same_kind"):
            types = f"{self.fill_value.dtype.name} and {self.values.dtype.name}"
            raise ValueError(f"RegularGridInterpolator: fill_value is of the kind of the values. They are {types}.")

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The values at points.

        Args:
          xi: points [..., d], or a tuple of d arrays of coordinates, which broadcast.
          method: "linear" or "nearest"; None for that of the interpolator.

        Returns:
          An array of the leading axes of the points, and the axes of the values that are not the grid's.

        Raises:
          ValueError: points don't have d coordinates, or there is no such method.
        """
        method = self.method if method is None else _checked(method)
        coordinates = self._coordinates(xi)
        shape = coordinates[0].shape if coordinates else ()
        lower, shares = [], []
        outside = jnp.zeros(shape, bool)
        for x, points in zip(coordinates, self.grid):
            i = jnp.clip(jnp.searchsorted(points, x) - 1, 0, points.size - 2)
            lower.append(i)
            shares.append((x - points[i]) / (points[i + 1] - points[i]))
            outside = outside | (x < points[0]) | (x > points[-1])
        trailing = (1,) * (self.values.ndim - len(self.grid))
        if method == "nearest":
            out = self.values[tuple([jnp.where(share <= 0.5, i, i + 1) for i, share in zip(lower, shares)])]
        else:
            terms = []
            for corner in itertools.product((0, 1), repeat=len(lower)):
                weights = [share if upper else 1 - share for upper, share in zip(corner, shares)]
                weight = functools.reduce(operator.mul, weights).reshape(*shape, *trailing)
                terms.append(weight * self.values[tuple([i + upper for upper, i in zip(corner, lower)])])
            out = functools.reduce(operator.add, terms)
        if self.fill_value is None:
            return out
        return jnp.where(outside.reshape(*shape, *trailing), self.fill_value.astype(out.dtype), out)

    def _coordinates(self, xi: Any) -> list[Any]:
        d = len(self.grid)
        if isinstance(xi, tuple):
            coordinates = jnp.broadcast_arrays(*promote_inexact(*xi))
        else:
            xi = jnp.asarray(*promote_inexact(xi))
            if xi.ndim == 1:
                xi = xi.reshape(-1, d)
            coordinates = [xi[..., i] for i in range(xi.shape[-1])] if xi.ndim else []
        if len(coordinates) != d:
            raise ValueError(
                f"RegularGridInterpolator: the points of a grid of {d} dimensions have {d} coordinates, and "
                f"{len(coordinates)} were given."
            )
        return list(coordinates)


def _checked(method: str) -> str:
    if method not in _METHODS:
        raise ValueError(f"RegularGridInterpolator: method is 'linear' or 'nearest', and not {method!r}.")
    return method


def _unflatten(aux: tuple[str, bool], children: Any) -> RegularGridInterpolator:
    made = object.__new__(RegularGridInterpolator)
    made.grid, made.values, made.fill_value = children
    made.method, made.bounds_error = aux
    return made


register_pytree_node(
    RegularGridInterpolator, lambda x: ((x.grid, x.values, x.fill_value), (x.method, x.bounds_error)), _unflatten
)
