"""Schur decomposition: A = Q T Q^H, with Q unitary and T upper triangular; for real matrices with 2 x 2 blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.linalg import library_calls
from xpr.primitives.linalg.factorizations import cubic
from xpr.primitives.linalg.matrices import batch_stacks, check_matrices, weak_if_all_are
from xpr.primitives.sharding_rules import batched_sharding

__all__ = ["schur", "schur_p"]


def _abstract(avals: Sequence[ShapedArray], *, compute_schur_vectors: bool) -> list[ShapedArray]:
    (a,) = avals
    check_matrices("schur", a, square=True)
    return [ShapedArray(a.shape, a.dtype)] * (2 if compute_schur_vectors else 1)


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, compute_schur_vectors: bool) -> list[Value]:
    form = avals[0]
    if not form.size:
        return [b.constant(0, aval) for aval in avals]
    stack = form.shape[:-2]
    values = form.update(shape=form.shape[:-1])
    status = ShapedArray(stack, dtypes.int32)
    attributes = {"mode": "V" if compute_schur_vectors else "N", "sort": "N"}
    target, _ = library_calls.routine(b, "schur", form, ("gees", attributes), None)
    results = [form, form, *[values] * (1 if form.dtype in dtypes.COMPLEX else 2), status, status]
    outs = library_calls.call(b, target, operands, results, len(stack), attributes, {0: 0})
    return library_calls.where_solved(b, outs[-1], outs[: len(avals)])


schur_p = register(
    Primitive(
        "schur",
        abstract=weak_if_all_are(_abstract),
        sharding=batched_sharding(2),
        reference=Unsupported("NumPy has no Schur decomposition."),
        lower=_lower,
        jvp=Unsupported(
            "schur has no derivative: its vectors, and the order of eigenvalues, are the routine's choice."
        ),
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: schur_p),
        multiple_results=True,
        flops=cubic(25),
    )
)


def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> Any:
    """The Schur decomposition A = Q T Q^H of square matrices. On CPU alone.

    Args:
      x: [..., n, n].
      compute_schur_vectors: whether to compute Q.
      sort_eig_vals: False: LAPACK's order is the only one.
      select_callable: None, likewise.

    Returns:
      T [..., n, n], upper triangular, or of real matrices with 2 x 2 blocks on the diagonal for pairs of complex
      eigenvalues; and Q [..., n, n] if asked for. A tuple, or a list of T alone, as in JAX.

    Raises:
      TypeError: the dtype is none of LAPACK's.
      ValueError: the matrices are not square.
      NotImplementedError: eigenvalues should be sorted.

    >>> from xpr import lax, numpy as jnp
    >>> t, q = lax.linalg.schur(jnp.array([[0., 2.], [0., 3.]]))
    >>> t
    Array([[0., 2.],
           [0., 3.]], dtype=float32)
    """
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("schur: LAPACK's order of eigenvalues is the only one: leave sort_eig_vals out.")
    return schur_p.bind(x, compute_schur_vectors=bool(compute_schur_vectors))
