"""Tests that need eight devices: pytest runs each of these files in a process that has as many on the CPU.

The number is fixed when the CPU is first used, so the files are not collected with the others; test_eight_devices.py
starts the processes. To run one file: `XPR_NUM_CPU_DEVICES=8 pytest tests/eight_devices/key_cases.py`, for comparisons
with jax also with `XLA_FLAGS=--xla_force_host_platform_device_count=8`.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import helpers

HERE = Path(__file__).parent


def close(got: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """As helpers.close; devices add up in another order."""
    helpers.close(got, expected, tolerance)


def environment() -> dict[str, str]:
    """That of a process with eight devices, of jax too where it is installed."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    return {**os.environ, "XPR_NUM_CPU_DEVICES": "8", "XLA_FLAGS": flags, "XPR_PLATFORMS": "cpu"}


def run(*names: str) -> None:
    """Runs the tests of files, or some of them, in a process with eight devices."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += [str(HERE / name) for name in names]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=HERE.parent.parent, env=environment(), timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
