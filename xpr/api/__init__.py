"""What users call: jit, grad, vmap, make_jaxpr and related functions."""
