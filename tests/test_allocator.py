"""Memory that is freed on CPU and kept: glibc's settings, and blocks of XLA."""

import ctypes
import os
import platform
import re
import threading

import pytest

import xpr
import xpr.numpy as jnp
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
    """Skips where there is none: blocks are kept in C."""
    if not native.available():
        pytest.skip("blocks are kept in C")


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


@pytest.fixture
def small_blocks(native_code):
    """The library with the functions of small_blocks.c."""
    library = ctypes.CDLL(native.LIBRARY)
    library.xpr_take_small.restype = ctypes.c_void_p
    library.xpr_take_small.argtypes = [ctypes.c_size_t]
    library.xpr_keep_small.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def libc():
    return ctypes.CDLL(None)


def aligned_block(size):
    address = ctypes.c_void_p()
    assert not libc().posix_memalign(ctypes.byref(address), ctypes.c_size_t(64), ctypes.c_size_t(size))
    return address.value


def free_kept(small_blocks, *sizes):
    """Frees the blocks that this thread has kept for these sizes in other tests."""
    for size in sizes:
        while block := small_blocks.xpr_take_small(size):
            libc().free(ctypes.c_void_p(block))


def test_small_blocks_are_kept_by_their_thread(small_blocks):
    size, taken_elsewhere = 78 * 64, []
    free_kept(small_blocks, size - 64, size, size + 64)
    blocks = [aligned_block(size) for _ in range(4)]
    assert not small_blocks.xpr_keep_small(blocks[0] + 8, size), "it is not aligned"
    assert not small_blocks.xpr_keep_small(blocks[0], 1 << 20), "it is not small"
    assert [small_blocks.xpr_keep_small(each, size + 8) for each in blocks] == [1, 1, 1, 0], "no more than 16 KiB"
    thread = threading.Thread(target=lambda: taken_elsewhere.append(small_blocks.xpr_take_small(size)))
    thread.start()
    thread.join()
    assert taken_elsewhere == [None]
    assert small_blocks.xpr_take_small(size + 1) is None and small_blocks.xpr_take_small(size - 64) is None
    assert [small_blocks.xpr_take_small(n) for n in (size, size - 63, size, size)] == [*blocks[2::-1], None]
    for each in blocks:
        libc().free(ctypes.c_void_p(each))


def test_small_results_that_are_freed_are_kept(small_blocks):
    x, size = jnp.ones(3000, jnp.int8), 3008
    result = xpr.jit(lambda x: x[::-1])(x).block_until_ready()
    address = result.unsafe_buffer_pointer()
    del result
    taken = []
    while block := small_blocks.xpr_take_small(size):
        taken.append(block)
    assert address in taken
    for each in taken:
        libc().free(ctypes.c_void_p(each))


def test_blocks_of_8_kib_are_the_largest_small_ones(small_blocks):
    free_kept(small_blocks, 8192)
    block = aligned_block(8192)
    assert small_blocks.xpr_keep_small(block, 8200)
    assert not any(map(small_blocks.xpr_take_small, (0, 8193, 8200, 8255, 8256, 1 << 20)))
    assert small_blocks.xpr_take_small(8192) == block
    assert not small_blocks.xpr_keep_small(block, 8256) and not small_blocks.xpr_keep_small(block, 63)
    libc().free(ctypes.c_void_p(block))


def test_results_around_8_kib_keep_to_their_blocks(native_code):
    source = """
        import numpy as np, xpr, xpr.numpy as jnp
        line = xpr.jit(lambda x: x + 1)
        for _ in range(1500):
            for n in (2048, 2049, 2063, 2064, 16, 17):
                results = [line(jnp.full(n, i, jnp.float32)) for i in range(4)]
                assert all((np.asarray(y) == i + 1).all() for i, y in enumerate(results))
        print("whole")
    """
    assert run_python(source) == "whole\n"


def test_what_a_thread_has_kept_is_freed_when_it_ends(native_code):
    """Each of 300 threads keeps 2 MB."""
    source = """
        import ctypes, re, threading
        from xpr.backend import native
        libc, library = ctypes.CDLL(None), ctypes.CDLL(native.LIBRARY)
        memory = lambda: int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10
        def keep():
            for size in range(64, 8193, 64):
                while True:
                    block = ctypes.c_void_p()
                    libc.posix_memalign(ctypes.byref(block), ctypes.c_size_t(64), ctypes.c_size_t(size))
                    ctypes.memset(block, 1, size)
                    if not library.xpr_keep_small(block, ctypes.c_size_t(size)):
                        libc.free(block)
                        break
        def run():
            thread = threading.Thread(target=keep)
            thread.start()
            thread.join()
        run()
        before = memory()
        for _ in range(300):
            run()
        print(memory() - before)
    """
    assert int(run_python(source)) < 30


def test_blocks_of_a_library_that_is_not_there_are_not_kept(native_code):
    assert not native.load().xpr_keep_blocks(b"no such library", 1)


def test_the_allocator_can_be_left_alone(monkeypatch):
    monkeypatch.setenv("XPR_TUNE_ALLOCATOR", "0")
    assert not allocator.is_untuned_glibc()
    allocator.release_memory()
