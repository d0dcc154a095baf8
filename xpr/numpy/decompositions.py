"""Decompositions of matrices, as NumPy names them: eigenvalues, singular values, Cholesky and QR factors."""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr import dtypes
from xpr.config import settings
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.while_.fori_loop import fori_loop
from xpr.core.avals import ShapedArray, aval_of
from xpr.numpy.matrices import diagonal
from xpr.numpy.promotion import asarray_like, promote_inexact
from xpr.primitives import elementwise as e
from xpr.primitives.linalg import eigen_svd, factorizations, orthogonal
from xpr.primitives.linalg.matrices import (
    adjoint,
    along_rows,
    check_matrices,
    conjugated,
    lower_triangle,
    permuted_rows,
    transposed,
)
from xpr.primitives.shapes import broadcast_to, full, rev
from xpr.primitives.slicing import broadcasted_iota, select
from xpr.primitives.slicing_in_dim import dynamic_index_in_dim
from xpr.primitives.sorting import sort_key_val


class EigResult(NamedTuple):
    """The result of `eig`: eigenvalues and eigenvectors."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """The result of `eigh`: eigenvalues and eigenvectors."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """The result of `qr`: A = Q R."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """The result of `svd`: A = U diag(S) Vh."""

    U: Any
    S: Any
    Vh: Any


def matrices_of(name: str, *xs: Any, square: bool = False) -> Any:
    """The operands as arrays of the floating-point or complex dtype that they meet in; the first holds matrices."""
    key = (square, settings.enable_x64, settings.explicit_x64_dtypes, *[getattr(x, "aval", None) for x in xs])
    if key not in _as_they_are:
        operands = [asarray_like(x) for x in promote_inexact(*map(asarray_like, xs))]
        check_matrices(name, operands[0].aval, square)
        if all(x is y for x, y in zip(operands, xs)):
            _as_they_are.add(key)
        xs = tuple(operands)
    return xs if len(xs) > 1 else xs[0]


_as_they_are: set[Any] = set()  # types of operands that `matrices_of` has nothing to do to


def default_tolerance(aval: ShapedArray) -> float:
    """The default tolerance, relative to the greatest singular value, below which one counts as zero."""
    return max(aval.shape[-2:]) * float(dtypes.finfo(dtypes.real_part_of(aval.dtype)).eps)


@compiled
def _cholesky(a: Any, *, upper: bool, symmetrize: bool) -> Any:
    if symmetrize:
        a = factorizations.symmetrized(a)
    elif upper:
        a = adjoint(a)
    factor = factorizations.cholesky_p.bind(a)
    return adjoint(factor) if upper else factor


@compiled_eagerly("upper", "symmetrize_input")
def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """The Cholesky factors of Hermitian, positive definite matrices: L with A = L L^H, or U with A = U^H U.

    Args:
      a: matrices [..., n, n].
      upper: whether to return U.
      symmetrize_input: whether to factor (A + A^H) / 2; otherwise only one triangle is read.

    Returns:
      Factors [..., n, n]; nans where a matrix is not positive definite.

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return _cholesky(matrices_of("cholesky", a, square=True), upper=bool(upper), symmetrize=bool(symmetrize_input))


