"""Gather and scatter: reading and writing windows at computed indices."""
