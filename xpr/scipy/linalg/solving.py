"""Linear equations: Cholesky and LU factors to solve with, triangular solves, determinants and inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.numpy import decompositions, determinants, linear_equations
from xpr.numpy.decompositions import matrices_of
from xpr.primitives.linalg.factorizations import (
    Factored,
    inverse_permutation,
    lu_p,
    lu_pivots_to_permutation,
    unpacked,
)
from xpr.primitives.linalg.matrices import conjugated, permuted_rows
from xpr.primitives.linalg.solves import triangular_solve_p
from xpr.primitives.shapes import broadcast_to, expand_dims, squeeze


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinants of square matrices; see `jnp.linalg.det`.

    Args:
      a: matrices [..., n, n].
      overwrite_a: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      [...].

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.det(jnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    return determinants.det(a)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverses of square matrices; see `jnp.linalg.inv`.

    Args:
      a: matrices [..., n, n].
      overwrite_a: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      [..., n, n].

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return linear_equations.inv(a)


# -- Triangular solves


_OPERATIONS = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


@compiled_eagerly("trans")
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
    """The solution x of a x = b for triangular matrices.

    Args:
      a: matrices [..., n, n], of which one triangle is read.
      b: [n] or [..., n, m]; with one axis less than the matrices, [..., n], a vector for each of them.
      trans: 0 or "N" to solve with a, 1 or "T" with its transpose, 2 or "C" with its conjugate transpose.
      lower: whether the lower triangle is read, instead of the upper one.
      unit_diagonal: whether the diagonal is taken to be ones.
      overwrite_b: has no effect; arrays are immutable.
      debug: has no effect.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      An array of the shape of `b`.

    Raises:
      ValueError: the shapes don't fit, or there is no such `trans`.

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
    """The solution for stacks that broadcast; `b` with one axis less than `a` may be a stack of vectors."""
    n, b_shape = aval_of(a).shape[-1], aval_of(b).shape
    if not b_shape:
        raise ValueError(f"{name}: b must be a vector or a matrix, and is {aval_of(b).str_short()}.")
    is_vector = len(b_shape) == 1 or (len(b_shape) == aval_of(a).ndim - 1 and b_shape[-1] == n)
    columns = expand_dims(b, (-1,)) if is_vector else b
    x, y = aval_of(a).shape, aval_of(columns).shape
    if y[-2] != n:
        types = f"a {aval_of(a).str_short()} and b {aval_of(b).str_short()}"
        raise ValueError(f"{name}: {types} don't fit: b needs {n} elements or rows, and has {y[-2]}.")
    stack = jnp.broadcast_shapes(x[:-2], y[:-2])
    solution = solve_stacks(broadcast_to(a, (*stack, *x[-2:])), broadcast_to(columns, (*stack, *y[-2:])))
    return squeeze(solution, (-1,)) if is_vector else solution


# -- Cholesky


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Cholesky factors of Hermitian, positive definite matrices: U with a = U^H U, or L with a = L L^H.

    Args:
      a: matrices [..., n, n], of which one triangle is read: the lower one for L, the upper one for U.
      lower: whether to return L.
      overwrite_a: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      Factors [..., n, n]; nans where a matrix is not positive definite.

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    return decompositions.cholesky(a, upper=not lower, symmetrize_input=False)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """The Cholesky factors of matrices, for `cho_solve`.

    Args:
      a: matrices [..., n, n], of which the triangle of the factor is read.
      lower: whether to return the lower factor.
      overwrite_a: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      `(factors [..., n, n], lower)`.

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor(jnp.array([[4., 2.], [2., 5.]])), jnp.array([2., 5.]))
    Array([0., 1.], dtype=float32)
    """
    return cholesky(a, lower), bool(lower)


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The solution x of a x = b from the Cholesky factors of a.

    Args:
      c_and_lower: the result of `cho_factor`.
      b: [n] or [..., n, m]; with one axis less than the matrices, [..., n], a vector for each of them.
      overwrite_b: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      An array of the shape of `b`.

    Raises:
      ValueError: the shapes don't fit.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor(2 * jnp.eye(2)), jnp.array([2., 6.])).round(3)
    Array([1., 3.], dtype=float32)
    """
    factor, lower = c_and_lower
    return _cho_solve(factor, b, bool(lower))


@compiled_eagerly()
def _cho_solve(factor: Any, b: Any, lower: bool) -> Any:
    first = solve_triangular(factor, b, "N" if lower else "C", lower)
    return solve_triangular(factor, first, "C" if lower else "N", lower)


# -- LU


@compiled_eagerly()
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """The LU factors of matrices with row exchanges, for `lu_solve`.

    Args:
      a: matrices [..., m, n]; square ones for `lu_solve`.
      overwrite_a: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      `(factors [..., m, n], pivots [..., min(m, n)])`: both factors in one matrix; row i was exchanged with row
      `pivots[i]`.

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
    """The solution x of a x = b from the LU factors of a.

    Args:
      lu_and_piv: the result of `lu_factor`.
      b: [n] or [..., n, m]; with one axis less than the matrices, [..., n], a vector for each of them.
      trans: 0 to solve with a, 1 with its transpose, 2 with its conjugate transpose.
      overwrite_b: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      An array of the shape of `b`.

    Raises:
      ValueError: the shapes don't fit, or there is no such `trans`.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor(jnp.array([[1., 2.], [2., 2.]])), jnp.array([3., 4.]))
    Array([1., 1.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"lu_solve: trans is 0, 1 or 2, and not {trans!r}.")
    factors, pivots = lu_and_piv
    return _lu_solve(factors, pivots, b, trans)


@compiled_eagerly("trans")
def _lu_solve(factors: Any, pivots: Any, b: Any, trans: int) -> Any:
    factors, b = matrices_of("lu_solve", factors, b, square=True)

    def solve_stacks(factors: Any, b: Any) -> Any:
        row_pivots = broadcast_to(pivots, aval_of(factors).shape[:-1])
        factored = Factored(factors, row_pivots, lu_pivots_to_permutation(row_pivots, aval_of(factors).shape[-1]))
        if trans == 0:
            return factored.solve(b)
        if trans == 1:
            return factored.solve_transposed(b)
        return conjugated(factored.solve_transposed(conjugated(b)))

    return _with_columns("lu_solve", solve_stacks, factors, b)


@compiled_eagerly()
def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Any] | tuple[Any, Any, Any]:
    """The factors of a = P L U: a permutation, a lower triangular matrix with ones on the diagonal, and an upper one.

    Args:
      a: matrices [..., m, n].
      permute_l: whether to return `(P L, U)`.
      overwrite_a: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      `(P [..., m, m], L [..., m, k], U [..., k, n])` with k = min(m, n).

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


@compiled_eagerly()
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
    """The solution x of a x = b.

    Args:
      a: matrices [..., n, n].
      b: [n] or [..., n, m]; with one axis less than the matrices, [..., n], a vector for each of them.
      lower: which triangle of a positive definite matrix is read.
      overwrite_a: has no effect; arrays are immutable.
      overwrite_b: has no effect; arrays are immutable.
      debug: has no effect.
      check_finite: has no effect; elements that are not finite give nans.
      assume_a: "gen", "sym", "her" or "pos"; "pos" solves with Cholesky factors.

    Returns:
      An array of the shape of `b`; infinities or nans where a matrix is singular.

    Raises:
      ValueError: the shapes don't fit, or there is no such `assume_a`.

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
    return cho_solve(cho_factor(a, lower), b)
