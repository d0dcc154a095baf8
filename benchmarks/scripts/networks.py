"""Neural networks, written out: layers, losses, and a few steps of training."""

from typing import Any, NamedTuple

from benchmarks.case import Library


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


def recurrent_network(library: Library):
    """An LSTM on embedded letters that predicts the next one, and text that it writes."""
    jnp, random, lax, nn = library.numpy, library.random, library.lax, library.nn
    text = "the cat sat on the mat. " * 3
    letters = sorted(set(text))
    tokens = jnp.array([letters.index(letter) for letter in text])
    size, width = len(letters), 16
    keys = random.split(random.PRNGKey(22), 4)
    params = {
        "embedding": 0.1 * random.normal(keys[0], (size, width)),
        "cell": nn.initializers.glorot_uniform()(keys[1], (2 * width, 4 * width)),
        "bias": jnp.zeros(4 * width),
        "out": nn.initializers.lecun_normal()(keys[2], (width, size)),
    }

    def cell(params, state, token):
        h, c = state
        inputs = jnp.concatenate([params["embedding"][token], h])
        i, f, g, o = jnp.split(inputs @ params["cell"] + params["bias"], 4)
        c = nn.sigmoid(f + 1.0) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h @ params["out"]

    def loss(params, batch):
        start = jnp.zeros(width), jnp.zeros(width)

        def of_one(sequence):
            _, logits = lax.scan(lambda s, t: cell(params, s, t), start, sequence[:-1])
            targets = nn.one_hot(sequence[1:], size)
            return -jnp.mean(jnp.sum(targets * nn.log_softmax(logits), axis=-1))

        return jnp.mean(library.vmap(of_one)(batch))

    @library.jit
    def step(params, batch):
        value, gradient = library.value_and_grad(loss)(params, batch)
        return library.tree.map(lambda p, g: p - 0.5 * jnp.clip(g, -1, 1), params, gradient), value

    batch = tokens.reshape(4, 18)
    losses = []
    for _ in range(5):
        params, value = step(params, batch)
        losses.append(value)

    def write(carry, key):
        state, token = carry
        state, logits = cell(params, state, token)
        token = random.categorical(key, logits / 0.8)
        return (state, token), token

    start = (jnp.zeros(width), jnp.zeros(width)), tokens[0]
    _, written = lax.scan(write, start, random.split(keys[3], 20))
    return jnp.array(losses), written, jnp.linalg.norm(params["embedding"], axis=1)


def transformer_block(library: Library):
    """Attention with a mask, layer normalization and dropout, trained for some steps."""
    jnp, random, nn = library.numpy, library.random, library.nn
    keys = random.split(random.key(23), 8)
    width, heads, length = 16, 4, 10
    x = random.normal(keys[0], (4, length, width))
    lengths = jnp.array([10, 7, 5, 9])
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    params = {name: random.normal(k, s) / jnp.sqrt(s[0]) for k, (name, s) in zip(keys[1:], shapes.items())}
    params["norms"] = [(jnp.ones(width), jnp.zeros(width)) for _ in range(2)]

    def normalized(x, scale, offset):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * library.lax.rsqrt(variance + 1e-5) * scale + offset

    def dropout(key, x, rate):
        return jnp.where(random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0.0)

    def attention(params, x, length):
        q, k, v = (each.reshape(len(x), heads, -1) for each in jnp.split(x @ params["qkv"], 3, axis=-1))
        scores = jnp.einsum("qhd,khd->hqk", q, k) / jnp.sqrt(q.shape[-1])
        positions = jnp.arange(len(x))
        mask = (positions[:, None] >= positions) & (positions < length)
        weights = nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        return jnp.einsum("hqk,khd->qhd", weights, v).reshape(x.shape) @ params["out"]

    def block(params, x, length, key=None):
        y = attention(params, normalized(x, *params["norms"][0]), length)
        x = x + (y if key is None else dropout(key, y, 0.1))
        return x + nn.gelu(normalized(x, *params["norms"][1]) @ params["up"]) @ params["down"]

    def loss(params, key):
        out = library.vmap(block, in_axes=(None, 0, 0, 0))(params, x, lengths, random.split(key, 4))
        mask = (jnp.arange(1, length) < lengths[:, None])[..., None]
        return jnp.sum((out[:, :-1] - x[:, 1:]) ** 2, where=mask) / mask.sum()

    step = library.jit(library.value_and_grad(loss))
    values = []
    for i in range(4):
        value, gradient = step(params, random.fold_in(keys[7], i))
        params = library.tree.map(lambda p, g: p - 0.05 * g, params, gradient)
        values.append(value)
    evaluated = block(params, x[0], lengths[0])
    norms = library.tree.map(jnp.linalg.norm, gradient)
    return jnp.array(values), evaluated, norms


