"""Functions with rules of their own: custom derivatives, custom batching, linear solves and roots."""
