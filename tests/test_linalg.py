"""lax.linalg and jnp.linalg: what jax gives, what NumPy gives; derivatives; programs; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import xpr
import xpr.numpy as jnp
from tests.helpers import check_grads_in_numpy, run_python
from tests.ops.table import complexes, floats
from tests.peer import check, check_with_numpy
from tests.test_numpy_creation import calls
from xpr import lax
from xpr.backend import hybrid
from xpr.backend.mlir_bindings import parse
from xpr.compile.lower import lower_jaxpr
from xpr.core.jaxpr import constvars_to_invars
from xpr.primitives.linalg import eigen_svd
from xpr.testing import check_grads

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def positive(x: np.ndarray) -> np.ndarray:
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])).astype(x.dtype)


def diagonally(*shape: int) -> np.ndarray:
    return normal(*shape) + 3 * np.eye(shape[-1], dtype=np.float32)


C = (normal(3, 3) + 1j * normal(3, 3)).astype(np.complex64)
ARRAYS: dict[str, Any] = {
    "a": diagonally(3, 3), "b": diagonally(2, 4, 4), "t": normal(5, 3), "w": normal(3, 5), "v": normal(3),
    "u": normal(4),
    "p": positive(normal(3, 3)), "q": positive(normal(2, 4, 4)), "c": C, "h": positive(C), "m": normal(3, 2),
    "n": normal(2, 4, 3), "i": np.array([[2, 1], [1, 3]], np.int32), "s": np.zeros((3, 3), np.float32),
    "r": np.outer(np.arange(1, 4), np.arange(1, 4)).astype(np.float32), "z": np.zeros((0, 3, 3), np.float32),
    "k": normal(2, 3, 4, 6), "f": diagonally(24, 24).reshape(4, 6, 8, 3), "bf": normal(3, 2).astype("float16"),
}  # fmt: skip

BOTH = """
jnp.linalg.inv(a) | jnp.linalg.inv(b) | jnp.linalg.inv(c) | jnp.linalg.inv(z) | jnp.linalg.inv(i)
jnp.linalg.solve(a, v) | jnp.linalg.solve(a, m) | jnp.linalg.solve(b, n) | jnp.linalg.solve(c, m)
jnp.linalg.solve(b, u)
jnp.linalg.solve(a, n[:, :3]) | jnp.linalg.solve(b, n[0]) | jnp.linalg.solve(z, v[:, None])
jnp.linalg.det(a) | jnp.linalg.det(b) | jnp.linalg.det(c) | jnp.linalg.det(i) | jnp.linalg.det(a[:2, :2])
jnp.linalg.det(a[:1, :1]) | jnp.linalg.det(s) | jnp.linalg.det(z) | jnp.linalg.det(z[:, :0, :0])
tuple(jnp.linalg.slogdet(a)) | tuple(jnp.linalg.slogdet(b)) | tuple(jnp.linalg.slogdet(c))
tuple(jnp.linalg.slogdet(s))
tuple(jnp.linalg.slogdet(a[::-1])) | tuple(jnp.linalg.slogdet(-b))
jnp.linalg.cholesky(p) | jnp.linalg.cholesky(q) | jnp.linalg.cholesky(h)
tuple(jnp.linalg.qr(a)) | tuple(jnp.linalg.qr(t)) | tuple(jnp.linalg.qr(w)) | tuple(jnp.linalg.qr(t, "complete"))
jnp.linalg.qr(t, "r") | tuple(jnp.linalg.qr(c)) | tuple(jnp.linalg.qr(n))
tuple(jnp.linalg.eigh(p)) | tuple(jnp.linalg.eigh(q)) | jnp.linalg.eigh(h)[0] | jnp.linalg.eigvalsh(q)
jnp.linalg.eigvalsh(h)
jnp.linalg.svd(t, compute_uv=False) | jnp.linalg.svd(c, compute_uv=False) | jnp.linalg.svd(n, compute_uv=False)
tuple(jnp.linalg.svd(t)) | tuple(jnp.linalg.svd(t, full_matrices=False)) | tuple(jnp.linalg.svd(w, full_matrices=False))
jnp.linalg.svdvals(n) | jnp.linalg.svdvals(z) | jnp.linalg.svd(p, compute_uv=False, hermitian=True)
jnp.linalg.pinv(t) | jnp.linalg.pinv(w) | jnp.linalg.pinv(n) | jnp.linalg.pinv(r, 1e-3) | jnp.linalg.pinv(c)
jnp.linalg.lstsq(t, t[:, 0])[0] | jnp.linalg.lstsq(w, m)[0] | jnp.linalg.lstsq(t, t)[3]
jnp.linalg.lstsq(r, v, 1e-4)[0]
jnp.linalg.matrix_rank(a) | jnp.linalg.matrix_rank(r) | jnp.linalg.matrix_rank(b) | jnp.linalg.matrix_rank(s)
jnp.linalg.matrix_rank(v) | jnp.linalg.matrix_rank(p, hermitian=True)
jnp.linalg.matrix_power(a, 0) | jnp.linalg.matrix_power(a, 1) | jnp.linalg.matrix_power(a, 5)
jnp.linalg.matrix_power(b, -2)
jnp.linalg.matrix_power(i, 3)
jnp.linalg.cond(a) | jnp.linalg.cond(b) | jnp.linalg.cond(a, 1) | jnp.linalg.cond(t) | jnp.linalg.cond(a, "fro")
jnp.linalg.cond(b, -2) | jnp.linalg.cond(a, np.inf)
jnp.linalg.norm(t) | jnp.linalg.norm(n) | jnp.linalg.norm(v) | jnp.linalg.norm(c) | jnp.linalg.norm(i)
jnp.linalg.norm(t, axis=0) | jnp.linalg.norm(t, axis=-1, keepdims=True) | jnp.linalg.norm(n, axis=(0, 2))
jnp.linalg.norm(v, 1) | jnp.linalg.norm(v, 0) | jnp.linalg.norm(v, 3) | jnp.linalg.norm(v, np.inf)
jnp.linalg.norm(v, -np.inf)
jnp.linalg.norm(v, 0.5) | jnp.linalg.norm(t, 1) | jnp.linalg.norm(t, -1) | jnp.linalg.norm(t, 2)
jnp.linalg.norm(t, -2)
jnp.linalg.norm(t, "nuc") | jnp.linalg.norm(t, "fro") | jnp.linalg.norm(t, np.inf) | jnp.linalg.norm(t, -np.inf)
jnp.linalg.norm(n, 1, (1, 2)) | jnp.linalg.norm(n, 2, (0, 2), True) | jnp.linalg.norm(n, np.inf, (2, 0), True)
jnp.linalg.norm(n, "nuc", (2, 1)) | jnp.linalg.norm(n, None, (2, 1), True) | jnp.linalg.norm(n, keepdims=True)
jnp.linalg.norm(c, 1) | jnp.linalg.norm(c[0], 3) | jnp.linalg.norm(n, 3, 1) | jnp.linalg.norm(n, 1, -1, True)
jnp.linalg.matrix_norm(n) | jnp.linalg.matrix_norm(n, ord=2, keepdims=True) | jnp.linalg.vector_norm(n)
jnp.linalg.vector_norm(n, axis=(0, 1), ord=3) | jnp.linalg.vector_norm(n, keepdims=True, ord=1)
jnp.linalg.multi_dot([t, a, m]) | jnp.linalg.multi_dot([v, a, v]) | jnp.linalg.multi_dot([t, a, a, w, t[:, 0]])
jnp.linalg.multi_dot([t, a]) | jnp.linalg.tensorinv(f) | jnp.linalg.tensorinv(f.reshape(24, 8, 3), ind=1)
jnp.linalg.tensorsolve(f, t[:4, 0, None] + jnp.ones((4, 6))) | jnp.linalg.tensorsolve(a, v)
jnp.linalg.tensorsolve(f.transpose(2, 0, 1, 3), jnp.ones((4, 6)), axes=(0, 3))
jnp.linalg.cross(a, v) | jnp.linalg.cross(a, a[::-1], axis=0) | jnp.linalg.outer(v, u) | jnp.linalg.matmul(t, a)
jnp.linalg.vecdot(a, v) | jnp.linalg.vecdot(c, c, axis=0) | jnp.linalg.tensordot(t, a, axes=1)
jnp.linalg.trace(n) | jnp.linalg.trace(n, offset=1) | jnp.linalg.diagonal(n) | jnp.linalg.diagonal(n, offset=-1)
jnp.linalg.matrix_transpose(n)
"""

NUMPY_ONLY = """
jnp.linalg.cond(s) | jnp.linalg.matrix_rank(n, rtol=0.5)
"""

POLYNOMIALS = """
jnp.sort_complex(jnp.roots(v)) | jnp.sort_complex(jnp.roots(u)) | jnp.sort_complex(jnp.roots(c[0])) | jnp.roots(v[:1])
jnp.sort_complex(jnp.roots(jnp.concatenate([s[0], v]))) | jnp.sort_complex(jnp.roots(i[0])) | jnp.roots(s[0])
jnp.polyfit(u, u**2, 2) | jnp.polyfit(u, u**3, 1) | jnp.polyfit(t[:, 0], t, 1) | jnp.polyfit(v, v, 0)
jnp.polyfit(t[:, 0], t[:, 1], 1, cov=True)[1] | jnp.polyfit(t[:, 0], t[:, 1], 1, cov="unscaled", w=t[:, 2])[1]
jnp.polyfit(t[:, 0], t, 2, full=True)[1] | jnp.polyfit(t[:, 0], t, 1, w=t[:, 1])
jnp.polyfit(t[:, 0], t, 1, cov=True)[1] | jnp.poly(p)
"""

JAX_ONLY = """
jnp.linalg.cholesky(p, upper=True) | jnp.linalg.cholesky(-p) | jnp.linalg.cholesky(q + 1, symmetrize_input=False)
jnp.linalg.cholesky(h, upper=True) | jnp.linalg.cholesky(h, upper=True, symmetrize_input=False)
tuple(jnp.linalg.eigh(p, "U")) | tuple(jnp.linalg.eigh(a, symmetrize_input=False))
tuple(jnp.linalg.eigh(a, "U", symmetrize_input=False)) | jnp.linalg.eigvalsh(a)
jnp.linalg.eigvalsh(a, symmetrize_input=False)
tuple(jnp.linalg.eig(a)) | tuple(jnp.linalg.eig(c)) | tuple(jnp.linalg.eig(n[:, :3])) | jnp.linalg.eigvals(b)
tuple(jnp.linalg.svd(p - 3 * jnp.eye(3), hermitian=True)) | tuple(jnp.linalg.svd(c)) | jnp.linalg.eigh(h)[1]
jnp.linalg.inv(s) | jnp.linalg.solve(s, v) | jnp.linalg.lstsq(t, t[:, 0]) | jnp.linalg.lstsq(w, m)
jnp.linalg.lstsq(r, v)
jnp.linalg.pinv(r) | jnp.linalg.norm(bf) | jnp.linalg.norm(bf, 1) | jnp.linalg.norm(2.0) | jnp.linalg.norm(v, 0)
jnp.linalg.matrix_power(a, -1) | jnp.linalg.matrix_rank(i) | jnp.linalg.matrix_rank(n, tol=0.5)
tuple(jnp.linalg.svd(i)) | tuple(jnp.linalg.eigh(i)) | tuple(jnp.linalg.qr(i)) | jnp.linalg.cholesky(i)
tuple(jnp.linalg.qr(i, "full")) | jnp.linalg.trace(i, dtype="float32")
"""


@pytest.mark.parametrize("call", calls(BOTH) + calls(JAX_ONLY))
def test_as_jax(call: str) -> None:
    check(call, ARRAYS, 2e-3 if "bf" in call else 1e-3 if "(r" in call else 2e-4)


@pytest.mark.parametrize("call", calls(BOTH) + calls(NUMPY_ONLY))
def test_as_numpy(call: str) -> None:
    with np.errstate(all="ignore"):
        check_with_numpy(call, ARRAYS, 1e-3)


@pytest.mark.parametrize("call", calls(POLYNOMIALS))
def test_polynomials(call: str) -> None:
    check(call, ARRAYS, 1e-3, staged="roots" not in call)


def test_leading_zeros_of_a_traced_polynomial() -> None:
    found = xpr.jit(lambda p: jnp.roots(p, strip_zeros=False))(jnp.array([0.0, 0.0, 1.0, -3.0, 2.0]))
    np.testing.assert_allclose(found[:2].real, [2, 1], rtol=1e-5)
    assert np.isnan(np.asarray(found[2:])).all()
    assert np.isnan(np.asarray(jnp.roots(jnp.zeros(3), strip_zeros=False))).all()
    assert jnp.roots(jnp.zeros(0), strip_zeros=False).shape == jnp.roots(jnp.ones(1), strip_zeros=False).shape == (0,)
    with pytest.raises(xpr.errors.ConcretizationTypeError, match="strip_zeros=False"):
        xpr.jit(jnp.roots)(jnp.ones(3))


# -- Derivatives

DIFFERENTIATED = {
    "inv": (jnp.linalg.inv, "a"), "inv of stacks": (jnp.linalg.inv, "b"), "inv of complex": (jnp.linalg.inv, "c"),
    "solve": (jnp.linalg.solve, "a", "v"), "solve for stacks": (jnp.linalg.solve, "b", "n"),
    "solve by one matrix": (lambda a, n: jnp.linalg.solve(a, n[:, :3]), "a", "n"),
    "solve complex": (lambda c, m: jnp.linalg.solve(c, m * (1 + 1j)), "c", "m"),
    "det": (jnp.linalg.det, "b"), "det of 3": (jnp.linalg.det, "a"), "det of a singular one": (jnp.linalg.det, "r"),
    "slogdet": (lambda a: jnp.linalg.slogdet(a)[1], "b"), "slogdet of complex": (jnp.linalg.slogdet, "c"),
    "cholesky": (jnp.linalg.cholesky, "q"), "cholesky of complex": (jnp.linalg.cholesky, "h"),
    "upper cholesky": (lambda p: jnp.linalg.cholesky(p, upper=True, symmetrize_input=False), "p"),
    "qr": (jnp.linalg.qr, "t"), "qr of wide ones": (jnp.linalg.qr, "w"), "qr of complex": (jnp.linalg.qr, "c"),
    "eigh": (jnp.linalg.eigh, "p"), "eigvalsh": (jnp.linalg.eigvalsh, "h"),
    "eigvals": (lambda p: jnp.linalg.eigvals(p * jnp.arange(1.0, 4.0)), "p"),
    "svd": (lambda t: jnp.linalg.svd(t, full_matrices=False), "t"), "svdvals": (jnp.linalg.svdvals, "c"),
    "svd of Hermitian ones": (lambda p: jnp.linalg.svd(p, hermitian=True), "p"),
    "what svd makes up": (lambda c: jnp.abs(jnp.linalg.svd(c)[0]), "c"),
    "pinv": (jnp.linalg.pinv, "t"), "pinv of complex": (jnp.linalg.pinv, "c"),
    "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], "w", "m"),
    "norm": (jnp.linalg.norm, "t"), "nuclear norm": (lambda t: jnp.linalg.norm(t, "nuc"), "t"),
    "cond": (jnp.linalg.cond, "a"), "multi_dot": (lambda t, a, m: jnp.linalg.multi_dot([t, a, m]), "t", "a", "m"),
    "pivoted qr": (lambda t: lax.linalg.qr(t, pivoting=True, full_matrices=False)[1], "t"),
    "matrix_power": (lambda a: jnp.linalg.matrix_power(a, -3), "a"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives(name: str) -> None:
    fun, *arguments = DIFFERENTIATED[name]
    with xpr.enable_x64():
        wide = [ARRAYS[x].astype(np.complex128 if ARRAYS[x].dtype.kind == "c" else np.float64) for x in arguments]
        tolerance = 1e-7 if "complex" in name else None  # differences of cubes of 1 / 0.35, the least singular value
        check_grads_in_numpy(fun, wide, order=1 if "singular" in name else 2, atol=tolerance, rtol=tolerance)


def test_a_solution_is_differentiated_as_one() -> None:
    """The factors are used again, and not differentiated."""
    closed = xpr.make_jaxpr(xpr.grad(lambda a, v: jnp.linalg.solve(a, v).sum()))(ARRAYS["a"], ARRAYS["v"])
    assert str(closed).count("= lu ") == 1


# -- Programs


def test_a_function_is_one_call() -> None:
    closed = xpr.make_jaxpr(jnp.linalg.slogdet)(ARRAYS["a"])
    assert [eqn.primitive.name for eqn in closed.eqns] == ["xla_call"]


def test_vectors_that_nothing_reads_are_not_computed() -> None:
    for function, flag in ((jnp.linalg.eigh, "compute_v"), (jnp.linalg.eig, "compute_right_eigenvectors")):
        closed = xpr.jaxpr.dce(xpr.make_jaxpr(lambda a: function(a)[0])(ARRAYS["a"]))  # noqa: B023  # called at once
        assert f"{flag}=False" in str(closed)
    closed = xpr.jaxpr.dce(xpr.make_jaxpr(lambda a: jnp.linalg.svd(a)[1])(ARRAYS["a"]))
    assert "compute_uv=False" in str(closed)


def test_failures_are_nans() -> None:
    stacked = jnp.stack([jnp.eye(2), -jnp.eye(2)])
    factors = np.asarray(lax.linalg.cholesky(stacked))
    np.testing.assert_array_equal(factors[0], np.eye(2))
    assert np.isnan(factors[1][np.tril_indices(2)]).all()
    assert np.isnan(np.asarray(jnp.linalg.eigh(jnp.full((2, 2), np.nan))[0])).all()


def test_eigenvectors() -> None:
    with xpr.enable_x64():
        a = jnp.asarray(ARRAYS["b"].astype(np.float64))
        w, left, right = lax.linalg.eig(a)
        np.testing.assert_allclose(a @ right, right * w[..., None, :], atol=1e-12)
        adjoint = jnp.swapaxes(left.conj(), -1, -2)
        np.testing.assert_allclose(adjoint @ a, w[..., None] * adjoint, atol=1e-12)
        np.testing.assert_allclose(jnp.linalg.norm(right, axis=-2), 1)


def test_subsets() -> None:
    p = jnp.asarray(ARRAYS["p"])
    v, w = lax.linalg.eigh(p, subset_by_index=(1, 3))
    np.testing.assert_allclose(p @ v, v * w, atol=1e-4)
    u, s, vh = lax.linalg.svd(p, full_matrices=False, subset_by_index=(0, 2))
    assert (u.shape, s.shape, vh.shape) == ((3, 2), (2,), (2, 3))


@pytest.mark.parametrize("name, args, target", [
    ("cholesky", ["p"], "potrf"), ("lu", ["b"], "getrf"), ("qr", ["t"], "geqrf"), ("eigh", ["p"], "syevd"),
    ("svd", ["w"], "gesvd"), ("svd", ["t"], "gesvd"),
])  # fmt: skip
def test_on_cuda_they_are_cusolvers(name: str, args: list[str], target: str) -> None:
    text = lowered(getattr(lax.linalg, name), *(ARRAYS[x] for x in args))
    assert f'"cusolver_{target}_ffi"' in text and "lapack" not in text


def test_on_cuda_some_run_on_the_host() -> None:
    """Left eigenvectors and pivoting, which cuSOLVER lacks."""
    a = ARRAYS["a"]
    assert "cusolver_geev_ffi" in lowered(jnp.linalg.eigvals, a) and "cusolver_geev_ffi" in lowered(jnp.linalg.eig, a)
    for dtype, kind in ((np.float32, "real"), (np.complex64, "comp")):
        text = lowered(lax.linalg.eig, a.astype(dtype))
        assert f"cuhybrid_eig_{kind}" in text and "cusolver" not in text and hybrid.is_called_by(text)
    text = lowered(lambda x: lax.linalg.qr(x, pivoting=True), a)
    assert "cuhybrid_geqp3" in text and 'magma = "off"' in text and hybrid.is_called_by(text)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_eigenvectors_of_real_matrices_are_unpacked(n: int) -> None:
    """Of a pair, cuSOLVER's and LAPACK's routines give the real and the imaginary part."""
    stack = np.random.RandomState(n).randn(3, n, n)
    real, imaginary, _, packed, _ = map(np.stack, zip(*map(scipy.linalg.lapack.dgeev, stack)))
    w = (real + 1j * imaginary).astype(np.complex64)
    v = np.asarray(xpr.jit(eigen_svd.unpacked_pairs)(w, packed.astype(np.float32)))
    np.testing.assert_allclose(stack @ v, w[:, None] * v, atol=1e-5)


def lowered(fun: Any, *args: Any) -> str:
    text = lower_jaxpr(constvars_to_invars(xpr.make_jaxpr(fun)(*args)), "cuda").text()
    parse(text)
    return text


def test_what_cuda_has_not() -> None:
    with pytest.raises(xpr.errors.UnsupportedRule, match="hessenberg: there is no routine for it on cuda.*on the CPU"):
        lowered(lax.linalg.hessenberg, ARRAYS["a"])


# -- Errors


@pytest.mark.parametrize("call, error, message", [
    ("jnp.linalg.inv(t)", ValueError, r"inv: takes square matrices, and got f32\[5,3\]"),
    ("jnp.linalg.inv(v)", ValueError, r"inv: takes matrices, or stacks of them, and got f32\[3\]"),
    ("jnp.linalg.inv(bf)", NotImplementedError, r"inv: Unsupported dtype float16.* f16\[3,2\].*Convert it"),
    ("jnp.linalg.solve(a, u)", ValueError, r"solve: a and b are f32\[3,3\] and f32\[4\]: b must be a vector \[3\]"),
    ("jnp.linalg.solve(b, u[None])", ValueError, r"A stack of vectors is b\[..., None\]"),
    ("jnp.linalg.qr(t, 'odd')", ValueError, "qr: mode must be 'reduced', 'complete', 'r' or 'raw', and is 'odd'"),
    ("jnp.linalg.eigh(p, 'X')", ValueError, "UPLO must be 'L', 'U' or None, and is 'X'"),
    ("jnp.linalg.norm(n, 2)", ValueError, r"of order 2 .*axis=None of f32\[2,4,3\] names 3"),
    ("jnp.linalg.norm(t, 7)", ValueError, "the orders of norms of matrices are .* not 7"),
    ("jnp.linalg.norm(v, 'fro')", ValueError, "Invalid order 'fro' for vector norm"),
    ("jnp.linalg.slogdet(a, method='svd')", ValueError, "slogdet: the method is None, 'lu' or 'qr', and not"),
    ("jnp.linalg.svd(p, hermitian=True, subset_by_index=(0, 1))", ValueError, "subset_by_index and hermitian"),
    ("lax.linalg.svd(p, subset_by_index=(0, 1))", ValueError, "pass full_matrices=False"),
    ("lax.linalg.svd(p, full_matrices=False, subset_by_index=(2, 1))", ValueError, r"from 0 to 3, and is \(2, 1\)"),
    ("lax.linalg.eigh(p, subset_by_index=(0, 4))", ValueError, r"eigh: subset_by_index is .* of 3 values, .* \(0, 4\)"),
    ("jnp.linalg.lstsq(n, v)", ValueError, r"lstsq: takes a matrix \[m, n\] and b"),
    ("jnp.linalg.matrix_power(a, 0.5)", TypeError, "the exponent must be an integer, and is 0.5"),
    ("jnp.linalg.matrix_power(t, 2)", ValueError, "matrix_power: takes square matrices"),
    ("jnp.linalg.tensorsolve(k, v)", ValueError, "tensorsolve: .* is no square matrix for b"),
    ("jnp.linalg.tensorinv(k, 1)", ValueError, "tensorinv: ind=1 must be positive"),
    ("jnp.linalg.multi_dot([a])", ValueError, "multi_dot: takes two matrices or more"),
    ("jnp.linalg.multi_dot([a, v, a])", ValueError, r"and got axes \[2, 1, 2\]"),
    ("jnp.roots(a)", ValueError, "roots: takes a vector of coefficients"),
    ("jnp.polyfit(v, u, 1)", TypeError, r"polyfit: takes vectors x and w, and y with as many values.*f32\[4\]"),
    ("jnp.polyfit(v, v, -1)", ValueError, "polyfit: the degree must not be negative, and is -1"),
    ("jnp.polyfit(v, v, 2, cov=True)", ValueError, "3 values are too few to scale the covariance of 3 coefficients"),
    ("jnp.linalg.cross(u, u)", ValueError, "cross: vectors of 3 elements are multiplied"),
    ("jnp.linalg.outer(a, v)", ValueError, "outer: takes two vectors"),
    ("lax.linalg.triangular_solve(a, c)", TypeError, "triangular_solve: the operands must have one dtype"),
    ("lax.linalg.triangular_solve(a, b)", ValueError, "must be stacks of the same shape"),
    ("lax.linalg.triangular_solve(a, t, left_side=True)", ValueError, "B must have as many rows as A"),
    ("jnp.linalg.matrix_rank(a, 0.1, tol=0.1)", ValueError, "matrix_rank: only one of tol or rtol may be specified"),
    ("jnp.linalg.pinv(a, 0.1, rcond=0.1)", ValueError, "pinv: only one of rtol and rcond may be specified"),
    ("lax.linalg.tridiagonal_solve(v, v, v, c)", TypeError, "tridiagonal_solve: takes four operands of one dtype"),
    ("lax.linalg.tridiagonal_solve(v, v, v, v)", ValueError, r"takes diagonals \[..., n\] and B \[..., n, m\]"),
    ("lax.linalg.lu_pivots_to_permutation(v, 3)", TypeError, r"takes pivots i32\[..., k\]"),
    ("lax.linalg.lu_pivots_to_permutation(v, 3.5)", TypeError, "'float' object cannot be interpreted as an integer"),
    ("grad(lambda t: lax.linalg.svd(t)[0].sum())(t)", xpr.errors.UnsupportedRule, "svd: full_matrices=True completes"),
])  # fmt: skip
def test_errors(call: str, error: type[Exception], message: str) -> None:
    names = {name: jnp.asarray(value) for name, value in ARRAYS.items()}
    with pytest.raises(error, match=message):
        eval(call, {"jnp": jnp, "lax": lax, "grad": xpr.grad, **names})


def test_tangents_of_the_triangle_of_a_singular_matrix_are_finite():
    """The last column of R^-1, which isn't there, is of no matter for R: Q^H dA - S R."""
    a, da = jnp.array([[1.0, 2.0], [0.0, 0.0]]), jnp.array([[0.5, 1.0], [-1.0, 0.25]])
    _, (_, dr) = xpr.jvp(jnp.linalg.qr, (a,), (da,))
    np.testing.assert_array_equal(dr, [[0.5, 1.0], [0.0, 2.25]])


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (3, 3), (2, 4, 3), (3, 1), (1, 3)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("x64", [False, True])
def test_raw_qr_is_lapacks(shape, dtype, x64):
    """What NumPy gives: R, and the vectors and factors of the reflections."""
    rng = np.random.default_rng(0)
    a = (rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == "complex64" else 0)).astype(dtype)
    with xpr.enable_x64(x64):
        ours = jnp.linalg.qr(jnp.asarray(a), mode="raw")
    for have, want in zip(ours, np.linalg.qr(a, mode="raw"), strict=True):
        assert have.dtype == dtype
        np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_determinants_of_16_bit_floats(dtype):
    """Computed in 32 bits; the results have the operand's dtype, as those of jax have, which knows small ones alone."""
    for n in (1, 3, 5):
        a = jnp.asarray(2 * np.eye(n) + 0.5, dtype)
        expected = 2**n * (1 + n / 4)
        sign, log = jnp.linalg.slogdet(a)
        assert jnp.linalg.det(a).dtype == sign.dtype == log.dtype == a.dtype
        np.testing.assert_allclose(np.asarray(jnp.linalg.det(a), np.float32), expected, rtol=4e-3)
        np.testing.assert_allclose(np.asarray(log, np.float32), np.log(expected), rtol=4e-3)
        assert xpr.grad(jnp.linalg.det)(a).dtype == a.dtype


