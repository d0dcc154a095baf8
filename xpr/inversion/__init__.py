"""Inverses of functions, and the log-determinants of their Jacobians."""
