"""Schur forms, square roots and other functions of matrices, Sylvester's and banded equations, beside SciPy."""

import numpy as np
import pytest
import scipy.linalg

import xpr
import xpr.numpy as jnp
from tests.test_scipy_matrices import derivative_agrees
from xpr.errors import UnsupportedRule
from xpr.scipy import linalg

rng = np.random.default_rng(0)
REAL = rng.normal(size=(5, 5))
COMPLEX = REAL + 1j * rng.normal(size=(5, 5))
SYMMETRIC = REAL @ REAL.T + np.eye(5)


def close(found, wanted, tolerance=1e-10):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def in_64_bits():
    with xpr.enable_x64(True):
        yield


@pytest.mark.parametrize("a", [REAL, COMPLEX, np.ones((1, 1)), np.zeros((0, 0))])
def test_forms(a):
    for output in ("real", "complex"):
        t, z = map(np.asarray, linalg.schur(a, output))
        close(z @ t @ z.conj().T, a)
        close(z.conj().T @ z, np.eye(len(a)))
        assert np.tril(t, -2 if output == "real" else -1).any() == False  # noqa: E712
        assert np.iscomplexobj(t) == (output == "complex" or np.iscomplexobj(a))
    h, q = map(np.asarray, linalg.hessenberg(a, calc_q=True))
    close(q @ h @ q.conj().T, a)
    close(q.conj().T @ q, np.eye(len(a)))
    assert not np.tril(h, -2).any()
    close(linalg.hessenberg(a), h)


def test_complex_form_of_the_real_one():
    t, z = scipy.linalg.schur(REAL)
    for one, two in zip(linalg.rsf2csf(t, z), scipy.linalg.rsf2csf(t, z)):
        close(one, two)
    several = linalg.rsf2csf(np.stack([t, t]), z)
    close(several[0][1], scipy.linalg.rsf2csf(t, z)[0])


def test_forms_of_stacks_and_their_derivatives():
    t, z = map(np.asarray, linalg.schur(np.stack([REAL, -REAL])))
    close(z[1] @ t[1] @ z[1].T, -REAL)
    h, q = map(np.asarray, xpr.jit(xpr.vmap(lambda a: linalg.hessenberg(a, calc_q=True)))(np.stack([REAL, -REAL])))
    close(q[1] @ h[1] @ q[1].T, -REAL)
    with pytest.raises(UnsupportedRule, match="schur has no derivative"):
        xpr.jacobian(lambda a: linalg.schur(a)[0])(REAL)


@pytest.mark.filterwarnings("ignore:Matrix is singular")
@pytest.mark.parametrize("a", [SYMMETRIC, COMPLEX, REAL, np.diag([0.0, 1, 4]), np.zeros((2, 2)), np.ones((1, 1))])
def test_square_roots(a):
    root = np.asarray(linalg.sqrtm(a))
    close(root @ root, a)
    close(root, scipy.linalg.sqrtm(a), 1e-8)
    assert np.iscomplexobj(root)


def test_square_roots_of_stacks_their_derivatives_and_where_there_are_none():
    close(linalg.sqrtm(np.stack([SYMMETRIC, 4 * SYMMETRIC]))[1], 2 * np.asarray(linalg.sqrtm(SYMMETRIC)))
    derivative_agrees(lambda a: linalg.sqrtm(a).real, SYMMETRIC)
    assert not np.isfinite(linalg.sqrtm(np.array([[0.0, 1], [0, 0]]))).all()
    assert linalg.sqrtm(np.zeros((0, 0))).shape == (0, 0)


def test_functions():
    for fun, theirs in ((jnp.exp, scipy.linalg.expm), (jnp.sin, scipy.linalg.sinm)):
        close(linalg.funm(REAL, fun), theirs(REAL), 1e-8)
        close(linalg.funm(COMPLEX, fun), theirs(COMPLEX), 1e-8)
    fun = lambda x: x ** (1 / 3)  # which has a branch cut along the negative eigenvalues
    matrix = rng.normal(size=(12, 12))
    close(linalg.funm(matrix, fun), scipy.linalg.funm(matrix, fun), 1e-8)
    value, error = linalg.funm(REAL, jnp.exp, disp=False)
    assert value.shape == (5, 5) and 0 < error < 1e-12
    close(xpr.jit(lambda a: linalg.funm(a, jnp.cos))(REAL), scipy.linalg.cosm(REAL), 1e-8)
    with pytest.raises(ValueError, match=r"funm: takes a matrix, and got f64\[1,5,5\]"):
        linalg.funm(REAL[None], jnp.exp)


@pytest.mark.parametrize("kind", ["f", "c"])
def test_equation_of_sylvester(kind):
    a, b, c = (rng.normal(size=s) + (1j * rng.normal(size=s) if kind == "c" else 0) for s in ((4, 4), (3, 3), (4, 3)))
    for method in ("schur", "eigen"):
        x = np.asarray(linalg.solve_sylvester(a, b, c, method=method))
        close(a @ x + x @ b, c, 1e-9)
        assert np.iscomplexobj(x) == (kind == "c")
    close(linalg.solve_sylvester(np.stack([a, 2 * a]), b, c)[1], scipy.linalg.solve_sylvester(2 * a, b, c), 1e-8)
    derivative_agrees(lambda a: linalg.solve_sylvester(a, b, c), a)
    derivative_agrees(lambda b: linalg.solve_sylvester(a, b, c), b)
    derivative_agrees(lambda c: linalg.solve_sylvester(a, b, c), c)


def test_equation_of_sylvester_without_a_solution():
    assert np.isnan(linalg.solve_sylvester(np.eye(2), -np.eye(2), np.ones((2, 2)))).all()
    assert linalg.solve_sylvester(np.zeros((0, 0)), np.eye(2), np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("lower, upper", [(0, 0), (1, 1), (2, 0), (1, 3)])
def test_banded_equations(lower, upper):
    ab, b = rng.normal(size=(lower + upper + 1, 6)), rng.normal(size=(6, 2))
    ab[upper] += 4
    for each in (b, b[:, 0]):
        close(linalg.solve_banded((lower, upper), ab, each), scipy.linalg.solve_banded((lower, upper), ab, each))
    derivative_agrees(lambda ab: linalg.solve_banded((lower, upper), ab, b), ab)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: linalg.schur(REAL, "triangular"), "output is 'real' or 'complex', and not 'triangular'"),
        (
            lambda: linalg.rsf2csf(REAL, REAL[1:, 1:]),
            r"square matrices of one size, and got T f64\[5,5\] and Z f64\[4,4\]",
        ),
        (lambda: linalg.solve_sylvester(REAL, REAL, REAL[1:]), r"matrices \[m,m\], \[n,n\] and \[m,n\], and got"),
        (lambda: linalg.solve_sylvester(REAL, REAL, REAL, method="qr"), "method is 'schur' or 'eigen', and not 'qr'"),
        (lambda: linalg.solve_banded((-1, 5), REAL, REAL[0]), r"numbers of diagonals, 0 or more, and are \(-1, 5\)"),
        (lambda: linalg.solve_banded((1, 1), REAL, REAL[0]), r"the main one are \[3,n\], and got f64\[5,5\]"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
