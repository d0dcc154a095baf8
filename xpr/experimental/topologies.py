"""`jax.experimental.topologies`: the devices that programs are compiled for; here those that are attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.backend import devices
from xpr.backend.devices import Device
from xpr.backend.sharding import Mesh
from xpr.experimental.mesh_utils import create_device_mesh

__all__ = ["Device", "TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


class TopologyDescription:
    """Devices that can be compiled for.

    Args:
      devices: a list of them.
    """

    def __init__(self, devices: list[Any]):
        self.devices = devices


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices of this process.

    Args:
      platform: "cpu" or "gpu"; None for the default one.

    Returns:
      A `TopologyDescription`.

    Raises:
      DeviceNotFound: there is no such platform.

    >>> from xpr.experimental import topologies
    >>> topologies.get_attached_topology("cpu").devices[0].platform
    'cpu'
    """
    return TopologyDescription(list(devices.devices(platform)))


def get_topology_desc(topology_name: str = "", platform: str | None = None, **kwargs: Any) -> TopologyDescription:
    """Devices that are not there, for which programs would be compiled ahead of time.

    Raises:
      NotImplementedError: always: neither XLA:CPU nor the CUDA plugin describes devices that are not attached.

    >>> from xpr.experimental import topologies
    >>> topologies.get_topology_desc(platform="cpu")
    Traceback (most recent call last):
        ...
    NotImplementedError: get_topology_desc: programs are compiled for attached devices of the platform 'cpu' only: ...
    """
    raise NotImplementedError(
        f"get_topology_desc: programs are compiled for attached devices of the platform {platform!r} only: "
        "get_attached_topology(platform). xpr.export writes programs that are compiled where they run."
    )


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """A mesh of the devices of a topology.

    Args:
      topo: the topology.
      mesh_shape: the sizes of its axes.
      axis_names: their names.
      contiguous_submeshes: has no effect; devices are numbered in a row.

    Returns:
      A `Mesh`.

    Raises:
      ValueError: there are fewer devices.

    >>> from xpr.experimental import topologies
    >>> topologies.make_mesh(topologies.get_attached_topology("cpu"), (1,), ("x",)).axis_names
    ('x',)
    """
    return Mesh(create_device_mesh(mesh_shape, list(topo.devices)), axis_names)
