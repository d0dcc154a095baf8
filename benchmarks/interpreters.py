"""Taylor series of a network beside nested forward mode and jax's jet, inverses, and a sparse Jacobian.

Each library computes all derivatives along a line up to order 5. What jax does in `jet`, xpr does in `taylor`.

Of nested forward mode XLA finds that most of it computes the same, in a program that it sees as a whole: the products
of matrices that are left are those of `taylor`, so that a batch, where they are what takes the time, is level. In a
loop over layers, which `jet` refuses, it does not; nor does anyone outside of `jit`.
"""

import importlib
from collections.abc import Callable

import numpy as np

from benchmarks.case import Call, Case, Library, cold, warm

ORDER, DEPTH = 5, 4


def network(library: Library, batch: int | None, width: int, scanned: bool = False) -> tuple:
    """An MLP as a function of its input, an input and a direction; its layers written out, or a loop."""
    rng = np.random.default_rng(0)
    array = library.numpy.asarray
    weights = rng.normal(size=(DEPTH, width, width)).astype(np.float32) / width**0.5
    biases = np.ones((DEPTH, width), np.float32) / 9

    def layer(x, parameters):
        weights, bias = parameters
        return library.numpy.tanh(x @ weights + bias)

    if scanned:
        stacks = array(weights), array(biases)

        def function(x):
            return library.lax.scan(lambda x, parameters: (layer(x, parameters), None), x, stacks)[0]

    else:
        layers = [(array(w), array(b)) for w, b in zip(weights, biases)]

        def function(x):
            for parameters in layers:
                x = layer(x, parameters)
            return x

    shape = (width,) if batch is None else (batch, width)
    return function, *(array(rng.normal(size=shape).astype(np.float32)) for _ in range(2))


def in_series(library: Library) -> Callable:
    """`taylor` or `jet`."""
    return library.taylor if hasattr(library, "taylor") else importlib.import_module("jax.experimental.jet").jet


def series(batch: int | None, width: int, scanned: bool = False, compiled: bool = True) -> Callable[[Library], Call]:
    def build(library: Library) -> Call:
        function, x, direction = network(library, batch, width, scanned)
        expand = in_series(library)

        def derivatives(x, direction):
            zero = 0.0 if hasattr(library, "taylor") else library.numpy.zeros_like(x)
            rest = [zero] * (ORDER - 1)
            return expand(function, (x,), ([direction, *rest],))

        run = library.jit(derivatives) if compiled else derivatives
        return lambda: run(x, direction)

    return build


def nested(library: Library, batch: int | None, width: int, scanned: bool = False, compiled: bool = True) -> Call:
    """The same by forward mode in forward mode; every order is asked for."""
    function, x, direction = network(library, batch, width, scanned)

    def with_derivative(outs_of):
        def further(x):
            outs, tangents = library.jvp(outs_of, (x,), (direction,))
            return [*outs, tangents[-1]]

        return further

    derivatives = lambda x: [function(x)]  # noqa: E731  # it is wrapped again and again
    for _ in range(ORDER):
        derivatives = with_derivative(derivatives)
    run = library.jit(derivatives) if compiled else derivatives
    return lambda: run(x)


def against_nested(batch: int | None, width: int, **how: bool) -> Callable[[Library], Call]:
    """xpr's `taylor` beside nested forward mode in jax."""

    def build(library: Library) -> Call:
        if hasattr(library, "taylor"):
            return series(batch, width, **how)(library)
        return nested(library, batch, width, **how)

    return build


def residual(library: Library) -> Call:
    """The sparse Jacobian of Burgers' equation on a line of 100,000 points, found anew each time."""
    n = 100_000
    u = library.numpy.linspace(0.0, 1.0, n)

    def call():
        def burgers(u):
            zero = library.numpy.zeros(1)
            right, left = library.numpy.concatenate([u[1:], zero]), library.numpy.concatenate([zero, u[:-1]])
            return u * (right - left) * n / 2 - 0.01 * (right - 2 * u + left) * n + library.numpy.sin(u)

        return library.sparse_jacobian(burgers)(u).data

    return call


CASES = [
    Case("taylor and jet, width 512", warm(series(None, 512)), target=2),
    Case("a batch of 128", warm(series(128, 512)), target=2),
    Case("first call", cold(series(None, 512)), target=2),
    Case("taylor and nested jvp, width 512", warm(against_nested(None, 512)), target=2),
    Case("a batch of 128, nested", warm(against_nested(128, 512)), target=2),
    Case("a batch of 128, layers a loop, nested", warm(against_nested(128, 512, scanned=True)), target=2),
    Case("a batch of 128, not compiled, nested", warm(against_nested(128, 512, compiled=False)), target=2),
    Case("first call, nested", cold(against_nested(None, 512)), target=2),
    Case("sparse Jacobian, 100,000 points, anew", warm(residual), with_jax=False),
]