@pytest.mark.parametrize("rank", [0, 2, 3, 4])
def test_determinants_have_derivatives_where_they_are_0(rank: int) -> None:
    """The cofactors, which are minors: of 4 x 4 matrices."""
    a = np.asarray(floats(4, rank, dtype=np.float64) @ floats(rank, 4, dtype=np.float64, salt=1))
    of = lambda i, j: np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j)
    minors = [[of(i, j) for j in range(4)] for i in range(4)]
    with xpr.enable_x64(True):
        for derivative in (xpr.grad(jnp.linalg.det), xpr.jit(xpr.jacfwd(jnp.linalg.det))):
            np.testing.assert_allclose(derivative(jnp.asarray(a)), minors, atol=1e-12)
        stack = jnp.stack([jnp.asarray(a), jnp.eye(4)])
        np.testing.assert_allclose(xpr.vmap(xpr.grad(jnp.linalg.det))(stack), [minors, np.eye(4)], atol=1e-12)
        if rank == 4:
            check_grads_in_numpy(jnp.linalg.det, (a,), order=2)


def test_determinants_that_underflow_have_derivatives_that_do_not():
    np.testing.assert_allclose(xpr.grad(jnp.linalg.det)(1e-10 * jnp.eye(4)), 1e-30 * np.eye(4), rtol=1e-5)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_determinants_have_second_derivatives_where_they_are_0(rank: int, kind: str) -> None:
    """det(A + t B) is a polynomial in t, whose coefficients are a Fourier transform of its values at roots of unity."""
    left, right, b = (_matrices(kind, 3, 4, 4)[i] for i in range(3))
    a = left[:, :rank] @ right[:rank]
    values = [np.linalg.det(a + t * b) for t in np.exp(0.4j * np.pi * np.arange(5))]
    expected = 2 * np.fft.fft(values)[2] / 5
    with xpr.enable_x64(True):
        along = lambda t: jnp.linalg.det(jnp.asarray(a.astype(np.result_type(a, np.float64))) + t * jnp.asarray(b))
        one = jnp.ones((), along(0.0).dtype)
        slope = lambda t: xpr.jvp(along, (t,), (one,))[1]
        np.testing.assert_allclose(xpr.jvp(slope, (0 * one,), (one,))[1], expected, atol=1e-4)
        if kind == "f":
            np.testing.assert_allclose(xpr.jit(xpr.grad(xpr.grad(along)))(0 * one), expected.real, atol=1e-4)