@compiled_eagerly()
def qr(a: Any, mode: str = "reduced") -> Any:
    """The factors of A = Q R: orthonormal columns and an upper triangular matrix.

    Args:
      a: matrices [..., m, n].
      mode: "reduced" (Q has k = min(m, n) columns), "complete" (Q has m columns), "r" (R alone), or "raw".

    Returns:
      `(Q, R)`, or R. For "raw" `(h [..., n, m], tau [..., k])` as from LAPACK, transposed: h holds R and, beyond its
      diagonal, the vectors v of the reflections 1 - tau v v^H whose product is Q.

    Raises:
      ValueError: there is no such mode.

    >>> import xpr.numpy as jnp
    >>> jnp.abs(jnp.linalg.qr(jnp.array([[0., 1.], [2., 0.]]), "r"))
    Array([[2., 0.],
           [0., 1.]], dtype=float32)
    """
    if mode not in ("reduced", "complete", "r", "raw", "full"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete', 'r' or 'raw', and is {mode!r}.")
    q, r = orthogonal.qr(matrices_of("qr", a), full_matrices=mode == "complete")
    if mode == "raw":
        return _reflections(q, r)
    return r if mode == "r" else QRResult(q, r)


@compiled
def _reflections(q: Any, r: Any) -> tuple[Any, Any]:
    """The Householder reflections of a QR decomposition as LAPACK returns them, transposed, and their factors.

    Q = 1 - V T V^H with a unit lower V and an upper T, so 1 - Q = V (T V^H) is an LU factorization without exchanges
    of rows. Its pivots are the factors tau, in size 0 or at least 1 (Ballard et al., "Reconstructing Householder
    vectors from TSQR", 2014).
    """
    *stack, m, k = aval_of(q).shape
    shape, n = (*stack, m, k), aval_of(r).shape[-1]
    rows, columns = (broadcasted_iota(dtypes.int32, shape, len(stack) + i) for i in range(2))
    zeros = full(shape, 0, aval_of(q).dtype)

    def eliminate(j: Any, x: Any) -> Any:
        j = e.convert_element_type(j, dtypes.int32)
        column, row = dynamic_index_in_dim(x, j, -1), dynamic_index_in_dim(x, j, -2)
        pivot = dynamic_index_in_dim(row, j, -1)
        whole = select(e.eq(pivot, e.scalar(0, pivot)), full(aval_of(pivot).shape, 1, aval_of(q).dtype), pivot)
        below = e.gt(rows, j)
        vector = select(below, broadcast_to(e.div(column, whole), shape), zeros)
        x = e.sub(x, e.mul(vector, select(e.gt(columns, j), broadcast_to(row, shape), zeros)))
        return select(e.bitwise_and(below, e.eq(columns, j)), vector, x)

    unit = select(e.eq(rows, columns), full(shape, 1, aval_of(q).dtype), zeros)
    factors = fori_loop(0, k, eliminate, e.sub(unit, q))
    packed = e.add(factorizations.grown(lower_triangle(factors, -1), m, n), factorizations.grown(r, m, n))
    return transposed(packed), diagonal(factors, axis1=-2, axis2=-1)


# -- Eigenvalues


def _is_lower(uplo: str | None) -> bool:
    if uplo not in (None, "L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L', 'U' or None, and is {uplo!r}.")
    return uplo != "U"


@compiled
def _eigh(a: Any, *, lower: bool, symmetrize: bool, compute_v: bool) -> Any:
    a = factorizations.symmetrized(a) if symmetrize else a
    return eigen_svd.eigh_p.bind(a, lower=lower, compute_v=compute_v)


@compiled_eagerly("symmetrize_input")
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """The eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    Args:
      a: matrices [..., n, n].
      UPLO: "L" or "U", the triangle that is read of matrices that are not symmetrized; None for "L".
      symmetrize_input: whether to take (A + A^H) / 2.

    Returns:
      `(eigenvalues [..., n], eigenvectors [..., n, n])`, the vectors as columns.

    Raises:
      ValueError: the matrices are not square, or there is no such `UPLO`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eigh(jnp.array([[2., 0.], [0., 1.]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    lower, symmetrize = _is_lower(UPLO), bool(symmetrize_input)
    return EighResult(*_eigh(matrices_of("eigh", a, square=True), lower=lower, symmetrize=symmetrize, compute_v=True))


@compiled_eagerly("symmetrize_input")
def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """The eigenvalues of Hermitian matrices, in ascending order; see `eigh`.

    Args:
      a: matrices [..., n, n].
      UPLO: "L" or "U", the triangle that is read of matrices that are not symmetrized.
      symmetrize_input: whether to take (A + A^H) / 2.

    Returns:
      Real eigenvalues [..., n].

    Raises:
      ValueError: the matrices are not square, or there is no such `UPLO`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eigvalsh(jnp.array([[2., 0.], [0., 1.]]))
    Array([1., 2.], dtype=float32)
    """
    lower, symmetrize = _is_lower(UPLO), bool(symmetrize_input)
    return _eigh(matrices_of("eigvalsh", a, square=True), lower=lower, symmetrize=symmetrize, compute_v=False)[0]


@compiled_eagerly()
def eig(a: Any) -> EigResult:
    """The eigenvalues and right eigenvectors of square matrices, all complex (on CPU only).

    Args:
      a: matrices [..., n, n].

    Returns:
      `(eigenvalues [..., n], eigenvectors [..., n, n])`, in no particular order, the vectors as columns of norm 1.

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eig(jnp.array([[0., 1.], [-1., 0.]])).eigenvalues
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return EigResult(*eigen_svd.eig(matrices_of("eig", a, square=True), compute_left_eigenvectors=False))


@compiled_eagerly()
def eigvals(a: Any) -> Any:
    """The eigenvalues of square matrices, complex and in no particular order (on CPU only).

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eigvals(jnp.array([[0., 1.], [-1., 0.]]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    a = matrices_of("eigvals", a, square=True)
    return eigen_svd.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


# -- Singular values


@compiled
def _hermitian_svd(a: Any, *, compute_uv: bool) -> Any:
    """The SVD of Hermitian matrices: singular values are absolute eigenvalues, whose signs are multiplied into Vh."""
    w, *vectors = eigen_svd.eigh_p.bind(factorizations.symmetrized(a), lower=True, compute_v=compute_uv)
    last = aval_of(w).ndim - 1
    positions = broadcasted_iota(dtypes.int32, aval_of(w).shape, last)
    s, order = (rev(x, (last,)) for x in sort_key_val(e.abs(w), positions))
    if not compute_uv:
        return [s]
    rows = transposed(vectors[0])
    signs = e.convert_element_type(e.sign(w), aval_of(rows).dtype)
    u, signed = (permuted_rows(x, order) for x in (rows, e.mul(rows, along_rows(signs, rows))))
    return [transposed(u), s, conjugated(signed)]


@compiled_eagerly("full_matrices", "compute_uv", "hermitian", "subset_by_index")
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """The singular values, in descending order, and singular vectors of matrices: A = U diag(S) Vh.

    Args:
      a: matrices [..., m, n].
      full_matrices: whether U and Vh are square; otherwise they have k = min(m, n) vectors.
      compute_uv: whether to return U and Vh.
      hermitian: a promise that the matrices are Hermitian, whose eigenvalues are computed faster.
      subset_by_index: `(first, end)` of the singular values to return; None for all. Not with full matrices.

    Returns:
      `(U [..., m, k], S [..., k], Vh [..., k, n])`, or S alone.

    Raises:
      ValueError: a subset is asked for with full or Hermitian matrices.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.svd(jnp.array([[0., 2.], [1., 0.]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    a = matrices_of("svd", a, square=hermitian)
    if hermitian:
        if subset_by_index is not None:
            raise ValueError("svd: subset_by_index and hermitian=True don't go together.")
        outs = _hermitian_svd(a, compute_uv=bool(compute_uv))
        return SVDResult(*outs) if compute_uv else outs[0]
    factors = eigen_svd.svd(a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
    return SVDResult(*factors) if compute_uv else factors


@compiled_eagerly()
def svdvals(x: Any, /) -> Any:
    """The singular values of matrices, in descending order.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.svdvals(jnp.array([[0., 2.], [1., 0.]]))
    Array([2., 1.], dtype=float32)
    """
    return svd(x, compute_uv=False)
