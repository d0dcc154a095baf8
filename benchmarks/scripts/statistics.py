"""Statistics: regressions, resampling, mixtures, survival times, and what is learned without labels."""

from benchmarks.case import Library


def ridge_regression(library: Library):
    """Polynomial features, and the penalty with the least error in cross-validation."""
    jnp, random = library.numpy, library.random
    noise, order = random.split(random.PRNGKey(0))
    x = jnp.linspace(-1, 1, 60)
    y = jnp.sin(3 * x) + 0.2 * random.normal(noise, x.shape)
    features = jnp.stack([x**k for k in range(8)], axis=-1)
    folds = random.permutation(order, 60).reshape(5, 12)
    penalties = jnp.logspace(-4, 1, 6)

    def fit(penalty, features, y, weight):
        gram = jnp.einsum("n,ni,nj->ij", weight, features, features)
        return jnp.linalg.solve(gram + penalty * jnp.eye(8), features.T @ (weight * y))

    def error(penalty, fold):
        held_out = jnp.zeros(60).at[fold].set(1.0)
        residual = features @ fit(penalty, features, y, 1 - held_out) - y
        return jnp.sum(held_out * residual**2) / jnp.sum(held_out)

    errors = library.jit(library.vmap(library.vmap(error, in_axes=(None, 0)), in_axes=(0, None)))(penalties, folds)
    best = penalties[jnp.argmin(errors.mean(axis=1))]
    coefficients = fit(best, features, y, jnp.ones_like(y))
    residual = y - features @ coefficients
    r_squared = 1 - jnp.sum(residual**2) / jnp.sum((y - y.mean()) ** 2)
    return errors, best, features @ coefficients, r_squared


def logistic_regression(library: Library):
    """Newton's method for a classifier, standard errors, and its accuracy."""
    jnp, random = library.numpy, library.random
    keys = random.split(random.key(1), 2)
    x = jnp.concatenate([jnp.ones((120, 1)), random.normal(keys[0], (120, 3))], axis=1)
    true = jnp.array([0.5, 1.0, -2.0, 0.0])
    y = (random.uniform(keys[1], (120,)) < library.nn.sigmoid(x @ true)).astype(jnp.float32)

    def loss(w):
        logits = x @ w
        return jnp.sum(jnp.logaddexp(0.0, logits) - y * logits) + 0.05 * jnp.sum(w**2)

    gradient, hessian = library.jit(library.grad(loss)), library.jit(library.hessian(loss))
    w, losses = jnp.zeros(4), []
    for _ in range(6):
        w = w - jnp.linalg.solve(hessian(w), gradient(w))
        losses.append(loss(w))
    errors = jnp.sqrt(jnp.diag(jnp.linalg.inv(hessian(w))))
    predicted = library.nn.sigmoid(x @ w) > 0.5
    confusion = jnp.zeros((2, 2), jnp.int32).at[y.astype(int), predicted.astype(int)].add(1)
    return w, errors, w / errors, jnp.array(losses), confusion, jnp.mean(predicted == (y == 1))


def bootstrap(library: Library):
    """Confidence intervals by resampling, and a permutation test of two groups."""
    jnp, random = library.numpy, library.random
    key = random.key(2)
    key, *subkeys = random.split(key, 5)
    first = random.gamma(subkeys[0], 2.0, (40,))
    second = random.gamma(subkeys[1], 3.0, (35,))

    def resampled_median(key):
        return jnp.median(random.choice(key, first, first.shape, replace=True))

    medians = library.vmap(resampled_median)(random.split(subkeys[2], 200))
    interval = jnp.percentile(medians, jnp.array([2.5, 97.5]))
    together = jnp.concatenate([first, second])

    @library.jit
    def difference(key):
        shuffled = random.permutation(key, together)
        return shuffled[40:].mean() - shuffled[:40].mean()

    differences = library.lax.map(difference, random.split(subkeys[3], 200))
    observed = second.mean() - first.mean()
    p_value = jnp.mean(jnp.abs(differences) >= jnp.abs(observed))
    excess_kurtosis = jnp.mean(((first - first.mean()) / first.std(ddof=1)) ** 4) - 3
    return medians.std(), interval, observed, p_value, excess_kurtosis, jnp.corrcoef(first[:35], jnp.sort(second))


