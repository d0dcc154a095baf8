"""Errors that depend on values, as results of compiled programs."""
