"""Linear equations solved by products alone: conjugate gradients, and a relative for matrices that aren't symmetric.

The steps are a `while_loop`; derivatives are those of the solution (`lax.custom_linear_solve`), so the steps are never
differentiated, and reverse mode solves the transposed equation in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr import numpy as jnp
from xpr import tree
from xpr.control.custom.linear_solve import custom_linear_solve
from xpr.control.while_.function import while_loop
from xpr.core.avals import describe

__all__ = ["bicgstab", "cg"]

Operator = Callable[[Any], Any]


def _operator(name: str, what: str, A: Any) -> Operator:
    """A matrix, or a function of pytrees, as a function."""
    if callable(A):
        return A
    if getattr(A, "ndim", None) != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"{name}: {what} must be a function or a square matrix, and is {describe(A)}.")
    return lambda x: jnp.matmul(A, x, precision="highest")


def _dot(x: Any, y: Any) -> Any:
    """The inner product of two pytrees."""
    parts = tree.map(lambda a, b: jnp.vdot(a, b, precision="highest"), x, y)
    return tree.reduce(jnp.add, parts)


def _square(x: Any) -> Any:
    return jnp.real(_dot(x, x))


def _plus(x: Any, factor: Any, y: Any) -> Any:
    """x + factor y, in the dtypes of x."""
    return tree.map(lambda a, b: (a + factor * b).astype(a.dtype), x, y)


def _cg(A: Operator, b: Any, x0: Any, limit: Any, maxiter: int, M: Operator) -> Any:
    def going(state: Any) -> Any:
        _, r, _, _, k = state
        return (_square(r) > limit) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, p, gamma, k = state
        Ap = A(p)
        alpha = gamma / _dot(p, Ap)
        x, r = _plus(x, alpha, p), _plus(r, -alpha, Ap)
        z = M(r)
        gamma_next = _dot(r, z)
        return x, r, _plus(z, gamma_next / gamma, p), gamma_next.astype(gamma.dtype), k + 1

    r = _plus(b, -1.0, A(x0))
    z = M(r)
    return while_loop(going, step, (x0, r, z, _dot(r, z), 0))[0]


def _bicgstab(A: Operator, b: Any, x0: Any, limit: Any, maxiter: int, M: Operator) -> Any:
    def going(state: Any) -> Any:
        _, r, _, _, _, k = state
        return (_square(r) > limit) & (k >= 0) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, shadow, p, rho, k = state
        p_hat = M(p)
        v = A(p_hat)
        alpha = rho / _dot(shadow, v)
        s = _plus(r, -alpha, v)
        s_hat = M(s)
        t = A(s_hat)
        omega = jnp.where(_square(s) > limit, _dot(t, s) / _dot(t, t), 0)
        x = _plus(_plus(x, alpha, p_hat), omega, s_hat)
        r = _plus(s, -omega, t)
        rho_next = _dot(shadow, r)
        p = _plus(r, rho_next / rho * alpha / jnp.where(omega == 0, 1, omega), _plus(p, -omega, v))
        broken = (omega == 0) | (rho_next == 0)
        return x, r, shadow, p, rho_next.astype(rho.dtype), jnp.where(broken, -1, k + 1)

    r = _plus(b, -1.0, A(x0))
    return while_loop(going, step, (x0, r, r, r, _dot(r, r), 0))[0]


def _solved(
    name: str, method: Callable[..., Any], A: Any, b: Any, x0: Any, tol: float, atol: float, maxiter: Any, M: Any
) -> tuple[Any, None]:
    b = tree.map(lambda x: jnp.asarray(x) if jnp.issubdtype(x, jnp.inexact) else jnp.asarray(x, float), b)
    operator = _operator(name, "A", A)
    precondition = (lambda x: x) if M is None else _operator(name, "M", M)
    start = tree.map(jnp.zeros_like, b) if x0 is None else _like(name, b, x0)
    steps = 10 * sum(x.size for x in tree.leaves(b)) if maxiter is None else maxiter

    def solve(matvec: Operator, b: Any) -> Any:
        limit = jnp.maximum(tol**2 * _square(b), atol**2)
        return method(matvec, b, start, limit, steps, precondition)

    is_real = not any(jnp.iscomplexobj(x) for x in tree.leaves(b))  # the transpose of a Hermitian matrix is another
    return custom_linear_solve(operator, b, solve, solve, symmetric=name == "cg" and is_real), None


def _like(name: str, b: Any, x0: Any) -> Any:
    what = f"{name}: x0 must be like b"
    tree.check_same_structure(tree.structure(b), tree.structure(x0), what, name="b")
    if [jnp.shape(x) for x in tree.leaves(x0)] != [x.shape for x in tree.leaves(b)]:
        shapes = [[jnp.shape(x) for x in tree.leaves(t)] for t in (x0, b)]
        raise ValueError(f"{what}: the shapes are {shapes[0]} and {shapes[1]}.")
    return tree.map(lambda x, y: jnp.asarray(x, y.dtype), x0, b)


def cg(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, None]:
    """The solution of A x = b for a matrix that is symmetric (Hermitian) and positive, by conjugate gradients.

    (Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems, 1952.)

    Args:
      A: a square matrix, or a function that multiplies pytrees like `b` by it.
      b: a pytree of arrays.
      x0: where to start; zeros if not given.
      tol, atol: it stops where the norm of b - A x is at most max(tol * norm(b), atol).
      maxiter: the most steps to take; 10 times the number of entries if not given.
      M: a preconditioner: an approximation of A's inverse, given as `A` is.
    Returns:
      The solution, and None.
    Raises:
      ValueError: `A` or `M` is neither, or `x0` isn't like `b`.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.sparse.linalg import cg
    >>> x, _ = cg(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 2.0]))
    >>> [round(float(each), 4) for each in x]
    [1.0, 0.5]
    """
    return _solved("cg", _cg, A, b, x0, tol, atol, maxiter, M)


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, None]:
    """The solution of A x = b for any matrix, by the stabilized bi-conjugate gradients of van der Vorst (1992).

    Arguments, results and errors are those of `cg`. Where the method breaks down it gives the best it has.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.sparse.linalg import bicgstab
    >>> x, _ = bicgstab(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([3.0, 4.0]))
    >>> [round(float(each), 3) for each in x]
    [1.0, 1.0]
    """
    return _solved("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M)
