"""Of SciPy's `sparse`: solvers of linear equations, `linalg`."""

from xpr.scipy.sparse import linalg as linalg
