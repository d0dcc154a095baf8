"""Options with which XLA compiles in a third of the time, without optimizing."""

from importlib.metadata import version
from typing import Any

QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
if tuple(map(int, version("jaxlib").split(".")[:2])) >= (0, 11):  # which has no such choice
    del QUICK["xla_cpu_use_fusion_emitters"]
