"""Solutions of linear equations with triangular and tridiagonal matrices.

Both are linear in the right-hand side. Of A X = B, X changes by dX = A^-1 (dB - dA X), so a derivative is one more
solve with the same matrix, and a transposition one with the transposed matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, is_linear, register
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import add, div, mul, neg, sub
from xpr.primitives.elementwise_while import written
from xpr.primitives.linalg import library_calls, small_matrices
from xpr.primitives.linalg.matrices import (
    LAPACK_DTYPES,
    along_rows,
    batch_stacks,
    check_matrices,
    conjugated,
    product,
    transposed,
    triangle,
    weak_if_all_are,
)
from xpr.primitives.shapes import broadcast_to, expand_dims, instantiate, mapped_to, move_axis, reshape, squeeze
from xpr.primitives.sharding_rules import batched_sharding
from xpr.primitives.slicing import pad

__all__ = ["triangular_solve", "triangular_solve_p", "tridiagonal_solve", "tridiagonal_solve_p"]


def _residual(db: Any, dax: Any) -> Any:
    """dB - dA X, where either may be zero."""
    if dax is None:
        return instantiate(db)
    return neg(dax) if type(db) is Zero else sub(db, dax)


# -- triangular_solve: X of op(A) X = B, or of X op(A) = B. Of A one triangle is read, and the diagonal unless it is
# taken to be ones. op(A) is A, conjugated and transposed if asked for.


def _triangular_abstract(avals: Sequence[ShapedArray], *, left_side: bool, **params: bool) -> list[ShapedArray]:
    a, b = avals
    check_matrices("triangular_solve", a, square=True)
    types = f"{a.str_short()} and {b.str_short()}"
    if a.dtype != b.dtype:
        raise TypeError(f"triangular_solve: the operands must have one dtype, and are {types}.")
    if a.ndim != b.ndim or a.shape[:-2] != b.shape[:-2]:
        raise ValueError(f"triangular_solve: the operands must be stacks of the same shape, and are {types}.")
    if b.shape[-2 if left_side else -1] != a.shape[-1]:
        raise ValueError(
            f"triangular_solve: the matrices of {types} don't fit: B must have as many "
            f"{'rows' if left_side else 'columns'} as A."
        )
    return [ShapedArray(b.shape, b.dtype)]


def _triangular_reference(
    values: Sequence[Any], *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> list[Any]:
    """By substitution."""
    a, b = map(np.asarray, values)
    a = np.conj(a) if conjugate_a else a
    if transpose_a == left_side:
        a, lower = np.swapaxes(a, -1, -2), not lower
    x = (b if left_side else np.swapaxes(b, -1, -2)).copy()
    n = a.shape[-1]
    for i in range(n) if lower else reversed(range(n)):
        done = slice(0, i) if lower else slice(i + 1, n)
        x[..., i, :] -= np.einsum("...k,...km->...m", a[..., i, done], x[..., done, :])
        if not unit_diagonal:
            x[..., i, :] /= a[..., i, i, None]
    return [x if left_side else np.swapaxes(x, -1, -2)]


def _divided(a: Any, b: Any) -> list[Any]:
    """The solutions of systems of one equation each."""
    return [div(b, broadcast_to(a, aval_of(b).shape))]


_TINY, _MANY = 4, 256  # matrices up to this size; from this many on


def _triangular_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, left_side: bool, lower: bool, transpose_a: bool,
    conjugate_a: bool, unit_diagonal: bool,
) -> list[Value]:  # fmt: skip
    """C for small matrices on CPU; without C XLA's own for many tiny ones; else LAPACK's trsm.

    LAPACK solves the transposed problem, X^T op(A)^T = B^T, whose matrices by columns are these by rows.
    """
    a, rhs = operands
    (out,) = avals
    if not out.size:
        return [rhs]
    conjugate_a = conjugate_a and out.dtype in dtypes.COMPLEX
    if conjugate_a and not transpose_a:
        (a,), conjugate_a = written(b, lambda x: [conjugated(x)], [a]), False
    if not a.aval.is_symbolic and a.aval.shape[-1] == 1 and out.dtype not in dtypes.COMPLEX:
        return [rhs] if unit_diagonal else written(b, _divided, [a, rhs])
    if small_matrices.are_small_systems(b, a.aval, out):
        flags = dict(left_side=left_side, lower=lower, transpose_a=transpose_a, unit_diagonal=unit_diagonal)
        return small_matrices.lower_triangular_solve(b, a, rhs, **flags)
    n = a.aval.shape[-1]
    if b.platform != "cpu" or a.aval.is_symbolic or (n <= _TINY and a.aval.size >= _MANY * n * n):
        how = "ADJOINT" if conjugate_a else "TRANSPOSE" if transpose_a else "NO_TRANSPOSE"
        flags = {"left_side": left_side, "lower": lower, "unit_diagonal": unit_diagonal}
        texts = ", ".join(f"{name} = {str(flag).lower()}" for name, flag in flags.items())
        properties = f"{texts}, transpose_a = #stablehlo<transpose {how}>"
        return [b.op("stablehlo.triangular_solve", [a, rhs], out, properties)]
    flipped = [written(b, lambda x: [transposed(x)], [v])[0] for v in (a, rhs)]
    attributes = {
        "side": "R" if left_side else "L",
        "uplo": "U" if lower else "L",
        "trans_x": "C" if conjugate_a else "T" if transpose_a else "N",
        "diag": "U" if unit_diagonal else "N",
    }
    name, result = library_calls.lapack("trsm", out.dtype), flipped[1].aval
    (solution,) = library_calls.call(b, name, flipped, [result], out.ndim - 2, attributes, {1: 0})
    return written(b, lambda x: [transposed(x)], [solution])


def _triangular_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: bool) -> Any:
    (a, b), (da, db) = primals, tangents
    x = triangular_solve_p.bind(a, b, **params)
    if type(da) is Zero and type(db) is Zero:
        return [x], [Zero.from_primal_value(x)]
    dax = None
    if type(da) is not Zero:
        change = triangle(da, params["lower"], 1 if params["unit_diagonal"] else 0)
        change = conjugated(change) if params["conjugate_a"] else change
        change = transposed(change) if params["transpose_a"] else change
        dax = product(change, x) if params["left_side"] else product(x, change)
    return [x], [triangular_solve_p.bind(a, _residual(db, dax), **params)]


def _triangular_transpose(
    cts: Sequence[Any], operands: Sequence[Any], *, transpose_a: bool, **params: bool
) -> list[Any]:
    (ct,), (a, _) = cts, operands
    if is_linear(a):
        raise UnsupportedRule("triangular_solve is linear in B alone, and can't be transposed to A.")
    return [None, triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def _triangular_batch(
    size: int, values: Sequence[Any], dims: Sequence[int | None], *, left_side: bool, **params: bool
) -> Any:
    """Right-hand sides of one matrix are more columns (on the right side, rows) of one right-hand side."""
    (a, b), (a_dim, b_dim) = values, dims
    params["left_side"] = left_side
    if a_dim is not None or b_dim is None:
        return [triangular_solve_p.bind(*(mapped_to(x, d, size) for x, d in zip(values, dims)), **params)], [0]
    at = aval_of(b).ndim - (1 if left_side else 2)
    rows = move_axis(b, b_dim, at)
    shape = aval_of(rows).shape
    merged = reshape(rows, (*shape[: at - 1], shape[at - 1] * shape[at], *shape[at + 1 :]))
    return [reshape(triangular_solve_p.bind(a, merged, **params), shape)], [at]


def _triangular_flops(operands: Sequence[ShapedArray], results: Sequence[ShapedArray], **params: bool) -> int:
    return results[0].size * operands[0].shape[-1]


triangular_solve_p = register(
    Primitive(
        "triangular_solve",
        abstract=weak_if_all_are(_triangular_abstract),
        sharding=batched_sharding(2),
        params=("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"),
        reference=_triangular_reference,
        lower=_triangular_lower,
        jvp=_triangular_jvp,
        transpose=_triangular_transpose,
        batch=_triangular_batch,
        flops=_triangular_flops,
    )
)


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """The solution X of A X = B (`left_side`) or X A = B, with a triangular matrix A.

    Args:
      a: [..., n, n]; one triangle is read, the other may hold anything.
      b: [..., n, m], or [..., m, n] for the right side; or vectors [..., n].
      left_side: whether A X = B is solved, or else X A = B.
      lower: whether the lower triangle is read, or else the upper one.
      transpose_a, conjugate_a: to be done to A first; the triangle is the one before.
      unit_diagonal: the diagonal is taken to be ones, and not read.

    Returns:
      X, of the shape of B. Where A is singular it has infinities or nans.

    Raises:
      TypeError: dtypes differ, or LAPACK does not have them.
      ValueError: A is not square, or the shapes don't fit.

    >>> from xpr import lax, numpy as jnp
    >>> lax.linalg.triangular_solve(jnp.array([[2., 0.], [1., 1.]]), jnp.array([2., 3.]), left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    is_vector = aval_of(b).ndim == aval_of(a).ndim - 1
    axis = -1 if left_side else -2
    x = triangular_solve_p.bind(
        a,
        expand_dims(b, [axis]) if is_vector else b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a),
        unit_diagonal=bool(unit_diagonal),
    )
    return squeeze(x, [axis]) if is_vector else x


