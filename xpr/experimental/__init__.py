"""The names of `jax.experimental`: `io_callback`, `checkify`."""

from xpr import checkify
from xpr.control.callback.callback import io_callback
from xpr.control.hi_types.box import cur_qdd

__all__ = ["checkify", "cur_qdd", "io_callback"]
