"""Sorting, searching, sets, counting, differences and their kin against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import xpr
import xpr.numpy as jnp
from tests.helpers import check_grads_in_numpy
from tests.peer import check, evaluate, stage
from xpr.errors import ConcretizationTypeError

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
jnp.setxor1d(x, m, assume_unique=True, size=4)
jnp.setxor1d(x, empty, assume_unique=True, size=4)
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
jnp.setxor1d(n, n)
jnp.setxor1d(n, x)
jnp.setxor1d(x, m, assume_unique=True)
jnp.setxor1d(n, n, assume_unique=True)
jnp.setxor1d(empty, empty, assume_unique=True)
"""


def calls(table: str) -> list[str]:
    return [line for line in table.splitlines() if line]


@pytest.mark.parametrize("call", calls(SORTING + SETS_OF_KNOWN_SIZE))
def test_like_the_peer(call):
    check(call, NAMES)


@pytest.mark.parametrize("call", calls(SETS))
def test_like_the_peer_outside_jit(call):
    check(call, NAMES, staged=False)


COUNTING = """
jnp.bincount(x, length=3)
jnp.bincount(x, weights=y, length=5)
jnp.bincount(x - 2, length=5)
jnp.bincount(x.astype('uint8'), length=5)
jnp.bincount(x, minlength=9, length=3)
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


def test_the_kaiser_window_of_a_half_precision_parameter_is_computed_in_32_bits():
    np.testing.assert_allclose(jnp.kaiser(5, jnp.bfloat16(14)), np.kaiser(5, 14), rtol=1e-5)


def test_dtypes_of_histograms_of_points():
    """Points and weights meet in one dtype, and densities are of it, also where integers count in 64 bits."""
    points, weights = jnp.arange(6, dtype="float32").reshape(3, 2), np.arange(3, dtype="float16")
    with xpr.enable_x64(True):
        assert jnp.histogramdd(points, bins=2, density=True)[0].dtype == "float32"
        assert jnp.histogram2d(*points.T, bins=2, density=True)[0].dtype == "float32"
        assert jnp.histogramdd(points, bins=2)[0].dtype == "int64"
        for options in ({}, {"density": True}):
            counts, edges = jnp.histogramdd(
                points.astype("float16"), bins=2, weights=weights.astype("float32"), **options
            )
            assert counts.dtype == edges[0].dtype == "float32"
            assert jnp.histogramdd(points, bins=2, weights=weights, **options)[0].dtype == "float32"


def test_histograms_of_integers_need_no_promotion():
    x = np.array([[0, 3], [2, 5], [4, 0]], np.int8)
    expected = np.histogramdd(x, bins=[np.array([1, 2, 4]), 2])[0]
    with xpr.numpy_dtype_promotion("strict"):
        np.testing.assert_array_equal(jnp.histogramdd(jnp.asarray(x), bins=[jnp.array([1, 2, 4]), 2])[0], expected)
        assert jnp.histogram2d(jnp.arange(3), jnp.arange(3), bins=2)[0].tolist() == [[1, 0], [0, 2]]


COUNTING_OUTSIDE_JIT = """
jnp.bincount(x)
jnp.bincount(x, weights=y)
jnp.bincount(x, minlength=6)
jnp.bincount(jnp.array([-1, 1, 2]))
jnp.bincount(jnp.array([], int))
jnp.bincount(jnp.array([1, 2, 2], 'uint32'))
jnp.bincount(jnp.array([], 'uint32'))
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
jnp.gradient(y, 2.0 + 1j)
jnp.gradient(y * (1 + 2j), jnp.cumsum(y ** 2 + 1) * (1 - 1j))
jnp.gradient(y * (1 + 2j), jnp.cumsum(y ** 2 + 1))
jnp.gradient(r)
jnp.gradient(r, 2.0, 3.0)
jnp.gradient(r, 2, axis=1)
jnp.gradient(c)
jnp.gradient(y, jnp.array([0, 1, 3, 4, 7.0]))
jnp.gradient(m, axis=(0, 1))
jnp.gradient(jnp.array([1.0, np.inf, 2.0, 3.0]))
jnp.gradient(jnp.array([1.0, 1.001, 1.003, 1.006], "float16"))
jnp.trapezoid(jnp.arange(12.0).reshape(4, 3), dx=jnp.arange(9.0).reshape(3, 3), axis=0)
jnp.trapezoid(jnp.arange(12.0).reshape(4, 3), jnp.arange(12.0).reshape(4, 3) ** 2, axis=0)
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
    check(call, NAMES, staged=False)