# -- tridiagonal_solve: X of A X = B, where A has the diagonals `dl` (below, from the second element on), d, and `du`
# (above, up to the last but one)


def _tridiagonal_abstract(avals: Sequence[ShapedArray], *, perturb_singular: bool) -> list[ShapedArray]:
    dl, d, du, b = avals
    types = ", ".join(a.str_short() for a in avals)
    if d.dtype not in LAPACK_DTYPES or any(a.dtype != d.dtype for a in avals):
        raise TypeError(f"tridiagonal_solve: takes four operands of one dtype of 32 or 64 bits a part, not {types}.")
    if dl.shape != d.shape or du.shape != d.shape or b.ndim < 2 or b.shape[:-1] != d.shape:
        raise ValueError(f"tridiagonal_solve: takes diagonals [..., n] and B [..., n, m], and got {types}.")
    return [ShapedArray(b.shape, b.dtype)]


def _tridiagonal_reference(values: Sequence[Any], *, perturb_singular: bool) -> list[Any]:
    """Gaussian elimination with LAPACK's row exchanges; singular matrices are not perturbed."""
    dl, d, du, b = map(np.asarray, values)
    n = d.shape[-1]
    dense = np.zeros((*d.shape, n), d.dtype)
    for offset, diagonal in ((-1, dl[..., 1:]), (0, d), (1, du[..., :-1])):
        i = np.arange(n - abs(offset))
        dense[..., i + max(-offset, 0), i + max(offset, 0)] = diagonal
    out = np.empty_like(b)
    for index in np.ndindex(*d.shape[:-1]):
        try:
            out[index] = np.linalg.solve(dense[index], b[index])
        except np.linalg.LinAlgError:
            out[index] = np.nan
    return [out]


