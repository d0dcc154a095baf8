"""What JAX has under `jax.experimental`, by the same names: `io_callback`, `checkify`."""

from xpr import checkify as checkify
from xpr.control.callback.callback import io_callback as io_callback

__all__ = ["checkify", "io_callback"]
