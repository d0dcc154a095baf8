"""A multilayer perceptron, written for one image; `vmap` makes the batch."""

from typing import NamedTuple

import xpr
import xpr.numpy as jnp
from xpr import nn, random

SIZES = (64, 256, 128, 10)


class Layer(NamedTuple):
    """weights float32[inputs, outputs] and biases float32[outputs]."""

    weights: xpr.Array
    biases: xpr.Array


def init_params(key, sizes=SIZES) -> list[Layer]:
    """Normal weights of variance 2 / inputs (He et al. 2015)."""
    shapes = zip(random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True)
    return [Layer(random.normal(k, (m, n)) * (2 / m) ** 0.5, jnp.zeros(n)) for k, m, n in shapes]


def logits(params, image):
    """image float32[64] -> float32[10], one number for each digit."""
    *hidden, last = params
    for layer in hidden:
        image = nn.relu(image @ layer.weights + layer.biases)
    return image @ last.weights + last.biases


def loss(params, images, labels):
    """The mean cross entropy of a batch."""

    def example_loss(image, label):
        return -nn.log_softmax(logits(params, image)) @ nn.one_hot(label, 10)

    return xpr.vmap(example_loss)(images, labels).mean()
