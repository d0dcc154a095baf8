"""Linear algebra and optimization: solvers, optimizers, constraints, and derivatives through them."""

from functools import partial

from benchmarks.case import Library, submodule


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


def conjugate_gradients(library: Library):
    """A sparse system without its matrix: conjugate gradients, a preconditioner, and Lanczos' eigenvalues."""
    jnp, random, lax = library.numpy, library.random, library.lax
    n = 40
    diagonal = 2.5 + jnp.arange(n) / n
    b = random.normal(random.key(15), (n,))

    def matvec(x):
        return diagonal * x - jnp.pad(x[1:], (0, 1)) - jnp.pad(x[:-1], (1, 0))

    def solve(b, precondition):
        def body(state):
            x, r, p, rz, k = state
            product = matvec(p)
            alpha = rz / jnp.vdot(p, product)
            x, r = x + alpha * p, r - alpha * product
            z = precondition(r)
            new = jnp.vdot(r, z)
            return x, r, z + new / rz * p, new, k + 1

        z = precondition(b)
        start = jnp.zeros_like(b), b, z, jnp.vdot(b, z), 0
        return lax.while_loop(lambda s: (s[4] < 15) & (jnp.linalg.norm(s[1]) > 1e-3), body, start)

    plain = library.jit(lambda b: solve(b, lambda r: r))(b)
    scaled = library.jit(lambda b: solve(b, lambda r: r / diagonal))(b)
    dense = library.vmap(matvec)(jnp.eye(n))
    builtin, _ = library.scipy.sparse.linalg.cg(matvec, b, tol=1e-5)

    q, previous, beta = b / jnp.linalg.norm(b), jnp.zeros(n), 0.0
    alphas, betas = [], []
    for _ in range(8):
        w = matvec(q) - beta * previous
        alphas.append(jnp.dot(w, q))
        w = w - alphas[-1] * q
        beta = jnp.linalg.norm(w)
        betas.append(beta)
        previous, q = q, w / beta
    off = jnp.diag(jnp.array(betas[:-1]), 1)
    ritz = jnp.linalg.eigvalsh(jnp.diag(jnp.array(alphas)) + off + off.T)
    is_solved = jnp.max(jnp.abs(dense @ scaled[0] - b)) < 1e-2
    return plain[0], scaled[0], is_solved, builtin, jnp.linalg.cond(dense), ritz[-1], jnp.allclose(dense, dense.T)


def adam(library: Library):
    """Adam written out for a pytree, with a schedule and clipped gradients, on Rosenbrock's function and a fit."""
    jnp, random, tree = library.numpy, library.random, library.tree
    x = jnp.linspace(0, 4, 50)
    y = 2.0 * jnp.exp(-0.7 * x) + 0.5 + 0.05 * random.normal(random.key(16), x.shape)

    def rosenbrock(p):
        return jnp.sum(100 * (p[1:] - p[:-1] ** 2) ** 2 + (1 - p[:-1]) ** 2)

    def loss(params):
        fitted = params["scale"] * jnp.exp(-params["rate"] * x) + params["offset"]
        return jnp.mean((fitted - y) ** 2) + 1e-3 * rosenbrock(params["extra"])

    def clipped(gradient, limit):
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in tree.leaves(gradient)))
        return tree.map(lambda g: g * jnp.minimum(1.0, limit / (norm + 1e-9)), gradient), norm

    @partial(library.jit, static_argnames="decay")
    def step(count, params, first, second, decay=0.9):
        value, gradient = library.value_and_grad(loss)(params)
        gradient, norm = clipped(gradient, 1.0)
        rate = 0.1 * 0.5 * (1 + jnp.cos(jnp.pi * count / 60))
        first = tree.map(lambda m, g: decay * m + (1 - decay) * g, first, gradient)
        second = tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradient)

        def move(p, m, v):
            return p - rate * m / (1 - decay**count) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)

        return tree.map(move, params, first, second), first, second, (value, norm)

    params = {"scale": jnp.array(1.0), "rate": jnp.array(0.1), "offset": jnp.array(0.0), "extra": jnp.zeros(4)}
    first = second = tree.map(jnp.zeros_like, params)
    history = []
    for count in range(1, 31):
        params, first, second, info = step(count, params, first, second)
        history.append(info)
    values, norms = tree.map(lambda *xs: jnp.stack(xs), *history)
    flat, _ = submodule(library, "flatten_util").ravel_pytree(params)
    return flat, values, norms[:3], rosenbrock(jnp.array([-1.2, 1.0, 0.5]))


