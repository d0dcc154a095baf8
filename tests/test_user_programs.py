"""Programs as users write them, run under xpr and, where it is installed, under jax: all that they give must agree.

Each is a function of the library, which it calls jax.
"""

import itertools
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.peer import agree


def training(jax):
    """A network trained by an optimizer on pytrees."""
    jnp = jax.numpy
    lax = jax.lax

    def adam(rate, b1=0.9, b2=0.99, eps=1e-8):
        """A pair of functions, as optimizers are made of elsewhere: a state from parameters, and a step."""

        def init(params):
            zeros = jax.tree.map(jnp.zeros_like, params)
            return {"count": jnp.zeros((), jnp.int32), "m": zeros, "v": jax.tree.map(jnp.copy, zeros)}

        def update(grads, state, params):
            count = state["count"] + 1
            m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["m"], grads)
            v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g**2, state["v"], grads)
            m_scale, v_scale = 1 / (1 - b1**count), 1 / (1 - b2**count)

            def move(p, m, v):
                return (p - rate(count) * (m * m_scale) / (jnp.sqrt(v * v_scale) + eps)).astype(p.dtype)

            return jax.tree.map(move, params, m, v), {"count": count, "m": m, "v": v}

        return init, update

    def clipped(grads, limit):
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        return jax.tree.map(lambda g: g * jnp.minimum(1.0, limit / norm), grads)

    def network(params, x):
        *hidden, last = params
        for layer in hidden:
            x = jax.nn.gelu(x @ layer["w"] + layer["b"])
        return x @ last["w"] + last["b"]

    def loss(params, x, labels):
        logits = network(params, x)
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, 3), axis=-1))

    key = jax.random.key(0)
    sizes = [5, 16, 16, 3]
    params = [
        {"w": jax.random.normal(jax.random.fold_in(key, i), (n, m)) / jnp.sqrt(n), "b": jnp.zeros(m)}
        for i, (n, m) in enumerate(itertools.pairwise(sizes))
    ]
    x = jax.random.normal(key, (32, 5))
    labels = jnp.argmax(x[:, :3], axis=1)
    init, update = adam(lambda count: 1e-2 * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(count, 50) / 50)))

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params, x, labels)
        params, state = update(clipped(grads, 1.0), state, params)
        return params, state, value

    state, losses = init(params), []
    for _ in range(10):
        params, state, value = step(params, state)
        losses.append(value)

    def body(carry, _):
        params, state, value = step(*carry)
        return (params, state), value

    (params, state), more = lax.scan(body, (params, state), None, length=10)
    vector, unravel = jax.flatten_util.ravel_pytree(params)
    paths = jax.tree_util.tree_flatten_with_path(params)[0]
    shapes = sorted((jax.tree_util.keystr(path), leaf.shape) for path, leaf in paths)
    assert shapes[0] == ("[0]['b']", (16,))
    return jnp.stack(losses), more, params, state, vector.sum(), unravel(2 * vector)


