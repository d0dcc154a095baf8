"""The grid of a kernel: its axes, and the index of the program that runs.

While a kernel is traced the indices are its leading arguments; `program_id` finds them here. The sizes are part of the
cache key of what is traced meanwhile, as `num_programs` gives them as Python integers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from xpr.config import make_user_context
from xpr.core.avals import describe
from xpr.core.interpreter import NamedAxis, axes_in_scope
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.experimental.pallas.specs import no_block_spec

__all__ = ["GridSpec", "num_programs", "program_id"]


class GridSpec:
    """The grid of a kernel and the specs of its arrays, as one argument of `pallas_call`.

    Args:
      grid: the size of each axis, an integer or an array without axes, which may be traced. Or pairs of a name and a
        size: `lax.axis_size(name)` is known in the kernel. An integer is a grid of one axis.
      in_specs: a tuple or list with a pytree of `BlockSpec`s for each argument; `no_block_spec` for whole arrays.
      out_specs: a pytree of `BlockSpec`s with the structure of the results; `no_block_spec` for whole arrays.
      scratch_shapes: the types of refs that the kernel uses besides them, as for `pallas_call`.

    Raises:
      ValueError: `in_specs` is no sequence, or an element of the grid no size, or negative.

    >>> from xpr.experimental import pallas as pl
    >>> pl.GridSpec(grid=(4, 2)).grid
    (4, 2)
    """

    num_scalar_prefetch = 0
    scratch_shapes: Any = ()

    def __init__(
        self,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ):
        if in_specs is not no_block_spec and not isinstance(in_specs, Sequence):
            raise ValueError(
                f"pallas_call: `in_specs` must be a tuple or a list, with specs for each argument of the kernel's "
                f"function, and is {describe(in_specs)}."
            )
        self.in_specs = tuple(in_specs) if isinstance(in_specs, list) else in_specs
        self.out_specs = tuple(out_specs) if isinstance(out_specs, list) else out_specs
        self.scratch_shapes = scratch_shapes
        sizes = grid if isinstance(grid, (tuple, list)) else (grid,)
        self.grid_names: tuple[Hashable, ...] | None = None
        if sizes and all(isinstance(size, tuple) for size in sizes):
            self.grid_names, sizes = tuple([name for name, _ in sizes]), tuple([size for _, size in sizes])
        for size in sizes:
            is_size = isinstance(size, int) or is_symbolic_dim(size) or hasattr(size, "dtype")
            if not is_size or getattr(size, "shape", ()) != ():
                raise ValueError(
                    f"pallas_call: the grid must be a tuple of integers, or of arrays without axes, and has {size!r}."
                )
            if isinstance(size, (int, np.integer)) and size < 0:
                raise ValueError(f"pallas_call: the sizes of a grid can't be negative, and the grid is {grid!r}.")
        self.grid: tuple[Any, ...] = tuple([int(size) if isinstance(size, np.integer) else size for size in sizes])


_static_sizes = make_user_context(None)


class _Programs(threading.local):
    """The grid of the kernel that this thread traces, None outside of one."""

    grid: RunningGrid | None = None


_programs = _Programs()


class RunningGrid:
    """A grid with the indices of the program that runs; as a context manager it is what `program_id` looks at.

    Args:
      names: the names of its axes, or None.
      sizes: its sizes, integers or traced.
      indices: the index of the program along each axis, traced.
    """

    def __init__(self, names: Sequence[Hashable] | None, sizes: Sequence[Any], indices: Sequence[Any]):
        self.sizes, self.indices = sizes, indices
        self._static = tuple([size if isinstance(size, int) else None for size in sizes])
        named = zip(names or (), self._static)
        self._axes = axes_in_scope(*[NamedAxis(name, size) for name, size in named if size is not None])

    def __enter__(self) -> None:
        self._before, _programs.grid = _programs.grid, self
        self._sizes: Any = _static_sizes(self._static)
        self._sizes.__enter__()
        self._axes.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._axes.__exit__(*error)
        self._sizes.__exit__(*error)
        _programs.grid = self._before


def _along(what: str, axis: int, values: Callable[[RunningGrid], Sequence[Any]]) -> Any:
    grid = _programs.grid
    if grid is None:
        raise ValueError(f"{what}: there is no grid outside of a kernel and its index maps, which pallas_call runs.")
    if not 0 <= axis < len(grid.sizes):
        raise ValueError(f"{what}: axis {axis} is out of range for the grid of {len(grid.sizes)} axes, {grid.sizes}.")
    return values(grid)[axis]


def program_id(axis: int) -> Any:
    """The index of the program that runs, along an axis of the grid.

    Args:
      axis: the number of the axis.

    Returns:
      A traced integer, int32[].

    Raises:
      ValueError: there is no such axis, or no kernel is traced.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental import pallas as pl
    >>> def kernel(o_ref):
    ...     o_ref[pl.program_id(0)] = 10 * pl.program_id(0)
    >>> pl.pallas_call(kernel, xpr.ShapeDtypeStruct((4,), jnp.int32), grid=4)()
    Array([ 0, 10, 20, 30], dtype=int32)
    """
    return _along("program_id", axis, lambda grid: grid.indices)


def num_programs(axis: int) -> Any:
    """The size of the grid along an axis.

    Args:
      axis: the number of the axis.

    Returns:
      An integer; traced where the grid's is.

    Raises:
      ValueError: there is no such axis, or no kernel is traced.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental import pallas as pl
    >>> def kernel(o_ref):
    ...     o_ref[pl.program_id(0)] = pl.num_programs(0)
    >>> pl.pallas_call(kernel, xpr.ShapeDtypeStruct((3,), jnp.int32), grid=3)()
    Array([3, 3, 3], dtype=int32)
    """
    return _along("num_programs", axis, lambda grid: grid.sizes)
