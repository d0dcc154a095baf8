"""Products of vectors, matrices and stacks of them: one `dot_general` each, with a transposition if needed.
Operands meet in one dtype, which is also that of the result (`preferred_element_type` asks for another).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import ShapedArray, aval_of
from xpr.dimensions.slices import broadcast_sizes
from xpr.numpy.axes import no_out
from xpr.numpy.matrices import diagonal
from xpr.numpy.promotion import convert, promote_dtypes, strong_unless_scalar
from xpr.numpy.reductions import sum as summed
from xpr.primitives.dot import contract, dot_general_p
from xpr.primitives.dot_algorithms import canonical_dot_precision
from xpr.primitives.elementwise import conj, mul, scalar, sub
from xpr.primitives.precision import PrecisionLike
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, move_axis, one_axis, reshape, squeeze
from xpr.primitives.sharding_constraint import decided
from xpr.primitives.slicing import concatenate, pad_with, slice_in_dim

__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "trace", "vdot", "vecdot", "vecmat",
]  # fmt: skip

_NONE: tuple[int, ...] = ()


def _product(a: Any, b: Any, numbers: Any, precision: Any, preferred: Any) -> Any:
    """`dot_general` of operands of one dtype."""
    if preferred is None:
        dtype = a.aval.dtype if hasattr(a, "aval") else aval_of(a).dtype
    else:
        dtype = dtypes.requested(preferred)
    canonical = canonical_dot_precision(precision)
    out = dot_general_p.bind(a, b, dimension_numbers=numbers, precision=canonical, preferred_element_type=dtype)
    return out if preferred is None else convert(out, dtype)


def _promoted(a: Any, b: Any) -> tuple[Any, Any, ShapedArray, ShapedArray]:
    """The operands in one dtype, and their types."""
    x, y = getattr(a, "aval", None), getattr(b, "aval", None)
    if x is None or y is None or x.dtype is not y.dtype or x.weak_type is not y.weak_type:
        a, b = promote_dtypes(a, b)
        x, y = aval_of(a), aval_of(b)
    return a, b, x, y


@cache
def _flat(i: int, j: int) -> Any:
    """The dimension numbers that contract the last axis with the second to last (or only) one, of i and j axes."""
    return ((i - 1,), (max(j - 2, 0),)), (_NONE, _NONE)


def dot(
    a: Any, b: Any, *, precision: PrecisionLike = None, preferred_element_type: Any = None, out_sharding: Any = None
) -> Any:
    """The product summed over the last axis of `a` and the second to last of `b`, or the only axis of a vector.

    A scalar multiplies. For stacks of matrices `matmul` is usually what is meant.

    Args:
      a: array or number.
      b: array or number.
      precision: see `lax.Precision`.
      preferred_element_type: the dtype to sum in, and of the result.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      The other axes of `a`, then those of `b`.

    Raises:
      TypeError: the sizes of the axes summed over differ.

    >>> import xpr.numpy as jnp
    >>> jnp.dot(jnp.array([1., 2.]), jnp.array([3., 4.]))
    Array(11., dtype=float32)
    """
    if out_sharding is not None:
        return decided(
            out_sharding, "dot", lambda: dot(a, b, precision=precision, preferred_element_type=preferred_element_type)
        )
    a, b, x, y = _promoted(a, b)
    if not x.ndim or not y.ndim:
        return _product(a, b, ((_NONE, _NONE), (_NONE, _NONE)), precision, preferred_element_type)
    return _product(a, b, _flat(x.ndim, y.ndim), precision, preferred_element_type)


@compiled_eagerly()
def matmul(
    a: Any, b: Any, *, precision: PrecisionLike = None, preferred_element_type: Any = None, out_sharding: Any = None
) -> Any:
    """The product of matrices, or of stacks of matrices, which broadcast: the function of `a @ b`.

    A vector on the left counts as a row, on the right as a column, and its axis of size 1 is not in the result.

    Args:
      a: [..., n, k], or a vector [k].
      b: [..., k, m], or a vector [k].
      precision: see `lax.Precision`.
      preferred_element_type: the dtype to sum in, and of the result.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      [..., n, m], without n or m for a vector.

    Raises:
      ValueError: an operand is a scalar, or stacks don't broadcast.
      TypeError: the sizes of the axes summed over differ.

    >>> import xpr.numpy as jnp
    >>> jnp.matmul(jnp.ones((5, 2, 3)), jnp.ones((3, 4))).shape
    (5, 2, 4)
    """
    if out_sharding is not None:
        return decided(
            out_sharding,
            "matmul",
            lambda: matmul(a, b, precision=precision, preferred_element_type=preferred_element_type),
        )
    a, b, x, y = _promoted(a, b)
    if not x.ndim or not y.ndim:
        raise ValueError(
            f"matmul: {x.str_short()} and {y.str_short()}: neither operand may be a scalar. To scale, write a * b."
        )
    if y.ndim <= 2:
        return _product(a, b, _flat(x.ndim, y.ndim), precision, preferred_element_type)
    if x.ndim == y.ndim and x.shape[:-2] == y.shape[:-2]:
        n = x.ndim
        stack = tuple(range(n - 2))
        return _product(a, b, (((n - 1,), (n - 2,)), (stack, stack)), precision, preferred_element_type)
    rows = ("row",) if x.ndim > 1 else ()
    return _stacked(a, (*rows, "sum"), b, ("sum", "column"), (*rows, "column"), precision, preferred_element_type)


def _stacked(a: Any, a_core: Any, b: Any, b_core: Any, out_core: Any, precision: Any, preferred: Any) -> Any:
    """A product over labelled last axes; the axes before them are stacks that broadcast.

    An axis of size 1 that pairs with a longer one is dropped, so nothing is repeated.
    """
    x, y = aval_of(a), aval_of(b)
    a_stack, b_stack = x.shape[: x.ndim - len(a_core)], y.shape[: y.ndim - len(b_core)]
    depth = max(len(a_stack), len(b_stack))
    try:
        np.broadcast_shapes(a_stack, b_stack)
    except ValueError:
        types = f"{x.str_short()} and {y.str_short()}"
        raise ValueError(f"The stacks of {types} don't broadcast: {a_stack} and {b_stack}.") from None

    def labelled(operand: Any, stack: Any, other: Any, core: Any) -> tuple[Any, tuple[Any, ...]]:
        other_sizes = (1,) * (len(stack) - len(other)) + other[max(len(other) - len(stack), 0) :]
        dropped = [
            i for i, (n, m) in enumerate(zip(stack, other_sizes)) if n == 1 and (m != 1 or len(stack) < len(other))
        ]
        kept = [depth - len(stack) + i for i in range(len(stack)) if i not in dropped]
        return squeeze(operand, dropped), (*kept, *core)

    a, a_labels = labelled(a, a_stack, b_stack, a_core)
    b, b_labels = labelled(b, b_stack, a_stack, b_core)
    out_labels = (*range(depth), *out_core)
    dtype = x.dtype if preferred is None else dtypes.requested(preferred)
    out = contract(
        a, a_labels, b, b_labels, out_labels, precision=canonical_dot_precision(precision), preferred_element_type=dtype
    )
    return out if preferred is None else convert(out, dtype)


@compiled_eagerly()
def vdot(a: Any, b: Any, *, precision: PrecisionLike = None, preferred_element_type: Any = None) -> Any:
    """The inner product of two arrays, flattened, of which the first is conjugated.

    Args:
      a: array or number.
      b: array with as many elements.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for the operands' common dtype.

    Returns:
      A scalar.

    Raises:
      TypeError: the numbers of elements differ.

    >>> import xpr.numpy as jnp
    >>> jnp.vdot(jnp.array([1j, 2]), jnp.array([1j, 1]))
    Array(3.+0.j, dtype=complex64)
    """
    a, b, x, y = _promoted(a, b)
    return dot(
        reshape(_conjugate(a), (x.size,)), reshape(b, (y.size,)), precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _conjugate(x: Any) -> Any:
    return conj(x) if aval_of(x).dtype in dtypes.COMPLEX else x


def vecdot(
    x1: Any, x2: Any, /, *, axis: int = -1, precision: PrecisionLike = None, preferred_element_type: Any = None
) -> Any:
    """The inner products of stacks of vectors, which broadcast; the first operand is conjugated.

    Args:
      x1: arrays whose vectors lie along `axis`.
      x2: arrays whose vectors lie along `axis`.
      axis: the axis of the vectors.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for the operands' common dtype.

    Returns:
      The broadcast shape of the stacks.

    Raises:
      ValueError: the vectors' lengths differ, or stacks don't broadcast.

    >>> import xpr.numpy as jnp
    >>> jnp.vecdot(jnp.ones((2, 3)), jnp.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    a, b, x, y = _promoted(x1, x2)
    i, j = one_axis(axis, x.ndim), one_axis(axis, y.ndim)
    if x.shape[i] != y.shape[j]:
        types = f"{x.str_short()} and {y.str_short()}"
        raise ValueError(f"vecdot: the vectors along axis {axis} of {types} differ in length.")
    a, b = _conjugate(move_axis(a, i, x.ndim - 1)), move_axis(b, j, y.ndim - 1)
    return _stacked(a, ("sum",), b, ("sum",), (), precision, preferred_element_type)


def matvec(x1: Any, x2: Any, /) -> Any:
    """The products of stacks of matrices and stacks of vectors, which broadcast.

    Args:
      x1: matrices [..., n, k].
      x2: vectors [..., k].

    Returns:
      [..., n].

    Raises:
      ValueError: an operand has too few axes, or stacks don't broadcast.
      TypeError: the sizes of the axes summed over differ.

    >>> import xpr.numpy as jnp
    >>> jnp.matvec(jnp.ones((2, 3)), jnp.ones((5, 3))).shape
    (5, 2)
    """
    a, b, x, y = _promoted(x1, x2)
    _check_cores("matvec", x, 2, y, 1)
    return _stacked(a, ("row", "sum"), b, ("sum",), ("row",), None, None)


def vecmat(x1: Any, x2: Any, /) -> Any:
    """The products of stacks of vectors, conjugated, and stacks of matrices, which broadcast.

    Args:
      x1: vectors [..., k].
      x2: matrices [..., k, m].

    Returns:
      [..., m].

    Raises:
      ValueError: an operand has too few axes, or stacks don't broadcast.
      TypeError: the sizes of the axes summed over differ.

    >>> import xpr.numpy as jnp
    >>> jnp.vecmat(jnp.ones((5, 3)), jnp.ones((3, 2))).shape
    (5, 2)
    """
    a, b, x, y = _promoted(x1, x2)
    _check_cores("vecmat", x, 1, y, 2)
    return _stacked(_conjugate(a), ("sum",), b, ("sum", "column"), ("column",), None, None)


def _check_cores(name: str, x: ShapedArray, m: int, y: ShapedArray, n: int) -> None:
    if x.ndim < m or y.ndim < n:
        raise ValueError(f"{name}: {x.str_short()} and {y.str_short()} need at least {m} and {n} axes.")


@compiled_eagerly()
def inner(a: Any, b: Any, *, precision: PrecisionLike = None, preferred_element_type: Any = None) -> Any:
    """The product summed over the last axes of both operands; a scalar multiplies.

    Args:
      a: array or number.
      b: array or number.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for the operands' common dtype.

    Returns:
      The other axes of `a`, then those of `b`.

    Raises:
      TypeError: the sizes of the last axes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.inner(jnp.ones((2, 3)), jnp.ones((4, 3))).shape
    (2, 4)
    """
    a, b, x, y = _promoted(a, b)
    sums = ((x.ndim - 1,), (y.ndim - 1,)) if x.ndim and y.ndim else (_NONE, _NONE)
    return _product(a, b, (sums, (_NONE, _NONE)), precision, preferred_element_type)


@compiled_eagerly()
def outer(a: Any, b: Any, out: None = None) -> Any:
    """The product of every element of `a` and every element of `b`.

    Args:
      a: array or number.
      b: array or number.
      out: must be None; arrays are immutable.

    Returns:
      [number of elements of `a`, number of elements of `b`].

    >>> import xpr.numpy as jnp
    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    no_out("outer", out)
    a, b, x, y = _promoted(a, b)
    shape = (x.size, y.size)
    rows = broadcast_in_dim(reshape(a, shape[:1]), shape, (0,))
    return mul(rows, broadcast_in_dim(reshape(b, shape[1:]), shape, (1,)))


def tensordot(
    a: Any,
    b: Any,
    axes: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product summed over several axes of both operands.

    Args:
      a: array or number.
      b: array or number.
      axes: a number n, for the last n axes of `a` and the first n of `b`; or a pair of axes, or of sequences of axes.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for the operands' common dtype.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      The other axes of `a`, then those of `b`.

    Raises:
      TypeError: the axes don't match.

    >>> import xpr.numpy as jnp
    >>> jnp.tensordot(jnp.ones((2, 3, 4)), jnp.ones((4, 3)), ([2, 1], [0, 1]))
    Array([12., 12.], dtype=float32)
    """
    if out_sharding is not None:
        return decided(
            out_sharding,
            "tensordot",
            lambda: tensordot(a, b, axes, precision=precision, preferred_element_type=preferred_element_type),
        )
    a, b, x, y = _promoted(a, b)
    if isinstance(axes, (int, np.integer)):
        if axes > min(x.ndim, y.ndim):
            raise TypeError(
                f"tensordot: Number of tensordot axes ({axes}) exceeds input ranks, those of {x.str_short()} and "
                f"{y.str_short()}."
            )
        sums: Any = (tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes)))
    else:
        sums = _axes_pair(axes, x, y)
    return _product(a, b, (sums, (_NONE, _NONE)), precision, preferred_element_type)


