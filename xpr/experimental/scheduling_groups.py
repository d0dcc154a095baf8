"""`jax.experimental.scheduling_groups`: functions that XLA is asked to schedule together, as calls with attributes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xpr.api.jit import jit
from xpr.experimental.xla_metadata import set_xla_metadata

__all__ = ["scheduling_group", "xla_metadata_call"]


def scheduling_group(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: a call of the function has the attribute `scheduling_group`.

    Args:
      name: of the group.

    Returns:
      The decorator.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.scheduling_groups import scheduling_group
    >>> f = scheduling_group("first")(lambda x: jnp.sin(x) * 2)
    >>> 'scheduling_group = "first"' in xpr.jit(f).lower(1.0).as_text()
    True
    """
    return xla_metadata_call(scheduling_group=name)  # type: ignore[no-any-return]  # a decorator, without a function


def xla_metadata_call(f: Callable[..., Any] | None = None, **meta: Any) -> Any:
    """A function whose call has attributes.

    Args:
      f: the function; None for a decorator.
      **meta: the attributes.

    Returns:
      A function of the same arguments and results.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.scheduling_groups import xla_metadata_call
    >>> xla_metadata_call(jnp.sin, kind="wave")(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    if f is None:
        return lambda function: xla_metadata_call(function, **meta)
    call = jit(f)

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return set_xla_metadata(call(*args, **kwargs), **meta)

    return wrapped
