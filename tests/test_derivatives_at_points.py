"""Derivatives up to order 6 at the points where a definition or a rule branches, against series that are known.

Where a function is smooth its derivatives are those of the mathematical function, whichever branch is taken. They are
found both by nested forward mode and by Taylor series. Where it is not smooth, they are those that JAX gives.
"""

import cmath
import math

import numpy as np
import pytest
import scipy.special as sp

import xpr
import xpr.numpy as jnp
from xpr import lax, nn
from xpr.scipy import special, stats

ORDER = 6
ROOT_PI, ROOT_2_PI = math.sqrt(math.pi), math.sqrt(2 * math.pi)


@pytest.fixture(autouse=True)
def double_precision():
    with xpr.enable_x64(True):
        yield


def by_contour(fun, x, radius=0.5, points=128):
    """The derivatives of an analytic function: Fourier coefficients of its values on a circle (Cauchy)."""
    circle = np.exp(2j * np.pi * np.arange(points) / points)
    values = np.array([fun(complex(x + radius * z)) for z in circle])
    means = [(values * circle**-k).mean().real for k in range(1, ORDER + 1)]
    return [c / radius**k * math.factorial(k) for k, c in enumerate(means, 1)]


def by_nesting(fun, x):
    found = []
    for _ in range(ORDER):
        fun = (lambda f: lambda t: xpr.jvp(f, (t,), (1.0,))[1])(fun)
        found.append(float(fun(x)))
    return found


def by_series(fun, x):
    _, derivatives = xpr.taylor(fun, (x,), ([1.0] + [0.0] * (ORDER - 1),))
    return [float(d) for d in derivatives]


def log_ndtr_derivatives(x):
    """Of log_ndtr at x < 0: the first one is t + 1 / (t + 2 / (t + ...)), t = -x (DLMF 7.9.1), here in series."""
    t = np.array([-x, -1.0, *[0.0] * (ORDER - 2)])
    fraction = t
    for k in range(400, 0, -1):
        inverse = [1 / fraction[0]]
        for m in range(1, ORDER):
            inverse.append(-sum(fraction[j] * inverse[m - j] for j in range(1, m + 1)) / fraction[0])
        fraction = t + k * np.array(inverse)
    return [math.factorial(k) * c for k, c in enumerate(fraction)]


def quantile_derivatives(p):
    """Of the normal quantile y(p): y^(k) = P_k(y) d^k with d = sqrt(2 pi) exp(y^2 / 2), P_1 = 1, P' + k y P."""
    y, factor = sp.ndtri(p), ROOT_2_PI * math.exp(sp.ndtri(p) ** 2 / 2)
    polynomial, found = np.polynomial.Polynomial([1.0]), []
    for k in range(1, ORDER + 1):
        found.append(polynomial(y) * factor**k)
        polynomial = polynomial.deriv() + k * np.polynomial.Polynomial([0.0, 1.0]) * polynomial
    return found


def logistic(z):
    return 1 / (1 + cmath.exp(-z))


def softplus(z):
    return cmath.log(1 + cmath.exp(z))


def sinc(z):
    return cmath.sin(np.pi * z) / (np.pi * z)


def pair(x, y):
    return jnp.stack([x, y + 0 * x])


