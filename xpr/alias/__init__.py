"""JAX's module names for xpr: `import jax` and `import jax.numpy` import xpr's modules. `xpr.as_jax` turns it on."""
