"""The examples run as they stand, and what they print is right."""

import itertools
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def figures(capsys):
    """Runs an example and finds the numbers that its output has in the place of the group of a pattern."""

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


def test_every_example_is_run_and_short():
    files = sorted(EXAMPLES.glob("*.py"))
    assert {f"test_{file.stem}" for file in files} <= globals().keys()
    for file in files:
        assert len(file.read_text().splitlines()) < 150, file.name
