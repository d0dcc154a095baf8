"""Options with which XLA compiles in a third of the time, without optimizing, and those that have it optimize again.

A program is compiled in one thread: dividing it among several takes a fifth more, and each processor has its own tests.
"""

from importlib.metadata import version
from typing import Any

QUICK: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
OPTIMIZED: dict[str, Any] = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True}
if tuple(map(int, version("jaxlib").split(".")[:2])) >= (0, 11):  # which has no such choice
    del QUICK["xla_cpu_use_fusion_emitters"], OPTIMIZED["xla_cpu_use_fusion_emitters"]

QUICK_FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in QUICK.items())  # XLA_FLAGS of processes
