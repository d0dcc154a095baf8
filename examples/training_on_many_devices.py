"""Two networks read handwritten digits, trained on all devices that there are: a perceptron and a small transformer.

The devices form a mesh. Along its axis `data` they share the images of a batch, along `model` the hidden units and the
heads of attention. The losses are the same on one device, on eight, and on those of two processes:

    python examples/training_on_many_devices.py
    XPR_NUM_CPU_DEVICES=8 python examples/training_on_many_devices.py
    python -m xpr.launch -n 2 --devices-per-process 4 examples/training_on_many_devices.py
"""

import os
from functools import partial

import numpy as np
from common import perceptron
from common.adam import AdamState, adam_step, init_adam
from common.digits import SIDE, Digits, load_digits, split
from common.perceptron import Layer

import xpr
import xpr.numpy as jnp
from xpr import lax, nn, random
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

BATCH, EPOCHS, RATE = 64, 3, 2e-3
WIDTH, HEADS, BLOCKS = 32, 4, 2


def perceptron_specs() -> list:
    """The first layer's units are sharded, which the second one sums over; the last layer is small."""
    return [Layer(P(None, "model"), P("model")), Layer(P("model"), P()), Layer(P(), P())]


def transformer_specs() -> dict:
    """Of each block every device has some heads and some hidden units, which `mix` and `out` sum over."""
    block = {"qkv": P(None, None, "model"), "mix": P("model"), "in": P(None, "model"), "out": P("model")}
    return {"embed": P(), "positions": P(), "blocks": [block] * BLOCKS, "last": P()}


def init_transformer(key) -> dict:
    keys = iter(random.split(key, 3 + 4 * BLOCKS))

    def init(*shape: int, inputs: int = WIDTH):
        return random.normal(next(keys), shape) * inputs**-0.5

    def block() -> dict:
        size = WIDTH // HEADS
        return {
            "qkv": init(WIDTH, 3, HEADS, size),
            "mix": init(HEADS, size, WIDTH),
            "in": init(WIDTH, 4 * WIDTH),
            "out": init(4 * WIDTH, WIDTH, inputs=4 * WIDTH),
        }

    return {
        "embed": init(SIDE, WIDTH, inputs=SIDE),
        "positions": init(SIDE, WIDTH, inputs=1) * 0.1,
        "blocks": [block() for _ in range(BLOCKS)],
        "last": init(WIDTH, 10),
    }


def transformer_loss(params: dict, images, labels):
    """The mean cross entropy. An image is read as eight rows of pixels, float32[n, 8, 8]."""
    x = images.reshape(-1, SIDE, SIDE) @ params["embed"] + params["positions"]
    for block in params["blocks"]:
        x = x + attention(block, nn.standardize(x))
        x = x + nn.gelu(nn.standardize(x) @ block["in"]) @ block["out"]
    scores = nn.log_softmax(nn.standardize(x).mean(axis=1) @ params["last"])
    return -(scores * nn.one_hot(labels, 10)).sum(axis=1).mean()


def attention(block: dict, x):
    query, key, value = jnp.einsum("nlw,wthd->tnhld", x, block["qkv"])
    weights = nn.softmax(jnp.einsum("nhid,nhjd->nhij", query, key) / query.shape[-1] ** 0.5)
    return jnp.einsum("nhid,hdw->niw", weights @ value, block["mix"])


def train_step(loss, params, state, images, labels):
    """One step, of the whole batch and all parameters: nothing in it knows of devices."""
    value, gradient = xpr.value_and_grad(loss)(params, images, labels)
    return *adam_step(params, state, gradient, RATE), value


def own_rows_step(loss, params, state, images, labels):
    """The same, as each device does it with its own images: the gradient of the mean of all is what all step along."""

    def mean_loss(params):
        return lax.pmean(loss(params, images, labels), ("data", "model"))

    value, gradient = xpr.value_and_grad(mean_loss)(params)
    return *adam_step(params, state, gradient, RATE), value


def jitted(loss, mesh: Mesh, layout):
    """XLA partitions the step as its arguments are sharded, and adds what the devices have to send each other."""
    whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    state = AdamState(whole, layout, layout)
    step = partial(train_step, loss)
    return xpr.jit(step, in_shardings=(layout, state, rows, rows), out_shardings=(layout, state, whole))


def mapped(loss, mesh: Mesh, layout):
    """Every device has all parameters, and runs the step on its rows."""
    rows = P(("data", "model"))
    step = partial(own_rows_step, loss)
    return xpr.jit(xpr.shard_map(step, mesh=mesh, in_specs=(P(), P(), rows, rows), out_specs=P()))


def train(name: str, make_step, loss, params, specs, mesh: Mesh, digits: Digits) -> None:
    layout = xpr.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda x: isinstance(x, P))
    step = make_step(loss, mesh, layout)
    params = xpr.device_put(xpr.tree.map(np.asarray, params), layout)
    state = xpr.tree.map(np.asarray, init_adam(params))
    shuffle = np.random.default_rng(0)
    for epoch in range(EPOCHS):
        order = shuffle.permutation(len(digits.labels) // BATCH * BATCH)
        losses = []
        for batch in order.reshape(-1, BATCH):
            params, state, value = step(params, state, digits.images[batch], digits.labels[batch])
            losses.append(value)
        if xpr.process_index() == 0:
            print(f"{name}  epoch {epoch + 1}  mean loss {np.mean([float(loss) for loss in losses]):.6f}", flush=True)


def main() -> None:
    if "XPR_COORDINATOR_ADDRESS" in os.environ:
        xpr.distributed.initialize()
    devices = xpr.device_count()
    mesh = xpr.make_mesh((devices // 2, 2) if devices > 1 else (1, 1), ("data", "model"))
    if xpr.process_index() == 0:
        print(f"processes: {xpr.process_count()}  devices: {devices}  {mesh}", flush=True)

    digits, _ = split(load_digits(), seed=0)
    first, second = random.split(random.key(0))
    network = perceptron.loss, perceptron.init_params(first), perceptron_specs()
    transformer = transformer_loss, init_transformer(second), transformer_specs()
    train("perceptron, jit", jitted, *network, mesh, digits)
    train("transformer, jit", jitted, *transformer, mesh, digits)
    everywhere = xpr.tree.map(lambda _: P(), network[2], is_leaf=lambda x: isinstance(x, P))
    train("perceptron, shard_map", mapped, *network[:2], everywhere, mesh, digits)


if __name__ == "__main__":
    main()
