"""Memory that is freed on CPU and kept: glibc's settings, and large blocks of XLA."""

import os
import platform
import re

import pytest

from tests.helpers import run_python
from xpr.backend import allocator, native


@pytest.mark.parametrize(
    "name, value",
    [("MALLOC_ARENA_MAX", "1"), ("GLIBC_TUNABLES", "glibc.rtld.nns=8:glibc.malloc.top_pad=1"), ("LD_PRELOAD", "x.so")],
)
def test_the_users_allocator_settings_win(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert not allocator.is_untuned_glibc()


@pytest.fixture
def nothing_chosen(monkeypatch):
    """No settings of the user's; skips where there are none of ours."""
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("only glibc's allocator is tuned")
    for name in [*filter(re.compile("MALLOC_|GLIBC_TUNABLES|LD_PRELOAD|XPR_TUNE").match, os.environ)]:
        monkeypatch.delenv(name)


def test_larger_pages_go_with_our_settings(monkeypatch, nothing_chosen):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    assert allocator.is_untuned_glibc()


def test_freed_results_are_not_paged_in_anew(nothing_chosen):
    """40 MB are 10,240 pages, which each thread that computes touches once."""
    source = """
        import resource, xpr, xpr.numpy as jnp
        f, x = xpr.jit(lambda x: x + 1.0), jnp.ones(10 << 20)
        faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        before = faults()
        for _ in range(60):
            f(x).block_until_ready()
        print(faults() - before)
    """
    kept, anew = (int(run_python(source, NPROC="2", XPR_TUNE_ALLOCATOR=tuned)) for tuned in "10")
    assert kept < anew / 2


@pytest.fixture
def native_code(nothing_chosen):
    """Skips where there is none: large blocks are kept in C."""
    if not native.available():
        pytest.skip("large blocks are kept in C")


def test_large_blocks_are_kept(native_code):
    """80 MB are 19,531 pages of 4 KB, or 39 of 2 MB."""
    source = """
        import resource, xpr, xpr.numpy as jnp
        xpr.config.update("enable_x64", True)
        f, x = xpr.jit(lambda x: jnp.log1p(x) * x), jnp.ones(10_000_000)
        faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(3):
            assert (f(x) == f(x)[0]).all()
        before = faults()
        for _ in range(10):
            f(x).block_until_ready()
        print(faults() - before)
    """
    kept, anew = (int(run_python(source, NPROC="2", XPR_TUNE_ALLOCATOR=tuned)) for tuned in "10")
    assert kept < anew / 20


def test_kept_blocks_are_for_their_size_and_can_be_freed(native_code):
    source = """
        import re, numpy as np, xpr, xpr.numpy as jnp
        memory = lambda: int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10
        f = xpr.jit(lambda x: x * x + 1)
        f(jnp.ones(1)).block_until_ready()
        before = memory()
        for megabytes in (50, 55, 40, 120, 33, 50, 120):
            result = np.asarray(f(np.full(megabytes << 18, megabytes, np.float32)))
            assert result.size == megabytes << 18 and (result == megabytes**2 + 1).all()
        del result
        kept = memory()
        xpr.clear_caches()
        print(kept - before, memory() - before)
    """
    kept, freed = map(int, run_python(source).split())
    assert kept > 150 and freed < 100, (kept, freed)


def test_blocks_of_a_library_that_is_not_there_are_not_kept(native_code):
    assert not native.load().xpr_keep_large_blocks(b"no such library", 1)


def test_the_allocator_can_be_left_alone(monkeypatch):
    monkeypatch.setenv("XPR_TUNE_ALLOCATOR", "0")
    assert not allocator.is_untuned_glibc()
    allocator.release_memory()
