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
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.cond.function import cond
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.custom.linear_solve import custom_linear_solve
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import surely_below
from xpr.numpy.contractions import matmul
from xpr.numpy.decompositions import default_tolerance, matrices_of
from xpr.numpy.einstein import einsum
from xpr.numpy.promotion import asarray_like, convert, promote_dtypes
from xpr.numpy.reshaping import moveaxis, reshape
from xpr.numpy.where_select import where
from xpr.primitives import elementwise as e
from xpr.primitives.composites import broadcast_shapes
from xpr.primitives.cumulative import cumprod
from xpr.primitives.linalg import eigen_svd
from xpr.primitives.linalg.factorizations import Factored, lu_p, symmetrized
from xpr.primitives.linalg.matrices import (
    adjoint,
    along_columns,
    along_rows,
    diagonal_of,
    identity,
    product,
    transposed,
)
from xpr.primitives.precision import PrecisionLike
from xpr.primitives.reductions import reduce_and, reduce_max, reduce_min, reduce_prod
from xpr.primitives.shapes import broadcast_to, expand_dims, full, reduce_sum, squeeze
from xpr.primitives.slicing import broadcasted_iota, concatenate, select, slice_in_dim


class SlogdetResult(NamedTuple):
    """The result of `slogdet`: the determinant is sign * exp(logabsdet)."""

    sign: Any
    logabsdet: Any


# -- Solutions


class Factorized:
    """Square matrices with their LU factors, which solutions and determinants are computed from."""

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
        """The signs of the determinants, and the logarithms of their absolute values."""
        return _sign_and_log(self.a, self.factored)


@compiled
def _solve(a: Any, b: Any) -> Any:
    """The solution of stacks of equations of the same shape."""
    return Factorized(a).solve(b)


@compiled
def solve_with_log_det(a: Any, b: Any) -> Any:
    """The solution, and the logarithm of the absolute value of the determinants; of stacks of the same shape."""
    matrices = Factorized(a)
    return matrices.solve(b), matrices.sign_and_log()[1]


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


# -- Determinants


def _in_32_bits(name: str, fun: Callable[[Any], Any], a: Any) -> Any:
    """A function of square matrices; those of 16-bit floats are converted for it, and its results converted back."""
    dtype = asarray_like(a).aval.dtype
    if dtype not in (dtypes.bf16, dtypes.float16):
        return fun(matrices_of(name, a, square=True))
    results = fun(matrices_of(name, convert(a, dtypes.float32), square=True))
    return tree.map(lambda x: convert(x, dtype), results)


@custom_jvp
def _sign_and_log(a: Any, factored: Factored) -> Any:
    diagonal = diagonal_of(factored.factors)
    last = aval_of(diagonal).ndim - 1
    sign = reduce_prod(e.sign(diagonal), (last,))
    positions = broadcasted_iota(dtypes.int32, aval_of(diagonal).shape, last)
    exchanges = reduce_sum(e.convert_element_type(e.ne(factored.pivots, positions), dtypes.int32), (last,))
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
    """The signs and the logarithms of the absolute values of determinants.

    Args:
      a: matrices [..., n, n]; determinants of 16-bit floats are computed in 32 bits.
      method: None, "lu" or "qr"; determinants are computed from the LU factors in any case.

    Returns:
      `(sign [...], logabsdet [...])`; signs of complex determinants have absolute value 1. For singular matrices 0 and
      -inf.

    Raises:
      ValueError: the matrices are not square, or there is no such method.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.slogdet(jnp.array([[0., 1.], [1., 0.]]))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(f"slogdet: the method is None, 'lu' or 'qr', and not {method!r}.")
    return SlogdetResult(*_in_32_bits("slogdet", _slogdet, a))


@compiled
def _det(a: Any) -> Any:
    """Determinants; those of small matrices by expansion, which can be differentiated where they are 0, too."""
    n = aval_of(a).shape[-1]
    if n == 0:
        return full(aval_of(a).shape[:-2], 1, aval_of(a).dtype)
    if surely_below(n, 4):
        rows = [[a[..., i, j] for j in range(n)] for i in range(n)]
        return _expanded(rows)
    return _large_det(a)


@custom_jvp
def _large_det(a: Any) -> Any:
    sign, log = Factorized(a).sign_and_log()
    return e.mul(sign, e.convert_element_type(e.exp(log), aval_of(sign).dtype))


@_large_det.defjvp
def _large_det_jvp(primals: Any, tangents: Any) -> Any:
    """Jacobi's formula: det A changes by the sum of its cofactors times the elements of dA, also where it is 0."""
    (a,), (da,) = primals, tangents
    d = _large_det(a)
    cofactors = cond(_all_regular(a, d), _cofactors_of_regular, _cofactors_of_any, a, d)
    return d, reduce_sum(e.mul(cofactors, da), (a.aval.ndim - 2, a.aval.ndim - 1))


