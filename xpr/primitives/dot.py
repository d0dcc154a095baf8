"""Contractions: `dot_general`, the product of two arrays summed over shared axes.

The axes of each operand are *contracted* (summed over, gone from the result), *batched* (shared, kept), or *free*. The
result has the batched axes first, then the free ones of the left operand, then those of the right. Axes are given as
JAX gives them: `((lhs contracted, rhs contracted), (lhs batched, rhs batched))`.

The rules see a contraction as labels on axes, as einsum does. A derivative contracts the cotangent with the other
operand under the same labels; of the two orders of its operands the one is taken that needs no transposition after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value, int_array, int_list
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.primitives.elementwise import add_any, convert_element_type
from xpr.primitives.shapes import transpose

DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
Axes = tuple[int, ...]
Numbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]

# -- Precision


class Precision(Enum):
    """How exactly accelerators multiply float32: in one bfloat16 or tensorfloat32 pass, in several, or in float32.

    CPUs always multiply in the dtype of the operands.

    >>> from xpr import lax
    >>> lax.Precision("float32")
    HIGHEST
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _PRECISIONS.get(value)

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return f"Precision.{self.name}"


_PRECISIONS: dict[object, Precision] = {
    None: Precision.DEFAULT, "default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
}  # fmt: skip

PrecisionLike = Precision | str | tuple[Precision | str, Precision | str] | None


def canonical_precision(precision: Any) -> tuple[Precision, Precision] | None:
    """A precision for each operand, or None where none was asked for.

    Raises:
      ValueError: there is no such precision.
    """
    if precision is None:
        return None
    pair = precision if isinstance(precision, (tuple, list)) else (precision, precision)
    try:
        lhs, rhs = map(Precision, pair)
    except ValueError:
        raise ValueError(
            f"precision is None, one of {', '.join(repr(k) for k in _PRECISIONS if k)}, a lax.Precision, or a pair of "
            f"these for the two operands; it was {precision!r}."
        ) from None
    return lhs, rhs


def precision_text(precision: tuple[Precision, Precision] | None) -> str:
    """`precision_config = [...]`, the attribute of StableHLO's contractions and convolutions."""
    names = [p.name for p in precision or (Precision.DEFAULT, Precision.DEFAULT)]
    return f"precision_config = [{', '.join(f'#stablehlo<precision {name}>' for name in names)}]"


# -- Typing


def result_dtype(lhs: ShapedArray, rhs: ShapedArray, preferred: np.dtype | None) -> np.dtype:
    """The dtype of a product: the preferred one, else what the operands promote to."""
    if preferred is not None:
        return preferred
    if lhs.dtype == rhs.dtype:
        return lhs.dtype
    return dtypes.promote_pair(lhs.dtype, lhs.weak_type, rhs.dtype, rhs.weak_type)[0]


def _dot_general_abstract(
    avals: Sequence[ShapedArray], *, dimension_numbers: Numbers, precision: Any, preferred_element_type: Any
) -> list[ShapedArray]:
    lhs, rhs = avals
    (lc, rc), (lb, rb) = dimension_numbers
    _check_axes("left", lhs, lc, lb, dimension_numbers)
    _check_axes("right", rhs, rc, rb, dimension_numbers)
    for what, mine, others in (("contracted", lc, rc), ("batched", lb, rb)):
        sizes, other_sizes = [lhs.shape[a] for a in mine], [rhs.shape[a] for a in others]
        if sizes != other_sizes:
            raise TypeError(
                f"dot_general: {lhs.str_short()} and {rhs.str_short()}: the {what} axes {list(mine)} of the left "
                f"operand have sizes {sizes}, axes {list(others)} of the right {other_sizes}; they must be the same."
            )
    dtype = result_dtype(lhs, rhs, preferred_element_type)
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
    values: Sequence[Any], *, dimension_numbers: Numbers, precision: Any, preferred_element_type: Any
) -> list[Any]:
    """Both operands as stacks of matrices, multiplied; short floats are summed in float32."""
    lhs, rhs = map(np.asarray, values)
    (lc, rc), (lb, rb) = dimension_numbers
    lf, rf = free_axes(lhs.ndim, lc, lb), free_axes(rhs.ndim, rc, rb)
    aval, other = aval_of(lhs), aval_of(rhs)
    dtype = result_dtype(aval, other, preferred_element_type)
    working = _working_dtype(result_dtype(aval, other, None), dtype)
    batch, rows, columns = (tuple(x.shape[a] for a in axes) for x, axes in ((lhs, lb), (lhs, lf), (rhs, rf)))
    terms = math.prod(lhs.shape[a] for a in lc)
    stacked = np.matmul(
        lhs.astype(working).transpose((*lb, *lf, *lc)).reshape((*batch, math.prod(rows), terms)),
        rhs.astype(working).transpose((*rb, *rc, *rf)).reshape((*batch, terms, math.prod(columns))),
    )
    return [stacked.reshape(batch + rows + columns).astype(dtype)]