def convolutional_network(library: Library):
    """Small images of shapes, convolutions with pooling, batch normalization, and momentum."""
    jnp, random, lax, nn = library.numpy, library.random, library.lax, library.nn
    keys = random.split(random.key(24), 5)
    grid = jnp.arange(12) - 5.5
    radius = jnp.sqrt(grid[:, None] ** 2 + grid[None, :] ** 2)
    labels = random.bernoulli(keys[0], shape=(16,)).astype(jnp.int32)
    shapes = jnp.stack([(radius < 4).astype(float), (jnp.abs(grid)[:, None] < 2) * jnp.ones(12)])
    images = (shapes[labels] + 0.3 * random.normal(keys[1], (16, 12, 12)))[..., None]
    params = {
        "kernels": [nn.initializers.he_normal()(k, (3, 3, n, m)) for k, n, m in zip(keys[2:4], (1, 4), (4, 8))],
        "scales": [jnp.ones(4), jnp.ones(8)],
        "dense": 0.1 * random.normal(keys[4], (72, 2)),
    }

    def network(params, x):
        for kernel, scale in zip(params["kernels"], params["scales"]):
            x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = scale * nn.standardize(x, axis=(0, 1, 2))
            x = lax.reduce_window(nn.relu(x), 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        return x.reshape(len(x), -1) @ params["dense"]

    def loss(params, x, labels):
        logits = network(params, x)
        chosen = jnp.take_along_axis(nn.log_softmax(logits), labels[:, None], axis=1)
        return -chosen.mean(), jnp.mean(logits.argmax(-1) == labels)

    @library.jit
    def step(params, velocity, x, labels):
        (value, accuracy), gradient = library.value_and_grad(loss, has_aux=True)(params, x, labels)
        velocity = library.tree.map(lambda v, g: 0.8 * v - 0.05 * g, velocity, gradient)
        return library.tree.map(jnp.add, params, velocity), velocity, value, accuracy

    velocity = library.tree.map(jnp.zeros_like, params)
    history = []
    for _ in range(4):
        params, velocity, *measured = step(params, velocity, images, labels)
        history.append(measured)
    flipped = jnp.flip(images, axis=2)
    saliency = jnp.abs(library.grad(lambda x: network(params, x)[0, 0])(images))[0, ..., 0]
    return jnp.array(history), network(params, flipped), saliency.max(axis=0)


def autoencoder(library: Library):
    """A variational autoencoder: reparametrized draws, a Kullback-Leibler term, RMSprop, and images between two."""
    jnp, random, nn, tree = library.numpy, library.random, library.nn, library.tree
    key = random.key(25)
    angles = random.uniform(key, (32, 1), maxval=2 * jnp.pi)
    data = jnp.cos(angles + jnp.arange(10) * 0.6)

    def dense(key, n, m):
        return {"w": random.normal(key, (n, m)) / jnp.sqrt(n), "b": jnp.zeros((m,))}

    sizes = {"in": (10, 12), "mean": (12, 2), "log_variance": (12, 2), "hidden": (2, 12), "out": (12, 10)}
    params = {name: dense(random.fold_in(key, i), *size) for i, (name, size) in enumerate(sizes.items())}

    def apply(layer, x):
        return jnp.dot(x, layer["w"]) + layer["b"]

    def encode(params, x):
        h = nn.swish(apply(params["in"], x))
        return apply(params["mean"], h), apply(params["log_variance"], h)

    def decode(params, z):
        return apply(params["out"], nn.elu(apply(params["hidden"], z)))

    def loss(params, x, key):
        mean, log_variance = encode(params, x)
        z = mean + jnp.exp(0.5 * log_variance) * random.normal(key, mean.shape)
        divergence = -0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance))
        return jnp.sum((decode(params, z) - x) ** 2) + 0.1 * divergence

    @library.jit
    def step(params, squares, key):
        losses, gradients = library.vmap(library.value_and_grad(loss), (None, 0, 0))(
            params, data, random.split(key, 32)
        )
        gradient = tree.map(lambda g: g.mean(axis=0), gradients)
        squares = tree.map(lambda s, g: 0.9 * s + 0.1 * jnp.square(g), squares, gradient)
        params = tree.map(lambda p, g, s: p - 0.01 * g / (jnp.sqrt(s) + 1e-4), params, gradient, squares)
        return params, squares, losses.mean()

    squares, losses = tree.map(jnp.ones_like, params), []
    for i in range(6):
        params, squares, value = step(params, squares, random.fold_in(key, 100 + i))
        losses.append(float(value))
    latent, _ = encode(params, data)
    between = library.vmap(lambda t: decode(params, (1 - t) * latent[0] + t * latent[1]))(jnp.linspace(0, 1, 5))
    count = sum(leaf.size for leaf in tree.leaves(params))
    return jnp.array(losses), jnp.cov(latent.T), between, count


