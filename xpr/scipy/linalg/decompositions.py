"""Orthogonal factors, eigenvalues and singular values of matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.errors import UnsupportedRule
from xpr.numpy import decompositions
from xpr.numpy.decompositions import matrices_of
from xpr.numpy.promotion import strong_unless_scalar
from xpr.primitives.linalg import orthogonal
from xpr.primitives.linalg.matrices import LAPACK_DTYPES, adjoint, product


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """The factors of a = Q R: orthonormal columns and an upper triangular matrix.

    Args:
      a: matrices [..., m, n].
      overwrite_a: has no effect; arrays are immutable.
      lwork: has no effect.
      mode: "full" (Q has m columns), "economic" (Q has min(m, n) columns), or "r" (R alone).
      pivoting: whether to permute the columns, and return their order too.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      `(Q, R)`, or `(R,)` for "r"; with `pivoting` followed by the order of columns [..., n].

    Raises:
      ValueError: there is no such mode.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> jnp.abs(linalg.qr(jnp.array([[0., 1.], [2., 0.]]), mode="r")[0])
    Array([[2., 0.],
           [0., 1.]], dtype=float32)
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"qr: mode is 'full', 'r' or 'economic', and not {mode!r}.")
    outs = orthogonal.qr(matrices_of("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
    return outs[1:] if mode == "r" else outs


def eigh(
    a: Any,
    b: None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """The eigenvalues, in ascending order, and eigenvectors of Hermitian matrices; see `jnp.linalg.eigh`.

    Args:
      a: matrices [..., n, n].
      b: must be None.
      lower: whether the lower triangle is read, instead of the upper one.
      eigvals_only: whether to return the eigenvalues alone.
      overwrite_a: has no effect; arrays are immutable.
      overwrite_b: has no effect; arrays are immutable.
      turbo: has no effect.
      eigvals: must be None.
      type: must be 1.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      `(eigenvalues [..., n], eigenvectors [..., n, n])`, the vectors as columns; or the eigenvalues.

    Raises:
      NotImplementedError: the generalized problem (`b`, `type`) or a part of the eigenvalues is asked for.
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.eigh(jnp.array([[2., 0.], [0., 1.]]), eigvals_only=True)
    Array([1., 2.], dtype=float32)
    """
    if b is not None or type != 1 or eigvals is not None:
        raise NotImplementedError("eigh: only a v = w v is solved, for all eigenvalues: leave out b, type and eigvals.")
    uplo = "L" if lower else "U"
    return decompositions.eigvalsh(a, uplo) if eigvals_only else tuple(decompositions.eigh(a, uplo))


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """The singular values and singular vectors of matrices; see `jnp.linalg.svd`.

    Args:
      a: matrices [..., m, n].
      full_matrices: whether U and Vh are square; otherwise they have k = min(m, n) vectors.
      compute_uv: whether to return U and Vh.
      overwrite_a: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.
      lapack_driver: has no effect.

    Returns:
      `(U [..., m, k], S [..., k], Vh [..., k, n])`, or S alone.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.svd(jnp.array([[0., 2.], [1., 0.]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    factors = decompositions.svd(a, full_matrices, compute_uv)
    return tuple(factors) if compute_uv else factors


def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """The eigenvalues, in ascending order, and eigenvectors of Hermitian tridiagonal matrices.

    They are those of the dense matrix, so memory grows as n^2 and time as n^3.

    Args:
      d: the diagonal [n], of which the real part is read.
      e: the elements above the diagonal [n - 1].
      eigvals_only: whether to return the eigenvalues alone.
      select: "a" for all of them, "i" for those of a range of indices.
      select_range: the first and the last index, for "i".
      tol: has no effect; eigenvalues are as exact as the dtype allows.
      key: has no effect; nothing is random.

    Returns:
      `(eigenvalues [k], eigenvectors [n, k])`, the vectors as columns; or the eigenvalues.

    Raises:
      TypeError: the dtypes differ, or are not those of LAPACK.
      ValueError: the shapes don't fit, or there is no such `select` or range.
      NotImplementedError: `select` is "v", by which the number of results depends on values.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.eigh_tridiagonal(jnp.array([1., 1.]), jnp.array([1.]), eigvals_only=True).round(5)
    Array([0., 2.], dtype=float32)
    """
    d, e = jnp.asarray(d), jnp.asarray(e)
    if d.dtype != e.dtype or d.dtype not in LAPACK_DTYPES:
        types = f"{d.aval.str_short()} and {e.aval.str_short()}"
        raise TypeError(f"eigh_tridiagonal: both diagonals are of one dtype, f32, f64, c64 or c128, and got {types}.")
    if d.ndim != 1 or e.ndim != 1 or (d.size and e.size != d.size - 1):
        types = f"{d.aval.str_short()} and {e.aval.str_short()}"
        raise ValueError(f"eigh_tridiagonal: takes diagonals of n and n - 1 elements, and got {types}.")
    first, last = _selected(d.size, select, select_range)
    matrix = jnp.diag(d.real.astype(d.dtype))
    if d.size > 1:
        matrix = matrix + jnp.diag(e, 1) + jnp.diag(jnp.conj(e), -1)
    if eigvals_only:
        return decompositions.eigvalsh(matrix)[first:last]
    values, vectors = decompositions.eigh(matrix)
    return values[first:last], vectors[:, first:last]


def _selected(n: int, select: str, select_range: tuple[int, int] | None) -> tuple[int, int]:
    """The slice of n eigenvalues that is asked for."""
    if select == "a":
        return 0, n
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal: select='v' would give a number of results that depends on values. Use select='i', or "
            "pick from all eigenvalues."
        )
    if select != "i":
        raise ValueError(f"eigh_tridiagonal: select is 'a' or 'i', and not {select!r}.")
    if select_range is None or not 0 <= select_range[0] <= select_range[1] < n:
        raise ValueError(
            f"eigh_tridiagonal: select='i' needs select_range=(first, last) within 0, ..., {n - 1}, and it is "
            f"{select_range}."
        )
    first, last = map(operator.index, select_range)
    return first, last + 1


def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Any, ...]:
    """The product of a matrix with Q of the QR decomposition of another one, and R.

    Args:
      a: matrices [..., m, n]; Q has k = min(m, n) columns.
      c: for "right" [..., p, m] or [m], for "left" [..., k, p] or [k]; leading axes broadcast.
      mode: "right" for c Q, "left" for Q c.
      pivoting: whether to permute the columns, and return their order too.
      conjugate: whether Q is conjugated.
      overwrite_a: has no effect; arrays are immutable.
      overwrite_c: has no effect; arrays are immutable.

    Returns:
      `(product, R [..., k, n])`; with `pivoting` followed by the order of columns [..., n].

    Raises:
      ValueError: the shapes don't fit, or there is no such mode.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> jnp.abs(linalg.qr_multiply(jnp.array([[0., 1.], [2., 0.]]), jnp.array([3., 4.]))[0])
    Array([4., 3.], dtype=float32)
    """
    if mode not in ("left", "right"):
        raise ValueError(f"qr_multiply: mode is 'left' or 'right', and not {mode!r}.")
    a, c = matrices_of("qr_multiply", a, c)
    q, r, *order = orthogonal.qr(a, pivoting=pivoting, full_matrices=False)
    left, is_vector = mode == "left", c.ndim == 1
    needed = q.shape[-1] if left else q.shape[-2]
    if c.ndim < 1 or c.shape[-2 if left and not is_vector else -1] != needed:
        which = "rows" if left else "columns"
        types = f"{a.aval.str_short()} and c {c.aval.str_short()}"
        raise ValueError(f"qr_multiply: a {types} don't fit: c needs {needed} {which}.")
    q = jnp.conj(q) if conjugate else q
    product = jnp.matmul(q, c, precision="highest") if left else jnp.matmul(c, q, precision="highest")
    return product, r, *order


# -- The polar decomposition


@compiled_eagerly("eps", "max_iterations")
def polar(
    a: Any, side: str = "right", *, method: str = "qdwh", eps: float | None = None, max_iterations: int | None = None
) -> tuple[Any, Any]:
    """The factors of a = U P or a = P U: orthonormal columns or rows, and a Hermitian, positive semidefinite matrix.

    They are computed from the singular value decomposition a = W S V^H: U = W V^H, and P = V S V^H or W S W^H.

    Args:
      a: matrices [..., m, n].
      side: "right" for U P, "left" for P U.
      method: "qdwh" or "svd"; has no effect.
      eps: has no effect.
      max_iterations: has no effect.

    Returns:
      `(U [..., m, n], P [..., n, n])`, or for "left" P [..., m, m].

    Raises:
      ValueError: `a` has fewer than two axes, or there is no such side or method.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> unitary, positive = linalg.polar(jnp.array([[0., -2.], [2., 0.]]))
    >>> positive.round(5)
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    if side not in ("right", "left"):
        raise ValueError(f"polar: side is 'right' or 'left', and not {side!r}.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"polar: method is 'qdwh' or 'svd', and not {method!r}.")
    a = strong_unless_scalar(matrices_of("polar", a))
    if side == "right":
        return tuple(_polar(a))
    unitary, positive = _polar(adjoint(a))
    return adjoint(unitary), positive


@custom_jvp
def _polar(a: Any) -> list[Any]:
    unitary, positive, *_ = _polar_parts(a)
    return [unitary, positive]


def _polar_parts(a: Any) -> tuple[Any, Any, Any, Any]:
    left, sizes, right = decompositions.svd(a, full_matrices=False)
    vectors = adjoint(right)
    return product(left, right), product(vectors * sizes[..., None, :].astype(a.dtype), right), sizes, vectors


@_polar.defjvp
def _polar_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """With W = U^H dA, the skew X = U^H dU solves X P + P X = W - W^H, and dP = W - X P, or so within the range of P.

    It is solved where P is diagonal, by division by sums of singular values, which may be equal. The part of dU that
    is orthogonal to U is that of dA P^-1. Derivatives are infinite or nan where `a` does not have full rank.
    """
    (a,), (da,) = primals, tangents
    unitary, positive, sizes, vectors = _polar_parts(a)
    if a.shape[-2] < a.shape[-1]:
        raise UnsupportedRule(
            f"polar: the factor P of {a.aval.str_short()} is singular, so U P has no derivative. Take the other side."
        )
    seen = product(adjoint(unitary), da)
    rotated = product(adjoint(vectors), product(seen - adjoint(seen), vectors))
    sums = (sizes[..., :, None] + sizes[..., None, :]).astype(a.dtype)
    skew = product(vectors, product(rotated / sums, adjoint(vectors)))
    inverse = product(vectors / sizes[..., None, :].astype(a.dtype), adjoint(vectors))
    outside = da - product(unitary, seen)
    d_unitary = product(unitary, skew) + product(outside, inverse)
    return [unitary, positive], [d_unitary, seen - product(skew, positive)]