@pytest.mark.parametrize("kind", ["f", "c"])
def test_left_eigenvectors_have_derivatives(kind: str) -> None:
    a = _matrices(kind, 2, 4, 4).astype({"f": np.float64, "c": np.complex128}[kind])

    def invariants(a: Any) -> Any:  # of the sign that LAPACK chooses
        w, left, right = lax.linalg.eig(a)
        return w, left * left, right * right

    with xpr.enable_x64(True):
        check_grads(invariants, (a,), order=1, modes=["fwd"], rtol=1e-3)
        only_left = lambda a: lax.linalg.eig(a, compute_right_eigenvectors=False)[1] ** 2
        np.testing.assert_allclose(xpr.jvp(only_left, (a,), (a,))[1], xpr.jvp(invariants, (a,), (a,))[1][1], atol=1e-9)


def test_norms_of_nothing() -> None:
    for shape in ((0, 2), (2, 0), (0, 0)):
        for order in (1, 2, np.inf, "fro", "nuc"):
            assert jnp.linalg.matrix_norm(jnp.zeros(shape), ord=order) == 0
    assert jnp.linalg.vector_norm(jnp.zeros(0), ord=np.inf) == 0
    with pytest.raises(ValueError, match="min of no elements"):
        jnp.linalg.vector_norm(jnp.zeros(0), ord=-np.inf)
    assert [x.shape for x in jnp.linalg.lstsq(jnp.ones((3, 0)), jnp.ones(3))] == [(0,), (1,), (), (0,)]