def survival_analysis(library: Library):
    """Censored Weibull times by maximum likelihood, a Kaplan-Meier curve, and quantiles of the fit."""
    jnp, random = library.numpy, library.random
    special, stats = library.scipy.special, library.scipy.stats
    keys = random.split(random.key(3), 2)
    times = 10 * random.weibull_min(keys[0], 1.0, 1.5, (80,))
    limits = random.uniform(keys[1], (80,), minval=2.0, maxval=20.0)
    observed = times <= limits
    times = jnp.minimum(times, limits)

    def loss(log_params):
        shape, scale = jnp.exp(log_params)
        z = times / scale
        log_hazard = jnp.log(shape / scale) + (shape - 1) * jnp.log(z)
        return -jnp.sum(jnp.where(observed, log_hazard, 0.0) - z**shape)

    @library.jit
    def newton(params):
        gradient, hessian = library.grad(loss)(params), library.hessian(loss)(params)
        return params - jnp.linalg.solve(hessian, gradient)

    params = jnp.array([0.0, jnp.log(times.sum() / observed.sum())])  # an exponential distribution
    for _ in range(6):
        params = newton(params)
    shape, scale = jnp.exp(params)
    order = jnp.argsort(times)
    at_risk = jnp.arange(80, 0, -1)
    curve = jnp.cumprod(jnp.where(observed[order], 1 - 1 / at_risk, 1.0))
    mean = scale * jnp.exp(special.gammaln(1 + 1 / shape))
    median = scale * jnp.log(2.0) ** (1 / shape)
    deaths = observed.sum()
    interval = params + special.ndtri(jnp.array([[0.025], [0.975]])) * jnp.sqrt(1 / deaths)
    binomial = special.betainc(80.0 - deaths, deaths + 1.0, 0.5)
    normal_tail = 0.5 * special.erfc(jnp.abs(deaths - 40) / jnp.sqrt(40.0))
    return shape, scale, curve, mean, median, interval, binomial, normal_tail, stats.gamma.cdf(times[:5], 2.0)


def clusters(library: Library):
    """k-means of the first principal components."""
    jnp, random, lax = library.numpy, library.random, library.lax
    keys = random.split(random.key(4), 3)
    centers = 4 * random.normal(keys[0], (3, 5))
    labels = random.randint(keys[1], (90,), 0, 3)
    x = centers[labels] + random.normal(keys[2], (90, 5))

    centered = x - x.mean(axis=0, keepdims=True)
    _, values, vectors = jnp.linalg.svd(centered, full_matrices=False)
    explained = values**2 / jnp.sum(values**2)
    signs = jnp.sign(vectors[jnp.arange(2), jnp.argmax(jnp.abs(vectors[:2]), axis=1)])
    components = centered @ (vectors[:2] * signs[:, None]).T

    def assign(means):
        squared = jnp.sum((components[:, None, :] - means[None]) ** 2, axis=-1)
        return jnp.argmin(squared, axis=1), jnp.min(squared, axis=1).sum()

    def update(state):
        means, _, i = state
        members = library.nn.one_hot(assign(means)[0], 3)
        counts = jnp.maximum(members.sum(axis=0), 1.0)
        moved = members.T @ components / counts[:, None]
        return moved, jnp.max(jnp.abs(moved - means)), i + 1

    start = components[jnp.array([0, 30, 60])]
    means, _, _ = lax.while_loop(lambda s: (s[1] > 1e-4) & (s[2] < 12), update, (start, jnp.inf, 0))
    found, inertia = assign(means)
    table = jnp.zeros((3, 3), jnp.int32).at[labels, found].add(1)
    return explained, means, inertia, jnp.sort(jnp.bincount(found, length=3)), jnp.max(table, axis=1)


