"""jaxlib's Python bindings of MLIR, and a context that knows XLA's dialects.

They take 20 ms to load, which only programs that call Python, or have operations built by such bindings, need.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any


@functools.cache
def bindings() -> Any:
    """The module of the bindings."""
    return importlib.import_module("jaxlib.mlir.ir")


@functools.cache
def context() -> Any:
    """The context of all modules that are made here."""
    ir = bindings()
    registry = ir.DialectRegistry()
    importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    new = ir.Context()
    new.append_dialect_registry(registry)
    new.load_all_available_dialects()
    for name in ("stablehlo", "chlo", "sdy"):
        importlib.import_module(f"jaxlib.mlir.dialects.{name}").register_dialect(new)
    return new


def parse(text: str | bytes) -> Any:
    """The text, or bytecode, as an MLIR module."""
    with context():
        return bindings().Module.parse(text)
