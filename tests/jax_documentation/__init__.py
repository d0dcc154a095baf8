"""The documentation of jax as a test: its pages and the examples of its docstrings, run with xpr in its place."""
