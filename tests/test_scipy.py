"""xpr.scipy.special and xpr.scipy.stats beside SciPy, whose numbers are of 64 bits, and beside jax's types."""

import importlib
import importlib.util
import inspect
import pickle
import warnings

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests import helpers
from xpr.scipy import special, stats

scipy_special = pytest.importorskip("scipy.special")
scipy_stats = pytest.importorskip("scipy.stats")

X = np.array([-25.0, -5.5, -2.5, -1.0, -0.3, 0.0, 1e-3, 0.3, 0.5, 0.9, 1.0, 1.7, 3.0, 6.0, 15.0, 40.0])
P = np.array([-0.1, 0, 1e-30, 1e-7, 0.01, 0.05, 0.3, 0.5, 0.7, 0.99, 0.9999999, 1.0, 1.1])
A, B = np.meshgrid(np.abs(X[::2]) + 0.1, np.abs(X[1::2]) + 0.2)
ONE = {
    **dict.fromkeys(
        ["digamma", "entr", "erf", "erfc", "expit", "gamma", "gammaln", "i0", "i0e", "i1", "i1e", "log_ndtr", "ndtr"], X
    ),
    **dict.fromkeys(["erfinv", "logit", "ndtri"], P),
    "factorial": np.arange(-1.0, 9),
    "gammasgn": np.array([-np.inf, -3.0, -2.5, -0.5, 0.0, 2.0, np.nan]),
}
TWO = {
    **dict.fromkeys(["beta", "betaln", "boxcox", "boxcox1p", "comb", "gammainc", "gammaincc", "poch"], (A, B)),
    **dict.fromkeys(["kl_div", "rel_entr", "xlog1py", "xlogy"], np.meshgrid(X, X)),
    "zeta": (A + 1.1, B + 0.5),
}


def close(ours, theirs, tolerance=1e-9):
    helpers.close(ours, theirs, tolerance)


def scipys(fun, *args, **kwargs):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return fun(*args, **kwargs)


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_special_functions(name):
    args = (ONE[name],) if name in ONE else TWO[name]
    with xpr.enable_x64(True):
        found, expected = getattr(special, name)(*args), scipys(getattr(scipy_special, name), *args)
        finite = np.abs(expected) < 1e300
        close(found[finite], expected[finite], 1e-6 if name == "zeta" else 1e-8)
        if name not in ("digamma", "gamma", "poch", "beta", "betaln"):  # at poles conventions differ
            np.testing.assert_array_equal(np.asarray(found)[~finite], expected[~finite])
    assert getattr(special, name)(*(x.astype(np.float32) for x in args)).dtype == np.float32


def test_special_functions_of_three_and_of_integers():
    with xpr.enable_x64(True):
        close(special.betainc(A, B, 0.3), scipy_special.betainc(A, B, 0.3), 1e-7)
        close(special.multigammaln(A + 3, 3), scipy_special.multigammaln(A + 3, 3))
        close(special.polygamma(2, A), scipy_special.polygamma(2, A), 1e-7)
        close(special.comb(np.arange(5), 2), scipy_special.comb(np.arange(5), 2))
        close(special.comb(4, 2, repetition=True) * np.ones(1), np.array([10.0]))
    assert special.gammaln(3).dtype == jnp.float32


@pytest.mark.parametrize(
    "fun, points",
    [
        (special.log_ndtr, [-30.0, -5.0, 0.0, 4.0]),
        (special.ndtri, [1e-6, 0.2, 0.5, 0.999]),
        (special.logit, [0.1, 0.5]),
        (special.gamma, [0.5, 3.0, -1.5]),
        (lambda x: special.xlogy(x, 2 * x), [0.5, 2.0]),
        (lambda x: special.boxcox(x, 0.0), [0.5, 2.0]),
        (lambda x: special.betainc(2.0, 3.0, x), [0.1, 0.7]),
    ],
)
def test_derivatives(fun, points):
    with xpr.enable_x64(True):
        for x in map(np.float64, points):
            step = 1e-6 * max(1, abs(x)) * min(1, x if 0 < x < 1 else 1)
            difference = (fun(x + step) - fun(x - step)) / (2 * step)
            assert float(xpr.grad(fun)(x)) == pytest.approx(float(difference), rel=1e-5)
            xpr.grad(xpr.grad(fun))(x)


