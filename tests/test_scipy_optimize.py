"""`scipy.optimize.minimize` finds the minima that SciPy's finds."""

import numpy as np
import pytest
import scipy.optimize

import xpr
import xpr.numpy as jnp
from xpr.scipy.optimize import minimize


def rosenbrock(np):
    return lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(np):
    return lambda p: (p[0] ** 2 + p[1] - 11) ** 2 + (p[0] + p[1] ** 2 - 7) ** 2


def matyas(np):
    return lambda p: 0.26 * (p[0] ** 2 + p[1] ** 2) - 0.48 * p[0] * p[1]


def eggholder(np):
    def f(p):
        x, y = p
        return -(y + 47) * np.sin(np.sqrt(np.abs(x / 2 + y + 47))) - x * np.sin(np.sqrt(np.abs(x - (y + 47))))

    return f


@pytest.mark.parametrize(
    "make, start",
    [
        (rosenbrock, np.zeros(2)), (rosenbrock, np.linspace(0, 2, 6)), (himmelblau, np.ones(2)),
        (matyas, np.array([7.0, -3.0])), (eggholder, np.array([100.0, 100.0])),
    ],
)  # fmt: skip
def test_minima(make, start):
    with xpr.enable_x64():
        ours = xpr.jit(lambda x: minimize(make(jnp), x, method="BFGS"))(start)
    theirs = scipy.optimize.minimize(make(np), start, method="BFGS")
    assert ours.success and ours.status == 0
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-3, atol=2e-5)
    np.testing.assert_allclose(ours.fun, theirs.fun, rtol=1e-5, atol=1e-8)
    assert np.abs(ours.jac).max() <= 1e-5 and 0 < ours.nit <= 2 * theirs.nit + 5
    assert ours.nit <= ours.nfev <= 1.5 * theirs.njev + 5
    assert all(x.dtype == np.int64 and x.weak_type for x in (ours.status, ours.nfev, ours.njev, ours.nit))


def test_float32_and_arguments():
    result = minimize(lambda x, a: jnp.sum((x - a) ** 4 + (x - a) ** 2), jnp.zeros(3), (2.0,), method="bfgs", tol=1e-3)
    assert result.success
    np.testing.assert_allclose(result.x, [2, 2, 2], atol=1e-3)


def raised_quartic(x):
    return jnp.sum((x - jnp.array([1.0, 2.0])) ** 4) + jnp.sum(x**2)


def logistic_loss(w):
    return jnp.logaddexp(0, -(jnp.arange(12.0).reshape(4, 3) - 5) @ w).mean() + 0.1 * jnp.sum(w**2)


@pytest.mark.parametrize("fun, n", [(raised_quartic, 2), (logistic_loss, 3)])
@pytest.mark.parametrize("start", [0.0, 1.5, -1.3])
def test_minima_whose_value_is_not_0_are_found_in_float32(fun, n, start):
    """The last steps lower the value by less than its rounding, and the gradient decides."""
    result = minimize(fun, jnp.full(n, start), method="BFGS")
    assert result.success and np.abs(result.jac).max() <= 1e-5 and result.nfev <= 20


def test_the_inverse_of_a_steep_hessian_in_float32():
    """It is 1e-8, which is nothing beside the ones of an identity."""
    result = minimize(lambda x: jnp.mean((1e4 * x) ** 2), jnp.ones(2), method="BFGS")
    np.testing.assert_allclose(result.x, 0, atol=1e-6)
    np.testing.assert_allclose(result.hess_inv, 1e-8 * np.eye(2), atol=1e-10)


def test_what_ends_it():
    stopped = minimize(rosenbrock(jnp), jnp.zeros(2), method="BFGS", options={"maxiter": 2})
    assert not stopped.success and stopped.status == 1 and stopped.nit == 2
    falling = minimize(lambda x: -jnp.sum(x), jnp.zeros(2), method="BFGS", options={"maxiter": 3})
    assert not falling.success and falling.status == 3
    done = minimize(lambda x: jnp.sum(x**2), jnp.zeros(2), method="BFGS")
    assert done.success and done.nit == 0


