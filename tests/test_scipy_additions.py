"""Cosine transforms, exponential integrals and kernel densities give what SciPy's give."""

import numpy as np
import pytest
import scipy.fft
import scipy.special
import scipy.stats

import xpr
import xpr.numpy as jnp
from xpr.scipy import fft, special, stats


class TestCosineTransforms:
    X = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)

    @pytest.mark.parametrize("norm", [None, "ortho"])
    @pytest.mark.parametrize("n", [None, 1, 4, 9])
    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("name", ["dct", "idct"])
    def test_along_one_axis(self, name, axis, n, norm):
        given = {"n": n, "axis": axis, "norm": norm}
        expected = getattr(scipy.fft, name)(self.X, **given)
        np.testing.assert_allclose(getattr(fft, name)(self.X, **given), expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("name", ["dctn", "idctn"])
    def test_along_several_axes(self, name):
        for given in ({}, {"axes": (1,)}, {"s": (2, 5)}, {"norm": "ortho", "axes": (1, 0)}):
            expected = getattr(scipy.fft, name)(self.X, **given)
            np.testing.assert_allclose(getattr(fft, name)(self.X, **given), expected, rtol=1e-4, atol=1e-4)

    def test_gradient(self):
        gradient = xpr.grad(lambda x: (fft.dct(x, norm="ortho") ** 2).sum())(self.X)
        np.testing.assert_allclose(gradient, 2 * self.X, rtol=1e-4, atol=1e-5)

    def test_what_is_refused(self):
        with pytest.raises(NotImplementedError, match="dct: only the transform of type 2 is there"):
            fft.dct(self.X, type=1)
        with pytest.raises(ValueError, match="idct: norm must be None, 'backward' or 'ortho'"):
            fft.idct(self.X, norm="forwards")
        with pytest.raises(ValueError, match=r"idctn: s must have at most x.ndim \(2\) elements, and has 3"):
            fft.idctn(jnp.ones((1, 3)), s=(2, 3, 4))
        with pytest.raises(ValueError, match=r"dctn: a size for each axis is needed; s is \(2,\)"):
            fft.dctn(jnp.ones((1, 3)), s=2, axes=(0, 1))

    def test_complex_arrays_are_transformed_by_parts(self):
        z = self.X * (1 + 2j) + 3j
        for name in ("dct", "idct", "dctn", "idctn"):
            for given in ({}, {"norm": "ortho"}):
                expected = getattr(scipy.fft, name)(z, **given)
                actual = getattr(fft, name)(z, **given)
                assert actual.dtype == jnp.complex64
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 5e-6), (np.float64, 1e-13)])
@pytest.mark.parametrize("name", ["exp1", "expi"])
def test_exponential_integrals(name, dtype, tolerance):
    points = np.concatenate([np.linspace(1e-3, 60, 501), [1e-10, 80, 0, np.inf, np.nan]])
    x = np.concatenate([points, -points] if name == "expi" else [points, [-1]]).astype(dtype)
    with xpr.enable_x64(dtype == np.float64):
        values = np.asarray(xpr.jit(getattr(special, name))(x), np.float64)
    expected = getattr(scipy.special, name)(x.astype(np.float64))
    floor = 1 if name == "expi" else 1e-30
    with np.errstate(all="ignore"):
        error = np.abs(values - expected) / np.maximum(np.abs(expected), floor)
    same = (values == expected) | (np.isnan(values) & np.isnan(expected))
    assert np.all(same | (error < tolerance)), x[~(same | (error < tolerance))]


def test_derivatives_of_exponential_integrals():
    assert np.isclose(xpr.grad(special.expi)(2.0), np.exp(2) / 2)
    assert np.isclose(xpr.grad(special.exp1)(2.0), -np.exp(-2) / 2)
    with pytest.raises(TypeError, match="expi: takes real numbers"):
        special.expi(1j)


class TestKernelDensity:
    DATA = np.random.default_rng(1).normal(size=(2, 20)).astype(np.float32)
    AT = np.random.default_rng(2).normal(size=(2, 5)).astype(np.float32)
    WEIGHTS = np.linspace(1, 2, 20).astype(np.float32)

    @pytest.mark.parametrize("given", [{}, {"bw_method": "silverman"}, {"bw_method": 0.3}, {"weights": WEIGHTS}])
    def test_densities(self, given):
        ours, theirs = stats.gaussian_kde(self.DATA, **given), scipy.stats.gaussian_kde(self.DATA, **given)
        np.testing.assert_allclose(ours(self.AT), theirs(self.AT), rtol=1e-4)
        np.testing.assert_allclose(ours.logpdf(self.AT), theirs.logpdf(self.AT), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours.integrate_kde(ours), theirs.integrate_kde(theirs), rtol=1e-4)
        mean, cov = self.AT[:, 0], np.eye(2, dtype=np.float32)
        expected = theirs.integrate_gaussian(mean, cov)
        np.testing.assert_allclose(ours.integrate_gaussian(mean, cov), expected, rtol=1e-4)

    def test_numbers(self):
        ours, theirs = stats.gaussian_kde(self.DATA[0]), scipy.stats.gaussian_kde(self.DATA[0])
        np.testing.assert_allclose(ours.integrate_box_1d(-1, 0.5), theirs.integrate_box_1d(-1, 0.5), rtol=1e-4)
        samples = ours.resample(xpr.random.key(0), (4000,))
        assert samples.shape == (1, 4000)
        assert abs(samples.mean() - self.DATA[0].mean()) < 0.1
        assert xpr.jit(lambda kde, x: kde(x))(ours, self.AT[0]).shape == (5,)

    def test_what_does_not_fit(self):
        with pytest.raises(ValueError, match="takes two points or more"):
            stats.gaussian_kde(jnp.ones(1))
        with pytest.raises(ValueError, match=r"20 points have weights \(20,\)"):
            stats.gaussian_kde(self.DATA, weights=np.ones(3))
        with pytest.raises(ValueError, match="points have 2 coordinates, and 3 were given"):
            stats.gaussian_kde(self.DATA)(np.ones((3, 4)))
        with pytest.raises(ValueError, match="bw_method is 'scott', 'silverman'"):
            stats.gaussian_kde(self.DATA, bw_method="wide")
