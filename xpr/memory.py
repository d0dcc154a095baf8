"""Memory spaces of arrays: `Space.Device` and `Space.Host`, for `device_put(x, Space.Host)`."""

from xpr.core.memory import MemorySpace

__all__ = ["Space"]

Space = MemorySpace
