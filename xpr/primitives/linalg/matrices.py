"""Operations on stacks of matrices, [..., rows, columns], that the rules of solves and decompositions share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.errors import ArgumentError, UnsupportedDtype
from xpr.primitives.dot import dot_general_p
from xpr.primitives.elementwise import add, conj, eq, ge, mul, scalar
from xpr.primitives.gather.gather_scatter import gather_p
from xpr.primitives.gather.windows import PROMISE_IN_BOUNDS, GatherDimensionNumbers
from xpr.primitives.precision import Precision
from xpr.primitives.shapes import broadcast_in_dim, expand_dims, full, mapped_to, reduce_sum, reshape, transpose
from xpr.primitives.slicing import broadcasted_iota, select, slice_in_dim

LAPACK_DTYPES = frozenset({dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128})


def check_matrices(name: str, aval: ShapedArray, square: bool = False) -> None:
    """Raises TypeError or ValueError if an operand is not a stack of (square) matrices of a dtype that LAPACK has."""
    if aval.dtype not in LAPACK_DTYPES:
        raise UnsupportedDtype(
            f"{name}: Unsupported dtype {aval.dtype.name}. It computes in floats or complex numbers of 32 or 64 bits a "
            f"part, and got {aval.str_short()}. Convert it first."
        )
    if aval.ndim < 2:
        raise ArgumentError(f"{name}: takes matrices, or stacks of them, and got {aval.str_short()}.")
    if square and aval.shape[-1] != aval.shape[-2]:
        raise ValueError(f"{name}: takes square matrices, and got {aval.str_short()}.")


def weak_if_all_are(abstract: Callable[..., list[ShapedArray]]) -> Callable[..., list[ShapedArray]]:
    """The typing rule, with results that are weakly typed where all operands are, as of elementwise operations."""

    @functools.wraps(abstract)
    def typed(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
        outs = abstract(avals, **params)
        return [out.update(weak_type=True) for out in outs] if all(a.weak_type for a in avals) else outs

    return typed


def is_complex(x: Any) -> bool:
    return aval_of(x).dtype in dtypes.COMPLEX


def transposed(x: Any) -> Any:
    """Each matrix with rows and columns exchanged."""
    ndim = aval_of(x).ndim
    return transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def conjugated(x: Any) -> Any:
    return conj(x) if is_complex(x) else x


def adjoint(x: Any) -> Any:
    """The transposed and conjugated matrices."""
    return conjugated(transposed(x))


def product(x: Any, y: Any, precision: Any = (Precision.HIGHEST, Precision.HIGHEST)) -> Any:
    """x y, of stacks of the same shape; in full precision wherever it runs."""
    ndim = aval_of(x).ndim
    stack = tuple(range(ndim - 2))
    numbers = (((ndim - 1,), (ndim - 2,)), (stack, stack))
    dtype = aval_of(x).dtype
    return dot_general_p.bind(x, y, dimension_numbers=numbers, precision=precision, preferred_element_type=dtype)


def _rows_and_columns(shape: Sequence[int]) -> tuple[Any, Any]:
    """The row and the column of each element."""
    last = len(shape) - 1
    return broadcasted_iota(dtypes.int32, shape, last - 1), broadcasted_iota(dtypes.int32, shape, last)


def _on_diagonal(shape: Sequence[int]) -> Any:
    return eq(*_rows_and_columns(shape))


def _on_or_below(shape: Sequence[int], k: int = 0) -> Any:
    """Whether each element is on or below the k-th diagonal above the main one."""
    rows, columns = _rows_and_columns(shape)
    return ge(add(rows, scalar(k, rows)) if k else rows, columns)


def lower_triangle(x: Any, k: int = 0) -> Any:
    """The elements on and below the k-th diagonal; zeros above."""
    aval = aval_of(x)
    return select(_on_or_below(aval.shape, k), x, full(aval.shape, 0, aval.dtype))


def upper_triangle(x: Any, k: int = 0) -> Any:
    """The elements on and above the k-th diagonal; zeros below."""
    aval = aval_of(x)
    return select(_on_or_below(aval.shape, k - 1), full(aval.shape, 0, aval.dtype), x)


def triangle(x: Any, lower: bool, k: int = 0) -> Any:
    """The lower triangle up to the k-th diagonal below the main one, or the upper from the k-th above."""
    return lower_triangle(x, -k) if lower else upper_triangle(x, k)


def diagonal_part(x: Any) -> Any:
    """The matrices with zeros everywhere but on the diagonal."""
    aval = aval_of(x)
    return select(_on_diagonal(aval.shape), x, full(aval.shape, 0, aval.dtype))


def diagonal_of(x: Any) -> Any:
    """The diagonals of square matrices, as vectors: by rows, every (n + 1)-th element; sums of rows without the others,
    where n is symbolic.
    """
    *stack, n, _ = aval_of(x).shape
    if is_symbolic_dim(n):
        return reduce_sum(diagonal_part(x), (len(stack) + 1,))
    return slice_in_dim(reshape(x, (*stack, n * n)), 0, n * n, n + 1, axis=len(stack))


def identity(aval: ShapedArray) -> Any:
    """Matrices of a type with ones on the diagonal and zeros elsewhere."""
    return diagonal_part(full(aval.shape, 1, aval.dtype))


def along_columns(v: Any, x: Any) -> Any:
    """Vectors [..., columns] repeated for each row of x."""
    shape = aval_of(x).shape
    return broadcast_in_dim(v, shape, (*range(len(shape) - 2), len(shape) - 1))


def along_rows(v: Any, x: Any) -> Any:
    """Vectors [..., rows] repeated for each column of x."""
    shape = aval_of(x).shape
    return broadcast_in_dim(v, shape, range(len(shape) - 1))


def hermitian_from(x: Any, lower: bool) -> Any:
    """The Hermitian matrices from one triangle, and the real part of the diagonal."""
    strict = triangle(x, lower, 1)
    diagonal = diagonal_part(x)
    if is_complex(x):
        diagonal = mul(add(diagonal, conj(diagonal)), scalar(0.5, diagonal))
    return add(add(strict, diagonal), adjoint(strict))


def permuted_rows(x: Any, permutation: Any) -> Any:
    """Matrices whose i-th row is row number permutation[..., i] of x."""
    *stack, _, columns = aval_of(x).shape
    if not aval_of(x).size:
        return x
    n = len(stack)
    return gather_p.bind(
        x,
        expand_dims(permutation, [n + 1]),
        dimension_numbers=GatherDimensionNumbers((n + 1,), (n,), (n,), tuple(range(n)), tuple(range(n))),
        slice_sizes=(*[1] * (n + 1), columns),
        indices_are_sorted=False,
        unique_indices=True,
        mode=PROMISE_IN_BOUNDS,
        fill_value=None,
    )


def no_tangents(outs: Sequence[Any]) -> list[Any]:
    """The tangents of results that do not depend on inputs differentiably."""
    return [Zero.from_primal_value(out) for out in outs]


def batch_stacks(find: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batch rule of an operation on stacks, of the primitive that `find` returns.

    The mapped axis is one more axis of the stack, the first.
    """

    def batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        primitive = find()
        outs = primitive.bind(*[mapped_to(x, d, size) for x, d in zip(values, dims)], **params)
        outs = outs if primitive.multiple_results else [outs]
        return outs, [0] * len(outs)

    return batch


def one_by_one(compute: Callable[..., Sequence[Any]], operands: Sequence[Any], shapes: Sequence[ShapedArray]) -> Any:
    """Runs a function of single matrices on a stack, in NumPy; where it raises LinAlgError, the results are nan."""
    stack = shapes[0].shape[: len(operands[0].shape) - 2]
    outs = [np.empty(a.shape, a.dtype) for a in shapes]
    for index in np.ndindex(*stack):
        try:
            results = compute(*[x[index] for x in operands])
        except np.linalg.LinAlgError:
            results = [np.nan] * len(outs)
        for out, value in zip(outs, results):
            out[index] = value
    return outs
