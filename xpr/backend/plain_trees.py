"""Flattens plain containers through jaxlib, in a third of the time that optree needs: for calls where there is no C.

It knows tuples, named ones too, lists, dicts and None; all else is a leaf. Only tree.py says what a pytree is, so the
answer is of use where it is known to have the very leaves that `tree.flatten` gives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xpr.backend import runtime


@functools.cache
def _flatten() -> Callable[[Any], tuple[list[Any], Any]]:
    return runtime._jax.pytree.PyTreeRegistry().flatten


def flatten_plain(tree: Any) -> tuple[list[Any], Any] | None:
    """The leaves and the structure, which can be hashed; None where the keys of a dict have no order."""
    try:
        return _flatten()(tree)
    except ValueError:
        return None
