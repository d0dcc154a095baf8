"""Linear equations, determinants and inverses, as NumPy names them.

A solution is differentiated as one (`custom_linear_solve`), a determinant by Jacobi's formula, and a pseudoinverse by
that of Golub and Pereyra (1973), so that the factors of the matrix are never differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes, tree
from xpr.control.compiled import compiled
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.custom.linear_solve import custom_linear_solve
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import aval_of
from xpr.numpy.contractions import matmul
from xpr.numpy.decompositions import default_tolerance, matrices_of
from xpr.numpy.einstein import einsum
from xpr.numpy.promotion import asarray_like, broadcast_shapes, convert, promote_dtypes
from xpr.numpy.reshaping import moveaxis, reshape
from xpr.primitives import elementwise as e
from xpr.primitives.linalg import eigen_svd
from xpr.primitives.linalg.factorizations import Factored, lu_p
from xpr.primitives.linalg.matrices import (
    adjoint,
    along_columns,
    diagonal_of,
    identity,
    product,
)
from xpr.primitives.precision import PrecisionLike
from xpr.primitives.reductions import reduce_max, reduce_prod
from xpr.primitives.shapes import broadcast_to, expand_dims, full, reduce_sum, squeeze
from xpr.primitives.slicing import broadcasted_iota, select


class SlogdetResult(NamedTuple):
    """What `slogdet` gives: the determinant is sign * exp(logabsdet)."""

    sign: Any
    logabsdet: Any


# -- Solutions


class Factorized:
    """Square matrices with their factors, for solutions and determinants that are differentiated as such."""

    def __init__(self, a: Any, factored: Factored | None = None):
        self.a, self.factored = a, factored or Factored(*lu_p.bind(stop_gradient(a)))

    def solve(self, b: Any) -> Any:
        return custom_linear_solve(
            lambda x: product(self.a, x),
            b,
            lambda matvec, b: self.factored.solve(b),
            lambda vecmat, b: self.factored.solve_transposed(b),
        )

    def sign_and_log(self) -> tuple[Any, Any]:
        """Of the determinants: the sign, and the logarithm of the absolute value."""
        return _sign_and_log(self.a, self.factored)


@compiled
def _solve(a: Any, b: Any) -> Any:
    """Of stacks of the same shape."""
    return Factorized(a).solve(b)


@compiled
def solve_with_log_det(a: Any, b: Any) -> Any:
    """The solution, and the logarithm of the absolute value of the determinants; of stacks of the same shape."""
    matrices = Factorized(a)
    return matrices.solve(b), matrices.sign_and_log()[1]


def solve(a: Any, b: Any) -> Any:
    """The solution x of a x = b.

    Args:
      a: [..., n, n].
      b: a vector [n], or matrices [..., n, m], whose columns are right-hand sides. Stacks broadcast.
    Returns:
      [..., n] or [..., n, m]. Where a matrix is singular there are infinities or nans.
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
        side_by_side = reshape(moveaxis(columns, -2, 0), (n, math.prod(stack) * m))
        return moveaxis(reshape(_solve(a, side_by_side), (n, *stack, m)), 0, -2)
    shape = broadcast_shapes(x.shape[:-2], tuple(stack))
    solution = _solve(broadcast_to(a, (*shape, n, n)), broadcast_to(columns, (*shape, n, m)))
    return squeeze(solution, (len(shape) + 1,)) if is_vector else solution


def inv(a: Any) -> Any:
    """The inverse of square matrices. To solve equations, `solve` is faster and more exact.

    Args:
      a: [..., n, n].
    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    a = matrices_of("inv", a, square=True)
    return _solve(a, identity(a.aval))


def matrix_power(a: Any, n: int) -> Any:
    """The n-th power of square matrices, of the inverse if n is negative; by repeated squaring.

    Raises:
      TypeError: n is not an integer.
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


# -- Determinants


def _in_32_bits(name: str, fun: Callable[[Any], Any], a: Any) -> Any:
    """A function of square matrices; those of 16-bit floats are converted for it, and its results converted back."""
    dtype = asarray_like(a).aval.dtype
    if dtype not in (dtypes.bfloat16, dtypes.float16):
        return fun(matrices_of(name, a, square=True))
    results = fun(matrices_of(name, convert(a, dtypes.float32), square=True))
    return tree.map(lambda x: convert(x, dtype), results)


@custom_jvp
def _sign_and_log(a: Any, factored: Factored) -> Any:
    diagonal = diagonal_of(factored.factors)
    last = aval_of(diagonal).ndim - 1
    sign = reduce_prod(e.sign(diagonal), (last,))
    places = broadcasted_iota(dtypes.int32, aval_of(diagonal).shape, last)
    exchanges = reduce_sum(e.convert_element_type(e.ne(factored.pivots, places), dtypes.int32), (last,))
    is_odd = e.eq(e.rem(exchanges, e.scalar(2, exchanges)), e.scalar(1, exchanges))
    log = reduce_sum(e.log(e.abs(diagonal)), (last,))
    return select(is_odd, e.neg(sign), sign), log


