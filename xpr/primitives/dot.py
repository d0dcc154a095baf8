"""Contractions: `dot_general`, the product of two arrays summed over shared axes.

The axes of each operand are *contracted* (summed over), *batched* (shared, and in the result), or *free*. The
result has the batched axes first, then the free ones of the left operand, then those of the right. Axes are given as
JAX gives them: `((lhs contracted, rhs contracted), (lhs batched, rhs batched))`.

The rules see a contraction as labels on axes, as einsum does. A derivative contracts the cotangent with the other
operand under the same labels; of the two orders of its operands the one is taken that needs no transposition after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.core.specs import axes_of
from xpr.errors import ArgumentError, ShardingTypeError
from xpr.primitives.communication import of_contraction
from xpr.primitives.dot_algorithms import canonical_dot_precision, computed_in, swapped
from xpr.primitives.dot_lowering import Axes, Numbers, free_axes, lower_dot_general
from xpr.primitives.elementwise import add_any, convert_element_type
from xpr.primitives.precision import PrecisionLike, common_dtype, result_dtype, wider
from xpr.primitives.shapes import transpose, tuple_of
from xpr.primitives.sharding_constraint import decided
from xpr.primitives.sharding_rules import OUT_SHARDING, RESHARD, common, parts_of, without

__all__ = ["batch_matmul", "dot", "dot_general", "dot_general_p", "DotDimensionNumbers"]

DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]

# -- Typing


def _dot_general_abstract(
    avals: Sequence[ShapedArray], *, dimension_numbers: Numbers, precision: Any, preferred_element_type: Any,
    unreduced: Sequence[Any] = (),
) -> list[ShapedArray]:  # fmt: skip
    lhs, rhs = avals
    (lc, rc), (lb, rb) = dimension_numbers
    _check_axes("left", lhs, lc, lb, dimension_numbers)
    _check_axes("right", rhs, rc, rb, dimension_numbers)
    for what, lhs_axes, rhs_axes in (("contracting", lc, rc), ("batch", lb, rb)):
        sizes, other_sizes = (tuple(x.shape[a] for a in axes) for x, axes in ((lhs, lhs_axes), (rhs, rhs_axes)))
        if sizes != other_sizes:
            raise ArgumentError(
                f"dot_general requires {what} dimensions to have the same shape, got {sizes} and {other_sizes}: axes "
                f"{list(lhs_axes)} of {lhs.str_short()} and axes {list(rhs_axes)} of {rhs.str_short()}."
            )
    dtype = result_dtype(lhs, rhs, preferred_element_type)
    computed_in(precision, lhs.dtype, rhs.dtype)
    if dtypes.COMPLEX & {lhs.dtype, rhs.dtype} and dtype not in dtypes.COMPLEX:
        raise TypeError(
            f"dot_general: the product of {lhs.str_short()} and {rhs.str_short()} is complex, and "
            f"preferred_element_type={dtype.name} is not. Take the real part of the product."
        )
    shape = (
        *(lhs.shape[a] for a in lb),
        *(n for a, n in enumerate(lhs.shape) if a not in lc and a not in lb),
        *(n for a, n in enumerate(rhs.shape) if a not in rc and a not in rb),
    )
    return [ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)]


def _check_axes(side: str, aval: ShapedArray, contracted: Axes, batched: Axes, numbers: Numbers) -> None:
    axes = (*contracted, *batched)
    if len(set(axes)) != len(axes) or any(not 0 <= a < aval.ndim for a in axes):
        raise TypeError(
            f"dot_general: dimension_numbers={numbers} name axes {list(contracted)} to contract and {list(batched)} to "
            f"batch in the {side} operand {aval.str_short()}: they must be different axes, from 0 to {aval.ndim - 1}."
        )


# -- The meaning


def _dot_general_reference(
    values: Sequence[Any], *, dimension_numbers: Numbers, precision: Any, preferred_element_type: Any,
    unreduced: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    """Both operands as stacks of matrices, multiplied; short floats are summed in float32."""
    lhs, rhs = map(np.asarray, values)
    (lc, rc), (lb, rb) = dimension_numbers
    lf, rf = free_axes(lhs.ndim, lc, lb), free_axes(rhs.ndim, rc, rb)
    aval, other = aval_of(lhs), aval_of(rhs)
    dtype = result_dtype(aval, other, preferred_element_type)
    left, right, total = computed_in(precision, lhs.dtype, rhs.dtype)
    lhs, rhs = lhs.astype(left, copy=False), rhs.astype(right, copy=False)
    working = _working_dtype(common_dtype(aval_of(lhs), aval_of(rhs), dtype), total or dtype)
    batch, rows, columns = (tuple(x.shape[a] for a in axes) for x, axes in ((lhs, lb), (lhs, lf), (rhs, rf)))
    terms = math.prod(lhs.shape[a] for a in lc)
    stacked = np.matmul(
        lhs.astype(working).transpose((*lb, *lf, *lc)).reshape((*batch, math.prod(rows), terms)),
        rhs.astype(working).transpose((*rb, *rc, *rf)).reshape((*batch, terms, math.prod(columns))),
    )
    return [stacked.reshape(batch + rows + columns).astype(total or dtype).astype(dtype, copy=False)]


def _working_dtype(common: np.dtype, out: np.dtype) -> np.dtype:
    """The dtype in which NumPy sums products of `common` for results in `out`."""
    if common in dtypes.FLOATS and common.itemsize < 4:
        return out if out.itemsize >= 4 else dtypes.float32
    return common if wider(common, out) else out


# -- Contractions of labelled axes


@lru_cache(maxsize=4096)
def _labels(numbers: Numbers, lhs_ndim: int, rhs_ndim: int) -> tuple[Axes, Axes, Axes]:
    """A number for each axis of the left operand, the right, and the result; axes that go together share one."""
    (lc, rc), (lb, rb) = numbers
    lhs = tuple(range(lhs_ndim))
    partner = dict(zip((*rc, *rb), (*lc, *lb)))
    rhs = tuple(partner.get(a, lhs_ndim + a) for a in range(rhs_ndim))
    out = (*lb, *free_axes(lhs_ndim, lc, lb), *(rhs[a] for a in free_axes(rhs_ndim, rc, rb)))
    return lhs, rhs, out


@lru_cache(maxsize=4096)
def plan_contraction(lhs: Sequence[Any], rhs: Sequence[Any], out: Sequence[Any]) -> tuple[bool, Numbers, Axes | None]:
    """The `dot_general` that contracts operands with labelled axes to a result with labelled axes.

    Each label is in two of the three (contracted, or free), or in all (batched).

    Returns:
      Whether to swap the operands, the dimension numbers, and how to transpose the result (None: not at all).
    """
    for swap, (x, y) in ((False, (lhs, rhs)), (True, (rhs, lhs))):
        contracted = [a for a in x if a in y and a not in out]
        batched = [a for a in out if a in x and a in y]
        labels_of_result = [*batched, *(a for a in x if a not in y), *(a for a in y if a not in x)]
        numbers = tuple((tuple(map(x.index, labels)), tuple(map(y.index, labels))) for labels in (contracted, batched))
        if labels_of_result == list(out):
            return swap, numbers, None  # type: ignore[return-value]  # a pair of pairs
        if not swap:
            first = False, numbers, tuple(map(labels_of_result.index, out))
    return first  # type: ignore[return-value]


def contract(
    lhs: Any, lhs_labels: Any, rhs: Any, rhs_labels: Any, out_labels: Any, by: Callable[..., Any] | None = None,
    **params: Any,
) -> Any:  # fmt: skip
    """A `dot_general` under labels, as einsum's; see `plan_contraction`. `params` are its other parameters, and `by` is
    a function that is called instead of binding the primitive, as `lax.dot_general` is.
    """
    swap, numbers, permutation = plan_contraction(lhs_labels, rhs_labels, out_labels)
    if swap:
        lhs, rhs = rhs, lhs
        params["precision"] = swapped(params["precision"])
    if by is None:
        out = dot_general_p.bind(lhs, rhs, dimension_numbers=numbers, **params)
    else:
        out = by(lhs, rhs, numbers, params.pop("precision"), **params)
    return out if permutation is None else transpose(out, permutation)


# -- Differentiating and batching


def bilinear_jvp(primitive: Primitive) -> Callable[..., Any]:
    """The jvp of an operation linear in each of its two operands: x_dot y + x y_dot."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (x, y), (tx, ty) = primals, tangents
        out = primitive.bind(x, y, **params)
        aval = aval_of(out).to_tangent_aval()
        if aval.dtype == dtypes.float0:
            return [out], [Zero(aval)]
        left = None if type(tx) is Zero else primitive.bind(tx, y, **params)
        right = None if type(ty) is Zero else primitive.bind(x, ty, **params)
        if left is None:
            return [out], [Zero(aval) if right is None else right]
        return [out], [left if right is None else add_any(left, right)]

    return jvp


