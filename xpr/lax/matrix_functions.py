"""Functions of matrices that are made of others: updated Cholesky factors, symmetric products, polar decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.cond.function import cond
from xpr.control.scan.function import scan
from xpr.control.while_.function import while_loop
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.numpy.concatenation import concatenate
from xpr.numpy.creation import asarray
from xpr.numpy.matrices import eye
from xpr.numpy.norms import norm
from xpr.numpy.where_select import where
from xpr.primitives.elementwise import abs as absolute
from xpr.primitives.elementwise import cbrt, sqrt
from xpr.primitives.linalg.factorizations import cholesky
from xpr.primitives.linalg.matrices import adjoint, check_matrices, lower_triangle, product, transposed
from xpr.primitives.linalg.orthogonal import qr
from xpr.primitives.linalg.solves import triangular_solve
from xpr.primitives.slicing import broadcasted_iota

__all__ = ["cholesky_update", "qdwh", "symmetric_product"]


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """The Cholesky factor of A + w w^T from that of A = R^T R, in n^2 operations.

    A rotation of each row of R and the vector makes the vector's next element 0 (Golub and Van Loan, "Matrix
    Computations", 2013, chapter 6.5.4).

    Args:
      r_matrix: [n, n], upper triangular, of floats.
      w_vector: [n], of the same dtype.

    Returns:
      [n, n], upper triangular.

    Raises:
      TypeError: the operands are no matrix of floats and vector that fit.

    >>> from xpr import lax, numpy as jnp
    >>> r = lax.linalg.cholesky_update(jnp.eye(2), jnp.array([0.75, 0.0]))
    >>> r
    Array([[1.25, 0.  ],
           [0.  , 1.  ]], dtype=float32)
    """
    r, w = aval_of(r_matrix), aval_of(w_vector)
    if r.dtype not in dtypes.FLOATS or r.dtype != w.dtype or r.ndim != 2 or r.shape != w.shape * 2:
        raise ArgumentError(
            f"cholesky_update: takes a matrix [n, n] and a vector [n] of one float dtype, and got {r.str_short()} and "
            f"{w.str_short()}."
        )

    def rotate(w: Any, row: Any) -> tuple[Any, Any]:
        i, r = row
        length = sqrt(r[i] * r[i] + w[i] * w[i])
        cosine, sine = r[i] / length, w[i] / length
        return cosine * w - sine * r, cosine * r + sine * w

    numbers = broadcasted_iota(dtypes.int32, w.shape, 0)
    return scan(rotate, asarray(w_vector), (numbers, asarray(r_matrix)))[1]


def symmetric_product(
    a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Any:
    """alpha A A^T + beta C, with a symmetric matrix C.

    Args:
      a_matrix: [..., m, n].
      c_matrix: [..., m, m].
      alpha: a factor.
      beta: a factor.
      symmetrize_output: copies the lower triangle of the result to the upper one.

    Returns:
      [..., m, m].

    Raises:
      TypeError: the operands are no matrices that fit, or none of LAPACK's dtypes.

    >>> from xpr import lax, numpy as jnp
    >>> lax.linalg.symmetric_product(jnp.array([[1.0], [2.0]]), jnp.eye(2), beta=1.0)
    Array([[2., 2.],
           [2., 5.]], dtype=float32)
    """
    a, c = aval_of(a_matrix), aval_of(c_matrix)
    check_matrices("symmetric_product", a)
    if c.dtype != a.dtype or c.shape != (*a.shape[:-1], a.shape[-2]):
        raise ArgumentError(f"symmetric_product: {a.str_short()} and {c.str_short()} don't fit: C is [..., m, m].")
    total = alpha * product(a_matrix, transposed(a_matrix)) + beta * asarray(c_matrix)
    if not symmetrize_output:
        return total
    return lower_triangle(total) + transposed(lower_triangle(total, -1))


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """The polar decomposition A = U H: U with orthonormal columns, H Hermitian without negative eigenvalues.

    By Halley's iteration with weights from a lower bound of the singular values (Nakatsukasa, Bai and Gygi, "Optimizing
    Halley's iteration for computing the matrix polar decomposition", SIAM J. Matrix Anal. 31, 2010): each step takes
    the singular values of U closer to 1.

    Args:
      x: [m, n], with m at least n.
      is_hermitian: whether A, and so U, is Hermitian.
      max_iterations: the most steps; None for 10.
      eps: the precision; None for that of the dtype.
      dynamic_shape: how many rows and columns of `x` count, integers or traced scalars; None for all.

    Returns:
      U [m, n], H [n, n], the number of steps, and whether they converged.

    Raises:
      TypeError: the dtype is none of LAPACK's.
      ValueError: `x` is no matrix with at least as many rows as columns.

    >>> from xpr import lax, numpy as jnp
    >>> u, h, _, converged = lax.linalg.qdwh(jnp.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> jnp.round(u, 4) + 0, jnp.round(h, 4) + 0, converged
    (Array([[ 0., -1.],
           [ 1.,  0.]], dtype=float32), Array([[3., 0.],
           [0., 2.]], dtype=float32), Array(True, dtype=bool))
    """
    aval = aval_of(x)
    check_matrices("qdwh", aval)
    if aval.ndim != 2 or aval.shape[0] < aval.shape[1]:
        raise ValueError(f"qdwh: takes a matrix with at least as many rows as columns, and got {aval.str_short()}.")
    x, most = asarray(x), 10 if max_iterations is None else max_iterations
    if dynamic_shape is not None:
        inside = [broadcasted_iota(dtypes.int32, aval.shape, axis) < n for axis, n in enumerate(dynamic_shape)]
        x = where(inside[0] & inside[1], x, 0)
    real = dtypes.real_part_of(aval.dtype)
    tolerance = 5 * float(dtypes.finfo(real).eps if eps is None else eps)
    size = sqrt(norm(x, 1)) * sqrt(norm(x, np.inf))  # in two roots, as the product may overflow
    start = x / where(size == 0, 1, size)

    def going(state: Any) -> Any:
        _, bound, change, steps = state
        return (steps < most) & ((absolute(1 - bound) > tolerance) | (change > tolerance ** (1 / 3)))

    def step(state: Any) -> Any:
        u, bound, _, steps = state
        a, b, c = _weights(bound)
        found = cond(c > 100, _by_qr, _by_cholesky, u, a, b, c)
        bound = bound * (a + b * bound * bound) / (1 + c * bound * bound)
        return found, where(bound > 1, 1, bound), norm(found - u), steps + 1

    first = real.type(tolerance / 5)
    state = (start, asarray(first), asarray(real.type(1)), asarray(np.int32(0)))
    u, bound, change, steps = while_loop(going, step, state)
    u = 1.5 * u - 0.5 * product(u, product(adjoint(u), u))  # a step of Newton and Schulz, for the last digits
    if is_hermitian:
        u = (u + adjoint(u)) / 2
    h = product(adjoint(u), x)
    return u, (h + adjoint(h)) / 2, steps, ~going((u, bound, change, 0 * steps))


def _weights(bound: Any) -> tuple[Any, Any, Any]:
    """Halley's a, b and c for singular values from the bound to 1 (equation 3.15)."""
    square = bound * bound
    d = cbrt(4 * (1 - square) / (square * square))
    root = sqrt(1 + d)
    a = root + sqrt(8 - 4 * d + 8 * (2 - square) / (square * root)) / 2
    b = (a - 1) * (a - 1) / 4
    return a, b, a + b - 1


def _by_qr(u: Any, a: Any, b: Any, c: Any) -> Any:
    """From the QR decomposition of [sqrt(c) U; 1], for matrices that are far from orthogonal."""
    m, n = u.shape
    q, _ = qr(concatenate([sqrt(c) * u, eye(n, dtype=u.dtype)]), full_matrices=False)
    return (b / c) * u + ((a - b / c) / sqrt(c)) * product(q[:m], adjoint(q[m:]))


def _by_cholesky(u: Any, a: Any, b: Any, c: Any) -> Any:
    """From the Cholesky decomposition of 1 + c U^H U."""
    factor = cholesky(eye(u.shape[1], dtype=u.dtype) + c * product(adjoint(u), u), symmetrize_input=False)
    half = triangular_solve(factor, u, left_side=False, lower=True, transpose_a=True, conjugate_a=True)
    return (b / c) * u + (a - b / c) * triangular_solve(factor, half, left_side=False, lower=True)
