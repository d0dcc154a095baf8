"""One small program for each library, of the kind that its README shows. Each gives arrays; they import what they need,
since any library may be absent.
"""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np


def optax():
    import optax

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(0.1, 100)))
    params = {"w": jnp.ones(3), "b": jnp.zeros(())}
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        grads = jax.grad(lambda p: jnp.sum((p["w"] * jnp.arange(3.0) + p["b"] - 1) ** 2))(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(20):
        params, state = step(params, state)
    return params


def chex():
    import chex

    @chex.dataclass
    class Pair:
        x: jnp.ndarray
        y: jnp.ndarray

    chex.assert_shape(jnp.ones((2, 3)), (2, 3))
    chex.assert_trees_all_close({"a": jnp.ones(2)}, {"a": np.ones(2)})
    return jax.tree.map(lambda x: x * 2, Pair(x=jnp.ones(2), y=jnp.zeros(3)))


def equinox():
    import equinox as eqx

    model = eqx.nn.MLP(2, 1, 8, 2, key=jax.random.PRNGKey(0))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model, x):
        return jnp.mean(jax.vmap(model)(x) ** 2)

    value, grads = loss(model, jnp.ones((4, 2)))
    return value, grads.layers[0].weight


def lineax():
    import lineax as lx

    matrix = jax.random.normal(jax.random.PRNGKey(0), (4, 4))
    solve = lambda a: lx.linear_solve(lx.MatrixLinearOperator(a), jnp.ones(4)).value
    return solve(matrix), jax.grad(lambda a: solve(a).sum())(matrix)


def optimistix():
    import optimistix as optx

    solve = lambda a: optx.root_find(lambda y, a: jnp.tanh(y) - a, optx.Newton(1e-6, 1e-6), jnp.array(0.1), a).value
    return solve(0.3), jax.grad(solve)(0.3)


def diffrax():
    import diffrax as dfx

    def solve(y0):
        times = dfx.SaveAt(ts=jnp.linspace(0.0, 3.0, 5))
        steps = dfx.PIDController(1e-5, 1e-5)
        term = dfx.ODETerm(lambda t, y, args: -y)
        return dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 3.0, 0.1, y0, stepsize_controller=steps, saveat=times).ys

    return solve(jnp.array([2.0, 3.0])), jax.grad(lambda y: solve(y).sum())(jnp.array([2.0, 3.0]))


def blackjax():
    import blackjax

    sampler = blackjax.nuts(lambda x: -0.5 * jnp.sum(x**2), 0.5, jnp.ones(2))
    state, step, key = sampler.init(jnp.zeros(2)), jax.jit(sampler.step), jax.random.key(0)
    for i in range(5):
        state, _ = step(jax.random.fold_in(key, i), state)
    return state.position


def distrax():
    import distrax

    normal = distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))
    return normal.log_prob(jnp.ones(2)), normal.sample(seed=jax.random.PRNGKey(0))


def tensorflow_probability():
    import tensorflow_probability.substrates.jax as tfp

    normal = tfp.distributions.Normal(0.0, 1.0)
    return normal.log_prob(1.0), normal.sample(3, seed=jax.random.PRNGKey(0))


def numpyro():
    import numpyro
    from numpyro import distributions, infer

    def model(y):
        mean = numpyro.sample("mean", distributions.Normal(0, 1))
        numpyro.sample("y", distributions.Normal(mean, 1), obs=y)

    sampler = infer.MCMC(infer.NUTS(model), num_warmup=50, num_samples=50, progress_bar=False)
    sampler.run(jax.random.PRNGKey(0), jnp.array([1.0, 2.0, 3.0]))
    return sampler.get_samples()["mean"].mean()


def flax_linen():
    import flax.linen as nn

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.BatchNorm(use_running_average=False)(nn.Dense(8)(x))
            return nn.Dense(1)(nn.relu(x))

    x = jax.random.normal(jax.random.PRNGKey(1), (4, 3))
    variables = Model().init(jax.random.PRNGKey(0), x)
    y, _ = Model().apply(variables, x, mutable=["batch_stats"])
    return y, variables["params"]


def flax_nnx():
    from flax import nnx

    model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    return nnx.jit(lambda model, x: model(x))(model, jnp.ones((4, 2)))


def haiku():
    import haiku as hk

    f = hk.transform(lambda x: hk.nets.MLP([8, 1])(x))
    params = f.init(jax.random.PRNGKey(0), jnp.ones((4, 3)))
    return jax.jit(f.apply)(params, None, jnp.ones((4, 3)))


def jaxopt():
    import jaxopt

    return jaxopt.LBFGS(lambda x: jnp.sum((x - 1) ** 2)).run(jnp.zeros(3)).params


def einops():
    import einops

    return einops.rearrange(jnp.arange(12.0).reshape(3, 4), "a (b c) -> b (a c)", b=2)