def _axes_pair(axes: Any, x: ShapedArray, y: ShapedArray) -> tuple[tuple[int, ...], tuple[int, ...]]:
    try:
        left, right = axes
        listed = [list(part) if isinstance(part, (tuple, list, np.ndarray)) else [part] for part in (left, right)]
        pair = [tuple(one_axis(i, aval.ndim) for i in part) for part, aval in zip(listed, (x, y))]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"tensordot: axes={axes!r} must be a number, or name axes of {x.str_short()} and {y.str_short()}, as "
            f"(1, 0) or ([0, 1], [1, 0]). {error}"
        ) from None
    if len(pair[0]) != len(pair[1]):
        raise TypeError(
            f"tensordot: axes={axes!r} names {len(pair[0])} axes of one operand and {len(pair[1])} of the other."
        )
    return pair[0], pair[1]


@compiled_eagerly()
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: each element of `a` replaced by its product with `b`.

    Args:
      a: array or number.
      b: array or number.

    Returns:
      An array whose sizes are the products of those of `a` and `b`, aligned at their last axes.

    >>> import xpr.numpy as jnp
    >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    a, b, x, y = _promoted(a, b)
    ndim = max(x.ndim, y.ndim)
    left, right = ((1,) * (ndim - v.ndim) + v.shape for v in (x, y))
    shape = tuple(n for pair in zip(left, right) for n in pair)
    blocks = broadcast_in_dim(reshape(a, left), shape, range(0, 2 * ndim, 2))
    product = mul(blocks, broadcast_in_dim(reshape(b, right), shape, range(1, 2 * ndim, 2)))
    return reshape(product, tuple(n * m for n, m in zip(left, right)))


