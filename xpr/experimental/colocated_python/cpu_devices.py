"""The CPU devices on the hosts of other devices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from xpr.backend.devices import devices
from xpr.backend.mesh import Mesh

__all__ = ["colocated_cpu_devices"]


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices on the hosts of devices.

    Args:
      devices_or_mesh: a sequence of devices, or a `Mesh`.

    Returns:
      A list with a CPU device for each device; or a mesh of them with the same axes.

    Raises:
      ValueError: a process has fewer CPU devices than there are devices of it.

    >>> import xpr
    >>> from xpr.experimental.colocated_python import colocated_cpu_devices
    >>> [d.platform for d in colocated_cpu_devices(xpr.devices("cpu"))]
    ['cpu']
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        flat = colocated_cpu_devices(mesh.devices.flat)
        return Mesh(np.array(flat, object).reshape(mesh.devices.shape), mesh.axis_names, axis_types=mesh.axis_types)
    requested = list(devices_or_mesh)
    if all(device.platform == "cpu" for device in requested):
        return requested
    remaining: dict[int, list[Any]] = {}
    for device in devices("cpu"):
        remaining.setdefault(device.process_index, []).append(device)
    for index, count in Counter(device.process_index for device in requested).items():
        if len(remaining.get(index, ())) < count:
            raise ValueError(f"colocated_cpu_devices: process {index} has too few CPU devices.")
    return [remaining[device.process_index].pop(0) for device in requested]