def gaussian_process(library: Library):
    """Regression with a learned kernel: the marginal likelihood, predictions, and draws of the posterior."""
    jnp, random = library.numpy, library.random
    linalg = library.scipy.linalg
    x = jnp.sort(random.uniform(random.key(5), (25,), minval=-3, maxval=3))
    y = jnp.sin(2 * x) + 0.1 * random.normal(random.key(6), (25,))
    params = {"amplitude": 0.0, "length": 0.0, "noise": -2.0}

    def kernel(params, a, b):
        squared = (a[:, None] - b[None, :]) ** 2
        return jnp.exp(params["amplitude"]) * jnp.exp(-0.5 * squared * jnp.exp(-2 * params["length"]))

    def covariance(params):
        return kernel(params, x, x) + (jnp.exp(params["noise"]) + 1e-4) * jnp.eye(len(x))

    @library.jit
    @library.value_and_grad
    def loss(params):
        factor = jnp.linalg.cholesky(covariance(params))
        alpha = linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * alpha @ alpha + jnp.sum(jnp.log(jnp.diagonal(factor))) + 0.5 * len(x) * jnp.log(2 * jnp.pi)

    losses = []
    for _ in range(15):
        value, gradient = loss(params)
        params = library.tree.map(lambda p, g: p - 0.02 * g, params, gradient)
        losses.append(value)

    new = jnp.linspace(-3, 3, 20)
    factor = linalg.cho_factor(covariance(params), lower=True)
    across = kernel(params, new, x)
    mean = across @ linalg.cho_solve(factor, y)
    posterior = kernel(params, new, new) - across @ linalg.cho_solve(factor, across.T)
    deviation = jnp.sqrt(jnp.clip(jnp.diag(posterior), 0))
    root = jnp.linalg.cholesky(posterior + 1e-3 * jnp.eye(20))
    draws = mean + (root @ random.normal(random.key(7), (20, 4))).T
    return jnp.stack(losses), params, mean, deviation, draws.mean(axis=0)


def mixture_model(library: Library):
    """A mixture of Gaussians by expectation and maximization."""
    jnp, random, lax = library.numpy, library.random, library.lax
    stats, logsumexp = library.scipy.stats, library.scipy.special.logsumexp
    keys = random.split(random.key(8), 3)
    which = random.categorical(keys[0], jnp.log(jnp.array([0.3, 0.7])), shape=(150,))
    x = jnp.array([[-2.0, 0.0], [2.0, 1.0]])[which] + random.normal(keys[1], (150, 2))

    def log_joint(weights, means, covariances):
        density = library.vmap(lambda m, c: stats.multivariate_normal.logpdf(x, m, c))(means, covariances)
        return jnp.log(weights)[:, None] + density

    def step(state, _):
        joint = log_joint(*state)
        total = logsumexp(joint, axis=0)
        responsible = jnp.exp(joint - total)
        sizes = responsible.sum(axis=1)
        means = responsible @ x / sizes[:, None]
        centered = x[None] - means[:, None]
        covariances = jnp.einsum("kn,kni,knj->kij", responsible, centered, centered) / sizes[:, None, None]
        return (sizes / 150, means, covariances + 1e-4 * jnp.eye(2)), total.mean()

    start = jnp.ones(2) / 2, random.normal(keys[2], (2, 2)), jnp.broadcast_to(jnp.eye(2), (2, 2, 2))
    state, likelihoods = lax.scan(step, start, length=20)
    assigned = jnp.argmax(log_joint(*state), axis=0)
    order = jnp.argsort(state[1][:, 0])
    agreement = jnp.mean(order[which] == assigned)
    return library.tree.map(lambda a: a[order], state), likelihoods, agreement


SCRIPTS = [
    ridge_regression,
    logistic_regression,
    bootstrap,
    survival_analysis,
    clusters,
    gaussian_process,
    mixture_model,
]
