"""Training steps of two deep models: what the first call costs (trace, lower, compile), and what the others do.

Layers are written out, not scanned: that is how most programs come, and it is what makes compiling slow.
"""

from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np

from benchmarks.case import Call, Case, Library, cold, warm

RATE = 1e-3
BUILDS = count()  # how many steps were built: each has another rate, so that each is another program

MLP_LAYERS, MLP_WIDTH, MLP_BATCH = 24, 256, 128
LAYERS, WIDTH, HEADS, BATCH, LENGTH, VOCABULARY = 12, 128, 4, 4, 64, 256


def mlp_step(library: Library) -> Call:
    """A residual multilayer perceptron with normalized layers, and the squared error."""
    rng = np.random.default_rng(0)
    layers = [mlp_params(rng) for _ in range(MLP_LAYERS)]
    data = rng.normal(size=(2, MLP_BATCH, MLP_WIDTH)).astype(np.float32)

    def loss(layers, x, y):
        for layer in layers:
            x = x + library.nn.gelu(normalize(library, x) @ layer["in"] + layer["bias"]) @ layer["out"]
        return ((x - y) ** 2).mean()

    return training_step(library, loss, layers, *data)


def mlp_params(rng: np.random.Generator) -> dict:
    return {
        "in": matrix(rng, MLP_WIDTH, MLP_WIDTH),
        "bias": np.zeros(MLP_WIDTH, np.float32),
        "out": matrix(rng, MLP_WIDTH, MLP_WIDTH),
    }


def transformer_step(library: Library, layers: int = LAYERS) -> Call:
    """A causal language model with learnt positions, and the cross entropy of each next token."""
    rng = np.random.default_rng(0)
    params = {
        "tokens": matrix(rng, VOCABULARY, WIDTH),
        "positions": matrix(rng, LENGTH, WIDTH),
        "layers": [transformer_params(rng) for _ in range(layers)],
    }
    tokens = rng.integers(VOCABULARY, size=(BATCH, LENGTH + 1)).astype(np.int32)

    def loss(params, inputs, targets):
        x = params["tokens"][inputs] + params["positions"]
        for layer in params["layers"]:
            x = x + attention(library, layer, normalize(library, x))
            x = x + library.nn.gelu(normalize(library, x) @ layer["in"]) @ layer["out"]
        scores = library.nn.log_softmax(normalize(library, x) @ params["tokens"].T)
        return -library.numpy.take_along_axis(scores, targets[..., None], axis=-1).mean()

    return training_step(library, loss, params, tokens[:, :-1], tokens[:, 1:])


def transformer_params(rng: np.random.Generator) -> dict:
    return {
        "query": matrix(rng, WIDTH, WIDTH),
        "key": matrix(rng, WIDTH, WIDTH),
        "value": matrix(rng, WIDTH, WIDTH),
        "mix": matrix(rng, WIDTH, WIDTH),
        "in": matrix(rng, WIDTH, 4 * WIDTH),
        "out": matrix(rng, 4 * WIDTH, WIDTH),
    }


def attention(library: Library, layer: dict, x):
    """x float32[batch, length, width]; each position looks at itself and at those before it."""
    jnp = library.numpy

    def heads(weights):
        return (x @ weights).reshape(*x.shape[:-1], HEADS, -1)

    query, key, value = heads(layer["query"]), heads(layer["key"]), heads(layer["value"])
    scores = jnp.einsum("bihd,bjhd->bhij", query, key) / query.shape[-1] ** 0.5
    seen = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = library.nn.softmax(jnp.where(seen, scores, -1e9))
    return jnp.einsum("bhij,bjhd->bihd", weights, value).reshape(x.shape) @ layer["mix"]


def normalize(library: Library, x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / library.numpy.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def matrix(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return (rng.normal(size=(rows, columns)) / columns**0.5).astype(np.float32)


def training_step(library: Library, loss: Callable, params, *batch) -> Call:
    """Gradient descent: a jitted step, with its arguments on the device."""
    rate = RATE * (1 + next(BUILDS) / 1024)

    @library.jit
    def step(params, *batch):
        value, gradient = library.value_and_grad(loss)(params, *batch)
        return value, library.tree.map(lambda p, g: p - rate * g, params, gradient)

    params, batch = library.tree.map(library.numpy.asarray, (params, batch))
    return partial(step, params, *batch)


CASES = [
    Case(f"{MLP_LAYERS}-layer MLP, first training step", cold(mlp_step), target=3),
    Case(f"{MLP_LAYERS}-layer MLP, later steps", warm(mlp_step), target=1),
    Case(f"{LAYERS}-layer transformer, first training step", cold(transformer_step), target=3),
    Case(f"{LAYERS}-layer transformer, later steps", warm(transformer_step), target=1),
]
