"""Geometry and graphs: distances, rotations, rays, curves, and paths."""

from benchmarks.case import Library


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


def graphs(library: Library):
    """A random graph: PageRank, shortest paths, components, and a spectral layout."""
    jnp, random, lax = library.numpy, library.random, library.lax
    n = 18
    weights = random.uniform(random.key(34), (n, n))
    adjacency = (weights < 0.2) & ~jnp.eye(n, dtype=bool)
    sources, targets = jnp.where(adjacency)
    degrees = jnp.bincount(sources, length=n)

    def rank_step(state):
        rank, _, count = state
        flow = jnp.where(degrees > 0, rank / jnp.maximum(degrees, 1), 0.0)
        received = library.ops.segment_sum(flow[sources], targets, n)
        dangling = jnp.sum(rank, where=degrees == 0) / n
        new = 0.15 / n + 0.85 * (received + dangling)
        return new, jnp.abs(new - rank).sum(), count + 1

    start = jnp.full(n, 1 / n), jnp.inf, 0
    rank, _, _ = lax.while_loop(lambda s: (s[1] > 1e-4) & (s[2] < 100), rank_step, start)

    lengths = jnp.where(adjacency, weights, jnp.inf)
    lengths = jnp.fill_diagonal(lengths, 0.0, inplace=False)

    @library.jit
    def shortest(d):
        return lax.fori_loop(0, n, lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k, :]), d)

    distances = shortest(lengths)
    reached = jnp.isfinite(distances)
    diameter = jnp.max(distances, where=reached, initial=0.0)
    either = (adjacency | adjacency.T).astype(jnp.float32)
    labels = jnp.arange(n)
    for _ in range(4):
        labels = jnp.minimum(labels, jnp.min(jnp.where(either > 0, labels, n), axis=1))
    laplacian = jnp.diag(either.sum(axis=1)) - either
    values, vectors = jnp.linalg.eigh(laplacian)
    layout = jnp.abs(vectors[:, 1:3])
    triangles = jnp.trace(jnp.linalg.matrix_power(either, 3)) / 6
    messages = library.nn.relu(either @ jnp.ones((n, 4)) / jnp.maximum(either.sum(axis=1, keepdims=True), 1))
    by_rank = jnp.argsort(rank, descending=True)[:5]
    hops = jnp.where(reached, distances, -1.0)[0]
    return [rank, hops, diameter, values, layout.sum(), triangles, messages[0]], [
        by_rank,
        labels,
        degrees,
        len(sources),
    ]


def rotations(library: Library):
    """Quaternions, Rodrigues' formula, points aligned by Kabsch's algorithm, and an arm with two joints."""
    jnp, random = library.numpy, library.random

    def multiply(p, q):
        scalar = p[0] * q[0] - jnp.dot(p[1:], q[1:])
        vector = p[0] * q[1:] + q[0] * p[1:] + jnp.cross(p[1:], q[1:])
        return jnp.concatenate([scalar[None], vector])

    def rotate(q, v):
        conjugate = q * jnp.array([1, -1, -1, -1])
        return multiply(multiply(q, jnp.insert(v, 0, 0.0)), conjugate)[1:]

    def to_matrix(q):
        return library.vmap(rotate, in_axes=(None, 0), out_axes=1)(q, jnp.eye(3))

    def slerp(p, q, t):
        angle = jnp.arccos(jnp.clip(jnp.dot(p, q), -1, 1))
        return (jnp.sin((1 - t) * angle) * p + jnp.sin(t * angle) * q) / jnp.sin(angle)

    quaternions = random.normal(random.key(35), (6, 4))
    quaternions /= jnp.linalg.norm(quaternions, axis=-1, keepdims=True)
    quaternions = jnp.where(quaternions[:, :1] < 0, -quaternions, quaternions)
    points = random.normal(random.key(36), (15, 3))
    turned = library.vmap(library.vmap(rotate, in_axes=(None, 0)), in_axes=(0, None))(quaternions, points)
    matrix = to_matrix(quaternions[0])
    path = library.jit(library.vmap(slerp, in_axes=(None, None, 0)))(*quaternions[:2], jnp.linspace(0, 1, 5))

    def skew(w):
        return jnp.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])

    w = jnp.array([0.3, -0.2, 0.5])
    exponential = library.scipy.linalg.expm(skew(w))
    angle = jnp.linalg.norm(w)
    k = skew(w / angle)
    rodrigues = jnp.eye(3) + jnp.sin(angle) * k + (1 - jnp.cos(angle)) * k @ k

    u, _, vt = jnp.linalg.svd(points.T @ turned[0])
    sign = jnp.sign(jnp.linalg.det(u @ vt))
    aligned = (u @ jnp.diag(jnp.array([1.0, 1.0, sign])) @ vt).T

    def hand(joints):
        total = jnp.cumsum(joints)
        return jnp.array([jnp.cos(total).sum(), jnp.sin(total).sum()])

    joints = jnp.array([0.3, 0.6])
    for _ in range(4):
        joints += jnp.linalg.pinv(library.jacobian(hand)(joints)) @ (jnp.array([1.0, 1.2]) - hand(joints))
    turn = jnp.arccos((jnp.trace(matrix) - 1) / 2)
    return turned[:, 0], matrix, path, exponential - rodrigues, aligned - matrix, jnp.rad2deg(joints), turn


