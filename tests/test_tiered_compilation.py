"""Tiered compilation: programs that are compiled quickly first, and replaced by optimized ones if they run for long."""

import math
import subprocess
import sys
import time

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.backend import buffers, compiler, devices, tiers
from xpr.backend.tiers import TieredProgram
from xpr.compile.lower import lower_jaxpr
from xpr.compile.tiering import is_tiered
from xpr.config import config

pytestmark = pytest.mark.optimized  # quick programs differ from others only so

X = np.linspace(-3.0, 3.0, 1000, dtype=np.float32)


@pytest.fixture
def tiered():
    config.update("tiered_compilation", True)
    yield
    config.update("tiered_compilation", False)
    compiler.forget_recent()


def compiled(fun, *args, **options):
    jaxpr = xpr.make_jaxpr(fun)(*args).jaxpr
    text = lower_jaxpr(jaxpr).text()
    return compiler.compile(text, jaxpr.out_avals, devices.default_device(), is_tiered=True, **options)


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_program_is_replaced_when_it_has_run_for_some_time(tiered):
    executable = compiled(lambda x: jnp.sin(x) * 2, X)
    program, buffer = executable.raw, jnp.asarray(X).buffer
    assert type(program) is TieredProgram and program.is_quick and executable.hot_path() is None
    quick = program.raw

    def run():
        np.testing.assert_allclose(
            buffers.get(executable.run([buffer])[0], executable.out_avals[0]), 2 * np.sin(X), rtol=1e-6
        )
        return not program.is_quick

    wait_until(run)
    run()
    assert program.raw is not quick and executable.hot_path() is not None
    assert type(compiled(lambda x: jnp.sin(x) * 2, X).raw) is not TieredProgram  # the optimized one is known by now


def test_a_program_in_the_background_is_replaced_after_some_runs(tiered):
    x = np.ones(100_000, np.float32)
    executable, buffer = compiled(lambda x: jnp.cos(x) + jnp.exp(x), x), jnp.asarray(x).buffer
    for _ in range(tiers.RUNS):
        assert executable.raw.is_quick
        executable.run([buffer])
    wait_until(lambda: not executable.raw.is_quick)


def test_a_program_that_can_not_be_optimized_stays():
    def fail():
        raise RuntimeError("no memory")

    program = TieredProgram("quick", fail, 0.0, False)
    program.replace()
    assert program.raw == "quick" and program.is_quick


def test_functions_and_operations_are_tiered_when_they_are_called(tiered, monkeypatch):
    made = []
    monkeypatch.setattr(compiler, "TieredProgram", lambda *args: made.append(TieredProgram(*args)) or made[-1])
    f = xpr.jit(lambda x: jnp.tanh(x) + 3)
    for _ in range(5):
        np.testing.assert_allclose(f(X), np.tanh(X) + 3, rtol=1e-6)
    jnp.cbrt(jnp.asarray(np.ones((300, 301), np.float32)))
    lax.fori_loop(0, 3, lambda i, x: x + 1.5, jnp.asarray(X))
    assert len(made) == 3
    f.lower(X[:10]).compile()(X[:10])
    xpr.jit(lambda x: jnp.sin(x) - 4, compiler_options={"xla_cpu_enable_fast_math": False})(X)
    assert len(made) == 3  # what is compiled ahead of time, or with options, is optimized at once


def test_programs_that_may_run_for_seconds_are_optimized_first(tiered):
    def loop(steps):
        return xpr.make_jaxpr(lambda x: lax.fori_loop(0, steps, lambda i, x: jnp.sin(x), x))(X).jaxpr

    assert is_tiered(loop(1000)) and not is_tiered(loop(1_000_000))
    unknown = xpr.make_jaxpr(lambda x: lax.while_loop(lambda x: x.sum() > 0, lambda x: x / 2, x))
    assert is_tiered(unknown(X).jaxpr) and not is_tiered(unknown(np.ones(10_000_000, np.float32)).jaxpr)
    branches = xpr.make_jaxpr(
        lambda p, x: lax.cond(p, lambda x: x, lambda x: lax.fori_loop(0, 10**6, lambda i, x: x + 1, x), x)
    )
    assert not is_tiered(branches(True, X).jaxpr)
    assert not is_tiered(xpr.make_jaxpr(lambda x: x + 1)(xpr.ShapeDtypeStruct((10**9,), np.float32)).jaxpr)
    config.update("tiered_compilation", False)
    assert not is_tiered(loop(1))


def test_optimized_programs_of_other_processes_are_used(tiered, tmp_path):
    before = config.compilation_cache_dir
    config.update("compilation_cache_dir", str(tmp_path))
    try:
        executable = compiled(lambda x: jnp.arctan(x) * math.pi, X)
        executable.raw.replace()
        compiler.forget_recent()
        assert type(compiled(lambda x: jnp.arctan(x) * math.pi, X).raw) is not TieredProgram
        assert len(list(tmp_path.iterdir())) == 2
    finally:
        config.update("compilation_cache_dir", before)


def test_a_process_may_end_while_a_program_is_optimized():
    program = """
import xpr, xpr.numpy as jnp
for n in range(3):
    f = xpr.jit(lambda x: sum(jnp.sin(x + i) for i in range(40 + n)))
    for _ in range(4):
        y = f(jnp.ones(100_000))
print(float(y[0]) != 0)
"""
    environment = {"XPR_TIERED_COMPILATION": "1", "XPR_PLATFORMS": "cpu", "XPR_COMPILATION_CACHE_DIR": ""}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert run.stdout == "True\n" and run.returncode == 0 and not run.stderr
