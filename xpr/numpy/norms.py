"""Norms of vectors and matrices, and the rank and condition number of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.numpy.arithmetic import absolute
from xpr.numpy.axes import reduced_axes
from xpr.numpy.decompositions import default_tolerance, matrices_of, svd, svdvals
from xpr.numpy.linear_equations import inv
from xpr.numpy.powers import power, sqrt
from xpr.numpy.predicates import isnan
from xpr.numpy.promotion import asarray_like, convert, promote_inexact
from xpr.numpy.reductions import any as any_of
from xpr.numpy.reductions import max as greatest
from xpr.numpy.reductions import min as least
from xpr.numpy.reductions import sum as summed
from xpr.numpy.reshaping import moveaxis, reshape
from xpr.numpy.where_select import where
from xpr.primitives import elementwise as e


def _squares(x: Any) -> Any:
    if aval_of(x).dtype not in dtypes.COMPLEX:
        return e.mul(x, x)
    parts = e.real(x), e.imag(x)
    return e.add(e.mul(parts[0], parts[0]), e.mul(parts[1], parts[1]))


def _inexact(x: Any) -> Any:
    (x,) = promote_inexact(asarray_like(x))
    return x


def _of_none(x: Any, axes: Sequence[int]) -> int | None:
    """0 as the greatest element where there is none along the axes; None where there are some."""
    return 0 if 0 in (x.aval.shape[i] for i in axes) else None


@compiled_eagerly("ord", "axis")
def vector_norm(
    x: Any, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: int | float | str = 2
) -> Any:
    """The norms of vectors: (sum of |x|^ord)^(1/ord).

    Args:
      x: array or number.
      axis: the axis of the vectors; several axes make one vector, and None takes all.
      keepdims: keeps those axes, with size 1.
      ord: a number; inf and -inf for the greatest and the least |x|, 0 for the number of elements that are not 0.

    Returns:
      Real floats of the shape of `x` without the axes.

    Raises:
      ValueError: `ord` is something else.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.vector_norm(jnp.array([3., 4.]))
    Array(5., dtype=float32)
    """
    x = _inexact(x)
    axes = reduced_axes(axis, x.aval.ndim)
    if ord in (None, 2):
        return sqrt(summed(_squares(x), axes, keepdims=keepdims))
    if ord == math.inf:
        return greatest(absolute(x), axes, keepdims=keepdims, initial=_of_none(x, axes))
    if ord == -math.inf:
        return least(absolute(x), axes, keepdims=keepdims)
    if ord == 0:
        counted = summed(e.ne(x, e.scalar(0, x)), axes, keepdims=keepdims)
        return convert(counted, dtypes.real_part_of(x.aval.dtype))
    if ord == 1:
        return summed(absolute(x), axes, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order {ord!r} for vector norm. It is a number, or jnp.inf or -jnp.inf.")
    return power(summed(power(absolute(x), ord), axes, keepdims=keepdims), 1.0 / ord)


@compiled_eagerly("ord")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: int | float | str = "fro") -> Any:
    """The norms of matrices.

    Args:
      x: matrices [..., m, n].
      keepdims: whether the last two axes stay, with size 1.
      ord: "fro" (Frobenius), "nuc" (the sum of singular values), 2 and -2 (the greatest and least of them), 1 and -1
        (the greatest and least sum of |x| along columns), inf and -inf (along rows).

    Returns:
      Real floats [...].

    Raises:
      ValueError: `ord` is something else.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.matrix_norm(jnp.array([[1., 2.], [3., 4.]]), ord=1)
    Array(6., dtype=float32)
    """
    return norm(x, ord, (-2, -1), keepdims)


@compiled_eagerly("ord", "axis")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norms of vectors or matrices.

    Args:
      x: array or number.
      ord: see `vector_norm` and `matrix_norm`; None for the root of the sum of squares.
      axis: one axis for vectors, two for matrices; None for all axes, which with an `ord` have to be one or two.
      keepdims: keeps those axes, with size 1.

    Returns:
      Real floats of the shape of `x` without the axes.

    Raises:
      ValueError: there is no such norm.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.norm(jnp.array([[3., 4.], [6., 8.]]), axis=1)
    Array([ 5., 10.], dtype=float32)
    """
    x = _inexact(x)
    ndim = x.aval.ndim
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    axes = reduced_axes(axis, ndim)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(
            f"norm: a norm of order {ord!r} is that of vectors (one axis) or matrices (two), and axis={axis} of "
            f"{x.aval.str_short()} names {len(axes)}."
        )
    rows, columns = axes
    if ord in (None, "fro"):
        return sqrt(summed(_squares(x), axes, keepdims=keepdims))
    if ord in (1, -1, math.inf, -math.inf):
        along, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = summed(absolute(x), along, keepdims=True)
        initial = _of_none(x, [over]) if ord > 0 else None
        outs = (greatest if ord > 0 else least)(sums, over, keepdims=True, initial=initial)
    elif ord in ("nuc", 2, -2):
        s = svdvals(moveaxis(x, axes, (-2, -1)))
        outs = (
            summed(s, -1) if ord == "nuc" else greatest(s, -1, initial=_of_none(s, [-1])) if ord == 2 else least(s, -1)
        )
        return reshape(outs, [1 if i in axes else n for i, n in enumerate(x.aval.shape)]) if keepdims else outs
    else:
        raise ValueError(
            f"norm: the orders of norms of matrices are 'fro', 'nuc', 1, -1, 2, -2, inf, -inf, not {ord!r}."
        )
    return outs if keepdims else reshape(outs, [n for i, n in enumerate(x.aval.shape) if i not in axes])


