"""Functions with rules defined by the user: custom derivatives, custom batching, linear solves and roots."""
