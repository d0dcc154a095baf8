"""Eigenvalue and singular value decompositions: `eigh`, `eig`, `svd`.

Derivatives rotate eigenvectors and singular vectors within the space that they span, element by element by the inverse
of the difference of two eigenvalues (Giles, An extended collection of matrix derivative results for forward and
reverse mode, 2008). Where two are equal the vectors have no derivative, and there are infinities or nans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import JaxprEqn
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dimensions.expressions import max_dim, min_dim, surely_below
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import abs as absolute
from xpr.primitives.elementwise import (
    add,
    complex_,
    conj,
    convert_element_type,
    div,
    eq,
    gt,
    imag,
    lt,
    mul,
    neg,
    real,
    scalar,
    sub,
)
from xpr.primitives.elementwise_rules import NOT_LINEAR
from xpr.primitives.elementwise_while import written
from xpr.primitives.linalg import library_calls
from xpr.primitives.linalg.choices import EighImplementation, EigImplementation, SvdAlgorithm, check_choice
from xpr.primitives.linalg.factorizations import Factored, lu_p, symmetrized
from xpr.primitives.linalg.matrices import (
    adjoint,
    along_columns,
    along_rows,
    batch_stacks,
    check_matrices,
    diagonal_of,
    diagonal_part,
    hermitian_from,
    identity,
    is_complex,
    no_tangents,
    one_by_one,
    product,
    weak_if_all_are,
)
from xpr.primitives.reductions import reduce_max
from xpr.primitives.shapes import full, reduce_sum
from xpr.primitives.sharding_rules import batched_sharding
from xpr.primitives.slicing import pad, select, slice_in_dim

__all__ = ["eig", "eig_p", "eigh", "eigh_p", "svd", "svd_p"]


def _real(x: Any) -> Any:
    return real(x) if is_complex(x) else x


def _as(x: Any, dtype: np.dtype) -> Any:
    return x if aval_of(x).dtype == dtype else convert_element_type(x, dtype)


def _inverse_differences(w: Any, dtype: np.dtype) -> Any:
    """F[i, j] = 1 / (w[j] - w[i]), 0 on the diagonal."""
    n = aval_of(w).shape[-1]
    square = identity(aval_of(w).update(shape=(*aval_of(w).shape, n)))
    differences = add(sub(along_columns(w, square), along_rows(w, square)), square)
    return _as(sub(div(scalar(1, differences), differences), square), dtype)


def _info(aval: ShapedArray) -> ShapedArray:
    return ShapedArray(aval.shape[:-2], dtypes.int32)


def _check_subset(name: str, subset: tuple[int, int] | None, count: int) -> None:
    if subset is not None and (not 0 <= subset[0] <= subset[1] or surely_below(count, subset[1])):
        raise ValueError(
            f"{name}: subset_by_index is (first, last + 1) of {count} values, from 0 to {count}, and is {subset}."
        )


def _subset(x: Any, subset: tuple[int, int] | None, axis: int) -> Any:
    return x if subset is None else slice_in_dim(x, *subset, axis=axis)


# -- eigh: A = V diag(w) V^H of Hermitian matrices, w in ascending order; one triangle of A is read. The results are w,
# and V if it is wanted.


def _eigh_abstract(avals: Sequence[ShapedArray], *, lower: bool, compute_v: bool) -> list[ShapedArray]:
    (a,) = avals
    check_matrices("eigh", a, square=True)
    w = ShapedArray(a.shape[:-1], dtypes.real_part_of(a.dtype))
    return [w, ShapedArray(a.shape, a.dtype)] if compute_v else [w]


def _eigh_reference(values: Sequence[Any], *, lower: bool, compute_v: bool) -> list[Any]:
    (a,) = map(np.asarray, values)
    uplo: Any = "L" if lower else "U"

    def compute(x: Any) -> Sequence[Any]:
        return np.linalg.eigh(x, uplo) if compute_v else [np.linalg.eigvalsh(x, uplo)]

    return one_by_one(compute, [a], _eigh_abstract([aval_of(a)], lower=lower, compute_v=compute_v))


def _eigh_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, lower: bool, compute_v: bool
) -> list[Value]:
    (a,), w = operands, avals[0]
    if not a.aval.size:
        return [b.constant(0, w), a][: len(avals)]
    name = "heevd" if a.aval.dtype in dtypes.COMPLEX else "syevd"
    on_cpu = (name, {"mode": "V" if compute_v else "N", "uplo": "L" if lower else "U"})
    on_cuda: library_calls.Routine = ("cusolver_syevd_ffi", {"lower": lower, "algorithm": "\0"})
    target, attributes = library_calls.routine(b, "eigh", a.aval, on_cpu, on_cuda)
    results = [a.aval, w, _info(a.aval)]
    vectors, values, info = library_calls.call(b, target, operands, results, a.aval.ndim - 2, attributes, {0: 0})
    return library_calls.where_solved(b, info, [values, vectors][: len(avals)])


def _eigh_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, lower: bool, compute_v: bool) -> Any:
    """With M = V^H dA V, dw is the diagonal of M and dV = V (F o M)."""
    (da,) = tangents
    if type(da) is Zero:
        outs = eigh_p.bind(*primals, lower=lower, compute_v=compute_v)
        return outs, no_tangents(outs)
    w, v = eigh_p.bind(*primals, lower=lower, compute_v=True)
    change = product(adjoint(v), product(hermitian_from(da, lower), v))
    dw = _real(diagonal_of(change))
    if not compute_v:
        return [w], [dw]
    return [w, v], [dw, product(v, mul(_inverse_differences(w, aval_of(v).dtype), change))]


def _without_vectors(**fewer: bool) -> Any:
    """The dce rule of a primitive whose first result is values: if the others are unused, they are not computed."""

    def dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
        if any(used[1:]) or len(used) == 1:
            return eqn
        return eqn.replace(outvars=eqn.outvars[:1], params={**eqn.params, **fewer})

    return dce


eigh_p = register(
    Primitive(
        "eigh",
        abstract=weak_if_all_are(_eigh_abstract),
        sharding=batched_sharding(2),
        reference=_eigh_reference,
        lower=_eigh_lower,
        jvp=_eigh_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: eigh_p),
        multiple_results=True,
        dce=_without_vectors(compute_v=False),
        flops=lambda operands, results, **params: 9 * operands[0].size * operands[0].shape[-1],
    )
)


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:
    """The eigenvectors and eigenvalues of Hermitian matrices.

    Args:
      x: [..., n, n].
      lower: of matrices that are not symmetrized, whether the lower triangle is read, or else the upper one.
      symmetrize_input: takes (A + A^H) / 2.
      sort_eigenvalues: they come in ascending order in any case.
      subset_by_index: the index of the first of those to return, and the index after the last; None for all.
      implementation: None or QR.

    Returns:
      Eigenvectors [..., n, n], as columns, and eigenvalues [..., n]. JAX's order: `jnp.linalg.eigh` has the other.

    Raises:
      TypeError: the dtype is none of LAPACK's.
      ValueError: the matrices are not square, or there is no such subset.
      NotImplementedError: another implementation is asked for.

    >>> from xpr import lax, numpy as jnp
    >>> vectors, values = lax.linalg.eigh(jnp.array([[2., 0.], [0., 1.]]))
    >>> values
    Array([1., 2.], dtype=float32)
    """
    check_choice("eigh", "implementation", implementation, EighImplementation.QR)
    check_matrices("eigh", aval_of(x), square=True)
    _check_subset("eigh", subset_by_index, aval_of(x).shape[-1])
    w, v = eigh_p.bind(symmetrized(x) if symmetrize_input else x, lower=bool(lower), compute_v=True)
    return _subset(v, subset_by_index, -1), _subset(w, subset_by_index, -1)


# -- eig: A V = V diag(w), of any square matrices; all results are complex: w, then the left and the right eigenvectors
# as far as they are asked for.


def _eig_abstract(
    avals: Sequence[ShapedArray], *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool
) -> list[ShapedArray]:
    (a,) = avals
    check_matrices("eig", a, square=True)
    dtype = np.result_type(a.dtype, np.complex64)
    vectors = ShapedArray(a.shape, dtype)
    return [ShapedArray(a.shape[:-1], dtype), *[vectors] * (compute_left_eigenvectors + compute_right_eigenvectors)]


def _eig_reference(
    values: Sequence[Any], *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool
) -> list[Any]:
    (a,) = map(np.asarray, values)

    def compute(x: Any) -> list[Any]:
        w, right = np.linalg.eig(x)
        results = [w]
        if compute_left_eigenvectors:
            left = np.conj(np.linalg.inv(right)).T
            results.append(left / np.linalg.norm(left, axis=0))
        return [*results, right] if compute_right_eigenvectors else results

    flags = {"compute_left_eigenvectors": compute_left_eigenvectors}
    shapes = _eig_abstract([aval_of(a)], compute_right_eigenvectors=compute_right_eigenvectors, **flags)
    return one_by_one(compute, [a], shapes)


def _eig_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
) -> list[Value]:  # fmt: skip
    (a,), w = operands, avals[0]
    if not a.aval.size:
        return [b.constant(0, aval) for aval in avals]
    if b.platform == "cuda" and not compute_left_eigenvectors:
        return _eig_by_cusolver(b, a, avals)
    vectors = ShapedArray(a.aval.shape, w.dtype)
    is_real = a.aval.dtype not in dtypes.COMPLEX
    parts = [w.update(dtype=a.aval.dtype)] * 2 if is_real else [w]
    left, right = ("V" if flag else "N" for flag in (compute_left_eigenvectors, compute_right_eigenvectors))
    on_host: library_calls.Attributes = {
        "left": compute_left_eigenvectors,
        "right": compute_right_eigenvectors,
        **library_calls.ON_HOST,
    }
    target, attributes = library_calls.routine(
        b, "eig", a.aval, ("geev", {"compute_left": left, "compute_right": right}),
        ("cuhybrid_eig_real" if is_real else "cuhybrid_eig_comp", on_host),
    )  # fmt: skip
    results = [*parts, vectors, vectors, _info(a.aval)]
    *outs, info = library_calls.call(b, target, operands, results, a.aval.ndim - 2, attributes)
    values, (left_vectors, right_vectors) = outs[: len(parts)], outs[len(parts) :]
    if is_real:
        values = written(b, lambda x, y: [complex_(x, y)], values)
    outs = [*values, *[left_vectors] * compute_left_eigenvectors, *[right_vectors] * compute_right_eigenvectors]
    return library_calls.where_solved(b, info, outs)


def _eig_by_cusolver(b: Builder, a: Value, avals: list[ShapedArray]) -> list[Value]:
    """Eigenvalues, and right eigenvectors if wanted; the routine has no left ones."""
    flags = {"left": False, "right": len(avals) > 1}
    results = [a.aval, avals[0], a.aval, a.aval, _info(a.aval)]
    _, values, _, packed, info = library_calls.call(b, "cusolver_geev_ffi", [a], results, a.aval.ndim - 2, flags)
    outs = [values]
    if len(avals) > 1:
        is_real = a.aval.dtype not in dtypes.COMPLEX
        outs += written(b, lambda w, v: [unpacked_pairs(w, v)], [values, packed]) if is_real else [packed]
    return library_calls.where_solved(b, info, outs)


def unpacked_pairs(w: Any, packed: Any) -> Any:
    """The complex eigenvectors of a real matrix, of which two neighbouring columns hold the real and the imaginary
    parts of those of w and conj(w), the one above the real axis first.
    """
    zero, untouched = np.zeros((), aval_of(packed).dtype)[()], [(0, 0, 0)] * (aval_of(packed).ndim - 1)
    before, after = (pad(packed, zero, [*untouched, (by, -by, 0)]) for by in (1, -1))
    side, none = along_columns(imag(w), packed), full(aval_of(packed).shape, 0, aval_of(packed).dtype)
    imaginary = select(gt(side, none), after, select(lt(side, none), neg(packed), none))
    return complex_(select(lt(side, none), before, packed), imaginary)


def _eig_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
) -> Any:  # fmt: skip
    """With M = V^-1 dA V, dw is the diagonal of M, and dV = V (F o M), up to what keeps lengths and phases."""
    (a,), (da,) = primals, tangents
    outs = eig_p.bind(
        a,
        compute_left_eigenvectors=compute_left_eigenvectors,
        compute_right_eigenvectors=compute_right_eigenvectors or type(da) is not Zero,
    )
    if type(da) is Zero:
        return outs, no_tangents(outs)
    w, *left, v = outs
    da = _as(da, aval_of(v).dtype)
    change = _in_basis(v, da)
    tangents = [diagonal_of(change)]
    if compute_left_eigenvectors:  # which are the right ones of the adjoint matrix, for the conjugate eigenvalues
        tangents.append(_vectors_tangent(conj(w), left[0], _in_basis(left[0], adjoint(da))))
    if compute_right_eigenvectors:
        tangents.append(_vectors_tangent(w, v, change))
    return outs[: len(tangents)], tangents


def _in_basis(v: Any, da: Any) -> Any:
    return Factored(*lu_p.bind(v)).solve(product(da, v))


def _vectors_tangent(w: Any, v: Any, change: Any) -> Any:
    return _scaled_as_lapack(v, product(v, mul(_inverse_differences(w, aval_of(v).dtype), change)))


def _scaled_as_lapack(v: Any, dv: Any) -> Any:
    """Tangents of eigenvectors of length 1 whose greatest element is real, from those of any scale."""
    axis = aval_of(v).ndim - 2

    def column_sums(x: Any) -> Any:
        return along_columns(reduce_sum(x, (axis,)), v)

    size = absolute(v)
    zero = full(aval_of(v).shape, 0, aval_of(v).dtype)
    is_greatest = eq(size, along_columns(reduce_max(size, (axis,)), size))
    greatest, turned = (column_sums(select(is_greatest, x, zero)) for x in (v, dv))
    along = real(column_sums(mul(conj(v), dv)))
    phase = imag(div(turned, greatest))
    return sub(dv, mul(v, complex_(along, phase)))


eig_p = register(
    Primitive(
        "eig",
        abstract=weak_if_all_are(_eig_abstract),
        sharding=batched_sharding(2),
        reference=_eig_reference,
        lower=_eig_lower,
        jvp=_eig_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: eig_p),
        multiple_results=True,
        dce=_without_vectors(compute_left_eigenvectors=False, compute_right_eigenvectors=False),
        flops=lambda operands, results, **params: 25 * operands[0].size * operands[0].shape[-1],
    )
)


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """The eigenvalues of square matrices, in no particular order, and their eigenvectors.

    Args:
      x: [..., n, n].
      compute_left_eigenvectors: whether to compute them.
      compute_right_eigenvectors: whether to compute them.
      enable_eigvec_derivs: eigenvectors have derivatives in any case.
      implementation: None: LAPACK on CPU, and on GPUs cuSOLVER, or LAPACK on the host for left eigenvectors.
      use_magma: None or False.

    Returns:
      A list: the eigenvalues [..., n], and as far as asked for, the left and the right eigenvectors [..., n, n] as
      columns, of length 1. All are complex.

    Raises:
      TypeError: the dtype is none of LAPACK's.
      ValueError: the matrices are not square.
      NotImplementedError: another implementation is asked for.

    >>> from xpr import lax, numpy as jnp
    >>> flags = {"compute_left_eigenvectors": False, "compute_right_eigenvectors": False}
    >>> lax.linalg.eig(jnp.array([[0., 1.], [-1., 0.]]), **flags)[0]
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    check_choice("eig", "implementation", implementation, EigImplementation.LAPACK)
    check_choice("eig", "use_magma", use_magma, False)
    return eig_p.bind(
        x,
        compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors),
    )


