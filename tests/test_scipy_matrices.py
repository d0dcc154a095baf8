"""Special matrices, and decompositions of `xpr.scipy.linalg` beyond those of `jnp.linalg`, beside SciPy."""

import numpy as np
import pytest
import scipy.linalg

import xpr
import xpr.numpy as jnp
from tests.helpers import close
from xpr.scipy import linalg

rng = np.random.default_rng(0)


def derivative_agrees(fun, x, tolerance=1e-6):
    """The derivative of a function of an array in a random direction, forward and reverse, is a difference quotient."""
    with xpr.enable_x64(True):
        shape = np.shape(x)
        direction = rng.normal(size=shape) + (1j * rng.normal(size=shape) if np.iscomplexobj(x) else 0)
        step = 1e-6
        difference = (np.asarray(fun(x + step * direction)) - np.asarray(fun(x - step * direction))) / (2 * step)
        _, tangent = xpr.jvp(fun, (x,), (direction,))
        np.testing.assert_allclose(tangent, difference, rtol=tolerance, atol=tolerance * abs(difference).max())
        out, pull = xpr.vjp(fun, x)
        weights = rng.normal(size=out.shape).astype(out.dtype)
        (cotangent,) = pull(jnp.asarray(weights))
        np.testing.assert_allclose(
            np.sum(np.asarray(cotangent) * direction).real, np.sum(weights * np.asarray(tangent)).real, rtol=1e-7
        )


