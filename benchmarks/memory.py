"""What the gradient of a deep network needs in memory, all of it, without and with rematerialization.

JAX marks the recomputation with optimization barriers, which XLA:CPU removes before it looks for work done twice; so on
CPU it merges the recomputation with the forward pass, and nothing is gained.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from benchmarks.case import Case, Library
from benchmarks.models import matrix

LAYERS, WIDTH, BATCH = 32, 256, 1024


def gradient(library: Library, rematerialized: bool) -> tuple[Callable, Any]:
    """The gradient of a residual multilayer perceptron, and its arguments."""
    rng = np.random.default_rng(0)
    layers = [{"in": matrix(rng, WIDTH, WIDTH), "out": matrix(rng, WIDTH, WIDTH)} for _ in range(LAYERS)]

    def block(layer, x):
        return x + library.numpy.tanh(library.nn.gelu(x @ layer["in"]) @ layer["out"])

    if rematerialized:
        block = library.checkpoint(block)

    def loss(layers, x):
        for layer in layers:
            x = block(layer, x)
        return (x**2).mean()

    return library.grad(loss), (layers, rng.normal(size=(BATCH, WIDTH)).astype(np.float32))


@cache
def reported(library: Library, rematerialized: bool) -> float:
    """Arguments, results and temporaries in bytes, as the compiler reports them."""
    function, args = gradient(library, rematerialized)
    sizes = library.jit(function).lower(*args).compile().memory_analysis()
    return sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes


@cache
def predicted(library: Library, rematerialized: bool) -> float:
    """The same by xpr's prediction, which compiles nothing."""
    function, args = gradient(library, rematerialized)
    return library.ad_checkpoint.predicted_memory(function, *args).peak


def bytes_of(rematerialized: bool) -> Callable[[Library], Callable[[], float]]:
    return lambda library: lambda: reported(library, rematerialized)


def factor_by(account: Callable[[Library, bool], float]) -> Callable[[Library], Callable[[], float]]:
    """By how much rematerialization reduces the memory."""
    return lambda library: lambda: account(library, False) / account(library, True)


NETWORK = f"{LAYERS}-layer MLP"

CASES = [
    Case(f"{NETWORK}, gradient", bytes_of(False), unit="B"),
    Case(f"{NETWORK}, rematerialized", bytes_of(True), target=1.5, unit="B"),
    Case("less by, as the compiler reports", factor_by(reported), unit="x", with_jax=False),
    Case("less by, as xpr predicts", factor_by(predicted), unit="x", with_jax=False),
]
