"""Tokens: values without data that put operations in order, since one depends on that of another."""

from __future__ import annotations

from typing import Any

from xpr import dtypes
from xpr.core.avals import ShapedArray, aval_of
from xpr.primitives.barrier import optimization_barrier
from xpr.primitives.shapes import full

__all__ = ["after_all", "create_token"]

TOKEN = ShapedArray((0,), dtypes.bool_)


def create_token(_: Any = None) -> Any:
    """A token that depends on nothing: an array without elements.

    Returns:
      bool[0].

    >>> from xpr import lax
    >>> lax.create_token().shape
    (0,)
    """
    return full(TOKEN.shape, False, TOKEN.dtype)


def after_all(*operands: Any) -> Any:
    """A token that depends on all of the given tokens.

    Args:
      *operands: tokens, as `create_token` and `after_all` make them.

    Returns:
      A token.

    Raises:
      TypeError: an operand is something else.

    >>> from xpr import lax
    >>> lax.after_all(lax.create_token(), lax.create_token()).shape
    (0,)
    """
    others = [aval_of(x).str_short() for x in operands if aval_of(x) is not TOKEN]
    if others:
        raise TypeError(f"after_all: takes tokens, which lax.create_token makes, and got {', '.join(others)}.")
    return optimization_barrier(operands)[0] if operands else create_token()
