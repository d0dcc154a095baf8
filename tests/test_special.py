"""Special functions against SciPy, over ranges of parameters, in both precisions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import xpr
from xpr import lax
from xpr import numpy as jnp
from xpr.config_contexts import enable_x64
from xpr.errors import UnsupportedRule

pytestmark = pytest.mark.optimized

rng = np.random.default_rng(0)
N = 1000
A, B = 10 ** rng.uniform(-3, 4, (2, N))
X = np.where(rng.random(N) < 0.5, A * 10 ** rng.uniform(-1, 1, N), rng.gamma(A)) + 1e-30
UNIT = np.clip(np.where(rng.random(N) < 0.5, rng.beta(A, B), rng.random(N)), 1e-30, 1)
LINE = rng.uniform(-6, 6, N)
POSITIVE = 10 ** rng.uniform(-2, 2, N)
ORDER = rng.integers(0, 5, N).astype(float)

# The function, SciPy's, the operands, and the error allowed in float64 and in float32: of the value, or of 1.
CASES = {
    "erf": (lax.erf, special.erf, [LINE], 1e-14, 1e-6),
    "erfc": (lax.erfc, special.erfc, [LINE], 1e-14, 1e-6),
    "erf_inv": (lax.erf_inv, special.erfinv, [LINE / 6.01], 1e-12, 1e-6),
    "lgamma": (lax.lgamma, special.gammaln, [A], 1e-13, 4e-6),
    "digamma": (lax.digamma, special.digamma, [A], 1e-13, 1e-6),
    "polygamma": (lax.polygamma, lambda m, x: special.polygamma(m.astype(int), x), [ORDER, POSITIVE], 1e-12, 1e-5),
    "zeta": (lax.zeta, special.zeta, [ORDER + 1.5, POSITIVE], 1e-13, 1e-6),
    "bessel_i0e": (lax.bessel_i0e, special.i0e, [8 * LINE], 1e-14, 1e-6),
    "bessel_i1e": (lax.bessel_i1e, special.i1e, [8 * LINE], 1e-14, 1e-6),
    "igamma": (lax.igamma, special.gammainc, [A, X], 1e-13, 5e-6),
    "igammac": (lax.igammac, special.gammaincc, [A, X], 1e-13, 5e-6),
    "betainc": (lax.betainc, special.betainc, [A, B, UNIT], 2e-13, 4e-5),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_values(name, dtype):
    ours, theirs, operands, wide, narrow = CASES[name]
    operands = [x.astype(dtype) for x in operands]
    with enable_x64():
        found = np.asarray(ours(*operands))
    wanted = theirs(*[x.astype(np.float64) for x in operands])
    bound = wide if dtype == np.float64 else narrow
    error = np.abs(found - wanted) / np.maximum(np.abs(wanted), 1)
    worst = np.argmax(error)
    assert found.dtype == dtype and error[worst] <= bound, ([x[worst] for x in operands], found[worst], wanted[worst])


def test_slope_of_igamma_in_its_shape():
    """Far from 0 and 1, where SciPy's difference quotients have digits."""
    a, x = A[A < 100], X[A < 100]
    inside = (special.gammainc(a, x) > 0.05) & (special.gammaincc(a, x) > 0.05)
    a, x = a[inside], x[inside]
    step = 1e-5 * a
    slope = (special.gammainc(a + step, x) - special.gammainc(a - step, x)) / (2 * step)
    density = np.exp((a - 1) * np.log(x) - x - special.gammaln(a))
    with enable_x64():
        np.testing.assert_allclose(lax.igamma_grad_a(a, x), slope, rtol=1e-6)
        np.testing.assert_allclose(lax.random_gamma_grad(a, x), -slope / density, rtol=1e-6)
    narrow = [v.astype(np.float32) for v in (a, x)]
    np.testing.assert_allclose(lax.random_gamma_grad(*narrow), -slope / density, rtol=1e-3)


def test_edges_of_the_incomplete_gamma_function():
    edges = np.float32([0.0, 0.5, 5.0, np.inf, -1.0, np.nan])
    a, x = (v.ravel() for v in np.meshgrid(edges, edges))
    alike = ~((a == 0) & (x == 0)) & ~(np.isinf(a) & np.isinf(x))  # limits that SciPy and jax see differently
    a, x = a[alike], x[alike]
    np.testing.assert_allclose(lax.igamma(a, x), special.gammainc(a, x), rtol=1e-5)
    np.testing.assert_allclose(lax.igammac(a, x), special.gammaincc(a, x), rtol=1e-5)


