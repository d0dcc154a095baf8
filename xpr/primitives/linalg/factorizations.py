"""Triangular factorizations: `cholesky`, `lu`.

Their derivatives follow from the product rule, dA = dL U + L dU, and the triangular form of dL and dU (Murray,
Differentiation of the Cholesky decomposition, 2016; de Hoog, Anderssen and Lukas, Differentiation of matrix functionals
using triangular factorization, 2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend import native
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dimensions.expressions import as_size, min_dim
from xpr.primitives import native_calls
from xpr.primitives.comparison_lowering import lower_comparison
from xpr.primitives.dynamic_slices import dynamic_slice, dynamic_update_slice
from xpr.primitives.elementwise import add, eq, mul, scalar, sub
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.elementwise_while import written
from xpr.primitives.linalg import library_calls, small_matrices
from xpr.primitives.linalg.matrices import (
    adjoint,
    batch_stacks,
    check_matrices,
    diagonal_part,
    hermitian_from,
    identity,
    is_complex,
    lower_triangle,
    no_tangents,
    one_by_one,
    permuted_rows,
    product,
    transposed,
    upper_triangle,
    weak_if_all_are,
)
from xpr.primitives.linalg.solves import triangular_solve_p
from xpr.primitives.shapes import broadcast_in_dim, full, mapped_to, reduce_sum, reshape
from xpr.primitives.sharding_rules import batched_sharding
from xpr.primitives.slicing import broadcasted_iota, concatenate, pad, select, slice_in_dim
from xpr.primitives.sorting import sort_key_val

__all__ = ["cholesky", "cholesky_p", "lu", "lu_p", "lu_pivots_to_permutation", "lu_pivots_to_permutation_p"]


def solved(a: Any, b: Any, left_side: bool = True, lower: bool = True, **params: bool) -> Any:
    """`triangular_solve` with its defaults."""
    options = {"transpose_a": False, "conjugate_a": False, "unit_diagonal": False, **params}
    return triangular_solve_p.bind(a, b, left_side=left_side, lower=lower, **options)


def leading(x: Any, rows: int, columns: int) -> Any:
    """The first rows and columns of matrices."""
    ndim = aval_of(x).ndim
    if aval_of(x).shape[-2:] == (rows, columns):
        return x
    return slice_in_dim(slice_in_dim(x, 0, rows, axis=ndim - 2), 0, columns, axis=ndim - 1)


def grown(x: Any, rows: int, columns: int) -> Any:
    """Matrices with zeros after the last row and column, to make up so many."""
    *stack, m, n = aval_of(x).shape
    if (m, n) == (rows, columns):
        return x
    around = [*[(0, 0, 0)] * len(stack), (0, rows - m, 0), (0, columns - n, 0)]
    return pad(x, np.zeros((), aval_of(x).dtype)[()], around)


# -- cholesky: the lower triangular L of A = L L^H; of A the lower triangle is read


def _cholesky_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    check_matrices("cholesky", avals[0], square=True)
    return [ShapedArray(avals[0].shape, avals[0].dtype)]


def _cholesky_reference(values: Sequence[Any]) -> list[Any]:
    (a,) = map(np.asarray, values)
    return [np.tril(x) for x in one_by_one(lambda x: [np.linalg.cholesky(x)], [a], [aval_of(a)])]


def _cholesky_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """The transpose of A is that of L times L^H: by columns, its upper triangular factor is L by rows."""
    (a,), (out,) = operands, avals
    if not out.size:
        return [a]
    if small_matrices.are_small(b, out, small_matrices.LARGEST_CHOLESKY):
        return small_matrices.lower_cholesky(b, a)
    on_cpu, on_cuda = ("potrf", {"uplo": "U"}), ("cusolver_potrf_ffi", {"lower": False})
    target, attributes = library_calls.routine(b, "cholesky", out, on_cpu, on_cuda)
    flipped = written(b, lambda x: [transposed(x)], [a])
    info = ShapedArray(out.shape[:-2], dtypes.int32)
    factor, info_value = library_calls.call(b, target, flipped, [out, info], out.ndim - 2, attributes, {0: 0})
    factors = library_calls.where_solved(b, info_value, [factor])
    return written(b, lambda x: [lower_triangle(transposed(x))], factors)


def _cholesky_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """dL = L half(L^-1 dA L^-H), `half` being the lower triangle with half of the diagonal."""
    (da,) = tangents
    factor = cholesky_p.bind(*primals)
    if type(da) is Zero:
        return [factor], no_tangents([factor])
    change = solved(factor, hermitian_from(da, True))
    change = solved(factor, change, left_side=False, transpose_a=True, conjugate_a=is_complex(factor))
    half = sub(lower_triangle(change), mul(diagonal_part(change), scalar(0.5, change)))
    return [factor], [product(factor, half)]


def cubic(share: float) -> Any:
    """A `flops` rule: `share` times n^3 operations for each n x n matrix, or times m n min(m, n) for m x n ones."""

    def flops(operands: Sequence[ShapedArray], results: Sequence[ShapedArray], **params: Any) -> int:
        return int(share * operands[0].size * min(operands[0].shape[-2:]))

    return flops


cholesky_p = register(
    Primitive(
        "cholesky",
        abstract=weak_if_all_are(_cholesky_abstract),
        sharding=batched_sharding(2),
        reference=_cholesky_reference,
        lower=_cholesky_lower,
        jvp=_cholesky_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: cholesky_p),
        flops=cubic(1 / 3),
    )
)


def symmetrized(x: Any) -> Any:
    """(A + A^H) / 2."""
    return mul(add(x, adjoint(x)), scalar(0.5, x))


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The Cholesky factor: the lower triangular L of A = L L^H.

    Args:
      x: [..., n, n], Hermitian and positive definite.
      symmetrize_input: takes (A + A^H) / 2; otherwise the lower triangle alone is read.

    Returns:
      L; nans where A is not positive definite.

    Raises:
      TypeError: the dtype is none of LAPACK's.
      ValueError: the matrices are not square.

    >>> from xpr import lax, numpy as jnp
    >>> lax.linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    check_matrices("cholesky", aval_of(x), square=True)
    return cholesky_p.bind(symmetrized(x) if symmetrize_input else x)


# -- lu_pivots_to_permutation: the order of rows that a sequence of exchanges makes


def _permutation_abstract(avals: Sequence[ShapedArray], *, permutation_size: int) -> list[ShapedArray]:
    (pivots,) = avals
    if pivots.dtype != dtypes.int32 or pivots.ndim < 1 or pivots.shape[-1] > permutation_size:
        raise TypeError(
            f"lu_pivots_to_permutation: takes pivots i32[..., k], at most permutation_size={permutation_size} of them, "
            f"and got {pivots.str_short()}."
        )
    return [ShapedArray((*pivots.shape[:-1], permutation_size), dtypes.int32)]


def _permutation_reference(values: Sequence[Any], *, permutation_size: int) -> list[Any]:
    (pivots,) = map(np.asarray, values)
    stack = pivots.shape[:-1]
    order = np.broadcast_to(np.arange(permutation_size, dtype=np.int32), (*stack, permutation_size)).copy()
    rows = order.reshape(math.prod(stack), permutation_size)
    for i, chosen in enumerate(pivots.reshape(len(rows), pivots.shape[-1]).T):
        every = np.arange(len(rows))
        rows[every, i], rows[every, chosen] = rows[every, chosen], rows[every, i].copy()
    return [order]


def _exchanged(i: Any, pivots: Any, order: Any) -> Any:
    """The order with elements number i and pivots[..., i] exchanged; in a stack, of all rows at once."""
    shape = aval_of(order).shape
    *stack, _ = shape
    chosen = dynamic_slice(pivots, (*[np.int32(0)] * len(stack), i), (*stack, 1))
    if not stack:
        chosen = reshape(chosen, ())
        first, second = (dynamic_slice(order, (at,), (1,), allow_negative_indices=False) for at in (i, chosen))
        for at, element in ((i, second), (chosen, first)):
            order = dynamic_update_slice(order, element, (at,), allow_negative_indices=False)
        return order
    chosen = reduce_sum(chosen, (len(stack),))
    positions = broadcasted_iota(dtypes.int32, shape, len(shape) - 1)
    is_first = eq(positions, i)
    is_second = eq(positions, broadcast_in_dim(chosen, shape, range(len(shape) - 1)))
    zero = full(shape, 0, dtypes.int32)
    first, second = (
        broadcast_in_dim(reduce_sum(select(where, order, zero), (len(shape) - 1,)), shape, range(len(shape) - 1))
        for where in (is_first, is_second)
    )
    return select(is_first, second, select(is_second, first, order))


def _permutation_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, permutation_size: int
) -> list[Value]:
    (pivots,), (out,) = operands, avals
    *stack, count = pivots.aval.shape
    if b.platform == "cuda" and pivots.aval.size:
        return library_calls.call(b, "cu_lu_pivots_to_permutation", operands, avals, len(stack))
    if out.size and count and all(native_calls.are_possible(b, aval) for aval in (pivots.aval, out)):
        sizes = math.prod(stack), permutation_size, count
        return native_calls.call(b, native.PERMUTATION, sizes, operands, avals)
    (order,) = written(b, lambda: [broadcasted_iota(dtypes.int32, out.shape, out.ndim - 1)], [])
    if not out.size or not count:
        return [order]

    start, end = b.constant(0, ShapedArray((), dtypes.int32)), b.dimension(count)

    def condition(inner: Builder, state: list[Value]) -> Value:
        return lower_comparison(inner, state[0], end, "LT")

    def advance(inner: Builder, state: list[Value]) -> list[Value]:
        def body(i: Any, pivots: Any, order: Any) -> list[Any]:
            return [add(i, np.int32(1)), _exchanged(i, pivots, order)]

        return written(inner, body, [state[0], pivots, state[1]])

    return b.while_loop(condition, advance, [start, order])[1:]


def _permutation_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: int) -> Any:
    outs = [lu_pivots_to_permutation_p.bind(*primals, **params)]
    return outs, no_tangents(outs)


lu_pivots_to_permutation_p = register(
    Primitive(
        "lu_pivots_to_permutation",
        abstract=weak_if_all_are(_permutation_abstract),
        sharding=batched_sharding(1),
        reference=_permutation_reference,
        lower=_permutation_lower,
        jvp=_permutation_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=Unsupported("it is set below"),
        exact=True,
    )
)


def _permutation_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: int) -> Any:
    return [lu_pivots_to_permutation_p.bind(mapped_to(values[0], dims[0], size), **params)], [0]


lu_pivots_to_permutation_p.batch = _permutation_batch


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The order of rows that a sequence of exchanges makes: of row i with row pivots[..., i], one after another.

    Args:
      pivots: i32[..., k].
      permutation_size: how many rows there are, k at least.

    Returns:
      i32[..., permutation_size]: the row that moves to each position.

    Raises:
      TypeError: the pivots are not of the dtype int32, or more than the rows; or the size is no integer.

    >>> from xpr import lax, numpy as jnp
    >>> lax.linalg.lu_pivots_to_permutation(jnp.array([2, 2]), 3)
    Array([2, 0, 1], dtype=int32)
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=as_size(permutation_size))


# -- lu: A with rows exchanged is L U. L (its diagonal ones) and U are packed in one matrix.


def _lu_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    (a,) = avals
    check_matrices("lu", a)
    *stack, m, n = a.shape
    return [
        ShapedArray(a.shape, a.dtype),
        ShapedArray((*stack, min_dim(m, n)), dtypes.int32),
        ShapedArray((*stack, m), dtypes.int32),
    ]


def _lu_reference(values: Sequence[Any]) -> list[Any]:
    """Gaussian elimination, with the element of largest |re| + |im| of each column as pivot."""
    (a,) = map(np.asarray, values)
    *stack, m, n = a.shape
    out, pivots = a.copy(), np.zeros((*stack, min(m, n)), np.int32)
    for index in np.ndindex(*stack):
        x = out[index]
        for k in range(min(m, n)):
            chosen = k + int(np.argmax(np.abs(x[k:, k].real) + np.abs(x[k:, k].imag)))
            pivots[(*index, k)] = chosen
            x[[k, chosen]] = x[[chosen, k]]
            if x[k, k] != 0:
                x[k + 1 :, k] /= x[k, k]
            x[k + 1 :, k + 1 :] -= np.outer(x[k + 1 :, k], x[k, k + 1 :])
    return [out, pivots, *_permutation_reference([pivots], permutation_size=m)]


def _lu_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    out, pivots, order = avals
    stack = out.ndim - 2
    if not out.size:
        positions = written(b, lambda: [broadcasted_iota(dtypes.int32, order.shape, order.ndim - 1)], [])
        return [operands[0], b.constant(0, pivots), *positions]
    if small_matrices.are_small(b, out):
        return small_matrices.lower_lu(b, operands[0], avals)
    target, _ = library_calls.routine(b, "lu", out, ("getrf", {}), ("cusolver_getrf_ffi", {}))
    info = ShapedArray(out.shape[:-2], dtypes.int32)
    factors, chosen, info_value = library_calls.call(b, target, operands, [out, pivots, info], stack, {}, {0: 0})
    (factors,) = library_calls.where_solved(b, info_value, [factors], or_more=True)  # more: a zero on the diagonal
    (chosen,) = written(b, lambda x: [sub(x, np.int32(1))], [chosen])
    return [factors, chosen, *_permutation_lower(b, [chosen], [order], permutation_size=order.shape[-1])]


def unpacked(factors: Any) -> tuple[Any, Any]:
    """L and U, [..., m, k] and [..., k, n], k the lesser of m and n."""
    *_, m, n = aval_of(factors).shape
    k = min_dim(m, n)
    left = leading(factors, m, k)
    return add(lower_triangle(left, -1), identity(aval_of(left))), upper_triangle(leading(factors, k, n))


def _lu_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """With M = L^-1 dA U^-1, dL is L times the part of M below the diagonal, and dU the other part of M times U.

    L and U are extended to square matrices by ones on the diagonal first.
    """
    (da,) = tangents
    outs = lu_p.bind(*primals)
    if type(da) is Zero:
        return outs, no_tangents(outs)
    factors, _, order = outs
    *_, m, n = aval_of(factors).shape
    k = min_dim(m, n)
    left, right = grown(leading(factors, m, k), m, m), grown(leading(factors, k, n), n, n)
    if n > k:
        corner = slice_in_dim(identity(aval_of(right)), k, n, axis=-2)
        right = concatenate([leading(right, k, n), corner], aval_of(right).ndim - 2)
    change = solved(left, permuted_rows(da, order), unit_diagonal=True)
    change = solved(right, change, left_side=False, lower=False)
    left = add(lower_triangle(left, -1), identity(aval_of(left)))
    below = product(left, lower_triangle(leading(change, m, k), -1))
    above = product(leading(upper_triangle(change), k, n), upper_triangle(right))
    tangent = add(grown(below, m, n), grown(above, m, n))
    return outs, [tangent, *no_tangents(outs[1:])]


lu_p = register(
    Primitive(
        "lu",
        abstract=weak_if_all_are(_lu_abstract),
        sharding=batched_sharding(2),
        reference=_lu_reference,
        lower=_lu_lower,
        jvp=_lu_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: lu_p),
        multiple_results=True,
        flops=cubic(2 / 3),
    )
)


def lu(x: Any) -> tuple[Any, Any, Any]:
    """The factors L and U of a matrix with its rows exchanged: A[permutation] = L U.

    Args:
      x: [..., m, n].

    Returns:
      L (below the diagonal; on it L has ones) and U in one array of x's shape; pivots i32[..., min(m, n)], the row that
      each row was exchanged with; the permutation i32[..., m] that these exchanges make.

    Raises:
      TypeError: the dtype is none of LAPACK's.

    >>> from xpr import lax, numpy as jnp
    >>> factors, pivots, permutation = lax.linalg.lu(jnp.array([[1., 2.], [2., 2.]]))
    >>> factors
    Array([[2. , 2. ],
           [0.5, 1. ]], dtype=float32)
    >>> permutation
    Array([1, 0], dtype=int32)
    """
    factors, pivots, permutation = lu_p.bind(x)
    return factors, pivots, permutation


class Factored(NamedTuple):
    """The factors of square matrices A, as `lu` gives them."""

    factors: Any
    pivots: Any
    permutation: Any

    def solve(self, b: Any) -> Any:
        """X of A X = B."""
        x = solved(self.factors, permuted_rows(b, self.permutation), unit_diagonal=True)
        return solved(self.factors, x, lower=False)

    def solve_transposed(self, b: Any) -> Any:
        """X of A^T X = B."""
        x = solved(self.factors, b, lower=False, transpose_a=True)
        x = solved(self.factors, x, transpose_a=True, unit_diagonal=True)
        return permuted_rows(x, inverse_permutation(self.permutation))


def inverse_permutation(order: Any) -> Any:
    """The inverse permutation."""
    positions = broadcasted_iota(dtypes.int32, aval_of(order).shape, aval_of(order).ndim - 1)
    return sort_key_val(order, positions)[1]
