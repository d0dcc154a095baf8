"""Linear equations, inverses and least squares, as NumPy names them.

A solution is differentiated as one (`custom_linear_solve`), and a pseudoinverse by the formula of Golub and Pereyra
(1973), so that the factors of the matrix are never differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.custom.linear_solve import custom_linear_solve
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import aval_of
from xpr.numpy.contractions import matmul
from xpr.numpy.decompositions import default_tolerance, matrices_of
from xpr.numpy.einstein import einsum
from xpr.numpy.promotion import asarray_like, promote_dtypes
from xpr.numpy.reshaping import moveaxis, reshape
from xpr.numpy.where_select import where
from xpr.primitives import elementwise as e
from xpr.primitives.composites import broadcast_shapes
from xpr.primitives.linalg import eigen_svd
from xpr.primitives.linalg.factorizations import Factored, lu_p, symmetrized
from xpr.primitives.linalg.matrices import (
    adjoint,
    along_columns,
    diagonal_of,
    identity,
    product,
)
from xpr.primitives.precision import PrecisionLike
from xpr.primitives.reductions import reduce_max
from xpr.primitives.shapes import broadcast_to, expand_dims, full, reduce_sum, squeeze
from xpr.primitives.sharding_constraint import constrain_to
from xpr.primitives.slicing import select

# -- Solutions


class Factorized:
    """Square matrices with their LU factors, which solutions and determinants are computed from."""

    def __init__(self, a: Any, factored: Factored | None = None):
        self.a, self.factored = a, factored or Factored(*lu_p.bind(stop_gradient(a)))

    def solve(self, b: Any) -> Any:
        a, b = _partitioned_alike(self.a, b)
        return custom_linear_solve(
            lambda x: product(a, x),
            b,
            lambda matvec, b: self.factored.solve(b),
            lambda vecmat, b: self.factored.solve_transposed(b),
        )


@compiled
def _solve(a: Any, b: Any) -> Any:
    """The solution of stacks of equations of the same shape."""
    return Factorized(a).solve(b)


def _partitioned_alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands partitioned over Explicit axes as the stack of the first one that is, with whole matrices."""
    explicit = [x.aval.explicit for x in (a, b)]
    first = next((each for each in explicit if each is not None), None)
    if first is None or any(each is not None and each.is_undecided for each in explicit):
        return a, b
    target = first.with_parts([*first.spec[:-2], None, None])
    return constrain_to(a, a.aval.with_explicit(target)), constrain_to(b, b.aval.with_explicit(target))


@compiled_eagerly()
def solve(a: Any, b: Any) -> Any:
    """The solution x of the linear equations a x = b.

    Args:
      a: matrices [..., n, n].
      b: a vector [n], or matrices [..., n, m], whose columns are right-hand sides; stacks broadcast.

    Returns:
      [..., n] or [..., n, m]; infinities or nans where a matrix is singular.

    Raises:
      ValueError: the matrices are not square, or the shapes don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.solve(jnp.array([[2., 0.], [0., 4.]]), jnp.array([2., 2.]))
    Array([1. , 0.5], dtype=float32)
    """
    a, b = matrices_of("solve", a, b, square=True)
    x, y = a.aval, aval_of(b)
    is_vector = y.ndim == 1
    if y.ndim == 0 or y.shape[0 if is_vector else -2] != x.shape[-1]:
        advice = " A stack of vectors is b[..., None], and the result [..., 0]." if y.ndim == x.ndim - 1 else ""
        raise ValueError(
            f"solve: a and b are {x.str_short()} and {y.str_short()}: b must be a vector [{x.shape[-1]}], or matrices "
            f"of {x.shape[-1]} rows.{advice}"
        )
    if x.ndim == y.ndim == 2:
        return _solve(a, b)
    columns = expand_dims(b, (-1,)) if is_vector else b
    *stack, n, m = aval_of(columns).shape
    if x.ndim == 2 and stack:  # one matrix: all columns together
        matrix = reshape(moveaxis(columns, -2, 0), (n, math.prod(stack) * m))
        return moveaxis(reshape(_solve(a, matrix), (n, *stack, m)), 0, -2)
    shape = broadcast_shapes(x.shape[:-2], tuple(stack))
    solution = _solve(broadcast_to(a, (*shape, n, n)), broadcast_to(columns, (*shape, n, m)))
    return squeeze(solution, (len(shape) + 1,)) if is_vector else solution


