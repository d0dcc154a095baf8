"""Functions of SciPy for arrays, in modules that are imported when they are asked for."""

import importlib
from typing import Any

__all__ = [
    "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial",
    "special", "stats",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"xpr.scipy.{name}")
    raise AttributeError(f"module 'xpr.scipy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
