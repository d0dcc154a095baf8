"""Random programs for several devices, written once for both libraries: nests of shard_map, pmap, jit, loops and grad.

A program is a list of steps from an array to an array of the same shape. `Program(seed)` chooses them; the choices are
made before anything is computed, so that both libraries run the same.
"""

import random

import numpy as np

SIZES = {"x": 4, "y": 2}


class Program:
    """`function(library, mesh, spec)` takes x f32[8,8] and w f32[8] to a pytree of arrays."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.kind = self.random.choice(["shard_map", "shard_map", "pmap", "jit", "some axes"])
        self.checked = self.random.random() < 0.6
        self.axes = {"pmap": ["i"], "jit": [], "some axes": ["x"]}.get(self.kind, ["x", "y"])
        self.steps = [self.step(2) for _ in range(self.random.randint(2, 4))]
        self.outside = self.random.choice(["", "jit", "grad", "vmap", "jvp", "loop"])
        self.spec = self.random.choice([("x", "y"), ("y", "x"), (("x", "y"), None), (None, ("y", "x")), ("x", None)])
        self.spec_of_w = self.random.choice([(), ("x",), ("y",)])

    def __repr__(self) -> str:
        return f"{self.outside or 'eager'} {self.kind} {self.spec} {self.spec_of_w} checked={self.checked} {self.steps}"

    # -- Choices

    def step(self, depth: int):
        """A name, an axis, and the steps inside."""
        local = ["sine", "scale", "product", "grad", "jit", "rows", "loop", "branch"]
        between = ["normalize", "centre", "turn", "gather", "scatter", "exchange", "position", "summed grad", "all"]
        name = self.random.choice(local + (between * 2 if self.axes else []))
        axis = self.random.choice(self.axes) if self.axes else None
        inner = [self.step(depth - 1)] if depth and name in ("jit", "loop", "branch", "grad", "rows") else []
        return (name, axis, inner)

    # -- The function

    def function(self, L, mesh, S, named):
        body = self.body(L)
        if self.kind == "pmap":
            run = L.pmap(body, axis_name="i", in_axes=(0, None))
        elif self.kind == "jit":
            sharding = named(mesh, S(*self.spec))

            def constrained(x, w):
                return L.lax.with_sharding_constraint(body(L.lax.with_sharding_constraint(x, sharding), w), sharding)

            run = L.jit(constrained)
        elif self.kind == "some axes":
            run = L.jit(
                L.shard_map(
                    body, mesh=mesh, in_specs=(S("x"), S()), out_specs=S("x"), axis_names={"x"}, check_vma=self.checked
                )
            )
        else:
            run = L.shard_map(
                lambda x, w: body(x, w.sum() + w[:1]), mesh=mesh, in_specs=(S(*self.spec), S(*self.spec_of_w)),
                out_specs=S(*self.spec), check_vma=self.checked,
            )  # fmt: skip
        return self.wrapped(L, run)

    def wrapped(self, L, run):
        def loss(x, w):
            return L.numpy.sum(L.numpy.cos(run(x, w)))

        if self.outside == "jit":
            return L.jit(run)
        if self.outside == "grad":
            return L.jit(L.grad(loss, (0, 1)))
        if self.outside == "vmap":
            return L.jit(lambda x, w: L.vmap(run, (0, None))(L.numpy.stack([x, x + 1]), w))
        if self.outside == "jvp":
            return L.jit(lambda x, w: L.jvp(run, (x, w), (x, w)))
        if self.outside == "loop":
            return L.jit(lambda x, w: L.lax.fori_loop(0, 2, lambda i, c: 0.5 * run(c, w), x))
        return run

    def body(self, L):
        def run(x, w):
            for step in self.steps:
                x = self.take(L, step, x, w)
            return x

        return run

    def take(self, L, step, x, w):
        name, axis, inner = step
        jnp, lax = L.numpy, L.lax
        size = {**SIZES, "i": 8}.get(axis, 1)

        def rest(x):
            for each in inner:
                x = self.take(L, each, x, w)
            return x

        if name == "sine":
            return jnp.sin(x) + 0.1 * x
        if name == "scale":
            return x * w.sum() * 0.1
        if name == "product":
            return jnp.tanh(x @ (x.T @ x) * 0.1) if x.ndim == 2 else jnp.tanh(x * jnp.dot(x, x) * 0.1)
        if name == "grad":
            return x + L.grad(lambda v: jnp.sum(jnp.sin(rest(v)) * 0.3))(x)
        if name == "jit":
            return L.jit(lambda v: rest(v) * 0.9)(x)
        if name == "rows":
            return L.vmap(rest)(x) if x.ndim == 2 else rest(x)
        if name == "loop":
            return lax.scan(lambda c, k: (0.5 * (c + rest(c)) + k, None), x, jnp.arange(2.0))[0]
        if name == "branch":
            agreed = lax.psum(w.sum(), tuple(self.axes)) if self.axes else w.sum()
            return lax.cond(agreed > 0, rest, lambda v: v * 1.0, x)
        if name == "normalize":
            return x / (1 + lax.psum(x * x, axis))
        if name == "centre":
            return x - lax.pmean(x, axis)
        if name == "turn":
            return x + lax.ppermute(x, axis, [(i, (i + 1) % size) for i in range(size)])
        if name == "gather":
            return lax.all_gather(x, axis).mean(0) + x
        if name == "scatter":
            return lax.psum_scatter(jnp.concatenate([x] * size), axis, tiled=True) * 0.1 + x
        if name == "exchange":
            return lax.all_to_all(jnp.stack([x * (i + 1) for i in range(size)]), axis, 0, 0).sum(0) * 0.1
        if name == "position":
            return x + 0.1 * lax.axis_index(axis)
        if name == "summed grad":
            return x * L.grad(lambda s: lax.pmean(jnp.sum(jnp.sin(x * s)), axis))(w.sum() * 0.1)
        return x * 0.9 + lax.psum(x.sum(), tuple(self.axes)) * 0.01


def operands():
    values = np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32)
    return values[:8], values[8]
