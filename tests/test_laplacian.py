"""laplacian: the trace of the Hessian, for each element of the result."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

X = np.array([0.3, 0.5, 0.7])


def network(x):
    w = jnp.asarray(np.linspace(-1, 1, 12).reshape(3, 4))
    h = jnp.tanh(x @ w + 0.1)
    return jnp.sum(jnp.tanh(h @ w.T) ** 2)


FUNCTIONS = {
    "a network": network,
    "polynomials": lambda x: x[0] ** 3 * x[1] + x[2],
    "arrays": lambda x: jnp.outer(jnp.sin(x), jnp.exp(x)) / (1 + x),
    "axes that broadcast": lambda x: (
        (x[:, None] + x) ** 2 * jnp.sin(x[:, None]) + jnp.ones((3, 1)) * x[None] - x[:, None]
    ),
    "linear": lambda x: 2 * x[::-1].sum() + x,
    "special functions": lambda x: lax.lgamma(x) * lax.erf_inv(x[0]),
    "choices": lambda x: jnp.where(x > 0.4, x**2, jnp.maximum(x * x[0], 0.0)),
    "loops": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x + i, x),
    "scans": lambda x: lax.scan(lambda c, r: (c * r + 1, jnp.exp(c) * r), x[0], x)[1],
    "while loops": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1]) + x), (0, x))[1],
    "branches": lambda x: lax.cond(x[0] > 0, lambda x: x * x, lambda x: jnp.ones_like(x), x),
    "calls": lambda x: xpr.jit(lambda y: jnp.sin(y) * y)(x) + xpr.nn.softplus(x),
    "convolutions": lambda x: jnp.convolve(x, jnp.sin(x)) + jnp.convolve(x * x, jnp.ones(3)),
    "rows on devices": lambda x: xpr.pmap(lambda r: jnp.exp(r * 2) + x, out_axes=1)(x[None]),
    "constant": lambda x: jnp.ones(2),
    "first order alone": lambda x: x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_the_trace_of_the_hessian(name):
    fun = FUNCTIONS[name]
    with xpr.enable_x64(True):
        x = jnp.asarray(X)
        hessian = np.asarray(xpr.jit(xpr.hessian(fun))(x))
        want = np.trace(hessian, axis1=-2, axis2=-1)
        np.testing.assert_allclose(xpr.laplacian(fun)(x), want, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(xpr.jit(xpr.laplacian(fun))(x), want, rtol=1e-9, atol=1e-9)


def test_arguments_and_structures():
    out = xpr.laplacian(lambda a, x, n: {"y": a * jnp.sum(x**2), "n": n}, argnums=1)(3.0, jnp.ones((2, 2)), 4)
    assert float(out["y"]) == 24 and int(out["n"]) == 0


def test_composes():
    def heat(x):
        return jnp.sum(jnp.exp(x) * jnp.arange(1.0, 4.0))

    x = jnp.asarray(X, "float32")
    np.testing.assert_allclose(xpr.grad(xpr.laplacian(heat))(x), xpr.grad(heat)(x), rtol=1e-5)
    rows = jnp.stack([x, 2 * x])
    np.testing.assert_allclose(xpr.vmap(xpr.laplacian(heat))(rows), [heat(row) for row in rows], rtol=1e-5)
    twice = xpr.laplacian(xpr.laplacian(lambda x: jnp.sum(x**4)))(x)
    assert float(twice) == pytest.approx(72, rel=1e-4)


def test_makes_no_hessian():
    n = 50
    text = str(xpr.make_jaxpr(xpr.laplacian(lambda x: jnp.sum(jnp.sin(jnp.tanh(x @ jnp.ones((n, 7)))))))(jnp.ones(n)))
    assert "f32[50,50,7]" not in text and text.count("dot_general") == 2


def test_messages():
    with pytest.raises(TypeError, match=r"argument 0 of <lambda> at \S+ must be an array of floats, and is i32\[\]"):
        xpr.laplacian(lambda x: x)(3)
    with pytest.raises(TypeError, match="and is a pytree"):
        xpr.laplacian(lambda x: x["a"])({"a": 3.0})
    with pytest.raises(ValueError, match=r"by one argument, and argnums=\(0, 1\) names 2"):
        xpr.laplacian(lambda x, y: x @ y, (0, 1))(jnp.ones(2), jnp.ones(2))
    with pytest.raises(TypeError, match="laplacian: Expected a callable value, and got 3"):
        xpr.laplacian(3)


def test_large_arrays_give_what_they_give_under_jit():
    """Their long rules run as programs of their own."""
    weights = np.linspace(-1, 1, 3 * 5000, dtype=np.float32).reshape(3, 5000)
    fun = xpr.laplacian(lambda x: jnp.sum(jnp.tanh(x @ weights) ** 3 / (2 + jnp.cos(x[0]))))
    x = jnp.asarray(X, np.float32)
    np.testing.assert_allclose(fun(x), xpr.jit(fun)(x), rtol=1e-4)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0,)])
def test_arrays_without_elements(shape):
    x = jnp.ones(shape)
    assert float(xpr.laplacian(lambda x: jnp.sum(jnp.sin(x) ** 2))(x)) == 0
    assert xpr.jit(xpr.laplacian(lambda x: jnp.sin(x) * x))(x).shape == shape
    loop = lambda x: lax.scan(lambda c, row: (c + jnp.sum(row**2), jnp.sin(row)), 1.0, x)
    total, rows = xpr.laplacian(loop)(x)
    assert float(total) == 0 and rows.shape == shape