def ray_marching(library: Library):
    """A scene of distance functions: rays that march, normals by gradients, shadows, and a derivative by the radius."""
    jnp, lax = library.numpy, library.lax
    light = jnp.array([0.6, 0.7, -0.4])
    light = light / jnp.linalg.norm(light)

    def scene(p, radius=0.8):
        sphere = jnp.linalg.norm(p - jnp.array([0.0, 0.0, 3.0])) - radius
        q = jnp.abs(p - jnp.array([1.0, -0.3, 3.5])) - 0.4
        box = jnp.linalg.norm(jnp.maximum(q, 0)) + jnp.minimum(jnp.max(q), 0)
        h = jnp.clip(0.5 + 0.5 * (box - sphere) / 0.3, 0, 1)
        blended = box * (1 - h) + sphere * h - 0.3 * h * (1 - h)
        return jnp.minimum(blended, p[1] + 1.0)

    def march(origin, direction):
        def body(_, t):
            return t + scene(origin + t * direction)

        return lax.fori_loop(0, 40, body, 0.05)

    def normal(p):
        n = library.grad(scene)(p)
        return n / (jnp.linalg.norm(n) + 1e-6)

    def shade(direction):
        t = march(jnp.zeros(3), direction)
        p = t * direction
        n = normal(p)
        lit = jnp.maximum(jnp.dot(n, light), 0.0)
        shadow = lax.select(march(p + 0.05 * n, light) < 5.0, 0.3, 1.0)
        color = jnp.where(p[1] < -0.95, jnp.array([0.4, 0.5, 0.4]), jnp.array([0.9, 0.4, 0.2]))
        return jnp.where(t < 15, color * (0.1 + lit * shadow), jnp.array([0.5, 0.7, 0.9]))

    x, y = jnp.meshgrid(jnp.linspace(-1, 1, 12), jnp.linspace(0.75, -0.75, 9))
    directions = jnp.stack([x, y, jnp.ones_like(x)], axis=-1)
    directions /= jnp.linalg.norm(directions, axis=-1, keepdims=True)
    picture = library.jit(library.vmap(library.vmap(shade)))(directions)
    gamma = jnp.power(jnp.clip(picture, 0, 1), 1 / 2.2)
    depth = library.vmap(march, in_axes=(None, 0))(jnp.zeros(3), directions[4])
    radius = library.grad(lambda r: scene(jnp.array([0.0, 0.9, 3.0]), r))(0.8)
    luminance = gamma @ jnp.array([0.2126, 0.7152, 0.0722])
    return jnp.median(luminance), jnp.minimum(depth, 20.0)[:6], radius, normal(jnp.array([0.0, 0.0, 2.2]))


def splines(library: Library):
    """Interpolation: linear, cubic and Bezier curves, a surface, and lengths and integrals of them."""
    jnp, lax = library.numpy, library.lax
    knots = jnp.array([0.0, 0.7, 1.5, 2.1, 3.0, 4.2])
    values = jnp.sin(knots) + 0.1 * knots**2
    h = jnp.diff(knots)
    matrix = jnp.eye(6)
    inner = jnp.arange(1, 5)
    matrix = matrix.at[inner, inner - 1].set(h[:-1]).at[inner, inner].set(2 * (h[:-1] + h[1:]))
    matrix = matrix.at[inner, inner + 1].set(h[1:])
    slopes = jnp.diff(values) / h
    right = jnp.zeros(6).at[1:-1].set(6 * jnp.diff(slopes))
    second = jnp.linalg.solve(matrix, right)

    def spline(x):
        i = jnp.clip(jnp.searchsorted(knots, x) - 1, 0, 4)
        a, b = (knots[i + 1] - x) / h[i], (x - knots[i]) / h[i]
        cubic = ((a**3 - a) * second[i] + (b**3 - b) * second[i + 1]) * h[i] ** 2 / 6
        return a * values[i] + b * values[i + 1] + cubic

    x = jnp.linspace(0.1, 4.0, 30)
    curve = library.jit(library.vmap(spline))(x)
    bend = library.vmap(library.grad(library.grad(spline)))(x[:5])
    linear = jnp.interp(x, knots, values, left=0.0)

    def bezier(points, t):
        while len(points) > 1:
            points = (1 - t) * points[:-1] + t * points[1:]
        return points[0]

    control = jnp.array([[0.0, 0.0], [1.0, 2.0], [3.0, -1.0], [4.0, 1.0]])
    ts = jnp.linspace(0, 1, 21)
    points = library.vmap(bezier, in_axes=(None, 0))(control, ts)
    speed = library.vmap(lambda t: jnp.linalg.norm(library.jacfwd(bezier, argnums=1)(control, t)))(ts)
    length = jnp.trapezoid(speed, ts)
    area = 0.5 * jnp.abs(jnp.sum(points[:-1, 0] * points[1:, 1] - points[1:, 0] * points[:-1, 1]))

    coefficients = jnp.polyfit(knots, values, 3)
    roots = jnp.sort(jnp.abs(jnp.roots(jnp.array([1.0, -6.0, 11.0, -6.0]))))
    grid = jnp.outer(jnp.cos(knots), values)
    surface = library.scipy.interpolate.RegularGridInterpolator((knots, knots), grid)
    at = surface(jnp.stack([x[::6], x[::6][::-1]], axis=-1))
    nodes = jnp.cos(jnp.pi * (jnp.arange(8) + 0.5) / 8)
    vandermonde = jnp.vander(nodes, 4)
    fitted = jnp.linalg.lstsq(vandermonde, jnp.exp(nodes))[0]
    integral = lax.fori_loop(0, 10, lambda i, s: s + jnp.polyval(coefficients, 0.4 * i + 0.2) * 0.4, 0.0)
    return curve, bend, linear, length, area, jnp.polyval(coefficients, x[:5]), roots, at, fitted, integral


SCRIPTS = [batched, graphs, rotations, ray_marching, splines]