def optree():
    import optree

    return optree.tree_map(lambda x: x * 2, {"a": jnp.ones(2)})


def penzai():
    import penzai.models.simple_mlp
    from penzai import pz

    make = penzai.models.simple_mlp.MLP.from_config
    model = make(name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[2, 4, 1])
    return model(pz.nx.wrap(jnp.ones(2)).tag("features")).untag("features").unwrap()


def treescope():
    import treescope

    return jnp.array(len(treescope.render_to_text({"a": jnp.ones(2)})) > 0)


def jaxtyping():
    from jaxtyping import Array, Float

    return jnp.array(isinstance(jnp.ones((2, 3)), Float[Array, "a b"]))


def quax():
    import equinox as eqx
    import quax.examples.lora as lora
    from quax import quaxify

    linear = eqx.nn.Linear(4, 4, key=jax.random.PRNGKey(0))
    return quaxify(lora.loraify(linear, rank=2, key=jax.random.PRNGKey(1)))(jnp.ones(4))


def e3nn_jax():
    import e3nn_jax as e3nn

    x = e3nn.IrrepsArray("1o", jnp.array([1.0, 2.0, 3.0]))
    return e3nn.tensor_product(x, x).array


def orbax_checkpoint():
    import orbax.checkpoint as ocp

    with tempfile.TemporaryDirectory() as folder:
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(Path(folder) / "x", {"a": jnp.arange(3.0)})
            checkpointer.wait_until_finished()
            restored = checkpointer.restore(Path(folder) / "x")
        with ocp.CheckpointManager(Path(folder) / "steps") as manager:
            manager.save(1, args=ocp.args.StandardSave(restored))
            manager.wait_until_finished()
            return restored, manager.restore(1, args=ocp.args.StandardRestore(restored))


def brax():
    from brax import envs

    env = envs.get_environment("inverted_pendulum", backend="spring")
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))
    for _ in range(3):
        state = jax.jit(env.step)(state, jnp.ones(env.action_size) * 0.5)
    return state.obs, state.reward


def tinygp():
    import tinygp

    x = jnp.linspace(0.0, 10.0, 20)

    def process(scale):
        return tinygp.GaussianProcess(tinygp.kernels.Matern32(scale), x, diag=0.1)

    loss = lambda scale: -process(scale).log_probability(jnp.sin(x))
    return jax.jit(jax.value_and_grad(loss))(1.5), process(1.5).condition(jnp.sin(x), x[:3] + 0.1).gp.loc


def jraph():
    import jraph

    graph = jraph.GraphsTuple(
        nodes=jnp.arange(12.0).reshape(4, 3) / 12, edges=jnp.ones((5, 3)), globals=jnp.ones((2, 1)),
        senders=jnp.array([0, 1, 2, 3, 0]), receivers=jnp.array([1, 2, 3, 0, 2]),
        n_node=jnp.array([2, 2]), n_edge=jnp.array([2, 3]),
    )  # fmt: skip
    step = jraph.GraphNetwork(
        update_edge_fn=lambda edges, sent, received, g: edges + sent * received,
        update_node_fn=lambda nodes, sent, received, g: jnp.tanh(nodes + sent - received),
        update_global_fn=lambda nodes, edges, g: g + nodes.sum(-1, keepdims=True),
    )
    return jax.jit(step)(graph), jraph.GraphConvolution(lambda nodes: nodes / 2, add_self_edges=True)(graph).nodes


def rlax():
    import rlax

    rewards, values = jnp.arange(4.0), jnp.array([0.5, -1.0, 2.0, 0.25])
    q = jax.random.normal(jax.random.PRNGKey(0), (4, 3))
    error = jax.vmap(lambda q, action, reward, target: rlax.q_learning(q, action, reward, 0.9, target))
    loss = lambda q: rlax.policy_gradient_loss(q, jnp.array([0, 1, 2, 0]), rewards, jnp.ones(4))
    returns = rlax.lambda_returns(rewards, jnp.full(4, 0.9), values, 0.8)
    return error(q, jnp.array([0, 1, 2, 0]), rewards, 2 * q), jax.grad(loss)(q), returns


def evosax():
    from evosax.algorithms import CMA_ES

    strategy, key = CMA_ES(population_size=8, solution=jnp.zeros(3)), jax.random.key(0)
    params = strategy.default_params
    state = strategy.init(key, jnp.full(3, 2.0), params)
    for i in range(3):
        population, state = strategy.ask(jax.random.fold_in(key, i), state, params)
        state, _ = strategy.tell(key, population, jnp.sum(population**2, -1), state, params)
    return state.best_fitness, state.mean