def _all_regular(a: Any, d: Any) -> Any:
    """Whether the inverses of all matrices are exact to half of the digits, by the diagonals of their LU factors, and
    no determinant has underflowed.
    """
    pivots = e.abs(diagonal_of(Factorized(a).factored.factors))
    last, info = pivots.aval.ndim - 1, dtypes.finfo(pivots.aval.dtype)
    bound = e.mul(reduce_max(pivots, (last,)), e.scalar(float(info.eps) ** 0.5, pivots))
    is_normal = e.gt(e.abs(d), e.scalar(float(info.tiny), pivots))
    are_regular = e.bitwise_and(is_normal, e.gt(reduce_min(pivots, (last,)), bound))
    return reduce_and(are_regular, tuple(range(last)))


def _cofactors_of_regular(a: Any, d: Any) -> Any:
    """The derivatives of the determinants d in the elements, by the inverses."""
    inverse = Factorized(a).solve(identity(a.aval))
    return transposed(e.mul(inverse, broadcast_to(expand_dims(d, (-2, -1)), a.aval.shape)))


def _cofactors_of_any(a: Any, d: Any) -> Any:
    """The derivatives of the determinants d in the elements, of matrices that may be singular."""
    return _cofactors(a)


@custom_jvp
def _cofactors(a: Any) -> Any:
    """The cofactors of A = U S V^H: those of U, S and V^H, multiplied."""
    u, s, vh = eigen_svd.svd(a)
    before, after = _products_of_others(s)
    others = e.convert_element_type(e.mul(before, after), u.aval.dtype)
    return _of_bases(u, vh, e.mul(u, along_columns(others, u)))


@_cofactors.defjvp
def _cofactors_jvp(primals: Any, tangents: Any) -> Any:
    """With M = U^H dA V, cofactor (i, j) of S changes by -M_ji times the s_k but i and j; and (i, i) by the sum over l
    of M_ll times the s_k but i and l. So derivatives exist also where singular values are equal, or several are 0.
    """
    (a,), (da,) = primals, tangents
    u, s, vh = eigen_svd.svd(a)
    m = product(adjoint(u), product(da, adjoint(vh)))
    pairs = e.convert_element_type(_products_without_two(s), m.aval.dtype)
    on_diagonal = squeeze(product(pairs, expand_dims(diagonal_of(m), (-1,))), (-1,))
    change = e.sub(e.mul(identity(m.aval), along_rows(on_diagonal, m)), e.mul(transposed(m), pairs))
    change = e.conj(change) if m.aval.dtype in dtypes.COMPLEX else change
    return _cofactors(a), _of_bases(u, vh, product(u, change))


def _of_bases(u: Any, vh: Any, left: Any) -> Any:
    """The cofactors of U C V^H from those of C: conj(left V^H) times the determinants of U and V^H, `left` is U C'."""
    scaled = product(left, vh)
    turn = e.mul(Factorized(u).sign_and_log()[0], Factorized(vh).sign_and_log()[0])
    conjugate = e.conj(scaled) if scaled.aval.dtype in dtypes.COMPLEX else scaled
    return e.mul(conjugate, broadcast_to(expand_dims(turn, (-2, -1)), scaled.aval.shape))


def _products_of_others(s: Any) -> tuple[Any, Any]:
    """For each element of vectors the product of those before it, and of those after it."""
    last = s.aval.ndim - 1
    one = full((*s.aval.shape[:-1], 1), 1, s.aval.dtype)
    before = cumprod(concatenate([one, slice_in_dim(s, 0, -1, axis=last)], last), last)
    return before, cumprod(concatenate([slice_in_dim(s, 1, None, axis=last), one], last), last, reverse=True)


def _products_without_two(s: Any) -> Any:
    """For each pair of different elements of vectors the product of all others; 0 for an element and itself."""
    *stack, n = s.aval.shape
    shape, last = (*stack, n, n), len(stack) + 1
    i, j = (broadcasted_iota(dtypes.int32, shape, axis) for axis in (last - 1, last))
    ones = full(shape, 1, s.aval.dtype)
    behind = cumprod(select(e.gt(j, i), along_columns(s, ones), ones), last)  # of those behind i up to j
    between = concatenate([slice_in_dim(ones, 0, 1, axis=last), slice_in_dim(behind, 0, -1, axis=last)], last)
    before, after = _products_of_others(s)
    upper = e.mul(e.mul(along_rows(before, ones), between), along_columns(after, ones))
    upper = select(e.gt(j, i), upper, full(shape, 0, s.aval.dtype))
    return e.add(upper, transposed(upper))


def _expanded(rows: Sequence[Sequence[Any]]) -> Any:
    """The determinant by expansion along the first row."""
    if len(rows) == 1:
        return rows[0][0]
    total = None
    for j, element in enumerate(rows[0]):
        term = e.mul(element, _expanded([[*row[:j], *row[j + 1 :]] for row in rows[1:]]))
        total = term if total is None else e.sub(total, term) if j % 2 else e.add(total, term)
    return total


def det(a: Any) -> Any:
    """The determinants of square matrices; those of large matrices overflow, see `slogdet`.

    Args:
      a: [..., n, n]; of 16-bit floats they are computed in 32 bits.

    Returns:
      [...].

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.det(jnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    return _in_32_bits("det", _det, a)


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