# name -> (function, point, derivatives or the function of complex numbers, radius of the circle)
SMOOTH = {
    "hypot(x, 1) at 1": (lambda x: jnp.hypot(x, 1.0), 1.0, lambda z: cmath.sqrt(z * z + 1)),
    "hypot(x, 1) at -1": (lambda x: jnp.hypot(x, 1.0), -1.0, lambda z: cmath.sqrt(z * z + 1)),
    "hypot(x, 1) at 0": (lambda x: jnp.hypot(x, 1.0), 0.0, lambda z: cmath.sqrt(z * z + 1)),
    "hypot(1, x) at 1": (lambda x: jnp.hypot(1.0, x), 1.0, lambda z: cmath.sqrt(z * z + 1)),
    "hypot(x, x) at 1": (lambda x: jnp.hypot(x, x), 1.0, [math.sqrt(2)]),
    "hypot(x, 0) at 1": (lambda x: jnp.hypot(x, 0.0), 1.0, [1]),
    "sinc at 0": (jnp.sinc, 0.0, sinc),
    "sinc at 1e-8": (jnp.sinc, 1e-8, sinc),
    "sinc at 1e-3": (jnp.sinc, 1e-3, sinc),
    "sinc at 0.5": (jnp.sinc, 0.5, sinc, 1.0),
    "sinc at 1": (jnp.sinc, 1.0, sinc, 0.7),
    "i0 at 0": (jnp.i0, 0.0, lambda z: sp.iv(0, z)),
    "i0 at 8": (jnp.i0, 8.0, lambda z: sp.iv(0, z)),
    "special.i0 at 1e-5": (special.i0, 1e-5, lambda z: sp.iv(0, z)),
    "i1 at 0": (special.i1, 0.0, lambda z: sp.iv(1, z)),
    "i1 at 1e-5": (special.i1, 1e-5, lambda z: sp.iv(1, z)),
    "i1 at -8": (special.i1, -8.0, lambda z: sp.iv(1, z)),
    "i0e at 1e-5": (special.i0e, 1e-5, lambda z: cmath.exp(-z) * sp.iv(0, z)),
    "i1e at 1e-5": (special.i1e, 1e-5, lambda z: cmath.exp(-z) * sp.iv(1, z)),
    "i1e at 2": (special.i1e, 2.0, lambda z: cmath.exp(-z) * sp.iv(1, z)),
    "std of one": (lambda x: jnp.std(jnp.stack([x])), 0.3, [0]),
    "nanstd of one": (lambda x: jnp.nanstd(pair(x, jnp.nan)), 0.3, [0]),
    "std of one by a mask": (lambda x: jnp.std(pair(x, x), where=jnp.array([True, False])), 0.3, [0]),
    "var of one": (lambda x: jnp.var(jnp.stack([x])), 0.3, [0]),
    "nanvar of one": (lambda x: jnp.nanvar(pair(x, jnp.nan)), 0.3, [0]),
    "logaddexp(x, 0)": (lambda x: jnp.logaddexp(x, 0.0), 0.0, softplus),
    "logaddexp(x, -inf)": (lambda x: jnp.logaddexp(x, -jnp.inf), 0.0, [1]),
    "logaddexp2(x, 0)": (lambda x: jnp.logaddexp2(x, 0.0), 0.0, lambda z: cmath.log(1 + 2**z) / math.log(2)),
    "log_sigmoid": (nn.log_sigmoid, 0.0, lambda z: -softplus(-z)),
    "silu": (nn.silu, 0.0, lambda z: z * logistic(z)),
    "mish": (nn.mish, 0.0, lambda z: z * cmath.tanh(softplus(z))),
    "gelu": (lambda x: nn.gelu(x, False), 0.0, lambda z: z / 2 * (1 + sp.erf(z / math.sqrt(2)))),
    "squareplus": (nn.squareplus, 0.0, lambda z: (z + cmath.sqrt(z * z + 4)) / 2),
    "log1mexp": (nn.log1mexp, math.log(2), lambda z: cmath.log(1 - cmath.exp(-z))),
    "logsumexp of equal ones": (lambda x: nn.logsumexp(pair(x, 0.0)), 0.0, softplus),
    "logsumexp of a factor 0": (lambda b: nn.logsumexp(jnp.zeros(2), b=pair(b, 1)), 0.0, lambda z: cmath.log(1 + z)),
    "softmax of equal ones": (lambda x: nn.softmax(pair(x, 0.0))[0], 0.0, logistic),
    "softplus": (nn.softplus, 0.0, softplus),
    "norm of (1, x)": (lambda x: jnp.linalg.norm(pair(x, 1.0)), 0.0, lambda z: cmath.sqrt(1 + z * z)),
    "4-norm of (1, x)": (lambda x: jnp.linalg.norm(pair(x, 1.0), ord=4), 0.0, lambda z: (1 + z**4) ** 0.25),
    "expm1": (jnp.expm1, 0.0, [1] * 6),
    "log1p": (jnp.log1p, 0.0, lambda z: cmath.log(1 + z)),
    "arcsinh": (jnp.arcsinh, 0.0, cmath.asinh),
    "arctanh": (jnp.arctanh, 0.0, cmath.atanh),
    "tan": (jnp.tan, 0.0, cmath.tan),
    "cbrt": (jnp.cbrt, -1.0, lambda z: -((-z) ** (1 / 3))),
    "arctan2(x, 1)": (lambda x: jnp.arctan2(x, 1.0), 0.0, cmath.atan),
    "arctan2(1, x)": (lambda x: jnp.arctan2(1.0, x), 0.0, lambda z: -cmath.atan(z)),
    "arctan2(x, -1)": (lambda x: jnp.arctan2(x, -1.0), 0.0, lambda z: -cmath.atan(z)),
    "angle": (lambda x: jnp.angle(1 + 1j * x), 0.0, cmath.atan),
    "abs of complex": (lambda x: jnp.abs(1j + x), 0.0, lambda z: cmath.sqrt(1 + z * z)),
    "x^0. at 0": (lambda x: jnp.power(x, 0.0), 0.0, [0]),
    "x^1. at 0": (lambda x: jnp.power(x, 1.0), 0.0, [1]),
    "x^2. at 0": (lambda x: jnp.power(x, 2.0), 0.0, [0, 2]),
    "x^6. at 0": (lambda x: jnp.power(x, 6.0), 0.0, [0, 0, 0, 0, 0, 720]),
    "x^8.5 at 0": (lambda x: jnp.power(x, 8.5), 0.0, [0]),
    "sin(x)^3. at 0": (lambda x: jnp.power(jnp.sin(x), 3.0), 0.0, lambda z: cmath.sin(z) ** 3),
    "float_power(x, 3)": (lambda x: jnp.float_power(x, 3), 0.0, [0, 0, 6]),
    "x^3 at 0": (lambda x: x**3, 0.0, [0, 0, 6]),
    "0^y": (lambda y: jnp.power(0.0, y), 2.0, [0]),
    "abs squared": (lambda x: jnp.abs(x) ** 2, 0.0, [0, 2]),
    "erf_inv": (special.erfinv, 0.0, [ROOT_PI / 2, 0, 2 * (ROOT_PI / 2) ** 3, 0, 28 * (ROOT_PI / 2) ** 5, 0]),
    "ndtri at 0.5": (special.ndtri, 0.5, quantile_derivatives(0.5)),
    "ndtri at 0.075": (special.ndtri, 0.075, quantile_derivatives(0.075)),
    "ndtri at exp(-25)": (special.ndtri, math.exp(-25), quantile_derivatives(math.exp(-25))),
    "log_ndtr at 0": (special.log_ndtr, 0.0, sp.log_ndtr),
    "log_ndtr at 8": (special.log_ndtr, 8.0, sp.log_ndtr),
    "log_ndtr at -4": (special.log_ndtr, -4.0, log_ndtr_derivatives(-4.0)),
    "log_ndtr at -4.1": (special.log_ndtr, -4.1, log_ndtr_derivatives(-4.1)),
    "log_ndtr at -20": (special.log_ndtr, -20.0, log_ndtr_derivatives(-20.0)),
    "log_ndtr at -50": (special.log_ndtr, -50.0, log_ndtr_derivatives(-50.0)),
    "gamma at -0.5": (special.gamma, -0.5, sp.gamma, 0.3),
    "gammaln at 1": (special.gammaln, 1.0, sp.loggamma),
    "digamma at -0.5": (special.digamma, -0.5, sp.psi, 0.3),
    "poch(2, m) at 0": (lambda m: special.poch(2.0, m), 0.0, lambda m: sp.gamma(2 + m)),
    "poch(z, 0)": (lambda z: special.poch(z, 0.0), 2.0, [0]),
    "betainc at 3/7": (lambda x: special.betainc(2.0, 3.0, x), 3 / 7, lambda z: 6 * z**2 - 8 * z**3 + 3 * z**4),
    "betainc at 0": (lambda x: special.betainc(2.0, 3.0, x), 0.0, [0, 12, -48, 72]),
    "betainc at 1": (lambda x: special.betainc(2.0, 3.0, x), 1.0, [0, 0, 24, 72]),
    "gammainc where methods meet": (lambda x: special.gammainc(2.0, x), 2.0, lambda z: 1 - cmath.exp(-z) * (1 + z)),
    "gammainc(1, x) at 0": (lambda x: special.gammainc(1.0, x), 0.0, lambda z: 1 - cmath.exp(-z)),
    "gammaincc(2, x) at 0": (lambda x: special.gammaincc(2.0, x), 0.0, lambda z: cmath.exp(-z) * (1 + z)),
    "xlogy(x, 2)": (lambda x: special.xlogy(x, 2.0), 0.0, [math.log(2)]),
    "xlogy(x, x)": (lambda x: special.xlogy(x, x), 1.0, lambda z: z * cmath.log(z)),
    "xlog1py(x, x)": (lambda x: special.xlog1py(x, x), 0.0, lambda z: z * cmath.log(1 + z)),
    "entr": (special.entr, 1.0, lambda z: -z * cmath.log(z)),
    "rel_entr(1, q)": (lambda q: special.rel_entr(1.0, q), 1.0, lambda z: -cmath.log(z)),
    "kl_div": (lambda p: special.kl_div(p, 1.0), 1.0, lambda z: z * cmath.log(z) - z + 1),
    "boxcox(2, l) at 0": (lambda y: special.boxcox(2.0, y), 0.0, lambda z: (2**z - 1) / z),
    "boxcox(2, l) at 1e-4": (lambda y: special.boxcox(2.0, y), 1e-4, lambda z: (2**z - 1) / z),
    "boxcox1p(1, l) at 0": (lambda y: special.boxcox1p(1.0, y), 0.0, lambda z: (2**z - 1) / z),
    "boxcox(x, 0)": (lambda x: special.boxcox(x, 0.0), 2.0, cmath.log),
    "logit": (special.logit, 0.5, lambda z: cmath.log(z / (1 - z)), 0.3),
    "expit": (special.expit, 0.0, logistic),
    "norm.cdf": (stats.norm.cdf, 0.0, sp.ndtr),
    "t.logpdf": (lambda x: stats.t.logpdf(x, 3.0), 0.0, lambda z: -2 * cmath.log(1 + z * z / 3)),
    "logistic.logpdf": (stats.logistic.logpdf, 0.0, lambda z: -2 * cmath.log(2 * cmath.cosh(z / 2))),
    "gamma.cdf at 0": (lambda x: stats.gamma.cdf(x, 1.0), 0.0, lambda z: 1 - cmath.exp(-z)),
    "poisson.cdf of mean 0": (lambda mu: stats.poisson.cdf(2, mu), 0.0, lambda z: cmath.exp(-z) * (1 + z + z * z / 2)),
    "expm": (lambda x: xpr.scipy.linalg.expm(x * jnp.array([[0.0, 1.0], [-1.0, 0.0]]))[0, 1], 0.0, cmath.sin),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_those_of_the_series(name):
    fun, x, given, *radius = SMOOTH[name]
    want = np.array(by_contour(given, x, *radius) if callable(given) else [*given, *[0.0] * (ORDER - len(given))])
    tolerance = 2e-6 * np.maximum(np.abs(want), 1 if np.abs(want).max() < 1e4 else 0)
    with xpr.disable_jit():
        assert (np.abs(np.array(by_nesting(fun, x)) - want) <= tolerance).all(), "nested forward mode"
    assert (np.abs(np.array(by_series(fun, x)) - want) <= tolerance).all(), "Taylor series"


# name -> (function, point, its first derivatives there, as JAX 0.10.2 gives them)
CORNERS = {
    "abs": (jnp.abs, 0.0, [1, 0]),
    "sign": (jnp.sign, 0.0, [0, 0]),
    "maximum": (lambda x: jnp.maximum(x, 0.0), 0.0, [0.5, 0]),
    "minimum": (lambda x: jnp.minimum(x, 0.0), 0.0, [0.5, 0]),
    "clip": (lambda x: jnp.clip(x, 0.0, 1.0), 1.0, [0.5, 0]),
    "clamp": (lambda x: lax.clamp(0.0, x, 1.0), 1.0, [0, 0]),
    "relu": (nn.relu, 0.0, [0, 0]),
    "relu6": (nn.relu6, 6.0, [0, 0]),
    "elu": (nn.elu, 0.0, [1, 1]),
    "hard_tanh": (nn.hard_tanh, 1.0, [1, 0]),
    "soft_sign": (nn.soft_sign, 0.0, [1, -2]),
    "hypot of zeros": (lambda x: jnp.hypot(x, 0.0), 0.0, [0.5, 0]),
    "i0e": (special.i0e, 0.0, [0, 0.5]),
    "i1e": (special.i1e, 0.0, [0.5, 0]),
    "cbrt": (jnp.cbrt, 0.0, [np.inf, -np.inf]),
    "sqrt": (jnp.sqrt, 0.0, [np.inf, -np.inf]),
    "norm": (lambda x: jnp.linalg.norm(pair(x, 0.0)), 0.0, [np.nan, np.nan]),
    "1-norm": (lambda x: jnp.linalg.norm(pair(x, 1.0), ord=1), 0.0, [1, 0]),
    "std of equal ones": (lambda x: jnp.std(pair(x, x)), 0.3, [np.nan, np.nan]),
    "abs of complex": (lambda x: jnp.abs((1 + 0j) * x), 0.0, [0]),
    "median of equal ones": (lambda x: jnp.median(jnp.stack([x, 1.0 + 0 * x, 3 * x])), 1.0, [0, 0]),
    "interp at a knot": (lambda x: jnp.interp(x, jnp.arange(3.0), jnp.array([0.0, 1.0, 4.0])), 1.0, [3, 0]),
    "laplace.logpdf": (stats.laplace.logpdf, 0.0, [-1, 0]),
    "uniform.cdf": (stats.uniform.cdf, 0.0, [1, 0]),
    "uniform.cdf at 1": (stats.uniform.cdf, 1.0, [1, 0]),
    "gamma.logpdf": (lambda x: stats.gamma.logpdf(x, 1.0), 0.0, [-1, 0]),
    "gamma.cdf outside": (lambda x: stats.gamma.cdf(x, 2.0), -1.0, [0, 0]),
    "beta.logpdf": (lambda x: stats.beta.logpdf(x, 1.0, 2.0), 0.0, [-1, -1]),
    "entr": (special.entr, 0.0, [np.inf, -np.inf]),
}


@pytest.mark.parametrize("name", CORNERS)
def test_derivatives_at_corners(name):
    fun, x, want = CORNERS[name]
    with xpr.disable_jit():
        for order, derivative in enumerate(want, 1):
            fun = xpr.grad(fun)
            np.testing.assert_allclose(float(fun(x)), derivative, err_msg=f"order {order}")


def test_hypot_of_extremes():
    for x, y in [(np.inf, np.nan), (np.nan, -np.inf), (np.inf, 1.0)]:
        assert jnp.hypot(x, y) == np.inf
    assert np.isnan(jnp.hypot(np.nan, 1.0)) and np.isnan(xpr.grad(jnp.hypot)(np.nan, 1.0))
    np.testing.assert_allclose(jnp.hypot(3e300, 4e300), 5e300)
    np.testing.assert_allclose(xpr.grad(jnp.hypot, (0, 1))(3e300, 4e300), (0.6, 0.8))
    np.testing.assert_allclose(xpr.grad(jnp.hypot, (0, 1))(3e-300, 4e-300), (0.6, 0.8))


def test_logaddexp_of_infinities():
    for name in ("logaddexp", "logaddexp2"):
        for x in (np.inf, -np.inf):
            assert getattr(jnp, name)(x, x) == x
        assert getattr(jnp, name)(np.inf, -np.inf) == np.inf
        assert np.isnan(getattr(jnp, name)(np.nan, np.inf))
        np.testing.assert_array_equal(xpr.grad(getattr(jnp, name), (0, 1))(np.inf, 1.0), (1, 0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ldexp_is_that_of_numpy(dtype):
    """For exponents of every size, also where the power of two alone is no number of the dtype."""
    info = np.finfo(dtype)
    least, reach = float(info.smallest_normal), 2 * (info.maxexp - info.minexp)
    x = np.array([0, -0.0, 1, -1.9990234375, least, -1.5 * least, float(info.max), np.inf, -np.inf, np.nan], dtype)
    y = np.arange(-reach, reach + 1, dtype=np.int32)[:, None]
    with np.errstate(all="ignore"):
        want = np.ldexp(x, y)
    found = np.asarray(jnp.ldexp(x, y))
    assert found.dtype == dtype
    normal = ~(np.abs(want) <= least) | (want == 0)
    np.testing.assert_array_equal(found[normal], want[normal])
    assert (np.abs(found[~normal] - want[~normal]) <= least).all()  # XLA takes subnormal numbers for zeros
    for y in (-2 * info.maxexp, -5, 0, info.maxexp - 1, 2 * info.maxexp, 10**9, -(10**9)):
        with np.errstate(all="ignore"):
            want = np.ldexp(x, y)
        np.testing.assert_array_equal([np.asarray(jnp.ldexp(v, y)) for v in x], want)  # one number at a time is exact


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_ldexp_takes_exponents_of_any_integer_dtype(dtype):
    exponents = np.array([0, 3, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    with np.errstate(all="ignore"):
        want = [np.ldexp(1.5, int(np.clip(float(y), -5000, 5000))) for y in exponents]
    np.testing.assert_array_equal(jnp.ldexp(1.5, exponents), want)


def test_ldexp_on_the_way_and_its_errors():
    with xpr.enable_x64(False):
        assert float(jnp.ldexp(np.float32(2**-126), 252)) == 2.0**126
        assert float(jnp.ldexp(1e30, -200)) == pytest.approx(6.223015e-31)
        assert xpr.grad(jnp.ldexp)(np.float32(2**-126), 252) == np.inf
        assert xpr.grad(xpr.grad(lambda x: jnp.ldexp(x, 3) ** 2))(1.0) == 128
        assert jnp.ldexp(3, 2).dtype == np.float32
    with pytest.raises(ValueError, match=r"integer exponents, and got f64\[\] and f64\[\]"):
        jnp.ldexp(1.0, 2.0)
    with pytest.raises(ValueError, match="takes real numbers"):
        jnp.ldexp(1j, 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_frexp_is_that_of_numpy(dtype):
    """Also jitted, and of subnormal numbers."""
    info = np.finfo(dtype)
    least, tiny = info.smallest_normal, info.smallest_subnormal
    x = np.array(
        [3, -5, 0, -0.0, 1, 0.5, least, -tiny, 5 * tiny, least - tiny, info.max, np.inf, -np.inf, np.nan], dtype
    )
    for function in (jnp.frexp, xpr.jit(jnp.frexp)):
        mantissa, exponent = map(np.asarray, function(x))
        want_mantissa, want_exponent = np.frexp(x)
        np.testing.assert_array_equal(
            mantissa.view(f"u{dtype().itemsize}")[:-1], want_mantissa.view(f"u{dtype().itemsize}")[:-1]
        )
        assert np.isnan(mantissa[-1]) and mantissa.dtype == dtype and exponent.dtype == np.int32
        np.testing.assert_array_equal(exponent, want_exponent)


def test_the_mantissa_of_frexp_has_a_derivative():
    mantissa = lambda x: jnp.frexp(x)[0]
    for x, slope in [(3.0, 0.25), (-3.0, 0.25), (0.75, 1.0), (0.5, 1.0), (0.0, 1.0), (2.0**-1040, 2.0**1023 * 2.0**16)]:
        np.testing.assert_array_equal(xpr.grad(mantissa)(x), slope)
    assert xpr.grad(xpr.grad(lambda x: mantissa(x) ** 2))(3.0) == 2 * 0.25**2
    assert xpr.jvp(jnp.frexp, (3.0,), (1.0,))[1][0] == 0.25
    np.testing.assert_array_equal(xpr.vmap(xpr.grad(mantissa))(jnp.array([3.0, 8.0])), [0.25, 1 / 16])


def test_derivatives_of_single_precision():
    """By shorter series."""
    with xpr.enable_x64(False):
        for fun, x, want in [
            (jnp.sinc, 0.0, by_contour(sinc, 0.0)[3]), (jnp.sinc, 0.4, by_contour(sinc, 0.4, 0.3)[3]),
            (jnp.i0, 0.0, 0.375), (special.log_ndtr, -5.0, log_ndtr_derivatives(-5.0)[3]),
        ]:  # fmt: skip
            for _ in range(4):
                fun = xpr.grad(fun)
            assert float(fun(x)) == pytest.approx(want, rel=2e-3)
        assert xpr.grad(jnp.sinc)(jnp.bfloat16(0.3)).dtype == jnp.bfloat16
        for slope in (xpr.grad(jnp.sinc)(0.3), xpr.grad(jnp.hypot)(0.3, 1.0), xpr.grad(jnp.i0)(0.3)):
            assert slope.weak_type


def test_sinc_of_complex_numbers_has_derivatives():
    slope = xpr.grad(jnp.sinc, holomorphic=True)
    z = 0.4 + 0.3j
    np.testing.assert_allclose(slope(z), cmath.cos(np.pi * z) / z - cmath.sin(np.pi * z) / (np.pi * z * z))
    np.testing.assert_allclose(xpr.grad(slope, holomorphic=True)(0j), -(np.pi**2) / 3)


@pytest.mark.parametrize("name", ["max", "min"])
def test_a_cotangent_that_is_nan_passes_an_extreme_that_is_nan(name):
    extreme = getattr(lax, name)

    def pulled(x, y, ct):
        return [float(g) for g in xpr.vjp(extreme, x, y)[1](ct)]

    nan, one = np.float32(np.nan), np.float32(1)
    for x, y in ((nan, one), (one, nan), (nan, nan)):
        assert np.isnan(pulled(x, y, nan)).all()
        assert pulled(x, y, one) == [0, 0]
    assert sorted(pulled(one, np.float32(2), nan), key=np.isnan)[0] == 0


def test_activations_that_branch_have_no_slope_at_nan():
    for fun in (nn.relu, nn.relu6, nn.hard_sigmoid):
        value, slope = xpr.value_and_grad(fun)(np.float32(np.nan))
        assert np.isnan(value) and slope == 0, fun


@pytest.mark.parametrize("transform", [xpr.jacfwd, xpr.jacrev])
@pytest.mark.parametrize(
    ("function", "values", "shares"),
    [
        (jnp.min, [-1, -1 - 1j, -1], [0, 1, 0]),
        (jnp.max, [-1, -1 - 1j, -1], [0.5, 0, 0.5]),
        (jnp.max, [2 + 1j, 2 + 3j, 2 - 3j], [0, 1, 0]),
        (jnp.nanmax, [2 + 1j, np.nan, 2 - 3j], [1, 0, 0]),
    ],
)
def test_complex_extremes_with_equal_real_parts_share_by_equality(transform, function, values, shares):
    x = jnp.array(values, "complex64")
    np.testing.assert_array_equal(transform(function, holomorphic=True)(x), shares)
    np.testing.assert_array_equal(transform(lambda x: function(x, axis=1), holomorphic=True)(x[None])[0, 0], shares)
