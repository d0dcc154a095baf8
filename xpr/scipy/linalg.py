"""Linear algebra with SciPy's names: factors to solve with, triangular solves, the exponential of a matrix.

`overwrite_a`, `overwrite_b` and `check_finite` are accepted and have no effect: arrays are immutable, and what is not
finite gives nans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.cond.function import cond
from xpr.control.stop_gradient import stop_gradient
from xpr.control.while_.fori_loop import fori_loop
from xpr.core.avals import aval_of
from xpr.numpy import decompositions, linear_equations
from xpr.numpy.decompositions import matrices_of
from xpr.numpy.norms import norm
from xpr.numpy.promotion import asarray_like, promote_dtypes
from xpr.primitives.linalg import orthogonal
from xpr.primitives.linalg.factorizations import (
    Factored,
    inverse_permutation,
    lu_p,
    lu_pivots_to_permutation,
    unpacked,
)
from xpr.primitives.linalg.matrices import adjoint, conjugated, permuted_rows, product, triangle
from xpr.primitives.linalg.solves import triangular_solve_p
from xpr.primitives.shapes import broadcast_to, expand_dims, squeeze
from xpr.primitives.slicing import concatenate, pad

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "det", "eigh", "expm", "inv", "lu", "lu_factor", "lu_solve",
    "qr", "solve", "solve_triangular", "svd", "toeplitz",
]  # fmt: skip


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinants of square matrices; see `jnp.linalg.det`.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.det(jnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    return linear_equations.det(a)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverse of square matrices; see `jnp.linalg.inv`.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return linear_equations.inv(a)


# -- Triangular solves


_OPERATIONS = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Any:
    """The solution of a x = b with a triangular matrix.

    Args:
      a: [..., n, n]; one triangle is read.
      b: [n], or [..., n, m]; with one axis less than the matrices, [..., n], a vector for each of them.
      trans: 0 or "N" for a itself, 1 or "T" for its transpose, 2 or "C" for its adjoint.
      lower: whether the lower triangle is read.
      unit_diagonal: the diagonal is taken to be ones.
    Raises:
      ValueError: the shapes don't fit, or `trans` is something else.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.solve_triangular(jnp.array([[2., 0.], [1., 1.]]), jnp.array([2., 3.]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    if trans not in _OPERATIONS:
        raise ValueError(f"solve_triangular: trans is 0, 1, 2, 'N', 'T' or 'C', and not {trans!r}.")
    a, b = matrices_of("solve_triangular", a, b, square=True)
    operation = _OPERATIONS[trans]
    return _with_columns(
        "solve_triangular",
        lambda a, b: triangular_solve_p.bind(
            a, b, left_side=True, lower=bool(lower), transpose_a=operation != "N", conjugate_a=operation == "C",
            unit_diagonal=bool(unit_diagonal),
        ),
        a,
        b,
    )  # fmt: skip


def _with_columns(name: str, solve_stacks: Any, a: Any, b: Any) -> Any:
    """A solution for vectors and stacks that broadcast; `b` with one axis less than `a` may be a stack of vectors."""
    n, own = aval_of(a).shape[-1], aval_of(b).shape
    is_vector = len(own) == 1 or (len(own) == aval_of(a).ndim - 1 and own[-1] == n)
    columns = expand_dims(b, (-1,)) if is_vector else b
    x, y = aval_of(a).shape, aval_of(columns).shape
    if y[-2] != n:
        types = f"a {aval_of(a).str_short()} and b {aval_of(b).str_short()}"
        raise ValueError(f"{name}: {types} don't fit: b needs {n} elements or rows, and has {y[-2]}.")
    stack = jnp.broadcast_shapes(x[:-2], y[:-2])
    found = solve_stacks(broadcast_to(a, (*stack, *x[-2:])), broadcast_to(columns, (*stack, *y[-2:])))
    return squeeze(found, (-1,)) if is_vector else found


