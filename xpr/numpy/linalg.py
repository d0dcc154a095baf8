"""Linear algebra, with NumPy's names: everything takes stacks of matrices [..., m, n]."""

from __future__ import annotations

from typing import Any

from xpr.numpy import contractions, matrices
from xpr.numpy.contractions import matmul as matmul
from xpr.numpy.contractions import vecdot as vecdot
from xpr.numpy.decompositions import cholesky as cholesky
from xpr.numpy.decompositions import eig as eig
from xpr.numpy.decompositions import eigh as eigh
from xpr.numpy.decompositions import eigvals as eigvals
from xpr.numpy.decompositions import eigvalsh as eigvalsh
from xpr.numpy.decompositions import qr as qr
from xpr.numpy.decompositions import svd as svd
from xpr.numpy.decompositions import svdvals as svdvals
from xpr.numpy.linear_equations import det as det
from xpr.numpy.linear_equations import inv as inv
from xpr.numpy.linear_equations import lstsq as lstsq
from xpr.numpy.linear_equations import matrix_power as matrix_power
from xpr.numpy.linear_equations import multi_dot as multi_dot
from xpr.numpy.linear_equations import pinv as pinv
from xpr.numpy.linear_equations import slogdet as slogdet
from xpr.numpy.linear_equations import solve as solve
from xpr.numpy.linear_equations import tensorinv as tensorinv
from xpr.numpy.linear_equations import tensorsolve as tensorsolve
from xpr.numpy.norms import cond as cond
from xpr.numpy.norms import matrix_norm as matrix_norm
from xpr.numpy.norms import matrix_rank as matrix_rank
from xpr.numpy.norms import norm as norm
from xpr.numpy.norms import vector_norm as vector_norm
from xpr.numpy.promotion import asarray_like
from xpr.numpy.reshaping import matrix_transpose as matrix_transpose
from xpr.primitives.precision import PrecisionLike

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Cross products of stacks of vectors in space.

    Raises:
      ValueError: the vectors have not 3 entries.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    x1, x2 = asarray_like(x1), asarray_like(x2)
    if x1.aval.shape[axis] != 3 or x2.aval.shape[axis] != 3:
        raise ValueError(
            f"cross: vectors of 3 entries are multiplied, and those of {x1.aval.str_short()} and {x2.aval.str_short()} "
            f"along axis {axis} have {x1.aval.shape[axis]} and {x2.aval.shape[axis]}."
        )
    return contractions.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """The products of every entry of a vector with every entry of another.

    Raises:
      ValueError: one is no vector.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    x1, x2 = asarray_like(x1), asarray_like(x2)
    if x1.aval.ndim != 1 or x2.aval.ndim != 1:
        raise ValueError(f"outer: takes two vectors, and got {x1.aval.str_short()} and {x2.aval.str_short()}.")
    return contractions.outer(x1, x2)


def tensordot(
    x1: Any, x2: Any, /, *, axes: Any = 2, precision: PrecisionLike = None, preferred_element_type: Any = None
) -> Any:
    """The product summed over several axes; see `jnp.tensordot`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((3, 2)), axes=1).shape
    (2, 2)
    """
    return contractions.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum along a diagonal of matrices [..., m, n], `offset` places above the main one.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return contractions.trace(x, offset, -2, -1, dtype)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """A diagonal of matrices [..., m, n], `offset` places above the main one.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return matrices.diagonal(x, offset, -2, -1)
