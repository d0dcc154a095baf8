"""JAX's example libraries: optimizers, layers."""
