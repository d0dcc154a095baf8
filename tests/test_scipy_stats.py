"""Distributions at their edges and their derivatives in parameters, and statistics of samples, beside SciPy."""

import importlib
import warnings

import numpy as np
import pytest
import scipy.stats

import xpr
import xpr.numpy as jnp
from xpr import export
from xpr.scipy import stats

rng = np.random.default_rng(0)


def scipys(call):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return call()


def close(found, wanted, tolerance=1e-9):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=1e-300)


def test_distributions_are_modules():
    for name in ("norm", "t", "betabinom", "multivariate_normal"):
        module = importlib.import_module(f"xpr.scipy.stats.{name}")
        assert module is getattr(stats, name) and {*module.__all__} == {n for n in dir(module) if n in module.__all__}


EDGES = np.array([-np.inf, -1.0, 0.0, 0.5, 1.0, 3.0, 30.0, np.inf, np.nan])


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("binom", (5, 0.0)),
        ("binom", (5, 1.0)),
        ("binom", (0, 0.5)),
        ("binom", (5, 1.5)),
        ("binom", (-1, 0.5)),
        ("betabinom", (0, 1.0, 2.0)),
        ("betabinom", (4, -1.0, 2.0)),
        ("nbinom", (4.3, 0.4)),
        ("geom", (0.4,)),
        ("bernoulli", (0.4,)),
        ("poisson", (2.3,)),
    ],
)
@pytest.mark.parametrize("function", ["pmf", "logpmf", "cdf", "sf"])
def test_edges_of_integers(name, parameters, function):
    if hasattr(getattr(stats, name), function):
        k = np.array([-1, 0, 0.5, 1, 4, 5, 6])
        with xpr.enable_x64(True):
            found = getattr(getattr(stats, name), function)(k, *parameters)
        wanted = scipys(lambda: getattr(getattr(scipy.stats, name), function)(k, *parameters))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("t", (1.0,)),
        ("t", (0.3,)),
        ("t", (1e3,)),
        ("t", (np.inf,)),
        ("gennorm", (1.0,)),
        ("gennorm", (0.4,)),
        ("gennorm", (8.0,)),
    ],
)
@pytest.mark.parametrize("function", ["cdf", "sf", "logpdf"])
def test_edges_of_reals(name, parameters, function):
    if parameters == (np.inf,) and function == "logpdf":
        pytest.skip("the density for infinitely many degrees of freedom is not computed")
    with xpr.enable_x64(True):
        found = getattr(getattr(stats, name), function)(EDGES, *parameters)
    wanted = scipys(lambda: getattr(getattr(scipy.stats, name), function)(EDGES, *parameters))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-30)


@pytest.mark.parametrize(
    "a, b",
    [
        (-1, 2),
        (-np.inf, np.inf),
        (-np.inf, -3),
        (3, np.inf),
        (5, 6),
        (-20, -18),
        (-0.01, 0.02),
        (2, 2.001),
        (30, 31),
        (1, 1),
        (2, 1),
    ],
)
def test_truncated_normal(a, b):
    ends = np.clip([a, b], a if np.isfinite(a) else b - 3, b if np.isfinite(b) else max(a, -3) + 6)
    x = np.concatenate([np.linspace(*ends, 7), [a - 1, b + 1, np.nan]])
    with xpr.enable_x64(True):
        for function in ("logpdf", "logcdf", "logsf", "pdf", "cdf", "sf"):
            found = getattr(stats.truncnorm, function)(x, float(a), float(b))
            wanted = scipys(lambda f=function: getattr(scipy.stats.truncnorm, f)(x, a, b))
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-13)
            slopes = xpr.vmap(xpr.grad(lambda x, f=function: getattr(stats.truncnorm, f)(x, float(a), float(b))))(x[:7])
            assert np.isfinite(slopes).all() or not a < b


