"""QR decomposition: matrices as products of one with orthonormal columns and a triangular one.

Of A = Q R, Q^H dQ is skew-Hermitian and dR upper triangular, which determines both (Walter and Lehmann,
Algorithmic differentiation of linear algebra functions, 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dimensions.expressions import min_dim
from xpr.primitives.elementwise import add, mul, scalar, sub
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.elementwise_while import written
from xpr.primitives.linalg import library_calls
from xpr.primitives.linalg.choices import check_choice
from xpr.primitives.linalg.factorizations import Factored, cubic, grown, leading, lu_p, solved
from xpr.primitives.linalg.matrices import (
    adjoint,
    batch_stacks,
    check_matrices,
    diagonal_part,
    identity,
    is_complex,
    lower_triangle,
    no_tangents,
    permuted_rows,
    product,
    transposed,
    upper_triangle,
    weak_if_all_are,
)
from xpr.primitives.sharding_rules import batched_sharding
from xpr.primitives.slicing import concatenate, slice_in_dim

__all__ = ["qr", "qr_p"]

# The results are Q, R, and with `pivoting` the order of A's columns.


def _qr_abstract(avals: Sequence[ShapedArray], *, full_matrices: bool, pivoting: bool) -> list[ShapedArray]:
    (a,) = avals
    check_matrices("qr", a)
    *stack, m, n = a.shape
    k = m if full_matrices else min_dim(m, n)
    outs = [ShapedArray((*stack, m, k), a.dtype), ShapedArray((*stack, k, n), a.dtype)]
    return [*outs, ShapedArray((*stack, n), dtypes.int32)] if pivoting else outs


def _qr_reference(values: Sequence[Any], *, full_matrices: bool, pivoting: bool) -> list[Any]:
    (a,) = map(np.asarray, values)
    *stack, _, n = a.shape
    order = np.empty((*stack, n), np.int32)
    if pivoting:
        for index in np.ndindex(*stack):
            order[index] = _longest_first(a[index])
        a = np.take_along_axis(a, order[..., None, :], -1)
    q, r = np.linalg.qr(a, "complete" if full_matrices else "reduced")
    return [q, r, order] if pivoting else [q, r]


def _longest_first(a: np.ndarray) -> list[int]:
    """The columns in the order in which each is the longest, less its part along those before it."""
    remaining, order = a.astype(np.complex128), list(range(a.shape[1]))
    for i in range(min(a.shape)):
        chosen = i + int(np.argmax(np.linalg.norm(remaining[:, i:], axis=0)))
        order[i], order[chosen] = order[chosen], order[i]
        remaining[:, [i, chosen]] = remaining[:, [chosen, i]]
        unit = remaining[:, i] / (np.linalg.norm(remaining[:, i]) or 1)
        remaining[:, i + 1 :] -= np.outer(unit, np.conj(unit) @ remaining[:, i + 1 :])
    return order


def _qr_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, full_matrices: bool, pivoting: bool
) -> list[Value]:
    """R, and the reflections that make up Q, and then Q of those."""
    (a,), (q, r) = operands, avals[:2]
    *stack, m, n = a.aval.shape
    depth = len(stack)
    if not a.aval.size:
        factors = [*written(b, lambda: [identity(q)], []), b.constant(0, r)]
        return [*factors, b.constant(0, avals[2])] if pivoting else factors
    taus = a.aval.update(shape=(*stack, min_dim(m, n)))
    if pivoting:
        on_cuda = ("cuhybrid_geqp3", library_calls.ON_HOST)
        target, attributes = library_calls.routine(b, "qr with pivoting", q, ("geqp3", {}), on_cuda)
        none_chosen, results = b.constant(0, avals[2]), [a.aval, avals[2], taus]
        in_place = {0: 0, 1: 1}
        packed, order, scales = library_calls.call(b, target, [a, none_chosen], results, depth, attributes, in_place)
        further = written(b, lambda x: [sub(x, np.int32(1))], [order])
    else:
        target, _ = library_calls.routine(b, "qr", q, ("geqrf", {}), ("cusolver_geqrf_ffi", {}))
        packed, scales = library_calls.call(b, target, operands, [a.aval, taus], depth, {}, {0: 0})
        further = []
    k = q.shape[-1]
    wide, high = min_dim(k, n), min_dim(k, m)
    reflections, upper = written(
        b, lambda x: [grown(leading(x, m, wide), m, k), upper_triangle(grown(leading(x, high, n), k, n))], [packed]
    )
    name = "ungqr" if q.dtype in dtypes.COMPLEX else "orgqr"
    target, _ = library_calls.routine(b, "qr", q, (name, {}), ("cusolver_orgqr_ffi", {}))
    (orthonormal,) = library_calls.call(b, target, [reflections, scales], [q], depth, {}, {0: 0})
    return [orthonormal, upper, *further]


def _qr_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool, pivoting: bool) -> Any:
    """With C = Q^H dA R^-1, the skew S is its part below the diagonal less the adjoint of that: Q^H dQ = S.

    So dR = Q^H dA - S R, and dQ is Q S and, if A is tall, the part of dA R^-1 that is orthogonal to Q: dA R^-1 - Q C.
    """
    (a,), (da,) = primals, tangents
    outs = qr_p.bind(a, full_matrices=full_matrices, pivoting=pivoting)
    if type(da) is Zero:
        return outs, no_tangents(outs)
    *_, m, n = aval_of(a).shape
    if pivoting:
        da = transposed(permuted_rows(transposed(da), outs[2]))
    k = min_dim(m, n)
    completed = full_matrices and m > n
    q, r = (leading(outs[0], m, k), leading(outs[1], k, n)) if completed else outs[:2]
    turned = product(adjoint(q), da)
    if m > n:
        change = solved(r, da, left_side=False, lower=False)
        seen = product(adjoint(q), change)
    else:
        seen = solved(leading(r, k, k), leading(turned, k, k), left_side=False, lower=False)
    below = lower_triangle(seen, -1)
    skew = sub(below, adjoint(below))
    if is_complex(a):
        turn = diagonal_part(sub(seen, adjoint(seen)))
        skew = add(skew, mul(turn, scalar(0.5, turn)))
    dq = sub(change, product(q, sub(seen, skew))) if m > n else product(q, skew)
    dr = upper_triangle(sub(turned, product(skew, r)))
    if completed:
        dq, dr = concatenate([dq, _completion_tangent(outs[0], dq, n)], aval_of(dq).ndim - 1), grown(dr, m, n)
    return outs, [dq, dr, *no_tangents(outs[2:])]


def _completion_tangent(q: Any, dq: Any, n: int) -> Any:
    """The tangent of the last columns Q2 of a square Q = [Q1 Q2], from that of its first n columns, Q1.

    A product of n Householder reflections is I - V T V^H. So Q2 = [0; I] + (Q1 - [I; 0]) Z^H, where Z (T1 - I) = B1 for
    the top T1 and the bottom B1 of Q1; and as Q is unitary, (Q1 - [I; 0]) (T1 - I)^-H is -(Q1 + Q2 Z).
    """

    def parts(x: Any, axis: int) -> tuple[Any, Any]:
        return slice_in_dim(x, 0, n, axis=axis), slice_in_dim(x, n, None, axis=axis)

    first, last = parts(q, -1)
    (top, bottom), (d_top, d_bottom) = parts(first, -2), parts(dq, -2)
    equations = Factored(*lu_p.bind(sub(top, identity(aval_of(top)))))
    z = transposed(equations.solve_transposed(transposed(bottom)))
    moved = adjoint(sub(d_bottom, product(z, d_top)))
    return sub(product(dq, adjoint(z)), product(add(first, product(last, z)), moved))


qr_p = register(
    Primitive(
        "qr",
        abstract=weak_if_all_are(_qr_abstract),
        sharding=batched_sharding(2),
        reference=_qr_reference,
        lower=_qr_lower,
        jvp=_qr_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: qr_p),
        multiple_results=True,
        flops=cubic(4),
    )
)


def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None) -> Any:
    """The factors of A = Q R: orthonormal columns, and an upper triangular matrix.

    Args:
      x: [..., m, n].
      pivoting: exchanges columns, the longest first: A[:, order] = Q R.
      full_matrices: m columns in Q; otherwise k, the lesser of m and n.
      use_magma: None or False.

    Returns:
      Q [..., m, m or k] and R [..., m or k, n], and with pivoting the order i32[..., n].

    Raises:
      TypeError: the dtype is none of LAPACK's.
      UnsupportedRule: full matrices of a matrix with more rows than columns are differentiated.
      NotImplementedError: MAGMA is asked for.

    >>> from xpr import lax, numpy as jnp
    >>> q, r = lax.linalg.qr(jnp.array([[0., 1.], [2., 0.]]))
    >>> jnp.abs(r)
    Array([[2., 0.],
           [0., 1.]], dtype=float32)
    """
    check_choice("qr", "use_magma", use_magma, False)
    return tuple(qr_p.bind(x, full_matrices=bool(full_matrices), pivoting=bool(pivoting)))