# -- Cholesky


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Cholesky factor: U of a = U^H U, or with `lower` L of a = L L^H.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    return decompositions.cholesky(a, upper=not lower)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """The Cholesky factor, to be given to `cho_solve`, and `lower`.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor(jnp.array([[4., 2.], [2., 5.]])), jnp.array([2., 5.]))
    Array([0., 1.], dtype=float32)
    """
    return cholesky(a, lower), bool(lower)


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The solution of a x = b from the Cholesky factor of a.

    Args:
      c_and_lower: what `cho_factor` gives.
      b: [n], or [..., n, m]; with one axis less than the matrices, [..., n], a vector for each of them.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor(2 * jnp.eye(2)), jnp.array([2., 6.])).round(3)
    Array([1., 3.], dtype=float32)
    """
    factor, lower = c_and_lower
    first = solve_triangular(factor, b, "N" if lower else "C", lower)
    return solve_triangular(factor, first, "C" if lower else "N", lower)


# -- LU


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """The LU factors of square matrices, to be given to `lu_solve`: both in one matrix, and the exchanges of rows.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.lu_factor(jnp.array([[1., 2.], [2., 2.]]))[1]
    Array([1, 1], dtype=int32)
    """
    factors, pivots, _ = lu_p.bind(matrices_of("lu_factor", a))
    return factors, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """The solution of a x = b from the LU factors of a.

    Args:
      lu_and_piv: what `lu_factor` gives.
      b: [n], or [..., n, m]; with one axis less than the matrices, [..., n], a vector for each of them.
      trans: 1 for the transpose of a, 2 for its adjoint.
    Raises:
      ValueError: `trans` is something else.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor(jnp.array([[1., 2.], [2., 2.]])), jnp.array([3., 4.]))
    Array([1., 1.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"lu_solve: trans is 0, 1 or 2, and not {trans!r}.")
    factors, pivots = lu_and_piv
    factors, b = matrices_of("lu_solve", factors, b, square=True)

    def solve_stacks(factors: Any, b: Any) -> Any:
        own = broadcast_to(pivots, aval_of(factors).shape[:-1])
        factored = Factored(factors, own, lu_pivots_to_permutation(own, aval_of(factors).shape[-1]))
        if trans == 0:
            return factored.solve(b)
        if trans == 1:
            return factored.solve_transposed(b)
        return conjugated(factored.solve_transposed(conjugated(b)))

    return _with_columns("lu_solve", solve_stacks, factors, b)


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Any] | tuple[Any, Any, Any]:
    """The factors of a = P L U: a permutation, a lower triangular matrix with ones on the diagonal, an upper one.

    Args:
      a: [..., m, n].
      permute_l: gives (P L, U).

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.lu(jnp.array([[1., 2.], [2., 2.]]))[2]
    Array([[2., 2.],
           [0., 1.]], dtype=float32)
    """
    a = matrices_of("lu", a)
    factors, _, order = lu_p.bind(a)
    lower, upper = unpacked(factors)
    if permute_l:
        return permuted_rows(lower, inverse_permutation(order)), upper
    rows = jnp.arange(a.aval.shape[-2], dtype=np.int32)
    permutation = order[..., None, :] == rows[:, None]
    return permutation.astype(dtypes.real_part_of(a.aval.dtype)), lower, upper


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Any:
    """The solution of a x = b.

    Args:
      a: [..., n, n].
      b: [n], or [..., n, m]; with one axis less than the matrices, [..., n], a vector for each of them.
      lower: of a positive definite matrix, which triangle is read.
      assume_a: "gen", "sym", "her", or "pos": positive definite matrices are solved by Cholesky's factors.
    Raises:
      ValueError: the shapes don't fit, or `assume_a` is something else.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.solve(jnp.array([[2., 0.], [0., 4.]]), jnp.array([2., 2.]))
    Array([1. , 0.5], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"solve: assume_a is 'gen', 'sym', 'her' or 'pos', and not {assume_a!r}.")
    if assume_a != "pos":
        return linear_equations.solve(a, b)
    a, b = matrices_of("solve", a, b, square=True)
    half = triangle(a, lower, 1)
    hermitian = a - triangle(a, not lower, 1) + adjoint(half)
    return cho_solve((decompositions.cholesky(hermitian), True), b)


# -- Orthogonal factors, eigenvalues, singular values


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """The factors of a = Q R.

    Args:
      a: [..., m, n].
      mode: "full" (m columns in Q), "economic" (the lesser of m and n), or "r" (R alone).
      pivoting: exchanges columns, and gives their order as well.
    Raises:
      ValueError: there is no such mode.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> jnp.abs(linalg.qr(jnp.array([[0., 1.], [2., 0.]]), mode="r")[0])
    Array([[2., 0.],
           [0., 1.]], dtype=float32)
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"qr: mode is 'full', 'r' or 'economic', and not {mode!r}.")
    outs = orthogonal.qr(matrices_of("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
    return outs[1:] if mode == "r" else outs


def eigh(
    a: Any,
    b: None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """The eigenvalues, in ascending order, and eigenvectors of Hermitian matrices; see `jnp.linalg.eigh`.

    Args:
      eigvals_only: leaves the eigenvectors out.
    Raises:
      NotImplementedError: the generalized problem (`b`, `type`) or a part of the eigenvalues is asked for.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.eigh(jnp.array([[2., 0.], [0., 1.]]), eigvals_only=True)
    Array([1., 2.], dtype=float32)
    """
    if b is not None or type != 1 or eigvals is not None:
        raise NotImplementedError("eigh: only a v = w v is solved, for all eigenvalues: leave out b, type and eigvals.")
    uplo = "L" if lower else "U"
    return decompositions.eigvalsh(a, uplo) if eigvals_only else tuple(decompositions.eigh(a, uplo))


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Singular values and singular vectors; see `jnp.linalg.svd`.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.svd(jnp.array([[0., 2.], [1., 0.]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    found = decompositions.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


# -- The exponential

# Padé's approximant of order 13, by powers of the matrix, in parts of the first one; and the norm up to which it is
# as exact as 64 bits (Higham, The scaling and squaring method for the matrix exponential revisited, 2005).
_PADE = [math.comb(13, k) * math.factorial(26 - k) / math.factorial(26) for k in range(14)]
_RADIUS = 5.371920351148152


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """The exponential of square matrices, by scaling, a Padé approximant, and squaring.

    Args:
      A: [..., n, n].
      upper_triangular: the matrices are upper triangular, so that a triangular solve will do.
      max_squarings: nans are given where more would be needed.
    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.expm(jnp.array([[0., 1.], [0., 0.]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    a = matrices_of("expm", A, square=True)
    if not a.aval.size:
        return a
    return jnp.vectorize(lambda x: _expm(x, bool(upper_triangular), int(max_squarings)), signature="(n,n)->(n,n)")(a)


def _expm(a: Any, upper_triangular: bool, most: int) -> Any:
    real = dtypes.real_part_of(a.aval.dtype)
    size = stop_gradient(norm(a, 1))
    needed = jnp.maximum(0, jnp.ceil(jnp.log2(size / _RADIUS)))
    squarings = jnp.where(needed <= most, needed, 0).astype(np.int32)
    scaled = a * (2.0 ** -squarings.astype(real)).astype(real)
    even, odd = _pade_parts(scaled)
    if upper_triangular:
        found = solve_triangular(even - odd, even + odd)
    else:
        found = linear_equations.solve(even - odd, even + odd)

    def square(i: Any, x: Any) -> Any:
        return cond(i < squarings, lambda x: product(x, x), lambda x: x, x)

    return jnp.where(needed <= most, fori_loop(0, most, square, found), np.asarray(np.nan, real))


def _pade_parts(a: Any) -> tuple[Any, Any]:
    """The even and the odd powers of the numerator; the denominator has the latter with the other sign."""
    one = jnp.eye(a.aval.shape[-1], dtype=a.aval.dtype)
    a2 = product(a, a)
    a4 = product(a2, a2)
    a6 = product(a2, a4)
    c = _PADE

    def combined(start: int) -> Any:
        high = c[start + 12] * a6 + c[start + 10] * a4 + c[start + 8] * a2
        return product(a6, high) + c[start + 6] * a6 + c[start + 4] * a4 + c[start + 2] * a2 + c[start] * one

    return combined(0), product(a, combined(1))


# -- Matrices of a form


def block_diag(*arrs: Any) -> Any:
    """The matrix that has the given ones along its diagonal, and zeros elsewhere. Vectors and scalars are rows.

    Raises:
      ValueError: one has more than two axes.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.block_diag(jnp.ones((1, 2)), 3.0)
    Array([[1., 1., 0.],
           [0., 0., 3.]], dtype=float32)
    """
    blocks = [jnp.atleast_2d(x) for x in _promoted(arrs or [jnp.zeros((1, 0))])]
    if any(x.ndim != 2 for x in blocks):
        raise ValueError(f"block_diag: takes matrices, and got {', '.join(x.aval.str_short() for x in blocks)}.")
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(pad(x, np.zeros((), x.dtype)[()], [(0, 0, 0), (before, after, 0)]))
        before += x.shape[1]
    return concatenate(rows, 0)


def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with constant diagonals: its first column is c, and its first row r, by default c conjugated.

    Args:
      c: [..., m], or a number, which counts as [1].
      r: [..., n]; its first element is not used.
    Returns:
      [..., m, n], where the leading axes of both broadcast.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.toeplitz(jnp.array([1, 2, 3]), jnp.array([1, 5, 6]))
    Array([[1, 5, 6],
           [2, 1, 5],
           [3, 2, 1]], dtype=int32)
    """
    c = jnp.atleast_1d(c)
    c, r = _promoted([c, conjugated(c) if r is None else jnp.atleast_1d(r)])
    m, n = c.shape[-1], r.shape[-1]
    stack = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    c, r = broadcast_to(c, (*stack, m)), broadcast_to(r, (*stack, n))
    along = jnp.concatenate([c[..., ::-1], r[..., 1:]], -1)
    return along[..., np.arange(m)[::-1, None] + np.arange(n)]


def _promoted(xs: Sequence[Any]) -> list[Any]:
    return promote_dtypes(*map(asarray_like, xs))