def differential_equations(jax):
    """Runge-Kutta, step sizes chosen on the way, and an adjoint by hand."""
    jnp = jax.numpy
    lax = jax.lax

    def rk4_step(f, t, y, h, *args):
        k1 = f(t, y, *args)
        k2 = f(t + h / 2, jax.tree.map(lambda a, b: a + h / 2 * b, y, k1), *args)
        k3 = f(t + h / 2, jax.tree.map(lambda a, b: a + h / 2 * b, y, k2), *args)
        k4 = f(t + h, jax.tree.map(lambda a, b: a + h * b, y, k3), *args)
        return jax.tree.map(lambda y, a, b, c, d: y + h / 6 * (a + 2 * b + 2 * c + d), y, k1, k2, k3, k4)

    def odeint_fixed(f, y0, ts, *args):
        def step(y, tt):
            t0, t1 = tt
            y1 = rk4_step(f, t0, y, t1 - t0, *args)
            return y1, y1

        _, ys = lax.scan(step, y0, (ts[:-1], ts[1:]))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), y0, ys)

    def adaptive(f, y0, t1, rtol=1e-4, atol=1e-6):
        """Bogacki-Shampine with a while loop."""

        def cond(s):
            t, y, h, n = s
            return (t < t1) & (n < 500)

        def body(s):
            t, y, h, n = s
            h = jnp.minimum(h, t1 - t)
            k1 = f(t, y)
            k2 = f(t + h / 2, y + h / 2 * k1)
            k3 = f(t + 0.75 * h, y + 0.75 * h * k2)
            y3 = y + h * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
            k4 = f(t + h, y3)
            y2 = y + h * (7 / 24 * k1 + 1 / 4 * k2 + 1 / 3 * k3 + 1 / 8 * k4)
            err = jnp.sqrt(jnp.mean(((y3 - y2) / (atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(y3)))) ** 2))
            ok = err <= 1.0
            factor = jnp.clip(0.9 * err ** (-1 / 3), 0.2, 5.0)
            return jnp.where(ok, t + h, t), jnp.where(ok, y3, y), h * factor, n + 1

        return lax.while_loop(cond, body, (0.0, y0, 0.1, 0))

    def lotka(t, y, p):
        a, b, c, d = p
        return {"prey": a * y["prey"] - b * y["prey"] * y["pred"], "pred": d * y["prey"] * y["pred"] - c * y["pred"]}

    @partial(jax.custom_vjp, nondiff_argnums=(0, 3))
    def ode_adjoint(f, theta, y0, n):
        h = 1.0 / n
        return lax.fori_loop(0, n, lambda i, y: y + h * f(theta, y), y0)

    def ode_fwd(f, theta, y0, n):
        y1 = ode_adjoint(f, theta, y0, n)
        return y1, (theta, y1)

    def ode_bwd(f, n, res, g):
        theta, y1 = res
        h = 1.0 / n

        def back(i, s):
            y, a, gt = s
            out, vjp = jax.vjp(f, theta, y)
            dt, dy = vjp(a)
            return y - h * out, a + h * dy, jax.tree.map(lambda u, v: u + h * v, gt, dt)

        _, a, gt = lax.fori_loop(0, n, back, (y1, g, jax.tree.map(jnp.zeros_like, theta)))
        return gt, a

    ode_adjoint.defvjp(ode_fwd, ode_bwd)

    ts = jnp.linspace(0.0, 3.0, 31)
    y0 = {"prey": jnp.float32(1.0), "pred": jnp.float32(0.5)}
    p = (1.5, 1.0, 3.0, 1.0)
    ys = jax.jit(lambda p: odeint_fixed(lotka, y0, ts, p))(p)
    g = jax.grad(lambda p: odeint_fixed(lotka, y0, ts, p)["prey"][-1])(p)
    jac = jax.jacfwd(lambda y: odeint_fixed(lotka, y, ts, p)["pred"][-1])(y0)
    t, y, h, n = jax.jit(lambda y: adaptive(lambda t, y: -y * jnp.cos(t), y, 2.0))(jnp.ones(2))
    vec = jax.vmap(lambda s: adaptive(lambda t, y: -y * s, jnp.ones(2), 1.0)[1:])(jnp.array([0.5, 1.0, 4.0]))
    theta = {"w": jnp.eye(2) * -0.5 + 0.1}
    adj = jax.value_and_grad(lambda th: ode_adjoint(lambda t, y: t["w"] @ y, th, jnp.ones(2), 200).sum())(theta)
    return ys, g, jac, t, y, n, vec, adj


