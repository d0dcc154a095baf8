"""Householder reflections: products of them, and matrices in Hessenberg and in tridiagonal form.

LAPACK stores k reflections H_i = I - tau_i v_i v_i^H in the first columns of a matrix: v_i is 0 before row i, 1 there,
and below it is the i-th column (Golub and Van Loan, "Matrix Computations", 2013, chapter 5.1). Their product is
Q = H_1 H_2 ... H_k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.errors import ArgumentError, UnsupportedRule
from xpr.primitives.elementwise import add, mul, sub
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.linalg import library_calls
from xpr.primitives.linalg.factorizations import cubic, leading
from xpr.primitives.linalg.matrices import (
    adjoint,
    batch_stacks,
    check_matrices,
    conjugated,
    identity,
    lower_triangle,
    no_tangents,
    one_by_one,
    product,
    weak_if_all_are,
)
from xpr.primitives.shapes import broadcast_to, expand_dims, instantiate
from xpr.primitives.sharding_rules import batched_sharding
from xpr.primitives.slicing import slice_in_dim

__all__ = [
    "hessenberg", "hessenberg_p", "householder_product", "householder_product_p", "ormqr", "ormqr_p", "tridiagonal",
    "tridiagonal_p",
]  # fmt: skip

_NO_DERIVATIVE = "{} has no derivative: the reflections of a reduction are chosen by the routine."

# -- Single matrices in NumPy


def _vectors(a: np.ndarray, k: int) -> np.ndarray:
    return np.tril(a[:, :k], -1) + np.eye(a.shape[0], k, dtype=a.dtype)


def _times_reflections(a: np.ndarray, taus: np.ndarray, c: np.ndarray, left: bool, transpose: bool) -> np.ndarray:
    """Q c, Q^H c, c Q or c Q^H."""
    v = _vectors(a, len(taus))
    q = np.eye(a.shape[0], dtype=a.dtype)
    for i in range(len(taus)):
        q = q - taus[i] * np.outer(q @ v[:, i], np.conj(v[:, i]))
    q = np.conj(q.T) if transpose else q
    return q @ c if left else c @ q


def _reflection(x: np.ndarray) -> tuple[Any, Any, np.ndarray]:
    """The tau and the real beta, with H^H x = (beta, 0, ...), and v without its leading 1."""
    alpha, length = x[0], np.linalg.norm(x)
    if not np.linalg.norm(x[1:]) and not np.imag(alpha):
        return x.dtype.type(0), alpha, x[1:]
    beta = -np.copysign(length, np.real(alpha))
    return (beta - alpha) / beta, beta, x[1:] / (alpha - beta)


# -- householder_product: the first columns of Q


def _householder_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    a, taus = avals
    check_matrices("householder_product", a)
    _check_taus("householder_product", a, taus)
    if a.shape[-2] < a.shape[-1]:
        raise ValueError(
            f"householder_product: takes matrices with no more columns than rows, and got {a.str_short()}."
        )
    return [ShapedArray(a.shape, a.dtype)]


def _check_taus(name: str, a: ShapedArray, taus: ShapedArray) -> None:
    if taus.dtype != a.dtype or taus.shape[:-1] != a.shape[:-2] or not 0 <= taus.shape[-1] <= min(a.shape[-2:]):
        raise ArgumentError(
            f"{name}: takes reflections in the columns of matrices and as many factors, of the same dtype, and got "
            f"{a.str_short()} and {taus.str_short()}."
        )


def _householder_reference(values: Sequence[Any]) -> list[Any]:
    a, taus = map(np.asarray, values)
    *_, m, n = a.shape
    first = lambda a, t: [_times_reflections(a, t[0], np.eye(m, n, dtype=a.dtype), True, False)]  # noqa: E731
    return one_by_one(first, [a, taus[..., None, :]], [aval_of(a)])


def _householder_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    (q,) = avals
    if not q.size:
        return [b.constant(0, q)]
    name = "ungqr" if q.dtype in dtypes.COMPLEX else "orgqr"
    target, _ = library_calls.routine(b, "householder_product", q, (name, {}), ("cusolver_orgqr_ffi", {}))
    return library_calls.call(b, target, operands, [q], q.ndim - 2, {}, {0: 0})


def _householder_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    a, taus = primals
    out = householder_product_p.bind(a, taus)
    if all(type(t) is Zero for t in tangents):
        return [out], no_tangents([out])
    start = identity(aval_of(a))
    return [out], [_tangent_of_product(a, taus, start, [*map(instantiate, tangents), None], transpose=False)]


householder_product_p = register(
    Primitive(
        "householder_product",
        abstract=weak_if_all_are(_householder_abstract),
        sharding=batched_sharding(2),
        reference=_householder_reference,
        lower=_householder_lower,
        jvp=_householder_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: householder_product_p),
        flops=cubic(2),
    )
)


def householder_product(a: Any, taus: Any) -> Any:
    """The product of Householder reflections: the first columns of an orthogonal or unitary matrix.

    Args:
      a: [..., m, n], the reflections in the first k columns, below the diagonal; m is at least n.
      taus: [..., k], their factors.

    Returns:
      [..., m, n], the first n columns of H_1 ... H_k.

    Raises:
      TypeError: the dtype is none of LAPACK's, or the shapes don't fit.
      ValueError: there are more columns than rows.

    >>> from xpr import lax, numpy as jnp
    >>> lax.linalg.householder_product(jnp.array([[0.0], [1.0]]), jnp.array([1.0]))
    Array([[ 0.],
           [-1.]], dtype=float32)
    """
    return householder_product_p.bind(a, taus)


# -- ormqr: Q times a matrix


def _ormqr_abstract(avals: Sequence[ShapedArray], *, left: bool, transpose: bool) -> list[ShapedArray]:
    a, taus, c = avals
    check_matrices("ormqr", a)
    check_matrices("ormqr", c)
    _check_taus("ormqr", a, taus)
    if c.dtype != a.dtype or c.shape[:-2] != a.shape[:-2] or c.shape[-2 if left else -1] != a.shape[-2]:
        raise ArgumentError(
            f"ormqr: of the reflections {a.str_short()} and the matrix {c.str_short()} the stacks and the dtypes must "
            f"be the same, and the {'rows' if left else 'columns'} of the matrix as many as the reflections have rows."
        )
    return [ShapedArray(c.shape, c.dtype)]


def _ormqr_reference(values: Sequence[Any], *, left: bool, transpose: bool) -> list[Any]:
    a, taus, c = map(np.asarray, values)
    one = lambda a, taus, c: [_times_reflections(a, taus[0], c, left, transpose)]  # noqa: E731
    return one_by_one(one, [a, taus[..., None, :], c], [aval_of(c)])


def _ormqr_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, left: bool, transpose: bool
) -> list[Value]:
    (out,) = avals
    if not out.size or not operands[1].aval.size:
        return [operands[2]]
    name = "unmqr" if out.dtype in dtypes.COMPLEX else "ormqr"
    attributes = {"left": left, "transpose": transpose}
    target, _ = library_calls.routine(b, "ormqr", out, (name, attributes), ("cusolver_ormqr_ffi", attributes))
    return library_calls.call(b, target, operands, [out], out.ndim - 2, attributes, {2: 0})


def _ormqr_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, left: bool, transpose: bool) -> Any:
    (a, taus, c), (da, dtaus, dc) = primals, tangents
    out = ormqr_p.bind(a, taus, c, left=left, transpose=transpose)
    if type(da) is Zero and type(dtaus) is Zero:
        if type(dc) is Zero:
            return [out], no_tangents([out])
        return [out], [ormqr_p.bind(a, taus, dc, left=left, transpose=transpose)]
    da, dtaus, dc = map(instantiate, tangents)
    if left:
        return [out], [_tangent_of_product(a, taus, c, [da, dtaus, dc], transpose)]
    return [out], [adjoint(_tangent_of_product(a, taus, adjoint(c), [da, dtaus, adjoint(dc)], not transpose))]


def _tangent_of_product(a: Any, taus: Any, c: Any, tangents: list[Any], transpose: bool) -> Any:
    """The tangent of Q c or Q^H c, one reflection after the other: c - tau v w with w = v^H c."""
    da, dtaus, dc = tangents
    *stack, m, _ = aval_of(a).shape
    k = aval_of(taus).shape[-1]
    below, tangents_below = lower_triangle(leading(a, m, k), -1), lower_triangle(leading(da, m, k), -1)
    vectors = add(below, identity(aval_of(below)))
    if transpose:
        taus, dtaus = conjugated(taus), conjugated(dtaus)
    depth = len(stack)
    for i in range(k) if transpose else reversed(range(k)):
        v, dv = (slice_in_dim(x, i, i + 1, axis=depth + 1) for x in (vectors, tangents_below))
        tau, dtau = (
            broadcast_to(expand_dims(slice_in_dim(x, i, i + 1, axis=depth), (depth,)), aval_of(c).shape)
            for x in (taus, dtaus)
        )
        w, dw = product(adjoint(v), c), product(adjoint(dv), c)
        moved = add(product(dv, w), product(v, dw))
        if dc is not None:
            moved = add(moved, product(v, product(adjoint(v), dc)))
        change = add(mul(dtau, product(v, w)), mul(tau, moved))
        dc = sub(dc, change) if dc is not None else mul(change, aval_of(c).dtype.type(-1))
        c = sub(c, mul(tau, product(v, w)))
    return dc if dc is not None else mul(c, aval_of(c).dtype.type(0))


def _ormqr_transpose(cts: Sequence[Any], operands: Sequence[Any], *, left: bool, transpose: bool) -> list[Any]:
    """The transpose of Q, which is the conjugate of its adjoint."""
    a, taus, c = operands
    if not is_linear(c):
        raise UnsupportedRule("ormqr is linear in the matrix alone, and can't be transposed to the reflections.")
    back = ormqr_p.bind(a, taus, conjugated(cts[0]), left=left, transpose=not transpose)
    return [None, None, conjugated(back)]


ormqr_p = register(
    Primitive(
        "ormqr",
        abstract=weak_if_all_are(_ormqr_abstract),
        sharding=batched_sharding(2),
        reference=_ormqr_reference,
        lower=_ormqr_lower,
        jvp=_ormqr_jvp,
        transpose=_ormqr_transpose,
        batch=batch_stacks(lambda: ormqr_p),
        flops=cubic(4),
    )
)


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """A matrix times the orthogonal or unitary Q of a QR decomposition, given by its reflections.

    Args:
      a: [..., m, n], the reflections in the first k columns, below the diagonal.
      taus: [..., k], their factors.
      c: the matrix, [..., m, p], or [..., p, m] where `left` is False.
      left: Q C; or else C Q.
      transpose: Q^H in place of Q.

    Returns:
      An array of the shape of `c`.

    Raises:
      TypeError: the dtype is none of LAPACK's, or the shapes don't fit.

    >>> from xpr import lax, numpy as jnp
    >>> x = jnp.array([[3.0], [4.0]])
    >>> packed, taus = jnp.linalg.qr(x, mode="raw")
    >>> lax.linalg.ormqr(packed.mT, taus, x, transpose=True).round(5)
    Array([[-5.],
           [ 0.]], dtype=float32)
    """
    return ormqr_p.bind(a, taus, c, left=bool(left), transpose=bool(transpose))


# -- hessenberg: A = Q H Q^H, with H zero below the first diagonal under the main one


def _hessenberg_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    (a,) = avals
    check_matrices("hessenberg", a, square=True)
    *stack, n, _ = a.shape
    return [ShapedArray(a.shape, a.dtype), ShapedArray((*stack, max(n - 1, 0)), a.dtype)]


def _hessenberg_reference(values: Sequence[Any]) -> list[Any]:
    (a,) = map(np.asarray, values)
    return one_by_one(_hessenberg_of_one, [a], _hessenberg_abstract([aval_of(a)]))


def _hessenberg_of_one(a: np.ndarray) -> list[np.ndarray]:
    a, n = a.copy(), len(a)
    taus = np.zeros(max(n - 1, 0), a.dtype)
    for j in range(n - 1):
        taus[j], beta, below = _reflection(a[j + 1 :, j])
        v = np.concatenate([np.ones(1, a.dtype), below])
        a[:, j + 1 :] -= taus[j] * np.outer(a[:, j + 1 :] @ v, np.conj(v))
        a[j + 1 :, j + 1 :] -= np.conj(taus[j]) * np.outer(v, np.conj(v) @ a[j + 1 :, j + 1 :])
        a[j + 1, j], a[j + 2 :, j] = beta, below
    return [a, taus]


def _hessenberg_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    packed, taus = avals
    if not packed.size:
        return [b.constant(0, packed), b.constant(0, taus)]
    *stack, n, _ = packed.shape
    range_of_rows = {"low": 1, "high": n}
    target, attributes = library_calls.routine(b, "hessenberg", packed, ("gehrd", range_of_rows), None)
    status = ShapedArray(tuple(stack), dtypes.int32)
    *outs, info = library_calls.call(b, target, operands, [packed, taus, status], len(stack), attributes, {0: 0})
    return library_calls.where_solved(b, info, outs)


hessenberg_p = register(
    Primitive(
        "hessenberg",
        abstract=weak_if_all_are(_hessenberg_abstract),
        sharding=batched_sharding(2),
        reference=_hessenberg_reference,
        lower=_hessenberg_lower,
        jvp=Unsupported(_NO_DERIVATIVE.format("hessenberg")),
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: hessenberg_p),
        multiple_results=True,
        flops=cubic(10 / 3),
    )
)


def hessenberg(a: Any) -> tuple[Any, Any]:
    """Square matrices reduced to Hessenberg form by reflections: A = Q H Q^H. On CPU alone.

    Args:
      a: [..., n, n].

    Returns:
      [..., n, n], H on and above the first diagonal under the main one, and below it the reflections; and their factors
      [..., n - 1]. Q leaves the first axis as it is: it is 1 and `householder_product` of the rest.

    Raises:
      TypeError: the dtype is none of LAPACK's.
      ValueError: the matrices are not square.

    >>> from xpr import lax, numpy as jnp
    >>> packed, taus = lax.linalg.hessenberg(jnp.array([[1., 2., 3.], [3., 4., 5.], [4., 5., 6.]]))
    >>> packed[1, 0], taus.shape
    (Array(-5., dtype=float32), (2,))
    """
    packed, taus = hessenberg_p.bind(a)
    return packed, taus


# -- tridiagonal: A = Q T Q^H of Hermitian matrices


def _tridiagonal_abstract(avals: Sequence[ShapedArray], *, lower: bool) -> list[ShapedArray]:
    (a,) = avals
    check_matrices("tridiagonal", a, square=True)
    *stack, n, _ = a.shape
    if not n:
        raise ValueError(f"tridiagonal: takes matrices with a row, and got {a.str_short()}.")
    real = dtypes.real_part_of(a.dtype)
    beside = (*stack, n - 1)
    return [
        ShapedArray(a.shape, a.dtype), ShapedArray((*stack, n), real), ShapedArray(beside, real),
        ShapedArray(beside, a.dtype),
    ]  # fmt: skip


def _tridiagonal_reference(values: Sequence[Any], *, lower: bool) -> list[Any]:
    (a,) = map(np.asarray, values)
    of_one: Callable[..., Any] = _tridiagonal_from_lower if lower else _tridiagonal_from_upper
    return one_by_one(of_one, [a], _tridiagonal_abstract([aval_of(a)], lower=lower))


def _tridiagonal_from_lower(a: np.ndarray) -> list[np.ndarray]:
    n, packed = len(a), a.copy()
    a = np.tril(a, -1) + np.conj(np.tril(a, -1).T) + np.diag(np.real(np.diag(a)))
    d, e, taus = np.zeros(n), np.zeros(n - 1), np.zeros(n - 1, a.dtype)
    for i in range(n - 1):
        taus[i], e[i], below = _reflection(a[i + 1 :, i])
        v = np.concatenate([np.ones(1, a.dtype), below])
        h = np.eye(n - i - 1, dtype=a.dtype) - taus[i] * np.outer(v, np.conj(v))
        a[i + 1 :, i + 1 :] = np.conj(h.T) @ a[i + 1 :, i + 1 :] @ h
        packed[i + 1, i], packed[i + 2 :, i] = e[i], below
    d[:] = np.real(np.diag(a))
    np.fill_diagonal(packed, d)
    return [packed, d, e, taus]


def _tridiagonal_from_upper(a: np.ndarray) -> list[np.ndarray]:
    """From the last column to the first: the matrix with rows and columns reversed, from its lower triangle."""
    packed, d, e, taus = _tridiagonal_from_lower(np.tril(a[::-1, ::-1]))
    return [np.triu(packed[::-1, ::-1]) + np.tril(a, -1), d[::-1], e[::-1], taus[::-1]]


def _tridiagonal_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, lower: bool) -> list[Value]:
    packed = avals[0]
    if not packed.size:
        return [b.constant(0, aval) for aval in avals]
    name = "hetrd" if packed.dtype in dtypes.COMPLEX else "sytrd"
    target, attributes = library_calls.routine(
        b, "tridiagonal", packed, (name, {"uplo": "L" if lower else "U"}), ("cusolver_sytrd_ffi", {"lower": lower})
    )
    status = packed.update(shape=packed.shape[:-2], dtype=dtypes.int32)
    *outs, info = library_calls.call(b, target, operands, [*avals, status], packed.ndim - 2, attributes, {0: 0})
    return library_calls.where_solved(b, info, outs)


tridiagonal_p = register(
    Primitive(
        "tridiagonal",
        abstract=weak_if_all_are(_tridiagonal_abstract),
        sharding=batched_sharding(2),
        reference=_tridiagonal_reference,
        lower=_tridiagonal_lower,
        jvp=Unsupported(_NO_DERIVATIVE.format("tridiagonal")),
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: tridiagonal_p),
        multiple_results=True,
        flops=cubic(4 / 3),
    )
)


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """Hermitian matrices reduced to tridiagonal form by reflections: A = Q T Q^H, T real.

    Args:
      a: [..., n, n], of which one triangle is read.
      lower: the lower triangle; or else the upper one.

    Returns:
      [..., n, n], T in its three diagonals and the reflections beyond them, in the triangle that was read; the diagonal
      of T [..., n]; the elements beside it [..., n - 1]; the factors of the reflections [..., n - 1].

    Raises:
      TypeError: the dtype is none of LAPACK's.
      ValueError: the matrices are not square, or have no row.

    >>> from xpr import lax, numpy as jnp
    >>> _, d, e, _ = lax.linalg.tridiagonal(jnp.array([[2., 1.], [1., 3.]]))
    >>> d, e
    (Array([2., 3.], dtype=float32), Array([1.], dtype=float32))
    """
    packed, d, e, taus = tridiagonal_p.bind(a, lower=bool(lower))
    return packed, d, e, taus
