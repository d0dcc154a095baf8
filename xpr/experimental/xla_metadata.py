"""`jax.experimental.xla_metadata`: attributes of operations, `frontend_attributes`, which XLA passes on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from xpr import tree
from xpr.config import override, settings
from xpr.core.interpreter import context
from xpr.primitives.xla_metadata import xla_metadata_value
from xpr.transforms.metadata import attach_from_here

__all__ = ["set_xla_metadata"]


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Gives operations attributes: those of a block or a function, or those that compute given arrays.

    What is derived from operations of a block, as in derivatives, has its attributes, too: `eqn.ctx.xla_metadata`.
    Texts and files of jaxprs leave those of blocks out; texts and files of lowered programs have them.

    Args:
      x: a pytree of arrays; None for a context manager, which is a decorator as well.
      **kwargs: the attributes, texts, numbers or booleans. In nested blocks a None takes one away.

    Returns:
      `x`, the operations of which have the attributes; or a context manager for all operations that are traced in it.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.xla_metadata import set_xla_metadata
    >>> with set_xla_metadata(stage="first"):
    ...     text = xpr.jit(jnp.sin).lower(1.0).as_text()
    >>> 'mhlo.frontend_attributes = {stage = "first"}' in text
    True
    """
    if x is None:
        return _Metadata(kwargs)
    metadata = tuple(sorted(kwargs.items()))
    return tree.map(lambda leaf: xla_metadata_value(leaf, metadata), x)


class _Metadata:
    """A block, or a function, whose operations have metadata."""

    def __init__(self, metadata: dict[str, Any]):
        self.metadata = metadata
        self.entered: list[tuple[Any, AbstractContextManager[Any]]] = []

    def __enter__(self) -> None:
        merged = {**dict(settings.xla_metadata), **self.metadata}
        block = override("xla_metadata", tuple(sorted((k, v) for k, v in merged.items() if v is not None)))
        self.entered.append((context.trace, block))
        block.__enter__()
        attach_from_here()

    def __exit__(self, *error: Any) -> None:
        before, block = self.entered.pop()
        context.trace = before
        block.__exit__(*error)

    def __call__(self, function: Callable[..., Any]) -> Any:
        return _Marked(function, self.metadata)


class _Marked:
    """A function that runs in a block with metadata, and so do its methods, such as `lower` of a jitted function."""

    def __init__(self, function: Callable[..., Any], metadata: dict[str, Any]):
        functools.update_wrapper(self, function)
        self.function, self.metadata = function, metadata

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _Metadata(self.metadata):
            return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.function, name)
        return _Marked(attribute, self.metadata) if callable(attribute) else attribute
