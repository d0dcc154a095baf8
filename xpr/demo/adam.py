"""Adam, by hand (Kingma and Ba, "Adam: a method for stochastic optimization", 2015, algorithm 1).

Each parameter steps by its mean gradient over the root of its mean square gradient, so by about `rate` at first,
whatever the scale of the loss. Works on parameters of any tree structure.
"""

from typing import Any, NamedTuple

import xpr
import xpr.numpy as jnp
from xpr.tree_util import tree_map

MEAN_DECAY = 0.9
SQUARE_DECAY = 0.999
EPSILON = 1e-8


class AdamState(NamedTuple):
    """How many steps were taken, and the running means of the gradient and of its square."""

    count: xpr.Array
    mean: Any
    square: Any


def init_adam(params) -> AdamState:
    zeros = tree_map(jnp.zeros_like, params)
    return AdamState(jnp.zeros((), jnp.int32), zeros, zeros)


def adam_step(params, state: AdamState, gradient, rate):
    """The parameters after one step of length `rate`, and the state for the next."""
    count = state.count + 1
    mean = tree_map(lambda m, g: m + (1 - MEAN_DECAY) * (g - m), state.mean, gradient)
    square = tree_map(lambda s, g: s + (1 - SQUARE_DECAY) * (g * g - s), state.square, gradient)

    # Both means start from zero; dividing by the weight they have gathered so far removes that bias.
    mean_weight = 1 - MEAN_DECAY**count
    square_weight = 1 - SQUARE_DECAY**count

    def moved(p, m, s):
        return p - rate * (m / mean_weight) / (jnp.sqrt(s / square_weight) + EPSILON)

    return tree_map(moved, params, mean, square), AdamState(count, mean, square)
