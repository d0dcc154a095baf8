"""`jax.experimental.checkify`: `xpr.checkify`."""

from xpr.checkify import *  # noqa: F403
