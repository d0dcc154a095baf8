"""Staging: Python in, jaxpr or StableHLO text out. The function is new at each call, so that no cache can answer."""

from collections.abc import Callable

from benchmarks.case import Call, Case, Library, warm

LENGTH = 1000


def chain(library: Library) -> Callable:
    def function(x):
        for _ in range(LENGTH):
            x = library.numpy.sin(x) * 2 + x
        return x

    return function


def stage(library: Library) -> Call:
    return lambda: library.make_jaxpr(chain(library))(1.0)


def stage_gradient(library: Library) -> Call:
    return lambda: library.make_jaxpr(library.grad(chain(library)))(1.0)


def lower(library: Library) -> Call:
    return lambda: library.jit(chain(library)).lower(1.0).as_text()


CASES = [
    Case("make_jaxpr of a chain of 1000 sin(x)*2+x", warm(stage), target=6),
    Case("make_jaxpr of its gradient", warm(stage_gradient), target=6),
    Case("its staging and lowering to text", warm(lower), target=4),
]