def _working_dtype(common: np.dtype, out: np.dtype) -> np.dtype:
    """The dtype in which NumPy sums products of `common` that are wanted in `out`."""
    if common in dtypes.FLOATS and common.itemsize < 4:
        return out if out.itemsize >= 4 else dtypes.float32
    return common if _wider(common, out) else out


def _kind(dtype: np.dtype) -> int:
    """0 to 3 for booleans, integers, floats, complex numbers."""
    kinds = (dtypes.BOOL, dtypes.INTEGERS, dtypes.FLOATS, dtypes.COMPLEX)
    return next(i for i, kind in enumerate(kinds) if dtype in kind)


def _wider(a: np.dtype, b: np.dtype) -> bool:
    """Whether b adds nothing to a: it is of a lower kind, or of the same and no longer."""
    return (_kind(a), a.itemsize) >= (_kind(b), b.itemsize)


def free_axes(ndim: int, contracted: Sequence[int], batched: Sequence[int]) -> Axes:
    """The axes of an operand that are neither contracted nor batched, in order."""
    return tuple(a for a in range(ndim) if a not in contracted and a not in batched)


# -- Lowering


def _dot_general_lower(
    b: Builder,
    operands: list[Value],
    avals: list[ShapedArray],
    *,
    dimension_numbers: Numbers,
    precision: Any,
    preferred_element_type: Any,
) -> list[Value]:
    (out,) = avals
    lhs, rhs = in_one_dtype(b, operands, out.dtype)
    (lc, rc), (lb, rb) = dimension_numbers
    if b.platform == "cpu" and _is_small(lhs.aval, rhs.aval, out, dimension_numbers):
        return [_lower_as_sum(b, lhs, rhs, out, dimension_numbers)]
    if b.platform == "cpu" and len(lc) > 1:
        lhs, rhs, ((lc, rc), (lb, rb)) = _merge_contracted(b, lhs, rhs, dimension_numbers)
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {int_list(lb)}, rhs_batching_dimensions = {int_list(rb)}, "
        f"lhs_contracting_dimensions = {int_list(lc)}, rhs_contracting_dimensions = {int_list(rc)}>"
    )
    summed = summed_in(lhs.aval.dtype, out)
    properties = f"dot_dimension_numbers = {numbers}, {precision_text(precision)}"
    return [b.convert(b.op("stablehlo.dot_general", [lhs, rhs], summed, properties), out.dtype)]


def in_one_dtype(b: Builder, operands: list[Value], out: np.dtype) -> list[Value]:
    """The operands in one dtype, the result's where that is of a higher kind."""
    common = result_dtype(operands[0].aval, operands[1].aval, None)
    dtype = out if _kind(out) > _kind(common) else common
    return [b.convert(x, dtype) for x in operands]


def _merge_contracted(b: Builder, lhs: Value, rhs: Value, numbers: Numbers) -> tuple[Value, Value, Numbers]:
    """Makes one axis of contracted axes that lie side by side in both operands.

    XLA:CPU transposes an operand that has several: the gradient to the weights of a dense layer, [8, 64, 512] and
    [8, 64, 2048] contracted over the first two, takes 26 ms with two axes and 15 ms with one.
    """
    (lc, rc), (lb, rb) = numbers
    pairs = sorted(zip(lc, rc))
    runs = [[pairs[0]]]
    for left, right in pairs[1:]:
        if (left - 1, right - 1) == runs[-1][-1]:
            runs[-1].append((left, right))
        else:
            runs.append([(left, right)])

    def merged(x: Value, side: int, batched: Axes) -> tuple[Value, Axes, Axes]:
        gone = [pair[side] for run in runs for pair in run[1:]]
        sizes = {run[0][side]: math.prod([x.aval.shape[pair[side]] for pair in run]) for run in runs}
        kept = [a for a in range(x.aval.ndim) if a not in gone]
        shape = [sizes.get(a, x.aval.shape[a]) for a in kept]
        return b.reshape(x, shape), tuple(kept.index(run[0][side]) for run in runs), tuple(map(kept.index, batched))

    if len(runs) == len(pairs):
        return lhs, rhs, numbers
    lhs, lc, lb = merged(lhs, 0, lb)
    rhs, rc, rb = merged(rhs, 1, rb)
    return lhs, rhs, ((lc, rc), (lb, rb))