def policy_gradient(library: Library):
    """A walk to the end of a corridor, learned by policy gradients, and a bandit by Thompson sampling."""
    jnp, random, lax, nn = library.numpy, library.random, library.lax, library.nn

    class State(NamedTuple):
        position: Any
        done: Any

    def environment(state, action):
        position = jnp.clip(state.position + 2 * action - 1, 0, 5)
        done = state.done | (position == 5)
        return State(position, done), jnp.where(state.done, 0.0, jnp.where(done, 1.0, -0.05))

    def episode(policy, key):
        def step(state, key):
            logits = policy[state.position]
            action = random.categorical(key, logits)
            next_state, reward = environment(state, action)
            log_probability = jnp.where(state.done, 0.0, nn.log_softmax(logits)[action])
            return next_state, (log_probability, reward)

        return lax.scan(step, State(jnp.array(2), jnp.array(False)), random.split(key, 15))[1]

    def discounted(rewards):
        def together(later, earlier):
            return later[0] * earlier[0], earlier[1] + earlier[0] * later[1]

        return lax.associative_scan(together, (jnp.full_like(rewards, 0.9), rewards), reverse=True)[1]

    def objective(policy, keys):
        log_probabilities, rewards = library.vmap(episode, in_axes=(None, 0))(policy, keys)
        returns = library.vmap(discounted)(rewards)
        advantages = (returns - returns.mean(axis=0)) / (returns.std() + 1e-6)
        return -jnp.mean(log_probabilities * lax.stop_gradient(advantages)), rewards.sum(axis=1).mean()

    @library.jit
    def improve(policy, key):
        gradient, reward = library.grad(objective, has_aux=True)(policy, random.split(key, 32))
        return policy - 5.0 * gradient, reward

    policy, rewards = jnp.zeros((6, 2)), []
    for key in random.split(random.key(26), 6):
        policy, reward = improve(policy, key)
        rewards.append(reward)

    def pull(counts, key):
        sample_key, reward_key = random.split(key)
        arm = jnp.argmax(random.beta(sample_key, counts[:, 0], counts[:, 1]))
        won = random.bernoulli(reward_key, jnp.array([0.2, 0.5, 0.7])[arm])
        return counts.at[arm, 1 - won.astype(int)].add(1.0), arm

    counts, arms = lax.scan(pull, jnp.ones((3, 2)), random.split(random.key(27), 60))
    return nn.softmax(policy), jnp.array(rewards), counts, jnp.bincount(arms, length=3)


SCRIPTS = [training, recurrent_network, transformer_block, convolutional_network, autoencoder, policy_gradient]