OTHERS = """
jnp.allclose(x, x + 1e-7)
jnp.allclose(y, y + 1)
jnp.isclose(n, n)
jnp.isclose(n, n, equal_nan=True)
jnp.isclose(jnp.array([inf, 1, -inf]), jnp.array([inf, 1.0001, inf]), rtol=1e-3)
jnp.isclose(x, x)
jnp.isclose(b, b)
jnp.isclose(c, c + 1e-9)
jnp.isclose(r, r[:1], atol=1)
jnp.array_equal(x, x)
jnp.array_equal(x, m)
jnp.array_equal(n, n, equal_nan=True)
jnp.array_equiv(x, x[None])
jnp.array_equiv(x, m)
jnp.polyval(jnp.array([1, 2, 3]), x)
jnp.polyval(jnp.array([1, 2, 3.0]), 2)
jnp.polyval(y, r)
jnp.polyadd(x, y[:2])
jnp.polysub(x[:3], y)
jnp.polymul(x, y[:2])
jnp.polymul(c, c)
jnp.polyder(x, 2)
jnp.polyder(y)
jnp.polyint(x, 2, k=jnp.array([1, 2]))
jnp.polyint(y)
jnp.polyint(y, 3, k=2)
jnp.polydiv(jnp.array([1, 2, 3]), jnp.array([1.0, 1]))
jnp.polydiv(y, jnp.array([2.0, 1, 3]))
jnp.polydiv(jnp.array([1.0]), y)
jnp.poly(x)
jnp.nan_to_num(n)
jnp.nan_to_num(jnp.array([inf, -inf, nan]), nan=1, posinf=2)
jnp.nan_to_num(x)
jnp.nan_to_num(jnp.array([nan + 1j * inf]))
jnp.nan_to_num(n.astype('float16'))
jnp.i0(y)
jnp.i0(x)
jnp.hamming(5)
jnp.hanning(1)
jnp.bartlett(0)
jnp.blackman(4)
jnp.kaiser(5, 3.0)
jnp.kaiser(1, 3.0)
jnp.frexp(jnp.array([0, 1, -3.5, inf, nan, 1e30, 1e-30]))
jnp.frexp(x)
jnp.frexp(f)
jnp.frexp(y.astype('float16'))
jnp.spacing(jnp.array([1, -2, inf, 1e20]))
jnp.spacing(x)
jnp.spacing(y.astype('float16'))
jnp.packbits(b)
jnp.packbits(m, axis=0)
jnp.packbits(m, axis=1, bitorder='little')
jnp.unpackbits(bytes)
jnp.unpackbits(bytes, axis=0)
jnp.unpackbits(bytes, axis=1, count=30)
jnp.unpackbits(bytes, axis=1, count=-3, bitorder='little')
jnp.unpackbits(bytes, axis=1, count=-99)
"""


@pytest.mark.parametrize("call", calls(OTHERS))
def test_others(call):
    check(call, NAMES)


@pytest.mark.parametrize(
    "call",
    ["jnp.unique(x)", "jnp.union1d(x, m)", "jnp.intersect1d(x, m)", "jnp.setdiff1d(x, m)", "jnp.setxor1d(x, m)",
     "jnp.polymul(x, m[0], trim_leading_zeros=True)"],
)  # fmt: skip
def test_results_of_unknown_size_are_refused_under_jit(call):
    with pytest.raises(ConcretizationTypeError, match=r"size=|trim_leading_zeros"):
        stage(call, NAMES)


