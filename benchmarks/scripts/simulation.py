"""Simulations: ordinary and partial differential equations, and particles."""

from dataclasses import dataclass
from typing import Any

from benchmarks.case import Library, submodule


def loops(library: Library):
    """An integrator, a filter, a root and a branch."""
    jnp, lax = library.numpy, library.lax

    def oscillator(state, _):
        x, v = state
        v = v - 0.01 * (x + 0.1 * x**3)
        return (x + 0.01 * v, v), x

    def newton(x):
        return x - (x * x - 2) / (2 * x)

    @library.jit
    def simulate(x):
        (x, v), trace = lax.scan(oscillator, (x, jnp.zeros_like(x)), None, length=200)
        return x, v, jnp.max(trace)

    @library.jit
    def energy(x):
        x, v, _ = simulate(x)
        return 0.5 * jnp.sum(v * v + x * x)

    start = jnp.array([1.0, 0.5])
    return [
        simulate(start),
        library.grad(energy)(start),
        lax.while_loop(lambda x: jnp.abs(x * x - 2) > 1e-5, newton, jnp.float32(1.0)),
        lax.fori_loop(0, 10, lambda i, x: x + i * jnp.sin(x), start),
        lax.cond(start[0] > 0, jnp.sin, jnp.cos, start),
        lax.scan(lambda c, x: (0.9 * c + 0.1 * x, c), 0.0, jnp.arange(50.0)),
        library.vmap(lambda x: lax.fori_loop(0, 5, lambda _, y: newton(y), x))(jnp.arange(1.0, 9.0)),
    ]


def runge_kutta(library: Library):
    """Predators and prey by Runge and Kutta's method, parameters fitted to data, and adaptive steps."""
    jnp, random, lax = library.numpy, library.random, library.lax
    true = jnp.array([1.0, 0.5, 0.5, 1.5])

    def field(y, t, params):
        a, b, c, d = params
        prey, predators = y
        return jnp.array([a * prey - b * prey * predators, c * prey * predators - d * predators])

    def step(f, y, t, h):
        k1 = f(y, t)
        k2 = f(y + h / 2 * k1, t + h / 2)
        k3 = f(y + h / 2 * k2, t + h / 2)
        k4 = f(y + h * k3, t + h)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    times = jnp.linspace(0.0, 8.0, 81)

    def solve(params):
        def body(y, t):
            y = step(lambda y, t: field(y, t, params), y, t, times[1] - times[0])
            return y, y

        return lax.scan(body, jnp.array([2.0, 1.0]), times[:-1])[1]

    data = solve(true)[9::10] * jnp.exp(0.02 * random.normal(random.key(31), (8, 2)))

    @library.jit
    def loss(params):
        return jnp.mean((jnp.log(solve(params)[9::10]) - jnp.log(data)) ** 2)

    params, losses = jnp.array([0.9, 0.6, 0.4, 1.4]), []
    for _ in range(5):
        value, gradient = library.value_and_grad(loss)(params)
        params = params - 0.05 * gradient
        losses.append(value)

    def adaptive(state):
        y, t, h, count = state
        h = jnp.minimum(h, 4.0 - t)
        whole = step(lambda y, t: jnp.sin(t) * y - y**3, y, t, h)
        halves = step(lambda y, t: jnp.sin(t) * y - y**3, y, t, h / 2)
        halves = step(lambda y, t: jnp.sin(t) * y - y**3, halves, t + h / 2, h / 2)
        error = jnp.abs(whole - halves).max() + 1e-8
        accepted = error < 1e-4
        y, t = jnp.where(accepted, halves, y), jnp.where(accepted, t + h, t)
        return y, t, 0.9 * h * jnp.clip((1e-4 / error) ** 0.2, 0.3, 2.0), count + 1

    end = lax.while_loop(lambda s: (s[1] < 4.0) & (s[3] < 100), adaptive, (jnp.array([1.0]), 0.0, 0.5, 0))
    built_in = submodule(library, "experimental.ode").odeint(field, jnp.array([2.0, 1.0]), times[:20], true)
    sensitivities = library.jit(library.jacfwd(lambda p: solve(p)[-1]))(true)
    return params, jnp.array(losses), end[0], built_in[-1], sensitivities


