"""`jax.experimental.pjit`: `jit` by its old name."""

from xpr.api.jit import jit as pjit

__all__ = ["pjit"]