def ott():
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    def cost(x, y):
        problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, y, epsilon=0.1))
        return sinkhorn.Sinkhorn()(problem).reg_ot_cost

    x = jax.random.normal(jax.random.PRNGKey(0), (6, 2))
    return jax.jit(jax.value_and_grad(cost))(x, x[:4] + 1)


def jaxlie():
    import jaxlie

    target = jaxlie.SE3.exp(jnp.array([0.1, 0.2, 0.3, 0.5, -0.2, 0.1]))

    @jax.jit
    def step(pose):
        loss = lambda pose: jnp.sum((pose.inverse() @ target).log() ** 2)
        return jaxlie.manifold.rplus(pose, -0.1 * jaxlie.manifold.grad(loss)(pose))

    pose = jaxlie.SE3.identity()
    for _ in range(5):
        pose = step(pose)
    return pose.wxyz_xyz


def distreqx():
    import equinox as eqx
    from distreqx import bijectors, distributions

    normal = distributions.Independent(distributions.Normal(jnp.zeros(3), jnp.ones(3)))
    squashed = distributions.Transformed(normal, bijectors.Block(bijectors.Tanh(), 1))
    return eqx.filter_jit(squashed.sample_and_log_prob)(jax.random.key(0))


def mctx():
    import mctx

    def model(params, key, action, place):
        place = place + 0.3 * action
        logits = jnp.stack([place, -place], -1)
        step = mctx.RecurrentFnOutput(
            reward=jnp.sin(place), discount=jnp.full_like(place, 0.9), prior_logits=logits, value=jnp.cos(place)
        )
        return step, place

    root = mctx.RootFnOutput(prior_logits=jnp.zeros((2, 2)), value=jnp.zeros(2), embedding=jnp.array([0.0, 1.0]))
    policy = mctx.gumbel_muzero_policy((), jax.random.PRNGKey(0), root, model, num_simulations=8)
    return policy.action, policy.action_weights


def dm_pix():
    import dm_pix as pix

    image = jax.random.uniform(jax.random.PRNGKey(0), (5, 5, 3))
    change = lambda image: (pix.adjust_hue(image, 0.1), pix.gaussian_blur(image, 1.0, 5), pix.rotate(image, 0.3))
    return jax.jit(change)(image), pix.random_crop(jax.random.PRNGKey(1), image, (2, 2, 3))


def coordax():
    import coordax as cx

    x = cx.wrap(jnp.arange(12.0).reshape(3, 4), "x", "y")
    return jax.jit(lambda x: cx.cmap(lambda v: v - v.mean())(x.untag("y")).tag("y"))(x).data


def keras():
    import os

    os.environ.update(KERAS_BACKEND="jax", KERAS_HOME=tempfile.mkdtemp())
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([layers.Dense(8, activation="relu"), layers.BatchNormalization(), layers.Dense(1)])
    model.compile(optimizer="adam", loss="mean_squared_error")
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(16, 3)
    losses = model.fit(x, x.sum(-1, keepdims=True), epochs=2, batch_size=8, shuffle=False, verbose=0).history["loss"]
    return jnp.array(losses), model.predict(x, verbose=0)


def autoray():
    import autoray

    x = jnp.arange(6.0).reshape(2, 3)
    f = autoray.autojit(lambda x: autoray.do("einsum", "ij,kj->ik", autoray.do("tanh", x), x))
    return autoray.do("linalg.svd", x)[1], autoray.do("stack", [x, x], axis=1), jax.jit(f)(x)


def array_api_compat():
    import array_api_compat

    x = jnp.arange(6.0).reshape(2, 3)
    xp = array_api_compat.array_namespace(x)
    assert array_api_compat.is_jax_namespace(xp) and not array_api_compat.is_writeable_array(x)
    return xp.linalg.vector_norm(x), xp.vecdot(x, x), xp.cumulative_sum(x, axis=1), xp.unique_values(x)


def flashbax():
    import flashbax

    buffer = flashbax.make_prioritised_flat_buffer(
        max_length=32, min_length=4, sample_batch_size=4, add_sequences=False, add_batch_size=2
    )
    state, add = buffer.init({"x": jnp.zeros(2)}), jax.jit(buffer.add)
    for i in range(8):
        state = add(state, {"x": jnp.full((2, 2), float(i))})
    drawn = buffer.sample(state, jax.random.PRNGKey(0))
    state = buffer.set_priorities(state, drawn.indices, drawn.probabilities + 0.1)
    return drawn.experience.first, buffer.sample(state, jax.random.PRNGKey(1)).probabilities


def funsor():
    from collections import OrderedDict

    import funsor

    funsor.set_backend("jax")
    x = funsor.Tensor(jnp.arange(6.0).reshape(2, 3), OrderedDict(i=funsor.Bint[2], j=funsor.Bint[3]))
    total = x.reduce(funsor.ops.logaddexp, "j")
    return total.data, (x + total)(i=1).data
