"""JAX's tables and functions for the rules of primitives: `ad`, `batching`, `mlir`, `partial_eval`, `pxla`, `xla`."""
