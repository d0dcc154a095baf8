"""`jax.experimental.custom_partitioning`: functions that say themselves how they are computed on several devices."""

from xpr.control.devices.custom_partitioning import custom_partitioning, custom_partitioning_p
from xpr.control.devices.sharding_rules import BATCHING, ArrayMapping, CompoundFactor, SdyShardingRule

__all__ = [
    "BATCHING", "ArrayMapping", "CompoundFactor", "SdyShardingRule", "custom_partitioning", "custom_partitioning_p",
]  # fmt: skip