def test_derivatives_at_edges():
    assert xpr.grad(special.xlogy)(0.0, 2.0) == np.float32(np.log(2)) and xpr.grad(special.xlogy, 1)(0.0, 2.0) == 0
    assert xpr.grad(special.entr)(0.0) == np.inf and xpr.grad(special.logit)(1.0) == np.inf
    density = xpr.vmap(xpr.grad(special.betainc, 2))
    found = density(jnp.array([1.0, 2.0, 2.5, 1.0]), jnp.array([3.0, 1.0, 1.5, 0.5]), jnp.array([0.0, 1.0, 0.0, 1.0]))
    np.testing.assert_allclose(found, [3, 2, 0, np.inf], rtol=3e-7)


CONTINUOUS = {
    "norm": (), "uniform": (), "expon": (), "laplace": (), "logistic": (), "cauchy": (), "gamma": (2.5,),
    "chi2": (3.0,), "beta": (2.5, 1.5), "t": (3.0,), "pareto": (2.5,), "gumbel_r": (), "gumbel_l": (),
    "gennorm": (1.5,), "truncnorm": (-0.5, 1.2), "vonmises": (2.0,), "wrapcauchy": (0.3,),
}  # fmt: skip
DISCRETE = {"bernoulli": (0.3,), "geom": (0.3,), "poisson": (2.5,), "nbinom": (3.0, 0.4),
            "binom": (5.0, 0.3), "betabinom": (5.0, 2.0, 3.0)}  # fmt: skip
FUNCTIONS = ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
POINTS = np.array([-3.0, -1.0, -0.2, 0.0, 0.1, 0.5, 0.9, 1.0, 1.5, 2.0, 4.0, 7.3, np.nan])


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_distributions(name):
    parameters = CONTINUOUS.get(name) or DISCRETE.get(name) or ()
    moved = {"loc": 0.25, "scale": 1.5} if name in CONTINUOUS else {"loc": 1}
    jax_stats = importlib.import_module("jax.scipy.stats") if importlib.util.find_spec("jax") else None
    for function in FUNCTIONS:
        ours = getattr(getattr(stats, name), function, None)
        if ours is None:
            assert not hasattr(getattr(jax_stats, name, None), function)
            continue
        points = np.array([0.01, 0.3, 0.8]) if function in ("ppf", "isf") else POINTS
        points = np.arange(-2, 8) if name in DISCRETE and function != "ppf" else points
        options = {} if name == "bernoulli" and function in ("cdf", "ppf") else moved
        theirs = getattr(getattr(scipy_stats, name), function)
        with xpr.enable_x64(True):
            close(ours(points, *parameters, **options), scipys(theirs, points, *parameters, **options), 1e-7)
        assert ours(points.astype(np.float32), *parameters).dtype == np.float32
        slopes = xpr.vmap(xpr.grad(lambda x, f=ours: f(x, *parameters)))(points.astype(np.float32))
        assert slopes.shape == points.shape


def test_functions_of_distributions_show_their_arguments():
    assert [*inspect.signature(stats.gamma.logsf).parameters] == ["x", "a", "loc", "scale"]
    assert [*inspect.signature(stats.nbinom.pmf).parameters] == ["k", "n", "p", "loc"]
    assert stats.chi2.sf.__qualname__ == "sf" and stats.chi2.sf.__module__ == "xpr.scipy.stats.chi2"
    assert stats.poisson.cdf.__doc__ == "The probability up to k."
    assert pickle.loads(pickle.dumps(stats.gumbel_l.ppf)) is stats.gumbel_l.ppf
    by_name = stats.gamma.cdf(scale=2.0, a=3.0, x=1.0)
    assert by_name == stats.gamma.cdf(1.0, 3.0, 0, 2.0) == stats.gamma.cdf(1.0, 3.0, scale=2.0)
    with pytest.raises(TypeError, match="gamma.cdf: missing a required argument: 'a'"):
        stats.gamma.cdf(1.0)
    with pytest.raises(TypeError, match="norm.cdf: too many positional arguments"):
        stats.norm.cdf(1.0, 2.0, 3.0, 4.0)
    with pytest.raises(TypeError, match="t.pdf: got an unexpected keyword argument 'nu'"):
        stats.t.pdf(1.0, 2.0, nu=2.0)
    with pytest.raises(TypeError, match="t.pdf: multiple values for argument 'df'"):
        stats.t.pdf(1.0, 2.0, df=2.0)


