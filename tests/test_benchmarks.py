"""The benchmarks still run, and their table says what was measured. How long anything takes is never a test."""

import gc

import numpy as np
import pytest

import xpr
from benchmarks import case, passes
from benchmarks.__main__ import GROUPS
from benchmarks.measure import Row
from benchmarks.scripts import SCRIPTS
from benchmarks.table import header, line, summary
from tests.peer import agree

CASES = [
    pytest.param(each, id=f"{group}: {each.name}")
    for group, cases in GROUPS.items()
    for each in cases
    if group != "deep"  # the cases of "models" again, for longer
    if not (group == "models" and "without biases" in each.name)  # smaller programs of the same functions
    if not each.name.endswith("256 MB")  # arrays that are few and large, in place of many and small
    if group != "cpu" or each.name.endswith("float32 1e3")
    if group != "first_start" or each.name.endswith("eager numpy")  # each of the scripts is compared with jax below
]


@pytest.fixture
def short_runs(monkeypatch):
    """Programs are short, samples are single calls, and what other tests left is not looked at before them."""
    gc.freeze()
    monkeypatch.setattr(passes, "EQUATIONS", 2000)
    monkeypatch.setattr(case, "SAMPLE_SECONDS", 0.0)


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("benchmark", CASES)
def test_every_case_runs(benchmark):
    assert benchmark.sampler(xpr)() > 0


@pytest.mark.optimized
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_scripts_give_what_they_give_in_jax(script):
    results = agree(lambda library: script(library), tolerance=1e-4)
    for leaf in xpr.tree.leaves(results):
        assert np.isfinite(np.asarray(leaf, dtype=np.float64)).all()


def test_there_are_forty_two_scripts():
    assert len({script.__name__ for script in SCRIPTS}) == len(SCRIPTS) == 42


def test_a_row_compares_with_the_target():
    row = Row("eager", "x + x", {"xpr": 2e-6, "jax": 3e-6}, target=1.25)
    assert row.ratio == pytest.approx(1.5) and row.met
    assert line(row).split() == ["x", "+", "x", "2", "us", "3", "us", "1.50", "1.25", "yes"]
    assert len(line(row)) == len(header("eager"))


def test_a_row_without_jax_makes_no_comparison():
    row = Row("eager", "x + x", {"xpr": 0.25}, target=2)
    assert row.ratio is None and row.met is None
    assert line(row).split() == ["x", "+", "x", "250", "ms", "2.00"]


def test_a_row_of_bytes():
    row = Row("memory", "x + x", {"xpr": 2e6, "jax": 3e6}, target=None, unit="B")
    assert line(row).split() == ["x", "+", "x", "2", "MB", "3", "MB", "1.50"]


def test_the_summary_counts_the_targets_met():
    fast, slow = (Row("eager", "x", {"xpr": 1, "jax": jax}, target=2) for jax in (3, 1))
    assert summary([fast, slow]) == "1 of 2 targets met"
    assert summary([Row("numpy_ops", "x", {"xpr": 1}, target=None)]) == "no targets to compare with"