def gauss_newton(library: Library):
    """A circle fitted by Levenberg and Marquardt's method, and the same by BFGS."""
    jnp, random, lax = library.numpy, library.random, library.lax
    angles = jnp.linspace(0, 2 * jnp.pi, 24, endpoint=False)
    circle = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    points = jnp.array([1.0, -2.0]) + 3 * circle + 0.1 * random.normal(random.key(17), (24, 2))

    def residuals(params):
        return jnp.hypot(points[:, 0] - params[0], points[:, 1] - params[1]) - params[2]

    def cost(params):
        return 0.5 * jnp.sum(residuals(params) ** 2)

    def step(state, _):
        params, damping = state
        r, jacobian = residuals(params), library.jacfwd(residuals)(params)
        hessian = jacobian.T @ jacobian
        move = jnp.linalg.solve(hessian + damping * jnp.diag(jnp.diag(hessian)), jacobian.T @ r)
        better = cost(params - move) < cost(params)
        taken = lax.cond(better, lambda: params - move, lambda: params)
        return (taken, jnp.where(better, damping / 3, damping * 2)), cost(params)

    (params, _), costs = library.jit(lambda s: lax.scan(step, s, None, length=12))((jnp.array([0.0, 0, 1]), 1e-2))
    result = submodule(library, "scipy.optimize").minimize(cost, jnp.array([0.0, 0.0, 1.0]), method="BFGS")
    jacobian = library.jacrev(residuals)(params)
    variance = 2 * cost(params) / (24 - 3)
    errors = jnp.sqrt(jnp.diag(variance * jnp.linalg.inv(jacobian.T @ jacobian)))
    value, tangent = library.jvp(cost, (params,), (jnp.array([1.0, 0.0, 0.0]),))
    return params, costs[:4], jnp.abs(result.x - params) < 1e-2, errors, value, jnp.abs(tangent) < 1e-2


def portfolio(library: Library):
    """Least variance for a wanted return by Lagrange multipliers, and with no short sales by projected gradients."""
    jnp, random = library.numpy, library.random
    factors = random.normal(random.key(18), (6, 2))
    covariance = 0.04 * factors @ factors.T + 0.02 * jnp.eye(6)
    returns = 0.05 + 0.03 * random.uniform(random.key(19), (6,))
    constraints = jnp.stack([jnp.ones(6), returns])

    def lagrangian(z, wanted):
        w, multipliers = z[:6], z[6:]
        return 0.5 * w @ covariance @ w - multipliers @ (constraints @ w - jnp.array([1.0, wanted]))

    def optimal(wanted):
        z = jnp.zeros(8)
        gradient = library.grad(lagrangian)(z, wanted)
        return z - jnp.linalg.solve(library.hessian(lagrangian)(z, wanted), gradient)

    wanted = jnp.linspace(0.05, 0.08, 7)
    solutions = library.jit(library.vmap(optimal))(wanted)
    risks = jnp.sqrt(jnp.einsum("ki,ij,kj->k", solutions[:, :6], covariance, solutions[:, :6]))

    def onto_simplex(v):
        u = jnp.sort(v)[::-1]
        excess = (jnp.cumsum(u) - 1) / jnp.arange(1, 7)
        last = jnp.sum(u > excess) - 1
        return jnp.maximum(v - excess[last], 0)

    w = jnp.full(6, 1 / 6)
    for _ in range(25):
        w = onto_simplex(w - 2.0 * (covariance @ w - 0.5 * returns))
    sharpe = (returns @ w - 0.02) / jnp.sqrt(w @ covariance @ w)
    sensitivity = library.jacobian(lambda t: optimal(t)[:6])(0.06)
    parity = 1 / jnp.sqrt(jnp.diag(covariance))
    return solutions, risks, w, sharpe, sensitivity, parity / parity.sum()


