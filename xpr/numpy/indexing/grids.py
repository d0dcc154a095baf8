"""Arrays written as slices: mgrid, ogrid, r_, c_; a slice whose step is imaginary is a linspace of so many samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.config_contexts import numpy_dtype_promotion
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.numpy.concatenation import concatenate, stack
from xpr.numpy.creation import asarray
from xpr.numpy.promotion import promote_dtypes
from xpr.numpy.ranges import arange, grid_arrays, linspace
from xpr.primitives.shapes import expand_dims

__all__ = ["c_", "index_exp", "mgrid", "ogrid", "r_", "s_"]

s_, index_exp = np.s_, np.index_exp


def _samples(name: str, bounds: slice) -> Any:
    """`start:stop:step` as arange, `start:stop:5j` as linspace with 5 samples, both ends among them."""
    start = 0 if bounds.start is None else bounds.start
    step = 1 if bounds.step is None else bounds.step
    if isinstance(step, complex):
        return linspace(start, bounds.stop, int(abs(step)))
    for which in ("start", "stop", "step"):
        x = getattr(bounds, which)
        if isinstance(x, Tracer) and x.concrete() is None:
            x.static_integer(f"It arose in the slice {which} of jnp.{name}:\nthe length of the result")
    return arange(start, bounds.stop, step)


class _Grid:
    """`grid[0:2, 0:3]`: the coordinates along each axis of a grid."""

    def __init__(self, name: str, sparse: bool):
        self.name, self.sparse = name, sparse

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if isinstance(key, slice):
            return _samples(self.name, key)
        with numpy_dtype_promotion("standard"):  # bounds are numbers, whose kinds may be mixed
            vectors = promote_dtypes(*[_samples(self.name, bounds) for bounds in key]) if key else []
        grids = grid_arrays(vectors, range(len(vectors)), self.sparse)
        return grids if self.sparse else stack(grids) if grids else asarray(np.zeros(0, dtypes.of_python(int)))


mgrid = _Grid("mgrid", sparse=False)
ogrid = _Grid("ogrid", sparse=True)


class _Joined:
    """`r_[0:3, 7, x]`: slices, scalars and arrays joined along an axis.

    A leading string of up to three integers says along which axis, how many axes the parts have at least, and where
    their original axes begin among those. "r" and "c" make a matrix of vectors: they are joined as rows or columns.
    """

    def __init__(self, name: str, axis: int, ndmin: int, position: int):
        self.name, self.axis, self.ndmin, self.position = name, axis, ndmin, position

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        axis, ndmin, position = self.axis, self.ndmin, self.position
        directive = ""
        if parts and isinstance(parts[0], str):
            directive, parts = parts[0], parts[1:]
            if directive not in ("r", "c"):
                axis, ndmin, position = _directive(directive, axis, ndmin, position)
        if not parts:
            raise ValueError("r_ and c_ need at least one part to join.")
        joined = concatenate([self._part(p, max(ndmin, 1), position) for p in parts], axis)
        if directive in ("r", "c") and aval_of(joined).ndim == 1:
            return expand_dims(joined, (0,) if directive == "r" else (1,))
        return joined

    def _part(self, part: Any, ndmin: int, position: int) -> Any:
        """A part with at least `ndmin` axes; its original axes begin at `position` (or end there, if negative)."""
        if isinstance(part, str):
            raise ValueError(f"r_ and c_: a directive ({part!r}) can only be the first part.")
        x = _samples(self.name, part) if isinstance(part, slice) else asarray(part)
        ndim = aval_of(x).ndim
        missing = ndmin - ndim
        if missing <= 0:
            return x
        start = position if position >= 0 else missing + position + 1
        axes = [i for i in range(ndmin) if not start <= i < start + ndim]
        return expand_dims(x, axes)


def _directive(text: str, axis: int, ndmin: int, position: int) -> Sequence[int]:
    """The three integers of a directive; missing ones are `axis`, `ndmin` and `position`."""
    try:
        numbers = [int(n) for n in text.split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3:
        raise ValueError(
            f'r_ and c_: could not understand directive {text!r}. One is "r", "c", or up to three integers.'
        )
    return (*numbers, *(axis, ndmin, position)[len(numbers) :])


r_ = _Joined("r_", 0, 1, -1)
c_ = _Joined("c_", -1, 2, 0)
