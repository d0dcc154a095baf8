"""Small matrices of real numbers on CPU: decompositions and systems in C, for which LAPACK takes longer to begin than
to compute (`backend/c/small_matrices.c`)."""

from __future__ import annotations

from xpr.backend import native
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dtypes import float32, float64
from xpr.primitives import native_calls

LARGEST, LARGEST_CHOLESKY = 16, 12  # rows and columns, of right sides, too; of more LAPACK computes several at a time
_MOST_OF_SYSTEM = 128  # elements of the right side of one
_LONG = 1 << 20  # operations, which take a millisecond


def are_small(b: Builder, matrices: ShapedArray, largest: int = LARGEST) -> bool:
    """Whether C decomposes them, on the program's platform."""
    has_dtype = matrices.dtype in (float32, float64)
    return has_dtype and native_calls.are_possible(b, matrices) and max(matrices.shape[-2:]) <= largest


def are_small_systems(b: Builder, matrices: ShapedArray, right_sides: ShapedArray) -> bool:
    """Whether C solves them."""
    is_small = are_small(b, matrices) and are_small(b, right_sides)
    return is_small and right_sides.shape[-1] * right_sides.shape[-2] <= _MOST_OF_SYSTEM


def _call(b: Builder, target: str, sizes: list[int], operands: list[Value], results: list[ShapedArray]) -> list[Value]:
    *_, rows, columns = operands[0].aval.shape
    is_double = int(operands[0].aval.dtype == float64)
    takes_long = operands[-1].aval.size * min(rows, columns) >= _LONG
    further = [native_calls.counted(b, operands[0])] if takes_long else []
    count = operands[0].aval.size // (rows * columns)
    return native_calls.call(b, target, [count, is_double, *sizes], [*operands, *further], results)


def lower_lu(b: Builder, a: Value, results: list[ShapedArray]) -> list[Value]:
    """L and U in one matrix, the rows exchanged, and their order."""
    return _call(b, native.SMALL_LU, [*a.aval.shape[-2:]], [a], results)


def lower_cholesky(b: Builder, a: Value) -> list[Value]:
    """L, and nan in its triangle where a matrix isn't positive definite."""
    return _call(b, native.SMALL_CHOLESKY, [a.aval.shape[-1]], [a], [a.aval])


def lower_triangular_solve(
    b: Builder, a: Value, rhs: Value, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> list[Value]:
    """The X of op(A) X = B, or of X op(A) = B."""
    n, m = a.aval.shape[-1], rhs.aval.shape[-1 if left_side else -2]
    flags = map(int, (left_side, lower, transpose_a, unit_diagonal))
    return _call(b, native.SMALL_SOLVE, [n, m, *flags], [a, rhs], [rhs.aval])
