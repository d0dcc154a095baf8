"""Programs on several devices: `pmap`, `shard_map`, sharding constraints."""