def sampling(jax):
    """Hamiltonian Monte Carlo, Metropolis, and random draws."""
    jnp = jax.numpy
    random = jax.random
    lax = jax.lax

    class State(NamedTuple):
        q: jnp.ndarray
        logp: jnp.ndarray
        key: jax.Array
        accept: int

    def logdensity(q):
        x, y = q["x"], q["y"]
        return -0.5 * (x / 2.0) ** 2 - jnp.sum(0.5 * (y - jnp.tanh(x)) ** 2)

    def leapfrog(q, p, eps, n):
        g = jax.grad(logdensity)

        def body(_, s):
            q, p = s
            p = jax.tree.map(lambda a, b: a + 0.5 * eps * b, p, g(q))
            q = jax.tree.map(lambda a, b: a + eps * b, q, p)
            p = jax.tree.map(lambda a, b: a + 0.5 * eps * b, p, g(q))
            return q, p

        return lax.fori_loop(0, n, body, (q, p))

    def sample_momentum(key, q):
        leaves, treedef = jax.tree.flatten(q)
        keys = random.split(key, len(leaves))
        return jax.tree.unflatten(treedef, [random.normal(k, jnp.shape(leaf)) for k, leaf in zip(keys, leaves)])

    def kernel(state, _):
        key, k1, k2 = random.split(state.key, 3)
        p = sample_momentum(k1, state.q)
        ke = lambda p: 0.5 * sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(p))
        q2, p2 = leapfrog(state.q, p, 0.2, 8)
        logp2 = logdensity(q2)
        log_a = logp2 - ke(p2) - state.logp + ke(p)
        u = random.uniform(k2)
        do = jnp.log(u) < log_a
        q = jax.tree.map(lambda a, b: jnp.where(do, a, b), q2, state.q)
        new = State(q, jnp.where(do, logp2, state.logp), key, state.accept + do)
        return new, new.q

    def run(key, q0):
        init = State(q0, logdensity(q0), key, 0)
        return lax.scan(kernel, init, None, length=40)

    def metropolis(key, n):
        def body(carry, k):
            (x,) = carry
            k1, k2 = random.split(k)
            prop = x + random.normal(k1, x.shape)
            ratio = jnp.exp(-0.5 * (prop**2 - x**2))
            x = jnp.where(random.uniform(k2, x.shape) < ratio, prop, x)
            return (x,), x

        return lax.scan(body, (jnp.zeros(4),), random.split(key, n))[1]

    q0 = {"x": jnp.array(0.5), "y": jnp.array([0.1, -0.3])}
    chains = jax.random.split(random.key(11), 3)
    final, qs = jax.jit(jax.vmap(run, in_axes=(0, None)))(chains, q0)
    acc = final.accept / 40
    m = metropolis(random.PRNGKey(5), 50)
    keys = jnp.stack([random.key(1), random.key(2)])
    k3 = jnp.where(jnp.array([True, False]), keys, random.split(random.key(9), 2))
    cat = random.categorical(random.key(0), jnp.log(jnp.array([0.2, 0.5, 0.3])), shape=(10,))
    perm = random.permutation(random.key(4), 10)
    ch = random.choice(random.key(4), 10, (5,), replace=False)
    return acc, qs, final.logp, random.key_data(final.key), m, random.key_data(keys), random.key_data(k3), cat, perm, ch


class Posterior(NamedTuple):
    mean: Any
    cov: Any
    loglik: Any


def filtering(jax):
    """A Kalman filter, its smoother, and the derivatives of its likelihood."""
    jnp = jax.numpy
    lax = jax.lax

    def inv2(m):
        a, b, c, d = m[0, 0], m[0, 1], m[1, 0], m[1, 1]
        return jnp.array([[d, -b], [-c, a]]) / (a * d - b * c)

    def kalman(F, Q, H, R, ys, m0, P0):
        def step(carry, y):
            m, P = carry
            mp = F @ m
            Pp = F @ P @ F.T + Q
            S = H @ Pp @ H.T + R
            Si = 1.0 / S
            K = Pp @ H.T @ Si
            r = y - H @ mp
            m = mp + K @ r
            P = (jnp.eye(2) - K @ H) @ Pp
            ll = -0.5 * (r @ Si @ r + jnp.log(2 * jnp.pi * S[0, 0]))
            return (m, P), Posterior(m, P, ll)

        return lax.scan(step, (m0, P0), ys)

    def smoother(F, Q, post):
        def back(carry, x):
            ms, Ps = carry
            m, P = x
            Pp = F @ P @ F.T + Q
            G = P @ F.T @ inv2(Pp)
            m = m + G @ (ms - F @ m)
            P = P + G @ (Ps - Pp) @ G.T
            return (m, P), (m, P)

        last = (post.mean[-1], post.cov[-1])
        _, (m, P) = lax.scan(back, last, (post.mean[:-1], post.cov[:-1]), reverse=True)
        return jnp.vstack([m, last[0]]), P

    def associative(F, xs):
        """linear recurrences as an associative scan."""

        def op(a, b):
            (A1, b1), (A2, b2) = a, b
            return A2 @ A1, jnp.einsum("...ij,...j->...i", A2, b1) + b2

        A = jnp.broadcast_to(F, (xs.shape[0], 2, 2))
        return lax.associative_scan(op, (A, xs))[1]

    dt = 0.1
    F = jnp.array([[1, dt], [0, 1]])
    Q = 0.01 * jnp.eye(2)
    H = jnp.array([[1.0, 0.0]])
    R = jnp.array([[0.25]])
    t = jnp.arange(30) * dt
    ys = jnp.sin(t)[:, None] + 0.1 * jnp.cos(17 * t)[:, None]
    (m, P), post = jax.jit(kalman)(F, Q, H, R, ys, jnp.zeros(2), jnp.eye(2))

    def nll(theta):
        return -kalman(
            F, jnp.exp(theta[0]) * jnp.eye(2), H, jnp.exp(theta[1]) * jnp.eye(1), ys, jnp.zeros(2), jnp.eye(2)
        )[1].loglik.sum()

    th = jnp.array([-3.0, -1.0])
    g, hess = jax.grad(nll)(th), jax.hessian(nll)(th)
    return m, P, post, smoother(F, Q, post), g, hess, associative(F * 0.9, jnp.stack([jnp.sin(t), jnp.cos(t)], 1))


