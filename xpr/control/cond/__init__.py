"""Branches: `cond` and `switch`."""
