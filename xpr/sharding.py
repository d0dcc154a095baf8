"""Meshes of devices, and the sharding of arrays: `Mesh`, `PartitionSpec`, `NamedSharding`, `SingleDeviceSharding`."""

from xpr.api.axis_types import auto_axes, explicit_axes
from xpr.api.current_mesh import get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh
from xpr.backend.device_class import Device
from xpr.backend.mesh import AbstractDevice, AbstractMesh, AxisType, Mesh
from xpr.backend.sharding import NamedSharding, PartitionSpec, Shard, Sharding, SingleDeviceSharding
from xpr.control.devices.sharding_constraint import reshard
from xpr.core.avals import ManualAxisType

__all__ = [
    "AbstractDevice", "AbstractMesh", "AxisType", "ManualAxisType", "Mesh", "NamedSharding", "PartitionSpec", "Shard",
    "Sharding", "SingleDeviceSharding", "auto_axes", "explicit_axes", "get_abstract_mesh", "get_mesh",
    "make_single_device_sharding", "reshard", "set_mesh", "use_abstract_mesh",
]  # fmt: skip


def make_single_device_sharding(device: Device, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The sharding of a whole array on one device.

    Args:
      device: the device.
      memory_kind: "device", which None is, too, "pinned_host" or "unpinned_host".

    Returns:
      A `SingleDeviceSharding`.

    Raises:
      ValueError: there is no such kind of memory.

    >>> import xpr
    >>> xpr.sharding.make_single_device_sharding(xpr.devices("cpu")[0])
    SingleDeviceSharding(device=CpuDevice(id=0))
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)