@compiled_eagerly()
def inv(a: Any) -> Any:
    """The inverse of square matrices; to solve equations `solve` is faster and more exact.

    Args:
      a: [..., n, n].

    Returns:
      [..., n, n]; infinities or nans where a matrix is singular.

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    a = matrices_of("inv", a, square=True)
    return _solve(a, identity(a.aval))


@compiled_eagerly("n")
def matrix_power(a: Any, n: int) -> Any:
    """The n-th power of square matrices, by repeated squaring; of their inverses for negative n.

    Args:
      a: matrices [..., m, m].
      n: an integer.

    Returns:
      [..., m, m].

    Raises:
      TypeError: `n` is not an integer.
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [1, 0]]), 10)
    Array([[89, 55],
           [55, 34]], dtype=int32)
    """
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
        raise TypeError(f"matrix_power: the exponent must be an integer, and is {n!r}.")
    a = asarray_like(a)
    if a.aval.ndim < 2 or a.aval.shape[-1] != a.aval.shape[-2]:
        raise ValueError(f"matrix_power: takes square matrices, and got {a.aval.str_short()}.")
    if n == 0:
        return identity(a.aval)
    if n < 0:
        a, n = inv(a), -n
    result = None
    while True:
        if n % 2:
            result = a if result is None else matmul(result, a)
        n //= 2
        if not n:
            return result
        a = matmul(a, a)


# -- Least squares


def _pseudoinverse_factors(a: Any, rtol: Any) -> tuple[Any, Any, Any]:
    """Two factors of the pseudoinverse, and the singular values."""
    u, s, vh = eigen_svd.svd(a, full_matrices=False)
    bound = e.mul(reduce_max(s, (aval_of(s).ndim - 1,)), rtol)
    counts = e.gt(s, broadcast_to(expand_dims(bound, (-1,)), aval_of(s).shape))
    ones = full(aval_of(s).shape, 1, aval_of(s).dtype)
    inverses = select(counts, e.div(ones, select(counts, s, ones)), full(aval_of(s).shape, 0, aval_of(s).dtype))
    v = adjoint(vh)
    scaled = e.mul(v, along_columns(e.convert_element_type(inverses, aval_of(v).dtype), v))
    return scaled, adjoint(u), s


@custom_jvp
def _pseudoinverse(a: Any, rtol: Any) -> Any:
    """The pseudoinverse and the singular values, of which those up to `rtol` times the greatest count as zero."""
    scaled, uh, s = _pseudoinverse_factors(a, rtol)
    return product(scaled, uh), s


@_pseudoinverse.defjvp
def _pseudoinverse_jvp(primals: Any, tangents: Any) -> Any:
    (a, rtol), (da, _) = primals, tangents
    p, s = _pseudoinverse(a, rtol)
    ap, pa = product(a, p), product(p, a)
    dah, ph = adjoint(da), adjoint(p)
    first_term = product(p, product(ph, e.sub(dah, product(dah, ap))))
    second_term = product(e.sub(dah, product(pa, dah)), product(ph, p))
    dp = e.sub(e.add(first_term, second_term), product(p, product(da, p)))
    u, _, vh = eigen_svd.svd(a, full_matrices=False)
    ds = diagonal_of(product(adjoint(u), product(da, adjoint(vh))))
    return (p, s), (dp, e.real(ds) if a.aval.dtype in dtypes.COMPLEX else ds)


@custom_jvp
def _least_squares(a: Any, b: Any, rtol: Any) -> Any:
    """The product of the pseudoinverse, which is not computed, and `b`; and the singular values."""
    scaled, uh, s = _pseudoinverse_factors(a, rtol)
    return product(scaled, product(uh, b)), s


@_least_squares.defjvp
def _least_squares_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, rtol), (da, db, _) = primals, tangents
    (p, s), (dp, ds) = _pseudoinverse_jvp((a, rtol), (da, None))
    return (product(p, b), s), (e.add(product(dp, b), product(p, db)), ds)


@compiled
def _lstsq(a: Any, b: Any, rtol: Any) -> Any:
    return _least_squares(a, b, rtol)


@compiled
def _pinv(a: Any, rtol: Any) -> Any:
    return _pseudoinverse(a, rtol)


def _tolerance(rtol: Any, a: Any, factor: float = 1) -> Any:
    dtype = dtypes.real_part_of(a.aval.dtype)
    if rtol is None:
        rtol = factor * default_tolerance(a.aval)
    return broadcast_to(e.convert_element_type(asarray_like(rtol), dtype), a.aval.shape[:-2])


@compiled_eagerly()
def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The Moore-Penrose pseudoinverses of matrices.

    Args:
      a: matrices [..., m, n].
      rtol: singular values up to `rtol` times the greatest count as 0: a number, or one for each matrix; None for 10
        max(m, n) epsilon.
      hermitian: a promise that the matrices are Hermitian; the Hermitian part is taken of others.
      rcond: another name for `rtol`.

    Returns:
      [..., n, m].

    Raises:
      ValueError: both names of the tolerance are given.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.pinv(jnp.array([[2., 0.], [0., 4.], [0., 0.]]))
    Array([[0.5 , 0.  , 0.  ],
           [0.  , 0.25, 0.  ]], dtype=float32)
    """
    if rtol is not None and rcond is not None:
        raise ValueError("pinv: only one of rtol and rcond may be specified.")
    a = matrices_of("pinv", a, square=hermitian)
    a = symmetrized(a) if hermitian else a
    return _pinv(a, _tolerance(rtol if rtol is not None else rcond, a, 10))[0]