@pytest.mark.parametrize(
    "name, parameters, x",
    [
        ("binom", (5.0, 0.3), 2.0),
        ("betabinom", (5.0, 2.0, 1.5), 2.0),
        ("gennorm", (1.5,), 0.7),
        ("vonmises", (2.0,), 1.0),
        ("truncnorm", (-0.5, 1.2), 0.3),
        ("truncnorm", (2.0, 3.0), 2.5),
        ("wrapcauchy", (0.3,), 1.0),
        ("t", (3.0,), 0.5),
        ("nbinom", (3.0, 0.4), 2.0),
        ("beta", (2.5, 1.5), 0.3),
        ("pareto", (2.5,), 1.5),
        ("gamma", (2.5,), 1.5),
    ],
)
def test_derivatives_in_parameters(name, parameters, x):
    module = getattr(stats, name)
    functions = [module.logpmf if hasattr(module, "logpmf") else module.logpdf]
    functions += [module.cdf] if name in ("beta", "gennorm", "truncnorm", "gamma", "pareto", "t") else []
    with xpr.enable_x64(True):
        for function in functions:
            for i in range(len(parameters)):
                moved = lambda p, f=function, i=i: f(x, *parameters[:i], p, *parameters[i + 1 :])
                p, h = parameters[i], 1e-6
                close(xpr.grad(moved)(p), (moved(p + h) - moved(p - h)) / (2 * h), 1e-6)


def test_derivative_of_students_distribution():
    with xpr.enable_x64(True):
        for z in (-2.0, 0.0, 0.3, 5.0):
            close(xpr.grad(stats.t.cdf)(z, 3.0), stats.t.pdf(z, 3.0))
            close(xpr.grad(xpr.grad(stats.t.sf))(z, 3.0), -xpr.grad(stats.t.pdf)(z, 3.0))
        for z, df in ((-2.0, 1.5), (0.3, 3.0), (5.0, 40.0)):
            slope = (scipy.stats.t.cdf(z, df + 1e-5) - scipy.stats.t.cdf(z, df - 1e-5)) / 2e-5
            np.testing.assert_allclose(xpr.grad(stats.t.cdf, 1)(z, df), slope, rtol=1e-4)
        assert xpr.grad(stats.t.cdf, 1)(1.0, np.inf) == xpr.grad(stats.t.cdf, 1)(np.inf, 3.0) == 0
        assert xpr.grad(stats.t.sf, 1)(0.0, 3.0) == 0


def test_multinomial():
    x, p = rng.multinomial(5, [0.2, 0.3, 0.5], 4), np.array([0.2, 0.3, 0.5])
    with xpr.enable_x64(True):
        close(stats.multinomial.logpmf(x, 5, p), scipy.stats.multinomial.logpmf(x, 5, p))
        close(stats.multinomial.pmf(x, 5, p), scipy.stats.multinomial.pmf(x, 5, p))
        assert stats.multinomial.pmf(x[0], 4, p) == 0 and stats.multinomial.pmf(np.array([6, -1, 0]), 5, p) == 0
    assert np.isfinite(xpr.jacobian(lambda p: stats.multinomial.logpmf(x, 5, p))(p.astype("f"))).all()
    with pytest.raises(ValueError, match=r"multinomial: x and n are integers, and got f32\[2\] and i32\[\]"):
        stats.multinomial.logpmf(jnp.ones(2), 2, jnp.ones(2) / 2)


def test_entropy_of_poisson():
    mu = np.array([0, 1e-5, 0.1, 1, 5, 9.99, 10, 50, 99, 101, 500, np.nan, -1])  # SciPy leaves terms out of large means
    with xpr.enable_x64(True):
        found = stats.poisson.entropy(mu, loc=3)
        np.testing.assert_allclose(found, scipys(lambda: scipy.stats.poisson.entropy(mu)), rtol=1e-8)
        for m in (0.5, 20.0, 300.0):
            difference = (stats.poisson.entropy(m + 1e-5) - stats.poisson.entropy(m - 1e-5)) / 2e-5
            close(xpr.grad(stats.poisson.entropy)(m), difference, 1e-6)


SHAPES = [
    ((7,), 0),
    ((7,), None),
    ((5, 6), 1),
    ((5, 6), 0),
    ((4, 3, 5), None),
    ((4, 3, 5), 1),
    ((0, 3), 0),
    ((0,), None),
]


