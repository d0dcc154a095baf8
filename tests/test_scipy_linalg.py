"""xpr.scipy.linalg: what jax gives, derivatives, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import check_grads_in_numpy
from tests.peer import JAX, beside_jax, leaves
from tests.test_linalg import ARRAYS, positive
from tests.test_numpy_creation import calls
from xpr.scipy import linalg

CALLS = """
sl.det(a) | sl.inv(b) | sl.solve(a, v) | sl.solve(b, n) | sl.solve(p, m, assume_a="pos")
sl.solve(h, m, assume_a="pos")
sl.solve(p, v, lower=True, assume_a="pos") | sl.solve(a, v, assume_a="sym")
sl.solve_triangular(a, v) | sl.solve_triangular(a, m, lower=True) | sl.solve_triangular(a, v, 1)
sl.solve_triangular(c, v, "C")
sl.solve_triangular(a, m, trans="T", lower=True, unit_diagonal=True) | sl.solve_triangular(b, n)
sl.cholesky(p) | sl.cholesky(q, lower=True) | sl.cholesky(h)
sl.cholesky(np.triu(p)) | sl.cholesky(np.tril(q), lower=True) | sl.cholesky(np.triu(h)) | sl.cho_factor(np.triu(h))[0]
sl.cho_solve(sl.cho_factor(np.tril(p), True), v) | sl.solve(np.triu(p), v, assume_a="pos")
sl.cho_factor(p)[0] | sl.cho_solve(sl.cho_factor(p), v) | sl.cho_solve(sl.cho_factor(h, lower=True), m)
sl.cho_solve(sl.cho_factor(p, True), m) | sl.cho_solve(sl.cho_factor(h), v) | sl.cho_solve(sl.cho_factor(q), n)
sl.lu_factor(a) | sl.lu_factor(b) | sl.lu_factor(t) | sl.lu(a) | sl.lu(t) | sl.lu(w) | sl.lu(c)
sl.lu(a[::-1], permute_l=True)
sl.lu_solve(sl.lu_factor(a), v) | sl.lu_solve(sl.lu_factor(a), m, 1) | sl.lu_solve(sl.lu_factor(c), m, 2)
sl.lu_solve(sl.lu_factor(b), n) | sl.lu_solve(sl.lu_factor(c), v, trans=1)
sl.qr(t) | sl.qr(t, mode="economic") | sl.qr(w, mode="r") | sl.qr(t, pivoting=True)
sl.qr(w, mode="economic", pivoting=True)
sl.eigh(p) | sl.eigh(p, eigvals_only=True) | sl.eigh(a, lower=False) | sl.svd(t) | sl.svd(t, full_matrices=False)
sl.svd(c, compute_uv=False) | sl.expm(a) | sl.expm(c) | sl.expm(b) | sl.expm(9 * a)
sl.expm(a * np.tri(3).T, upper_triangular=True)
sl.expm(s) | sl.expm(1e9 * a) | sl.expm(i) | sl.block_diag(a, m, v) | sl.block_diag(i, 2.0) | sl.block_diag(t)
sl.toeplitz(v) | sl.toeplitz(c[0]) | sl.toeplitz(v, u)
"""


def arrays_in(call: str) -> dict[str, np.ndarray]:
    return {name: ARRAYS[name] for name in compile(call, "<call>", "eval").co_names if name in ARRAYS}


def evaluated(call: str, library: Any, scipy: Any) -> list[Any]:
    names = {name: library.asarray(value) for name, value in arrays_in(call).items()}
    return leaves(eval(call, {"sl": scipy, "np": np, **names}))


@pytest.mark.parametrize("call", calls(CALLS))
def test_as_jax(call: str) -> None:
    ours = evaluated(call, jnp, linalg)

    def compare(theirs: list[Any]) -> None:
        assert len(ours) == len(theirs)
        for x, y in zip(ours, theirs, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-3 * min(1, np.abs(y).max(initial=1)))

    beside_jax(call, arrays_in(call), lambda: evaluated(call, JAX.numpy, JAX.scipy.linalg), compare)


DIFFERENTIATED = {
    "expm": (lambda p: linalg.expm(p / 9), "p"), "expm of stacks": (linalg.expm, "b"),
    "cho_solve": (lambda p, v: linalg.cho_solve(linalg.cho_factor(p), v), "p", "v"),
    "lu_solve": (lambda a, v: linalg.lu_solve(linalg.lu_factor(a), v, 1), "a", "v"),
    "solve of positive definite ones": (lambda p, v: linalg.solve(p, v, assume_a="pos"), "p", "v"),
    "lu": (linalg.lu, "t"), "solve_triangular": (linalg.solve_triangular, "a", "v"),
    "block_diag": (linalg.block_diag, "a", "v"), "toeplitz": (linalg.toeplitz, "v"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives(name: str) -> None:
    fun, *arguments = DIFFERENTIATED[name]
    with xpr.enable_x64():
        check_grads_in_numpy(fun, [ARRAYS[x].astype(np.float64) for x in arguments], order=1)


def test_exponentials() -> None:
    with xpr.enable_x64():
        a = np.random.default_rng(1).normal(size=(5, 5)) * 3
        w, v = np.linalg.eig(a)
        np.testing.assert_allclose(linalg.expm(a), ((v * np.exp(w)) @ np.linalg.inv(v)).real, rtol=1e-9)
        symmetric = positive(a)
        product = linalg.expm(symmetric / 9) @ linalg.expm(-symmetric / 9)
        np.testing.assert_allclose(product, np.eye(5), atol=1e-6)


@pytest.mark.parametrize("call, error, message", [
    ("sl.solve_triangular(a, v, 7)", ValueError, "trans is 0, 1, 2, 'N', 'T' or 'C', and not 7"),
    ("sl.lu_solve(sl.lu_factor(a), v, 3)", ValueError, "lu_solve: trans is 0, 1 or 2, and not 3"),
    ("sl.solve(a, v, assume_a='banded')", ValueError, "solve: assume_a is .*, and not 'banded'"),
    ("sl.qr(a, mode='raw')", ValueError, "qr: mode is 'full', 'r' or 'economic', and not 'raw'"),
    ("sl.eigh(a, a)", NotImplementedError, "eigh: only a v = w v is solved"),
    ("sl.block_diag(b)", ValueError, r"block_diag: takes matrices, and got f32\[2,4,4\]"),
    ("sl.expm(t)", ValueError, r"expm: takes square matrices, and got f32\[5,3\]"),
])  # fmt: skip
def test_errors(call: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluated(call, jnp, linalg)


def test_stacks_of_vectors_beside_stacks_of_matrices():
    """With one axis less than the matrices and as many columns as they have, a row is a vector, as in jax."""
    factors = jnp.stack([2 * jnp.eye(2), 4 * jnp.eye(2), jnp.array([[1.0, 0.0], [1.0, 2.0]])])
    rows = jnp.arange(6.0).reshape(3, 2)
    each = [(factor, row) for factor, row in zip(factors, rows)]
    for solve in (
        lambda a, b: linalg.cho_solve((a, True), b),
        lambda a, b: linalg.solve_triangular(a, b, lower=True),
        lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b),
    ):
        np.testing.assert_allclose(solve(factors, rows), [solve(a, b) for a, b in each], rtol=1e-5)
        np.testing.assert_allclose(solve(factors, rows[0]), [solve(a, rows[0]) for a, _ in each], rtol=1e-5)
        assert solve(factors, jnp.ones((2, 4))).shape == (3, 2, 4) and solve(factors, rows[..., None]).shape == (
            3,
            2,
            1,
        )
        with pytest.raises(ValueError, match="b needs 2 elements or rows, and has 3"):
            solve(factors[0], jnp.ones((3, 2)))
        with pytest.raises(ValueError, match=r"b must be a vector or a matrix, and is f32\[\]"):
            solve(factors[0], jnp.float32(1))


def test_toeplitz_of_stacks():
    c, r = jnp.arange(6.0).reshape(2, 3), jnp.arange(8.0).reshape(2, 4)
    np.testing.assert_array_equal(linalg.toeplitz(c, r), [linalg.toeplitz(x, y) for x, y in zip(c, r)])
    np.testing.assert_array_equal(linalg.toeplitz(c), [linalg.toeplitz(x) for x in c])
    assert linalg.toeplitz(c, r[0]).shape == (2, 3, 4) and linalg.toeplitz(3.0).shape == (1, 1)