def test_derivatives_of_the_triangular_factor_are_those_without_completed_columns():
    t = np.random.RandomState(0).randn(4, 3).astype("f")
    full = xpr.jacobian(lambda t: xpr.scipy.linalg.qr(t, mode="r")[0])(t)
    np.testing.assert_allclose(full[:3], xpr.jacobian(lambda t: jnp.linalg.qr(t, "r"))(t), rtol=1e-4, atol=1e-5)
    assert not full[3].any()


def test_pseudoinverses_of_matrices_that_are_promised_to_be_hermitian_are_of_their_hermitian_part():
    a, ct = np.random.RandomState(0).randn(2, 3, 3).astype("f")
    part = lambda a: (a + a.T) / 2
    np.testing.assert_allclose(jnp.linalg.pinv(a, hermitian=True), jnp.linalg.pinv(part(a)), rtol=1e-3)
    slope = xpr.grad(lambda a: (jnp.linalg.pinv(a, hermitian=True) * ct).sum())(part(a))
    np.testing.assert_allclose(slope, slope.T, rtol=1e-5)


def test_tolerances_of_least_squares_may_be_traced_and_negative_ones_are_epsilon():
    a, b = np.diag([1.0, 1e-3, 3e-7]).astype("f"), np.ones(3, "f")
    rank = lambda rcond: jnp.linalg.lstsq(a, b, rcond)[2]
    for rcond, expected in ((0.1, 1), (1e-5, 2), (-1.0, 3), (0.0, 3)):
        assert rank(rcond) == xpr.jit(rank)(rcond) == expected
    assert rank(None) == 2
    assert xpr.vmap(rank)(jnp.array([0.1, -1.0])).tolist() == [1, 3]


