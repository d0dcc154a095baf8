"""Jaxprs as programs: writing, reading, comparing and saving one of 9000 equations. JAX can only write."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from benchmarks.case import Call, Case, Library, warm

LAYERS = 1000


@cache
def program(library: Library) -> Any:
    """A jaxpr of nine equations a layer, a third of them with parameters or literals."""

    def function(x):
        for _ in range(LAYERS):
            x = library.numpy.sin(x) * 2.0 + x.sum(axis=0) - library.numpy.where(x > 0, x, 1.0)
        return x

    return library.make_jaxpr(function)(np.ones((3, 8), np.float32))


@cache
def text(library: Library) -> str:
    return str(program(library))


@cache
def saved(library: Library) -> str:
    return library.jaxpr.dumps(program(library))


def doing(work: Callable[[Library], Any]) -> Callable[[Library], Callable[[], float]]:
    """Times work whose result is there when it returns."""

    def build(library: Library) -> Call:
        def call() -> None:
            work(library)

        return call

    return warm(build)


CASES = [
    Case("str of 9000 equations", doing(lambda library: str(program(library)))),
    Case("parse of their text", doing(lambda library: library.jaxpr.parse(text(library))), with_jax=False),
    Case("hash", doing(lambda library: library.jaxpr.hash(program(library))), with_jax=False),
    Case("dumps", doing(lambda library: library.jaxpr.dumps(program(library))), with_jax=False),
    Case("loads", doing(lambda library: library.jaxpr.loads(saved(library))), with_jax=False),
]