def _tridiagonal_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, perturb_singular: bool
) -> list[Value]:
    (out,) = avals
    stack = out.ndim - 2
    if not out.size:
        return [operands[3]]
    if perturb_singular:
        on_cuda = ("cu_tridiagonal_solve_perturbed", library_calls.NONE)
        target, _ = library_calls.routine(b, "tridiagonal_solve", out, ("gtsv", {}), on_cuda)
        name = target if b.platform == "cuda" else "tridiagonal_solve_perturbed_ffi"
        return library_calls.call(b, name, operands, avals, stack)
    if b.platform == "cuda":
        return library_calls.call(b, "cusparse_gtsv2_ffi", operands, avals, stack, in_place={3: 0})
    name, _ = library_calls.routine(b, "tridiagonal_solve", out, ("gtsv", {}), None)
    info = ShapedArray(out.shape[:-2], dtypes.int32)
    results = [*(v.aval for v in operands), info]
    outs = library_calls.call(b, name, operands, results, stack, {}, {i: i for i in range(4)})
    return library_calls.where_solved(b, outs[4], [outs[3]])


def _shifted(x: Any, count: int) -> Any:
    """The elements shifted by `count` towards the start of the last axis; zeros come in."""
    ndim = aval_of(x).ndim
    return pad(x, np.zeros((), aval_of(x).dtype)[()], [*[(0, 0, 0)] * (ndim - 1), (-count, count, 0)])