@compiled_eagerly()
def lstsq(a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False) -> tuple[Any, Any, Any, Any]:
    """The least-squares solution x of a x = b, which minimizes |b - a x|; of several the one of least norm.

    Args:
      a: a matrix [m, n].
      b: [m] or [m, k].
      rcond: singular values up to `rcond` times the greatest count as 0; None for max(m, n) epsilon, and a negative
        number for epsilon.
      numpy_resid: whether residuals are an empty array where they are in NumPy: where the rank is not n, or m <= n. It
        can't be traced.

    Returns:
      `(x [n] or [n, k], sums of squared residuals [1] or [k], rank, singular values)`.

    Raises:
      ValueError: `a` is not a matrix, or `b` doesn't fit.

    >>> import xpr.numpy as jnp
    >>> a = jnp.array([[1., 0.], [1., 1.], [1., 2.]])
    >>> jnp.linalg.lstsq(a, jnp.array([1., 3., 5.]))[0].round(3)
    Array([1., 2.], dtype=float32)
    """
    a, b = matrices_of("lstsq", a, b)
    if a.aval.ndim != 2 or b.aval.ndim not in (1, 2) or b.aval.shape[0] != a.aval.shape[0]:
        raise ValueError(
            f"lstsq: takes a matrix [m, n] and b [m] or [m, k], and got {a.aval.str_short()} and {b.aval.str_short()}."
        )
    m, n = a.aval.shape
    if a.aval.size == 0:
        kept = b.aval.shape[1:]
        real = dtypes.real_part_of(a.aval.dtype)
        squares = e.square(e.abs(b if b.aval.ndim == 2 else expand_dims(b, (1,))))
        residuals = full((0,), 0, real) if numpy_resid and m <= n else reduce_sum(squares, (0,))
        return full((n, *kept), 0, a.aval.dtype), residuals, full((), 0, dtypes.of_python(int)), full((0,), 0, real)
    if rcond is not None:
        rcond = where(asarray_like(rcond) < 0, float(dtypes.finfo(dtypes.real_part_of(a.aval.dtype)).eps), rcond)
    rtol = _tolerance(rcond, a)
    x, s = _lstsq(a, b if b.aval.ndim == 2 else expand_dims(b, (1,)), rtol)
    x = reshape(x, (n, *b.aval.shape[1:]))
    rank = reduce_sum(
        e.convert_element_type(e.gt(s, broadcast_to(e.mul(s[0], rtol), s.aval.shape)), dtypes.of_python(int)), (0,)
    )
    if numpy_resid and (int(rank) < n or m <= n):
        return x, full((0,), 0, s.aval.dtype), rank, s
    residual = b - matmul(a, x)
    squares = e.square(e.abs(residual)) if residual.aval.dtype in dtypes.COMPLEX else e.square(residual)
    return x, reduce_sum(squares if squares.aval.ndim == 2 else expand_dims(squares, (1,)), (0,)), rank, s


