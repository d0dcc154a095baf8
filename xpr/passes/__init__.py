"""Passes over jaxprs, one a file: each turns a jaxpr into one that computes the same."""