# -- svd: A = U diag(s) V^H, s in descending order. The results are s, then U and V^H if `compute_uv`.


def _svd_abstract(
    avals: Sequence[ShapedArray], *, full_matrices: bool, compute_uv: bool, algorithm: str | None = None
) -> list[ShapedArray]:
    (a,) = avals
    check_matrices("svd", a)
    *stack, m, n = a.shape
    k = min_dim(m, n)
    s = ShapedArray((*stack, k), dtypes.real_part_of(a.dtype))
    if not compute_uv:
        return [s]
    left, right = ((m, m), (n, n)) if full_matrices else ((m, k), (k, n))
    return [s, ShapedArray((*stack, *left), a.dtype), ShapedArray((*stack, *right), a.dtype)]


def _svd_reference(
    values: Sequence[Any], *, full_matrices: bool, compute_uv: bool, algorithm: str | None = None
) -> list[Any]:
    (a,) = map(np.asarray, values)

    def compute(x: Any) -> Any:
        if not compute_uv:
            return [np.linalg.svd(x, compute_uv=False)]
        u, s, vh = np.linalg.svd(x, full_matrices)
        return s, u, vh

    return one_by_one(compute, [a], _svd_abstract([aval_of(a)], full_matrices=full_matrices, compute_uv=compute_uv))


