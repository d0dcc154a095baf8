"""Looking into running programs: prints, callbacks and breakpoints that work in compiled code."""

from xpr.control.breakpoint import breakpoint as breakpoint
from xpr.control.callback import debug_callback as callback
from xpr.control.debugging import debug_print as print

__all__ = ["breakpoint", "callback", "print"]