class TestFormsOfVectors:
    @pytest.mark.parametrize(
        "name, args",
        [
            ("toeplitz", ([1, 2, 3], [9, 5, 6, 7])),
            ("toeplitz", ([1, 2j, 3],)),
            ("hankel", ([1, 2, 3], [9, 5, 6, 7])),
            ("hankel", ([1.0, 2, 3],)),
            ("circulant", ([1, 2, 3, 4],)),
            ("companion", ([2.0, 1, 4, 5],)),
            ("fiedler", ([1, 5, 2, 2],)),
            ("leslie", ([0.5, 2.0, 1.0], [0.25, 0.75])),
            *[("fiedler_companion", (list(range(2, 2 + n)),)) for n in range(2, 9)],
            *[("convolution_matrix", ([1, 2, 3], n, mode)) for n in (1, 2, 5) for mode in ("full", "same", "valid")],
        ],
    )
    def test_values_and_stacks(self, name, args):
        vectors = [np.array(x) for x in args if isinstance(x, list)]
        others = args[len(vectors) :]
        ours, theirs = getattr(linalg, name), getattr(scipy.linalg, name)
        found = ours(*vectors, *others)
        wanted = theirs(*vectors, *others)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        np.testing.assert_allclose(xpr.jit(lambda *xs: ours(*xs, *others))(*vectors), wanted, rtol=1e-6)
        stacks = [np.stack([x, 2 * x + 1]) for x in vectors]
        several = ours(*stacks, *others)
        mapped = xpr.vmap(lambda *xs: ours(*xs, *others))(*stacks)
        np.testing.assert_allclose(several, mapped, rtol=1e-6)
        np.testing.assert_allclose(several[1], theirs(*(2 * x + 1 for x in vectors), *others), rtol=1e-6)

    def test_derivatives(self):
        a = rng.normal(size=5)
        for name in ("toeplitz", "hankel", "circulant", "companion", "fiedler_companion", "fiedler"):
            derivative_agrees(getattr(linalg, name), a)
        derivative_agrees(lambda a: linalg.leslie(a, a[1:]), a)
        derivative_agrees(lambda a: linalg.convolution_matrix(a, 3), a)

    def test_empty_vectors(self):
        empty = np.zeros(0, np.float32)
        assert linalg.circulant(empty).shape == linalg.fiedler(empty).shape == linalg.hankel(empty).shape == (0, 0)

    @pytest.mark.parametrize(
        "call, message",
        [
            (
                lambda: linalg.companion(jnp.ones(1)),
                r"companion: the length of `a` along the last axis must be 2 or more, and it is f32\[1\]",
            ),
            (
                lambda: linalg.fiedler_companion(jnp.ones(0)),
                "fiedler_companion: the length of `a` along the last axis must be nonzero",
            ),
            (
                lambda: linalg.leslie(jnp.ones(3), jnp.ones(3)),
                "leslie: Incorrect lengths for f and s: 3 ages have 2 rates of survival, and 3 are given",
            ),
            (lambda: linalg.hankel(1.0), r"hankel: takes vectors, and got f32\[\]"),
            (
                lambda: linalg.convolution_matrix(jnp.ones(3), 0),
                "n must be a positive integer, the number of columns, and is 0",
            ),
            (lambda: linalg.convolution_matrix(jnp.ones(()), 1), "a must be at least 1-dimensional"),
            (lambda: linalg.convolution_matrix(jnp.ones(0), 1), "len\\(a\\) must be at least 1"),
            (
                lambda: linalg.convolution_matrix(jnp.ones(3), 2, "ful"),
                "mode must be one of 'full', 'same' and 'valid', and is 'ful'",
            ),
        ],
    )
    def test_errors(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()


class TestMatricesByOrder:
    @pytest.mark.parametrize(
        "name, options",
        [
            ("hilbert", {}),
            ("invhilbert", {}),
            *[(name, {"kind": k}) for name in ("pascal", "invpascal") for k in ("symmetric", "lower", "upper")],
            ("helmert", {}),
            ("helmert", {"full": True}),
            ("dft", {}),
            ("dft", {"scale": "sqrtn"}),
            ("dft", {"scale": "n"}),
            ("hadamard", {}),
        ],
    )
    def test_values(self, name, options):
        for n in (1, 2, 4, 16):
            wanted = getattr(scipy.linalg, name)(n, **options)
            with xpr.enable_x64(True):
                np.testing.assert_allclose(getattr(linalg, name)(n, **options), wanted, rtol=1e-14, atol=1e-14)
            narrow = getattr(linalg, name)(n, **options)
            assert narrow.dtype == {"dft": np.complex64, "hadamard": np.int32}.get(name, np.float32)
            np.testing.assert_allclose(narrow, wanted, rtol=1e-6, atol=1e-6)

    def test_dtypes(self):
        assert linalg.hadamard(4, jnp.float32).dtype == jnp.float32
        assert linalg.dft(3, dtype=jnp.complex64).dtype == jnp.complex64
        assert linalg.pascal(0).shape == linalg.dft(0).shape == (0, 0)

    @pytest.mark.parametrize(
        "call, message",
        [
            (lambda: linalg.hadamard(6), "hadamard: n must be a positive power of 2, and is 6"),
            (lambda: linalg.helmert(0), "helmert: n must be a positive integer, and is 0"),
            (
                lambda: linalg.pascal(3, "low"),
                "pascal: Expected kind to be one of 'symmetric', 'lower' and 'upper', and got 'low'",
            ),
            (lambda: linalg.dft(3, "sqrt"), "dft: scale must be None, 'sqrtn' or 'n', and is 'sqrt'"),
            (lambda: linalg.dft(3, dtype=jnp.float32), "dft: dtype must be complex, and is float32"),
        ],
    )
    def test_errors(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()


class TestTridiagonal:
    @pytest.mark.parametrize("n", [1, 2, 7])
    @pytest.mark.parametrize("kind", ["f", "c"])
    def test_values(self, n, kind):
        d, e = rng.normal(size=n), rng.normal(size=n - 1) + (1j * rng.normal(size=n - 1) if kind == "c" else 0)
        matrix = np.diag(d) + np.diag(e, 1) + np.diag(e.conj(), -1)
        with xpr.enable_x64(True):
            d = d.astype(e.dtype)
            values, vectors = linalg.eigh_tridiagonal(d, e)
            close(matrix @ vectors, np.asarray(vectors) * values)
            close(linalg.eigh_tridiagonal(d, e, eigvals_only=True), np.linalg.eigvalsh(matrix))
            if n > 2:
                some = linalg.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 2))
                close(some, np.linalg.eigvalsh(matrix)[1:3])

    def test_derivatives_and_stacks(self):
        d, e = rng.normal(size=5), rng.normal(size=4)
        derivative_agrees(lambda d: linalg.eigh_tridiagonal(d, e, eigvals_only=True), d)
        derivative_agrees(lambda e: linalg.eigh_tridiagonal(d, e, eigvals_only=True), e)
        several = xpr.vmap(lambda d: linalg.eigh_tridiagonal(d, e.astype("f"), eigvals_only=True))(np.float32([d, -d]))
        np.testing.assert_allclose(several[1], scipy.linalg.eigvalsh_tridiagonal(-d, e), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        "call, error, message",
        [
            (
                lambda d: linalg.eigh_tridiagonal(d, d),
                ValueError,
                r"diagonals of n and n - 1 elements, and got f32\[3\] and",
            ),
            (lambda d: linalg.eigh_tridiagonal(d, jnp.ones(2, int)), TypeError, r"got f32\[3\] and i32\[2\]"),
            (lambda d: linalg.eigh_tridiagonal(d, d[1:], select="b"), ValueError, "select is 'a' or 'i', and not 'b'"),
            (lambda d: linalg.eigh_tridiagonal(d, d[1:], select="i", select_range=(0.5, 1)), TypeError, "integer"),
            (lambda d: linalg.eigh_tridiagonal(d, d[1:], select="v"), NotImplementedError, "depends on values"),
            (
                lambda d: linalg.eigh_tridiagonal(d, d[1:], select="i", select_range=(1, 3)),
                ValueError,
                r"within 0, ..., 2",
            ),
        ],
    )
    def test_errors(self, call, error, message):
        with pytest.raises(error, match=message):
            call(jnp.ones(3))


