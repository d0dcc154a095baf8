"""The example optimizers: each takes JAX's steps, and reaches the minimum."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import agree
from xpr.example_libraries import optimizers, stax

MAKERS = {
    "sgd": (0.1,), "momentum": (0.02, 0.9), "nesterov": (0.02, 0.9), "adagrad": (0.5,), "rmsprop": (0.05,),
    "rmsprop_momentum": (0.01,), "adam": (0.1,), "adamax": (0.1,), "sm3": (0.3,),
}  # fmt: skip


def run(library, name, steps=20):
    init, update, get = getattr(library.example_libraries.optimizers, name)(*MAKERS[name])
    state = init({"a": library.numpy.array([1.0, -2.0]), "b": [library.numpy.array([[3.0]])]})
    loss = lambda p: (p["a"] ** 2).sum() + ((p["b"][0] - 1) ** 2).sum()
    for i in range(steps):
        state = update(i, library.grad(loss)(get(state)), state)
    return get(state)


@pytest.mark.parametrize("name", MAKERS)
def test_steps_are_those_of_the_peer(name):
    agree(lambda library: run(library, name), 2e-5)


@pytest.mark.parametrize("name", MAKERS)
def test_the_minimum_is_reached(name):
    found = run(xpr, name, 300)
    np.testing.assert_allclose(found["a"], [0, 0], atol=0.1)
    np.testing.assert_allclose(found["b"][0], [[1]], atol=0.1)


def test_step_sizes():
    assert optimizers.make_schedule(0.5)(7) == 0.5
    assert optimizers.exponential_decay(1.0, 2, 0.25)(4) == 0.0625
    assert optimizers.inverse_time_decay(1.0, 2, 1.0)(4) == 1 / 3
    assert optimizers.inverse_time_decay(1.0, 2, 1.0, staircase=True)(3) == 0.5
    assert optimizers.polynomial_decay(1.0, 10, 0.5)(20) == 0.5
    assert [float(optimizers.piecewise_constant([2, 4], [3.0, 2.0, 1.0])(i)) for i in (0, 3, 9)] == [3.0, 2.0, 1.0]
    with pytest.raises(TypeError, match="A step size is a number or a function"):
        optimizers.make_schedule(np.ones(3))
    with pytest.raises(ValueError, match="values are one more than boundaries"):
        optimizers.piecewise_constant([1], [1.0])


def test_states():
    init, update, get = optimizers.adam(0.1)
    params = {"w": jnp.ones(3)}
    state = xpr.jit(update)(0, {"w": jnp.ones(3)}, init(params))
    again = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    np.testing.assert_array_equal(get(again)["w"], get(state)["w"])
    with pytest.raises(TypeError, match="The gradients have another structure than the parameters"):
        update(0, [jnp.ones(3)], state)


def network(stax):
    return stax.serial(
        stax.Conv(4, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu, stax.MaxPool((2, 2), strides=(2, 2)),
        stax.FanOut(2), stax.parallel(stax.Identity, stax.AvgPool((2, 2), padding="SAME")), stax.FanInSum, stax.Flatten,
        stax.FanOut(2), stax.parallel(stax.Dense(5), stax.serial(stax.Dense(3), stax.Tanh)), stax.FanInConcat(),
        stax.Dropout(0.5, mode="test"), stax.shape_dependent(lambda shape: stax.Dense(shape[-1])), stax.LogSoftmax,
    )  # fmt: skip


def test_layers_are_those_of_the_peer():
    x = np.random.default_rng(0).normal(size=(2, 6, 6, 3)).astype(np.float32)

    def applied(library):
        init, apply = network(library.example_libraries.stax)
        shape, params = init(library.random.PRNGKey(0), x.shape)
        return shape, params, apply(params, x, rng=library.random.PRNGKey(1))

    assert agree(applied, 2e-5)[0] == (2, 8)


def test_dropout():
    init, apply = stax.serial(stax.Dropout(0.5))
    params = init(xpr.random.key(0), (4,))[1]
    outs = apply(params, jnp.ones(1000), rng=xpr.random.key(1))
    assert set(np.unique(outs)) == {0.0, 2.0} and 400 < np.count_nonzero(outs) < 600
    with pytest.raises(ValueError, match="Dropout: apply it with a key"):
        apply(params, jnp.ones(3))


def test_transposed_convolution():
    init, apply = stax.ConvTranspose(2, (3, 3), strides=(2, 2), padding="SAME")
    shape, params = init(xpr.random.key(0), (1, 4, 4, 3))
    assert shape == apply(params, jnp.ones((1, 4, 4, 3))).shape == (1, 8, 8, 2)


def test_norms():
    gradients = {"a": jnp.array([3.0]), "b": jnp.array([4.0])}
    assert optimizers.l2_norm(gradients) == 5
    np.testing.assert_allclose(optimizers.clip_grads(gradients, 1.0)["b"], [0.8], rtol=1e-6)
    np.testing.assert_allclose(optimizers.clip_grads(gradients, 10.0)["b"], [4.0])


def test_functions_of_layers_are_there_by_name():
    assert stax.logsoftmax is xpr.nn.log_softmax
    names = "elu gelu leaky_relu log_softmax relu selu sigmoid softmax softplus standardize".split()
    assert all(getattr(stax, name) is getattr(xpr.nn, name) for name in names)
