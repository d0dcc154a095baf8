"""Decompositions and triangular systems of small matrices, which C computes on CPU: beside LAPACK's."""

import itertools

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr import numpy as jnp
from xpr.backend import native
from xpr.compile.lower import lower_jaxpr
from xpr.config_contexts import enable_x64
from xpr.primitives.linalg import small_matrices

pytestmark = pytest.mark.skipif(not native.available(), reason="the functions in C are not built (hatch_build.py)")
DTYPES = ["float32", "float64"]


@pytest.fixture
def both(monkeypatch):
    """Results of a function with C and without it."""

    def results(fun, *operands):
        found = []
        with enable_x64():
            for available in True, False:
                with monkeypatch.context() as patch:
                    patch.setattr(native, "available", lambda available=available: available)
                    found.append([np.asarray(x) for x in xpr.tree.leaves(xpr.jit(lambda *xs: fun(*xs))(*operands))])
        return found

    return results


def assert_close(found, expected):
    tolerance = 200 * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(found, expected, tolerance, tolerance * np.abs(expected).max(initial=1))


def text(fun, *operands):
    return lower_jaxpr(xpr.make_jaxpr(fun)(*operands).jaxpr, "cpu").text()


def positive(rng, count, n, dtype):
    x = rng.normal(size=(count, n, n))
    return (x @ np.swapaxes(x, -1, -2) + n * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (16, 16), (2, 5), (7, 3), (1, 4), (4, 1)])
def test_lu_is_lapacks(both, m, n, dtype):
    a = np.random.default_rng(0).normal(size=(2, 5, m, n)).astype(dtype)
    (factors, pivots, order), (expected, *positions) = both(lax.linalg.lu, a)
    assert_close(factors, expected)
    np.testing.assert_array_equal(pivots, positions[0])
    np.testing.assert_array_equal(order, positions[1])


def test_lu_of_singular_matrices_is_lapacks(both):
    a = np.array([[[1.0, 2, 3], [2, 4, 6], [1, 1, 1]], np.zeros((3, 3)), np.full((3, 3), np.nan)])
    a = np.concatenate([a, [[[0, 1, 0], [0, 0, 1], [-2, 0, 0]]]])
    for found, expected in zip(*both(lax.linalg.lu, a)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 12])
def test_cholesky_is_lapacks(both, n, dtype):
    a = positive(np.random.default_rng(0), 7, n, dtype)
    a[3] -= 9 * np.diag(np.diag(a[3]))  # not positive definite
    a[5, n - 1, n - 1] = np.nan
    (found,), (expected,) = both(lambda x: lax.linalg.cholesky(x, symmetrize_input=False), a)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert_close(np.nan_to_num(found), np.nan_to_num(expected))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("flags", [*itertools.product([True, False], repeat=4)])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 1), (3, 1), (2, 3), (5, 16), (16, 2), (16, 8)])
def test_triangular_systems_are_lapacks(both, n, m, flags, dtype):
    rng = np.random.default_rng(0)
    params = dict(zip(("left_side", "lower", "transpose_a", "unit_diagonal"), flags))
    a = (rng.normal(size=(6, n, n)) / n + 2 * np.eye(n)).astype(dtype)
    b = rng.normal(size=(6, n, m) if params["left_side"] else (6, m, n)).astype(dtype)
    (found,), (expected,) = both(lambda a, b: lax.linalg.triangular_solve(a, b, **params), a, b)
    assert_close(found, expected)


def test_many_matrices(both):
    """Threads divide them, where there are several."""
    rng = np.random.default_rng(0)
    a, b = positive(rng, 20_000, 4, np.float64), rng.normal(size=(20_000, 4, 1))
    (found,), (expected,) = both(jnp.linalg.solve, a, b)
    assert_close(found, expected)
    (found,), (expected,) = both(jnp.linalg.cholesky, a)
    assert_close(found, expected)


def test_rows_and_columns_in_other_places(both):
    """C takes matrices by rows, whatever the layouts of what they are computed from."""
    a = positive(np.random.default_rng(0), 5, 3, np.float64)
    a[:, 0] *= 2
    flipped = np.moveaxis(a, 0, 2)
    fun = xpr.vmap(lambda x: (jnp.linalg.inv(x), lax.linalg.lu(x.T)[0]), in_axes=2, out_axes=(1, 2))
    for found, expected in zip(*both(fun, flipped)):
        np.testing.assert_allclose(found, expected, 1e-10, 1e-12)


@pytest.mark.parametrize(("unit", "expected"), [(False, [[[1.5, 2.5]], [[1.5, 2.0]]]), (True, [[[3, 5]], [[6, 8]]])])
def test_systems_of_one_equation_are_quotients(both, unit, expected):
    a, b = np.float32([[[2.0]], [[4.0]]]), np.float32([[[3.0, 5.0]], [[6.0, 8.0]]])
    solve = lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, unit_diagonal=unit)
    assert "xpr_" not in text(solve, a, b)
    for (found,) in both(solve, a, b):
        np.testing.assert_array_equal(found, expected)


def test_many_matrices_are_decomposed_in_the_background():
    """XLA counts no operations in calls, so they have an operand of some."""
    for fun, n in ((lax.linalg.cholesky, 12), (lambda x: lax.linalg.lu(x)[0], 16)):
        few, many = (np.broadcast_to(np.eye(n, dtype=np.float32), (count, n, n)) for count in (10, 10_000))
        assert "tensor<1024xf32>" not in text(fun, few) and "tensor<1024xf32>" in text(fun, many)
    x = np.broadcast_to(np.eye(12, dtype=np.float32), (300, 12, 12))
    factor = xpr.jit(lambda x: lax.linalg.cholesky(x, symmetrize_input=False))
    assert factor.lower(x).compile().cost_analysis()["flops"] == 300 * 12**3 / 3


@pytest.mark.parametrize("conjugate", [True, False])
def test_conjugates_of_real_matrices_are_themselves(both, conjugate):
    a, b = np.tril(np.arange(1.0, 10).reshape(3, 3)), np.ones((3, 2))
    params = dict(left_side=True, lower=True, transpose_a=True, conjugate_a=conjugate)
    (found,), (expected,) = both(lambda a, b: lax.linalg.triangular_solve(a, b, **params), a, b)
    assert_close(found, expected)


def test_which_matrices_are_small():
    small, large = np.eye(16, dtype=np.float32), np.eye(17, dtype=np.float32)
    assert "xpr_small_lu" in text(lax.linalg.lu, small) and "getrf" in text(lax.linalg.lu, large)
    assert "getrf" in text(lax.linalg.lu, small.astype(np.complex64))
    assert "xpr_small_cholesky" in text(lax.linalg.cholesky, np.eye(small_matrices.LARGEST_CHOLESKY))
    assert "potrf" in text(lax.linalg.cholesky, small)
    assert "xpr_small_solve" in text(lax.linalg.triangular_solve, small, small[:8])
    assert "trsm" in text(lax.linalg.triangular_solve, small, small[:9])


def test_no_matrices_and_no_right_sides():
    assert lax.linalg.cholesky(np.ones((0, 3, 3), np.float32)).shape == (0, 3, 3)
    assert [x.shape for x in lax.linalg.lu(np.ones((2, 0, 3), np.float32))] == [(2, 0, 3), (2, 0), (2, 0)]
    assert lax.linalg.triangular_solve(np.eye(3, dtype=np.float32), np.ones((0, 3), np.float32)).shape == (0, 3)
