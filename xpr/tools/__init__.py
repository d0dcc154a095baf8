"""Commands: `jax_to_ir`, a function as a program of XLA in a file."""