def heat_equation(library: Library):
    """Heat in a plate by explicit steps, in a rod by implicit ones, and waves by Fourier transforms."""
    jnp, lax = library.numpy, library.lax
    x = jnp.linspace(0, 1, 24)
    xx, yy = jnp.meshgrid(x, x, indexing="ij")
    plate = jnp.exp(-50 * ((xx - 0.3) ** 2 + (yy - 0.6) ** 2))

    def laplacian(u):
        padded = jnp.pad(u, 1, mode="edge")
        return padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * u

    @library.jit
    def diffuse(u, conductivity):
        return lax.fori_loop(0, 50, lambda _, u: u + conductivity * laplacian(u), u)

    final = diffuse(plate, 0.2)
    sensitivity = library.jvp(lambda k: diffuse(plate, k)[12, 12], (0.2,), (1.0,))[1]

    n, r = 30, 0.8
    main, off = jnp.full(n, 1 + 2 * r), jnp.full(n - 1, -r)
    matrix = jnp.diag(main) + jnp.diag(off, 1) + jnp.diag(off, -1)
    factors = library.scipy.linalg.lu_factor(matrix)
    rod = jnp.sin(jnp.pi * jnp.arange(1, n + 1) / (n + 1)) + (jnp.arange(n) > 20)
    for _ in range(5):
        rod = library.scipy.linalg.lu_solve(factors, rod)
    below, above = jnp.append(0.0, off), jnp.append(off, 0.0)
    tridiagonal = lax.linalg.tridiagonal_solve(below, main, above, rod[:, None])[:, 0]

    k = 2 * jnp.pi * jnp.fft.fftfreq(64, d=1 / 64)
    wave = jnp.exp(-100 * (jnp.linspace(0, 1, 64, endpoint=False) - 0.5) ** 2).astype(jnp.complex64)

    phase = jnp.exp(-0.5j * k**2 * 1e-4)

    def propagate(psi, _):
        return jnp.fft.ifft(phase * jnp.fft.fft(psi)), jnp.sum(jnp.abs(psi) ** 2)

    psi, norms = lax.scan(propagate, wave, None, length=20)
    flux = jnp.gradient(final, x, axis=0)
    return final.sum(), final[::6, ::6], sensitivity, tridiagonal, jnp.abs(psi[::8]), norms[::5], jnp.abs(flux).max()


def n_body(library: Library):
    """Planets that attract each other, with their energy and momentum, and particles in a box with neighbors."""
    jnp, random, lax = library.numpy, library.random, library.lax

    @library.tree_util.register_dataclass
    @dataclass
    class System:
        positions: Any
        velocities: Any
        masses: Any

    def potential(positions, masses):
        i, j = jnp.triu_indices(len(masses), k=1)
        distances = jnp.sqrt(jnp.sum((positions[i] - positions[j]) ** 2, axis=-1) + 1e-2)
        return -jnp.sum(masses[i] * masses[j] / distances)

    def energy(system):
        kinetic = 0.5 * jnp.sum(system.masses[:, None] * system.velocities**2)
        return kinetic + potential(system.positions, system.masses)

    def step(system, dt):
        def kick(v, x):
            return v - 0.5 * dt * library.grad(potential)(x, system.masses) / system.masses[:, None]

        v = kick(system.velocities, system.positions)
        x = system.positions + dt * v
        return System(x, kick(v, x), system.masses)

    keys = random.split(random.key(32), 3)
    positions = jnp.concatenate([jnp.zeros((1, 3)), random.normal(keys[0], (4, 3))])
    velocities = jnp.cross(jnp.array([0.0, 0.0, 1.0]), positions) * 0.8
    system = System(positions, velocities, jnp.array([1.0, 0.01, 0.02, 0.01, 0.005]))
    before = energy(system)

    def record(system, _):
        system = step(system, 0.01)
        return system, (system.positions[1], energy(system))

    simulate = library.jit(lambda system: lax.scan(record, system, length=100))

    after, (orbit, energies) = simulate(system)
    drift = jnp.abs(energies - before).max() / jnp.abs(before)
    momentum = jnp.einsum("i,ij->j", after.masses, after.velocities)
    angular = jnp.sum(after.masses[:, None] * jnp.cross(after.positions, after.velocities), axis=0)
    center = jnp.average(after.positions, axis=0, weights=after.masses)

    gas = random.uniform(keys[1], (20, 2))
    apart = gas[:, None] - gas[None]
    apart = apart - jnp.round(apart)
    distances = jnp.linalg.norm(apart, axis=-1) + jnp.diag(jnp.full(20, jnp.inf))
    close = distances < 0.2
    forces = jnp.where(close[..., None], apart / distances[..., None] ** 2, 0).sum(axis=1)
    pairs = jnp.histogram(distances[jnp.triu_indices(20, 1)], bins=8, range=(0.0, 0.8))[0]
    return (
        orbit[::20],
        drift < 0.1,
        momentum,
        angular,
        center,
        close.sum(axis=1),
        forces,
        pairs,
        jnp.argmin(distances, 1),
    )


SCRIPTS = [loops, runge_kutta, heat_equation, n_body]
