"""Looking into running programs: prints, callbacks and breakpoints that work in compiled code; where arrays lie."""

from xpr.control.callback.breakpoint import breakpoint as breakpoint
from xpr.control.callback.callback import debug_callback as callback
from xpr.control.callback.debug_print import debug_log as log
from xpr.control.callback.debug_print import debug_print as print
from xpr.control.devices.inspect_sharding import inspect_array_sharding as inspect_array_sharding
from xpr.control.devices.visualize import visualize_array_sharding as visualize_array_sharding
from xpr.control.devices.visualize import visualize_sharding as visualize_sharding

__all__ = [
    "breakpoint", "callback", "inspect_array_sharding", "log", "print", "visualize_array_sharding",
    "visualize_sharding",
]  # fmt: skip
