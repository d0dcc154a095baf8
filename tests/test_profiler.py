"""Traces of programs: what is recorded, and when there is nothing to record."""

import pathlib

import pytest

import xpr
import xpr.numpy as jnp
from xpr import profiler


def test_events_are_recorded(tmp_path):
    @profiler.annotate_function
    def squared(x):
        return (x @ x).block_until_ready()

    with profiler.trace(tmp_path):
        with profiler.TraceAnnotation("outer"), profiler.StepTraceAnnotation("train", step_num=3):
            xpr.jit(squared)
            squared(jnp.ones((3, 3)))
    (file,) = pathlib.Path(tmp_path).rglob("*.xplane.pb")
    recorded = file.read_bytes()
    assert all(name in recorded for name in (b"outer", b"train", b"squared"))


def test_one_at_a_time(tmp_path):
    with pytest.raises(RuntimeError, match="no trace is being recorded"):
        profiler.stop_trace()
    with profiler.trace(tmp_path), pytest.raises(RuntimeError, match="a trace to .* is being recorded"):
        profiler.start_trace(tmp_path / "other")


def test_memory(tmp_path):
    profiler.save_device_memory_profile(tmp_path / "memory.prof", "cpu")
    assert (tmp_path / "memory.prof").stat().st_size > 0
