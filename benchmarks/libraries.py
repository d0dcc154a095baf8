"""Programs of libraries that are written for JAX: first calls and later ones, on xpr and on JAX in two processes.

One imports `xpr.as_jax` before the libraries. A library that isn't installed has no cases; what it needs is in
`tests/libraries/requirements.txt`.
"""

import functools
import importlib.util
from collections.abc import Callable

from benchmarks.apart import apart
from benchmarks.case import Call, Case, Library


def optax(jax: Library) -> Call:
    """A step of Adam for an MLP, with gradients clipped."""
    import optax

    jnp = jax.numpy
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(0.1, 100)))
    params = [{"w": jnp.full((256, 256), 0.01), "b": jnp.zeros(256)} for _ in range(6)]

    def loss(params, x):
        for layer in params:
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return jnp.mean(x**2)

    @jax.jit
    def step(params, state, x):
        updates, state = optimizer.update(jax.grad(loss)(params, x), state, params)
        return optax.apply_updates(params, updates), state

    return functools.partial(step, params, optimizer.init(params), jnp.ones((32, 256)))


def equinox(jax: Library) -> Call:
    """Value and gradient of a loss of an MLP module, whose activations are static leaves."""
    import equinox as eqx

    model = eqx.nn.MLP(2, 1, 32, 4, key=jax.random.PRNGKey(0))
    loss = eqx.filter_jit(eqx.filter_value_and_grad(lambda model, x: jax.numpy.mean(jax.vmap(model)(x) ** 2)))
    return functools.partial(loss, model, jax.numpy.ones((16, 2)))


def lineax(jax: Library) -> Call:
    """A linear solve."""
    import lineax as lx

    matrix = jax.random.normal(jax.random.PRNGKey(0), (32, 32))
    solve = jax.jit(lambda a, b: lx.linear_solve(lx.MatrixLinearOperator(a), b).value)
    return functools.partial(solve, matrix, jax.numpy.ones(32))


def lineax_eager(jax: Library) -> Call:
    """A linear solve that is not inside of `jit`."""
    import lineax as lx

    matrix = jax.random.normal(jax.random.PRNGKey(0), (32, 32))
    return lambda: lx.linear_solve(lx.MatrixLinearOperator(matrix), jax.numpy.ones(32)).value


def optimistix(jax: Library) -> Call:
    """A root, by Newton's method."""
    import optimistix as optx

    solver = optx.Newton(1e-6, 1e-6)
    solve = jax.jit(lambda a: optx.root_find(lambda y, a: jax.numpy.tanh(y) - a, solver, jax.numpy.zeros(4), a).value)
    return functools.partial(solve, jax.numpy.linspace(0.1, 0.4, 4))


def optimistix_eager(jax: Library) -> Call:
    """A root, by Newton's method, that is not inside of `jit`."""
    import optimistix as optx

    solver = optx.Newton(1e-6, 1e-6)
    guess, a = jax.numpy.zeros(4), jax.numpy.linspace(0.1, 0.4, 4)
    return lambda: optx.root_find(lambda y, a: jax.numpy.tanh(y) - a, solver, guess, a).value


def diffrax(jax: Library) -> Call:
    """An ordinary differential equation, with adaptive steps."""
    import diffrax as dfx

    steps, times = dfx.PIDController(1e-5, 1e-5), dfx.SaveAt(ts=jax.numpy.linspace(0.0, 3.0, 5))
    term = dfx.ODETerm(lambda t, y, args: -y)
    solve = jax.jit(
        lambda y0: dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 3.0, 0.1, y0, stepsize_controller=steps, saveat=times).ys
    )
    return functools.partial(solve, jax.numpy.array([2.0, 3.0]))


