"""Passes over programs of 100,000 equations, by the equation; and what rerolling saves a compiler.

The programs: a chain that repeats itself; one that nearly does, all the time; calls within calls; and small functions.
"""

import copy
import gc
import random
import time
from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import numpy as np

from benchmarks.case import Call, Case, Library, Sample, cold
from benchmarks.models import matrix, next_factor, normalize

EQUATIONS = 100_000
ONES = np.ones(3, np.float32)
LAYERS, WIDTH = 48, 64


@cache
def chain(library: Library) -> Any:
    """It repeats itself every eight equations, of elementwise operations and others."""
    lax = library.lax

    def function(x, w):
        for _ in range(EQUATIONS // 8):
            y = lax.add(lax.mul(lax.sin(x), w), lax.mul(x, x))
            x = lax.reshape(lax.broadcast_in_dim(lax.sub(y, w), (1, 3), (1,)), (3,))
            x = lax.integer_pow(x, 2)
        return x

    return library.make_jaxpr(function)(ONES, ONES)


@cache
def nearly(library: Library) -> Any:
    """Sines and products in turn, each of something close before it."""
    lax, chance = library.lax, random.Random(0)

    def function(x, w):
        values = [x, w]
        for _ in range(EQUATIONS // 2):
            values.append(lax.sin(chance.choice(values[-6:])))
            values.append(lax.mul(values[-1], chance.choice(values[-6:])))
        return values[-1]

    return library.make_jaxpr(function)(ONES, ONES)


@cache
def calls(library: Library) -> Any:
    """A hundred functions of a thousand equations, each of which calls the next."""
    lax, depth = library.lax, 100

    def level(below):
        def function(x, w):
            for _ in range(EQUATIONS // depth // 4):
                x = lax.mul(lax.sin(x), w)
            x = below(x, w)
            for _ in range(EQUATIONS // depth // 4):
                x = lax.add(lax.cos(x), w)
            return x

        return library.jit(function)

    outermost = reduce(lambda below, _: level(below), range(depth), lax.add)
    return library.make_jaxpr(outermost)(ONES, ONES)


@cache
def functions(library: Library) -> Any:
    """Thousands of functions of four equations, each called once, one after another."""
    lax = library.lax

    def small(number):
        return library.jit(lambda x, w: lax.mul(lax.sin(lax.sin(x)), lax.mul(w, np.float32(number))))

    def function(x, w):
        for number in range(EQUATIONS // 5):
            x = small(number)(x, w)
        return x

    return library.make_jaxpr(function)(ONES, ONES)


def by_equation(
    program: Callable[[Library], Any], make_pass: Callable[[Library], Callable[[Any], Any]]
) -> Callable[[Library], Sample]:
    """The seconds that a pass takes, divided by the number of equations; nothing is remembered between samples."""

    def sampler(library: Library) -> Sample:
        closed, run = program(library), make_pass(library)

        def sample() -> float:
            forgetful = copy.deepcopy(closed)
            gc.collect()
            gc.disable()
            start = time.perf_counter()
            run(forgetful)
            taken = time.perf_counter() - start
            gc.enable()
            return taken / EQUATIONS

        return sample

    return sampler


def simplification(library: Library) -> Callable[[Any], Any]:
    """Rules of which one matches at every eighth equation, and one nowhere."""
    lax, jnp = library.lax, library.numpy
    rules = [
        (lambda x: lax.integer_pow(x, 2), lambda x: lax.mul(x, x)),
        (lambda x: jnp.log(jnp.exp(x)), lambda x: x),
    ]
    return library.jaxpr.rewrite(rules)


def everything(library: Library) -> Callable[[Any], Any]:
    """Rules of which one matches at each equation of `nearly`."""
    lax = library.lax
    return library.jaxpr.rewrite(
        [(lambda x: lax.sin(x), lambda x: lax.cos(x)), (lambda x, y: x * y, lambda x, y: x - y)]
    )


def deep_network(library: Library) -> Call:
    """The gradient of a network of 48 layers, written out by Python and rerolled where the library can."""
    rng = np.random.default_rng(0)
    layers = [{"in": matrix(rng, WIDTH, WIDTH), "out": matrix(rng, WIDTH, WIDTH)} for _ in range(LAYERS)]
    x = rng.normal(size=(16, WIDTH)).astype(np.float32)
    scale = next_factor()

    def loss(layers, x):
        for layer in layers:
            x = x + library.nn.gelu(normalize(library, {}, "", x) @ layer["in"]) @ layer["out"]
        return scale * (x**2).mean()

    step = library.jit(library.grad(getattr(library, "reroll", lambda fun: fun)(loss)))
    return lambda: step(layers, x)


PASSES: dict[str, Callable[[Library], Callable[[Any], Any]]] = {
    "dce": lambda library: library.jaxpr.dce,
    "cse": lambda library: library.jaxpr.cse,
    "fold_constants": lambda library: library.jaxpr.fold_constants,
    "inline_calls": lambda library: library.jaxpr.inline_calls,
    "partial_eval": lambda library: lambda closed: library.jaxpr.partial_eval(closed, [False, True]),
    "reroll": lambda library: library.jaxpr.reroll,
    "rewrite": simplification,
}

CASES = [
    *(
        Case(f"{name}, by the equation of {what}", by_equation(program, make), with_jax=False)
        for what, program in {"a chain": chain, "nearly one": nearly, "calls": calls, "functions": functions}.items()
        for name, make in PASSES.items()
    ),
    Case("rewrite of each equation of nearly one", by_equation(nearly, everything), with_jax=False),
    Case(f"gradient of {LAYERS} layers, rerolled, first call", cold(deep_network), target=2),
]
