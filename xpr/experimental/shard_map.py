"""`jax.experimental.shard_map`: `shard_map` by its old name and with its old parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.api import shard_map as current
from xpr.backend.mesh import Mesh

__all__ = ["shard_map"]


def shard_map(
    f: Callable[..., Any], mesh: Mesh | None, in_specs: Any, out_specs: Any, check_rep: bool = True
) -> Callable[..., Any]:
    """`xpr.shard_map`, with parameters by position.

    Args:
      f: a function of pytrees of arrays, with the shapes of the parts.
      mesh: the mesh; None for the current one.
      in_specs: the sharding of arguments, a pytree prefix of the tuple of them.
      out_specs: the sharding of results, a pytree prefix of the result.
      check_rep: whether to refuse results that may vary over axes that `out_specs` don't name.

    Returns:
      A function of the same arguments and results as whole arrays.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> from xpr.experimental.shard_map import shard_map
    >>> from xpr.sharding import PartitionSpec as P
    >>> shard_map(lambda x: lax.psum(x.sum(), "x"), xpr.make_mesh((1,), ("x",)), P("x"), P())(jnp.arange(4.0))
    Array(6., dtype=float32)
    """
    return current.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)
