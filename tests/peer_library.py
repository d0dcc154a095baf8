"""The same code in xpr and, where it is installed, in jax: what it gives must agree."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import xpr

# What a piece of code reaches through the library's name beyond its own attributes.
_SUBMODULES = ("numpy", "lax", "custom_derivatives", "custom_batching", "flatten_util", "ops", "scipy")


def jax() -> Any:
    """jax with its submodules, or None where it is not installed."""
    try:
        found = importlib.import_module("jax")
    except ImportError:
        return None
    for name in _SUBMODULES:
        importlib.import_module(f"jax.{name}")
    return found


def agree(code: Callable[[Any], Any], tolerance: float = 2e-6) -> Any:
    """What `code(library)` gives in xpr, checked to be of the same structure and values in jax."""
    ours = code(xpr)
    peer = jax()
    if peer is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = code(peer)
        one, two = xpr.tree.leaves(ours), peer.tree.leaves(theirs)
        assert len(one) == len(two), (ours, theirs)
        for x, y in zip(one, two, strict=True):
            # Where nothing is transformed functions with rules give what they give, numbers too.
            plain = isinstance(x, (int, float)) or isinstance(y, (int, float))
            x, y = np.asarray(x), np.asarray(y)
            assert x.shape == y.shape and (plain or x.dtype == y.dtype), (ours, theirs)
            if x.dtype.kind != "V":
                np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    return ours
