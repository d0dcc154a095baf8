"""Eager calls on a small vector and on a million elements, and eager transformations of one line of NumPy."""

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


def norm(library: Library) -> Call:
    return partial(library.numpy.linalg.norm, vector(library))


def gradient(library: Library) -> Call:
    return partial(library.numpy.gradient, vector(library))


def large(library: Library):
    return library.numpy.linspace(-1.0, 1.0, 1_000_000)


def clip(library: Library) -> Call:
    x = large(library)
    return lambda: library.numpy.clip(x, 0.0, 0.5)


def nan_to_num(library: Library) -> Call:
    return partial(library.numpy.nan_to_num, large(library))


def variance(library: Library) -> Call:
    return partial(library.numpy.var, large(library))


def reshape(library: Library) -> Call:
    x = large(library)
    return lambda: x.reshape(1000, 1000)


def plus_row(library: Library) -> Call:
    x = large(library).reshape(1000, 1000)
    return partial(add, x, x[0])


CASES = [
    Case("grad of sum(sin(v) * v)", warm(grad), target=6),
    Case("vmap of sin(v) * v", warm(vmap), target=6),
    Case("jvp of sin(v) * v", warm(jvp), target=4),
    Case("x[1]", warm(index), target=4),
    Case("x.at[0].set(1.0)", warm(update), target=4),
    Case("x + x", warm(plus), target=1 / 1.25),
    Case("linalg.norm(x)", warm(norm), target=1 / 2),
    Case("gradient(x)", warm(gradient), target=1 / 2),
    Case("clip(x, 0.0, 0.5), a million", warm(clip), target=1 / 1.25),
    Case("nan_to_num(x), a million", warm(nan_to_num), target=1 / 1.25),
    Case("var(x), a million", warm(variance), target=1 / 1.25),
    Case("x.reshape(1000, 1000), a million", warm(reshape), target=10),
    Case("x + x[0], 1000 x 1000", warm(plus_row), target=1 / 1.25),
]
