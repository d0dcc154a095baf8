"""Jaxprs for the laws of text, equality and saving: of every row of the op table, and of random programs."""

import random

import numpy as np

import xpr
from tests.ops import table
from tests.ops.case import Case
from xpr import lax
from xpr.core import ClosedJaxpr, Jaxpr
from xpr.text.parameters import Hole, build_structure, hole_of, parts_of

ROWS = [row for row in table.ROWS if row.samples]


def jaxprs_of(row):
    """Closed jaxprs in which the row's primitive stands: as it is, and mapped and differentiated where that works."""
    for sample in row.samples:
        case = Case(row, sample)
        yield xpr.make_jaxpr(case)(*case.operands)
    rows = [np.stack([x, x]) for x in case.operands]
    for derived, operands in ((xpr.vmap(case), rows), (tangents(case), case.at(case.active))):
        try:
            yield xpr.make_jaxpr(derived)(*operands)
        except Exception:
            continue  # it has no such rule, which is not what is tested here


def tangents(case):
    return lambda *xs: xpr.jvp(case.of(case.active), xs, xs)


def with_holes(jaxpr):
    """The jaxpr as text holds it: Python functions among the parameters are holes."""
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr.replace(jaxpr=with_holes(jaxpr.jaxpr))
    return jaxpr.replace(eqns=[eqn.replace(params=_holes(eqn.params)) for eqn in jaxpr.eqns])


def _holes(value):
    if isinstance(value, dict):
        return {key: _holes(item) for key, item in value.items()}
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return with_holes(value)
    if type(value) is tuple:
        return tuple(map(_holes, value))
    if (parts := parts_of(value)) is not None:
        return build_structure(type(value), _holes(parts))
    is_object = "<" in repr(hole_of(value)) and xpr.text.printer.parameter_text(value) == repr(hole_of(value))
    return hole_of(value) if is_object and not isinstance(value, Hole) else value


# -- Random programs that can follow one another, for the laws of passes; those of tests/fuzz are of every kind

SHAPES = [(), (3,), (2, 3)]
UNARY = ["sin", "cos", "tanh", "logistic", "neg", "atan", "erf", "square"]
BINARY = ["add", "sub", "mul", "max", "min"]


def random_program(seed):
    """A closed jaxpr from three arrays, of the shapes `SHAPES`, to three such arrays; and arrays for it."""
    generator = np.random.default_rng(seed)
    arrays = [np.asarray(generator.normal(size=shape)) for shape in SHAPES]
    return xpr.make_jaxpr(_steps(seed, 2))(*arrays), arrays


def _steps(seed, depth):
    """A function of three arrays that is the same whenever it is traced."""

    def run(*pool):
        chance, pool = random.Random(seed), list(pool)
        for _ in range(chance.randint(2, 4)):
            i, kind = chance.randrange(3), chance.random()
            if depth and kind < 0.45:
                outs = WITHIN[chance.choice(sorted(WITHIN))](_steps(chance.random(), depth - 1))(*pool)
                pool = [lax.tanh(x) for x in outs]  # or they grow, and the last digit decides everything
            elif kind < 0.7:
                pool[i] = getattr(lax, chance.choice(UNARY))(pool[i])
            elif kind < 0.8:
                pool[i] = lax.mul(pool[i], np.full(SHAPES[i], chance.choice([0.5, -0.75])))
            else:
                other = chance.randrange(3)
                total = lax.reduce_sum(pool[other], tuple(range(pool[other].ndim)))
                pool[i] = getattr(lax, chance.choice(BINARY))(pool[i], lax.broadcast_in_dim(total, SHAPES[i], ()))
        return pool

    return run


def _gradient(f):
    return lambda *xs: list(xpr.grad(lambda *xs: sum(lax.tanh(y).sum() for y in f(*xs)), (0, 1, 2))(*xs))


WITHIN = {
    "jit": xpr.jit,
    "checkpoint": xpr.checkpoint,
    "gradient": _gradient,
    "jvp": lambda f: lambda *xs: xpr.jvp(f, xs, tuple(map(lax.cos, xs)))[1],
    "branch": lambda f: lambda *xs: lax.cond(xs[0] > 0, f, lambda *xs: list(xs), *xs),
    "loop": lambda f: lambda *xs: lax.fori_loop(0, 2, lambda i, c: f(*c), list(xs)),
    "rows": lambda f: lambda *xs: [y[0] for y in xpr.vmap(f)(*[x[None] for x in xs])],
}
