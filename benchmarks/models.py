"""Training steps of two deep models: what the first call costs (trace, lower, compile), and what the others do.

Layers are written out, not scanned: that is how most programs come, and it is what makes compiling slow. Each model
comes bare, and as it is mostly written: with biases, and with a scale and an offset where it normalizes.
"""

from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np

from benchmarks.case import Call, Case, Library, cold, warm

RATE = 1e-3
BUILDS = count()  # how many programs were built: each has another factor in it, so that each is compiled

MLP_LAYERS, MLP_WIDTH, MLP_BATCH = 24, 256, 128
LAYERS, WIDTH, HEADS, BATCH, LENGTH, VOCABULARY = 12, 128, 4, 4, 64, 256


def mlp_step(library: Library, bare: bool = False) -> Call:
    """A residual multilayer perceptron with normalized layers, and the squared error."""
    rng = np.random.default_rng(0)
    layers = [mlp_params(rng, bare) for _ in range(MLP_LAYERS)]
    data = rng.normal(size=(2, MLP_BATCH, MLP_WIDTH)).astype(np.float32)

    def loss(layers, x, y):
        for layer in layers:
            x = x + perceptron(library, layer, x)
        return ((x - y) ** 2).mean()

    return training_step(library, loss, layers, *data)


def mlp_params(rng: np.random.Generator, bare: bool) -> dict:
    params = {"in": matrix(rng, MLP_WIDTH, MLP_WIDTH), "out": matrix(rng, MLP_WIDTH, MLP_WIDTH)}
    return params if bare else {**params, **vectors(params), **norm_params("mlp", MLP_WIDTH)}


def transformer_step(library: Library, layers: int = LAYERS, bare: bool = False) -> Call:
    """A causal language model with learnt positions, and the cross entropy of each next token."""
    loss, params, *batch = transformer(library, layers, bare)
    return training_step(library, loss, params, *batch)


def transformer_gradient(library: Library, layers: int) -> Call:
    """The loss of that model and its gradient."""
    loss, *arguments = transformer(library, layers, bare=False)
    factor = next_factor()
    gradient = library.jit(library.value_and_grad(lambda *arguments: factor * loss(*arguments)))
    return partial(gradient, *library.tree.map(library.numpy.asarray, arguments))


def transformer(library: Library, layers: int, bare: bool) -> tuple:
    """The loss, the parameters, and a batch."""
    rng = np.random.default_rng(0)
    params = {
        "tokens": matrix(rng, VOCABULARY, WIDTH),
        "positions": matrix(rng, LENGTH, WIDTH),
        "layers": [transformer_params(rng, bare) for _ in range(layers)],
    }
    tokens = rng.integers(VOCABULARY, size=(BATCH, LENGTH + 1)).astype(np.int32)

    def loss(params, inputs, targets):
        x = params["tokens"][inputs] + params["positions"]
        for layer in params["layers"]:
            x = x + attention(library, layer, normalize(library, layer, "attention", x))
            x = x + perceptron(library, layer, x)
        scores = library.nn.log_softmax(normalize(library, {}, "", x) @ params["tokens"].T)
        return -library.numpy.take_along_axis(scores, targets[..., None], axis=-1).mean()

    return loss, params, tokens[:, :-1], tokens[:, 1:]


def transformer_params(rng: np.random.Generator, bare: bool) -> dict:
    params = {
        "query": matrix(rng, WIDTH, WIDTH),
        "key": matrix(rng, WIDTH, WIDTH),
        "value": matrix(rng, WIDTH, WIDTH),
        "mix": matrix(rng, WIDTH, WIDTH),
        "in": matrix(rng, WIDTH, 4 * WIDTH),
        "out": matrix(rng, 4 * WIDTH, WIDTH),
    }
    return (
        params
        if bare
        else {**params, **vectors(params), **norm_params("attention", WIDTH), **norm_params("mlp", WIDTH)}
    )


def vectors(matrices: dict) -> dict:
    """The biases that go with matrices."""
    return {f"{name} bias": np.zeros(weights.shape[1], np.float32) for name, weights in matrices.items()}


def norm_params(name: str, width: int) -> dict:
    return {f"{name} scale": np.ones(width, np.float32), f"{name} offset": np.zeros(width, np.float32)}


def linear(layer: dict, name: str, x):
    product = x @ layer[name]
    return product + layer[f"{name} bias"] if f"{name} bias" in layer else product


def perceptron(library: Library, layer: dict, x):
    return linear(layer, "out", library.nn.gelu(linear(layer, "in", normalize(library, layer, "mlp", x))))


def attention(library: Library, layer: dict, x):
    """x float32[batch, length, width]; each position looks at itself and at those before it."""
    jnp = library.numpy

    def heads(name):
        return linear(layer, name, x).reshape(*x.shape[:-1], HEADS, -1)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = jnp.einsum("bihd,bjhd->bhij", query, key) / query.shape[-1] ** 0.5
    seen = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = library.nn.softmax(jnp.where(seen, scores, -1e9))
    return linear(layer, "mix", jnp.einsum("bhij,bjhd->bihd", weights, value).reshape(x.shape))


def normalize(library: Library, layer: dict, name: str, x):
    centred = x - x.mean(axis=-1, keepdims=True)
    result = centred / library.numpy.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return result * layer[f"{name} scale"] + layer[f"{name} offset"] if f"{name} scale" in layer else result


def matrix(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return (rng.normal(size=(rows, columns)) / columns**0.5).astype(np.float32)


def training_step(library: Library, loss: Callable, params, *batch) -> Call:
    """Gradient descent: a jitted step, with its arguments on the device."""
    rate = RATE * next_factor()

    @library.jit
    def step(params, *batch):
        value, gradient = library.value_and_grad(loss)(params, *batch)
        return value, library.tree.map(lambda p, g: p - rate * g, params, gradient)

    params, batch = library.tree.map(library.numpy.asarray, (params, batch))
    return partial(step, params, *batch)


def next_factor() -> float:
    return 1 + next(BUILDS) / 1024


MLP, TRANSFORMER = f"{MLP_LAYERS}-layer MLP", f"{LAYERS}-layer transformer"

CASES = [
    Case(f"{MLP}, first training step", cold(mlp_step), target=3),
    Case(f"{MLP}, later steps", warm(mlp_step), target=1),
    Case(f"{MLP} without biases, first step", cold(partial(mlp_step, bare=True)), target=3),
    Case(f"{MLP} without biases, later steps", warm(partial(mlp_step, bare=True)), target=1),
    Case(f"{TRANSFORMER}, first training step", cold(transformer_step), target=3),
    Case(f"{TRANSFORMER}, later steps", warm(transformer_step), target=1),
    Case(f"{TRANSFORMER} without biases, first step", cold(partial(transformer_step, bare=True)), target=3),
    Case(f"{TRANSFORMER} without biases, later steps", warm(partial(transformer_step, bare=True)), target=1),
]
