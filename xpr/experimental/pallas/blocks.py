"""The blocks of one array that a kernel reads or writes: where they are, and how they are read and written.

Where blocks reach beyond the array it is padded before the loop over the grid, with nan for floats and the least number
for integers. Inside of the loop a block is a dynamic slice, which XLA reads and updates in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xpr import dtypes
from xpr.compile.reference import reference_eval
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.core.avals import ShapedArray, describe
from xpr.core.jaxpr import ClosedJaxpr, effects
from xpr.core.sized_slices import Slice
from xpr.core.source import describe_function
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.errors import UnsupportedRule
from xpr.experimental.pallas.specs import BlockDim, Blocked, BlockSpec, BoundedSlice, Element, Squeezed, squeezed
from xpr.numpy.promotion import as_operand
from xpr.passes.dce import dce_jaxpr
from xpr.primitives.collectives.varying import varying_as
from xpr.primitives.concatenation import concatenate
from xpr.primitives.dynamic_slices import dynamic_slice_p, dynamic_update_slice_p
from xpr.primitives.elementwise import convert_element_type, lt, mul
from xpr.primitives.gather.gather_scatter import scatter_add_p
from xpr.primitives.gather.windows import PROMISE_IN_BOUNDS, ScatterDimensionNumbers
from xpr.primitives.shapes import broadcast_to, full, reshape
from xpr.primitives.slicing import broadcasted_iota, pad, select, slice_
from xpr.transforms.batch import batch_jaxpr

Shape = tuple[int, ...]


def unwritten(shape: Shape, dtype: Any) -> Any:
    """The elements of memory to which nothing was written: nan, for integers the least number, False."""
    if dtype in dtypes.INEXACT:
        return full(shape, np.nan, dtype)
    return full(shape, dtypes.iinfo(dtype).min if dtype in dtypes.INTEGERS else 0, dtype)


def varying_as_type(x: Any, aval: ShapedArray) -> Any:
    """A value that varies over the axes of a `shard_map` over which values of a type do."""
    return varying_as(x, aval) if aval.varying else x


def unwritten_of(aval: ShapedArray) -> Any:
    """An array of a type, to which nothing was written."""
    return varying_as_type(unwritten(aval.shape, aval.dtype), aval)


def _block_dim(origin: str, size: Any) -> Any:
    if size is None:
        return squeezed
    try:
        return size if isinstance(size, BlockDim) else Blocked(cast(int, size) if is_symbolic_dim(size) else int(size))
    except (TypeError, ValueError):
        raise ValueError(
            f"pallas_call: the block shape for {origin} has an element of unsupported block dimension type, "
            f"{describe(size)}. Those that there are: int, None, pl.Blocked, pl.Element, pl.Squeezed, pl.BoundedSlice."
        ) from None


class Blocks:
    """The blocks of an array, by the spec.

    Attributes:
      origin: which array it is, in messages.
      user_map: the index map, or None.
      ref_aval: the type of a block in the kernel.
      key: what the position of a block depends on besides the indices; equal for arrays whose blocks are alike.
      whole: whether the only block is the whole array.

    Raises:
      ValueError: the block shape has another number of axes than the array, an element of another type, or an empty
        axis that the array does not have.
    """

    __slots__ = ("_low", "_padded", "aval", "block_shape", "dims", "key", "origin", "ref_aval", "user_map", "whole")

    def __init__(self, origin: str, spec: BlockSpec, aval: ShapedArray):
        self.origin, self.aval, self.user_map = origin, aval, spec.index_map
        shape = aval.shape if spec.block_shape is None else spec.block_shape
        self.dims = tuple([_block_dim(origin, size) for size in shape])
        if len(self.dims) != aval.ndim:
            raise ValueError(
                f"Block shape for {origin} has {len(self.dims)} dimensions, {tuple(shape)}, and the array {aval.ndim}, "
                f"of shape {aval.shape}. Give each axis a size; None is for an axis that the kernel does not see."
            )
        self.block_shape = tuple([dim.block_size for dim in self.dims])
        for n, size in zip(aval.shape, self.block_shape):
            if isinstance(size, int) and size < 1 and size != n:
                raise ValueError(
                    f"pallas_call: the block shape for {origin} is {self.block_shape}, and the sizes of blocks are "
                    "1 or more."
                )
        kept = [dim.block_size for dim in self.dims if type(dim) is not Squeezed]
        self.ref_aval = ShapedArray(tuple(kept), aval.dtype).with_varying(aval.varying)
        low, self._padded = [], []
        for n, dim in zip(aval.shape, self.dims):
            before, size = _padded(n, dim)
            low.append(before)
            self._padded.append(size)
        self._low = tuple(low)
        self.whole = tuple(self._padded) == self.block_shape
        self.key = (id(self.user_map), self.dims, tuple(self._padded))

    # -- The array, before and after the loop

    def padded(self, x: Any) -> Any:
        """The array with all elements that are in blocks."""
        edges = [(low, size - low - n, 0) for n, low, size in zip(self.aval.shape, self._low, self._padded)]
        return x if tuple(self._padded) == self.aval.shape else pad(x, unwritten((), self.aval.dtype), edges)

    def unwritten(self) -> Any:
        """An array with all elements that are in blocks, to which nothing was written."""
        return unwritten_of(self.aval.update(shape=tuple(self._padded)))

    def unpadded(self, x: Any) -> Any:
        """The array that `padded` padded."""
        if tuple(self._padded) == self.aval.shape:
            return x
        return slice_(x, self._low, [low + n for low, n in zip(self._low, self.aval.shape)])

    # -- Index maps

    def index_map(self, *args: Any) -> list[Any]:
        """The results of the index map, `Slice`s as pairs.

        Raises:
          ValueError: it gives another number of results than the block shape has axes, or others than integers.
        """
        assert self.user_map is not None
        results = self.user_map(*args)
        results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
        function = f"Index map function {describe_function(self.user_map)} for {self.origin}"
        if len(results) != len(self.dims):
            raise ValueError(
                f"{function} returned {len(results)} values, and the block shape {self.block_shape} needs "
                f"{len(self.dims)}, one for each axis."
            )
        for i, (result, dim) in enumerate(zip(results, self.dims)):
            if (type(result) is Slice) != (type(dim) is BoundedSlice):
                raise ValueError(
                    f"{function}: output[{i}] is {describe(result)}, and the block dimension {dim} takes "
                    f"{'pl.ds(start, size)' if type(dim) is BoundedSlice else 'an integer'}."
                )
        flat = [x for r in results for x in ((r.start, r.size) if type(r) is Slice else (r,))]
        for i, x in enumerate(flat):
            operand: Any = as_operand(x)
            aval = operand.aval if hasattr(operand, "aval") else ShapedArray(np.shape(x), np.result_type(x))
            if aval.ndim or aval.dtype not in dtypes.INTEGERS:
                raise ValueError(
                    f"{function} must return integer scalars. Output[{i}] has type {aval.dtype.name}{list(aval.shape)}."
                )
        return flat

    def position(self, results: Sequence[Any]) -> Position:
        """Where a block is, from the results of the index map; the first one where there is none."""
        if self.user_map is None:
            return Position([np.int32(0)] * len(self.dims), {})
        values = iter(results)
        starts, limits = [], {}
        for axis, (dim, size) in enumerate(zip(self.dims, self._padded)):
            index = next(values)
            if type(dim) is BoundedSlice:
                limits[axis] = next(values)
            if size == dim.block_size:
                starts.append(np.int32(0))
                continue
            start = convert_element_type(index, np.int32)
            starts.append(mul(start, np.int32(dim.block_size)) if type(dim) is Blocked else start)
        return Position(starts, limits)

    # -- Blocks, in the loop

    def read(self, x: Any, at: Position) -> Any:
        """A block of the padded array."""
        block = x if self.whole else dynamic_slice_p.bind(x, *at.starts, slice_sizes=self.block_shape)
        return reshape(block, self.ref_aval.shape)

    def write(self, x: Any, at: Position, block: Any, once: bool) -> Any:
        """The padded array with a block replaced; `once`: nothing was written to the block before."""
        if at.limits:
            inside: Any = None
            for axis, limit in at.limits.items():
                index = broadcasted_iota(np.int32, self.block_shape, axis)
                below = lt(index, broadcast_to(convert_element_type(limit, np.int32), self.block_shape))
                inside = below if inside is None else inside & below
            block = select(reshape(inside, self.ref_aval.shape), block, self.read(x, at))
        block = reshape(block, self.block_shape)
        if self.whole:
            return block
        put = _written_once if once and self.aval.dtype in dtypes.INEXACT else dynamic_update_slice_p.bind
        return put(x, block, *at.starts)

    def are_visited_once(self, index_map: ClosedJaxpr | None, grid: Sequence[Any]) -> bool:
        """Whether it is known that each index of the leading axes of a grid, of sizes `grid`, has a block of its own.

        It is known where the index map reads no scalars and no other axes, and there are not too many programs.
        """
        n_programs = math.prod([size if isinstance(size, int) else _MOST_PROGRAMS + 1 for size in grid])
        if self.whole or not grid or not 0 < n_programs <= _MOST_PROGRAMS:
            return False
        kinds = set(map(type, self.dims))
        if not kinds <= {Blocked, Squeezed} or not all(isinstance(n, int) for n in self._padded):
            return False
        if index_map is None or index_map.consts or effects(index_map.jaxpr):
            return False
        whole = index_map.jaxpr
        jaxpr, _ = dce_jaxpr(whole, [True] * len(whole.outvars), [i < len(grid) for i in range(len(whole.invars))])
        if len(jaxpr.invars) > len(grid):
            return False
        programs = [index.astype(np.int32) for index in np.unravel_index(np.arange(n_programs), tuple(grid))]
        try:
            closed, _ = batch_jaxpr(jaxpr, n_programs, (0,) * len(grid))
            results = reference_eval(closed.jaxpr, closed.consts, *programs)
        except UnsupportedRule:  # an operation that has no rows, or that NumPy does not have
            return False
        numbers = np.stack([np.broadcast_to(x, (n_programs,)) for x in results], 1)
        counts = [n // size for n, size in zip(self._padded, self.block_shape)]
        is_inside = bool(((numbers >= 0) & (numbers < counts)).all())
        return is_inside and len(np.unique(numbers, axis=0)) == n_programs


_MOST_PROGRAMS = 1 << 16  # whose blocks are compared


@custom_jvp
def _written_once(x: Any, block: Any, *starts: Any) -> Any:
    """The array with a block replaced to which nothing was written before, so that the old block's tangent is zero.

    The tangent of the new block is added to that zero. So in reverse mode the cotangent of the array is passed on as it
    is; that of `dynamic_update_slice` would have zeros in place of the block, for which XLA copies it in each step.
    """
    return dynamic_update_slice_p.bind(x, block, *starts)


@_written_once.defjvp
def _written_once_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    x, block, *starts = primals
    x_dot, block_dot, *_ = tangents
    axes = tuple(range(len(starts)))
    x_dot = scatter_add_p.bind(
        x_dot,
        concatenate([reshape(start, (1,)) for start in starts], 0),
        block_dot,
        dimension_numbers=ScatterDimensionNumbers(axes, (), axes),
        indices_are_sorted=True,
        unique_indices=True,
        mode=PROMISE_IN_BOUNDS,
    )
    return _written_once(x, block, *starts), x_dot


class Position:
    """Where a block is: its first element along each axis, and how many of its elements count where not all do."""

    __slots__ = ("limits", "starts")

    def __init__(self, starts: list[Any], limits: dict[int, Any]):
        self.starts, self.limits = starts, limits


def _padded(n: Any, dim: Any) -> tuple[int, Any]:
    """How many elements are put before an axis of size n, and the size of the padded axis."""
    before, after = dim.padding if type(dim) is Element else (0, 0)
    size, block = before + n + after, dim.block_size
    if type(dim) in (Blocked, Squeezed):
        return 0, size if block == size else -(-size // block) * block
    return before, size if block == size else size + block - 1  # any element may be the first one
