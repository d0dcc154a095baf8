"""jaxlib's class of devices, for isinstance and annotations. Importing it loads jaxlib."""

from xpr.backend import runtime

Device = runtime._jax.Device