def _dot_general_transpose(
    cts: Sequence[Any], operands: Sequence[Any], *, dimension_numbers: Numbers, precision: Any,
    unreduced: Sequence[Any] = (), **params: Any,
) -> list[Any]:  # fmt: skip
    """Products of the cotangent, which is reduced where the result is unreduced, with the other operand."""
    (ct,), (x, y) = cts, operands
    lhs, rhs, out = _labels(dimension_numbers, aval_of(x).ndim, aval_of(y).ndim)
    if is_linear(x):
        back = contract(ct, out, y, rhs, lhs, precision=precision, **params)
        return [convert_element_type(back, x.aval.dtype), None]
    reverse = swapped(precision)
    back = contract(ct, out, x, lhs, rhs, precision=reverse, **params)
    return [None, convert_element_type(back, y.aval.dtype)]


def _dot_general_batch(
    size: int, values: Sequence[Any], dims: Sequence[int | None], *, dimension_numbers: Numbers, **params: Any
) -> Any:
    ndims = tuple(aval_of(x).ndim for x in values)
    numbers, dim = _batched_numbers(dimension_numbers, ndims, tuple(dims))
    return [dot_general_p.bind(*values, dimension_numbers=numbers, **params)], [dim]


@lru_cache(maxsize=4096)
def _batched_numbers(numbers: Numbers, ndims: tuple[int, int], dims: tuple[int | None, ...]) -> tuple[Numbers, int]:
    """Dimension numbers of the mapped operands, and where the mapped axis comes out.

    Mapped in both operands it is one more batched axis; mapped in one, it is one more free axis there.
    """
    sides = []
    for side, d in enumerate(dims):
        contracted, batched = (tuple(a if d is None or a < d else a + 1 for a in pair[side]) for pair in numbers)
        sides.append((contracted, batched))
    (lc, lb), (rc, rb) = sides
    lhs_dim, rhs_dim = dims
    if lhs_dim is not None and rhs_dim is not None:
        return ((lc, rc), ((lhs_dim, *lb), (rhs_dim, *rb))), 0
    lf, rf = free_axes(ndims[0], lc, lb), free_axes(ndims[1], rc, rb)
    mapped = len(lb) + (lf.index(lhs_dim) if lhs_dim is not None else len(lf) + rf.index(rhs_dim))  # type: ignore[arg-type]
    return ((lc, rc), (lb, rb)), mapped