@compiled_eagerly("axisa", "axisb", "axisc", "axis")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The cross products of vectors in three dimensions, or in two, where only the third component is returned.

    Args:
      a: arrays of vectors of 2 or 3 elements; their other axes broadcast.
      b: arrays of vectors of 2 or 3 elements; their other axes broadcast.
      axisa: the axis of the vectors of `a`.
      axisb: the axis of the vectors of `b`.
      axisc: the axis of the vectors in the result.
      axis: stands for all three; None for none.

    Returns:
      Vectors of 3 elements along `axisc`; for two operands of 2 elements, scalars.

    Raises:
      ValueError: vectors have other lengths.

    >>> import xpr.numpy as jnp
    >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b, x, y = _promoted(a, b)
    a = move_axis(a, one_axis(axisa, x.ndim), x.ndim - 1)
    b = move_axis(b, one_axis(axisb, y.ndim), y.ndim - 1)
    return _cross(a, b, axisc)


def _cross(a: Any, b: Any, axis: int) -> Any:
    """The cross products of vectors along the last axes."""
    x, y = aval_of(a), aval_of(b)
    if not {x.shape[-1], y.shape[-1]} <= {2, 3}:
        raise ValueError(
            f"cross: vectors of 2 or 3 elements are multiplied, and these have {x.shape[-1]} and {y.shape[-1]}: "
            f"{x.str_short()}, {y.str_short()}."
        )
    planar = x.shape[-1] == y.shape[-1] == 2
    stack = broadcast_sizes([x.shape[:-1], y.shape[:-1]])
    a, b = (_spatial(v if planar else strong_unless_scalar(v), stack) for v in (a, b))
    # Element i of the product is a[i+1] b[i+2] - a[i+2] b[i+1], indices taken modulo 3.
    last = len(stack)
    once, twice = ([slice_in_dim(v, k, k + 3, axis=last) for v in (a, b)] for k in (1, 2))
    product = sub(mul(once[0], twice[1]), mul(twice[0], once[1]))
    if planar:
        return squeeze(slice_in_dim(product, 2, 3, axis=last), (last,))
    return move_axis(product, last, one_axis(axis, last + 1))


def _spatial(v: Any, stack: tuple[int, ...]) -> Any:
    """The vectors in three dimensions, concatenated with themselves, and the stack broadcast."""
    aval = aval_of(v)
    if aval.shape[-1] == 2:
        v = pad_with(v, scalar(0, v), (*[(0, 0, 0)] * (aval.ndim - 1), (0, 1, 0)))
    v = broadcast_to(v, (*stack, 3))
    return concatenate([v, v], len(stack))


@compiled_eagerly("offset", "axis1", "axis2")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Any:
    """The sum of a diagonal of the matrices that lie along two axes.

    Args:
      a: an array with at least two axes.
      offset: which diagonal; 0 is the main one, positive ones are above it.
      axis1: the axis of the matrices' rows.
      axis2: the axis of their columns.
      dtype: the dtype to accumulate in and of the result; None for that of `a`, small integers widened.
      out: must be None; arrays are immutable.

    Returns:
      The other axes of `a`.

    Raises:
      ValueError: the array has fewer than two axes, or both axes are the same.

    >>> import xpr.numpy as jnp
    >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    no_out("trace", out)
    return summed(diagonal(a, offset, axis1, axis2), -1, dtype)
