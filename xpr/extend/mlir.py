"""`jax.extend.mlir`: jaxlib's bindings of MLIR."""

from __future__ import annotations

from xpr.backend.mlir_bindings import bindings

ir = bindings()
