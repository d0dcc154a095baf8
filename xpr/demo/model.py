"""The network: a multilayer perceptron, written for one image. `vmap` makes the batch, `grad` the gradient.

Parameters are a list of layers, so any number of layers will do.
"""

from typing import NamedTuple

import xpr
import xpr.numpy as jnp
from xpr import nn, random
from xpr.tree_util import tree_leaves

SIZES = (64, 256, 128, 10)


class Layer(NamedTuple):
    """weights float32[inputs, outputs] and biases float32[outputs]."""

    weights: xpr.Array
    biases: xpr.Array


def init_params(key, sizes=SIZES) -> list[Layer]:
    """Normal weights of variance 2 / inputs, which keep the size of what passes through relu (He et al. 2015)."""
    keys = random.split(key, len(sizes) - 1)
    return [init_layer(*shape) for shape in zip(keys, sizes[:-1], sizes[1:], strict=True)]


def init_layer(key, inputs: int, outputs: int) -> Layer:
    weights = random.normal(key, (inputs, outputs)) * (2 / inputs) ** 0.5
    return Layer(weights, jnp.zeros(outputs))


def logits(params, image):
    """image float32[64] -> float32[10], one number for each digit: the greatest is the network's answer."""
    *hidden, last = params
    for layer in hidden:
        image = nn.relu(image @ layer.weights + layer.biases)
    return image @ last.weights + last.biases


def example_loss(params, image, label):
    """The cross entropy of one image: minus the logarithm of the probability given to its digit."""
    return -nn.log_softmax(logits(params, image)) @ nn.one_hot(label, 10)


def loss(params, images, labels):
    """The mean loss of a batch."""
    return xpr.vmap(example_loss, in_axes=(None, 0, 0))(params, images, labels).mean()


@xpr.jit
def predict(params, images):
    """images float32[n, 64] -> the digits int32[n] the network reads."""
    return xpr.vmap(logits, in_axes=(None, 0))(params, images).argmax(axis=1)


@xpr.jit
def gradient_norms(params, images, labels):
    """float32[n]: how far each image alone pulls at the parameters. Images that the network finds hard pull most."""
    return xpr.vmap(gradient_norm, in_axes=(None, 0, 0))(params, images, labels)


def gradient_norm(params, image, label):
    gradient = xpr.grad(example_loss)(params, image, label)
    return jnp.sqrt(sum((leaf * leaf).sum() for leaf in tree_leaves(gradient)))
