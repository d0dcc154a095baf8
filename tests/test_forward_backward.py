"""fwd_and_bwd: both passes as functions, compiled once."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp


def f(x, w, scale=1.0):
    return jnp.sin(x @ w) * scale


X, W = jnp.arange(4.0).reshape(2, 2), jnp.ones((2, 2))


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("argnums", [0, (0, 1), (1,)])
def test_is_vjp(argnums, jitted):
    fwd, bwd = xpr.fwd_and_bwd(f, argnums, jitted=jitted)
    y, residuals = fwd(X, W, scale=2.0)
    expected, f_vjp = xpr.vjp(lambda x, w: f(x, w, 2.0), X, W)
    cts = f_vjp(jnp.ones_like(y))
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    results = bwd(residuals, jnp.ones_like(y))
    pairs = [(results, argnums)] if isinstance(argnums, int) else zip(results, argnums, strict=True)
    for actual, n in pairs:
        np.testing.assert_allclose(actual, cts[n], rtol=1e-6)


def test_auxiliary_data():
    fwd, bwd = xpr.fwd_and_bwd(lambda x: (x * x, x + 1), 0, has_aux=True)
    y, residuals, aux = fwd(3.0)
    assert (y, aux, bwd(residuals, 1.0)) == (9, 4, 6)


def test_compiles_once():
    fwd, bwd = xpr.fwd_and_bwd(f, (0, 1))
    bwd(fwd(X, W)[1], X)
    with xpr.no_tracing():
        bwd(fwd(X + 1, W)[1], X)


def test_mistakes():
    with pytest.raises(TypeError, match="fwd_and_bwd: Expected a callable value, and got 3"):
        xpr.fwd_and_bwd(3, 0)
    with pytest.raises(ValueError, match="fwd_and_bwd: argnums=2 is out of range"):
        xpr.fwd_and_bwd(f, 2, jitted=False)[0](X, W)
