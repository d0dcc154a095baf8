"""Linear algebra, with NumPy's names: everything takes stacks of matrices [..., m, n]."""

from __future__ import annotations

from typing import Any

from xpr.numpy import contractions, matrices
from xpr.numpy.contractions import matmul, vecdot
from xpr.numpy.decompositions import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from xpr.numpy.determinants import det, slogdet
from xpr.numpy.linear_equations import inv, lstsq, matrix_power, multi_dot, pinv, solve, tensorinv, tensorsolve
from xpr.numpy.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from xpr.numpy.promotion import asarray_like
from xpr.numpy.reshaping import matrix_transpose
from xpr.primitives.precision import PrecisionLike
from xpr.primitives.shapes import one_axis
from xpr.primitives.sharding_constraint import decided

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross products of vectors in three dimensions.

    Args:
      x1: arrays of vectors of 3 elements; their other axes broadcast.
      x2: arrays of vectors of 3 elements; their other axes broadcast.
      axis: the axis of the vectors.

    Returns:
      An array of the broadcast shape.

    Raises:
      ValueError: the vectors have not 3 elements, or there is no such axis.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    x1, x2 = asarray_like(x1), asarray_like(x2)
    n, m = (x.aval.shape[one_axis(axis, x.aval.ndim)] for x in (x1, x2))
    if n != 3 or m != 3:
        raise ValueError(
            f"cross: vectors of 3 elements are multiplied, and those of {x1.aval.str_short()} and "
            f"{x2.aval.str_short()} along axis {axis} have {n} and {m}."
        )
    return contractions.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """The product of every element of a vector and every element of another.

    Args:
      x1: a vector [m].
      x2: a vector [n].

    Returns:
      [m, n].

    Raises:
      ValueError: an operand is not a vector.

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
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product summed over several axes; see `jnp.tensordot`.

    Args:
      x1: arrays.
      x2: arrays.
      axes: a number n, for the last n axes of `x1` and the first n of `x2`; or a pair of axes, or of sequences of axes.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for the operands' common dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      The other axes of `x1`, then those of `x2`.

    Raises:
      TypeError: the axes don't match.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((3, 2)), axes=1).shape
    (2, 2)
    """
    return decided(
        out_sharding,
        "tensordot",
        lambda: contractions.tensordot(
            x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type
        ),
    )


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of a diagonal of matrices.

    Args:
      x: matrices [..., m, n].
      offset: which diagonal; 0 is the main one, positive ones are above it.
      dtype: the dtype to accumulate in and of the result; None for that of `x`, small integers widened.

    Returns:
      [...].

    Raises:
      ValueError: the array has fewer than two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return contractions.trace(x, offset, -2, -1, dtype)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """A diagonal of matrices.

    Args:
      x: matrices [..., m, n].
      offset: which diagonal; 0 is the main one, positive ones are above it.

    Returns:
      [..., k].

    Raises:
      ValueError: the array has fewer than two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return matrices.diagonal(x, offset, -2, -1)
