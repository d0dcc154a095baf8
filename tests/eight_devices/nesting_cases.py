"""Nests of shard_map, pmap, jit, loops and derivatives on eight devices, and rules of custom_vjp in them, as in jax."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from tests.ops.table import floats
from tests.peer import beside
from xpr import lax
from xpr.config_contexts import enable_x64
from xpr.sharding import PartitionSpec as P
from xpr.testing import check_grads

X, W, TWO = floats(8, 8), np.arange(8, dtype=np.float32) / 8, np.float32(2)


class Written:
    """What the programs are written with: one of the libraries, and whether shard_map checks what differs."""

    def __init__(self, library, checked=True):
        self.L, self.S, self.checked = library, library.sharding.PartitionSpec, checked
        self.mesh = library.sharding.Mesh(np.array(library.devices()).reshape(4, 2), ("x", "y"))

    def shard_map(self, fun, ins, outs, **options):
        mapped = self.L.shard_map(
            fun, mesh=self.mesh, in_specs=ins, out_specs=outs, **{"check_vma": self.checked, **options}
        )
        return mapped if self.L is xpr else self.L.jit(mapped)  # else jax compiles each of its operations

    def inner(self, fun):
        """A shard_map along y, inside one along x, whose mesh it takes."""
        spec = self.S(None, "y")
        return self.L.shard_map(fun, in_specs=spec, out_specs=spec, axis_names={"y"}, check_vma=self.checked)

    def outer(self, fun):
        return self.L.jit(self.shard_map(fun, self.S("x"), self.S("x"), axis_names={"x"}))

    def loss(self, fun):
        return lambda x: self.L.numpy.sum(self.L.numpy.sin(fun(x)))

    def with_weight(self, fun):
        """A function of a replicated and a sharded argument, with a replicated result."""
        return self.shard_map(fun, (self.S(), self.S("x")), self.S())(TWO, X)


# -- Of a shard_map along one axis inside one along the other


def normalized_and_centred(p):
    lax = p.L.lax
    return p.outer(lambda a: (lambda b: b - lax.pmean(b, "x"))(p.inner(lambda b: b / (1 + lax.psum(b * b, "y")))(a)))


def with_derivatives(p):
    jnp, lax, grad = p.L.numpy, p.L.lax, p.L.grad
    within = p.inner(lambda b: b * grad(lambda s: lax.pmean(jnp.sum(jnp.sin(b * s)), "y"))(1.5))
    return p.outer(lambda a: within(a) * grad(lambda s: lax.psum(jnp.sum(jnp.cos(a * s)), "x"))(0.5))


def moved(p):
    lax = p.L.lax
    within = p.inner(lambda b: b * lax.axis_index("y") + lax.ppermute(b, "y", [(0, 1), (1, 0)]))
    return p.outer(lambda a: lax.all_gather(within(a), "x").sum(0) + a * lax.axis_index("x"))


NESTED = {
    "values": lambda p: normalized_and_centred(p)(X),
    "gradient": lambda p: p.L.jit(p.L.grad(p.loss(normalized_and_centred(p))))(X),
    "derivatives at both levels": lambda p: with_derivatives(p)(X),
    "their gradient": lambda p: p.L.jit(p.L.grad(p.loss(with_derivatives(p))))(X),
    "moves": lambda p: moved(p)(X),
}

# -- One thing after another, and one in another


def chain(p):
    L, S, lax, named = p.L, p.S, p.L.lax, p.L.sharding.NamedSharding

    def run(x):
        x = lax.with_sharding_constraint(L.numpy.sin(x), named(p.mesh, S("y", "x")))
        x = p.shard_map(lambda a: a - lax.pmean(a, ("x", "y")), S("x", "y"), S("x", "y"))(x)
        x = lax.with_sharding_constraint(x @ x.T, named(p.mesh, S(None, ("x", "y"))))
        scattered = p.shard_map(
            lambda a: lax.psum_scatter(a, "y", scatter_dimension=1, tiled=True), S("x"), S("x", "y"), check_vma=False
        )
        return scattered(x) * 2

    return run


def descended(p, loss, axes):
    """A step of gradient descent on every device."""

    def step(params, x):
        gradient = p.L.grad(lambda params: p.L.lax.pmean(loss(params, x), axes))(params)
        return p.L.tree.map(lambda a, g: a - 0.1 * g, params, gradient)

    return step


def data_parallel(p):
    jnp = p.L.numpy
    step = descended(p, lambda w, x: jnp.mean((jnp.tanh(x @ w["w"]) @ w["v"]) ** 2), ("x", "y"))
    return p.shard_map(step, (p.S(), p.S(("x", "y"))), p.S())({"w": X, "v": W}, X)


def model_parallel(p):
    jnp, specs = p.L.numpy, {"w": p.S(None, "y"), "v": p.S("y")}
    step = descended(p, lambda w, x: jnp.mean(p.L.lax.psum(jnp.tanh(x @ w["w"]) @ w["v"], "y") ** 2), "x")
    return p.shard_map(step, (specs, p.S("x")), specs)({"w": X, "v": W}, X)


def of_rows(p):
    L = p.L
    return p.shard_map(
        lambda x, w: L.vmap(L.grad(lambda w, r: L.lax.pmean((r * w).sum() ** 2, "x")), (None, 0))(w, x),
        (p.S("x"), p.S()), p.S(None),
    )(X, W)  # fmt: skip


def rematerialized(p):
    L = p.L

    def loss(w, x):
        row = L.checkpoint(lambda c, r: (L.numpy.tanh(c * w + r.sum()), None))
        return L.lax.scan(row, 0.0 * x[0, 0], x)[0]

    return p.with_weight(lambda w, x: L.grad(lambda w: L.lax.pmean(loss(w, x), "x"))(w))


def squares(p, x, w):
    return p.L.lax.psum((x * w**3).sum(), "x")


MIXED = {
    "a chain": lambda p: p.L.jit(chain(p))(X),
    "its gradient": lambda p: p.L.jit(p.L.grad(p.loss(chain(p))))(X),
    "its second derivative": lambda p: p.L.jit(p.L.jacfwd(p.L.grad(lambda w: p.loss(chain(p))(X * w))))(W),
    "pmap in jit": lambda p: p.L.jit(
        lambda x: p.L.pmap(lambda a: a / p.L.lax.psum(a, "i"), axis_name="i")(p.L.numpy.cos(x)) * 2
    )(X),
    "gradient inside a pmap": lambda p: p.L.pmap(
        lambda a: p.L.grad(lambda a: p.L.numpy.sum(p.L.lax.pmean(a * a, "i")))(a), axis_name="i"
    )(X),
    "in a loop": lambda p: p.L.lax.scan(
        lambda c, k: (p.shard_map(lambda a: a * 0.5 + p.L.lax.pmean(a, "y"), p.S("x", "y"), p.S("x", "y"))(c) * k, c),
        X, p.L.numpy.arange(3.0),
    ),
    "rows": of_rows,
    "rematerialized": rematerialized,
    "data parallel": data_parallel,
    "model parallel": model_parallel,
    "jitted vjp": lambda p: p.with_weight(
        lambda w, x: (lambda y, f: p.L.jit(f)(y)[0])(
            *p.L.jit(lambda w: p.L.vjp(lambda w: p.L.lax.psum(x * w, "x"), w))(w)
        )
    ),
    "linearize": lambda p: p.with_weight(lambda w, x: p.L.linearize(lambda w: squares(p, x, w), w)[1](w)),
    "forward over reverse": lambda p: p.with_weight(
        lambda w, x: p.L.jvp(p.L.grad(lambda w: squares(p, x, w)), (w,), (w,))
    ),
    "reverse over forward": lambda p: p.with_weight(
        lambda w, x: p.L.grad(lambda w: p.L.jvp(lambda w: squares(p, x, w), (w,), (1.0,))[1])(w)
    ),
    "in a branch": lambda p: p.with_weight(
        lambda w, x: p.L.lax.cond(w > 0, p.L.grad(lambda w: squares(p, x, w)), lambda w: w, w)
    ),
    "in a while loop": lambda p: p.with_weight(
        lambda w, x: p.L.lax.while_loop(
            lambda c: c[1] < 3,
            lambda c: (c[0] - 0.01 * p.L.grad(lambda w: squares(p, x, w) / 4)(c[0]), c[1] + 1),
            (w, 0),
        )[0]
    ),
}  # fmt: skip

# -- Rules of custom_vjp, which see replicated values once


def scaled_sine(p):
    jnp, lax = p.L.numpy, p.L.lax

    @p.L.custom_vjp
    def f(x, w):
        return jnp.sin(x) * w

    def back(kept, ct):
        x, w = kept
        return ct * jnp.cos(x) * w, lax.psum((ct * jnp.sin(x)).sum(), "x")

    f.defvjp(lambda x, w: (f(x, w), (x, w)), back)
    return f


def total(p):
    @p.L.custom_vjp
    def f(x):
        return p.L.lax.psum(x, "x")

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (p.L.lax.pcast(ct, "x", to="varying") if p.checked else ct,))
    return f


def copied(p):
    @p.L.custom_vjp
    def f(w):
        return p.L.lax.pcast(w, "x", to="varying") if p.checked else w

    f.defvjp(lambda w: (f(w), None), lambda _, ct: (p.L.lax.psum(ct, "x"),))
    return f


RULES = {
    "inside": lambda p: p.with_weight(
        lambda w, x: p.L.grad(lambda w: p.L.lax.pmean(scaled_sine(p)(x, w).sum(), "x"))(w)
    ),
    "outside": lambda p: p.L.grad(
        lambda w: p.shard_map(lambda w, x: p.L.lax.pmean(scaled_sine(p)(x, w).sum(), "x"), (p.S(), p.S("x")), p.S())(
            w, X
        )
    )(TWO),
    "outside, in parts": lambda p: p.L.grad(
        lambda w: p.shard_map(scaled_sine(p), (p.S("x"), p.S()), p.S("x"))(X, w).sum()
    )(TWO),
    "a sum, inside": lambda p: p.shard_map(
        lambda x: p.L.grad(lambda x: total(p)((x * x).sum()))(x), p.S("x"), p.S("x")
    )(X),
    "a sum, outside": lambda p: p.L.grad(lambda x: p.shard_map(lambda x: total(p)((x * x).sum()), p.S("x"), p.S())(x))(
        X
    ),
    "a copy, inside": lambda p: p.with_weight(lambda w, x: p.L.grad(lambda w: (copied(p)(w) * x).sum())(w)),
    "a copy, outside": lambda p: p.L.grad(
        lambda w: p.shard_map(lambda w, x: p.L.lax.psum((copied(p)(w) * x).sum(), "x"), (p.S(), p.S("x")), p.S())(w, X)
    )(TWO),
}

IN_JAX_ONLY_UNCHECKED = {  # it makes a program that XLA does not take
    "gradient": normalized_and_centred, "their gradient": with_derivatives,
}  # fmt: skip


def as_jax(programs, name, checked):
    ours = programs[name](Written(xpr, checked))
    beside(lambda jax: programs[name](Written(jax, checked)), lambda theirs: close(ours, list(map(np.asarray, theirs))))


@pytest.mark.optimized  # sums are added in another order otherwise
@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("name", NESTED)
def test_nested(name, checked):
    if checked and name in IN_JAX_ONLY_UNCHECKED:
        p = Written(xpr)
        loss = p.loss(IN_JAX_ONLY_UNCHECKED[name](p))
        with enable_x64():
            check_grads(loss, (0.1 * X.astype(np.float64),), order=1)
    else:
        as_jax(NESTED, name, checked)


@pytest.mark.parametrize("name", MIXED)
def test_mixed(name):
    as_jax(MIXED, name, checked=True)


def test_loops_that_end_early():
    """Which jax has not: beside a sum over the parts."""

    def until(w, x):
        return lax.scan(lambda c, v: (c * w + v, c), x[0] * 0, jnp.arange(4.0), until=lambda c, *_: c > 2)[0]

    def growing(w, x):
        return lax.while_loop(lambda c: c[0] < 2.0, lambda c: (c[0] * w + 0.5, c[1] * w), (x[0] * 0, x[1]))[1]

    for fun in (until, growing):
        inside = Written(xpr).with_weight(lambda w, x, f=fun: xpr.grad(lambda w: lax.pmean(f(w, x[:, 0]), "x"))(w))
        parts = [xpr.grad(fun)(TWO, X[2 * i : 2 * i + 2, 0]) for i in range(4)]
        close(inside, np.mean(parts, dtype=np.float32))


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("name", RULES)
def test_rules(name, checked):
    """Unchecked results that devices differ in are of the first device, in jax too."""
    as_jax(RULES, name, checked)


def test_gradients_of_rows_along_an_axis_of_the_mesh():
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    f = xpr.shard_map(lambda x: jnp.sin(x.sum()), mesh=mesh, in_specs=P("y"), out_specs=P(), check_vma=False)
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    rows = xpr.vmap(xpr.grad(f), spmd_axis_name="x")(x)
    np.testing.assert_array_equal(rows, xpr.vmap(xpr.grad(f))(x))
    np.testing.assert_array_equal(xpr.vmap(xpr.jit(xpr.grad(f)), spmd_axis_name="x")(x), rows)
    np.testing.assert_array_equal(xpr.vmap(xpr.grad(xpr.checkpoint(f)), spmd_axis_name="x")(x), rows)
    sums = xpr.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P(), out_specs=P())
    np.testing.assert_array_equal(xpr.vmap(sums, spmd_axis_name="x")(x), 4 * x)
    gathered = xpr.shard_map(lambda x: lax.all_gather(x, "x"), mesh=mesh, in_specs=P(), out_specs=P())
    with pytest.raises(ValueError, match="`all_gather` in the function communicates along .*which would mix rows"):
        xpr.vmap(gathered, spmd_axis_name="x")(x)