def _dot_general_flops(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, dimension_numbers: Any, **params: Any
) -> int:
    """Each element of the result is a sum of as many products as the contracted axes have elements."""
    (contracted, _), _ = dimension_numbers
    return 2 * results[0].size * math.prod(operands[0].shape[axis] for axis in contracted)


_CONTRACTED = f"dot_general requires contracting dimensions to have consistent sharding. {RESHARD}"
_BATCHED = f"dot_general requires batch dimensions to have consistent sharding. {RESHARD}"


def _dot_general_sharding(
    avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], *, dimension_numbers: Numbers,
    unreduced: Sequence[Any] = (), **_: Any,
) -> list[Any]:  # fmt: skip
    """Free and batched axes keep their parts; contracted ones must not both be partitioned, unless unreduced."""
    lhs, rhs = map(parts_of, avals)
    (lhs_contracted, rhs_contracted), (lhs_batched, rhs_batched) = dimension_numbers
    for i, j in zip(lhs_contracted, rhs_contracted):
        part = common(
            [lhs[i], rhs[j]], f"what is contracted, axis {i} of one operand and axis {j} of the other,", _CONTRACTED
        )
        if part is not None and lhs[i] == rhs[j] and not set(axes_of(part)) <= set(unreduced):
            raise ShardingTypeError(
                f"Contracting dimensions are sharded: both operands are partitioned over {part!r} along the axes that "
                f"are contracted, {i} and {j}, so that the result may be replicated over {part!r} or partitioned. "
                f"{OUT_SHARDING}"
            )
    batch = [
        common([lhs[i], rhs[j]], f"the batch, axes {i} and {j},", _BATCHED) for i, j in zip(lhs_batched, rhs_batched)
    ]
    return [(*batch, *without(lhs, [*lhs_contracted, *lhs_batched]), *without(rhs, [*rhs_contracted, *rhs_batched]))]


def _dot_general_summed(avals: Sequence[ShapedArray], *, dimension_numbers: Numbers, **_: Any) -> list[Any]:
    """The parts of axes that are contracted and partitioned alike."""
    lhs, rhs = map(parts_of, avals)
    lhs_contracted, rhs_contracted = dimension_numbers[0]
    return [lhs[i] for i, j in zip(lhs_contracted, rhs_contracted) if lhs[i] == rhs[j]]


