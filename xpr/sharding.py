"""Meshes of devices, and how arrays lie on them: `Mesh`, `PartitionSpec`, `NamedSharding`, `SingleDeviceSharding`."""

from xpr.backend.sharding import Mesh as Mesh
from xpr.backend.sharding import NamedSharding as NamedSharding
from xpr.backend.sharding import PartitionSpec as PartitionSpec
from xpr.backend.sharding import Shard as Shard
from xpr.backend.sharding import Sharding as Sharding
from xpr.backend.sharding import SingleDeviceSharding as SingleDeviceSharding

__all__ = ["Mesh", "NamedSharding", "PartitionSpec", "Shard", "Sharding", "SingleDeviceSharding"]