def summed_in(operands: np.dtype, out: ShapedArray) -> ShapedArray:
    """The type in which products are summed: the result's, but not shorter than the operands'."""
    return out.update(dtype=operands) if _wider(operands, out.dtype) else out


def _is_small(lhs: ShapedArray, rhs: ShapedArray, out: ShapedArray, numbers: Numbers) -> bool:
    """Whether XLA:CPU had better see a sum of products of slices than a dot.

    It runs small matrices one by one through a general routine: 62500 products of 4x4 matrices take 30 ms as a dot and
    0.4 ms as four multiply-adds over whole arrays (2 ms in NumPy); 300000 rotations of 3-vectors 4.7 ms and 0.25 ms;
    10000 of 8x8 0.8 ms and 0.3 ms. From 16x16 on they are level. In programs that do little work a dot compiles to
    less.
    """
    (lc, rc), (lb, rb) = numbers
    terms = math.prod([lhs.shape[a] for a in lc])
    if not 2 <= terms <= 16 or out.dtype.itemsize < 4 or out.dtype != lhs.dtype or out.size * terms < 1024:
        return False
    columns = math.prod([rhs.shape[a] for a in free_axes(rhs.ndim, rc, rb)])
    rows = math.prod([lhs.shape[a] for a in free_axes(lhs.ndim, lc, lb)])
    longer = max(rows, columns)
    return (terms * longer <= 128 and longer <= 16) or (terms <= 8 and columns <= 8)


def _lower_as_sum(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, numbers: Numbers) -> Value:
    """The sum, over the contracted indices, of products of slices broadcast to the result's shape.

    The operands are fenced as a dot would fence them: fused into the sum, they were computed anew for each entry.
    """
    (lc, rc), (lb, rb) = numbers
    lf, rf = free_axes(lhs.aval.ndim, lc, lb), free_axes(rhs.aval.ndim, rc, rb)
    place = {"lhs": (*lb, *lf), "rhs": (*rb, *(None for _ in lf), *rf)}
    lhs, rhs = b.fence(lhs), b.fence(rhs)
    total = None
    for index in np.ndindex(*(lhs.aval.shape[a] for a in lc)):
        left = _spread_slice(b, lhs, dict(zip(lc, index)), place["lhs"], out)
        right = _spread_slice(b, rhs, dict(zip(rc, index)), place["rhs"], out)
        term = b.op("stablehlo.multiply", [left, right], out)
        total = term if total is None else b.op("stablehlo.add", [total, term], out)
    assert total is not None  # there are at least two terms
    return total


def _spread_slice(b: Builder, x: Value, fixed: dict[int, int], place: Sequence[int | None], out: ShapedArray) -> Value:
    """`x` at the `fixed` indices, its axis `place[i]` becoming axis i of `out`."""
    shape = x.aval.shape
    starts = [fixed.get(a, 0) for a in range(len(shape))]
    limits = [fixed[a] + 1 if a in fixed else n for a, n in enumerate(shape)]
    aval = x.aval.update(shape=tuple(limit - start for start, limit in zip(starts, limits)))
    bounds = f"start_indices = {int_array(starts)}, limit_indices = {int_array(limits)}"
    part = b.op("stablehlo.slice", [x], aval, f"{bounds}, strides = {int_array([1] * len(shape))}")
    kept = [a for a in range(len(shape)) if a not in fixed]
    part = b.reshape(part, [shape[a] for a in kept])
    order = [place.index(a) for a in kept]
    if order != sorted(order):
        part = b.transpose(part, sorted(range(len(kept)), key=order.__getitem__))
    return b.broadcast(part, out.shape, sorted(order))


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
    """How to contract operands whose axes are so labelled into a result whose axes are so labelled.

    Each label is in two of the three (contracted, or free), or in all (batched).

    Returns:
      Whether to swap the operands, the dimension numbers, and how to transpose the result (None: not at all).
    """
    for swap, (x, y) in ((False, (lhs, rhs)), (True, (rhs, lhs))):
        contracted = [a for a in x if a in y and a not in out]
        batched = [a for a in out if a in x and a in y]
        given = [*batched, *(a for a in x if a not in y), *(a for a in y if a not in x)]
        numbers = tuple(
            (tuple(map(x.index, labels)), tuple(map(y.index, labels))) for labels in (contracted, batched)
        )
        if given == list(out):
            return swap, numbers, None  # type: ignore[return-value]  # a pair of pairs
        if not swap:
            first = False, numbers, tuple(map(given.index, out))
    return first  # type: ignore[return-value]


