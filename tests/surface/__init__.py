"""The public surface of jax, compared with xpr's: modules, names, members of classes and parameters of functions."""