def test_singular_tridiagonal_matrices_are_perturbed() -> None:
    """The solution is then large, finite, and, for inverse iteration, near the null space."""
    dl, d, du = np.float32([0, -1, -1]), np.float32([1, 2, 1]), np.float32([-1, -1, 0])  # whose null space is of ones
    b = jnp.ones((3, 1), np.float32)
    solve = xpr.jit(lambda d: lax.linalg.tridiagonal_solve(dl, d, du, b, perturb_singular=True))
    for x in (solve(d), xpr.vmap(solve)(jnp.stack([d, d]))[1]):
        assert np.isfinite(x).all() and np.abs(x).min() > 1e5
        np.testing.assert_allclose(x / x[0], np.ones((3, 1)), rtol=1e-4)
    zero = np.zeros(3, np.float32)
    assert np.isfinite(lax.linalg.tridiagonal_solve(zero, zero, zero, b, perturb_singular=True)).all()
    assert not np.isfinite(lax.linalg.tridiagonal_solve(zero, zero, zero, b)).any()


# -- lax.linalg: reflections, reduced forms, updates


def _matrices(kind: str, *shape: int) -> np.ndarray:
    return complexes(*shape) if kind == "c" else floats(*shape)


@pytest.mark.parametrize("kind", ["f", "c"])
def test_reduced_forms_multiply_to_the_matrix(kind: str) -> None:
    a = _matrices(kind, 2, 5, 5)
    packed, taus = lax.linalg.hessenberg(a)
    q = np.tile(np.eye(5, dtype=a.dtype), (2, 1, 1))
    q[:, 1:, 1:] = lax.linalg.householder_product(packed[:, 1:, :-1], taus)
    np.testing.assert_allclose(q @ np.triu(packed, -1) @ np.conj(q.swapaxes(1, 2)), a, atol=1e-5)
    hermitian = a + np.conj(a.swapaxes(1, 2))
    for lower in (True, False):
        _, d, e, _ = lax.linalg.tridiagonal(np.tril(hermitian) if lower else np.triu(hermitian), lower=lower)
        form = [np.diag(d) + np.diag(e, 1) + np.diag(e, -1) for d, e in zip(np.asarray(d), np.asarray(e))]
        np.testing.assert_allclose(np.linalg.eigvalsh(form), np.linalg.eigvalsh(hermitian), atol=1e-4)


