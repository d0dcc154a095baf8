"""Random programs under random nests of transformations give what JAX gives.

A program is a list of steps over a pool of three arrays; a step is an operation, or a transformation of a smaller
program that also reads the pool from outside. It is written once, from a seed, for either library (`lib`): xpr runs it
operation by operation, in NumPy, and compiled; JAX runs it compiled. XPR_COMPOSITIONS=1000 tries that many.
"""

import os
import random

import numpy as np
import pytest

import xpr
from xpr.core import check_jaxpr

jax = pytest.importorskip("jax")

COUNT = int(os.environ.get("XPR_COMPOSITIONS", 40))
SHAPES = [(), (3,), (2, 3)]
UNARY = ["sin", "cos", "tanh", "logistic", "neg", "atan", "erf", "square"]
BINARY = ["add", "sub", "mul", "max", "min"]


class Program:
    """A function of three arrays, of shapes (), (3,) and (2, 3), that gives three arrays of those shapes."""

    def __init__(self, seed, lib, depth=2):
        self.seed, self.lib, self.depth = seed, lib, depth

    def __call__(self, *arrays):
        chance, pool = random.Random(self.seed), list(arrays)
        for _ in range(chance.randint(2, 4)):
            if self.depth and chance.random() < 0.45:
                inner = Program(chance.random(), self.lib, self.depth - 1)
                transform = TRANSFORMS[chance.choice(sorted(TRANSFORMS))]
                outs = transform(self.lib, self.reading(inner, chance.randrange(3), pool))(*pool)
                pool = [self.lib.lax.tanh(x) for x in outs]  # or they grow, and the last digit decides everything
            else:
                i = chance.randrange(3)
                pool[i] = self.operation(chance, pool, arrays, i)
        return pool

    def reading(self, inner, i, pool):
        """The inner program, with one array of the outer one in its closure."""
        outer = pool[i]

        def reads_outer(*xs):
            outs = inner(*xs)
            outs[i] = self.lib.lax.mul(outs[i], outer)
            return outs

        return reads_outer

    def operation(self, chance, pool, arrays, i):
        lax, kind = self.lib.lax, chance.random()
        if kind < 0.3:
            return lax.add(pool[i], reshaped(lax, pool[chance.randrange(3)], SHAPES[i]))
        if kind < 0.6:
            return getattr(lax, chance.choice(UNARY))(pool[i])
        if kind < 0.7:
            return lax.select_n(lax.gt(pool[i], arrays[i]), lax.mul(pool[i], arrays[i]), lax.sin(arrays[i]))
        if kind < 0.8:
            return lax.mul(pool[i], np.full(SHAPES[i], chance.choice([0.5, -0.75])))
        return getattr(lax, chance.choice(BINARY))(pool[i], arrays[i])


def reshaped(lax, x, shape):
    """An array of another shape, made from all entries of `x`."""
    if x.shape == (2, 3) and shape == (3,):
        return lax.reduce_sum(lax.rev(x, (1,)), (0,))
    if x.shape == (3,) and shape == (2, 3):
        return lax.concatenate([lax.reshape(x, (1, 3)), lax.reshape(lax.cos(x), (1, 3))], 0)
    if x.shape == shape:
        return lax.rev(x, (0,)) if shape else lax.sin(x)
    return lax.broadcast_in_dim(lax.sin(lax.reduce_sum(x, tuple(range(len(x.shape))))), shape, ())


# -- Transformations of a program, each again a function of three arrays that gives three


def jitted(lib, f):
    return lib.jit(f)


def pushed(lib, f):
    return lambda *xs: lib.jvp(f, xs, tuple(lib.lax.cos(x) for x in xs))[1]


def pushed_by_one(lib, f):
    def of_one(*xs):
        return lib.jvp(lambda x: f(xs[0], x, xs[2]), (xs[1],), (lib.lax.sin(xs[1]),))[1]

    return of_one


def pulled(lib, f):
    def back(*xs):
        outs, f_vjp = lib.vjp(f, *xs)
        return list(f_vjp([lib.lax.sin(y) for y in outs]))

    return back


def gradient(lib, f):
    def total(*xs):
        lax = lib.lax
        parts = [lax.reduce_sum(lax.tanh(y), tuple(range(len(y.shape)))) for y in f(*xs)]
        return lax.add(parts[0], lax.mul(parts[1], parts[2]))

    return lambda *xs: list(lib.grad(total, (0, 1, 2))(*xs))


def linearized(lib, f):
    def at(*xs):
        _, f_jvp = lib.linearize(f, *xs)
        return f_jvp(*(lib.lax.sin(x) for x in xs))

    return at


def mapped(lib, f):
    """Over rows made of each array, the second one mapped along its last axis, the third not mapped at all."""

    def over_rows(*xs):
        lax = lib.lax
        rows = [lax.concatenate([lax.reshape(x, (1, *x.shape)), lax.reshape(lax.sin(x), (1, *x.shape))], 0) for x in xs]
        outs = lib.vmap(f, (0, 1, None), [0, 1, 0])(rows[0], lax.transpose(rows[1], (1, 0)), xs[2])
        return [lax.reduce_sum(y, (axis,)) for y, axis in zip(outs, (0, 1, 0), strict=True)]

    return over_rows


