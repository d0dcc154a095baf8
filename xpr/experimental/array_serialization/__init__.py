"""`jax.experimental.array_serialization`: pytrees of arrays in folders."""
