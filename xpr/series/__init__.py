"""Augmented traces: Taylor series and Laplacians of functions."""
