"""Minimizing functions of a vector."""

from xpr.scipy.optimize.minimize import OptimizeResults, minimize

__all__ = ["OptimizeResults", "minimize"]
