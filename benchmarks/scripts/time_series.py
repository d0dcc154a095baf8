"""Series in time: filters of hidden states, volatility, and prices of options."""

from typing import Any, NamedTuple

from benchmarks.case import Library


class Gaussian(NamedTuple):
    mean: Any
    covariance: Any


def kalman_filter(library: Library):
    """The track of a moving object from noisy positions: filter, smoother, and the gradient of the likelihood."""
    jnp, random, lax = library.numpy, library.random, library.lax
    moves = jnp.array([[1.0, 0.1], [0.0, 1.0]])
    sees = jnp.array([[1.0, 0.0]])
    keys = random.split(random.key(10), 2)
    velocity = jnp.cumsum(0.1 * random.normal(keys[0], (60,)))
    observed = jnp.cumsum(0.1 * velocity)[:, None] + 0.3 * random.normal(keys[1], (60, 1))

    def filtered(log_noise):
        q, r = jnp.diag(jnp.exp(log_noise[:2])), jnp.exp(log_noise[2:])[:, None]

        def step(state, y):
            mean, covariance = moves @ state.mean, moves @ state.covariance @ moves.T + q
            error = y - sees @ mean
            s = sees @ covariance @ sees.T + r
            gain = jnp.linalg.solve(s, sees @ covariance).T
            likelihood = -0.5 * (error @ jnp.linalg.solve(s, error) + jnp.linalg.slogdet(2 * jnp.pi * s)[1])
            updated = Gaussian(mean + gain @ error, (jnp.eye(2) - gain @ sees) @ covariance)
            return updated, (updated, Gaussian(mean, covariance), likelihood)

        return lax.scan(step, Gaussian(jnp.zeros(2), jnp.eye(2)), observed)[1]

    def back(later, states):
        now, predicted = states
        gain = now.covariance @ moves.T @ jnp.linalg.inv(predicted.covariance)
        mean = now.mean + gain @ (later.mean - predicted.mean)
        smooth = Gaussian(mean, now.covariance + gain @ (later.covariance - predicted.covariance) @ gain.T)
        return smooth, smooth

    log_noise = jnp.array([-5.0, -4.0, -2.0])
    gradient = library.jit(library.grad(lambda p: filtered(p)[2].sum()))(log_noise)
    states, predicted, likelihoods = library.jit(filtered)(log_noise)
    last = library.tree.map(lambda a: a[-1], states)
    earlier = library.tree.map(lambda a: a[:-1], states), library.tree.map(lambda a: a[1:], predicted)
    _, smoothed = lax.scan(back, last, earlier, reverse=True)
    error = jnp.sqrt(jnp.mean((smoothed.mean[:, 1] - velocity[:-1]) ** 2))
    return gradient, likelihoods.sum(), states.mean, smoothed.mean, error


