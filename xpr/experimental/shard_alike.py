"""`jax.experimental.shard_alike`: arrays that are sharded over devices in the same way."""

from __future__ import annotations

from typing import Any

from xpr import tree
from xpr.core.avals import aval_of
from xpr.errors import TreeMismatch
from xpr.primitives.shard_alike import shard_alike_p

__all__ = ["shard_alike"]


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Two pytrees of arrays, as they are; where a program runs on several devices, both are sharded in the same way.

    Args:
      x: a pytree of arrays.
      y: one of the same structure, and the same shapes.

    Returns:
      `(x, y)`.

    Raises:
      ValueError: structures or shapes differ.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.shard_alike import shard_alike
    >>> shard_alike(jnp.zeros(2), jnp.ones(2))[1]
    Array([1., 1.], dtype=float32)
    """
    x_leaves, x_tree = tree.flatten(x)
    y_leaves, y_tree = tree.flatten(y)
    if x_tree != y_tree:
        raise TreeMismatch(f"shard_alike: the structures must be equal, and are {x_tree} and {y_tree}.")
    for a, b in zip(x_leaves, y_leaves):
        if aval_of(a).shape != aval_of(b).shape:
            raise ValueError(
                f"shard_alike: the shapes must be equal, and are those of {aval_of(a).str_short()} and "
                f"{aval_of(b).str_short()}."
            )
    outs = [shard_alike_p.bind(a, b) for a, b in zip(x_leaves, y_leaves)]
    return tree.unflatten(x_tree, [a for a, _ in outs]), tree.unflatten(y_tree, [b for _, b in outs])
