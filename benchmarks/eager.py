"""Eager calls on a small vector, and eager transformations of one line of NumPy: all Python's own time."""

from functools import partial
from operator import add, getitem

from benchmarks.case import Call, Case, Library, warm


def vector(library: Library):
    return library.numpy.arange(8.0)


def grad(library: Library) -> Call:
    gradient = library.grad(lambda v: library.numpy.sum(library.numpy.sin(v) * v))
    return partial(gradient, vector(library))


def vmap(library: Library) -> Call:
    batched = library.vmap(lambda v: library.numpy.sin(v) * v)
    return partial(batched, vector(library))


def jvp(library: Library) -> Call:
    v = vector(library)
    return partial(library.jvp, lambda v: library.numpy.sin(v) * v, (v,), (v,))


def index(library: Library) -> Call:
    return partial(getitem, vector(library), 1)


def update(library: Library) -> Call:
    v = vector(library)
    return lambda: v.at[0].set(1.0)


def plus(library: Library) -> Call:
    return partial(add, vector(library), vector(library))


CASES = [
    Case("grad of sum(sin(v) * v)", warm(grad), target=6),
    Case("vmap of sin(v) * v", warm(vmap), target=6),
    Case("jvp of sin(v) * v", warm(jvp), target=4),
    Case("x[1]", warm(index), target=4),
    Case("x.at[0].set(1.0)", warm(update), target=4),
    Case("x + x", warm(plus), target=1 / 1.25),
]
