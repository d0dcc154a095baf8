"""The examples run as they stand, and what they print is right."""

import itertools
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compiler_options import QUICK_FLAGS

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def figures(capsys, monkeypatch):
    """Runs an example and finds the numbers that its output has in place of the group of a pattern."""
    monkeypatch.syspath_prepend(EXAMPLES)  # as where Python runs the file: for examples/common

    def run(name: str, *patterns: str) -> list[list[float]]:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        text = capsys.readouterr().out
        return [[float(number) for number in re.findall(pattern, text)] for pattern in patterns]

    return run


def test_newton_logistic_regression(figures):
    norms, losses, (error,), (accuracy,) = figures(
        "newton_logistic_regression",
        r"Newton step .* gradient norm (\S+)",
        r"loss (\S+)",
        r"greatest difference (\S+)",
        r"held-out accuracy (\S+)%",
    )
    assert len(norms) == 7 and norms[-1] < 1e-6
    *newton, descent = losses
    assert all(after <= before + 2e-6 for before, after in itertools.pairwise(newton))  # but for the last digit shown
    assert newton[-1] < descent
    assert error < 1e-6
    assert accuracy >= 90


def test_pendulum(figures):
    (length, true_length), (friction, true_friction), (error,), misfits = figures(
        "pendulum",
        r"(?:found|truth)  length (\S+)",
        r"(?:found|truth)  .* friction (\S+)",
        r"central difference: (\S+)",
        r"misfit (\S+)",
    )
    assert length == pytest.approx(true_length, rel=0.02)
    assert friction == pytest.approx(true_friction, rel=0.1)
    assert error < 1e-2
    assert misfits[-1] < misfits[0] / 500


def test_convolutional_network(figures):
    accuracies, losses = figures("convolutional_network", r"held-out accuracy (\S+)%", r"loss (\S+)")
    assert accuracies[-1] >= 97
    assert losses[-1] < losses[0]


def losses_printed(*command: str, **environment: str) -> list[float]:
    """The losses that the example for many devices prints when it is started so."""
    script = str(EXAMPLES / "training_on_many_devices.py")
    defaults = {"XPR_PLATFORMS": "cpu", "PYTHONPATH": str(EXAMPLES.parent), "XLA_FLAGS": QUICK_FLAGS}
    environment = {**os.environ, **defaults, **environment}
    done = subprocess.run(
        [sys.executable, *command, script], capture_output=True, text=True, env=environment, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [float(number) for number in re.findall(r"mean loss (\S+)", done.stdout)]


def test_training_on_many_devices():
    """One device, and two processes of two devices, train alike."""
    alone = losses_printed(XPR_NUM_CPU_DEVICES="1")
    perceptron, transformer, own_rows = alone[:3], alone[3:6], alone[6:]
    assert perceptron[-1] < 0.2 and transformer[-1] < 0.6
    assert own_rows == pytest.approx(perceptron, rel=1e-4)
    two_processes = ("-m", "xpr.launch", "-n", "2", "--devices-per-process", "2")
    assert losses_printed(*two_processes) == pytest.approx(alone, rel=1e-4)


def test_every_example_is_run_and_short():
    files = sorted(EXAMPLES.glob("*.py"))
    assert {f"test_{file.stem}" for file in files} <= globals().keys()
    for file in files:
        assert len(file.read_text().splitlines()) < 150, file.name


def test_examples_import_nothing_of_the_demo():
    assert not [file for file in EXAMPLES.rglob("*.py") if "xpr.demo" in file.read_text()]