def test_distributions_of_vectors():
    rng = np.random.default_rng(0)
    points, alpha = rng.dirichlet([1.0, 2, 3], 5).T, np.array([1.0, 2, 3])
    root = rng.normal(size=(3, 3))
    x, cov = rng.normal(size=(4, 3)), root @ root.T + np.eye(3)
    with xpr.enable_x64(True):
        expected = scipy_stats.dirichlet.logpdf(points, alpha)
        close(stats.dirichlet.logpdf(points, alpha), expected)
        close(stats.dirichlet.logpdf(points[:-1], alpha), expected)
        assert np.isneginf(stats.dirichlet.logpdf(1.1 * points, alpha)).all()
        close(stats.multivariate_normal.logpdf(x, x[0], cov), scipy_stats.multivariate_normal.logpdf(x, x[0], cov))
        close(stats.multivariate_normal.pdf(x, x[0], 2.0), scipy_stats.multivariate_normal.pdf(x, x[0], 2 * np.eye(3)))
        close(stats.multivariate_normal.logpdf(x, 0.5, 2.0), stats.norm.logpdf(x, 0.5, np.sqrt(2.0)))
        several = stats.multivariate_normal.logpdf(x, x[::-1], np.stack([cov] * 4))
        close(several[1], scipy_stats.multivariate_normal.logpdf(x[1], x[2], cov))
        slope = xpr.grad(lambda c: stats.multivariate_normal.logpdf(x[1], x[0], c * cov))(1.0)
        assert np.isfinite(slope)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: special.sici(1j), ValueError, r"Argument `x` to sici must be real-valued: c64\[\]"),
        (lambda: special.gammaln(1j), TypeError, r"Argument `x` to gammaln must be real-valued: c64\[\]"),
        (lambda: special.erf([1.0]), TypeError, "Expected an array"),
        (lambda: special.factorial(3, exact=True), NotImplementedError, "math.factorial"),
        (lambda: special.zeta(2.0), NotImplementedError, "give q"),
        (lambda: special.multigammaln(2.0, 1.5), TypeError, "number of dimensions must be an integer"),
        (lambda: special.ndtri(jnp.float16(0.5)), TypeError, "ndtri: takes f32 or f64"),
        (lambda: special.log_ndtr(jnp.float16(0.5)), TypeError, "log_ndtr: takes f32 or f64"),
        (lambda: special.log_ndtr(0.5, 31), ValueError, "from 0 to 30"),
        (lambda: special.log_ndtr(0.5, 3.0), TypeError, "series_order must be an integer"),
        (lambda: stats.dirichlet.logpdf(jnp.ones(2), jnp.ones(4)), ValueError, r"f32\[4\] and f32\[2\]"),
        (
            lambda: stats.multivariate_normal.logpdf(jnp.ones(2), jnp.ones(2), jnp.eye(3)),
            ValueError,
            r"matrix \[2,2\], and is f32\[3,3\]",
        ),
        (lambda: stats.multivariate_normal.logpdf(X, X, 1.0, True), NotImplementedError, "allow_singular"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_products_with_logarithms_of_nan():
    """0 log(0) is 0, and 0 log(nan) is nan, as in SciPy and jax."""
    for function in (special.xlogy, special.xlog1py):
        assert np.isnan(function(0, np.nan)) and np.isnan(xpr.jit(function)(0.0, np.nan))
        assert function(0.0, 0.0) == 0
    assert special.xlogy(0.0, -1.0) == 0 and special.xlog1py(0.0, -1.0) == 0


def test_softmax_is_over_all_elements_by_default():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name in ("softmax", "log_softmax"):
        mine, want = getattr(special, name), getattr(scipy_special, name)
        np.testing.assert_allclose(mine(x), want(x), rtol=1e-5)
        np.testing.assert_allclose(mine(x, axis=0), want(x, axis=0), rtol=1e-5)
