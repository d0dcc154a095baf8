"""Sorting, searching, sets, counting, differences and their kin against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.numpy_table import check

rng = np.random.default_rng(0)
NAMES = {
    "x": np.array([3, 1, 2, 3, 1], np.int32),
    "y": np.array([2.5, -1.0, 0.0, 7.0, 2.5], np.float32),
    "m": np.array([[1, 2], [1, 2], [0, 5]], np.int32),
    "r": np.array([[3.0, -1.0, 2.5], [0.0, 4.0, -2.0]], np.float32),
    "n": np.array([np.nan, 1.0, np.nan, 1.0, -np.inf], np.float32),
    "f": np.array([2.5, -1.0, 0.0, 7.0, 2.5], bfloat16),
    "b": np.array([True, False, True, True, False]),
    "c": np.array([1 + 2j, 1 - 1j, -3j, 0], np.complex64),
    "s": np.array([-1.0, 0.5, 0.5, 2.0, 9.0], np.float32),
    "long": np.sort(rng.integers(0, 50, 100)).astype(np.int32),
    "q": rng.integers(-5, 60, (4, 7)).astype(np.int32),
    "empty": np.zeros(0, np.float32),
    "bytes": np.array([[5, 255, 0], [3, 128, 77]], np.uint8),
}

SORTING = """
jnp.sort(x)
jnp.sort(r)
jnp.sort(r, axis=0)
jnp.sort(r, axis=None)
jnp.sort(n)
jnp.sort(n, descending=True)
jnp.sort(f)
jnp.sort(b)
jnp.sort(c)
jnp.sort(empty)
jnp.argsort(x)
jnp.argsort(x, descending=True)
jnp.argsort(n, descending=True)
jnp.argsort(r, axis=0)
jnp.argsort(r, axis=None)
jnp.argsort(c)
jnp.argsort(x, dtype='int8')
jnp.argsort(x, stable=False)
jnp.lexsort(m)
jnp.lexsort((x, y))
jnp.lexsort((y, x, b))
jnp.lexsort(r, axis=0)
jnp.partition(x, 2)[2]
jnp.sort(jnp.partition(x, 2)[:2])
jnp.take(x, jnp.argpartition(x, 2))[2]
jnp.sort_complex(x)
jnp.sort_complex(c)
jnp.searchsorted(s, y)
jnp.searchsorted(s, y, side='right')
jnp.searchsorted(s, 0.5)
jnp.searchsorted(long, q)
jnp.searchsorted(long, q, side='right')
jnp.searchsorted(long, q, method='sort')
jnp.searchsorted(long, q, side='right', method='sort')
jnp.searchsorted(long, q, method='compare_all')
jnp.searchsorted(long, q, side='right', method='scan_unrolled')
jnp.searchsorted(long, q * 1.5)
jnp.searchsorted(y, 2.0, sorter=jnp.argsort(y))
jnp.searchsorted(jnp.array([1, 2, nan]), jnp.array([nan, 2, 5]))
jnp.searchsorted(jnp.array([1, 2, nan]), jnp.array([nan, 2, 5]), side='right')
jnp.searchsorted(empty, y)
jnp.digitize(y, s)
jnp.digitize(y, s, right=True)
jnp.digitize(y, s[::-1])
jnp.digitize(y, s[::-1], right=True)
jnp.digitize(r, s)
"""

SETS_OF_KNOWN_SIZE = """
jnp.unique(x, return_index=True, return_inverse=True, return_counts=True, size=5)
jnp.unique(x, return_index=True, return_inverse=True, return_counts=True, size=5, fill_value=9)
jnp.unique(x, return_index=True, return_inverse=True, return_counts=True, size=2)
jnp.unique(n, size=4, return_counts=True)
jnp.unique(n, size=5, equal_nan=False, return_counts=True)
jnp.unique(m, axis=0, size=3, return_inverse=True, return_counts=True)
jnp.unique(m, axis=0, size=3, fill_value=7, return_index=True)
jnp.unique(m, axis=1, size=1)
jnp.unique(m, size=4, return_inverse=True)
jnp.unique(empty, size=3, fill_value=2)
jnp.unique_values(x, size=4)
jnp.unique_counts(x, size=4)
jnp.unique_inverse(x, size=4)
jnp.unique_all(x, size=4)
jnp.union1d(x, m, size=7)
jnp.union1d(x, m, size=7, fill_value=-1)
jnp.intersect1d(x, m, size=4)
jnp.intersect1d(x, m, size=4, return_indices=True)
jnp.intersect1d(x, m, size=4, return_indices=True, fill_value=-1)
jnp.intersect1d(x, m, size=1)
jnp.intersect1d(long, q, size=9)
jnp.setdiff1d(x, m, size=3)
jnp.setdiff1d(x, m, size=3, fill_value=9)
jnp.setdiff1d(q, long, size=12)
jnp.setxor1d(x, m, size=3)
jnp.setxor1d(x, m, size=5, fill_value=9)
jnp.isin(x, m)
jnp.isin(m, x, invert=True)
jnp.isin(n, n)
jnp.isin(x, empty)
jnp.isin(q, long)
jnp.isin(q, long, method='compare_all')
jnp.isin(x, y)
"""

SETS = """
jnp.unique(x)
jnp.unique(x, return_index=True, return_inverse=True, return_counts=True)
jnp.unique(n)
jnp.unique(n, equal_nan=False)
jnp.unique(f)
jnp.unique(b)
jnp.unique(m, axis=0, return_index=True, return_inverse=True, return_counts=True)
jnp.unique(m, axis=1)
jnp.unique(m, return_inverse=True)
jnp.unique(empty)
jnp.unique_all(x)
jnp.unique_counts(n)
jnp.union1d(x, m)
jnp.union1d(x, y)
jnp.intersect1d(x, m)
jnp.intersect1d(x, m, return_indices=True)
jnp.intersect1d(long, q)
jnp.setdiff1d(x, m)
jnp.setdiff1d(q, long)
jnp.setxor1d(x, m)
jnp.setxor1d(x, y)
"""


def calls(table: str) -> list[str]:
    return [line for line in table.splitlines() if line]


@pytest.mark.parametrize("call", calls(SORTING + SETS_OF_KNOWN_SIZE))
def test_like_the_peer(call):
    check(call, NAMES)


@pytest.mark.parametrize("call", calls(SETS))
def test_like_the_peer_outside_jit(call):
    check(call, NAMES, jit=False)


COUNTING = """
jnp.bincount(x, length=3)
jnp.bincount(x, weights=y, length=5)
jnp.bincount(x - 2, length=5)
jnp.bincount(x.astype('uint8'), length=5)
jnp.histogram(y)
jnp.histogram(x, bins=3)
jnp.histogram(x, bins=3, range=(0, 4), density=True)
jnp.histogram(x, bins=jnp.array([0, 1, 2.5, 3]), weights=jnp.arange(5))
jnp.histogram(jnp.ones(3), bins=2)
jnp.histogram(r, bins=4)
jnp.histogram(f, bins=2)
jnp.histogram_bin_edges(x, bins=2)
jnp.histogram_bin_edges(x, bins=2, range=(1, 1))
jnp.histogram_bin_edges(x, bins=jnp.array([0, 1, 2]))
jnp.histogram2d(x, x, bins=2)
jnp.histogram2d(x, y, bins=[2, jnp.array([0, 1.0, 3])], density=True)
jnp.histogramdd(m, bins=2)
jnp.histogramdd(m, bins=[2, 1], range=[None, (0, 4)], weights=jnp.arange(3))
jnp.histogramdd(r.T, bins=4, density=True)
"""

COUNTING_OUTSIDE_JIT = """
jnp.bincount(x)
jnp.bincount(x, weights=y)
jnp.bincount(x, minlength=6)
jnp.bincount(jnp.array([-1, 1, 2]))
jnp.bincount(jnp.array([], int))
"""

CALCULUS = """
jnp.diff(x)
jnp.diff(x, n=2, prepend=0, append=jnp.array([1, 2]))
jnp.diff(b)
jnp.diff(m, axis=0, n=0)
jnp.diff(m, axis=0, append=m[:1])
jnp.diff(r, n=3)
jnp.ediff1d(m, to_end=jnp.array([9, 9]), to_begin=-1)
jnp.ediff1d(y)
jnp.gradient(x)
jnp.gradient(y, 2.0)
jnp.gradient(r)
jnp.gradient(r, 2.0, 3.0)
jnp.gradient(r, 2, axis=1)
jnp.gradient(c)
jnp.gradient(y, jnp.array([0, 1, 3, 4, 7.0]))
jnp.gradient(m, axis=(0, 1))
jnp.trapezoid(x)
jnp.trapezoid(m, jnp.array([0, 2]), axis=1)
jnp.trapezoid(m, dx=0.5, axis=0)
jnp.trapezoid(r, r ** 2)
jnp.trapezoid(c)
jnp.interp(jnp.array([0.5, -1, 7]), jnp.array([0, 1, 2]), jnp.array([1, 3, 2]))
jnp.interp(jnp.array([0.5, -1, 7]), jnp.array([0, 1, 2]), jnp.array([1, 3, 2]), left=0, right='extrapolate')
jnp.interp(0.5, jnp.array([0, 1, 2.0]), jnp.array([1, 3, 2.0]), period=2.5)
jnp.interp(r, s, y, period=3)
jnp.interp(r, s, y)
jnp.interp(jnp.array([0.5]), jnp.array([0, 1, 2.0]), jnp.array([1, 3, 2j]))
jnp.interp(y, jnp.array([1.0]), jnp.array([5.0]))
jnp.unwrap(jnp.array([0, 3, 7, 13.0]))
jnp.unwrap(x, period=2)
jnp.unwrap(x)
jnp.unwrap(r, axis=0, discont=4)
jnp.unwrap(r * 3)
"""


@pytest.mark.parametrize("call", calls(COUNTING + CALCULUS))
def test_counting_and_calculus(call):
    check(call, NAMES)


@pytest.mark.parametrize("call", calls(COUNTING_OUTSIDE_JIT))
def test_counting_outside_jit(call):
    check(call, NAMES, jit=False)
