"""The names of `jax.experimental`: `io_callback`, `checkify`."""

from xpr import checkify
from xpr.control.callback.callback import io_callback

__all__ = ["checkify", "io_callback"]
