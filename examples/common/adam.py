"""Adam, for parameters of any pytree (Kingma and Ba, "Adam: a method for stochastic optimization", 2015)."""

from typing import Any, NamedTuple

import xpr
import xpr.numpy as jnp

MEAN_DECAY = 0.9
SQUARE_DECAY = 0.999
EPSILON = 1e-8


class AdamState(NamedTuple):
    """The number of steps taken, and the running means of the gradient and of its square."""

    count: xpr.Array
    mean: Any
    square: Any


def init_adam(params) -> AdamState:
    zeros = xpr.tree.map(jnp.zeros_like, params)
    return AdamState(jnp.zeros((), jnp.int32), zeros, zeros)


def adam_step(params, state: AdamState, gradient, rate):
    """The parameters after one step of size `rate`, and the state for the next."""
    count = state.count + 1
    mean = xpr.tree.map(lambda m, g: m + (1 - MEAN_DECAY) * (g - m), state.mean, gradient)
    square = xpr.tree.map(lambda s, g: s + (1 - SQUARE_DECAY) * (g * g - s), state.square, gradient)

    # Both means start from zero, and are divided by the total weight so far, which removes that bias.
    mean_weight = 1 - MEAN_DECAY**count
    square_weight = 1 - SQUARE_DECAY**count

    def updated(p, m, s):
        return p - rate * (m / mean_weight) / (jnp.sqrt(s / square_weight) + EPSILON)

    return xpr.tree.map(updated, params, mean, square), AdamState(count, mean, square)
