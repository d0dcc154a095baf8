"""What the processor of this machine has: its model, its instructions, its cores."""

from __future__ import annotations

import os
import re

import numpy as np

# Instructions, as NumPy found them, by its names, "AVX2", and groups of them, "X86_V3".
FEATURES: dict[str, bool] = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]  # in no public module

# How many cores this process may use, so many threads XLA has.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def model_and_instructions() -> str:
    """The processor's model and its instruction sets, for which XLA:CPU makes code."""
    try:
        with open("/proc/cpuinfo") as file:
            cpuinfo = file.read().partition("\n\n")[0]  # of the first core; the others are like it
    except OSError:
        return os.uname().machine
    return "\n".join(sorted(set(re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", cpuinfo, re.M))))