@_sign_and_log.defjvp
def _sign_and_log_jvp(primals: Any, tangents: Any) -> Any:
    """log det A changes by the trace of A^-1 dA, whose imaginary part turns the sign."""
    (a, factored), (da, _) = primals, tangents
    sign, log = _sign_and_log(a, factored)
    change = reduce_sum(diagonal_of(Factorized(a, factored).solve(da)), (aval_of(a).ndim - 2,))
    if a.aval.dtype not in dtypes.COMPLEX:
        return (sign, log), (full(sign.aval.shape, 0, sign.aval.dtype), change)
    turn = e.complex_(full(log.aval.shape, 0, log.aval.dtype), e.imag(change))
    return (sign, log), (e.mul(sign, turn), e.real(change))


@compiled
def _slogdet(a: Any) -> Any:
    return Factorized(a).sign_and_log()


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """The sign and the logarithm of the absolute value of determinants.

    Args:
      a: [..., n, n]; of 16-bit floats they are computed in 32 bits.
      method: None or "lu": the determinant is found from LU factors.
    Returns:
      `(sign [...], logabsdet [...])`; the sign of complex determinants has the absolute value 1. For singular matrices
      0 and -inf.
    Raises:
      ValueError: the matrices are not square, or there is no such method.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.slogdet(jnp.array([[0., 1.], [1., 0.]]))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    if method not in (None, "lu"):
        raise ValueError(f"slogdet: the method is None or 'lu', and not {method!r}.")
    return SlogdetResult(*_in_32_bits("slogdet", _slogdet, a))


@compiled
def _det(a: Any) -> Any:
    """Small ones by their polynomial, whose derivative is right also where it is 0."""
    n = aval_of(a).shape[-1]
    if n == 0:
        return full(aval_of(a).shape[:-2], 1, aval_of(a).dtype)
    if n <= 3:
        rows = [[a[..., i, j] for j in range(n)] for i in range(n)]
        return _expanded(rows)
    sign, log = Factorized(a).sign_and_log()
    return e.mul(sign, e.convert_element_type(e.exp(log), aval_of(sign).dtype))


def _expanded(rows: Sequence[Sequence[Any]]) -> Any:
    """By the first row, whose entries go with the determinants of what is left."""
    if len(rows) == 1:
        return rows[0][0]
    total = None
    for j, entry in enumerate(rows[0]):
        term = e.mul(entry, _expanded([[*row[:j], *row[j + 1 :]] for row in rows[1:]]))
        total = term if total is None else e.sub(total, term) if j % 2 else e.add(total, term)
    return total


def det(a: Any) -> Any:
    """The determinants of square matrices. Of large matrices they overflow: see `slogdet`.

    Args:
      a: [..., n, n]; of 16-bit floats they are computed in 32 bits.
    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.det(jnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    return _in_32_bits("det", _det, a)


# -- Least squares


@custom_jvp
def _pseudoinverse(a: Any, rtol: Any) -> Any:
    """The pseudoinverse, and the singular values, of which those up to `rtol` times the greatest are zero."""
    u, s, vh = eigen_svd.svd(a, full_matrices=False)
    bound = e.mul(reduce_max(s, (aval_of(s).ndim - 1,)), rtol)
    counts = e.gt(s, broadcast_to(expand_dims(bound, (-1,)), aval_of(s).shape))
    ones = full(aval_of(s).shape, 1, aval_of(s).dtype)
    inverses = select(counts, e.div(ones, select(counts, s, ones)), full(aval_of(s).shape, 0, aval_of(s).dtype))
    v = adjoint(vh)
    scaled = e.mul(v, along_columns(e.convert_element_type(inverses, aval_of(v).dtype), v))
    return product(scaled, adjoint(u)), s


@_pseudoinverse.defjvp
def _pseudoinverse_jvp(primals: Any, tangents: Any) -> Any:
    (a, rtol), (da, _) = primals, tangents
    p, s = _pseudoinverse(a, rtol)
    ap, pa = product(a, p), product(p, a)
    dah, ph = adjoint(da), adjoint(p)
    spread = product(p, product(ph, e.sub(dah, product(dah, ap))))
    turned = product(e.sub(dah, product(pa, dah)), product(ph, p))
    dp = e.sub(e.add(spread, turned), product(p, product(da, p)))
    u, _, vh = eigen_svd.svd(a, full_matrices=False)
    ds = diagonal_of(product(adjoint(u), product(da, adjoint(vh))))
    return (p, s), (dp, e.real(ds) if a.aval.dtype in dtypes.COMPLEX else ds)


@compiled
def _pinv(a: Any, rtol: Any) -> Any:
    return _pseudoinverse(a, rtol)


def _tolerance(rtol: Any, a: Any, factor: float = 1) -> Any:
    dtype = dtypes.real_part_of(a.aval.dtype)
    if rtol is None:
        rtol = factor * default_tolerance(a.aval)
    return broadcast_to(e.convert_element_type(asarray_like(rtol), dtype), a.aval.shape[:-2])


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The Moore-Penrose pseudoinverse of matrices.

    Args:
      a: [..., m, n].
      rtol: singular values up to so much of the greatest are zero; 10 times the greater of m and n times epsilon by
        default. One for each matrix if it is an array.
      hermitian: accepted as a promise that the matrices are Hermitian.
      rcond: stands for rtol.
    Returns:
      [..., n, m].

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.pinv(jnp.array([[2., 0.], [0., 4.], [0., 0.]]))
    Array([[0.5 , 0.  , 0.  ],
           [0.  , 0.25, 0.  ]], dtype=float32)
    """
    a = matrices_of("pinv", a, square=hermitian)
    return _pinv(a, _tolerance(rtol if rtol is not None else rcond, a, 10))[0]


def lstsq(a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False) -> tuple[Any, Any, Any, Any]:
    """The x for which the sum of squares of b - a x is least, and of those the shortest.

    Args:
      a: [m, n].
      b: [m], or [m, k].
      rcond: singular values up to so much of the greatest are zero; the greater of m and n times epsilon by default.
      numpy_resid: gives no residuals (an empty array) where NumPy gives none: where a has not the rank n, or m <= n.
        It can't be traced.
    Returns:
      x [n] or [n, k]; the sums of squares of what is left, [1] or [k]; the rank; the singular values.
    Raises:
      ValueError: a is no matrix, or b doesn't fit.

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
        return full((n, *kept), 0, a.aval.dtype), full((0,), 0, real), np.int32(0), full((0,), 0, real)
    rtol = _tolerance(rcond if rcond is None or rcond >= 0 else None, a)
    p, s = _pinv(a, rtol)
    x = matmul(p, b)
    rank = reduce_sum(
        e.convert_element_type(e.gt(s, broadcast_to(e.mul(s[0], rtol), s.aval.shape)), dtypes.int32), (0,)
    )
    if numpy_resid and (int(rank) < n or m <= n):
        return x, full((0,), 0, s.aval.dtype), rank, s
    rest = b - matmul(a, x)
    squares = e.square(e.abs(rest)) if rest.aval.dtype in dtypes.COMPLEX else e.square(rest)
    return x, reduce_sum(squares if squares.aval.ndim == 2 else expand_dims(squares, (1,)), (0,)), rank, s


# -- Tensors, and products of several


def tensorsolve(a: Any, b: Any, axes: tuple[int, ...] | None = None) -> Any:
    """The solution x of tensordot(a, x, x.ndim) = b.

    Args:
      a: its first axes are those of b, the others those of x; the product of sizes is the same for both.
      b: any array.
      axes: axes of a to be moved to its end first.
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


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of tensordot(a, ., ind): an array whose first axes are the last of a.

    Args:
      a: the product of the sizes of its first `ind` axes is that of the others.
    Raises:
      ValueError: it is not, or `ind` is not positive.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.tensorinv(jnp.ones((2, 2, 4)) + jnp.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    a = asarray_like(a)
    first, last = a.aval.shape[:ind], a.aval.shape[ind:]
    if ind <= 0 or math.prod(first) != math.prod(last):
        raise ValueError(
            f"tensorinv: ind={ind} must be positive and cut {a.aval.str_short()} into axes whose sizes have the same "
            f"product, and they are {math.prod(first)} and {math.prod(last)}."
        )
    return reshape(inv(reshape(a, (math.prod(first), math.prod(last)))), (*last, *first))


def multi_dot(arrays: Sequence[Any], *, precision: PrecisionLike = None) -> Any:
    """The product of several matrices, in the order that takes the fewest operations.

    Args:
      arrays: two or more; the first may be a vector (a row) and the last (a column).
    Raises:
      ValueError: there are fewer than two, or one has another number of axes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)])
    Array([12., 12.], dtype=float32)
    """
    made = promote_dtypes(*map(asarray_like, arrays)) if len(arrays) > 1 else []
    ndims = [aval_of(x).ndim for x in made]
    if not made or not all(n in ((1, 2) if i in (0, len(made) - 1) else (2,)) for i, n in enumerate(ndims)):
        raise ValueError(f"multi_dot: takes two matrices or more, the ends maybe vectors, and got axes {ndims}.")
    labels: list[tuple[int, ...]] = [(i, i + 1) for i in range(len(made))]
    labels[0] = labels[0][2 - ndims[0] :]
    labels[-1] = labels[-1][: ndims[-1]]
    result = [axis for axis, end in ((0, 0), (len(made), -1)) if ndims[end] == 2]
    operands = [part for pair in zip(made, map(list, labels)) for part in pair]
    return einsum(*operands, result, optimize="optimal", precision=precision)