@pytest.mark.parametrize("kind", ["f", "c"])
def test_schur(kind: str) -> None:
    a = _matrices(kind, 2, 4, 4)
    t, q = (np.asarray(x) for x in xpr.jit(lax.linalg.schur)(a))
    np.testing.assert_allclose(q @ t @ np.conj(q.swapaxes(1, 2)), a, atol=1e-5)
    for i in range(2):
        np.testing.assert_allclose(t[i], scipy.linalg.schur(a[i], "real" if kind == "f" else "complex")[0], atol=1e-5)
    (alone,) = lax.linalg.schur(a, compute_schur_vectors=False)
    np.testing.assert_allclose(alone, t, atol=1e-5)
    with pytest.raises(NotImplementedError, match="leave sort_eig_vals out"):
        lax.linalg.schur(a, sort_eig_vals=True)


@pytest.mark.parametrize("kind", ["f", "c"])
def test_a_matrix_times_reflections_is_one_times_q(kind: str) -> None:
    a = _matrices(kind, 4, 3)
    packed, taus = jnp.linalg.qr(a, mode="raw")
    q = np.linalg.qr(a, "complete")[0]
    np.testing.assert_allclose(lax.linalg.ormqr(packed.mT, taus, jnp.eye(4, dtype=a.dtype)), q, atol=1e-5)
    np.testing.assert_allclose(lax.linalg.ormqr(packed.mT, taus, q, transpose=True), np.eye(4), atol=1e-5)
    with pytest.raises(xpr.errors.UnsupportedRule, match="ormqr is linear in the matrix alone"):
        xpr.linear_transpose(lambda t: lax.linalg.ormqr(packed.mT, t, q), taus)(q)