@pytest.mark.parametrize("nans", [False, True])
@pytest.mark.parametrize("shape, axis", SHAPES)
def test_samples(shape, axis, nans):
    x = rng.integers(0, 4, shape).astype(float)
    if nans and x.size:
        x.ravel()[[0, -1]] = np.nan
    with xpr.enable_x64(True):
        for keepdims in (False, True):
            if axis is not None:
                found = stats.mode(x, axis, keepdims=keepdims)
                wanted = scipys(lambda k=keepdims: scipy.stats.mode(x, axis, keepdims=k))
                np.testing.assert_array_equal(found.mode, wanted.mode)
                np.testing.assert_array_equal(found.count, wanted.count)
                assert found.count.dtype == (np.int64 if x.size else np.float64)
            else:
                assert stats.mode(x, axis, keepdims=keepdims).mode.shape == (1,) * (len(shape) * keepdims)
        for method in ("average", "min", "max", "dense", "ordinal"):
            found = stats.rankdata(x, method, axis=axis)
            wanted = scipys(lambda m=method: scipy.stats.rankdata(x, m, axis=axis))
            np.testing.assert_array_equal(found, wanted)
        if x.size:
            for options in ({}, {"ddof": 0}, {"nan_policy": "omit"}):
                wanted = scipys(lambda o=options: scipy.stats.sem(x, axis, **o))
                np.testing.assert_allclose(stats.sem(x, axis, **options), wanted, rtol=1e-12)
        mapped = xpr.jit(xpr.vmap(lambda x: stats.rankdata(x)))(np.stack([x, -x]))
        np.testing.assert_array_equal(mapped[1], scipys(lambda: scipy.stats.rankdata(-x)))


def test_derivative_of_the_standard_error():
    x = rng.normal(size=6)
    with xpr.enable_x64(True):
        step = 1e-6 * np.eye(6)[2]
        close(xpr.grad(stats.sem)(x)[2], (stats.sem(x + step) - stats.sem(x - step)) / 2e-6, 1e-7)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_standard_errors_of_sizes_that_are_not_known(axis):
    x = jnp.array([[1.0, -2.0, 3.0], [0.5, 2.0, -1.0]], jnp.float32)
    symbolic = xpr.ShapeDtypeStruct(export.symbolic_shape("n, m"), x.dtype)
    exported = export.export(xpr.jit(lambda x: stats.sem(x, axis)))(symbolic)
    np.testing.assert_allclose(exported.call(x), stats.sem(x, axis), rtol=1e-6)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda x: stats.mode(x, nan_policy="drop"),
            ValueError,
            "nan_policy is 'propagate', 'omit' or 'raise', and not 'drop'",
        ),
        (lambda x: stats.mode(x, nan_policy="omit"), NotImplementedError, "depends on values, .* Use 'propagate', and"),
        (
            lambda x: stats.sem(x, nan_policy="raise"),
            NotImplementedError,
            "Use 'propagate' or 'omit', and look for nans",
        ),
        (lambda x: stats.sem(x, 1), ValueError, "axis 1 is out of bounds"),
        (lambda x: stats.rankdata(x, "first"), ValueError, "method is 'average', 'min', 'max', 'dense' or 'ordinal'"),
    ],
)
def test_errors_of_samples(call, error, message):
    with pytest.raises(error, match=message):
        call(jnp.ones(3))


def test_the_entropy_of_poisson_has_the_shape_of_mean_and_location():
    entropy = xpr.scipy.stats.poisson.entropy
    np.testing.assert_allclose(entropy(3.0, jnp.arange(4)), [float(entropy(3.0))] * 4, rtol=1e-6)


@pytest.mark.parametrize(
    "name, function, parameters",
    [("expon", "logcdf", ()), ("gumbel_l", "logcdf", ()), ("gumbel_r", "logsf", ()), ("pareto", "logcdf", (2.0,))],
)
def test_logarithms_of_probabilities_near_one_and_near_zero(name, function, parameters):
    x = np.array([-5.0, 0.0, 1e-8, 1e-3, 0.5, 1.0, 1.001, 3.0, 15.0, 40.0, 1e4, np.inf, np.nan])
    found = getattr(getattr(stats, name), function)(x.astype(np.float32), *parameters)
    wanted = scipys(lambda: getattr(getattr(scipy.stats, name), function)(x.astype(np.float32), *parameters))
    underflow = np.abs(wanted) < np.finfo(np.float32).tiny
    np.testing.assert_allclose(np.where(underflow, 0, found), np.where(underflow, 0, wanted), rtol=1e-5)
