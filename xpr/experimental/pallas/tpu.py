"""The part of JAX's module for TPU kernels that has a meaning on every platform: memory spaces, hints, scalars.

Copies between memories (DMA), semaphores, pipelines and meshes of cores are about the hardware, and left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NoReturn

from xpr import tree
from xpr.core.avals import aval_of
from xpr.experimental.pallas import access
from xpr.experimental.pallas.grids import GridSpec
from xpr.experimental.pallas.specs import MemoryRef, MemorySpaceBase, no_block_spec
from xpr.numpy.flip_roll_tile import roll as _roll

__all__ = [
    "ARBITRARY", "CMEM", "CORE_PARALLEL", "CompilerParams", "GridDimensionSemantics", "HBM", "MemorySpace", "PARALLEL",
    "PrefetchScalarGridSpec", "SMEM", "SUBCORE_PARALLEL", "SideEffectType", "VMEM", "VMEM_SHARED", "load", "roll",
    "store", "sync_copy", "touch", "with_memory_space_constraint",
]  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"module 'xpr.experimental.pallas.tpu' has no attribute {name!r}: kernels are compiled by XLA, on every "
        "platform, and copies between memories, semaphores and pipelines are about the hardware of TPUs. Blocks are "
        "read and written by `pallas_call` itself."
    )


class MemorySpace(MemorySpaceBase):
    """Where a kernel's arrays are: a hint, as XLA decides. A call makes the type of a ref there.

    >>> from xpr.experimental.pallas import tpu as pltpu
    >>> pltpu.VMEM((8, 128), "float32").shape
    (8, 128)
    """

    VMEM = "vmem"
    VMEM_SHARED = "vmem_shared"
    SMEM = "smem"
    CMEM = "cmem"
    HBM = "hbm"

    def from_type(self, ty: Any) -> MemoryRef:
        """The type of a ref of arrays of a type in this memory."""
        return MemoryRef(ty, self)

    def like(self, shape_dtype_like: Any) -> MemoryRef:
        """The type of a ref of arrays like an array in this memory."""
        return self(shape_dtype_like.shape, shape_dtype_like.dtype)


VMEM, VMEM_SHARED, SMEM = MemorySpace.VMEM, MemorySpace.VMEM_SHARED, MemorySpace.SMEM
CMEM, HBM = MemorySpace.CMEM, MemorySpace.HBM


class GridDimensionSemantics(Enum):
    """Whether programs along an axis of the grid may run at a time: a hint, as they run one after the other."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


PARALLEL, CORE_PARALLEL = GridDimensionSemantics.PARALLEL, GridDimensionSemantics.CORE_PARALLEL
SUBCORE_PARALLEL, ARBITRARY = GridDimensionSemantics.SUBCORE_PARALLEL, GridDimensionSemantics.ARBITRARY


class SideEffectType(Enum):
    """Whether a call may be left out where nothing reads its results: a hint, as it may be."""

    PURE = "pure"
    DATAFLOW_SIDE_EFFECTING = "dataflow_side_effecting"
    SIDE_EFFECTING = "side_effecting"


@dataclass(frozen=True)
class CompilerParams:
    """What Mosaic's compiler takes: hints, which change nothing.

    >>> from xpr.experimental.pallas import tpu as pltpu
    >>> pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")).dimension_semantics
    ('parallel', 'arbitrary')
    """

    dimension_semantics: Sequence[Any] | None = None
    allow_input_fusion: Sequence[bool] | None = None
    vmem_limit_bytes: int | None = None
    collective_id: int | None = None
    has_side_effects: bool | SideEffectType = False
    flags: Mapping[str, Any] | None = None
    internal_scratch_in_bytes: int | None = None
    serialization_format: int = 1
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    skip_device_barrier: bool = False
    allow_collective_id_without_custom_barrier: bool = False
    shape_invariant_numerics: bool = True
    use_tc_tiling_on_sc: bool | None = None
    needs_layout_passes: bool = True
    fuse_transposed_lhs_in_matmul: bool = False

    def replace(self, **changes: Any) -> CompilerParams:
        """The same with other fields."""
        return replace(self, **changes)


