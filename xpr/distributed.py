"""Several processes that run programs together: `initialize`, `shutdown`, `is_initialized`."""

from xpr.api.distributed import initialize as initialize
from xpr.api.distributed import is_initialized as is_initialized
from xpr.api.distributed import shutdown as shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