class TestProductsWithQ:
    @pytest.mark.parametrize("mode", ["left", "right"])
    @pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
    def test_values(self, mode, shape):
        a = rng.normal(size=shape) + 1j * rng.normal(size=shape)
        inner = min(shape) if mode == "left" else shape[0]
        with xpr.enable_x64(True):
            for c in (rng.normal(size=inner), rng.normal(size=(inner, 2) if mode == "left" else (2, inner))):
                for options in ({}, {"conjugate": True}, {"pivoting": True}):
                    found = linalg.qr_multiply(a, c, mode, **options)
                    wanted = scipy.linalg.qr_multiply(a, c, mode, **options)
                    assert len(found) == len(wanted)
                    for x, y in zip(found, wanted):
                        close(x, y)
            batched = linalg.qr_multiply(np.stack([a, 2 * a]), c, mode)[0]
            close(batched[1], scipy.linalg.qr_multiply(2 * a, c, mode)[0])

    def test_errors(self):
        with pytest.raises(ValueError, match="mode is 'left' or 'right', and not 'up'"):
            linalg.qr_multiply(jnp.eye(2), jnp.ones(2), "up")
        with pytest.raises(ValueError, match=r"a f32\[3,2\] and c f32\[2\] don't fit: c needs 3 columns"):
            linalg.qr_multiply(jnp.ones((3, 2)), jnp.ones(2))


class TestPolar:
    @pytest.mark.parametrize("shape, side", [((4, 4), "right"), ((4, 4), "left"), ((5, 3), "right"), ((3, 5), "left")])
    @pytest.mark.parametrize("kind", ["f", "c"])
    def test_values_and_derivatives(self, shape, side, kind):
        a = rng.normal(size=shape) + (1j * rng.normal(size=shape) if kind == "c" else 0)
        with xpr.enable_x64(True):
            for method in ("qdwh", "svd"):
                for x, y in zip(linalg.polar(a, side, method=method), scipy.linalg.polar(a, side)):
                    close(x, y)
        for part in (0, 1):
            derivative_agrees(lambda a, part=part: linalg.polar(a, side)[part], a)

    def test_derivative_where_singular_values_are_equal(self):
        rotation = scipy.linalg.expm(np.array([[0.0, -0.3, 0.1], [0.3, 0, 0.2], [-0.1, -0.2, 0]]))
        derivative_agrees(lambda a: linalg.polar(a)[0], rotation)

    def test_wide_matrices_of_the_other_side(self):
        a = rng.normal(size=(2, 3)).astype("f")
        for x, y in zip(linalg.polar(a, "right"), scipy.linalg.polar(a, "right")):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
        with pytest.raises(xpr.errors.UnsupportedRule, match=r"P of f32\[2,3\] is singular, .* Take the other side"):
            xpr.jacobian(lambda a: linalg.polar(a)[0])(a)
        with pytest.raises(ValueError, match="side is 'right' or 'left', and not 'up'"):
            linalg.polar(a, "up")
        with pytest.raises(ValueError, match="method is 'qdwh' or 'svd', and not 'qr'"):
            linalg.polar(a, method="qr")


def test_derivative_of_the_exponential():
    a, e = rng.normal(size=(2, 4, 4))
    with xpr.enable_x64(True):
        for x, y in zip(linalg.expm_frechet(a, e), scipy.linalg.expm_frechet(a, e)):
            close(x, y)
        close(linalg.expm_frechet(a, e, compute_expm=False), scipy.linalg.expm_frechet(a, e, compute_expm=False))
        stack = linalg.expm_frechet(np.stack([a, 2 * a]), e, compute_expm=False)
        close(stack[1], scipy.linalg.expm_frechet(2 * a, e, compute_expm=False))
    derivative_agrees(lambda a: linalg.expm_frechet(a, e, compute_expm=False), a)
    with pytest.raises(ValueError, match="are not of one shape"):
        linalg.expm_frechet(jnp.eye(2), jnp.eye(3))
    with pytest.raises(ValueError, match="method is None, 'SPS' or 'blockEnlarge', and not 'pade'"):
        linalg.expm_frechet(jnp.eye(2), jnp.eye(2), method="pade")
