"""A convolutional network reads handwritten digits: two convolutions, each followed by pooling, and one dense layer.

Images are NHWC: [n, height, width, channels]; kernels are HWIO: [height, width, channels in, channels out].

    python examples/convolutional_network.py
"""

import math
import time

import numpy as np
from common.adam import adam_step, init_adam
from common.digits import SIDE, Digits, load_digits, split

import xpr
import xpr.numpy as jnp
from xpr import lax, nn, random

LAYOUT = ("NHWC", "HWIO", "NHWC")
CHANNELS = (1, 16, 32)
BATCH = 64
EPOCHS = 12
RATE = 4e-3


def init_params(key) -> dict:
    first, second, third = random.split(key, 3)
    return {
        "first": init_kernel(first, *CHANNELS[:2]),
        "second": init_kernel(second, *CHANNELS[1:]),
        "dense": {"weights": random.normal(third, (2 * 2 * CHANNELS[2], 10)) * 0.1, "biases": jnp.zeros(10)},
    }


def init_kernel(key, inputs: int, outputs: int) -> dict:
    """A kernel of 3x3 pixels, of variance 2 / inputs to one output."""
    scale = math.sqrt(2 / (9 * inputs))
    return {"weights": random.normal(key, (3, 3, inputs, outputs)) * scale, "biases": jnp.zeros(outputs)}


def convolve(layer: dict, images):
    """Slides the kernel over the images, which keep their size."""
    slid = lax.conv_general_dilated(images, layer["weights"], (1, 1), "SAME", dimension_numbers=LAYOUT)
    return nn.relu(slid + layer["biases"])


def pool(images):
    """The greatest of each 2x2 pixels: half the height, half the width."""
    return lax.reduce_window(images, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def logits(params: dict, images):
    """images float32[n, 64] -> float32[n, 10]."""
    x = images.reshape(-1, SIDE, SIDE, 1)
    x = pool(convolve(params["first"], x))
    x = pool(convolve(params["second"], x))
    dense = params["dense"]
    return x.reshape(len(x), -1) @ dense["weights"] + dense["biases"]


def loss(params: dict, images, labels):
    """The mean cross entropy."""
    return -(nn.log_softmax(logits(params, images)) * nn.one_hot(labels, 10)).sum(axis=1).mean()


@xpr.jit
def train_step(params: dict, state, images, labels, rate):
    value, gradient = xpr.value_and_grad(loss)(params, images, labels)
    return *adam_step(params, state, gradient, rate), value


@xpr.jit
def accuracy(params: dict, images, labels):
    return (logits(params, images).argmax(axis=1) == labels).mean()


def train(params: dict, training: Digits, held_out: Digits) -> dict:
    state = init_adam(params)
    shuffle = np.random.default_rng(0)
    for epoch in range(EPOCHS):
        rate = RATE * (1 - epoch / EPOCHS)
        order = shuffle.permutation(len(training.labels))
        for batch in np.split(order, range(BATCH, len(order), BATCH)):
            params, state, value = train_step(params, state, training.images[batch], training.labels[batch], rate)
        print(f"epoch {epoch + 1:2d}  loss {value:.4f}  held-out accuracy {accuracy(params, *held_out):.2%}")
    return params


def main() -> None:
    training, held_out = split(load_digits(), seed=0)
    params = init_params(random.key(0))
    shapes = xpr.eval_shape(logits, params, held_out.images)
    print(f"{len(training.labels)} images to train on; the logits of those held out are {shapes.dtype}{shapes.shape}\n")

    start = time.perf_counter()
    params = train(params, training, held_out)
    print(f"\nheld-out accuracy {accuracy(params, *held_out):.2%} in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