def particles(jax):
    """Molecular dynamics with lists of neighbours, and cells."""
    jnp = jax.numpy
    lax = jax.lax
    vmap = jax.vmap
    jit = jax.jit
    grad = jax.grad

    def displacement(a, b, box):
        d = a - b
        return jnp.mod(d + box * 0.5, box) - 0.5 * box

    def pair_energy(r2):
        s = 1.0 / jnp.where(r2 > 0, r2, 1.0)
        s3 = s**3
        return jnp.where((r2 > 0) & (r2 < 6.25), 4 * (s3**2 - s3), 0.0)

    @partial(jit, static_argnames=["max_n"])
    def neighbor_list(x, box, cutoff, max_n):
        d = vmap(vmap(displacement, (None, 0, None)), (0, None, None))(x, x, box)
        r2 = jnp.sum(d**2, -1)
        n = x.shape[0]
        mask = (r2 < cutoff**2) & ~jnp.eye(n, dtype=bool)
        idx = jnp.where(mask, jnp.arange(n)[None, :], n)
        idx = jnp.sort(idx, axis=1)[:, :max_n]
        return idx, jnp.any(mask.sum(1) > max_n), mask.sum(1)

    def energy(x, idx, box):
        n = x.shape[0]
        xp = jnp.concatenate([x, jnp.full((1, x.shape[1]), 1e3)])
        nb = xp[idx]
        d = displacement(x[:, None], nb, box)
        e = jnp.where(idx < n, pair_energy(jnp.sum(d**2, -1)), 0.0)
        return 0.5 * e.sum()

    force = grad(lambda x, i, b: -energy(x, i, b))

    def simulate(x, v, box, steps):
        idx, _, _ = neighbor_list(x, box, 3.0, max_n=12)

        def step(s, i):
            x, v, idx = s
            f = force(x, idx, box)
            v = v + 0.5e-3 * f
            x = jnp.mod(x + 1e-3 * v, box)
            idx = lax.cond(i % 5 == 0, lambda x: neighbor_list(x, box, 3.0, max_n=12)[0], lambda x: idx, x)
            v = v + 0.5e-3 * force(x, idx, box)
            return (x, v, idx), (energy(x, idx, box), 0.5 * (v**2).sum())

        return lax.scan(step, (x, v, idx), jnp.arange(steps))

    def cells(x, box, n):
        h = jnp.floor(x / box * n).astype(jnp.int32)
        cid = h[:, 0] * n + h[:, 1]
        order = jnp.argsort(cid)
        counts = jnp.bincount(cid, length=n * n)
        starts = jnp.cumsum(counts) - counts
        table = jnp.full((n * n, 8), -1).at[cid[order], jnp.arange(len(x)) - starts[cid[order]]].set(order, mode="drop")
        seg = jax.ops.segment_sum(jnp.ones(len(x)), cid, num_segments=n * n)
        segm = jax.ops.segment_max(x[:, 0], cid, n * n)
        return table, counts, seg, segm

    g = np.stack(np.meshgrid(np.arange(5), np.arange(5)), -1).reshape(-1, 2) * 1.2 + 0.3
    x = jnp.asarray(g, dtype=jnp.float32) + 0.02 * jnp.sin(jnp.arange(50.0)).reshape(25, 2)
    v = 0.1 * jnp.cos(jnp.arange(50.0)).reshape(25, 2)
    (xf, vf, idx), (pe, ke) = simulate(x, v, 6.0, 20)
    return (
        xf,
        vf,
        idx,
        pe,
        ke,
        neighbor_list(x, 6.0, 2.0, max_n=3),
        cells(x, 6.0, 3),
        jax.jit(jax.hessian(lambda x: energy(x, idx, 6.0)))(x)[0, 0],
    )


