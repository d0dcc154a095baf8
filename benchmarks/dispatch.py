"""What a call of a compiled function costs before and after the program itself, which does next to nothing.

Each library is in a process of its own: where jax is imported, jaxlib records the Python stack in calls of both.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.apart import apart
from benchmarks.case import Call, Case, Library


def one_argument(library: Library) -> Call:
    increment = library.jit(lambda x: x + 1)
    return partial(increment, library.numpy.ones(8))


def numpy_argument(library: Library) -> Call:
    return partial(library.jit(lambda x: x + 1), np.ones(8, np.float32))


def dictionary(library: Library) -> Call:
    doubled = library.jit(lambda tree: {"a": tree["a"] * 2, "b": tree["b"] + 1})
    return partial(doubled, {"a": library.numpy.ones(8), "b": library.numpy.ones(8)})


class State(NamedTuple):
    """What an optimizer keeps, as libraries have it."""

    count: Any
    moments: Any


def optimizer_step(library: Library) -> Call:
    x = library.numpy.ones(8)
    step = library.jit(lambda state, g: State(state.count + 1, {k: v + g for k, v in state.moments.items()}))
    return partial(step, State(library.numpy.zeros(()), {"m": x, "v": x}), x)


def donated_state(library: Library) -> Call:
    """Each call gets the state that the one before it returned."""
    step = library.jit(lambda state: {"a": state["a"] * 2, "b": state["b"] + 1}, donate_argnums=0)
    states = [{"a": library.numpy.ones(8) + 0, "b": library.numpy.ones(8) + 0}]

    def call() -> Any:
        states[0] = step(states[0])
        return states[0]

    return call


def static_argument(library: Library) -> Call:
    power = library.jit(lambda x, n: x**n, static_argnames="n")
    return partial(power, library.numpy.ones(8), n=2)


@dataclasses.dataclass
class Layer:
    """A pytree node of its own class, as modules of libraries are."""

    weight: Any
    bias: Any
    name: str = "layer"


def registered_class(library: Library) -> Call:
    cls = type("Layer", (Layer,), {})  # registered once in each library
    library.tree_util.register_dataclass(cls, ["weight", "bias"], ["name"])
    doubled = library.jit(lambda layer: cls(layer.weight * 2, layer.bias + 1))
    return partial(doubled, cls(library.numpy.ones(8), library.numpy.ones(8)))


def pytree(library: Library) -> Call:
    """100 arrays in and out, as ten dictionaries of ten."""
    tree = [{f"leaf{i}": library.numpy.ones(8) for i in range(10)} for _ in range(10)]
    increment = library.jit(lambda tree: library.tree.map(lambda x: x + 1, tree))
    return partial(increment, tree)


CASES = [
    Case("a jitted call of one argument", apart(one_argument, "later calls"), target=1 / 1.6),
    Case("a jitted call of a NumPy array", apart(numpy_argument, "later calls"), target=1 / 1.6),
    Case("a jitted call of a dictionary of two leaves", apart(dictionary, "later calls"), target=1 / 1.6),
    Case("a jitted call of an optimizer's state", apart(optimizer_step, "later calls"), target=1 / 1.6),
    Case("a jitted call of a registered dataclass", apart(registered_class, "later calls"), target=1 / 1.6),
    Case("a jitted call with a static argument", apart(static_argument, "later calls"), target=1 / 1.6),
    Case("a jitted call that donates a dictionary", apart(donated_state, "later calls"), target=1 / 1.6),
    Case("a jitted call of a pytree of 100 leaves", apart(pytree, "later calls"), target=1 / 1.25),
]