def mapped_by_closure(lib, f):
    """Only the closure is mapped."""

    def over_scales(*xs):
        scales = np.array([0.5, -1.0, 0.25])
        outs = lib.vmap(lambda s: f(*(lib.lax.mul(x, lib.lax.broadcast_in_dim(s, x.shape, ())) for x in xs)))(scales)
        return [lib.lax.reduce_sum(y, (0,)) for y in outs]

    return over_scales


def staged(lib, f):
    return lambda *xs: lib.eval_staged(f, *xs)


# -- Control flow around a program


def branched(lib, f):
    """The program or something else, which is not always the same under vmap."""

    def either(*xs):
        return lib.lax.cond(
            lib.lax.gt(xs[0], 0.1), lambda *ys: list(f(*ys)), lambda *ys: [lib.lax.sin(y) for y in ys], *xs
        )

    return either


def switched(lib, f):
    def one_of_three(*xs):
        index = lib.lax.convert_element_type(lib.lax.mul(xs[0], np.asarray(2.0)), np.int32)
        others = [lambda *ys: [lib.lax.cos(y) for y in ys], lambda *ys: list(ys)]
        return lib.lax.switch(index, [others[0], lambda *ys: list(f(*ys)), others[1]], *xs)

    return one_of_three


def scanned(lib, f):
    """A loop that carries two of the arrays, over rows made of the third."""

    def loop(*xs):
        lax = lib.lax

        def body(carry, row):
            first, second, third = f(carry[0], carry[1], row)
            return (lax.tanh(first), lax.tanh(second)), (third, carry[0])

        rows = lax.concatenate([lax.reshape(x, (1, 2, 3)) for x in (xs[2], lax.sin(xs[2]), lax.neg(xs[2]))], 0)
        (first, second), (thirds, firsts) = lax.scan(body, (xs[0], xs[1]), rows, reverse=True)
        return [lax.add(first, lax.reduce_sum(firsts, (0,))), second, lax.reduce_sum(thirds, (0,))]

    return loop


def repeated(lib, f):
    """Three times the program, by a loop that doesn't know it."""
    return lambda *xs: lib.repeat(lambda ys: [lib.lax.tanh(y) for y in f(*ys)], list(xs))


def rematerialized(lib, f):
    return lib.checkpoint(lambda *xs: list(f(*xs)))


TRANSFORMS = {
    f.__name__: f
    for f in (
        jitted, pushed, pushed_by_one, pulled, gradient, linearized, mapped, mapped_by_closure, staged,
        branched, switched, scanned, repeated, rematerialized,
    )
}  # fmt: skip


def eval_staged_xpr(f, *xs):
    closed = xpr.make_jaxpr(f)(*xs)
    check_jaxpr(closed)
    return xpr.core.eval_jaxpr(closed.jaxpr, closed.consts, *xs)


def eval_staged_jax(f, *xs):
    closed = jax.make_jaxpr(f)(*xs)
    return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *xs)


def repeat_xpr(f, xs):
    """By a loop whose number of steps depends on its values, which JAX can't differentiate in reverse."""
    limit = xpr.lax.add(2.5, xpr.lax.mul(0.0, xs[0]))
    return xpr.lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] + 1.0, c[1], f(c[2])), (0.0 * limit, limit, xs))[2]


def repeat_jax(f, xs):
    return jax.lax.fori_loop(0, 3, lambda i, xs: f(xs), xs)


class Lib:
    """A library, and what it lacks under one name."""

    def __init__(self, module, eval_staged, repeat):
        self.module, self.eval_staged, self.repeat = module, eval_staged, repeat

    def __getattr__(self, name):
        return getattr(self.module, name)


XPR, JAX = Lib(xpr, eval_staged_xpr, repeat_xpr), Lib(jax, eval_staged_jax, repeat_jax)


@pytest.mark.parametrize("seed", range(COUNT))
def test_programs_agree_with_jax(seed):
    generator = np.random.default_rng(seed)
    arrays = [np.asarray(generator.normal(size=shape)) for shape in SHAPES]
    with jax.enable_x64(True), xpr.enable_x64(True):
        expected = [np.asarray(y) for y in jax.jit(Program(seed, JAX))(*arrays)]
        ours = Program(seed, XPR)
        closed = xpr.make_jaxpr(ours)(*arrays)
        check_jaxpr(closed)
        ways = {
            "eager": ours(*arrays),
            "in NumPy": xpr.jit(ours, backend="reference")(*arrays),
            "compiled": xpr.jit(ours)(*arrays),
        }
    scale = max(1.0, *(float(np.max(np.abs(y))) for y in expected))
    for way, outs in ways.items():
        for x, y in zip(outs, expected, strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=1e-8, atol=1e-10 * scale, err_msg=way)
