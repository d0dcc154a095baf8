"""Inverses of functions, and their log determinants."""
