"""Values that pass between processes: `broadcast_one_to_all`, `process_allgather`, `sync_global_devices`,
`assert_equal`, `reached_preemption_sync_point`; arrays of all processes and of one."""

from xpr.api.multihost import (
    assert_equal,
    broadcast_one_to_all,
    global_array_to_host_local_array,
    host_local_array_to_global_array,
    process_allgather,
    reached_preemption_sync_point,
    sync_global_devices,
)

__all__ = [
    "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array", "host_local_array_to_global_array",
    "process_allgather", "reached_preemption_sync_point", "sync_global_devices",
]  # fmt: skip
