"""Random draws, and Markov chains."""

from typing import Any, NamedTuple

from benchmarks.case import Library


def draws(library: Library):
    """Samples of many distributions."""
    random = library.random
    keys = random.split(random.key(0), 16)
    return [
        random.normal(keys[0], (100, 3)),
        random.uniform(keys[1], (1000,)),
        random.randint(keys[2], (50,), 0, 10),
        random.bernoulli(keys[3], 0.3, (100,)),
        random.gamma(keys[4], 2.0, (100,)),
        random.beta(keys[5], 2.0, 3.0, (100,)),
        random.poisson(keys[6], 4.0, (100,)),
        random.exponential(keys[7], (100,)),
        random.categorical(keys[8], library.numpy.zeros((10, 5))),
        random.permutation(keys[9], 100),
        random.choice(keys[10], 100, (20,), replace=False),
        random.dirichlet(keys[11], library.numpy.ones(4), (10,)),
        random.laplace(keys[12], (100,)),
        random.t(keys[13], 5.0, (100,)),
        random.truncated_normal(keys[14], -1.0, 1.0, (100,)),
        random.multivariate_normal(keys[15], library.numpy.zeros(3), library.numpy.eye(3), (20,)),
    ]


def sampler(library: Library):
    """Metropolis sampling of a posterior, with summaries."""
    jnp, random, lax = library.numpy, library.random, library.lax
    data = 1.5 + 0.3 * random.normal(random.key(2), (50,))

    def log_posterior(theta):
        mean, log_scale = theta
        z = (data - mean) / jnp.exp(log_scale)
        return jnp.sum(-0.5 * z * z - log_scale) - 0.5 * mean**2 - 0.5 * log_scale**2

    def step(state, key):
        theta, value = state
        move, accept = random.split(key)
        proposal = theta + 0.1 * random.normal(move, (2,))
        proposed = log_posterior(proposal)
        taken = jnp.log(random.uniform(accept)) < proposed - value
        theta = jnp.where(taken, proposal, theta)
        return (theta, jnp.where(taken, proposed, value)), (theta, taken)

    @library.jit
    def run(key):
        start = jnp.zeros(2)
        return lax.scan(step, (start, log_posterior(start)), random.split(key, 300))[1]

    thetas, taken = run(random.key(3))
    late = thetas[100:]
    return jnp.mean(late, axis=0), jnp.std(late, axis=0), jnp.mean(taken), jnp.quantile(late, 0.9, axis=0)


class Trajectory(NamedTuple):
    position: Any
    momentum: Any


def hamiltonian_monte_carlo(library: Library):
    """Schools' effects from four chains with their diagnostics, and Langevin dynamics in a double well."""
    jnp, random, lax = library.numpy, library.random, library.lax
    stats = library.scipy.stats
    effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def log_density(q):
        mean, log_scale, z = q[0], q[1], q[2:]
        prior = stats.norm.logpdf(mean, 0, 10) + stats.cauchy.logpdf(jnp.exp(log_scale), 0, 5) + log_scale
        theta = mean + jnp.exp(log_scale) * z
        return prior + stats.norm.logpdf(z).sum() + stats.norm.logpdf(effects, theta, errors).sum()

    gradient = library.grad(log_density)

    def leapfrog(t, _):
        momentum = t.momentum + 0.05 * gradient(t.position)
        position = t.position + 0.1 * momentum
        return Trajectory(position, momentum + 0.05 * gradient(position)), None

    def transition(position, key):
        key_momentum, key_accept = random.split(key)
        start = Trajectory(position, random.normal(key_momentum, position.shape))
        end, _ = lax.scan(leapfrog, start, None, length=5)
        energy = [log_density(t.position) - 0.5 * jnp.sum(t.momentum**2) for t in (start, end)]
        probability = jnp.minimum(1.0, jnp.exp(energy[1] - energy[0]))
        accepted = random.uniform(key_accept) < probability
        position = jnp.where(accepted, end.position, position)
        return position, (position, probability)

    keys = random.split(random.key(28), (4, 60))
    run = library.jit(library.vmap(lambda q, keys: lax.scan(transition, q, keys)[1]))
    positions, probabilities = run(jnp.zeros((4, 10)), keys)
    late = positions[:, 30:, :2]
    within, between = late.var(axis=1, ddof=1).mean(axis=0), late.mean(axis=1).var(axis=0, ddof=1)
    r_hat = jnp.sqrt((within * 29 / 30 + between) / within)

    def langevin(x, noise):
        x = x - 0.01 * 4 * x * (x**2 - 1) + jnp.sqrt(2 * 0.01 * 0.3) * noise
        return x, x

    _, path = lax.scan(langevin, jnp.array([-1.0, 1.0]), random.normal(random.key(29), (300, 2)))
    crossings = jnp.sum(jnp.diff(jnp.sign(path), axis=0) != 0, axis=0)
    counts, edges = jnp.histogram(path, bins=12, range=(-2, 2), density=True)
    return positions[:, 9].mean(axis=0), probabilities[:, :10].mean(), r_hat > 0, crossings, counts, edges


def ising_model(library: Library):
    """Spins on a grid by checkerboard updates at some temperatures, and Conway's Game of Life."""
    jnp, random, lax = library.numpy, library.random, library.lax
    n = 16
    checkerboard = jnp.indices((n, n)).sum(axis=0) % 2 == 0

    def neighbors(grid):
        return sum(jnp.roll(grid, shift, axis) for shift in (-1, 1) for axis in (0, 1))

    def half(spins, key, mask, beta):
        change = 2 * spins * neighbors(spins)
        flip = (random.uniform(key, spins.shape) < jnp.exp(-beta * change)) & mask
        return jnp.where(flip, -spins, spins)

    @library.jit
    def simulate(key, beta):
        def sweep(spins, key):
            even, odd = random.split(key)
            spins = half(half(spins, even, checkerboard, beta), odd, ~checkerboard, beta)
            return spins, (jnp.abs(spins.mean()), -(spins * neighbors(spins)).mean() / 2)

        start_key, key = random.split(key)
        start = random.choice(start_key, jnp.array([-1, 1]), (n, n))
        return lax.scan(sweep, start, random.split(key, 40))

    betas = jnp.array([0.2, 0.44, 0.8])
    _, (magnetization, energy) = library.vmap(simulate, (None, 0))(random.key(30), betas)
    heat = betas**2 * energy[:, 20:].var(axis=1) * n**2

    def generation(grid, _):
        counts = sum(jnp.roll(grid, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        grid = jnp.where((counts == 3) | ((counts == 2) & (grid == 1)), 1, 0).astype(jnp.int8)
        return grid, grid.sum()

    glider = jnp.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=jnp.int8)
    world = jnp.zeros((20, 20), jnp.int8).at[1:4, 1:4].set(glider)
    world = lax.dynamic_update_slice(world, jnp.rot90(glider), (10, 12))
    final, alive = lax.scan(generation, world, None, length=24)
    rows, columns = jnp.nonzero(final, size=12, fill_value=-1)
    return magnetization[:, ::10], energy[:, -1], heat, alive, rows, columns


SCRIPTS = [draws, sampler, hamiltonian_monte_carlo, ising_model]