dot_general_p = register(
    Primitive(
        "dot_general",
        abstract=_dot_general_abstract,
        reference=_dot_general_reference,
        lower=lambda builder, operands, avals, *, unreduced=(), **params: lower_dot_general(
            builder, operands, avals, **params
        ),
        summed=_dot_general_summed,
        optional=["unreduced"],
        jvp=Unsupported("it is set below"),
        transpose=_dot_general_transpose,
        batch=_dot_general_batch,
        flops=_dot_general_flops,
        sharding=_dot_general_sharding,
        collectives=lambda operands, results, sizes, *, dimension_numbers, **params: of_contraction(
            list(zip(operands, dimension_numbers[0])), results[0]
        ),
    )
)
dot_general_p.jvp = bilinear_jvp(dot_general_p)

# -- What users call


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The product of two arrays, summed over contracted axes and elementwise along batched ones.

    Args:
      lhs: an array; both are converted to the dtype to which they promote.
      rhs: an array; both are converted to the dtype to which they promote.
      dimension_numbers: `((lhs contracted, rhs contracted), (lhs batched, rhs batched))`, each a sequence of axes.
      precision: see `Precision`; a pair has one for each operand. None for the default.
      preferred_element_type: the dtype to sum in, and of the result.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      The batched axes, then the free axes of `lhs`, then those of `rhs`.

    Raises:
      TypeError: axes that go together differ in size, or `dimension_numbers` are not of this form.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dot_general(jnp.ones((5, 2, 3)), jnp.ones((5, 3)), (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2)
    """
    if out_sharding is not None:
        return decided(
            out_sharding,
            "dot_general",
            lambda: dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type),
        )
    try:
        (lc, rc), (lb, rb) = dimension_numbers
    except (TypeError, ValueError):
        raise ArgumentError(
            "dot_general: dimension_numbers is ((lhs contracted, rhs contracted), (lhs batched, rhs batched)), each a "
            f"sequence of axes, and is {dimension_numbers!r}."
        ) from None
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=((_axes(lc), _axes(rc)), (_axes(lb), _axes(rb))),
        precision=canonical_dot_precision(precision),
        preferred_element_type=None if preferred_element_type is None else dtypes.requested(preferred_element_type),
    )


def _axes(axes: Sequence[int]) -> Axes:
    return axes if type(axes) is tuple else tuple(map(int, tuple_of(axes, "dot_general", "each of dimension_numbers")))


_NO_AXES: tuple[Axes, Axes] = ((), ())


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product of vectors and matrices; with `dimension_numbers` that of `dot_general`.

    Args:
      lhs: a vector or a matrix.
      rhs: a vector or a matrix.
      dimension_numbers: see `dot_general`; None to contract the last axis of `lhs` with the first of `rhs`.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for that of the operands.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      The free axes of `lhs`, then those of `rhs`.

    Raises:
      TypeError: the operands are not vectors or matrices, or their sizes don't match.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dot(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    if out_sharding is not None:
        return decided(
            out_sharding,
            "dot",
            lambda: dot(
                lhs,
                rhs,
                dimension_numbers=dimension_numbers,
                precision=precision,
                preferred_element_type=preferred_element_type,
            ),
        )
    if dimension_numbers is None:
        left, right = aval_of(lhs), aval_of(rhs)
        if left.ndim not in (1, 2) or right.ndim not in (1, 2) or left.shape[-1] != right.shape[0]:
            raise ArgumentError(
                f"dot: {left.str_short()} and {right.str_short()} are not vectors or matrices whose sizes match. For "
                "other products give dimension_numbers, as for dot_general."
            )
        dimension_numbers = (((left.ndim - 1,), (0,)), _NO_AXES)
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: PrecisionLike = None) -> Any:
    """The products of stacks of matrices.

    Args:
      lhs: matrices [..., n, k].
      rhs: matrices [..., k, m].
      precision: of products, see `lax.Precision`; None for the default.

    Returns:
      [..., n, m].

    Raises:
      TypeError: the operands have not the same number of axes, two at least, or sizes don't match.

    >>> from xpr import lax, numpy as jnp
    >>> lax.batch_matmul(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    left, right = aval_of(lhs), aval_of(rhs)
    ndim = left.ndim
    if ndim < 2 or right.ndim != ndim:
        raise TypeError(
            f"batch_matmul: both operands must have the same number of axes, at least two; got {left.str_short()} and "
            f"{right.str_short()}. jnp.matmul broadcasts."
        )
    stack = tuple(range(ndim - 2))
    return dot_general(lhs, rhs, (((ndim - 1,), (ndim - 2,)), (stack, stack)), precision)
