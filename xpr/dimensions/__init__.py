"""Symbolic dimensions: integers that are known when a program is called, as polynomials over dimension variables."""
