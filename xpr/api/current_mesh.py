"""The current mesh: the one that partition specs without a mesh refer to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from xpr.backend.mesh import AbstractMesh, Mesh
from xpr.compile.bottom_traces import install_in_thread
from xpr.config import override, settings
from xpr.core.avals import describe
from xpr.core.interpreter import context
from xpr.errors import ArgumentError
from xpr.transforms.stage import is_staged


class set_mesh:
    """Makes a mesh the current one of this thread; `with set_mesh(mesh):` for as long as the block lasts.

    Where there is one, `jit`, `device_put` and `lax.with_sharding_constraint` take bare partition specs, and
    `shard_map` needs no mesh. New arrays, and the results of values that are on no device by name, are replicated over
    the mesh.

    Args:
      mesh: a `Mesh`; None for none.
    Raises:
      TypeError: `mesh` is not a mesh.
      ValueError: an axis of it is Manual, as only those of a `shard_map` are, inside of it; or a function is being
        traced, by `jit` or others that make programs.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import PartitionSpec as P
    >>> with xpr.set_mesh(xpr.make_mesh((1,), ("x",))):
    ...     y = xpr.jit(lambda x: xpr.lax.with_sharding_constraint(x + 1, P("x")))(jnp.arange(3))
    >>> y.sharding.mesh
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    def __init__(self, mesh: Mesh | None):
        if mesh is not None and not isinstance(mesh, AbstractMesh):
            raise ArgumentError(f"set_mesh: {mesh!r} is no Mesh.")
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                f"set_mesh: {mesh.text} contains manual axes, as only those of a shard_map are, inside of it. Make it "
                "with Auto or Explicit axes."
            )
        if is_staged():
            raise ValueError(
                "`set_mesh` can only be used outside of `jax.jit`: a function is being traced here, whose program runs "
                f"where its arguments are, and is to run on {'no mesh' if mesh is None else mesh.text}. Set the mesh "
                "around the call; or name its axes alone here: sharding.use_abstract_mesh(mesh.abstract_mesh)."
            )
        self.mesh = mesh
        self.before = (settings.mesh, settings.context_mesh, settings.program_mesh, context.trace)
        settings.mesh = settings.context_mesh = None if mesh is None or mesh.empty else mesh
        settings.program_mesh = settings.mesh if isinstance(settings.mesh, Mesh) else None
        install_in_thread()

    def __enter__(self) -> Mesh | None:
        return self.mesh

    def __exit__(self, *error: object) -> None:
        settings.mesh, settings.context_mesh, settings.program_mesh, context.trace = self.before


def use_abstract_mesh(mesh: AbstractMesh) -> Any:
    """A context manager in which a mesh without devices is the current one: programs can be traced, and not run.

    Inside of `set_mesh` its devices remain, along the axes of this mesh.

    Raises:
      ValueError: `mesh` is no mesh, or the mesh of `set_mesh` has another number of devices.

    >>> import xpr
    >>> with xpr.sharding.use_abstract_mesh(xpr.sharding.AbstractMesh((64,), ("x",))):
    ...     xpr.sharding.get_abstract_mesh()
    AbstractMesh('x': 64)
    """
    if not isinstance(mesh, AbstractMesh):
        raise ArgumentError(f"use_abstract_mesh: Expected an AbstractMesh, and got {describe(mesh)}.")
    current = settings.program_mesh
    if current is None or isinstance(mesh, Mesh) or mesh.manual_axes or mesh.empty:
        return with_mesh(mesh)
    if mesh.size != current.size:
        raise ValueError(
            f"use_abstract_mesh cannot change the size of the current mesh, {current.text}, of {current.size} devices: "
            f"that of {mesh.text} is {mesh.size}. Call set_mesh with a mesh of as many."
        )
    return on_devices(current.along(mesh))


@contextmanager
def on_devices(mesh: Mesh) -> Iterator[None]:
    """A context manager in which a mesh is the current one, and programs run on its devices."""
    before = context.trace
    with override("mesh", mesh), override("context_mesh", mesh), override("program_mesh", mesh):
        install_in_thread()
        try:
            yield
        finally:
            context.trace = before


def entered_mesh() -> Mesh | None:
    """The mesh of the `with mesh:` around, on whose devices programs don't run by themselves; None where none is."""
    mesh = settings.mesh
    return mesh if isinstance(mesh, Mesh) and settings.program_mesh is None else None


@contextmanager
def with_mesh(mesh: AbstractMesh) -> Iterator[None]:
    """A context manager in which a mesh is the current one; the devices of one with the same axes remain."""
    current = settings.mesh
    if isinstance(current, Mesh) and not isinstance(mesh, Mesh) and current.shape_tuple == mesh.shape_tuple:
        mesh = current.along(mesh)
    with override("mesh", mesh), override("context_mesh", mesh):
        yield


def get_mesh() -> Mesh:
    """The mesh of `set_mesh`; an empty one where there is none, or it has no devices. `with mesh:` does not set it.

    >>> import xpr
    >>> xpr.sharding.get_mesh().empty
    True
    """
    mesh = settings.context_mesh
    return mesh if isinstance(mesh, Mesh) else Mesh(np.empty((), object), ())


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the mesh of `set_mesh`, `use_abstract_mesh` or `shard_map`; none elsewhere, `with mesh:` included.

    >>> import xpr
    >>> with xpr.set_mesh(xpr.make_mesh((1,), ("x",))):
    ...     xpr.sharding.get_abstract_mesh()
    AbstractMesh('x': 1)
    """
    return _axes_of(settings.context_mesh)


def current_axes() -> AbstractMesh:
    """The axes of the mesh that partition specs refer to; none where there is none."""
    return _axes_of(settings.mesh)


def _axes_of(mesh: AbstractMesh | None) -> AbstractMesh:
    return AbstractMesh((), ()) if mesh is None else mesh.abstract_mesh