def implicit_differentiation(library: Library):
    """Derivatives of a fixed point by `custom_vjp`, and of a root by `custom_jvp`."""
    jnp, lax = library.numpy, library.lax

    def update(a, x):
        return jnp.tanh(a["w"] @ x + a["b"])

    def iterate(f, x):
        return lax.while_loop(lambda s: jnp.max(jnp.abs(s[0] - s[1])) > 1e-6, lambda s: (f(s[0]), s[0]), (f(x), x))[0]

    @library.custom_vjp
    def fixed_point(a, x):
        return iterate(lambda x: update(a, x), x)

    def forward(a, x):
        solution = fixed_point(a, x)
        return solution, (a, solution)

    def backward(residuals, cotangent):
        a, solution = residuals
        _, vjp_x = library.vjp(lambda x: update(a, x), solution)
        adjoint = iterate(lambda u: cotangent + vjp_x(u)[0], cotangent)
        return library.vjp(lambda a: update(a, solution), a)[1](adjoint)[0], jnp.zeros_like(solution)

    fixed_point.defvjp(forward, backward)

    @library.custom_jvp
    def cube_root(x):
        return lax.fori_loop(0, 20, lambda _, y: y - (y**3 - x) / (3 * y**2), jnp.ones_like(x))

    @cube_root.defjvp
    def cube_root_jvp(primals, tangents):
        (x,), (dx,) = primals, tangents
        y = cube_root(x)
        return y, dx / (3 * y**2)

    a = {"w": 0.3 * jnp.sin(jnp.arange(16.0)).reshape(4, 4), "b": jnp.linspace(-1, 1, 4)}
    value, gradient = library.value_and_grad(lambda a: jnp.sum(fixed_point(a, jnp.zeros(4)) ** 2))(a)
    xs = jnp.array([1.0, 2.0, 8.0, 27.0])
    slopes = library.vmap(library.grad(cube_root))(xs)
    curvature = library.grad(library.grad(cube_root))(8.0)
    jitted = library.jit(library.jacobian(lambda b: fixed_point({**a, "b": b}, jnp.zeros(4))))(a["b"])
    return value, gradient, cube_root(xs), slopes, curvature, jitted


def optimal_transport(library: Library):
    """Sinkhorn's algorithm between two point sets, its gradient, and the Wasserstein distance of two samples."""
    jnp, random, lax = library.numpy, library.random, library.lax
    logsumexp = library.nn.logsumexp
    x = random.normal(random.key(20), (12, 2))
    y = 1.0 + 0.5 * random.normal(random.key(21), (15, 2))

    @partial(library.jit, static_argnums=2)
    def sinkhorn(x, y, iterations=30):
        cost = jnp.sum((x[:, None] - y[None]) ** 2, axis=-1)
        scaled = cost / 0.5
        log_a, log_b = -jnp.log(len(x)) * jnp.ones(len(x)), -jnp.log(len(y)) * jnp.ones(len(y))

        def step(potentials, _):
            f, g = potentials
            f = log_a - logsumexp(g[None, :] - scaled, axis=1)
            g = log_b - logsumexp(f[:, None] - scaled, axis=0)
            return (f, g), jnp.abs(logsumexp(f[:, None] + g - scaled, axis=1) - log_a).max()

        (f, g), errors = lax.scan(step, (jnp.zeros(len(x)), jnp.zeros(len(y))), None, length=iterations)
        plan = jnp.exp(f[:, None] + g[None, :] - scaled)
        return jnp.sum(plan * cost), plan, errors

    total, plan, errors = sinkhorn(x, y)
    flow = library.grad(lambda x: sinkhorn(x, y, 20)[0])(x)
    moved = x - 0.5 * len(x) * flow
    barycenters = (plan @ y) / plan.sum(axis=1, keepdims=True)
    one = jnp.sort(x[:, 0])
    other = jnp.quantile(y[:, 0], (jnp.arange(12) + 0.5) / 12)
    sliced = jnp.mean(jnp.abs(one - other))
    entropy = -jnp.sum(library.scipy.special.xlogy(plan, plan))
    return total, plan.sum(axis=0), errors[::10], moved, barycenters, sliced, entropy


SCRIPTS = [
    derivatives_of_linear_algebra,
    conjugate_gradients,
    adam,
    gauss_newton,
    portfolio,
    implicit_differentiation,
    optimal_transport,
]