class PrefetchScalarGridSpec(GridSpec):
    """A `GridSpec` whose first arguments are for index maps, too.

    Args:
      num_scalar_prefetch: how many arguments have no spec. Index maps get refs of them after the indices, and the
        kernel before its other refs.
      grid: as for `GridSpec`.
      in_specs: those of the other arguments.
      out_specs: as for `GridSpec`.
      scratch_shapes: as for `GridSpec`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental import pallas as pl
    >>> from xpr.experimental.pallas import tpu as pltpu
    >>> spec = pltpu.PrefetchScalarGridSpec(
    ...     num_scalar_prefetch=1, grid=3,
    ...     in_specs=[pl.BlockSpec((1, 4), lambda i, rows: (rows[i], 0))],
    ...     out_specs=pl.BlockSpec((1, 4), lambda i, rows: (i, 0)))
    >>> def copy(rows_ref, x_ref, o_ref):
    ...     o_ref[...] = x_ref[...]
    >>> f = pl.pallas_call(copy, xpr.ShapeDtypeStruct((3, 4), jnp.int32), grid_spec=spec)
    >>> f(jnp.array([2, 0, 2]), jnp.arange(12).reshape(3, 4))
    Array([[ 8,  9, 10, 11],
           [ 0,  1,  2,  3],
           [ 8,  9, 10, 11]], dtype=int32)
    """

    def __init__(
        self,
        num_scalar_prefetch: int,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ):
        super().__init__(grid, in_specs, out_specs, scratch_shapes)
        self.num_scalar_prefetch = num_scalar_prefetch


def load(ref: Any, *, mask: Any = None) -> Any:
    """What a ref or a view of one holds, at a mask.

    Args:
      ref: a ref, or `ref.at[index]`.
      mask: booleans that broadcast to its elements; elsewhere is any number. None for all.

    Returns:
      An array.

    >>> import xpr
    >>> from xpr.experimental.pallas import tpu as pltpu
    >>> pltpu.load(xpr.new_ref(1))
    Array(1, dtype=int32, weak_type=True)
    """
    return access.load(ref, mask, None)


def store(ref: Any, val: Any, *, mask: Any = None) -> None:
    """Writes the elements of a ref or a view of one, at a mask.

    Args:
      ref: a ref, or `ref.at[index]`.
      val: an array that broadcasts to its elements.
      mask: booleans that broadcast to them; None for all.

    Returns:
      None.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import tpu as pltpu
    >>> ref = xpr.new_ref(jnp.arange(3))
    >>> pltpu.store(ref, 7, mask=jnp.array([True, False, True]))
    >>> ref
    Ref([7, 1, 7], dtype=int32)
    """
    access.store(ref, val, mask)


def sync_copy(src_ref: Any, dst_ref: Any, *, add: bool = False) -> None:
    """Copies what refs hold to other refs.

    Args:
      src_ref: a pytree of refs.
      dst_ref: a pytree of refs of the same types.
      add: whether to add to what they hold.

    Returns:
      None.

    >>> import xpr
    >>> from xpr.experimental.pallas import tpu as pltpu
    >>> ref = xpr.new_ref(1)
    >>> pltpu.sync_copy(xpr.new_ref(2), ref, add=True)
    >>> ref
    Ref(3, dtype=int32, weak_type=True)
    """

    def copy(source: Any, target: Any) -> None:
        target[...] = target[...] + source[...] if add else source[...]

    tree.map(copy, src_ref, dst_ref)


def touch(ref: Any) -> None:
    """Says that a ref is read and written, which changes nothing."""


def roll(x: Any, shift: Any, axis: int, *, stride: int | None = None, stride_axis: int | None = None) -> Any:
    """The elements moved along an axis, the last ones to the start.

    Args:
      x: an array.
      shift: by how many; not negative.
      axis: along which axis.
      stride: must be None.
      stride_axis: must be None.

    Returns:
      An array of the same type.

    Raises:
      NotImplementedError: there is a stride.
      ValueError: there is no such axis, or the shift is known and negative.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.pallas import tpu as pltpu
    >>> pltpu.roll(jnp.arange(4), 1, 0)
    Array([3, 0, 1, 2], dtype=int32)
    """
    if stride is not None or stride_axis is not None:
        raise NotImplementedError("roll: a `stride` along another axis is not supported. Roll each row by itself.")
    if isinstance(shift, int) and shift < 0:
        raise ValueError(f"roll: the shift must not be negative, and is {shift}.")
    if not 0 <= axis < aval_of(x).ndim:
        raise ValueError(f"roll: axis {axis} is out of range for {aval_of(x).str_short()}.")
    return _roll(x, shift, axis)


def with_memory_space_constraint(x: Any, memory_space: Any) -> Any:
    """The array itself, with a hint where it is to be, which changes nothing.

    Args:
      x: an array.
      memory_space: the memory.

    Returns:
      `x`.

    >>> from xpr.experimental.pallas import tpu as pltpu
    >>> pltpu.with_memory_space_constraint(1.0, pltpu.VMEM)
    1.0
    """
    return x