def _svd_lower(
    b: Builder,
    operands: list[Value],
    avals: list[ShapedArray],
    *,
    full_matrices: bool,
    compute_uv: bool,
    algorithm: str | None = None,
) -> list[Value]:
    (a,) = operands
    stack = a.aval.shape[:-2]
    if not a.aval.size:
        return [b.constant(0, avals[0]), *(written(b, lambda x=x: [identity(x)], [])[0] for x in avals[1:])]
    if b.platform == "cuda":
        return _svd_by_cusolver(b, a, avals, full_matrices)
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    name = "gesdd" if algorithm is None else "gesvd"
    target, attributes = library_calls.routine(b, "svd", a.aval, (name, {"mode": mode}), None)
    vectors = avals[1:] or _svd_abstract([a.aval], full_matrices=True, compute_uv=True)[1:]
    results = [a.aval, avals[0], *vectors, _info(a.aval)]
    _, *outs, info = library_calls.call(b, target, operands, results, len(stack), attributes, {0: 0})
    return library_calls.where_solved(b, info, outs[: len(avals)])


def _svd_by_cusolver(b: Builder, a: Value, avals: list[ShapedArray], full_matrices: bool) -> list[Value]:
    """The SVD by gesvd, which needs at least as many rows as columns; else of the adjoint, with U and V swapped."""
    *stack, m, n = a.aval.shape
    wide = n > m
    (operand,) = written(b, lambda x: [adjoint(x) if wide else x], [a])
    k = min_dim(m, n)
    tall, short = (max_dim(m, n), max_dim(m, n) if full_matrices else k), (k, k)
    s, u, vh = avals[0], *(a.aval.update(shape=(*stack, *shape)) for shape in (tall, short))
    flags: library_calls.Attributes = {
        "full_matrices": full_matrices, "compute_uv": len(avals) > 1, "transposed": False,
    }  # fmt: skip
    results = [operand.aval, s, u, vh, _info(a.aval)]
    outs = library_calls.call(b, "cusolver_gesvd_ffi", [operand], results, len(stack), flags, {0: 0})
    _, values, left, right, info = outs
    if wide:
        left, right = written(b, lambda x, y: [adjoint(y), adjoint(x)], [left, right])
    return library_calls.where_solved(b, info, [values, left, right][: len(avals)])


