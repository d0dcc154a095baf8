"""`jax.experimental.mesh_utils`: the order of devices in a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.api.meshes import make_mesh
from xpr.backend import devices as platforms

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, **_: Any) -> Any:
    """An array of devices in the shape of a mesh, nearby ones adjacent.

    Args:
      mesh_shape: the size of each axis.
      devices: the devices; None for the first ones of the default platform.
      **_: JAX's options for the networks of TPUs, which have no effect.

    Returns:
      An array of devices, of that shape.

    Raises:
      ValueError: there are fewer devices.

    >>> from xpr.experimental import mesh_utils
    >>> mesh_utils.create_device_mesh((1, 1)).shape
    (1, 1)
    """
    names = tuple([f"axis{i}" for i in range(len(mesh_shape))])
    return make_mesh(tuple(mesh_shape), names, devices=devices).devices


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> Any:
    """An array of devices for a mesh over several groups of them, whose network is slower than that within a group.

    Args:
      mesh_shape: the shape of the mesh within a group.
      dcn_mesh_shape: the shape of the mesh of groups, with as many axes.
      devices: the devices; None for all of the default platform.
      process_is_granule: whether a group is the devices of a process; otherwise it is those of one `slice_index`.
      should_sort_granules_by_key: whether groups are in the order of their numbers, or in that of `devices`.
      allow_split_physical_axes: as in JAX, for TPUs.

    Returns:
      An array of devices whose shape is the product of both shapes, axis by axis: the index in the group comes last.

    Raises:
      ValueError: the devices say no group, the numbers of groups and of the mesh's differ, or a group has fewer
        devices than the mesh within it.

    >>> from xpr.experimental import mesh_utils
    >>> mesh_utils.create_hybrid_device_mesh((1, 1), (1, 1), process_is_granule=True).shape
    (1, 1)
    """
    available = list(platforms.devices() if devices is None else devices)
    key = "process_index" if process_is_granule else "slice_index"
    groups: dict[int, list[Any]] = {}
    for device in available:
        if getattr(device, key, None) is None:
            raise ValueError(
                f"create_hybrid_device_mesh: {device!r} has no {key}, which says its group. With process_is_granule="
                "True a group is the devices of a process."
            )
        groups.setdefault(getattr(device, key), []).append(device)
    if math.prod(dcn_mesh_shape) != len(groups):
        raise ValueError(
            f"create_hybrid_device_mesh: dcn_mesh_shape={tuple(dcn_mesh_shape)} is a mesh of "
            f"{math.prod(dcn_mesh_shape)} groups, and by {key} there are {len(groups)}."
        )
    numbers = sorted(groups) if should_sort_granules_by_key else list(groups)
    meshes = [create_device_mesh(mesh_shape, groups[number]) for number in numbers]
    grid = np.stack(meshes).reshape(*dcn_mesh_shape, *mesh_shape)
    ndim = len(mesh_shape)
    order = [axis for pair in zip(range(ndim), range(ndim, 2 * ndim)) for axis in pair]
    return grid.transpose(order).reshape([n * m for n, m in zip(dcn_mesh_shape, mesh_shape)])