def test_bincount_names_the_way_out():
    with pytest.raises(ConcretizationTypeError, match="Give length="):
        stage("jnp.bincount(x)", NAMES)


ERRORS = [
    ("jnp.sort(x, axis=1)", ValueError, "out of bounds"),
    ("jnp.sort(x, kind='quicksort')", xpr.errors.ArgumentError, "stable="),
    ("jnp.lexsort(())", TypeError, "at least one key"),
    ("jnp.lexsort((x, m))", ValueError, "one shape"),
    ("jnp.partition(x, 5)", ValueError, "no position 5"),
    ("jnp.searchsorted(m, 1)", ValueError, "vector"),
    ("jnp.searchsorted(x, 1, side='middle')", ValueError, '"left" or "right"'),
    ("jnp.digitize(x, m)", ValueError, "vector"),
    ("jnp.unique(m, axis=2)", ValueError, "out of bounds"),
    ("jnp.unique(empty, size=2)", ValueError, "fill_value="),
    ("jnp.isin(x, m, method='magic')", ValueError, "method"),
    ("jnp.bincount(y)", TypeError, "counts integers"),
    ("jnp.bincount(m)", ValueError, "vector"),
    ("jnp.bincount(x, weights=m)", ValueError, "weights"),
    ("jnp.histogram(x, bins='auto')", TypeError, "number of bins"),
    ("jnp.histogram(empty)", ValueError, "no elements"),
    ("jnp.histogram2d(x, m)", ValueError, "one length"),
    ("jnp.histogramdd(x)", ValueError, "rows"),
    ("jnp.histogramdd(m, bins=[1, 2, 3])", ValueError, "3 axes"),
    ("jnp.diff(x, n=-1)", ValueError, "n is -1"),
    ("jnp.gradient(m, 1.0, 2.0, 3.0)", ValueError, "3 axes"),
    ("jnp.gradient(x[:1])", ValueError, "less than two"),
    ("jnp.gradient(x, edge_order=2)", NotImplementedError, "edge_order"),
    ("jnp.interp(1.0, m, m)", ValueError, "one length"),
    ("jnp.interp(1.0, s, y, left='zero')", ValueError, "extrapolate"),
    ("jnp.interp(1.0, s, y, period=0)", ValueError, "period"),
    ("jnp.unwrap(c)", ValueError, "angles"),
    ("jnp.polymul(m, m)", ValueError, "vectors"),
    ("jnp.polyder(x, -1)", ValueError, "m is -1"),
    ("jnp.polyint(x, 2, k=x)", ValueError, "vector of 2"),
    ("jnp.packbits(y)", TypeError, "takes bool"),
    ("jnp.packbits(b, bitorder='middle')", ValueError, "bitorder"),
    ("jnp.unpackbits(x)", TypeError, "takes u8"),
    ("jnp.i0(c)", TypeError, "real numbers"),
    ("jnp.frexp(c)", TypeError, "real floats"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        evaluate(call, xpr, NAMES)


@pytest.mark.parametrize(
    "call",
    ["jnp.sort(y)", "jnp.sort(y[:4].reshape(2, 2), axis=0)", "jnp.diff(y)", "jnp.gradient(y)[1:]", "jnp.polyval(y, r)",
     "jnp.interp(jnp.array([0.3, 4.0]), s, y)", "jnp.polymul(y, y)", "jnp.histogram(s, bins=3, weights=y)[0]",
     "jnp.unwrap(y)", "jnp.kaiser(4, y[0])", "jnp.trapezoid(y)"],
)  # fmt: skip
def test_derivatives(call):
    values = np.array([2.5, -1.0, 0.25, 7.0, 1.75], np.float32)
    check_grads_in_numpy(lambda y: evaluate(call, xpr, {**NAMES, "y": y}), (values,), order=1)


def test_unique_is_differentiable_where_values_are_known():
    values = jnp.array([3.0, 1.0, 3.0])
    np.testing.assert_array_equal(xpr.grad(lambda x: jnp.sum(jnp.unique(x) ** 2))(values), [6.0, 2.0, 0.0])
    assert jnp.unique(jnp.array([2, 2])).shape == (1,)


def test_unique_merges_nans_of_every_dtype():
    parts = [-0.0, 1.0, np.nan, -np.nan]
    for dtype, count in ((np.float16, 3), (jnp.bfloat16, 3), (np.float32, 3), (np.complex64, 5)):
        values = [complex(x, y) for x in parts for y in parts] if dtype is np.complex64 else parts
        x = jnp.array(np.array(values, dtype))
        for distinct in (jnp.unique(x), xpr.jit(lambda x, n=count: jnp.unique(x, size=n))(x)):
            assert distinct.shape == (count,) and int(jnp.isnan(distinct).sum()) == 1, (dtype, distinct)
        padded = xpr.jit(lambda x: jnp.unique(x, size=9))(x)
        assert int(jnp.isnan(padded).sum()) == 1


def test_setdiff1d_has_the_dtype_of_the_first_array():
    out = jnp.setdiff1d(jnp.array([1, 2, 4], np.float16), jnp.array([1, 2], np.float32))
    assert out.dtype == np.float16 and out.tolist() == [4]


def test_lcm_wraps_as_in_numpy():
    x, y = np.array([102, 17, -126], np.int8), np.array([5, -126, 17], np.int8)
    np.testing.assert_array_equal(jnp.lcm(x, y), np.lcm(x, y))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_searchsorted_in_vectors_of_every_length(dtype):
    rng = np.random.default_rng(0)
    for n in [*range(1, 70), 127, 128, 129, 1000]:
        a = np.sort(rng.normal(size=n) * 20).astype(dtype)
        v = np.concatenate([a, a + 1, rng.normal(size=9) * 30]).astype(dtype)
        v[:2] = v.min() - 1, v.max() + 1
        for side in ("left", "right"):
            found = jnp.searchsorted(a, v, side, method="scan")
            np.testing.assert_array_equal(found, np.searchsorted(a, v, side))


def test_positions_in_long_vectors_have_64_bits():
    long, one = (xpr.ShapeDtypeStruct(shape, np.float32) for shape in ((1 << 31,), ()))
    with xpr.enable_x64(True):
        assert xpr.eval_shape(jnp.searchsorted, long, one).dtype == np.int64
        assert xpr.eval_shape(jnp.searchsorted, one.update(shape=(9,)), one).dtype == np.int32
    with pytest.raises(OverflowError, match="2147483648 out of bounds for int32"):
        xpr.eval_shape(jnp.searchsorted, long, one)


def test_the_intersection_with_nothing_is_empty():
    nothing, some = jnp.zeros(0), jnp.arange(2.0)
    for x, y in ((nothing, nothing), (nothing, some), (some, nothing)):
        values, *indices = jnp.intersect1d(x, y, return_indices=True)
        assert values.shape == (0,) and [i.shape for i in indices] == [(0,), (0,)]
    assert jnp.intersect1d(nothing, some, size=2, fill_value=5).tolist() == [5, 5]


def test_lexsort_refuses_a_number():
    with pytest.raises(TypeError, match="takes a sequence of keys or an array of them, and got i32"):
        jnp.lexsort(1)


@pytest.mark.parametrize("bins", [0, -1])
def test_histograms_have_bins(bins):
    with pytest.raises(ValueError, match=f"histogram: bins is {bins}, and must be at least 1"):
        jnp.histogram(jnp.ones(3), bins)


def test_weights_of_points_must_be_as_many():
    with pytest.raises(ValueError, match=r"histogram: weights have shape \(3,\), and there are 4 points"):
        jnp.histogramdd(jnp.ones((4, 2)), weights=jnp.ones(3))
