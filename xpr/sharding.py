"""Meshes of devices, and how arrays lie on them: `Mesh`, `PartitionSpec`, `NamedSharding`, `SingleDeviceSharding`."""

from xpr.api.current_mesh import get_abstract_mesh as get_abstract_mesh
from xpr.api.current_mesh import get_mesh as get_mesh
from xpr.api.current_mesh import set_mesh as set_mesh
from xpr.api.current_mesh import use_abstract_mesh as use_abstract_mesh
from xpr.backend.mesh import AbstractMesh as AbstractMesh
from xpr.backend.mesh import AxisType as AxisType
from xpr.backend.mesh import Mesh as Mesh
from xpr.backend.sharding import NamedSharding as NamedSharding
from xpr.backend.sharding import PartitionSpec as PartitionSpec
from xpr.backend.sharding import Shard as Shard
from xpr.backend.sharding import Sharding as Sharding
from xpr.backend.sharding import SingleDeviceSharding as SingleDeviceSharding
from xpr.control.devices.sharding_constraint import reshard as reshard

__all__ = [
    "AbstractMesh", "AxisType", "Mesh", "NamedSharding", "PartitionSpec", "Shard", "Sharding", "SingleDeviceSharding",
    "get_abstract_mesh", "get_mesh", "reshard", "set_mesh", "use_abstract_mesh",
]  # fmt: skip
