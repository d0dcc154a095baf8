"""Exported functions: StableHLO that other releases and processes run, with the types and structures around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend import portable
from xpr.backend.sharding import AbstractMesh, NamedSharding
from xpr.core.avals import ShapedArray
from xpr.export.calling import call_exported
from xpr.export.checks import DisabledSafetyCheck
from xpr.export.serialization import read_exported, write_exported
from xpr.tree_def import PyTreeDef

minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Exported:
    """A function lowered to StableHLO that can be kept, sent elsewhere, and called from other programs.

    Attributes:
      fun_name: the name of the function.
      in_tree: the structure of `(args, kwargs)`.
      in_avals: the flat types of the arguments; their shapes may have symbolic dimensions.
      out_tree: the structure of the result.
      out_avals: the flat types of the results, whose dimensions are computed from those of the arguments.
      in_shardings_hlo: of each argument; None, as in files of JAX since 2026. See `in_shardings_jax`.
      out_shardings_hlo: of each result, likewise.
      nr_devices: how many devices the program is for.
      platforms: those it is for; with several, the module takes the index of one first.
      ordered_effects: the ordered effects of the module.
      unordered_effects: its other effects.
      disabled_safety_checks: what `export` was not to check.
      mlir_module_serialized: the module as a portable artifact.
      calling_convention_version: the version of how the module takes arguments.
      module_kept_var_idx: the positions of the arguments that the module takes.
      uses_global_constants: whether the module takes the index of a platform, or has symbolic dimensions.
    """

    fun_name: str
    in_tree: PyTreeDef
    in_avals: tuple[ShapedArray, ...]
    out_tree: PyTreeDef
    out_avals: tuple[ShapedArray, ...]
    in_shardings_hlo: tuple[Any, ...]
    out_shardings_hlo: tuple[Any, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    ordered_effects: tuple[str, ...]
    unordered_effects: tuple[str, ...]
    disabled_safety_checks: Sequence[DisabledSafetyCheck]
    mlir_module_serialized: bytes
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _in_named_shardings: tuple[NamedSharding | None, ...]
    _out_named_shardings: tuple[NamedSharding | None, ...]
    _get_vjp: Callable[[Exported], Exported] | None
    _memo: dict[Any, Any] = dataclasses.field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    def mlir_module(self, serialized: bool = True) -> Any:
        """The module: its text, with the user's lines, or a `jaxlib.mlir.ir.Module` with `serialized=False`."""
        module = portable.deserialized(self.mlir_module_serialized)
        return module.operation.get_asm(enable_debug_info=True) if serialized else module

    def in_shardings_jax(self, mesh: AbstractMesh) -> tuple[NamedSharding | None, ...]:
        """The shardings of the arguments over a mesh.

        Args:
          mesh: a mesh with the axes of the one that the function was exported with.

        Returns:
          For each argument a sharding; None where none was asked for.

        Raises:
          ValueError: the mesh has other axes.

        >>> import xpr, xpr.numpy as jnp
        >>> from xpr import export
        >>> from xpr.sharding import NamedSharding, PartitionSpec as P
        >>> mesh = xpr.make_mesh((1,), ("x",))
        >>> f = xpr.jit(jnp.sin, in_shardings=NamedSharding(mesh, P("x")))
        >>> export.export(f)(jnp.zeros(4)).in_shardings_jax(mesh)
        (NamedSharding(mesh=Mesh('x': 1), spec=P('x',)),)
        """
        return tuple([_over(mesh, sharding, self.fun_name) for sharding in self._in_named_shardings])

    def out_shardings_jax(self, mesh: AbstractMesh) -> tuple[NamedSharding | None, ...]:
        """The shardings of the results over a mesh, as `in_shardings_jax`.

        Args:
          mesh: a mesh with the axes of the one that the function was exported with.

        Returns:
          For each result a sharding; None where the compiler chooses.

        Raises:
          ValueError: the mesh has other axes.
        """
        return tuple([_over(mesh, sharding, self.fun_name) for sharding in self._out_named_shardings])

    def has_vjp(self) -> bool:
        """Whether `vjp` is known."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The function of flat arguments, and cotangents of flat results, to the cotangents of the arguments.

        Raises:
          ValueError: it was read from bytes that don't have it.
        """
        if self._get_vjp is None:
            raise ValueError(
                f"The exported function {self.fun_name} has no vjp. Serialize it with a larger vjp_order: one for each "
                "derivative that is taken of it."
            )
        if "vjp" not in self._memo:
            self._memo["vjp"] = self._get_vjp(self)
        return self._memo["vjp"]

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The function as bytes, which `deserialize` reads, also that of JAX.

        Args:
          vjp_order: how many times what is read can be differentiated in reverse mode.

        Returns:
          The bytes.

        Raises:
          ValueError: it has no vjp of that order, or a class of pytree nodes is not registered for serialization.

        >>> import xpr, xpr.numpy as jnp
        >>> from xpr import export
        >>> data = export.export(xpr.jit(jnp.sin))(1.0).serialize(vjp_order=1)
        >>> xpr.grad(export.deserialize(data).call)(0.0)
        Array(1., dtype=float32, weak_type=True)
        """
        return write_exported(self, vjp_order)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The results for arguments of the structure and types that the function was exported with.

        It can be called in other programs, which may be transformed: derivatives are `vjp`'s, and `vmap` calls it for
        one row after another.

        Raises:
          ValueError: arguments have another structure or other types, or it is for another platform.
        """
        return call_exported(self, args, kwargs)


def _over(mesh: AbstractMesh, sharding: NamedSharding | None, name: str) -> NamedSharding | None:
    if sharding is None:
        return None
    if mesh.shape_tuple != sharding.mesh.shape_tuple:
        raise ValueError(
            f"{name} was exported with shardings over {sharding.mesh.text}, and {mesh.text} has other axes. Make a "
            "mesh of that shape, of any devices."
        )
    return NamedSharding(mesh, sharding.spec)


def deserialize(blob: bytes | bytearray) -> Exported:
    """The function that was exported as bytes, by `Exported.serialize` or that of JAX.

    Args:
      blob: the bytes. They are a program: read them only from where you trust.

    Returns:
      The function.

    Raises:
      ValueError: the bytes are damaged, or name a class of pytree nodes that is not registered here.
      NotImplementedError: the function has what xpr has not: other random generators, effects.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import export
    >>> data = export.export(xpr.jit(jnp.cos))(1.0).serialize()
    >>> export.deserialize(data).call(0.0)
    Array(1., dtype=float32)
    """
    return read_exported(bytes(blob), Exported)
