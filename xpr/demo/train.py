"""The training loop: Adam on batches, with noise on the images and a learning rate that falls to zero."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import xpr
from xpr import random
from xpr.demo.adam import adam_step, init_adam
from xpr.demo.data import Digits
from xpr.demo.model import gradient_norms, init_params, loss, predict

BATCH = 64
RATE = 3e-3
NOISE = 0.15
SAMPLE = 256


class Epoch(NamedTuple):
    """The loss and the errors after one pass over the training images; epoch 0 is the network before training."""

    number: int
    params: Any
    loss: float
    train_accuracy: float
    test_accuracy: float
    norms: np.ndarray  # of the gradient of each of the first SAMPLE training images


def train(training: Digits, held_out: Digits, epochs: int, seed: int) -> Iterator[Epoch]:
    """Trains a network and yields an `Epoch` before the first pass and after each."""
    init_key, noise_key = random.split(random.key(seed))
    params = init_params(init_key)
    state = init_adam(params)
    shuffle = np.random.default_rng(seed)
    count = len(training.labels)
    yield measure(0, params, training, held_out)

    for epoch in range(epochs):
        rate = RATE * (1 + math.cos(math.pi * epoch / epochs)) / 2
        order = shuffle.permutation(count)
        for start in range(0, count - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            params, state = train_step(params, state, noise_key, training.images[batch], training.labels[batch], rate)
        yield measure(epoch + 1, params, training, held_out)


@xpr.jit
def train_step(params, state, noise_key, images, labels, rate):
    """One step of Adam. The noise on the images is new in each step, so that they cannot be learnt by heart."""
    noise = NOISE * random.normal(random.fold_in(noise_key, state.count), images.shape)
    gradient = xpr.grad(loss)(params, images + noise, labels)
    return adam_step(params, state, gradient, rate)


def measure(number: int, params, training: Digits, held_out: Digits) -> Epoch:
    sample = Digits(*(column[:SAMPLE] for column in training))
    return Epoch(
        number,
        params,
        float(batch_loss(params, *training)),
        accuracy(params, training),
        accuracy(params, held_out),
        np.asarray(gradient_norms(params, *sample)),
    )


batch_loss = xpr.jit(loss)


def accuracy(params, digits: Digits) -> float:
    """The share of the images that the network reads rightly."""
    return float(np.mean(np.asarray(predict(params, digits.images)) == digits.labels))
