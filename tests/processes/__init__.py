"""Tests that need several processes: each starts some on the loopback, that run one function of cases.py."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.compiler_options import QUICK_FLAGS
from xpr.backend.links import free_port

ROOT = Path(__file__).parent.parent.parent
KEPT_OUT = ("XPR_", "JAX_", "SLURM_", "OMPI_", "PMIX_", "XLA_FLAGS")


class Ended(NamedTuple):
    """What became of a process."""

    code: int
    text: str


def environment(**more: str) -> dict[str, str]:
    """This process's, without what says how many processes or devices there are; programs are compiled quickly."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(KEPT_OUT)}
    return {**kept, "XPR_PLATFORMS": "cpu", "PYTHONUNBUFFERED": "1", "XLA_FLAGS": QUICK_FLAGS, **more}


def start(
    case: str, index: int, count: int, address: str, devices: int = 1, before: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Starts a process that runs a function of cases.py; `before` is a command that starts commands."""
    more = {
        "XPR_COORDINATOR_ADDRESS": address,
        "XPR_NUM_PROCESSES": str(count),
        "XPR_PROCESS_ID": str(index),
        "XPR_NUM_CPU_DEVICES": str(devices),
    }
    return subprocess.Popen(
        [*before, sys.executable, "-m", "tests.processes.cases", case], cwd=ROOT, env=environment(**more), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def wait(started: Sequence[subprocess.Popen[str]], timeout: float = 120) -> list[Ended]:
    """Waits for all, and kills those that take too long."""
    try:
        texts = [each.communicate(timeout=timeout)[0] for each in started]
        return [Ended(each.returncode, text) for each, text in zip(started, texts)]
    finally:
        for each in started:
            if each.poll() is None:
                each.kill()


def run(case: str, count: int, devices: int = 1) -> list[Ended]:
    """Runs a function of cases.py in several processes."""
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    return wait([start(case, i, count, address, devices) for i in range(count)])


def all_well(ended: Sequence[Ended]) -> None:
    for i, each in enumerate(ended):
        assert each.code == 0 and each.text.rstrip().endswith("done"), f"process {i}: {each.code}\n{each.text[-6000:]}"
