"""Determinants and their logarithms, as NumPy names them.

A determinant is differentiated by Jacobi's formula, so that the factors of the matrix are never differentiated, and has
derivatives of second order where it is 0, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xpr import dtypes, tree
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.cond.function import cond
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import surely_below
from xpr.numpy.decompositions import matrices_of
from xpr.numpy.linear_equations import Factorized
from xpr.numpy.promotion import asarray_like, convert
from xpr.primitives import elementwise as e
from xpr.primitives.cumulative import cumprod
from xpr.primitives.linalg import eigen_svd
from xpr.primitives.linalg.factorizations import Factored
from xpr.primitives.linalg.matrices import (
    adjoint,
    along_columns,
    along_rows,
    diagonal_of,
    identity,
    product,
    transposed,
)
from xpr.primitives.reductions import reduce_and, reduce_max, reduce_min, reduce_prod
from xpr.primitives.shapes import broadcast_to, expand_dims, full, reduce_sum, squeeze
from xpr.primitives.slicing import broadcasted_iota, concatenate, select, slice_in_dim


class SlogdetResult(NamedTuple):
    """The result of `slogdet`: the determinant is sign * exp(logabsdet)."""

    sign: Any
    logabsdet: Any


def _sign_and_log(matrices: Factorized) -> tuple[Any, Any]:
    """The signs of the determinants, and the logarithms of their absolute values."""
    return _sign_and_log_of_factors(matrices.a, matrices.factored)


@custom_jvp
def _sign_and_log_of_factors(a: Any, factored: Factored) -> Any:
    diagonal = diagonal_of(factored.factors)
    last = aval_of(diagonal).ndim - 1
    sign = reduce_prod(e.sign(diagonal), (last,))
    positions = broadcasted_iota(dtypes.int32, aval_of(diagonal).shape, last)
    exchanges = reduce_sum(e.convert_element_type(e.ne(factored.pivots, positions), dtypes.int32), (last,))
    is_odd = e.eq(e.rem(exchanges, e.scalar(2, exchanges)), e.scalar(1, exchanges))
    log = reduce_sum(e.log(e.abs(diagonal)), (last,))
    return select(is_odd, e.neg(sign), sign), log


@_sign_and_log_of_factors.defjvp
def _sign_and_log_jvp(primals: Any, tangents: Any) -> Any:
    """log det A changes by the trace of A^-1 dA, whose imaginary part turns the sign."""
    (a, factored), (da, _) = primals, tangents
    sign, log = _sign_and_log_of_factors(a, factored)
    change = reduce_sum(diagonal_of(Factorized(a, factored).solve(da)), (aval_of(a).ndim - 2,))
    if a.aval.dtype not in dtypes.COMPLEX:
        return (sign, log), (full(sign.aval.shape, 0, sign.aval.dtype), change)
    turn = e.complex_(full(log.aval.shape, 0, log.aval.dtype), e.imag(change))
    return (sign, log), (e.mul(sign, turn), e.real(change))


def _in_32_bits(name: str, fun: Callable[[Any], Any], a: Any) -> Any:
    """A function of square matrices; those of 16-bit floats are converted for it, and its results converted back."""
    dtype = asarray_like(a).aval.dtype
    if dtype not in (dtypes.bf16, dtypes.float16):
        return fun(matrices_of(name, a, square=True))
    results = fun(matrices_of(name, convert(a, dtypes.float32), square=True))
    return tree.map(lambda x: convert(x, dtype), results)


@compiled
def _slogdet(a: Any) -> Any:
    return _sign_and_log(Factorized(a))


@compiled_eagerly()
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
def solve_with_log_det(a: Any, b: Any) -> Any:
    """The solution, and the logarithm of the absolute value of the determinants; of stacks of the same shape."""
    matrices = Factorized(a)
    return matrices.solve(b), _sign_and_log(matrices)[1]


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
    sign, log = _sign_and_log(Factorized(a))
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
    turn = e.mul(_sign_and_log(Factorized(u))[0], _sign_and_log(Factorized(vh))[0])
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


@compiled_eagerly()
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