def test_mapped():
    starts = jnp.array([[1.0, 1.0], [-2.0, 2.0], [-3.0, -3.0]])
    results = xpr.vmap(lambda x: minimize(himmelblau(jnp), x, method="BFGS", tol=1e-3))(starts)
    assert results.success.all()
    np.testing.assert_allclose(results.fun, np.zeros(3), atol=1e-4)


def test_what_is_refused():
    with pytest.raises(ValueError, match="the method is 'BFGS' or 'l-bfgs-.*', and 'Newton-CG' was asked for"):
        minimize(jnp.sum, jnp.zeros(2), method="Newton-CG")
    with pytest.raises(TypeError, match="args is a tuple of further arguments, it must be a tuple, and is 2"):
        minimize(jnp.sum, jnp.zeros(2), 2, method="BFGS")
    with pytest.raises(ValueError, match=r"x0 is a vector, and has shape \(2, 2\)"):
        minimize(jnp.sum, jnp.zeros((2, 2)), method="BFGS")
    for function, returned in (
        (lambda x: x, r"f32\[2\]"),
        (lambda x: 1j * x[0], r"c64\[\]"),
        (lambda x: 3, r"i32\[\]"),
    ):
        with pytest.raises(TypeError, match=f"must return a scalar, a real float, and returned {returned}"):
            minimize(function, jnp.zeros(2), method="BFGS")
    with pytest.raises(TypeError, match=r"BFGS takes real numbers, and x0 is c64\[2\]. 'l-bfgs-.*' takes complex ones"):
        minimize(lambda x: jnp.sum(jnp.abs(x)), jnp.zeros(2, complex), method="BFGS")
    with pytest.raises(ValueError, match="there is no option speed"):
        minimize(jnp.sum, jnp.zeros(2), method="BFGS", options={"speed": 1})
    with pytest.raises(ValueError, match="there is no option maxcor"):
        minimize(jnp.sum, jnp.zeros(2), method="BFGS", options={"maxcor": 1})


LIMITED = "l-bfgs-experimental-do-not-rely-on-this"


@pytest.mark.parametrize(
    "make, start",
    [
        (rosenbrock, np.zeros(2)),
        (rosenbrock, np.linspace(-1, 2, 30)),
        (himmelblau, np.ones(2)),
        (matyas, np.full(2, 6.0)),
    ],
)
@pytest.mark.parametrize("memory", [3, 10])
def test_minima_with_limited_memory(make, start, memory):
    with xpr.enable_x64():
        options = {"maxcor": memory, "ftol": 0.0, "gtol": 1e-7}
        ours = xpr.jit(lambda x: minimize(make(jnp), x, method=LIMITED, options=options))(start)
    theirs = scipy.optimize.minimize(make(np), start, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-8})
    assert ours.success and ours.status == 0 and ours.hess_inv is None
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-4, atol=1e-5)
    assert ours.nit <= 3 * theirs.nit + 5


def test_complex_numbers():
    target = jnp.array([1.0, 2 - 3j, 4, -5j])
    result = minimize(lambda z: jnp.sum(jnp.abs(z - target) ** 2), jnp.zeros(4, complex), method=LIMITED)
    assert result.success
    np.testing.assert_allclose(result.x, target, atol=1e-5)
    gradient = xpr.grad(lambda z: jnp.sum(jnp.abs(z - target) ** 2))(result.x)
    np.testing.assert_allclose(result.jac, gradient, atol=1e-5)


def test_what_ends_limited_memory():
    assert minimize(rosenbrock(jnp), jnp.zeros(2), method=LIMITED, options={"ftol": 1e3}).status == 4
    stopped = minimize(rosenbrock(jnp), jnp.zeros(2), method=LIMITED, options={"maxfun": 4})
    assert stopped.status == 1 and 4 <= stopped.nfev < 30
    sizes = minimize(lambda x: jnp.sum(x**4), jnp.ones(9), method=LIMITED, options={"norm": 2, "gtol": 1e-3}).jac
    assert jnp.linalg.norm(sizes) <= 1e-3