@pytest.mark.parametrize("x64, tolerance", [(True, 1e-6), (False, 3e-4)])
def test_slopes_of_betainc_in_its_parameters(x64, tolerance):
    """Beside differences of five points of SciPy's function, in float64."""
    parameters = np.array([0.02, 0.5, 1.0, 3.0, 40.0, 300.0]).astype("f").astype(float)
    chances = np.array([1e-12, 1e-3, 0.1, 0.45, 0.8, 0.97]).astype("f").astype(float)
    a, b, x = (v.ravel() for v in np.meshgrid(parameters, parameters, chances))
    with enable_x64(x64):
        slopes = xpr.vmap(xpr.grad(lax.betainc, (0, 1)))(*(jnp.asarray(v, float) for v in (a, b, x)))
    for i, found in enumerate(slopes):
        p, h = (a, b)[i], 2e-3 * (a, b)[i]
        f = lambda p, i=i: special.betainc(p, b, x) if i == 0 else special.betainc(a, p, x)
        wanted = (f(p - 2 * h) - f(p + 2 * h) + 8 * (f(p + h) - f(p - h))) / (12 * h)
        np.testing.assert_allclose(found, wanted, atol=1e-2 * tolerance, rtol=tolerance)
    assert lax.betainc_grad_a(1.0, 2.0, 0.0) == lax.betainc_grad_a(1.0, 2.0, 1.0) == 0
    assert np.isnan(lax.betainc_grad_a(-1.0, 2.0, 0.5))
    mixed = xpr.grad(xpr.grad(lax.betainc, 0), 2)(2.0, 3.0, 0.4)
    np.testing.assert_allclose(mixed, xpr.grad(lambda a: xpr.grad(lax.betainc, 2)(a, 3.0, 0.4))(2.0), rtol=1e-5)


def test_slopes_in_the_shape_of_gamma_functions_have_derivatives_in_the_argument():
    a, x, h = np.array([0.3, 2.0, 2.0, 30.0, 30.0]), np.array([0.2, 0.5, 4.0, 20.0, 45.0]), 1e-5
    with xpr.enable_x64(True):
        for function in (lax.igamma_grad_a, lax.random_gamma_grad):
            slope = xpr.vmap(xpr.grad(function, 1))(a, x)
            np.testing.assert_allclose(slope, (function(a, x + h) - function(a, x - h)) / (2 * h), rtol=1e-6, atol=1e-9)
        mixed = xpr.grad(xpr.grad(lax.igamma, 0), 1)(2.0, 0.4)
        np.testing.assert_allclose(mixed, xpr.grad(xpr.grad(lax.igamma, 1), 0)(2.0, 0.4), rtol=1e-9)


def test_half_precision_is_computed_in_float32():
    a, x = (v[A < 100].astype("float16") for v in (A, X))
    wanted = special.gammainc(a.astype(float), x.astype(float))
    np.testing.assert_allclose(np.asarray(lax.igamma(a, x), float), wanted, atol=1e-3, rtol=2e-3)


@pytest.mark.parametrize("call, operand", [
    (lambda: xpr.hessian(lambda a: lax.betainc(a, 1.0, 0.5))(2.0), "betainc_grad_a: no derivative in a"),
    (lambda: xpr.grad(lambda s: lax.zeta(s, 1.0))(2.0), "zeta: no derivative in the exponent"),
    (lambda: xpr.grad(xpr.grad(lambda a: lax.igamma(a, 1.0)))(2.0), "igamma_grad_a: no derivative in the shape"),
])  # fmt: skip
def test_missing_derivatives_say_so(call, operand):
    with pytest.raises(UnsupportedRule, match=operand):
        call()


def test_references_left_of_0_far_out_and_at_infinity():
    def by_reference(fun, x):
        return float(xpr.jit(fun, backend="reference")(np.float32(x)))

    trigamma = xpr.grad(lax.digamma)
    for x in (-1.79, -0.5, -2.5, -20.3):
        expected = (np.pi / np.sin(np.pi * np.float64(np.float32(x)))) ** 2 - special.polygamma(1, 1 - np.float32(x))
        np.testing.assert_allclose(by_reference(trigamma, x), expected, rtol=1e-5)
    np.testing.assert_allclose(by_reference(xpr.grad(trigamma), -1.79), -213.0003, rtol=1e-5)
    assert by_reference(trigamma, -2.0) == by_reference(trigamma, -np.inf) == np.inf
    assert np.isnan(by_reference(xpr.grad(trigamma), -2.0))
    np.testing.assert_allclose(by_reference(lax.digamma, 1e30), np.log(1e30), rtol=1e-6)
    assert by_reference(trigamma, 1e30) < 2e-30 and by_reference(lax.lgamma, 1e38) == np.inf
    assert all(
        np.isnan(by_reference(lambda x: lax.polygamma(x, np.float32(1.5)), x)) for x in (np.inf, -np.inf, np.nan)
    )


def test_the_reference_of_sinc_has_no_odd_derivatives_at_0():
    for order in (1, 3, 5):
        assert lax.sine_quotient_p.reference([np.zeros(1)], order=order)[0] == 0


def test_the_reference_of_powers_is_no_square_root():
    roots = xpr.jit(lambda x: x**0.5, backend="reference")(np.array([-np.inf, -0.0, 4], np.float32))
    np.testing.assert_array_equal(roots, [np.inf, 0, 2])
    assert not np.signbit(roots).any()
