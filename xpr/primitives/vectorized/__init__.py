"""Elementwise functions as arithmetic, for CPU: XLA vectorizes that, where it would call libm for each element."""