def _svd_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool, compute_uv: bool, **algorithm: Any
) -> Any:
    """With M = U^H dA V, ds is the diagonal of M, and the rest of M gives the rotations of U and V."""
    (a,), (da,) = primals, tangents
    flags = {"full_matrices": full_matrices, "compute_uv": compute_uv, **algorithm}
    if type(da) is Zero:
        outs = svd_p.bind(a, **flags)
        return outs, no_tangents(outs)
    *_, m, n = aval_of(a).shape
    if compute_uv and full_matrices and m != n:
        raise UnsupportedRule(
            f"svd: full_matrices=True completes the singular vectors of {aval_of(a).str_short()} in an arbitrary way, "
            "which has no derivative. Pass full_matrices=False."
        )
    s, u, vh = svd_p.bind(a, full_matrices=False, compute_uv=True, **algorithm)
    change = product(adjoint(u), product(da, adjoint(vh)))
    ds = _real(diagonal_of(change))
    if not compute_uv:
        return [s], [ds]
    dtype = aval_of(a).dtype
    complex_s = _as(s, dtype)
    f = _inverse_differences(mul(s, s), dtype)
    scaled, scaled_back = mul(change, along_columns(complex_s, change)), mul(change, along_rows(complex_s, change))
    du = product(u, mul(f, add(scaled, adjoint(scaled))))
    dv = product(adjoint(vh), mul(f, add(scaled_back, adjoint(scaled_back))))
    if is_complex(a):  # only the difference of the phases of a pair is determined: the vector in U turns
        phase = diagonal_part(sub(change, adjoint(change)))
        du = add(du, product(u, div(phase, along_rows(mul(complex_s, scalar(2, complex_s)), phase))))
    if m > n:
        outside = sub(product(da, adjoint(vh)), product(u, change))
        du = add(du, div(outside, along_columns(complex_s, outside)))
    if n > m:
        outside = sub(product(adjoint(da), u), product(adjoint(vh), adjoint(change)))
        dv = add(dv, div(outside, along_columns(complex_s, outside)))
    return [s, u, vh], [ds, du, adjoint(dv)]


