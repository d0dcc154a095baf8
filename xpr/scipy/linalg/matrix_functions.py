"""The Schur decomposition, and what is computed with it: roots and other functions of matrices, Sylvester's equation.

The decomposition is LAPACK's, on CPU alone. Golub and Van Loan, Matrix Computations, 2013, chapters 7 and 9.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.custom.linear_solve import custom_linear_solve
from xpr.control.stop_gradient import stop_gradient
from xpr.control.while_.fori_loop import fori_loop
from xpr.core.avals import aval_of
from xpr.numpy import decompositions
from xpr.numpy.decompositions import matrices_of
from xpr.numpy.norms import norm
from xpr.primitives.dynamic_slices import dynamic_slice, dynamic_update_slice
from xpr.primitives.linalg import reflections
from xpr.primitives.linalg import schur as decomposition
from xpr.primitives.linalg.matrices import adjoint, product, transposed, upper_triangle
from xpr.primitives.linalg.solves import triangular_solve


def _complex(a: Any) -> Any:
    return a.astype(np.result_type(a.dtype, np.complex64))


# -- Forms


def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """The factors of a = Z T Z^H: an upper triangular and a unitary matrix.

    Args:
      a: matrices [..., n, n].
      output: "real" for blocks of two rows on the diagonal of T for pairs of complex eigenvalues of a real matrix;
        "complex" for a triangular T in any case.

    Returns:
      `(T [..., n, n], Z [..., n, n])`. They have no derivative.

    Raises:
      ValueError: the matrices are not square, or there is no such output.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.schur(jnp.array([[0., 2.], [0., 3.]]))[0]
    Array([[0., 2.],
           [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(f"schur: output is 'real' or 'complex', and not {output!r}.")
    a = matrices_of("schur", a, square=True)
    return tuple(decomposition.schur(_complex(a) if output == "complex" else a))


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The complex Schur form of the real one: blocks of two rows are made triangular by rotations.

    Args:
      T: the real Schur form, matrices [..., n, n].
      Z: the orthogonal factors [..., n, n]; leading axes broadcast.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      `(T [..., n, n], Z [..., n, n])`, complex.

    Raises:
      ValueError: the matrices are not square, or not of one size.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> T, Z = linalg.rsf2csf(jnp.array([[0., 1.], [-1., 0.]]), jnp.eye(2))
    >>> jnp.diagonal(T).imag.round(4)
    Array([ 1., -1.], dtype=float32)
    """
    T, Z = matrices_of("rsf2csf", T, Z, square=True)
    if jnp.ndim(Z) < 2 or aval_of(Z).shape[-2:] != aval_of(T).shape[-2:]:
        types = f"T {aval_of(T).str_short()} and Z {aval_of(Z).str_short()}"
        raise ValueError(f"rsf2csf: takes square matrices of one size, and got {types}.")
    rotate = jnp.vectorize(_triangular_form, signature="(n,n),(n,n)->(n,n),(n,n)")
    return tuple(rotate(_complex(T), _complex(Z)))


def _triangular_form(t: Any, z: Any) -> tuple[Any, Any]:
    """From the last block on, by the rotation that takes (eigenvalue - T[m, m], T[m, m-1]) to the first axis."""
    n, eps = t.shape[-1], float(jnp.finfo(t.dtype).eps)

    def step(i: Any, state: Any) -> Any:
        t, z = state
        m = n - 1 - i
        block = dynamic_slice(t, (m - 1, m - 1), (2, 2))
        a, c, d = block[0, 0], block[1, 0], block[1, 1]
        is_block = jnp.abs(c) > eps * (jnp.abs(a) + jnp.abs(d))
        offset = decompositions.eigvals(block)[0] - d
        size = jnp.where(is_block, jnp.sqrt(jnp.abs(offset) ** 2 + jnp.abs(c) ** 2), 1)
        cosine, sine = jnp.where(is_block, offset / size, 1), jnp.where(is_block, c / size, 0)
        turn = jnp.array([[jnp.conj(cosine), sine], [-sine, cosine]])
        rows, behind = dynamic_slice(t, (m - 1, 0), (2, n)), np.arange(n) >= m - 1
        t = dynamic_update_slice(t, jnp.where(behind, product(turn, jnp.where(behind, rows, 0)), rows), (m - 1, 0))
        columns, above = dynamic_slice(t, (0, m - 1), (n, 2)), np.arange(n)[:, None] <= m
        turned = product(jnp.where(above, columns, 0), adjoint(turn))
        t = dynamic_update_slice(t, jnp.where(above, turned, columns), (0, m - 1))
        z = dynamic_update_slice(z, product(dynamic_slice(z, (0, m - 1), (n, 2)), adjoint(turn)), (0, m - 1))
        return t.at[m, m - 1].set(0), z

    return fori_loop(0, max(n - 1, 0), step, (t, z))


def hessenberg(a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The factor H of a = Q H Q^H, which is 0 below the first diagonal under the main one; Q is unitary.

    Args:
      a: matrices [..., n, n].
      calc_q: whether to return Q too.
      overwrite_a: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      H [..., n, n], or `(H, Q [..., n, n])`. They have no derivative.

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.hessenberg(jnp.eye(3))
    Array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    a = matrices_of("hessenberg", a, square=True)
    if not a.shape[-1]:
        return (a, a) if calc_q else a
    packed, taus = reflections.hessenberg(a)
    form = upper_triangle(packed, -1)
    if not calc_q:
        return form
    q = reflections.householder_product(packed[..., 1:, :-1], taus)
    pads = [(0, 0)] * (a.ndim - 2) + [(1, 0), (1, 0)]
    first = np.zeros(a.shape[-2:], a.dtype)
    first[0, 0] = 1
    return form, jnp.pad(q, pads) + first


# -- Sylvester's equation


def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Any:
    """The solution X of A X + X B = C.

    It is computed from complex Schur forms, column by column (Bartels and Stewart, Solution of the matrix equation
    AX + XB = C, 1972). Derivatives are solutions of the same equation.

    Args:
      A: matrices [..., m, m].
      B: matrices [..., n, n].
      C: matrices [..., m, n]; leading axes broadcast.
      method: "schur" or "eigen"; has no effect.
      tol: the result is nan where an eigenvalue of A and one of -B are nearer to each other.

    Returns:
      X [..., m, n].

    Raises:
      ValueError: the shapes don't fit, or there is no such method.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.solve_sylvester(2 * jnp.eye(2), jnp.eye(2), 3 * jnp.eye(2)).round(4)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if method not in ("schur", "eigen"):
        raise ValueError(f"solve_sylvester: method is 'schur' or 'eigen', and not {method!r}.")
    A, B, C = matrices_of("solve_sylvester", A, B, C, square=True)
    shapes = [jnp.shape(x)[-2:] for x in (A, B, C)]
    if len(shapes[2]) < 2 or shapes[0] != shapes[2][:1] * 2 or shapes[1] != shapes[2][1:] * 2:
        types = ", ".join(aval_of(x).str_short() for x in (A, B, C))
        raise ValueError(f"solve_sylvester: takes matrices [m,m], [n,n] and [m,n], and got {types}.")
    solve = jnp.vectorize(lambda a, b, c: _sylvester(a, b, c, float(tol)), signature="(m,m),(n,n),(m,n)->(m,n)")
    return solve(A, B, C)


def _sylvester(a: Any, b: Any, c: Any, tol: float) -> Any:
    if not c.size:
        return c
    fixed_a, fixed_b = stop_gradient(a), stop_gradient(b)
    return custom_linear_solve(
        lambda x: product(a, x) + product(x, b),
        c,
        lambda _, y: _by_schur(fixed_a, fixed_b, y, tol),
        lambda _, y: _by_schur(transposed(fixed_a), transposed(fixed_b), y, tol),
    )


def _by_schur(a: Any, b: Any, c: Any, tol: float) -> Any:
    """With a = U R U^H and b = V S V^H: R Y + Y S = U^H c V, in column j (R + S_jj) y_j less what is known."""
    (r, u), (s, v) = schur(a, "complex"), schur(b, "complex")
    right = product(product(adjoint(u), _complex(c)), v)
    identity = jnp.eye(r.shape[-1], dtype=r.dtype)

    def column(j: Any, y: Any) -> Any:
        known = product(y, s[:, j][:, None])  # the columns from j on are still 0
        new = triangular_solve(r + s[j, j] * identity, right[:, j][:, None] - known, left_side=True, lower=False)
        return dynamic_update_slice(y, new, (0, j))

    y = fori_loop(0, s.shape[-1], column, jnp.zeros_like(right))
    x = product(product(u, y), adjoint(v))
    sums = jnp.diagonal(r)[:, None] + jnp.diagonal(s)
    x = x if c.dtype in dtypes.COMPLEX else x.real
    return jnp.where(jnp.any(jnp.abs(sums) < tol), math.nan, x)


# -- Functions


@compiled_eagerly("blocksize")
def sqrtm(A: Any, blocksize: int = 1) -> Any:
    """The principal square root of a matrix, from its Schur form (Björck and Hammarling, 1983).

    Args:
      A: a matrix [n, n], or stack of them.
      blocksize: has no effect.

    Returns:
      [..., n, n], complex; infinite or nan where a singular matrix has no root.

    Raises:
      ValueError: the matrices are not square.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.sqrtm(jnp.array([[4., 0.], [0., 9.]])).real.round(4)
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    a = matrices_of("sqrtm", A, square=True)
    return jnp.vectorize(_sqrtm, signature="(n,n)->(n,n)")(_complex(a)) if a.size else _complex(a)


@custom_jvp
def _sqrtm(a: Any) -> Any:
    t, z = schur(a)
    n = operator.index(t.shape[-1])
    roots = jnp.sqrt(jnp.diagonal(t))
    rows = np.arange(n)

    def column(j: Any, u: Any) -> Any:
        """The elements x above root j: (U + root j) x is what is above T[j, j], with the part of U that is known."""
        above = rows < j
        sums = jnp.where(above, roots + roots[j], 1)
        none = sums == 0
        matrix = jnp.where(above[:, None] & above, u, 0)
        matrix = upper_triangle(matrix, 1) + jnp.diag(jnp.where(none, 1, sums))
        right = jnp.where(above, t[:, j], 0)[:, None]
        x = triangular_solve(matrix, right, left_side=True, lower=False)[:, 0]
        x = jnp.where(none & (x != 0), math.inf, x)
        return u.at[:, j].add(x)

    u = fori_loop(1, max(n, 1), column, jnp.diag(roots))
    return product(product(z, u), adjoint(z))


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """With X^2 = A, X dX + dX X = dA."""
    root = _sqrtm(*primals)
    return root, _sylvester(root, root, tangents[0], 0.0)


def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A function of a matrix, by Parlett's recurrence on its Schur form; eigenvalues should be different.

    Args:
      A: a matrix [n, n].
      func: a function of a vector of complex numbers, elementwise.
      disp: whether to return the result alone.

    Returns:
      [n, n], complex; or that and an estimate of the relative error. They have no derivative.

    Raises:
      ValueError: `A` is no square matrix.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.funm(jnp.array([[1., 1.], [0., 2.]]), lambda x: x * x).real.round(4)
    Array([[1., 3.],
           [0., 4.]], dtype=float32)
    """
    a = matrices_of("funm", A, square=True)
    if a.ndim != 2:
        raise ValueError(f"funm: takes a matrix, and got {a.aval.str_short()}.")
    t, z = rsf2csf(*schur(a))  # which keeps real eigenvalues real: a negative one is on a side of the branch cut
    n, diagonal = t.shape[-1], jnp.diagonal(t)
    differences = diagonal - diagonal[:, None]
    offsets = np.arange(n) - np.arange(n)[:, None]

    def step(p: Any, f: Any) -> Any:
        """The p-th diagonal: of F T = T F the elements on it, which hold only those of F that are known."""
        quotient = (product(t, f) - product(f, t)) / jnp.where(differences == 0, 1, differences)
        return jnp.where(offsets == p, quotient, f)

    f = fori_loop(1, max(n, 1), step, jnp.diag(func(diagonal).astype(t.dtype)))
    out = product(product(z, f), adjoint(z))
    if disp:
        return out
    eps = float(jnp.finfo(t.dtype).eps)
    least = jnp.min(jnp.where(offsets > 0, jnp.abs(differences), math.inf), initial=math.inf)
    error = jnp.clip(eps / jnp.where(least == 0, eps, least) * norm(upper_triangle(t, 1), 1), eps, 1)
    return out, jnp.where(jnp.any(jnp.isinf(out)), math.inf, error)


# -- Banded equations


def solve_banded(
    l_and_u: tuple[int, int],
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """The solution x of a x = b for a matrix with few diagonals, which is solved as a dense one.

    Args:
      l_and_u: how many diagonals there are below and above the main one.
      ab: the diagonals as rows [l + u + 1, n], from the uppermost one: `ab[u + i - j, j]` is `a[i, j]`.
      b: [n] or [n, k].
      overwrite_ab: has no effect; arrays are immutable.
      overwrite_b: has no effect; arrays are immutable.
      check_finite: has no effect; elements that are not finite give nans.

    Returns:
      An array of the shape of `b`.

    Raises:
      TypeError: a number of diagonals is no integer.
      ValueError: the shapes don't fit, or a number of diagonals is negative.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import linalg
    >>> linalg.solve_banded((0, 1), jnp.array([[0., 1.], [1., 2.]]), jnp.array([3., 4.]))
    Array([1., 2.], dtype=float32)
    """
    lower, upper = map(operator.index, l_and_u)
    if lower < 0 or upper < 0:
        raise ValueError(f"solve_banded: l_and_u are numbers of diagonals, 0 or more, and are {(lower, upper)}.")
    diagonals = matrices_of("solve_banded", ab)
    if diagonals.ndim != 2 or diagonals.shape[0] != lower + upper + 1:
        raise ValueError(
            f"solve_banded: {lower} diagonals below and {upper} above the main one are [{lower + upper + 1},n], and "
            f"got {diagonals.aval.str_short()}."
        )
    n = diagonals.shape[1]
    i, j = np.indices((n, n))
    inside = (i - j <= lower) & (j - i <= upper)
    dense = jnp.where(inside, diagonals[np.where(inside, upper + i - j, 0), j], 0)
    return jnp.linalg.solve(dense, b)
