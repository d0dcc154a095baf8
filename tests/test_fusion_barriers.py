"""What XLA:CPU is kept from computing again in each reader: programs grow with their depth, not with its square."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.ops.table import floats
from xpr import nn
from xpr.compile.fusion import fusion_barriers
from xpr.compile.lower import lower_jaxpr

pytestmark = pytest.mark.optimized


def normalize(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def before(x, p):
    """A residual layer that normalizes what it reads."""
    return x + nn.gelu((normalize(x) * p["scale"] + p["offset"]) @ p["in"] + p["bias"]) @ p["out"] + p["shift"]


def after(x, p):
    """One that normalizes what it gives."""
    return normalize(x + nn.relu(x @ p["in"] + p["bias"]) @ p["out"] + p["shift"]) * p["scale"] + p["offset"]


def gated(x, p):
    gate = nn.sigmoid(x @ p["in"] + p["bias"])
    return x * (1 - gate) + gate * nn.relu(x @ p["out"] + p["shift"])


def lorenz(x, p):
    """A step of a simulation that has no product, reduction or other end of a fusion."""
    a, b, c = x[:, :2], x[:, 2:4], x[:, 4:6]
    return x + 0.01 * jnp.concatenate([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c, x[:, 6:]], 1)


def deep(layer, depth, width=8):
    """The gradient of a network of `depth` layers, as a jaxpr."""
    matrix, row = floats(width, width), floats(width)
    layers = [{"in": matrix, "out": matrix, **dict.fromkeys(["bias", "shift", "scale", "offset"], row)}] * depth

    def loss(layers, x):
        for p in layers:
            x = layer(x, p)
        return (x**2).mean()

    return xpr.make_jaxpr(xpr.grad(loss))(layers, floats(4, width)).jaxpr


@pytest.mark.parametrize("layer", [before, after, gated, lorenz], ids=lambda layer: layer.__name__)
def test_each_layer_adds_as_much_to_the_program(layer):
    def size(depth):
        closed = deep(layer, depth)
        function = xpr.jit(xpr.core.jaxpr_as_fun(xpr.core.ClosedJaxpr(closed, [])))
        compiled = function.lower(*closed.in_avals).compile({"xla_backend_optimization_level": 0})  # fused as otherwise
        return compiled.as_text().count("\n")

    three, six, twelve = size(3), size(6), size(12)
    assert twelve - six < 2.4 * (six - three)  # the double is linear, the square would be four times


@pytest.mark.parametrize("layer", [before, after, gated], ids=lambda layer: layer.__name__)
def test_each_sum_of_a_stream_gets_a_barrier(layer):
    """By as many values for each further layer, however deep."""
    counts = [len(fusion_barriers(deep(layer, depth))) for depth in (3, 4, 5)]
    assert counts[2] - counts[1] == counts[1] - counts[0] > 0


def apart(f, *args):
    return fusion_barriers(xpr.make_jaxpr(f)(*args).jaxpr)


def test_values_without_barriers():
    x = floats(4, 8)
    assert not apart(lambda x: jnp.exp((x + 1) - (x + 1).max()), x)
    assert not apart(lambda x: (y := x * 2 + 1).sum() + y * y * y, x)  # one sum is no stream
    assert not apart(lambda x: ((y := x + 1) @ y.T, y + x), x)
    assert not apart(lambda x, y: x + y, x, x)

    def numbers(a):
        for _ in range(100):
            a = a * a + a
        return a

    assert not apart(numbers, np.float32(1))
    assert not apart(lambda x: xpr.vmap(numbers)(x), floats(8))
    assert apart(lambda x: xpr.vmap(numbers)(x), x)


def test_values_that_take_many_operations_get_a_barrier():
    def long(x):
        for _ in range(100):
            x = jnp.where(x > 0, x * 0.5, x * x)
        return x

    assert 3 <= len(apart(long, floats(2, 2))) <= 10

    def costly(x):  # tanh of several readers is computed once anyway
        for _ in range(100):
            x = jnp.tanh(x) + 0.1
            x = x * x
        return x

    assert len(apart(costly, floats(2, 2))) <= len(apart(long, floats(2, 2)))


def test_elsewhere_than_on_cpu_there_are_no_fusion_barriers():
    jaxpr = deep(before, 3)
    assert "@fusion_barrier" in lower_jaxpr(jaxpr, "cpu").text()
    for text in (lower_jaxpr(jaxpr, "cuda").text(),):
        assert "@fusion_barrier" not in text and "optimization_barrier" not in text


def test_the_same_numbers_with_and_without(monkeypatch):
    x, layers = floats(4, 8), [{"in": floats(8, 8), "out": floats(8, 8, salt=1), "bias": floats(8), "shift": floats(8),
                                "scale": floats(8), "offset": floats(8)}] * 4  # fmt: skip

    def loss(layers, x):
        for p in layers:
            x = before(x, p)
        return (x**2).mean()

    with_barriers = xpr.jit(xpr.grad(loss))(layers, x)
    monkeypatch.setattr("xpr.compile.lower.fusion_barriers", lambda jaxpr: set())
    plain = xpr.jit(xpr.grad(lambda layers, x: loss(layers, x)))(layers, x)
    for a, b in zip(xpr.tree.leaves(with_barriers), xpr.tree.leaves(plain)):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_values_that_are_computed_twice_get_one_barrier():
    def steps(x):
        for _ in range(8):
            x = lorenz(x, None)
        return x

    once = lower_jaxpr(xpr.make_jaxpr(steps)(floats(4, 8)).jaxpr).text()
    twice = lower_jaxpr(xpr.make_jaxpr(lambda x: steps(x) * steps(x))(floats(4, 8)).jaxpr).text()
    assert once.count("callee = @fusion_barrier") == twice.count("callee = @fusion_barrier") > 0
