"""Inverse rules of linear operations with a known matrix: products are solved, and solves are multiplied.

The logarithm of the determinant of x -> A x is log abs det A for each column of x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.api.vmap import vmap
from xpr.control.custom.linear_solve import Four, custom_linear_solve_p, split
from xpr.control.groups import split_list
from xpr.core.avals import aval_of
from xpr.core.jaxpr import Jaxpr, eval_jaxpr
from xpr.errors import NotInvertible
from xpr.inversion.solutions import INVERSES, TWO_UNKNOWN, Answer, Solution, is_unknown, times
from xpr.inversion.solving import solve
from xpr.numpy import linear_equations
from xpr.numpy.determinants import slogdet, solve_with_log_det
from xpr.primitives import elementwise as e
from xpr.primitives.dot import dot_general_p
from xpr.primitives.dot_lowering import Axes, Numbers, free_axes
from xpr.primitives.linalg.matrices import (
    LAPACK_DTYPES,
    conjugated,
    diagonal_of,
    diagonal_part,
    identity,
    product,
    transposed,
    triangle,
)
from xpr.primitives.linalg.solves import triangular_solve_p, tridiagonal_product, tridiagonal_solve_p
from xpr.primitives.shapes import reshape, transpose
from xpr.primitives.slicing import concatenate, slice_in_dim

# -- Products


def _dot_general(
    results: Sequence[Any], operands: Sequence[Any], log_det: bool, *, dimension_numbers: Numbers, **params: Any
) -> Answer:
    """Both operands as stacks of matrices; the known one is the matrix of linear equations for the unknown one."""
    side = 0 if is_unknown(operands[0]) else 1
    unknown, known = operands[side], operands[1 - side]
    if is_unknown(known):
        return TWO_UNKNOWN
    aval = unknown.aval
    if aval.dtype not in dtypes.INEXACT:
        return "It has an inverse for floats alone."
    (contracted, batched) = (pair[side] for pair in dimension_numbers)
    (known_contracted, known_batched) = (pair[1 - side] for pair in dimension_numbers)
    shape = aval_of(known).shape
    known_free = free_axes(len(shape), known_contracted, known_batched)
    terms, columns = (math.prod(shape[a] for a in axes) for axes in (known_contracted, known_free))
    if terms != columns:
        return (
            f"The known operand takes {terms} numbers to {columns}: only a square matrix has an inverse. Where the "
            "argument has more numbers than the result, some are lost; where it has fewer, not every result has one."
        )
    free = free_axes(aval.ndim, contracted, batched)
    stack = tuple(aval.shape[a] for a in batched)
    vectors = math.prod(aval.shape[a] for a in free)
    dtype = aval.dtype if aval.dtype in LAPACK_DTYPES else np.dtype(np.float32)
    matrices = _matrices(known, (*known_batched, *known_free, *known_contracted), (*stack, columns, terms), dtype)
    y = e.convert_element_type(results[0], dtype)
    y = reshape(y, (*stack, vectors, columns) if side == 0 else (*stack, columns, vectors))
    y = transposed(y) if side == 0 else y
    x, log = solve_with_log_det(matrices, y) if log_det else (linear_equations.solve(matrices, y), None)
    x = reshape(x, (*stack, *(aval.shape[a] for a in (*contracted, *free))))
    order = np.argsort((*batched, *contracted, *free)).tolist()
    x = e.convert_element_type(transpose(x, order), aval.dtype, aval.weak_type)
    return Solution({side: x}, lambda: times(log, vectors))


def _matrices(x: Any, order: Axes, shape: Axes, dtype: np.dtype) -> Any:
    return e.convert_element_type(reshape(transpose(x, order), shape), dtype)


# -- Solves


def _triangular_solve(
    results: Sequence[Any], operands: Sequence[Any], log_det: bool, *, left_side: bool, lower: bool, transpose_a: bool,
    conjugate_a: bool, unit_diagonal: bool,
) -> Answer:  # fmt: skip
    (x,), (a, b) = results, operands
    if is_unknown(a):
        return "Its matrix is not known."
    matrix = triangle(a, lower)
    if unit_diagonal:
        matrix = e.add(e.sub(matrix, diagonal_part(matrix)), identity(aval_of(a)))
    matrix = conjugated(matrix) if conjugate_a else matrix
    matrix = transposed(matrix) if transpose_a else matrix
    b_solved = product(matrix, x) if left_side else product(x, matrix)
    vectors = b.aval.shape[-1 if left_side else -2]
    if unit_diagonal:
        return Solution({1: b_solved})
    return Solution({1: b_solved}, lambda: times(e.log(e.abs(diagonal_of(a))), -vectors))


def _tridiagonal_solve(
    results: Sequence[Any], operands: Sequence[Any], log_det: bool, *, perturb_singular: bool
) -> Answer:
    (x,), (*diagonals, b) = results, operands
    if any(map(is_unknown, diagonals)):
        return "Its matrix is not known."

    def log_slope() -> Any:
        n = aval_of(diagonals[1]).shape[-1]
        ones = identity(b.aval.update(shape=(*b.aval.shape[:-1], n)))
        return times(slogdet(tridiagonal_product(diagonals, ones))[1], -b.aval.shape[-1])

    return Solution({3: tridiagonal_product(diagonals, x)}, log_slope)


def _linear_solve(
    results: Sequence[Any], operands: Sequence[Any], log_det: bool, *, jaxprs: Four, const_lengths: Four
) -> Answer:
    """Of x = A^-1 b, b is A x.

    The determinant comes from inverting the solver, or where that is impossible, from the columns of A.
    """
    consts, b = split(operands, const_lengths)
    x, _ = split_list(results, len(b))
    if any(is_unknown(c) for part in consts for c in part):
        return "Its matrix depends on what is not known."
    if any(map(is_unknown, x)) or not all(map(is_unknown, b)):
        return "The right-hand side and the solution are known in parts."

    def log_slope() -> Any:
        try:
            total = solve(jaxprs.solve, [*consts.solve, *b], results, True, lambda i: "b")[2]
        except NotInvertible:
            return e.neg(slogdet(_dense(jaxprs.matvec, consts.matvec, x))[1])
        return np.float32(0) if total is None else total

    b_values = eval_jaxpr(jaxprs.matvec, (), *consts.matvec, *x)
    return Solution(dict(enumerate(b_values, sum(const_lengths))), log_slope)


def _dense(matvec: Jaxpr, consts: Sequence[Any], x: Sequence[Any]) -> Any:
    """The matrix of a linear program from and to arrays like x, column by column (here: row by row)."""
    avals = [aval_of(v) for v in x]
    n, ends = sum(a.size for a in avals), np.cumsum([a.size for a in avals]).tolist()
    basis = identity(avals[0].update(shape=(n, n)))

    def column(unit: Any) -> Any:
        parts = [reshape(slice_in_dim(unit, end - a.size, end), a.shape) for a, end in zip(avals, ends)]
        return concatenate([reshape(y, (y.aval.size,)) for y in eval_jaxpr(matvec, (), *consts, *parts)], 0)

    return vmap(column)(basis)


INVERSES.update(
    {
        dot_general_p: _dot_general,
        triangular_solve_p: _triangular_solve,
        tridiagonal_solve_p: _tridiagonal_solve,
        custom_linear_solve_p: _linear_solve,
    }
)
