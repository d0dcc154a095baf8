"""`jax.experimental.shard_map`: `shard_map` by its old name."""

from xpr.api.shard_map import shard_map as shard_map