def hidden_markov_model(library: Library):
    """Weather from what was observed: the forward algorithm, its gradient, and the likeliest path."""
    jnp, random, lax = library.numpy, library.random, library.lax
    logsumexp = library.scipy.special.logsumexp
    transitions = jnp.array([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    emissions = library.nn.softmax(2 * random.normal(random.key(11), (3, 4)), axis=-1)
    initial = jnp.full(3, 1 / 3)

    def simulate(state, key):
        next_key, emit_key = random.split(key)
        symbol = random.categorical(emit_key, jnp.log(emissions[state]))
        return random.categorical(next_key, jnp.log(transitions[state])), (state, symbol)

    _, (hidden, symbols) = lax.scan(simulate, jnp.array(0), random.split(random.key(12), 50))

    def likelihood(log_transitions, log_emissions):
        def step(alpha, symbol):
            alpha = logsumexp(alpha[:, None] + log_transitions, axis=0) + log_emissions[:, symbol]
            return alpha, alpha

        first = jnp.log(initial) + log_emissions[:, symbols[0]]
        alpha, alphas = lax.scan(step, first, symbols[1:])
        return logsumexp(alpha), alphas

    logs = jnp.log(transitions), jnp.log(emissions)
    (total, alphas), counts = library.value_and_grad(likelihood, argnums=(0, 1), has_aux=True)(*logs)

    def viterbi(score, symbol):
        candidates = score[:, None] + logs[0]
        return candidates.max(axis=0) + logs[1][:, symbol], candidates.argmax(axis=0)

    first = jnp.log(initial) + logs[1][:, symbols[0]]
    score, pointers = lax.scan(viterbi, first, symbols[1:])
    last = jnp.argmax(score)
    _, path = lax.scan(lambda state, pointer: (pointer[state], pointer[state]), last, pointers, reverse=True)
    path = jnp.append(path, last)
    return symbols, total, library.nn.softmax(alphas, axis=1)[-5:], counts, path, jnp.mean(path == hidden)


def volatility(library: Library):
    """Returns with changing variance: autocorrelations, an AR(2) fit, and GARCH by maximum likelihood."""
    jnp, random, lax = library.numpy, library.random, library.lax

    def garch(variance, shock, params):
        omega, alpha, beta = params
        return omega + alpha * shock**2 + beta * variance

    def simulate(variance, noise):
        shock = jnp.sqrt(variance) * noise
        return garch(variance, shock, (0.1, 0.2, 0.7)), shock

    _, returns = lax.scan(simulate, 1.0, random.t(random.key(13), 8.0, (300,)))
    centered = returns - jnp.mean(returns)
    correlations = jnp.array([jnp.dot(centered[k:] ** 2, centered[: 300 - k] ** 2) for k in (1, 2, 5)])
    correlations /= jnp.sum(centered**4)

    design = jnp.column_stack([returns[1:-1], returns[:-2], jnp.ones(298)])
    coefficients, _, rank, _ = jnp.linalg.lstsq(design, returns[2:])

    def loss(raw):
        params = library.nn.softplus(raw[0]), library.nn.sigmoid(raw[1]) / 2, library.nn.sigmoid(raw[2])
        _, variances = lax.scan(lambda v, r: (garch(v, r, params), v), jnp.var(returns), returns)
        return 0.5 * jnp.mean(jnp.log(variances) + returns**2 / variances)

    @library.jit
    def step(raw, _):
        value, gradient = library.value_and_grad(loss)(raw)
        return raw - 0.3 * gradient / (1e-3 + jnp.linalg.norm(gradient)), value

    raw, losses = lax.scan(step, jnp.zeros(3), None, length=10)
    rolling = jnp.convolve(returns**2, jnp.ones(20) / 20, mode="valid")
    worst = jnp.quantile(returns, jnp.array([0.01, 0.05]))
    drawdown = jnp.max(lax.cummax(jnp.cumsum(returns)) - jnp.cumsum(returns))
    return correlations, coefficients, rank, raw, losses, rolling[::20], worst, drawdown


def option_pricing(library: Library):
    """Black-Scholes prices, Greeks and implied volatility, and Monte Carlo with importance sampling."""
    jnp, random, lax = library.numpy, library.random, library.lax
    cdf = library.scipy.stats.norm.cdf

    def call(spot, strike, rate, sigma, time):
        d1 = (jnp.log(spot / strike) + (rate + sigma**2 / 2) * time) / (sigma * jnp.sqrt(time))
        return spot * cdf(d1) - strike * jnp.exp(-rate * time) * cdf(d1 - sigma * jnp.sqrt(time))

    strikes = jnp.linspace(80.0, 120.0, 9)
    prices = library.vmap(call, in_axes=(None, 0, None, None, None))(100.0, strikes, 0.03, 0.2, 0.5)
    greeks = library.grad(call, argnums=(0, 3, 4))(100.0, 110.0, 0.03, 0.2, 0.5)
    gamma = library.grad(library.grad(call))(100.0, 110.0, 0.03, 0.2, 0.5)

    @library.jit
    @library.vmap
    def implied(price, strike):
        def bisect(_, bounds):
            low, high = bounds
            middle = (low + high) / 2
            above = call(100.0, strike, 0.03, middle, 0.5) > price
            return jnp.where(above, low, middle), jnp.where(above, middle, high)

        return lax.fori_loop(0, 20, bisect, (0.01, 1.0))[0]

    normals = random.normal(random.key(14), (2000, 20))
    steps = (0.03 - 0.02) * 0.025 + 0.2 * jnp.sqrt(0.025) * normals
    paths = 100 * jnp.exp(jnp.cumsum(steps, axis=1))
    asian = jnp.exp(-0.015) * jnp.maximum(paths.mean(axis=1) - 100, 0)
    barrier = jnp.where(jnp.any(paths > 115, axis=1), 0.0, jnp.maximum(paths[:, -1] - 100, 0))

    shifted = normals[:, 0] + 2.5
    weights = jnp.exp(-2.5 * shifted + 2.5**2 / 2)
    final = 100 * jnp.exp(0.005 + 0.2 * jnp.sqrt(0.5) * shifted)
    payoff = weights * jnp.maximum(final - 140, 0)
    error = jnp.std(payoff) / jnp.sqrt(len(payoff))
    return prices, greeks, gamma, implied(prices, strikes), asian.mean(), barrier.mean(), payoff.mean(), error


SCRIPTS = [kalman_filter, hidden_markov_model, volatility, option_pricing]
