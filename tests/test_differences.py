"""What docs/differences.md says that JAX gives; what xpr gives is run on the page itself."""

import importlib

import pytest

pytestmark = pytest.mark.quick

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")


def test_wrong_results_of_the_peer():
    """Where one of these is mended in JAX, the page has to say so."""
    x = jnp.array([1.0, jnp.nan] + [2.0] * 300_000)
    assert float(jnp.max(x)) == 2.0 and jnp.isnan(jnp.max(x[:100]))
    assert jnp.array([7, 8]).at[0].divide(2).tolist() == [3.5, 8.0]
    special, signal = (importlib.import_module(f"jax.scipy.{name}") for name in ("special", "signal"))
    assert special.hyp1f1(0.5, 1.7, -40.0) > 1 and jnp.isinf(special.hyp2f1(0.5, 1.2, 2.3, -3.0))
    assert signal.welch(jnp.ones(300))[1].shape == (151,)
    f = jax.jit(jnp.copysign, static_argnums=1)
    assert [float(f(1.0, 0.0)), float(f(1.0, -0.0))] == [1.0, 1.0]
    assert jnp.isnan(jax.grad(jnp.std)(jnp.ones(1)))
    assert jax.grad(lambda high: jax.lax.clamp(1.0, 0.0, high))(0.0) == 0
    assert jax.grad(lambda y: 1e-30 / y)(1e-30) == -jnp.inf
    assert jax.grad(jnp.sinc)(1e-30) == -jnp.inf
    assert jnp.sum(jax.grad(lambda x: jax.lax.cumlogsumexp(x)[1])(jnp.array([0.0, jnp.inf]))) == 2


def test_other_values_of_the_peer():
    assert jnp.arange(3)[5] == 2 and jnp.uint8(5) + 300 == 49 and jnp.float32(1e-40) * 1 == 0
    assert jax.grad(lambda x: jax.lax.cummax(x)[-1])(jnp.ones(4)).tolist() == [0.25] * 4
    assert list(jax.tree.map(lambda x: x, {"b": 1, "a": 2})) == ["a", "b"]
    square = jax.custom_vjp(lambda x: x**2)
    square.defvjp(lambda x: (x**2, x), lambda x, ct: (2 * x * ct,))
    for wrong, call in (
        (ValueError, lambda: jax.tree.leaves({"a": 1, 3: 2})),
        (ValueError, lambda: jax.grad(lambda x: jax.lax.while_loop(lambda c: c < 10, lambda c: c * x, x))(2.0)),
        (TypeError, lambda: jax.jvp(square, (3.0,), (1.0,))),
    ):
        with pytest.raises(wrong):
            call()