# -- By singular values


@compiled_eagerly()
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """The ranks of matrices: the number of singular values greater than a tolerance.

    Args:
      M: matrices [..., m, n]; a vector or a number has rank 1 if it is not 0.
      rtol: the tolerance relative to the greatest singular value: a number, or one for each matrix; None for max(m, n)
        epsilon.
      hermitian: a promise that the matrices are Hermitian, whose eigenvalues are computed faster.
      tol: the absolute tolerance.

    Returns:
      Integers of the default dtype, one for each matrix.

    Raises:
      ValueError: both tolerances are given.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.matrix_rank(jnp.array([[1., 2.], [2., 4.]]))
    Array(1, dtype=int32)
    """
    if rtol is not None and tol is not None:
        raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
    M = _inexact(M)
    if M.aval.ndim < 2:
        return convert(any_of(e.ne(M, e.scalar(0, M))), dtypes.of_python(int))
    a = matrices_of("matrix_rank", M)
    s = svd(a, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if tol is not None:
        bound = asarray_like(tol)[..., None]
    else:
        relative = asarray_like(default_tolerance(a.aval) if rtol is None else rtol)
        bound = relative[..., None] * greatest(s, -1, keepdims=True)
    return summed(s > bound, -1, dtype=dtypes.of_python(int))


@compiled_eagerly("p")
def cond(x: Any, p: Any = None) -> Any:
    """The condition numbers of matrices: the norm times the norm of the inverse.

    Args:
      x: matrices [..., m, n], square unless `p` is None, 2 or -2.
      p: the order of the norm, see `matrix_norm`; None for 2.

    Returns:
      Real floats [...].

    Raises:
      ValueError: the array has fewer than two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.cond(jnp.array([[2., 0.], [0., 4.]]))
    Array(2., dtype=float32)
    """
    a = matrices_of("cond", x, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(a)
        ratio = s[..., 0] / s[..., -1] if p != -2 else s[..., -1] / s[..., 0]
    else:
        ratio = norm(a, p, (-2, -1)) * norm(inv(a), p, (-2, -1))
    return where(isnan(ratio) & ~any_of(isnan(a), (-2, -1)), np.inf, ratio)
