"""First runs of short scripts, as users write them: nearly all of it is compiling small programs.

Each is timed with the library's caches empty: the second time, when Python's modules are loaded.
"""

from collections.abc import Callable

from benchmarks.case import Call, Case, Library, cold


def eager_numpy(library: Library):
    """A table of numbers, standardized, masked and summarized, outside of `jit`."""
    jnp = library.numpy
    x = jnp.linspace(-3.0, 3.0, 600).reshape(100, 6)
    y = jnp.sin(x) + 0.1 * jnp.exp(-(x**2))
    z = (y - jnp.mean(y, axis=0)) / (jnp.std(y, axis=0) + 1e-6)
    covariance = z.T @ z / len(z)
    kept = jnp.where(jnp.abs(z) > 1.5, 0.0, z)
    order = jnp.argsort(jnp.linalg.norm(kept, axis=1))
    weights = jnp.exp(-jnp.arange(6) / 2.0)
    scores = jnp.einsum("ij,j->i", kept[order], weights / jnp.sum(weights))
    folded = jnp.concatenate([scores[:50], jnp.flip(scores[50:])]).reshape(2, 50)
    quantiles = jnp.percentile(scores, jnp.array([5.0, 50.0, 95.0]))
    angles = jnp.arctan2(folded[0], folded[1])
    counts = jnp.histogram(angles, bins=10)[0]
    summary = jnp.median(angles), jnp.var(angles), jnp.trace(covariance)
    return jnp.cumsum(folded, axis=1), covariance, quantiles, counts, summary


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


def derivatives_of_linear_algebra(library: Library):
    """The log density of a Gaussian, a least-squares fit and eigenvalues, and their derivatives."""
    jnp = library.numpy
    root = jnp.sin(jnp.arange(36.0)).reshape(6, 6)
    matrix, vector = root @ root.T + 6 * jnp.eye(6), jnp.cos(jnp.arange(6.0))

    def log_density(covariance, x):
        factor = jnp.linalg.cholesky(covariance)
        solved = jnp.linalg.solve(covariance, x)
        return -0.5 * x @ solved - jnp.sum(jnp.log(jnp.diag(factor)))

    def spread(a):
        values, vectors = jnp.linalg.eigh(a)
        return jnp.sum(values**2) + jnp.sum(jnp.abs(vectors[:, -1]))

    return [
        library.value_and_grad(log_density, argnums=(0, 1))(matrix, vector),
        library.grad(spread)(matrix),
        library.grad(lambda a: jnp.linalg.slogdet(a)[1])(matrix),
        library.jacobian(lambda x: jnp.linalg.solve(matrix, x))(vector),
        library.hessian(lambda x: x @ matrix @ x + jnp.sum(x**4))(vector),
        library.grad(lambda a: jnp.sum(jnp.linalg.svd(a, compute_uv=False)))(root),
        library.jit(library.grad(lambda a: jnp.sum(jnp.linalg.inv(a))))(matrix),
        library.grad(lambda a: jnp.sum(jnp.linalg.qr(a)[1]))(matrix),
    ]


def training(library: Library):
    """A small network that is trained by a jitted step, and evaluated outside of `jit`."""
    jnp, random = library.numpy, library.random
    keys = random.split(random.key(1), 4)
    x = random.normal(keys[0], (64, 8))
    y = jnp.argmax(x[:, :3], axis=1)
    sizes = [8, 32, 32, 3]
    params = [
        {"w": random.normal(k, (n, m)) * jnp.sqrt(2.0 / n), "b": jnp.zeros(m)}
        for k, n, m in zip(keys[1:], sizes, sizes[1:])
    ]

    def network(params, x):
        for layer in params[:-1]:
            x = library.nn.gelu(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    def loss(params, x, y):
        logits = library.nn.log_softmax(network(params, x))
        return -jnp.mean(jnp.take_along_axis(logits, y[:, None], axis=1))

    @library.jit
    def step(params, momentum, x, y):
        value, gradient = library.value_and_grad(loss)(params, x, y)
        momentum = library.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return library.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum, value

    momentum = library.tree.map(jnp.zeros_like, params)
    for _ in range(3):
        params, momentum, value = step(params, momentum, x, y)
    accuracy = jnp.mean(jnp.argmax(network(params, x), axis=1) == y)
    return value, accuracy, library.nn.softmax(network(params, x[:1]))


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


def batched(library: Library):
    """`vmap` of distances, interpolation, and of gradients by the example."""
    jnp = library.numpy
    points = jnp.cos(jnp.arange(60.0)).reshape(20, 3)

    def distance(a, b):
        return jnp.sqrt(jnp.sum((a - b) ** 2) + 1e-9)

    def regression(w, x, y):
        return (jnp.tanh(x @ w) - y) ** 2

    pairs = library.vmap(library.vmap(distance, (None, 0)), (0, None))(points, points)
    w = jnp.ones(3)
    return [
        jnp.argmin(pairs + 10 * jnp.eye(20), axis=1),
        library.vmap(library.grad(regression), (None, 0, 0))(w, points, points[:, 0]),
        library.jit(library.vmap(lambda x: jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2)))(points),
        library.vmap(lambda x: jnp.convolve(x, jnp.ones(3), mode="same"))(pairs),
        library.vmap(jnp.outer)(points, points).sum(0),
        library.jit(lambda a: jnp.sort(a, axis=-1)[..., :3])(pairs),
        library.jacfwd(lambda w: library.vmap(lambda x: jnp.tanh(x @ w))(points))(w),
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


def images(library: Library):
    """A convolution, pooling and a Fourier filter of small images."""
    jnp, lax = library.numpy, library.lax
    image = jnp.sin(jnp.arange(2 * 16 * 16 * 3.0)).reshape(2, 16, 16, 3)
    kernel = jnp.cos(jnp.arange(3 * 3 * 3 * 4.0)).reshape(3, 3, 3, 4)

    def features(kernel, image):
        y = lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return lax.reduce_window(library.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    spectrum = jnp.fft.fft2(image[0, :, :, 0])
    smooth = jnp.fft.ifft2(jnp.where(jnp.abs(spectrum) > 5, spectrum, 0)).real
    return [
        library.jit(features)(kernel, image),
        library.grad(lambda k: jnp.mean(features(k, image) ** 2))(kernel),
        smooth,
        jnp.pad(smooth, 2, mode="reflect"),
        jnp.roll(jnp.rot90(smooth), 3, axis=0),
        jnp.clip(image * 2.0, -1.0, 1.0).mean(axis=(1, 2)),
        jnp.clip(image, 0, 1).transpose(0, 3, 1, 2).astype(jnp.float16),
        image.at[:, 2:4].set(0.0).at[0, 0, 0].add(1.0),
    ]


SCRIPTS = [eager_numpy, draws, derivatives_of_linear_algebra, training, loops, batched, sampler, images]


def run(script: Callable[[Library], object]) -> Callable[[Library], Call]:
    return lambda library: lambda: script(library)


CASES = [Case(f"first run: {script.__name__.replace('_', ' ')}", cold(run(script)), target=2) for script in SCRIPTS]
