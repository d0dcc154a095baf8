"""Small matrices of real numbers on CPU: decompositions and systems in C, for which LAPACK takes longer to begin than
to compute (`backend/c/small_matrices.c`)."""

from __future__ import annotations

from xpr.backend import native
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import float32, float64
from xpr.primitives import native_calls

LARGEST, LARGEST_CHOLESKY = 16, 12  # rows and columns, of right sides, too; of more LAPACK computes several at a time


def are_small(b: Builder, matrices: ShapedArray, largest: int = LARGEST) -> bool:
    """Whether C computes them, on the program's platform."""
    has_dtype = matrices.dtype in (float32, float64)
    return has_dtype and native_calls.are_possible(b, matrices) and max(matrices.shape[-2:]) <= largest


def _count_and_dtype(aval: ShapedArray) -> tuple[int, int]:
    return aval.size // (aval.shape[-1] * aval.shape[-2]), int(aval.dtype == float64)


def lower_lu(b: Builder, a: Value, results: list[ShapedArray]) -> list[Value]:
    """L and U in one matrix, the rows exchanged, and their order."""
    return native_calls.call(b, native.SMALL_LU, [*_count_and_dtype(a.aval), *a.aval.shape[-2:]], [a], results)


def lower_cholesky(b: Builder, a: Value) -> list[Value]:
    """L, and nan in its triangle where a matrix isn't positive definite."""
    return native_calls.call(b, native.SMALL_CHOLESKY, [*_count_and_dtype(a.aval), a.aval.shape[-1]], [a], [a.aval])


def lower_triangular_solve(
    b: Builder, a: Value, rhs: Value, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> list[Value]:
    """The X of op(A) X = B, or of X op(A) = B."""
    n, m = a.aval.shape[-1], rhs.aval.shape[-1 if left_side else -2]
    flags = map(int, (left_side, lower, transpose_a, unit_diagonal))
    sizes = [*_count_and_dtype(a.aval), n, m, *flags]
    return native_calls.call(b, native.SMALL_SOLVE, sizes, [a, rhs], [rhs.aval])