def beam_search(jax):
    """Beam search with a memory."""
    jnp = jax.numpy
    lax = jax.lax

    table = jnp.sin(jnp.arange(49.0) * 1.7).reshape(7, 7)
    width, length, end = 3, 8, 1

    def expand(state):
        i, scores, words, done, memory = state
        last = jax.lax.dynamic_index_in_dim(words, i, axis=1, keepdims=False)
        memory = jax.vmap(lambda m, w: 0.9 * m + jax.nn.one_hot(w, 4))(memory, last)
        logits = table[last] + memory @ jnp.cos(jnp.arange(28.0)).reshape(4, 7)
        stay = jnp.where(jnp.arange(7) == end, 0.0, -jnp.inf)
        steps = jnp.where(done[:, None], stay, jax.nn.log_softmax(logits))
        best, places = lax.top_k((scores[:, None] + steps).ravel(), width)
        parents, chosen = places // 7, places % 7
        words = words[parents].at[:, i + 1].set(chosen)
        return i + 1, best, words, done[parents] | (chosen == end), memory[parents]

    def search(start):
        words = jnp.zeros((width, length), jnp.int32).at[:, 0].set(start)
        scores = jnp.where(jnp.arange(width) == 0, 0.0, -1e9)
        state = (0, scores, words, jnp.zeros(width, bool), jnp.zeros((width, 4)))
        return lax.while_loop(lambda s: (s[0] < length - 1) & ~s[3].all(), expand, state)

    greedy = lax.fori_loop(0, 5, lambda i, s: s.at[i + 1].set(jnp.argmax(table[s[i]])), jnp.zeros(6, int))
    return jax.jit(search)(2), jax.vmap(search)(jnp.arange(4)), greedy


