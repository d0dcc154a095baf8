"""`jax.experimental.pjit`: `jit` by its old name, which runs on the devices of the mesh of `with mesh:`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from xpr import tree
from xpr.api.current_mesh import entered_mesh, on_devices
from xpr.api.jit import JitFunction, jit
from xpr.backend.sharding import PartitionSpec, Sharding
from xpr.transforms.flat import named_like

__all__ = ["pjit"]

_UNSAID = object()


class _Pjit:
    """A function that is compiled when called; `pjit` returns it."""

    __closes_over__ = ("jitted", "over_mesh")

    def __init__(self, fun: Callable[..., Any], jitted: JitFunction, over_mesh: JitFunction):
        self.jitted, self.over_mesh = jitted, over_mesh
        named_like(self, fun)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._in_mesh("__call__", args, kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        return self._in_mesh("trace", args, kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        return self._in_mesh("lower", args, kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        return self._in_mesh("eval_shape", args, kwargs)

    def _in_mesh(self, method: str, args: Any, kwargs: Any) -> Any:
        mesh = entered_mesh()
        with nullcontext() if mesh is None else on_devices(mesh):
            return getattr(self.jitted if mesh is None else self.over_mesh, method)(*args, **kwargs)

    def clear_cache(self) -> None:
        self.jitted.clear_cache()
        self.over_mesh.clear_cache()


def pjit(fun: Callable[..., Any], in_shardings: Any = _UNSAID, out_shardings: Any = _UNSAID, **options: Any) -> Any:
    """`jit`, by its old name; inside of `with mesh:` for the devices of that mesh.

    Args:
      fun: what `jit` takes.
      in_shardings: as for `jit`; but inside of `with mesh:` None is `P()`, a whole array on each device.
      out_shardings: the same of results.
      options: the other arguments of `jit`.

    Returns:
      What `jit` returns.

    Raises:
      ValueError: as `jit`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pjit import pjit
    >>> with xpr.make_mesh((1,), ("x",)):
    ...     pjit(jnp.sin)(jnp.zeros(2)).sharding
    NamedSharding(mesh=Mesh('x': 1), spec=P())
    """
    said = {"in_shardings": in_shardings, "out_shardings": out_shardings}
    said = {name: each for name, each in said.items() if each is not _UNSAID}
    jitted = jit(fun, **said, **options)
    whole = {name: tree.map(_whole, each, is_leaf=_is_leaf) for name, each in said.items()}
    return _Pjit(fun, jitted, jit(fun, **whole, **options))


def _whole(sharding: Any) -> Any:
    return PartitionSpec() if sharding is None else sharding


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec))