# -- Tensors, and products of several


@compiled_eagerly("axes")
def tensorsolve(a: Any, b: Any, axes: tuple[int, ...] | None = None) -> Any:
    """The solution x of tensordot(a, x, x.ndim) = b.

    Args:
      a: an array whose first axes are those of `b`, and the others those of x, with the same product of sizes.
      b: an array.
      axes: axes of `a` that are moved to its end first; None for none.

    Returns:
      An array with the other axes of `a`.

    Raises:
      ValueError: the sizes don't fit.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.tensorsolve(2 * jnp.eye(4).reshape(2, 2, 2, 2), jnp.ones((2, 2)))
    Array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    a, b = asarray_like(a), asarray_like(b)
    if axes is not None:
        a = moveaxis(a, axes, tuple(range(a.aval.ndim - len(axes), a.aval.ndim)))
    kept = a.aval.shape[b.aval.ndim :]
    if math.prod(kept) != b.aval.size or a.aval.size != b.aval.size**2:
        raise ValueError(
            f"tensorsolve: {a.aval.str_short()} is no square matrix for b, {b.aval.str_short()}: its first axes must "
            "be those of b, and the sizes of the others have the same product."
        )
    flat = solve(reshape(a, (b.aval.size, b.aval.size)), reshape(b, (b.aval.size,)))
    return reshape(flat, kept)


@compiled_eagerly("ind")
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of tensordot(a, x, ind) as a function of x: an array whose first axes are the last ones of a.

    Args:
      a: an array; the product of its first `ind` sizes is that of the others.
      ind: the number of first axes.

    Returns:
      An array.

    Raises:
      ValueError: the products differ, or `ind` is not positive.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.tensorinv(jnp.ones((2, 2, 4)) + jnp.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    a = asarray_like(a)
    first, last = a.aval.shape[:ind], a.aval.shape[ind:]
    if ind <= 0 or math.prod(first) != math.prod(last):
        raise ValueError(
            f"tensorinv: ind={ind} must be positive and split {a.aval.str_short()} into axes whose sizes have the same "
            f"product, and they are {math.prod(first)} and {math.prod(last)}."
        )
    return reshape(inv(reshape(a, (math.prod(first), math.prod(last)))), (*last, *first))


def multi_dot(arrays: Sequence[Any], *, precision: PrecisionLike = None) -> Any:
    """The product of several matrices, in the order that needs the fewest operations.

    Args:
      arrays: two or more matrices; the first may be a vector (a row) and the last one (a column).
      precision: of products, see `lax.Precision`; None for the default.

    Returns:
      The product; [m, n], without m or n for vectors.

    Raises:
      ValueError: there are fewer than two, or one has another number of axes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)])
    Array([12., 12.], dtype=float32)
    """
    factors = promote_dtypes(*map(asarray_like, arrays)) if len(arrays) > 1 else []
    ndims = [aval_of(x).ndim for x in factors]
    if not factors or not all(n in ((1, 2) if i in (0, len(factors) - 1) else (2,)) for i, n in enumerate(ndims)):
        raise ValueError(f"multi_dot: takes two matrices or more, the ends maybe vectors, and got axes {ndims}.")
    labels: list[tuple[int, ...]] = [(i, i + 1) for i in range(len(factors))]
    labels[0] = labels[0][2 - ndims[0] :]
    labels[-1] = labels[-1][: ndims[-1]]
    result = [axis for axis, end in ((0, 0), (len(factors), -1)) if ndims[end] == 2]
    operands = [part for pair in zip(factors, map(list, labels)) for part in pair]
    return einsum(*operands, result, optimize="optimal", precision=precision)
