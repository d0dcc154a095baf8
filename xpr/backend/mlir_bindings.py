"""jaxlib's Python bindings of MLIR, and a context that knows XLA's dialects.

They take 8 ms to load, and 16 more with the dialect of shardings. Only programs that call Python, or have operations
built by such bindings, need them.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any


@functools.cache
def bindings() -> Any:
    """The module of the bindings."""
    return importlib.import_module("jaxlib.mlir.ir")


_DIALECTS = ("stablehlo", "chlo", "sdy")


@functools.cache
def context() -> Any:
    """The context of all modules that are made here."""
    for dialect in _DIALECTS:
        _load(dialect)
    return _context()


@functools.cache
def _context() -> Any:
    """The context of all modules, perhaps without the dialect of shardings, which takes 16 ms to load."""
    ir = bindings()
    registry = ir.DialectRegistry()
    importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    new = ir.Context()
    new.append_dialect_registry(registry)
    new.load_all_available_dialects()
    return new


@functools.cache
def _load(dialect: str) -> None:
    """Adds a dialect to the context, without jaxlib's classes of its operations, which take milliseconds to make."""
    importlib.import_module(f"jaxlib.mlir._mlir_libs._{dialect}").register_dialect(_context())


def parse(text: str | bytes) -> Any:
    """The text, or bytecode, as an MLIR module."""
    for dialect in _DIALECTS:
        if dialect in text if isinstance(text, str) else dialect.encode() in text:
            _load(dialect)
    with _context():
        return bindings().Module.parse(text)
