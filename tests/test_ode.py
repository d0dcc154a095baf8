"""experimental.ode.odeint and experimental.jet: values and derivatives, beside SciPy's and jax's."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import JAX, needs_jax
from xpr.experimental.jet import fact, jet
from xpr.experimental.ode import odeint
from xpr.testing import check_grads

TIMES = jnp.linspace(0.0, 1.0, 5)
LOOSE = {"rtol": 1e-5, "atol": 1e-5}


def pendulum(y, t, damping, gravity):
    angle, speed = y
    return [speed, -damping * speed - gravity * jnp.sin(angle) + 0.1 * t]


def close(a, b, tolerance=1e-4):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def test_the_solution_is_that_of_scipy():
    integrate = pytest.importorskip("scipy.integrate")
    ours = odeint(pendulum, jnp.array([3.0, 0.0]), TIMES, 0.25, 9.8)
    f = lambda y, t: [y[1], -0.25 * y[1] - 9.8 * np.sin(y[0]) + 0.1 * t]
    close(ours, integrate.odeint(f, [3.0, 0.0], np.asarray(TIMES), rtol=1e-9, atol=1e-9))


@needs_jax
def test_values_and_gradients_are_those_of_jax():
    from jax.experimental.ode import odeint as theirs

    def loss(lib, odeint):
        def f(y, t, damping, gravity):
            speed = y["speed"]
            return {"angle": speed, "speed": -damping * speed - gravity * lib.numpy.sin(y["angle"]) + 0.1 * t}

        def of(y0, ts, damping, gravity):
            ys = odeint(f, y0, ts, damping, gravity, **LOOSE)
            return (ys["angle"] * lib.numpy.arange(5.0)).sum() + ys["speed"][-1]

        y0 = {"angle": lib.numpy.float32(1.0), "speed": lib.numpy.float32(0.5)}
        ts = lib.numpy.linspace(0.0, 1.0, 5)
        value, gradients = lib.jit(lib.value_and_grad(of, (0, 1, 2, 3)))(y0, ts, 0.25, 9.8)
        return lib.tree.leaves((value, gradients))

    for x, y in zip(loss(xpr, odeint), loss(JAX, theirs), strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        close(x, y, 1e-3)


def test_derivatives_of_every_argument_in_both_modes():
    """In y0, the times (also the first), arguments and values that are closed over, of complex numbers too."""

    def solution(y0, ts, rate, closed_over):
        return odeint(lambda y, t, rate: -rate * closed_over * y * jnp.cos(t), y0, ts, rate, **LOOSE)

    check_grads(solution, (jnp.array([1.0, 2.0]), TIMES + 0.2, 0.7, 1.3), 1, atol=2e-2, rtol=2e-2)
    forward = xpr.jacfwd(lambda rate: odeint(lambda y, t: rate * y, 1.0, TIMES)[-1])(0.5)
    close(forward, np.exp(0.5))

    def complex_solution(y0, rate):
        return jnp.abs(odeint(lambda y, t: rate * y, y0, TIMES, **LOOSE)[-1])

    close(xpr.grad(complex_solution)(1.0 + 1j, 0.3 + 2j), np.exp(0.3) * (1 - 1j) / np.sqrt(2), 1e-3)


@pytest.mark.parametrize("outer", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("inner", ["jacfwd", "jacrev"])
def test_second_derivatives(outer, inner):
    def end(rate):
        return odeint(lambda y, t: rate * y, 2.0, jnp.array([0.0, 1.5]), **LOOSE)[-1]

    close(getattr(xpr, outer)(getattr(xpr, inner)(end))(0.5), 2 * 1.5**2 * np.exp(0.75), 1e-3)


def test_vmap_and_integers():
    def end(y0, rate, power, closed_over):
        f = lambda y, t, rate, power: rate * y**power * closed_over
        return odeint(f, y0, jnp.array([0.0, 1.0]), rate, power)[-1]

    rates, ones = jnp.array([0.1, 0.2, 0.3]), jnp.ones(3, int)
    values, slopes = xpr.jit(xpr.vmap(xpr.value_and_grad(end, 1), (None, 0, 0, 0)))(1.0, rates, ones, ones)
    close(values, np.exp(np.asarray(rates)))
    close(slopes, np.exp(np.asarray(rates)))
    close(odeint(lambda y, t: y, 1, jnp.array([0.0, 1.0])), [1.0, np.e])
    with xpr.disable_jit():
        close(odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 0.1]), **LOOSE), [1.0, np.exp(-0.1)])


def test_limits_of_steps():
    """A slope that is zero for a while is not stepped over; with too few steps the last quartic is extrapolated."""
    pulse = lambda y, t: jnp.where((t > 5) & (t < 7), 1.0, 0.0)
    times = jnp.array([0.0, 10.0])
    close(odeint(pulse, 0.0, times, hmax=0.5, **LOOSE)[-1], 2.0, 1e-3)
    close(odeint(lambda y, t: jnp.cos(t), 0.0, times, mxstep=1000, **LOOSE)[-1], np.sin(10.0), 1e-3)
    assert abs(float(odeint(lambda y, t: jnp.cos(t), 0.0, times, mxstep=3, **LOOSE)[-1]) - np.sin(10.0)) > 0.1


def test_what_does_not_fit():
    with pytest.raises(TypeError, match=r"odeint: \*args must be arrays or scalars, and one is 'a'"):
        odeint(lambda y, t, a: y, 1.0, TIMES, "a")
    with pytest.raises(TypeError, match=r"t must be an array of floats, and is i32\[3\]"):
        odeint(lambda y, t: y, 1.0, jnp.arange(3))
    with pytest.raises(ValueError, match="t must be a vector of at least one time"):
        odeint(lambda y, t: y, 1.0, jnp.zeros((2, 2)))
    with pytest.raises(ValueError, match="as many elements as y0, 2, and returned 3"):
        odeint(lambda y, t: jnp.ones(3), jnp.ones(2), TIMES)


def test_jet():
    value, derivatives = jet(jnp.exp, (0.5,), ((1.0, 0.0, 0.0),), other=None)
    close([value, *derivatives], [np.exp(0.5)] * 4, 1e-6)
    _, coefficients = jet(jnp.exp, (0.0,), ((1.0, 0.0, 0.0),), factorial_scaled=False)
    close(coefficients, [1, 1 / 2, 1 / 6], 1e-6)
    close(fact(5), 120.0)
