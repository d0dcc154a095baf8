"""Linear algebra with sparse matrices: `spsolve`, and `lobpcg_standard` for the largest eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.while_.function import while_loop
from xpr.experimental.sparse.csr import CSR
from xpr.numpy.linalg import eigh, norm, qr, solve

__all__ = ["lobpcg_standard", "spsolve"]


def spsolve(data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1) -> Any:
    """The solution of A x = b for a sparse matrix A in the format CSR.

    The matrix is made dense, and factored as such; so the cost is that of a dense solution.

    Args:
      data: the stored elements, [nse].
      indices: their columns, [nse].
      indptr: where each row begins, [n + 1].
      b: vector [n] of the dtype of `data`.
      tol: not used.
      reorder: not used.

    Returns:
      The vector x.

    Raises:
      ValueError: the arrays don't fit each other, or the indices are no integers.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.CSR.fromdense(jnp.array([[2.0, 0.0], [1.0, 1.0]]))
    >>> sparse.linalg.spsolve(m.data, m.indices, m.indptr, jnp.array([2.0, 3.0]))
    Array([1., 2.], dtype=float32)
    """
    data, indices, indptr, b = map(jnp.asarray, (data, indices, indptr, b))
    if {indices.dtype.kind, indptr.dtype.kind} - set("iu"):
        raise ValueError(f"spsolve: indices and indptr must be integers, and are {indices.dtype} and {indptr.dtype}.")
    if data.dtype != b.dtype:
        raise ValueError(f"spsolve: data and b must have one dtype, and have {data.dtype} and {b.dtype}.")
    if not data.ndim == b.ndim == 1 or data.shape != indices.shape or indptr.shape != (b.size + 1,):
        raise ValueError(
            "spsolve: the shapes are data [nse], indices [nse], indptr [n + 1], b [n], and were given as "
            f"{data.shape}, {indices.shape}, {indptr.shape}, {b.shape}."
        )
    return solve(CSR((data, indices, indptr), shape=(b.size, b.size)).todense(), b)


def lobpcg_standard(A: Any | Callable[[Any], Any], X: Any, m: int = 100, tol: Any = None) -> tuple[Any, Any, Any]:
    """The largest eigenvalues of a symmetric matrix and their eigenvectors, by products with it alone.

    Locally optimal block gradients: each step finds the best vectors in the span of the last ones, their residuals and
    the last directions. Knyazev, "Toward the optimal preconditioned eigensolver" (2001). It has no derivatives.

    Args:
      A: symmetric matrix [n, n], or a function that multiplies [n, k] by it.
      X: [n, k], where it begins: k linearly independent vectors, 5 k < n.
      m: the largest number of steps.
      tol: a pair is found where the norm of A x - theta x is below 10 n tol (|A x| + theta); None for the precision of
        the dtype. It ends where all are.

    Returns:
      `(theta [k], vectors [n, k], number of steps)`, the largest eigenvalue first.

    Raises:
      ValueError: the shapes or dtypes don't fit.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.sparse.linalg import lobpcg_standard
    >>> theta, vectors, steps = lobpcg_standard(jnp.diag(jnp.arange(1.0, 11.0)), jnp.eye(10, 1) + 0.1)
    >>> jnp.round(theta, 3)
    Array([10.], dtype=float32)
    """
    X = jnp.asarray(X)
    product: Callable[[Any], Any] = A if callable(A) else lambda x: jnp.matmul(A, x, precision="highest")
    n, k = X.shape
    if not 0 < 5 * k < n:
        asked = "search dim > 0" if k == 0 else "search dim * 5 < matrix dim"
        raise ValueError(f"lobpcg_standard: X must have shape [n, k], where 0 < 5 k < n ({asked}), and has {X.shape}.")
    example = product(jnp.zeros((n, 1), X.dtype))
    if example.shape != (n, 1) or example.dtype != X.dtype:
        raise ValueError(
            f"lobpcg_standard: A must be ({n}, {n}), and A, X must have same dtypes: of {X.dtype}[{n}, 1] A made "
            f"{example.dtype}{list(example.shape)}."
        )
    limit = 10 * n * (float(dtypes.finfo(X.dtype).eps) if tol is None else tol)

    def examined(X: Any) -> tuple[Any, Any, Any]:
        """Eigenvalues, residuals, and whether all are small."""
        AX = product(X)
        theta = jnp.sum(X * AX, 0)
        R = AX - theta * X
        small = norm(R, axis=0) < limit * (norm(AX, axis=0) + theta)
        return theta, R, jnp.all(small)

    def step(state: Any) -> Any:
        i, X, P, _, R, _ = state
        basis, _ = qr(jnp.concatenate([X, R, P], 1))
        projected = jnp.matmul(basis.T, product(basis), precision="highest")
        _, vectors = eigh((projected + projected.T) / 2)
        best = vectors[:, ::-1][:, :k]
        new = jnp.matmul(basis, best, precision="highest")
        P = jnp.matmul(basis[:, k:], best[k:], precision="highest")
        size = norm(P, axis=0)
        return i + 1, new, P / jnp.where(size == 0, 1, size), *examined(new)

    X, _ = qr(X)
    i, X, _, theta, _, _ = while_loop(
        lambda state: (state[0] < m) & ~state[5], step, (0, X, jnp.zeros_like(X), *examined(X))
    )
    order = jnp.argsort(theta, descending=True)  # rounding may exchange eigenvalues that are almost equal
    return theta[order], X[:, order], i