def test_cholesky_update() -> None:
    w = floats(4)
    r = np.linalg.cholesky(floats(4, 4) @ floats(4, 4).T + np.eye(4)).T.astype(np.float32)
    updated = np.asarray(xpr.jit(lax.linalg.cholesky_update)(r, w))
    np.testing.assert_allclose(updated.T @ updated, r.T @ r + np.outer(w, w), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(xpr.vmap(lax.linalg.cholesky_update)(r[None], w[None])[0], updated, rtol=1e-6)
    check_grads(lax.linalg.cholesky_update, (jnp.array(r), jnp.array(w)), order=1)
    with pytest.raises(TypeError, match=r"cholesky_update: takes a matrix .* f32\[4,4\] and f32\[3\]"):
        lax.linalg.cholesky_update(r, w[:3])


def test_symmetric_product() -> None:
    a, c = floats(2, 3, 4), floats(2, 3, 3)
    found = lax.linalg.symmetric_product(a, c, alpha=2.0, beta=3.0, symmetrize_output=True)
    whole = 2 * a @ a.swapaxes(1, 2) + 3 * c
    np.testing.assert_allclose(found, np.tril(whole) + np.tril(whole, -1).swapaxes(1, 2), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="symmetric_product: .* don't fit"):
        lax.linalg.symmetric_product(a, c[0])


@pytest.mark.parametrize("a", [floats(4, 4), floats(6, 3), complexes(4, 3), np.diag(np.float32([1, 1e-5, 1e3]))])
def test_polar_decompositions(a: np.ndarray) -> None:
    u, h, steps, converged = xpr.jit(lax.linalg.qdwh)(a)
    own, theirs = (u, h), scipy.linalg.polar(a)
    for x, y in zip(own, theirs):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    assert converged and 0 < steps < 10
    padded = np.pad(a, [(0, 2), (0, 2)], constant_values=7)
    u, h, _, _ = lax.linalg.qdwh(padded, dynamic_shape=a.shape)
    np.testing.assert_allclose(u[: a.shape[0], : a.shape[1]], theirs[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="qdwh: takes a matrix with at least as many rows"):
        lax.linalg.qdwh(a[:2])


@pytest.mark.parametrize("scale", [1e-32, 1e-25, 1e25, 1e36])
def test_polar_decompositions_of_tiny_and_large_matrices(scale: float) -> None:
    a = floats(6, 3)
    for x, y, unit in zip(lax.linalg.qdwh(a * np.float32(scale))[:2], scipy.linalg.polar(a), (1, scale)):
        np.testing.assert_allclose(x / np.float32(unit), y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["t", "w", "c"])
@pytest.mark.parametrize("full", [True, False])
def test_svd_by_the_qr_algorithm(name: str, full: bool) -> None:
    a = ARRAYS[name]

    def svd(x: Any, algorithm: Any = lax.linalg.SvdAlgorithm.QR) -> Any:
        return lax.linalg.svd(x, full_matrices=full, algorithm=algorithm)

    assert "gesvd" in xpr.jit(svd).lower(a).as_text() and "gesvd" not in xpr.jit(svd).lower(a, None).as_text()
    u, s, vh = svd(a)
    k = s.shape[-1]
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, atol=1e-5)
    np.testing.assert_allclose(s, svd(a, None)[1], rtol=1e-5)
    closed = xpr.make_jaxpr(svd)(a)
    assert str(xpr.jaxpr.parse(str(closed))) == str(closed) and "algorithm=QR" in str(closed)
    assert svd(a[None])[1].shape == (1, *s.shape)


def test_other_algorithms_are_refused() -> None:
    a = jnp.eye(2)
    assert lax.linalg.svd(a, algorithm=lax.linalg.SvdAlgorithm.DEFAULT, compute_uv=False).tolist() == [1, 1]
    for call in (
        lambda: lax.linalg.svd(a, algorithm=lax.linalg.SvdAlgorithm.JACOBI),
        lambda: lax.linalg.eigh(a, implementation=lax.linalg.EighImplementation.QDWH),
        lambda: lax.linalg.eig(a, implementation=lax.linalg.EigImplementation.MAGMA),
        lambda: lax.linalg.qr(a, use_magma=True),
    ):
        with pytest.raises(NotImplementedError, match="is None or .* was asked for"):
            call()


def test_exchanges_of_rows_touch_two_elements_each() -> None:
    def permutation(pivots: Any) -> Any:
        return lax.linalg.lu_pivots_to_permutation(pivots, 40)

    pivots = np.random.default_rng(0).integers(np.arange(30), 40).astype(np.int32)
    assert "stablehlo.reduce" not in xpr.jit(permutation).lower(pivots).as_text()
    order = list(range(40))
    for i, j in enumerate(pivots):
        order[i], order[j] = order[j], order[i]
    np.testing.assert_array_equal(xpr.jit(permutation)(pivots), order)
    rows = xpr.jit(xpr.vmap(permutation))(np.stack([pivots, np.arange(30, dtype=np.int32)]))
    np.testing.assert_array_equal(rows, [order, range(40)])


OF_SCIPY = """
import sys
if {before}: import scipy.linalg
import xpr.numpy as jnp
assert jnp.linalg.cholesky(4 * jnp.eye(3))[0, 0] == 2
assert ("scipy.linalg" in sys.modules) == {before}
assert "scipy.linalg.cython_lapack" not in sys.modules or {before}
import scipy.linalg.cython_lapack
from scipy.linalg import cython_blas
assert scipy.linalg.cython_lapack.__pyx_capi__ and scipy.linalg.cython_blas is cython_blas
assert scipy.linalg.svdvals([[3.0]]) == jnp.linalg.svd(jnp.array([[3.0]]))[1]
"""


@pytest.mark.parametrize("before", [False, True])
def test_routines_are_found_without_importing_their_package(before: bool) -> None:
    run_python(OF_SCIPY.format(before=before))


def test_ranks_have_the_default_integer_dtype():
    for x64, dtype in ((False, np.int32), (True, np.int64)):
        with xpr.enable_x64(x64):
            a = jnp.eye(2, 3)
            assert jnp.linalg.matrix_rank(a).dtype == jnp.linalg.matrix_rank(a[0]).dtype == dtype
            for rows in (2, 0):
                rank = jnp.linalg.lstsq(a[:rows], jnp.ones(rows))[2]
                assert isinstance(rank, xpr.Array) and rank.dtype == dtype and rank == rows
