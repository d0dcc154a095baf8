"""`jax.experimental.multihost_utils`: `xpr.multihost_utils`."""

from xpr.multihost_utils import *  # noqa: F403
