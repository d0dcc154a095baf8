"""Passes over jaxprs, one a file: each takes a jaxpr and gives one that computes the same."""
