"""The peer library, where it is installed."""

from __future__ import annotations

import importlib
from typing import Any


def find() -> Any:
    """jax with the modules that programs read; None where it is not installed."""
    try:
        module = importlib.import_module("jax")
    except ImportError:
        return None
    for name in ("numpy", "lax", "nn", "ops", "scipy.special"):
        importlib.import_module(f"jax.{name}")
    return module


JAX = find()
