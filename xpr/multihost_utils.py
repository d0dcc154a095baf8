"""Values that pass between processes: `broadcast_one_to_all`, `process_allgather`, `sync_global_devices`,
`assert_equal`."""

from xpr.api.multihost import assert_equal, broadcast_one_to_all, process_allgather, sync_global_devices

__all__ = ["assert_equal", "broadcast_one_to_all", "process_allgather", "sync_global_devices"]
