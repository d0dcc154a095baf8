"""Routines that programs on CUDA call on the host: SciPy's LAPACK, set up when a program that calls one is compiled."""

from __future__ import annotations

import importlib
from functools import cache

_MARKS = '"cuhybrid_', "@cuhybrid_"  # how the names of targets begin, in the generic form of text and in the pretty one


def is_called_by(text: str) -> bool:
    """Whether the text of a program, StableHLO or HLO, calls a routine."""
    return any(mark in text for mark in _MARKS)


@cache
def register() -> None:
    """Tells the routines, which XLA knows from the plugin, where LAPACK is."""
    importlib.import_module("jaxlib.gpu_solver").initialize_hybrid_kernels()