def diffrax_sde(jax: Library) -> Call:
    """A stochastic differential equation, along a Brownian path of a virtual tree."""
    import diffrax as dfx

    jnp = jax.numpy

    @jax.jit
    def solve(key):
        path = dfx.VirtualBrownianTree(0.0, 1.0, tol=1e-3, shape=(2,), key=key)
        terms = dfx.MultiTerm(
            dfx.ODETerm(lambda t, y, args: -y),
            dfx.ControlTerm(lambda t, y, args: 0.1 * jnp.eye(2), path),
        )
        return dfx.diffeqsolve(
            terms, dfx.Euler(), 0.0, 1.0, 0.002, jnp.ones(2), saveat=dfx.SaveAt(ts=jnp.linspace(0.0, 1.0, 11))
        ).ys

    return functools.partial(solve, jax.random.PRNGKey(0))


def numpyro(jax: Library) -> Call:
    """A run of NUTS: 100 steps of warm-up, 100 samples."""
    from numpyro import distributions, infer, sample

    def model(y):
        mean, scale = sample("mean", distributions.Normal(0, 1)), sample("scale", distributions.HalfNormal(1))
        sample("y", distributions.Normal(mean, scale), obs=y)

    sampler = infer.MCMC(infer.NUTS(model), num_warmup=100, num_samples=100, progress_bar=False)
    key, y = jax.random.PRNGKey(0), jax.numpy.linspace(0.0, 1.0, 50)

    def call():
        sampler.run(key, y)
        return sampler.get_samples()

    return call


def blackjax(jax: Library) -> Call:
    """A step of NUTS."""
    import blackjax

    sampler = blackjax.nuts(lambda x: -0.5 * jax.numpy.sum(x**2), 0.5, jax.numpy.ones(8))
    return functools.partial(jax.jit(sampler.step), jax.random.key(0), sampler.init(jax.numpy.ones(8)))


def flax(jax: Library) -> Call:
    """The gradient of a loss of a linen module."""
    import flax.linen as nn

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(4):
                x = nn.relu(nn.LayerNorm()(nn.Dense(64)(x)))
            return nn.Dense(1)(x)

    model, x = Model(), jax.numpy.ones((16, 8))
    params = model.init(jax.random.key(0), x)
    return functools.partial(jax.jit(jax.grad(lambda p, x: jax.numpy.mean(model.apply(p, x) ** 2))), params, x)


def flax_nnx(jax: Library) -> Call:
    """A training step of an nnx module, which is updated in place."""
    import optax
    from flax import nnx

    model = nnx.Linear(8, 8, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, x):
        value, grads = nnx.value_and_grad(lambda model: jax.numpy.mean(model(x) ** 2))(model)
        optimizer.update(model, grads)
        return value

    return functools.partial(step, model, optimizer, jax.numpy.ones((16, 8)))


def haiku(jax: Library) -> Call:
    """An MLP."""
    import haiku as hk

    f = hk.transform(lambda x: hk.nets.MLP([64, 64, 1])(x))
    x = jax.numpy.ones((16, 8))
    return functools.partial(jax.jit(f.apply), f.init(jax.random.PRNGKey(0), x), None, x)


def jaxopt(jax: Library) -> Call:
    """A minimum, by L-BFGS."""
    import jaxopt

    solver = jaxopt.LBFGS(lambda x: jax.numpy.sum((x - 1) ** 2 + x**4), maxiter=20)
    return functools.partial(lambda x: solver.run(x).params, jax.numpy.zeros(8))


# By the library that is imported: its programs.
PROGRAMS: dict[str, list[Callable[[Library], Call]]] = {
    "optax": [optax],
    "equinox": [equinox],
    "lineax": [lineax, lineax_eager],
    "optimistix": [optimistix, optimistix_eager],
    "diffrax": [diffrax, diffrax_sde],
    "numpyro": [numpyro],
    "blackjax": [blackjax],
    "flax": [flax, flax_nnx],
    "haiku": [haiku],
    "jaxopt": [jaxopt],
}
IMPORTS = {"jax": "import jax as library", "xpr": "import xpr.as_jax, jax as library"}
TARGETS = {"first call": 2.0, "later calls": 1.0}  # how many times as fast as JAX they should be

CASES = [
    Case(f"{program.__name__}, {kind}".replace("_", " "), apart(program, kind, IMPORTS), target)
    for library, programs in PROGRAMS.items()
    if importlib.util.find_spec(library)
    for program in programs
    for kind, target in TARGETS.items()
]
