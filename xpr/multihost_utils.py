"""Values that pass between processes: `broadcast_one_to_all`, `process_allgather`, `sync_global_devices`,
`assert_equal`."""

from xpr.api.multihost import assert_equal as assert_equal
from xpr.api.multihost import broadcast_one_to_all as broadcast_one_to_all
from xpr.api.multihost import process_allgather as process_allgather
from xpr.api.multihost import sync_global_devices as sync_global_devices

__all__ = ["assert_equal", "broadcast_one_to_all", "process_allgather", "sync_global_devices"]
