"""cg, bicgstab and gmres: solutions, beside jax where it is installed; derivatives, pytrees, messages."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental.sparse import BCOO, BCSR
from xpr.scipy.sparse.linalg import bicgstab, cg, gmres

RNG = np.random.default_rng(0)
ROOT = RNG.normal(size=(6, 6)).astype(np.float32)
SYMMETRIC = ROOT @ ROOT.T + 2 * np.eye(6, dtype=np.float32)
GENERAL = ROOT + 4 * np.eye(6, dtype=np.float32)
B = RNG.normal(size=6).astype(np.float32)


@pytest.mark.parametrize("solver, A", [(cg, SYMMETRIC), (bicgstab, GENERAL), (gmres, GENERAL), (gmres, SYMMETRIC)])
def test_solutions_and_derivatives(solver, A):
    expected = np.linalg.solve(A, B)
    diagonal = np.diag(1 / np.diag(A))
    for way in (lambda f: f, xpr.jit):
        for options in ({}, {"M": diagonal}, {"M": lambda x: x / np.diag(A)}, {"x0": B}):
            found, info = way(lambda b, options=options: solver(A, b, tol=1e-6, **options))(B)
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
            assert info == 0 if solver is gmres else info is None
    np.testing.assert_allclose(solver(lambda x: A @ x, B, tol=1e-6)[0], expected, rtol=1e-3, atol=1e-4)

    def total(A, b, solve):
        return jnp.sum(jnp.sin(solve(A, b)))

    slopes = xpr.grad(total, (0, 1))(A, B, lambda A, b: solver(A, b, tol=1e-7)[0])
    wanted = xpr.grad(total, (0, 1))(A, B, jnp.linalg.solve)
    wanted = ((wanted[0] + wanted[0].T) / 2, wanted[1]) if solver is cg else wanted
    slopes = ((slopes[0] + slopes[0].T) / 2, slopes[1]) if solver is cg else slopes
    for x, y in zip(slopes, wanted):
        np.testing.assert_allclose(x, y, rtol=2e-2, atol=2e-3)
    rows = xpr.vmap(lambda b: solver(A, b, tol=1e-6)[0])(np.stack([B, 2 * B, 0 * B]))
    np.testing.assert_allclose(rows, np.stack([expected, 2 * expected, 0 * expected]), rtol=1e-3, atol=1e-4)


def test_pytrees_complex_numbers_and_few_steps():
    b = {"x": B[:2], "y": B[2]}
    found, _ = cg(lambda t: {"x": 2 * t["x"], "y": 4 * t["y"]}, b)
    np.testing.assert_allclose(found["x"], B[:2] / 2, rtol=1e-4)
    np.testing.assert_allclose(found["y"], B[2] / 4, rtol=1e-4)
    hermitian = SYMMETRIC + 1j * (ROOT - ROOT.T)
    hermitian = (hermitian @ hermitian.conj().T).astype(np.complex64)
    found, _ = cg(hermitian, B.astype(np.complex64), tol=1e-6, maxiter=200)
    np.testing.assert_allclose(hermitian @ found, B, atol=2e-2)
    assert cg(SYMMETRIC, B, maxiter=0)[0].tolist() == [0] * 6
    assert cg(jnp.eye(2), jnp.array([1, 2]))[0].tolist() == [1, 2]
    sparse = pytest.importorskip("jax.scipy.sparse.linalg")
    for ours, theirs, A in ((cg, sparse.cg, SYMMETRIC), (bicgstab, sparse.bicgstab, GENERAL)):
        for steps in (1, 3):
            np.testing.assert_allclose(
                ours(A, B, maxiter=steps)[0], theirs(A, B, maxiter=steps)[0], rtol=1e-3, atol=1e-5
            )


def test_errors():
    with pytest.raises(ValueError, match=r"cg: A must be a square matrix or a function, and has shape \(2, 3\)"):
        cg(jnp.ones((2, 3)), jnp.ones(3))
    with pytest.raises(TypeError, match=r"cg: A must be a function or an array, and is \[\[1\]\]"):
        cg([[1]], jnp.ones(1))
    with pytest.raises(ValueError, match=r"bicgstab: M must be a square matrix or a function, and has shape \(3,\)"):
        bicgstab(jnp.eye(3), jnp.ones(3), M=jnp.ones(3))
    with pytest.raises(ValueError, match="cg: x0 and b must have matching tree structure"):
        cg(lambda x: x, {"x": jnp.ones(2)}, {"z": jnp.ones(2)})
    with pytest.raises(
        ValueError, match=r"cg: x0 and b must have matching shape, and the shapes are \[\(3,\)\] and \[\(2,\)\]"
    ):
        cg(lambda x: x, jnp.ones(2), jnp.ones(3))


@pytest.mark.parametrize("solver", [cg, bicgstab, gmres])
def test_solutions_of_numbers_are_weakly_typed(solver):
    assert solver(lambda x: 2 * x, 3.0)[0].weak_type
    assert not solver(lambda x: 2 * x, 3.0, jnp.zeros(()))[0].weak_type
    found, _ = solver(lambda x: xpr.tree.map(lambda each: 2 * each, x), {"a": jnp.ones(2), "b": 3.0})
    assert {name: x.weak_type for name, x in found.items()} == {"a": False, "b": True}


def test_cycles_of_gmres():
    """Restarts converge too, and end where nothing gets better, or where the basis is whole."""
    expected = np.linalg.solve(GENERAL, B)
    for options in ({"restart": 3}, {"restart": 6}, {"restart": 50}, {"solve_method": "incremental"}):
        found, _ = gmres(GENERAL, B, tol=1e-6, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert gmres(jnp.eye(3), jnp.zeros(3))[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(gmres(2 * jnp.eye(3), jnp.ones(3), tol=0.0)[0], [0.5] * 3, rtol=1e-6)
    once = gmres(GENERAL, B, restart=2, maxiter=1, tol=0.0)[0]
    basis = np.stack([B, GENERAL @ B], 1)
    best = basis @ np.linalg.lstsq(GENERAL @ basis, B, rcond=None)[0]
    np.testing.assert_allclose(once, best, rtol=1e-3)
    complex_matrix = (GENERAL + 1j * ROOT.T).astype(np.complex64)
    found, _ = gmres(complex_matrix, B.astype(np.complex64), tol=1e-6)
    np.testing.assert_allclose(complex_matrix @ found, B, atol=1e-3)
    found, _ = gmres(lambda t: {"x": 2 * t["x"], "y": t["x"].sum() + 4 * t["y"]}, {"x": B[:2], "y": B[2]})
    np.testing.assert_allclose(found["y"], (B[2] - B[:2].sum() / 2) / 4, rtol=1e-4)


def test_errors_of_gmres():
    with pytest.raises(ValueError, match="gmres: solve_method is 'batched' or 'incremental', and not 'all'"):
        gmres(jnp.eye(3), jnp.ones(3), solve_method="all")
    with pytest.raises(ValueError, match="gmres: restart is 1 or more, and is 0"):
        gmres(jnp.eye(3), jnp.ones(3), restart=0)


@pytest.mark.parametrize("method", [cg, bicgstab, gmres])
def test_sparse_matrices_are_operators(method):
    matrix = np.diag(np.arange(1.0, 5.0, dtype="f")) + np.eye(4, k=1, dtype="f") / 8 + np.eye(4, k=-1, dtype="f") / 8
    expected = np.linalg.solve(matrix, np.ones(4, "f"))
    for layout in (BCOO, BCSR):
        found, _ = xpr.jit(lambda A, b: method(A, b, tol=1e-6))(layout.fromdense(matrix), jnp.ones(4))
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_gmres_says_whether_the_solution_has_a_nan():
    x, failed = gmres(GENERAL, B)
    assert failed == 0 and failed.dtype == jnp.int32 and np.isfinite(x).all()
    x, failed = gmres(GENERAL, B, x0=jnp.full_like(B, jnp.nan))
    assert failed == -1 and np.isnan(x).all()
