"""Loops over rows of arrays that carry state: `scan`, and `lax.map` made of it."""
