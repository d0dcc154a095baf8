"""Iterative solvers of linear equations, by products with the matrix alone: conjugate gradients, BiCGSTAB, GMRES.

The steps are a `while_loop`; derivatives are those of the solution (`lax.custom_linear_solve`), so the steps are never
differentiated, and reverse mode solves the transposed equation in the same way.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from xpr import numpy as jnp
from xpr import tree
from xpr.control.custom.linear_solve import custom_linear_solve
from xpr.control.while_.fori_loop import fori_loop
from xpr.control.while_.function import while_loop
from xpr.core.avals import aval_of, describe
from xpr.numpy.linear_equations import lstsq
from xpr.numpy.norms import norm
from xpr.numpy.promotion import convert

__all__ = ["bicgstab", "cg", "gmres"]

Operator = Callable[[Any], Any]


def _operator(name: str, what: str, A: Any) -> Operator:
    """A matrix, or a function of pytrees, as a function."""
    if callable(A):
        return A
    shape = getattr(A, "shape", None)
    if shape is None or not hasattr(A, "__matmul__"):
        raise TypeError(f"{name}: {what} must be a function or an array, and is {describe(A)}.")
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"{name}: {what} must be a square matrix or a function, and has shape {shape}.")
    try:
        aval_of(A)
    except TypeError:  # no array, but a sparse one, or an operator of a library
        return lambda x: A @ x
    return lambda x: jnp.matmul(A, x, precision="highest")


def _dot(x: Any, y: Any) -> Any:
    """The inner product of two pytrees."""
    parts = tree.map(lambda a, b: jnp.vdot(a, b, precision="highest"), x, y)
    return tree.reduce(jnp.add, parts)


def _square(x: Any) -> Any:
    return jnp.real(_dot(x, x))


def _plus(x: Any, factor: Any, y: Any) -> Any:
    """x + factor y, in the dtypes of x."""
    return tree.map(lambda a, b: (a + jnp.asarray(factor).astype(b.dtype) * b).astype(a.dtype), x, y)


def _cg(A: Operator, b: Any, x0: Any, limit: Any, maxiter: int, M: Operator) -> Any:
    def unconverged(state: Any) -> Any:
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
    return while_loop(unconverged, step, (x0, r, z, _dot(r, z), 0))[0]


def _bicgstab(A: Operator, b: Any, x0: Any, limit: Any, maxiter: int, M: Operator) -> Any:
    def unconverged(state: Any) -> Any:
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
    return while_loop(unconverged, step, (x0, r, r, r, _dot(r, r), 0))[0]


def _gmres(restart: int, A: Operator, b: Any, x0: Any, limit: Any, maxiter: int, M: Operator) -> Any:
    """Cycles of the Arnoldi process on vectors, each from the residual; they end where one does not reduce it."""
    leaves, treedef = tree.flatten(b)
    bounds = list(itertools.accumulate([x.size for x in leaves], initial=0))
    dtype = jnp.result_type(*leaves)
    steps = min(restart, bounds[-1])

    def flat(x: Any) -> Any:
        return jnp.concatenate([each.ravel().astype(dtype) for each in tree.leaves(x)])

    def unflat(v: Any) -> Any:
        parts = [v[i:j].reshape(x.shape).astype(x.dtype) for x, i, j in zip(leaves, bounds, bounds[1:])]
        return tree.unflatten(treedef, parts)

    def extend(k: Any, state: Any) -> Any:
        """One vector more of the orthonormal basis (rows), and its coefficients; a row of zeros where it is whole."""
        basis, coefficients = state
        v = flat(M(A(unflat(basis[k]))))
        before = norm(v)
        overlaps = jnp.zeros(steps + 1, dtype)
        for _ in range(2):  # once more for what rounding left (Daniel, Gragg, Kaufman and Stewart, 1976)
            again = jnp.matmul(jnp.conj(basis), v, precision="highest")
            v, overlaps = v - jnp.matmul(again, basis, precision="highest"), overlaps + again
        size = norm(v)
        is_new = size > 10 * jnp.finfo(dtype).eps * before
        v = jnp.where(is_new, v / jnp.where(is_new, size, 1), 0)
        overlaps = overlaps.at[k + 1].set(jnp.where(is_new, size, 0).astype(dtype))
        return basis.at[k + 1].set(v), coefficients.at[:, k].set(overlaps)

    def cycle(state: Any) -> Any:
        x, r, square, _, k = state
        z = flat(M(r))
        size = norm(z)
        first = jnp.zeros((steps + 1, z.size), dtype).at[0].set(z / jnp.where(size == 0, 1, size))
        basis, coefficients = fori_loop(0, steps, extend, (first, jnp.zeros((steps + 1, steps), dtype)))
        y = lstsq(coefficients, jnp.zeros(steps + 1, dtype).at[0].set(size.astype(dtype)))[0]
        x_next = _plus(x, 1.0, unflat(jnp.matmul(y, basis[:steps], precision="highest")))
        r_next = _plus(b, -1.0, A(x_next))
        square_next = _square(r_next)
        better = square_next < square
        chosen = tree.map(lambda new, old: jnp.where(better, new, old), (x_next, r_next), (x, r))
        return *chosen, jnp.where(better, square_next, square), better, k + 1

    def unconverged(state: Any) -> Any:
        _, _, square, better, k = state
        return (square > limit) & better & (k < maxiter)

    r = _plus(b, -1.0, A(x0))
    return while_loop(unconverged, cycle, (x0, r, _square(r), jnp.bool_(True), 0))[0]


def _solved(
    name: str, method: Callable[..., Any], A: Any, b: Any, x0: Any, tol: float, atol: float, maxiter: Any, M: Any
) -> tuple[Any, None]:
    guesses = itertools.repeat(0.0) if x0 is None else tree.leaves(x0)
    weak = [aval_of(x).weak_type and aval_of(y).weak_type for x, y in zip(tree.leaves(b), guesses)]
    b = tree.map(lambda x: jnp.asarray(x, jnp.result_type(x, float)), b)
    operator = _operator(name, "A", A)
    precondition = (lambda x: x) if M is None else _operator(name, "M", M)
    start = tree.map(jnp.zeros_like, b) if x0 is None else _like(name, b, x0)
    steps = 10 * sum(x.size for x in tree.leaves(b)) if maxiter is None else maxiter

    def solve(matvec: Operator, b: Any) -> Any:
        limit = jnp.maximum(tol**2 * _square(b), atol**2)
        return method(matvec, b, start, limit, steps, precondition)

    is_real = not any(jnp.iscomplexobj(x) for x in tree.leaves(b))  # the transpose of a Hermitian matrix is another
    x = custom_linear_solve(operator, b, solve, solve, symmetric=name == "cg" and is_real)
    leaves, structure = tree.flatten(x)
    return tree.unflatten(structure, [convert(leaf, leaf.dtype, each) for leaf, each in zip(leaves, weak)]), None


def _like(name: str, b: Any, x0: Any) -> Any:
    what = f"{name}: x0 and b must have matching"
    tree.check_same_structure(tree.structure(b), tree.structure(x0), f"{what} tree structure", name="b")
    if [jnp.shape(x) for x in tree.leaves(x0)] != [x.shape for x in tree.leaves(b)]:
        shapes = [[jnp.shape(x) for x in tree.leaves(t)] for t in (x0, b)]
        raise ValueError(f"{what} shape, and the shapes are {shapes[0]} and {shapes[1]}.")
    return tree.map(lambda x, y: jnp.asarray(x, y.dtype), x0, b)


def cg(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, None]:
    """The solution x of A x = b for a symmetric (Hermitian), positive definite matrix, by conjugate gradients.

    Source: Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems, 1952.

    Args:
      A: a square matrix, which may be sparse, or a function that multiplies pytrees like `b` by it.
      b: a pytree of arrays.
      x0: the initial guess, a pytree like `b`; None for zeros.
      tol: the relative tolerance: iteration stops where norm(b - A x) <= max(tol * norm(b), atol).
      atol: the absolute tolerance.
      maxiter: the most iterations; None for 10 times the number of elements.
      M: a preconditioner, an approximation of the inverse of A: a matrix or a function; None for none.

    Returns:
      The solution, and None.

    Raises:
      ValueError: `A` or `M` is an array that is no square matrix, or `x0` isn't like `b`.
      TypeError: `A` or `M` is neither an array nor a function.

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
    """The solution x of A x = b for any matrix, by stabilized biconjugate gradients.

    Where the method breaks down, it returns the best approximation so far. Source: van der Vorst, 1992.

    Args:
      A: a square matrix, which may be sparse, or a function that multiplies pytrees like `b` by it.
      b: a pytree of arrays.
      x0: the initial guess, a pytree like `b`; None for zeros.
      tol: the relative tolerance: iteration stops where norm(b - A x) <= max(tol * norm(b), atol).
      atol: the absolute tolerance.
      maxiter: the most iterations; None for 10 times the number of elements.
      M: a preconditioner, an approximation of the inverse of A: a matrix or a function; None for none.

    Returns:
      `(x, None)`.

    Raises:
      ValueError: `A` or `M` is an array that is no square matrix, or `x0` isn't like `b`.
      TypeError: `A` or `M` is neither an array nor a function.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.sparse.linalg import bicgstab
    >>> x, _ = bicgstab(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([3.0, 4.0]))
    >>> [round(float(each), 3) for each in x]
    [1.0, 1.0]
    """
    return _solved("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M)


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Any]:
    """The solution x of A x = b for any matrix, by generalized minimal residuals, with restarts.

    Source: Saad and Schultz, GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems,
    1986.

    Args:
      A: a square matrix, which may be sparse, or a function that multiplies pytrees like `b` by it.
      b: a pytree of arrays.
      x0: the initial guess, a pytree like `b`; None for zeros.
      tol: the relative tolerance: iteration stops where norm(b - A x) <= max(tol * norm(b), atol).
      atol: the absolute tolerance.
      restart: how many products with the matrix make a cycle, whose vectors are in memory.
      maxiter: the most cycles; None for 10 times the number of elements.
      M: a preconditioner, an approximation of the inverse of A: a matrix or a function; None for none.
      solve_method: "batched" or "incremental"; has no effect.

    Returns:
      The solution, and an int32: -1 if an element of it is nan, or else 0.

    Raises:
      ValueError: `A` or `M` is an array that is no square matrix, `x0` isn't like `b`, `restart` is not positive, or
        there is no such `solve_method`.
      TypeError: `A` or `M` is neither an array nor a function.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.sparse.linalg import gmres
    >>> x, failed = gmres(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([3.0, 4.0]))
    >>> [round(float(each), 3) for each in x], int(failed)
    ([1.0, 1.0], 0)
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"gmres: solve_method is 'batched' or 'incremental', and not {solve_method!r}.")
    if restart < 1:
        raise ValueError(f"gmres: restart is 1 or more, and is {restart}.")
    x, _ = _solved("gmres", functools.partial(_gmres, int(restart)), A, b, x0, tol, atol, maxiter, M)
    return x, jnp.where(jnp.isnan(_square(x)), -1, 0)