svd_p = register(
    Primitive(
        "svd",
        abstract=weak_if_all_are(_svd_abstract),
        optional=("algorithm",),
        sharding=batched_sharding(2),
        reference=_svd_reference,
        lower=_svd_lower,
        jvp=_svd_jvp,
        transpose=Unsupported(NOT_LINEAR),
        batch=batch_stacks(lambda: svd_p),
        multiple_results=True,
        dce=_without_vectors(compute_uv=False),
        flops=lambda operands, results, **params: 14 * operands[0].size * min(operands[0].shape[-2:]),
    )
)


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """Singular values, in descending order, and singular vectors.

    Args:
      x: [..., m, n].
      full_matrices: square U and V^H; otherwise only the first min(m, n) vectors of each.
      compute_uv: whether to compute the vectors.
      subset_by_index: the index of the first singular value to return, and the index after the last; None for all. Not
        with full matrices.
      algorithm: None, DEFAULT, DIVIDE_AND_CONQUER or QR, which is slower.

    Returns:
      U [..., m, m or k], s [..., k] and V^H [..., n or k, n], k the lesser of m and n; or s alone.

    Raises:
      TypeError: the dtype is none of LAPACK's.
      ValueError: a subset and full matrices, or there is no such subset.
      UnsupportedRule: full matrices of a matrix that is not square are differentiated.
      NotImplementedError: another algorithm is asked for.

    >>> from xpr import lax, numpy as jnp
    >>> lax.linalg.svd(jnp.array([[0., 2.], [1., 0.]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    possible = SvdAlgorithm.DEFAULT, SvdAlgorithm.DIVIDE_AND_CONQUER, SvdAlgorithm.QR
    check_choice("svd", "algorithm", algorithm, *possible)
    chosen = {"algorithm": algorithm.value} if algorithm is SvdAlgorithm.QR else {}
    if subset_by_index is not None and compute_uv and full_matrices:
        raise ValueError("svd: subset_by_index picks of the first min(m, n) vectors: pass full_matrices=False.")
    check_matrices("svd", aval_of(x))
    _check_subset("svd", subset_by_index, min_dim(*aval_of(x).shape[-2:]))
    outs = svd_p.bind(x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), **chosen)
    s = _subset(outs[0], subset_by_index, -1)
    if not compute_uv:
        return s
    return _subset(outs[1], subset_by_index, -1), s, _subset(outs[2], subset_by_index, -2)
