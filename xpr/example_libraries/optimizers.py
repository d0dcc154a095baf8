"""Optimizers as triples of functions: `init(params) -> state`, `update(i, gradients, state) -> state`, `params(state)`.

Each is written for one array and applied to every leaf of a pytree. A step size is a number, or a function of the
step number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xpr import numpy as jnp
from xpr import tree
from xpr.tree_nodes import register_pytree_node

__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads", "constant",
    "exponential_decay", "inverse_time_decay", "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer",
    "pack_optimizer_state", "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3",
    "unpack_optimizer_state",
]  # fmt: skip

Schedule = Callable[[Any], Any]


class OptimizerState(NamedTuple):
    """The states of all leaves, [one tuple of arrays for each], with the structures around them."""

    packed_state: tuple[tuple[Any, ...], ...]
    tree_def: Any
    subtree_defs: tuple[Any, ...]


def _flatten_state(state: OptimizerState) -> Any:
    return state.packed_state, (state.tree_def, state.subtree_defs)


register_pytree_node(OptimizerState, _flatten_state, lambda about, states: OptimizerState(tuple(states), *about))


class Optimizer(NamedTuple):
    """The functions of an optimizer."""

    init_fn: Callable[[Any], OptimizerState]
    update_fn: Callable[[Any, Any, OptimizerState], OptimizerState]
    params_fn: Callable[[OptimizerState], Any]


def optimizer(maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """A decorator that turns an optimizer of arrays into one of pytrees.

    Args:
      maker: returns `init(x) -> state`, `update(i, gradient, state) -> state` and `params(state) -> x`, for an array x.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, params = optimizers.sgd(0.5)
    >>> params(update(0, {"w": jnp.ones(2)}, init({"w": jnp.zeros(2)})))
    {'w': Array([-0.5, -0.5], dtype=float32)}
    """

    @functools.wraps(maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = maker(*args, **kwargs)

        def init_all(params: Any) -> OptimizerState:
            leaves, structure = tree.flatten(params)
            states, inner = zip(*[tree.flatten(init(x)) for x in leaves]) if leaves else ((), ())
            return OptimizerState(tuple(map(tuple, states)), structure, tuple(inner))

        def update_all(i: Any, gradients: Any, state: OptimizerState) -> OptimizerState:
            leaves, structure = tree.flatten(gradients)
            if structure != state.tree_def:
                raise TypeError(
                    f"The gradients have another structure than the parameters: {structure} beside {state.tree_def}."
                )
            old = map(tree.unflatten, state.subtree_defs, state.packed_state)
            new = [tuple(tree.leaves(update(i, g, s))) for g, s in zip(leaves, old)]
            return OptimizerState(tuple(new), state.tree_def, state.subtree_defs)

        def params_of(state: OptimizerState) -> Any:
            states = map(tree.unflatten, state.subtree_defs, state.packed_state)
            return tree.unflatten(state.tree_def, [get_params(s) for s in states])

        return Optimizer(init_all, update_all, params_of)

    return make


# -- Step sizes


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A step size as a function of the step number.

    Raises:
      TypeError: it is neither a scalar nor a function.
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(f"A step size is a number or a function of the number of the step, not {scalar_or_schedule!r}.")


def constant(step_size: Any) -> Schedule:
    """The same step size at every step."""
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """step_size decay_rate^(i / decay_steps)"""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    """step_size / (1 + decay_rate i / decay_steps), the quotient rounded down with `staircase`."""
    down = jnp.floor if staircase else lambda x: x
    return lambda i: step_size / (1 + decay_rate * down(i / decay_steps))


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0) -> Schedule:
    """From step_size down to final_step_size as (1 - i / decay_steps)^power."""

    def schedule(i: Any) -> Any:
        left = 1 - jnp.minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Sequence[Any], values: Sequence[Any]) -> Schedule:
    """`values[k]` from the k-th boundary on, and `values[0]` before the first.

    Raises:
      ValueError: the number of values is not that of boundaries plus 1.
    """
    bounds, sizes = jnp.array(boundaries), jnp.array(values)
    if not bounds.ndim == sizes.ndim == 1 or len(sizes) != len(bounds) + 1:
        raise ValueError(
            f"piecewise_constant: values are one more than boundaries, and {sizes.shape} and {bounds.shape} were given."
        )
    return lambda i: sizes[jnp.sum(i > bounds)]


# -- Optimizers


@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent."""
    size = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - size(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return lambda x: (x, jnp.zeros_like(x)), update, lambda state: state[0]


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Gradient descent with Nesterov's momentum."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g), velocity

    return lambda x: (x, jnp.zeros_like(x)), update, lambda state: state[0]


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad (Duchi, Hazan and Singer, 2011), with momentum."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, velocity = state
        squares = squares + g**2
        inverse = jnp.where(squares > 0, 1 / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0.0)
        velocity = (1 - momentum) * (g * inverse) + momentum * velocity
        return x - size(i) * velocity, squares, velocity

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, lambda state: state[0]


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp (Hinton, 2012)."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares = state
        squares = gamma * squares + (1 - gamma) * g**2
        return x - size(i) * g / jnp.sqrt(squares + eps), squares

    return lambda x: (x, jnp.zeros_like(x)), update, lambda state: state[0]


@optimizer
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9) -> Any:
    """RMSProp with momentum."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, velocity = state
        squares = gamma * squares + (1 - gamma) * g**2
        velocity = momentum * velocity + size(i) * g / jnp.sqrt(squares + eps)
        return x - velocity, squares, velocity

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, lambda state: state[0]


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam (Kingma and Ba, 2015)."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * g**2 + b2 * squares
        unbiased = mean / (1 - jnp.asarray(b1, mean.dtype) ** (i + 1))
        scale = jnp.sqrt(squares / (1 - jnp.asarray(b2, mean.dtype) ** (i + 1))) + eps
        return x - size(i) * unbiased / scale, mean, squares

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, lambda state: state[0]


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """AdaMax (Kingma and Ba, 2015)."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = jnp.maximum(b2 * largest, jnp.abs(g))
        rate = size(i) / (1 - jnp.asarray(b1, mean.dtype) ** (i + 1))
        return x - rate * mean / (largest + eps), mean, largest

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, lambda state: state[0]


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """SM3 (Anil, Gupta, Koren and Singer, 2019): accumulators for rows and columns, rather than for elements."""
    size = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, jnp.zeros_like(x), [jnp.zeros(n, x.dtype) for n in x.shape]

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity, bounds = state
        axes = range(x.ndim)
        broadcastable = [v.reshape([-1 if k == axis else 1 for k in axes]) for axis, v in enumerate(bounds)]
        squares = functools.reduce(jnp.minimum, broadcastable) + g**2 if broadcastable else g**2
        inverse = jnp.where(squares > 0, 1 / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0.0)
        velocity = (1 - momentum) * (g * inverse) + momentum * velocity
        bounds = [squares.max([k for k in axes if k != axis]) for axis in axes]
        return x - size(i) * velocity, velocity, bounds

    return init, update, lambda state: state[0]


# -- Gradients and states


def l2_norm(of: Any) -> Any:
    """The root of the sum of all squares in a pytree."""
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree.leaves(of)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The gradients, scaled down where their norm is over `max_norm`."""
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """A leaf of an unpacked optimizer state: it holds the state of one array."""

    def __init__(self, subtree: Any):
        self.subtree = subtree

    def __iter__(self) -> Any:
        return iter((self.subtree,))


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """A state as a pytree with the structure of the parameters, a `JoinPoint` at each leaf, to be saved."""
    states = map(tree.unflatten, opt_state.subtree_defs, opt_state.packed_state)
    return tree.unflatten(opt_state.tree_def, list(map(JoinPoint, states)))


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The inverse of `unpack_optimizer_state`."""
    points, structure = tree.flatten(marked_pytree)
    flat = [tree.flatten(point.subtree) for point in points]
    return OptimizerState(tuple([tuple(x) for x, _ in flat]), structure, tuple([d for _, d in flat]))