def many_small_things(jax):
    """Statistics, roots, fixed points, Viterbi, cellular automata, sieves, updates."""
    jnp = jax.numpy
    lax = jax.lax

    @jax.tree_util.register_pytree_node_class
    class Welford:
        def __init__(self, n, mean, m2):
            self.n, self.mean, self.m2 = n, mean, m2

        def tree_flatten(self):
            return (self.n, self.mean, self.m2), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children)

        def update(self, x):
            n = self.n + 1
            d = x - self.mean
            mean = self.mean + d / n
            return Welford(n, mean, self.m2 + d * (x - mean))

    def newton(f, x0):
        def cond(s):
            return (jnp.abs(s[1]) > 1e-6) & (s[2] < 50)

        def body(s):
            x, fx, i = s
            g = jax.grad(f)(x)
            x = x - fx / g
            return x, f(x), i + 1

        return lax.while_loop(cond, body, (x0, f(x0), 0))

    def fixed_point(f, a, x0):
        @jax.custom_vjp
        def fp(a):
            return lax.while_loop(lambda s: jnp.abs(s[0] - s[1]) > 1e-6, lambda s: (s[1], f(a, s[1])), (x0, f(a, x0)))[
                1
            ]

        def fwd(a):
            x = fp(a)
            return x, (a, x)

        def bwd(res, g):
            a, x = res
            _, vjp_a = jax.vjp(lambda a: f(a, x), a)
            _, vjp_x = jax.vjp(lambda x: f(a, x), x)
            w = lax.fori_loop(0, 50, lambda i, w: g + vjp_x(w)[0], g)
            return vjp_a(w)

        fp.defvjp(fwd, bwd)
        return fp(a)

    def viterbi(logA, logpi, logB):
        def step(v, lb):
            s = v[:, None] + logA
            return s.max(0) + lb, s.argmax(0)

        v, bp = lax.scan(step, logpi + logB[0], logB[1:])
        last = v.argmax()

        def back(s, b):
            return b[s], b[s]

        _, path = lax.scan(back, last, bp, reverse=True)
        return jnp.append(path, last), v.max()

    def game_of_life(n):
        b = (jnp.arange(64) * 7 % 5 < 2).reshape(8, 8).astype(jnp.int32)

        def step(b, _):
            s = sum(jnp.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - b
            nb = ((s == 3) | ((b == 1) & (s == 2))).astype(b.dtype)
            return nb, nb.sum()

        return lax.scan(step, b, None, n)

    @jax.jit
    def sieve(n=50):
        p = jnp.ones(50, bool).at[:2].set(False)

        def body(i, p):
            return jnp.where(p[i], p & ~((jnp.arange(50) % i == 0) & (jnp.arange(50) > i)), p)

        return lax.fori_loop(2, 8, body, p)

    st = Welford(0, 0.0, 0.0)
    for x in [1.0, 4.0, 2.5]:
        st = st.update(x)
    st2, hist = lax.scan(
        lambda s, x: (s.update(x), s.mean),
        Welford(jnp.int32(0), jnp.float32(0), jnp.float32(0)),
        jnp.array([1.0, 4.0, 2.5]),
    )
    r = jax.jit(lambda x: newton(lambda x: x**2 - 2.0, x))(1.0)
    fpv = jax.value_and_grad(lambda a: fixed_point(lambda a, x: jnp.cos(a * x), a, jnp.float32(0.5)))(0.8)
    lA = jnp.log(jnp.array([[0.7, 0.3], [0.4, 0.6]]))
    lB = jnp.log(jnp.array([[0.5, 0.1], [0.4, 0.3], [0.1, 0.6]]))
    return (
        (st.mean, st.m2),
        jax.tree.leaves(st2),
        hist,
        r,
        fpv,
        viterbi(lA, jnp.log(jnp.array([0.5, 0.5])), lB),
        game_of_life(5),
        sieve(),
    )


def recurrent_network(jax):
    """An LSTM over sequences of different lengths, with gradients for each."""
    jnp = jax.numpy
    random = jax.random
    lax = jax.lax
    vmap = jax.vmap
    jit = jax.jit
    grad = jax.grad

    def lstm_init(key, n_in, n_h):
        k1, k2, k3 = random.split(key, 3)
        glorot = jax.nn.initializers.glorot_uniform()
        return dict(
            wi=glorot(k1, (n_in, 4 * n_h)),
            wh=jax.nn.initializers.lecun_normal()(k2, (n_h, 4 * n_h)),
            b=jnp.zeros((4 * n_h,)),
            wo=glorot(k3, (n_h, 1)),
        )

    def cell(p, carry, x):
        h, c = carry
        z = x @ p["wi"] + h @ p["wh"] + p["b"]
        i, f, g, o = jnp.split(z, 4, axis=-1)
        c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def forward(p, xs, mask):
        B = xs.shape[0]
        H = p["wh"].shape[0]
        init = (jnp.zeros((B, H)), jnp.zeros((B, H)))

        def step(carry, inp):
            x, m = inp
            new, y = cell(p, carry, x)
            new = jax.tree.map(lambda n, o: jnp.where(m[:, None], n, o), new, carry)
            return new, y

        (h, c), ys = lax.scan(step, init, (xs.swapaxes(0, 1), mask.swapaxes(0, 1)), unroll=2)
        return (h @ p["wo"]).squeeze(-1), ys

    @jit
    def loss_fn(p, xs, mask, y):
        pred, _ = forward(p, xs, mask)
        return ((pred - y) ** 2).mean()

    @partial(jit, static_argnames=("lr",), donate_argnums=(0,))
    def update(p, xs, mask, y, *, lr=0.1):
        value, g = jax.value_and_grad(loss_fn)(p, xs, mask, y)
        return jax.tree.map(lambda a, b: a - lr * b, p, g), value

    key = random.PRNGKey(42)
    key, sub = random.split(key)
    xs = random.normal(sub, (4, 10, 3))
    lengths = jnp.array([10, 7, 3, 5])
    mask = jnp.arange(10)[None, :] < lengths[:, None]
    y = (xs.sum(-1) * mask).sum(1) / lengths
    p = lstm_init(key, 3, 8)
    out = []
    for _ in range(5):
        p, value = update(p, xs, mask, y, lr=0.05)
        out.append(value)
    per_example = vmap(grad(lambda p, x, m, t: loss_fn(p, x[None], m[None], t[None])), in_axes=(None, 0, 0, 0))(
        p, xs, mask, y
    )
    bi = jnp.concatenate([forward(p, xs, mask)[1], jnp.flip(forward(p, xs[:, ::-1], mask[:, ::-1])[1], 0)], -1)
    return jnp.array(out), p, per_example, bi


@pytest.mark.parametrize(
    "program, tolerance",
    [
        pytest.param(training, 0.0002, marks=pytest.mark.optimized),
        pytest.param(differential_equations, 0.001, marks=pytest.mark.optimized),
        (sampling, 0.002),
        (filtering, 0.002),
        (particles, 0.005),
        pytest.param(beam_search, 0.0001, marks=pytest.mark.optimized),
        pytest.param(many_small_things, 0.0001, marks=pytest.mark.optimized),
        (recurrent_network, 0.0001),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_program(program, tolerance):
    agree(program, tolerance)
