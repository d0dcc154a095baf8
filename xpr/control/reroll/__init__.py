"""Equations that repeat, as one `scan`."""