def tridiagonal_product(diagonals: Sequence[Any], x: Any) -> Any:
    """The product of the tridiagonal matrix and x; diagonals that are symbolic zeros are left out."""
    axis, n = aval_of(x).ndim - 2, aval_of(x).shape[-2]
    zero = np.zeros((), aval_of(x).dtype)[()]
    total = None
    for offset, diagonal in zip((-1, 0, 1), diagonals):
        if type(diagonal) is Zero:
            continue
        padding = [(0, 0, 0)] * aval_of(x).ndim
        padding[axis] = (-offset, offset, 0)
        term = mul(along_rows(diagonal, x), pad(x, zero, padding) if n else x)
        total = term if total is None else add(total, term)
    return total


def _tridiagonal_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    *diagonals, b = primals
    *changes, db = tangents
    x = tridiagonal_solve_p.bind(*diagonals, b, **params)
    if all(type(t) is Zero for t in tangents):
        return [x], [Zero.from_primal_value(x)]
    return [x], [tridiagonal_solve_p.bind(*diagonals, _residual(db, tridiagonal_product(changes, x)), **params)]


def _tridiagonal_transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
    (ct,), (dl, d, du, _) = cts, operands
    if any(map(is_linear, (dl, d, du))):
        raise UnsupportedRule("tridiagonal_solve is linear in B alone, and can't be transposed to the diagonals.")
    return [None, None, None, tridiagonal_solve_p.bind(_shifted(du, -1), d, _shifted(dl, 1), ct, **params)]


tridiagonal_solve_p = register(
    Primitive(
        "tridiagonal_solve",
        abstract=weak_if_all_are(_tridiagonal_abstract),
        sharding=batched_sharding(1),
        reference=_tridiagonal_reference,
        lower=_tridiagonal_lower,
        jvp=_tridiagonal_jvp,
        transpose=_tridiagonal_transpose,
        batch=batch_stacks(lambda: tridiagonal_solve_p),
        flops=lambda operands, results, **_: 5 * results[0].size,
    )
)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """The solution X of A X = B, with a tridiagonal matrix A.

    Args:
      dl: [..., n], the elements below the diagonal: dl[i] = A[i, i - 1], the first is not read.
      d: [..., n], the diagonal.
      du: [..., n], the elements above it: du[i] = A[i, i + 1], the last is not read.
      b: [..., n, m].
      perturb_singular: whether pivots that are almost 0 are moved away from it, by the machine's precision times the
        largest element of the triangular factor: where A is singular, X is then large and finite, as inverse iteration
        for eigenvectors needs it.

    Returns:
      X, of the shape of B; nans where A is singular.

    Raises:
      TypeError: dtypes differ, or LAPACK does not have them.
      ValueError: the shapes don't fit.

    >>> from xpr import lax, numpy as jnp
    >>> ones = jnp.ones(3)
    >>> lax.linalg.tridiagonal_solve(ones, 2 * ones, ones, jnp.array([[3.], [4.], [3.]])).ravel()
    Array([1., 1., 1.], dtype=float32)
    """
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=bool(perturb_singular))
