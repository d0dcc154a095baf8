"""Compiled loops, their gradients, and what staging them costs."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.case import Call, Case, Library, warm

LEAVES, STEPS = 60, 614
WIDTH, BATCH, LENGTH = 128, 32, 100


def jitted(build: Callable[[Library], tuple]) -> Callable[[Library], Call]:
    """The call of a jitted function with its arguments on the device; `build` gives both."""

    def make(library: Library) -> Call:
        function, *arguments = build(library)
        return partial(library.jit(function), *library.tree.map(library.numpy.asarray, arguments))

    return make


def scalar_loop(library: Library) -> tuple:
    """100,000 steps of one number."""

    def function(x):
        return library.lax.fori_loop(0, 100_000, lambda i, x: x * 0.999 + 0.001 * library.numpy.sin(x), x)

    return function, np.float32(0.5)


def lorenz(library: Library) -> tuple:
    """100,000 steps of Lorenz's three equations, all of them kept."""

    def step(state, _):
        x, y, z = state
        dx, dy, dz = 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z
        state = x + 1e-3 * dx, y + 1e-3 * dy, z + 1e-3 * dz
        return state, state

    def function(*state):
        return library.lax.scan(step, state, None, length=100_000)

    return function, *np.float32([1.0, 1.0, 1.0])


def recurrent(library: Library) -> tuple:
    """A recurrent network of width 128 over 100 steps of a batch."""

    def function(weights, bias, h, xs):
        def cell(h, x):
            h = library.numpy.tanh(h @ weights + x + bias)
            return h, h

        return (library.lax.scan(cell, h, xs)[1] ** 2).sum()

    rng = np.random.default_rng(0)
    shapes = (WIDTH, WIDTH), (WIDTH,), (BATCH, WIDTH), (LENGTH, BATCH, WIDTH)
    return function, *(0.1 * rng.normal(size=shape).astype(np.float32) for shape in shapes)


def gated(library: Library) -> tuple:
    """The last state of a recurrent network of gated units, from small matrices."""
    jnp = library.numpy

    def function(weights, h):
        def cell(i, h):
            update, reset = (library.nn.sigmoid(h @ w) for w in weights[:2])
            return (1 - update) * jnp.tanh((reset * h) @ weights[2]) + update * h

        return library.lax.fori_loop(0, 100, cell, h)

    return function, [jnp.eye(30) * 0.1 + 0.01] * 3, jnp.ones((20, 30))


def gradient_of(build: Callable[[Library], tuple]) -> Callable[[Library], tuple]:
    def gradient(library: Library) -> tuple:
        function, *arguments = build(library)
        return library.grad(function, tuple(range(len(arguments)))), *arguments

    return gradient


def batched_while(library: Library) -> tuple:
    """1000 loops that end at different times: square roots by Newton's method."""

    def root(x):
        def unfinished(state):
            return abs(state * state - x) > 1e-4 * x

        return library.lax.while_loop(unfinished, lambda y: 0.5 * (y + x / y), x)

    return library.vmap(root), np.linspace(0.01, 1e4, 1000).astype(np.float32)


def many_leaves(library: Library) -> tuple:
    """614 steps of 60 numbers that feed each other."""

    def function(*leaves):
        def step(state, _):
            state = [library.numpy.sin(a) * 0.5 + b * 0.5 for a, b in zip(state, [*state[1:], state[0]])]
            return state, state[0]

        state, ys = library.lax.scan(step, list(leaves), None, length=STEPS)
        return ys.sum() + sum(state)

    return function, *np.linspace(-1, 1, LEAVES).astype(np.float32)


def staged(gradient: bool) -> Callable[[Library], Call]:
    """Staging a scan whose body has 100 equations; the functions are new at each call."""
    carry, rows = np.ones(8, np.float32), np.ones((10, 8), np.float32)

    def build(library: Library) -> Call:
        def call():
            def body(c, x):
                for _ in range(50):
                    c = library.numpy.sin(c) * x
                return c, c

            def function(c, xs):
                return library.lax.scan(body, c, xs)[1].sum()

            return library.make_jaxpr(library.grad(function) if gradient else function)(carry, rows)

        return call

    return build


CASES = [
    Case("100,000 steps of a number", warm(jitted(scalar_loop)), target=1),
    Case("100,000 steps of Lorenz's equations", warm(jitted(lorenz)), target=1),
    Case("100 steps of a recurrent network", warm(jitted(recurrent)), target=1),
    Case("its gradient", warm(jitted(gradient_of(recurrent))), target=1),
    Case("100 steps of a small gated network", warm(jitted(gated)), target=1),
    Case("1000 while loops by vmap", warm(jitted(batched_while)), target=1),
    Case("gradient of 614 steps of 60 numbers", warm(jitted(gradient_of(many_leaves))), target=10),
    Case("make_jaxpr of a scan of 100 equations", warm(staged(gradient=False)), target=5),
    Case("make_jaxpr of its gradient", warm(staged(gradient=True)), target=5),
]
