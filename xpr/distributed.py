"""Several processes that run programs together: `initialize`, `shutdown`, `is_initialized`."""

from xpr.api.distributed import initialize, is_initialized, shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
