"""`jax.experimental.mesh_utils`: the order of devices in a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.api.meshes import make_mesh

__all__ = ["create_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, **_: Any) -> Any:
    """An array of devices in the shape of a mesh, nearby ones adjacent.

    Raises:
      ValueError: there are fewer devices.
    """
    names = tuple([f"axis{i}" for i in range(len(mesh_shape))])
    return make_mesh(tuple(mesh_shape), names, devices=devices).devices
