"""Looking into running programs: prints, callbacks and breakpoints in compiled code; the sharding of arrays."""

from xpr.api.explain_cache import explain_cache
from xpr.control.callback.breakpoint import breakpoint
from xpr.control.callback.callback import debug_callback as callback
from xpr.control.callback.debug_print import debug_log as log
from xpr.control.callback.debug_print import debug_print as print
from xpr.control.devices.inspect_sharding import inspect_array_sharding
from xpr.control.devices.visualize import visualize_array_sharding, visualize_sharding
from xpr.control.progress.progress import progress

__all__ = [
    "breakpoint", "callback", "explain_cache", "inspect_array_sharding", "log", "print", "progress",
    "visualize_array_sharding", "visualize_sharding",
]  # fmt: skip