def contract(lhs: Any, lhs_labels: Any, rhs: Any, rhs_labels: Any, out_labels: Any, **params: Any) -> Any:
    """A `dot_general` under labels, as einsum's; see `plan_contraction`. `params` are its other parameters."""
    swap, numbers, permutation = plan_contraction(lhs_labels, rhs_labels, out_labels)
    if swap:
        lhs, rhs = rhs, lhs
        precision = params["precision"]
        if precision is not None:
            params["precision"] = precision[::-1]
    out = dot_general_p.bind(lhs, rhs, dimension_numbers=numbers, **params)
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
    cts: Sequence[Any], operands: Sequence[Any], *, dimension_numbers: Numbers, precision: Any, **params: Any
) -> list[Any]:
    (ct,), (x, y) = cts, operands
    lhs, rhs, out = _labels(dimension_numbers, aval_of(x).ndim, aval_of(y).ndim)
    if is_linear(x):
        back = contract(ct, out, y, rhs, lhs, precision=precision, **params)
        return [convert_element_type(back, x.aval.dtype), None]
    reverse = None if precision is None else precision[::-1]
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
    place = len(lb) + (lf.index(lhs_dim) if lhs_dim is not None else len(lf) + rf.index(rhs_dim))  # type: ignore[arg-type]
    return ((lc, rc), (lb, rb)), place


dot_general_p = register(
    Primitive(
        "dot_general",
        abstract=_dot_general_abstract,
        reference=_dot_general_reference,
        lower=_dot_general_lower,
        jvp=Unsupported("it is set below"),
        transpose=_dot_general_transpose,
        batch=_dot_general_batch,
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
) -> Any:
    """The product of two arrays, summed over contracted axes and matched along batched ones.

    Args:
      lhs, rhs: arrays; of two dtypes they meet in the one that both promote to.
      dimension_numbers: `((lhs contracted, rhs contracted), (lhs batched, rhs batched))`, each a sequence of axes.
      precision: see `Precision`; a pair gives one for each operand.
      preferred_element_type: the dtype to sum in, and of the result.
    Returns:
      The batched axes, then the free axes of `lhs`, then those of `rhs`.
    Raises:
      TypeError: axes that go together differ in size.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dot_general(jnp.ones((5, 2, 3)), jnp.ones((5, 3)), (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2)
    """
    (lc, rc), (lb, rb) = dimension_numbers
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=((_axes(lc), _axes(rc)), (_axes(lb), _axes(rb))),
        precision=None if precision is None else canonical_precision(precision),
        preferred_element_type=None if preferred_element_type is None else dtypes.canonical(preferred_element_type),
    )


def _axes(axes: Sequence[int]) -> Axes:
    return axes if type(axes) is tuple else tuple(map(int, axes))


_NO_AXES: tuple[Axes, Axes] = ((), ())


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """The product of vectors and matrices; with `dimension_numbers`, `dot_general`.

    Raises:
      TypeError: the operands are not vectors or matrices, or their sizes don't match.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dot(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    if dimension_numbers is None:
        left, right = aval_of(lhs), aval_of(rhs)
        if left.ndim not in (1, 2) or right.ndim not in (1, 2) or left.shape[-1] != right.shape[0]:
            raise TypeError(
                f"dot: {left.str_short()} and {right.str_short()} are not vectors or matrices whose sizes match. For "
                "other products give dimension_numbers, as for dot_general."
            )
        dimension_numbers = (((left.ndim - 1,), (0,)), _NO_AXES)
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: PrecisionLike = None) -> Any:
    """Products of stacks of matrices: [..., n, k] and [..., k, m] give [..., n, m].

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
