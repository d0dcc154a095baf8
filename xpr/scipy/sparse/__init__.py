"""SciPy's `sparse` module: solvers of linear equations, in `linalg`."""

from xpr.scipy.sparse import linalg

__all__ = ["linalg"]
