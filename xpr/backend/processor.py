"""What the processor of this machine has: its instructions, as NumPy found them, and its cores."""

from __future__ import annotations

import os

import numpy as np

# Instructions by NumPy's names, "AVX2", and groups of them, "X86_V3"; those of other kinds of processors are not there.
FEATURES: dict[str, bool] = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]  # in no public module

# How many cores this process may use, so many threads XLA has.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
