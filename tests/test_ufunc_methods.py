"""The methods of functions of two arrays, beside jax's where it is installed."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peers import agree

ARRAYS = {"x": np.float32([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]]), "y": np.array([1, 2]), "b": np.array([True, False])}
CALLS = [
    *(f"jnp.{f}.outer(x, y)" for f in ("add", "subtract", "multiply", "maximum")),
    "jnp.subtract.outer(y, 2.5)", "jnp.logical_and.outer(b, b)", "jnp.bitwise_or.outer(y, y)",
    *(f"jnp.{f}.reduce(x)" for f in ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")),
    "jnp.add.reduce(x, axis=None)", "jnp.add.reduce(x, 1, keepdims=True)", "jnp.add.reduce(x, initial=2.0)",
    "jnp.maximum.reduce(x, axis=1, where=x > 0, initial=-5.0)", "jnp.logical_or.reduce(b)", "jnp.add.reduce(b)",
    *(f"jnp.{f}.accumulate(x)" for f in ("add", "multiply")), "jnp.add.accumulate(x, 1)",
    *(f"jnp.{f}.at(x, (0, y), 2.0, inplace=False)" for f in ("add", "subtract", "multiply", "maximum", "minimum")),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_as_in_jax(call):
    agree(call, ARRAYS, tolerance=1e-6)


def test_running_extremes():
    x = ARRAYS["x"]
    np.testing.assert_array_equal(jnp.maximum.accumulate(x, axis=1), np.maximum.accumulate(x, axis=1))
    np.testing.assert_array_equal(jnp.minimum.accumulate(x), np.minimum.accumulate(x))
    assert jnp.add.nin == 2 and jnp.add.nargs == 3


def test_under_transformations():
    slopes = xpr.jit(xpr.grad(lambda x: jnp.multiply.outer(x, x).sum()))(jnp.arange(3.0))
    assert slopes.tolist() == [6, 6, 6]


def test_errors():
    with pytest.raises(NotImplementedError, match="add.at: arrays are immutable. Say inplace=False"):
        jnp.add.at(jnp.ones(3), 0, 1.0)
    with pytest.raises(NotImplementedError, match="out= is not supported"):
        jnp.add.reduce(jnp.ones(3), out=jnp.ones(3))
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        jnp.maximum.accumulate(jnp.ones(3), 2)
