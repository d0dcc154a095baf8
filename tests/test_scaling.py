"""What the devices of a mesh send each other in a training step is what the arithmetic says, to the byte."""

import json
import os
import subprocess
import sys

from benchmarks.scaling import MESHES, ROWS_OF_A_DEVICE
from tests.compiler_options import QUICK_FLAGS


def test_the_compiled_step_communicates_as_the_closed_form_says():
    command = [sys.executable, "-m", "benchmarks.scaling", "2", "4", "8", "64", "--json"]
    environment = {**os.environ, "XLA_FLAGS": QUICK_FLAGS}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["data"], row["model"]) for row in rows] == [MESHES[n] for n in (2, 4, 8, 64)]
    for row in rows:
        assert row["counted"] == row["expected"]
    operations = [row["flops"] for row in rows]
    assert max(operations) < 1.01 * min(operations), f"{ROWS_OF_A_DEVICE} rows are the work of each device"
