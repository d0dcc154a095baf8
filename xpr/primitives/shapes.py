"""The shape of arrays: broadcasting and its transpose the sum, reshape, squeeze, transpose, reverse.

All are linear in their one operand: the tangent of the output is the same operation on the tangent, and the transpose
moves each element of the cotangent back to its position. All but sums of floats are exact, so small eager calls run in
NumPy.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.exceptions import AxisError

from xpr import dtypes
from xpr.backend.array import Array
from xpr.backend.mlir_text import int_array
from xpr.backend.stablehlo import Builder, Value
from xpr.config import settings
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.explicit import ExplicitSharding
from xpr.core.interpreter import Tracer, context
from xpr.core.primitive import Fusion, Primitive, Unsupported, params_of, register
from xpr.dimensions.expressions import is_symbolic_dim, surely_below
from xpr.errors import ArgumentError
from xpr.primitives.collectives.varying import varying_as
from xpr.primitives.communication import of_reduced_axes
from xpr.primitives.flops import reducing
from xpr.primitives.reduction_lowering import lower_reduction
from xpr.primitives.sharding_constraint import constrain_to, decided
from xpr.primitives.sharding_rules import parts_of, reshaped, sums_of_first, without

__all__ = [
    "broadcast_in_dim_p", "reduce_sum", "reduce_sum_p", "reshape_p", "rev", "rev_p", "squeeze", "squeeze_p",
    "transpose", "transpose_p",
]  # fmt: skip

# -- What the family shares


def linear_jvp(primitive: Primitive) -> Callable[..., Any]:
    """The jvp of an operation linear in its only operand: itself on the tangent."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        (tangent,) = tangents
        if type(tangent) is Zero:
            return [out], [Zero.from_primal_value(out)]
        return [out], [primitive.bind(tangent, **params)]

    return jvp


def structural(
    name: str,
    *,
    abstract: Any,
    reference: Any,
    lower: Any,
    transpose: Any,
    batch: Any,
    exact: bool | Callable[[Sequence[ShapedArray]], bool] = True,
    faster_in_numpy: Callable[..., bool] | None = None,
    fusion: Fusion = None,
    flops: Callable[..., int] | None = None,
    physical: Literal["moved"] | None = None,
    sharding: Callable[..., Any] | None = None,
    summed: Callable[..., Any] | None = None,
    collectives: Callable[..., Any] | None = None,
    optional: Sequence[str] = (),
) -> Primitive:
    """A primitive linear in its one operand.

    Its rules take that operand alone: `abstract(aval, **params)`, `reference(value, **params)`,
    `lower(builder, operand, aval, **params)`, `transpose(ct, aval, **params)`,
    `batch(size, value, dim, **params) -> (out, dim)`, and `sharding(aval, out, **params) -> parts`.
    """
    primitive = register(
        Primitive(
            name,
            abstract=lambda avals, **params: [abstract(avals[0], **params)],
            reference=lambda values, **params: [reference(values[0], **params)],
            lower=lambda b, operands, avals, **params: [lower(b, operands[0], avals[0], **params)],
            jvp=Unsupported("it is set below"),
            transpose=lambda cts, operands, **params: [transpose(cts[0], operands[0].aval, **params)],
            batch=lambda size, values, dims, **params: _one(batch(size, values[0], dims[0], **params)),
            exact=exact,
            faster_in_numpy=faster_in_numpy,
            fusion=fusion,
            flops=flops,
            physical=physical,
            sharding=sharding and (lambda avals, outs, **params: [sharding(avals[0], outs[0], **params)]),
            sums=sums_of_first,
            params=params_of(abstract),
            summed=summed,
            collectives=collectives,
            optional=optional,
        )
    )
    primitive.jvp = linear_jvp(primitive)
    return primitive


def _one(pair: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    return [pair[0]], [pair[1]]


def as_array(operand: Any) -> Any:
    """The operand of an operation that changes nothing, as an array: numbers and NumPy arrays are converted."""
    if hasattr(operand, "aval") or is_symbolic_dim(operand):
        return operand
    aval = aval_of(operand)
    return context.trace.constant_of(Array(aval, np.array(operand, aval.dtype)))


def move_axis(x: Any, source: int, target: int) -> Any:
    """`x` with one axis moved."""
    if source == target:
        return x
    order = [i for i in range(aval_of(x).ndim) if i != source]
    order.insert(target, source)
    return transpose(x, order)


def to_front(x: Any, dim: int) -> Any:
    """`x` with one axis moved to the front."""
    return move_axis(x, dim, 0)


def move_mapped_axis(x: Any, dim: int | None, at: int = 0) -> Any:
    """A value with its mapped axis at `at`; one that is not mapped as it is."""
    return x if dim is None else move_axis(x, dim, at)


def mapped_to(x: Any, dim: int | None, size: int, at: int = 0) -> Any:
    """A value with its mapped axis at `at`, repeated along it where it was not mapped.

    Where the rows are partitioned over Explicit axes of a mesh it is partitioned so, too.
    """
    if dim is not None:
        return move_axis(x, dim, at)
    aval = aval_of(x)
    shape, rows = aval.shape, context.explicit_rows
    rows_of_x = broadcast_in_dim(
        x, (*shape[:at], size, *shape[at:]), [i if i < at else i + 1 for i in range(len(shape))]
    )
    return rows_of_x if rows is None else with_rows_along(rows_of_x, rows, at)


def with_rows_along(x: Any, rows: ExplicitSharding, at: int) -> Any:
    """An array whose axis `at` holds rows, partitioned along it as `rows`, which has this part alone."""
    aval = aval_of(x)
    parts = list(parts_of(aval))
    if aval.explicit is not None and (aval.explicit.is_undecided or parts[at] == rows.parts[0]):  # type: ignore[index]
        return x
    parts[at] = rows.parts[0]  # type: ignore[index]  # it is decided
    return constrain_to(x, aval.with_explicit(rows.with_parts(parts)))


# -- broadcast_in_dim: the operand's axis i becomes the result's axis broadcast_dimensions[i], all others repeat it.


def _broadcast_abstract(
    aval: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> ShapedArray:
    fits = len(broadcast_dimensions) == aval.ndim and all(
        0 <= d < len(shape) and n in (1, shape[d]) for n, d in zip(aval.shape, broadcast_dimensions)
    )
    if not fits or list(broadcast_dimensions) != sorted(set(broadcast_dimensions)):
        raise TypeError(
            f"broadcast_in_dim {_broadcast_fault(aval.ndim, len(shape), broadcast_dimensions)}. {aval.str_short()} "
            f"does not broadcast to shape {shape} with broadcast_dimensions={broadcast_dimensions}."
        )
    return aval.update(shape=shape)


def _broadcast_fault(ndim: int, target: int, dimensions: tuple[int, ...]) -> str:
    """Why an operand of `ndim` axes does not broadcast to `target` axes."""
    if len(dimensions) != ndim:
        return "broadcast_dimensions must have length equal to operand ndim"
    if ndim > target:
        return "shape has a lower rank than the operand"
    if not all(0 <= d < target for d in dimensions):
        return "broadcast_dimensions must be a subset of output dimensions"
    if len(set(dimensions)) != ndim:
        return "broadcast_dimensions must not contain duplicates"
    if list(dimensions) != sorted(dimensions):
        return "broadcast_dimensions must be strictly increasing"
    return "operand dimension sizes must be 1, or those of the axes that broadcast_dimensions names"


def _broadcast_reference(x: np.ndarray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    expanded_shape = [1] * len(shape)
    for n, d in zip(np.shape(x), broadcast_dimensions):
        expanded_shape[d] = n
    expanded = np.reshape(x, expanded_shape)
    if expanded.shape == shape:
        return expanded
    result = np.empty(shape, expanded.dtype)  # several times faster than np.broadcast_to, for small arrays
    result[...] = expanded
    return result


def _broadcast_transpose(
    ct: Any, aval: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> Any:
    preserved = {d for n, d in zip(aval.shape, broadcast_dimensions) if n == shape[d]}
    summed = reduce_sum(ct, [d for d in range(len(shape)) if d not in preserved])
    return reshape(summed, aval.shape)


def _broadcast_batch(
    size: int, x: Any, dim: int, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> Any:
    moved = to_front(x, dim)
    return broadcast_in_dim(moved, (size, *shape), (0, *(d + 1 for d in broadcast_dimensions))), 0


def _broadcast_sharding(
    aval: ShapedArray, out: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> Any:
    """An axis that is repeated is not partitioned."""
    kept = {d: part for d, n, part in zip(broadcast_dimensions, aval.shape, parts_of(aval)) if n == shape[d]}
    return tuple([kept.get(d) for d in range(out.ndim)])


broadcast_in_dim_p = structural(
    "broadcast_in_dim",
    faster_in_numpy=lambda avals, *, shape, broadcast_dimensions: math.prod(shape) == avals[0].size,  # a view
    sharding=_broadcast_sharding,
    physical="moved",
    fusion="cheap",
    abstract=_broadcast_abstract,
    reference=_broadcast_reference,
    lower=lambda b, x, aval, *, shape, broadcast_dimensions: b.op(
        "stablehlo.broadcast_in_dim", [x], aval, f"broadcast_dimensions = {int_array(broadcast_dimensions)}"
    ),
    transpose=_broadcast_transpose,
    batch=_broadcast_batch,
)


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape as users give it (an integer, a sequence of them, an array) as a tuple of Python integers.

    Raises:
      TypeError: a size is not an integer, or is a traced one.
      ArgumentError: a size is negative.
    """
    sizes = (shape,) if type(shape) is int else tuple(shape) if isinstance(shape, (tuple, list)) else _sizes(shape)
    for n in sizes:
        if type(n) is not int:
            sizes = tuple(map(_size, sizes))
            break
    for n in sizes:
        if n < 0:
            raise ArgumentError(f"A shape has no negative sizes, and {sizes} was asked for.")
    return sizes


def one_axis(axis: Any, ndim: int) -> int:
    """An axis counted from the front.

    Raises:
      AxisError: the array has no such axis. It is a ValueError and an IndexError.
      TypeError: `axis` is not an integer.
    """
    index = axis if type(axis) is int else axis_number(axis)
    if not -ndim <= index < ndim:
        raise AxisError(f"axis {index} is out of bounds for an array of {ndim} axes.")
    return index % ndim


def tuple_of(values: Iterable[Any], function: str, name: str) -> tuple[Any, ...]:
    """A sequence that a function has as its argument `name`, one value for each of some axes, as a tuple.

    Raises:
      TypeError: it is a single value.
    """
    try:
        return tuple(values)
    except TypeError:
        raise TypeError(
            f"{function}: {name} is a sequence with a value for each axis, and is {values!r}. "
            f"For a single axis write ({values!r},)."
        ) from None


def from_front(axis: int, ndim: int) -> int:
    """An axis counted from the front. An axis that is out of range is returned as it is; the operation refuses it."""
    index = axis if type(axis) is int else axis_number(axis)
    return index + ndim if -ndim <= index < 0 else index


def axis_number(axis: Any) -> int:
    """The number of an axis as a Python integer.

    Raises:
      TypeError: it is not an integer, or a traced one.
    """
    if isinstance(axis, Tracer):
        return axis.static_integer("The number of an axis")
    try:
        return operator.index(axis)
    except TypeError:
        raise TypeError(f"An axis is given by its number, and {axis!r} cannot be interpreted as an integer.") from None


def _sizes(shape: Any) -> tuple[Any, ...]:
    """The sizes in a vector or another iterable; a single size as a tuple of it."""
    return tuple(shape) if hasattr(shape, "__iter__") and getattr(shape, "ndim", 1) > 0 else (shape,)


def _size(n: Any) -> Any:
    if is_symbolic_dim(n):
        return n
    if isinstance(n, Tracer):
        return n.static_integer("Shapes must be 1D sequences of concrete values of integer type:\na size")
    try:
        return operator.index(n)
    except TypeError as error:
        raise TypeError(
            f"Shapes must be 1D sequences of concrete values of integer type, and {n!r} is none. Convert it with int()."
        ) from error


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """Repeats an array along new or size-1 axes: axis i of `operand` becomes axis `broadcast_dimensions[i]`.

    >>> from xpr import lax
    >>> lax.broadcast_in_dim(1.0, (2,), ())
    Array([1., 1.], dtype=float32, weak_type=True)
    """
    shape = tuple(shape)
    if aval_of(operand).shape == shape and list(broadcast_dimensions) == list(range(len(shape))):
        return as_array(operand)
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=tuple(broadcast_dimensions))


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """Broadcasts as NumPy does: axes are aligned at the end."""
    shape = tuple(shape)
    old_shape = aval_of(x).shape
    if old_shape == shape:
        return x
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - len(old_shape), len(shape))))


def full(shape: Sequence[int], value: Any, dtype: Any) -> Any:
    """An array of one scalar repeated; the scalar takes the strong type `dtype`."""
    return broadcast_in_dim(np.asarray(value, dtype)[()], tuple(shape), ())


def zeros_like_aval(aval: ShapedArray) -> Any:
    """The zero of a type: an array of zeros, weak if the type is; for a type that a user defines, its `vspace_zero`."""
    if aval.is_high:
        return aval.vspace_zero()  # type: ignore[attr-defined]  # a type that a user defines
    scalar = np.zeros((), aval.dtype)[()]
    zeros = broadcast_in_dim(scalar.item() if aval.weak_type else scalar, aval.shape, ())
    if aval.plain is aval:
        return zeros
    zeros = constrain_to(zeros, aval)
    return varying_as(zeros, aval) if aval.varying else zeros


ShapedArray.vspace_zero = zeros_like_aval  # type: ignore[attr-defined]  # as types that users define have it


def instantiate(tangent: Any) -> Any:
    """An array of zeros for a symbolic zero; anything else as it is."""
    return zeros_like_aval(tangent.aval) if type(tangent) is Zero else tangent


# -- reshape


def _reshape_abstract(aval: ShapedArray, *, new_sizes: tuple[int, ...]) -> ShapedArray:
    if math.prod(new_sizes) != aval.size or any(surely_below(n, 0) for n in new_sizes):
        raise TypeError(
            f"reshape: cannot reshape array of type {aval.str_short()}, which has {aval.size} elements, into shape "
            f"{new_sizes}, which has {math.prod(new_sizes)}."
        )
    return aval.update(shape=new_sizes)


_FEW_TILES, _MANY_ELEMENTS = 8, 1 << 10
# Bytes from which on several threads that compute elements are faster than one that copies rows: where memory is new,
# and where elements are large, since what is computed for each takes as long for one of 8 bytes as for one of 4.
_LARGE_RESULT = {4: 1 << 24, 8: 1 << 22, 16: 1 << 20}  # by the size of an element
_LARGE_RESULT_OF_SMALL_ELEMENTS = 1 << 26
_MANY_WRITTEN, _MUCH_WRITTEN, _LONG_ROW = 1 << 19, 1 << 27, 1 << 14  # elements, bytes of all of them, elements


def _reshape_lower(b: Builder, x: Value, aval: ShapedArray, *, new_sizes: tuple[int, ...]) -> Value:
    """A reshape; on CPU, where it merges rows with a few copies of them (as `tile` does), a concatenation.

    This is the case if x[..., n] has been broadcast to [..., times, n] and is reshaped to [..., times * n]. XLA would
    compute the index into the row for each element, which takes two to seven times as long.
    """
    broadcast = b.broadcast_source(x) if b.platform == "cpu" and not b.may_be_partitioned else None
    if broadcast is None or not new_sizes or x.aval.ndim < 2 or aval.is_symbolic:
        return b.reshape(x, new_sizes)
    itemsize = aval.dtype.itemsize
    largest = _LARGE_RESULT.get(itemsize, _LARGE_RESULT_OF_SMALL_ELEMENTS)
    if aval.size < _MANY_ELEMENTS or aval.size * itemsize >= largest:
        return b.reshape(x, new_sizes)
    source, axes = broadcast
    *outer, times, n = x.aval.shape
    last = x.aval.ndim - 1
    repeats_rows = last in axes and last - 1 not in axes and source.aval.shape[-1] == n > 1
    if not repeats_rows or new_sizes[-1] != times * n or not 1 < times <= _FEW_TILES:
        return b.reshape(x, new_sizes)
    longer_rows = source.aval.update(shape=(*source.aval.shape[:-1], times * n))
    dimension = f"dimension = {source.aval.ndim - 1} : i64"
    tiled = b.op("stablehlo.concatenate", [source] * times, longer_rows, dimension)
    return b.reshape(b.broadcast(tiled, (*outer, times * n), [*axes[:-1], last - 1]), new_sizes)


def written_before_reshape(b: Builder, x: Value) -> Value:
    """A result of a program: a broadcast is written before a reshape merges its long rows, or copies of elements.

    So `tile` and `repeat` end. XLA would compute the index into the operand for each element, which takes twice as
    long, but no longer than to write large elements to much memory; if other operations read them it is worth it.
    """
    name, operands, _ = b.definitions.get(x, ("", [], ""))
    broadcast = b.broadcast_source(operands[0]) if b.platform == "cpu" and name == "stablehlo.reshape" else None
    if broadcast is None or x.aval.is_symbolic or not x.aval.shape:
        return x
    (source, axes), shape, itemsize = broadcast, operands[0].aval.shape, x.aval.dtype.itemsize
    most = {4: math.inf, 8: _MUCH_WRITTEN / 8}.get(itemsize, 0)
    repeats = len(shape) - 1 not in axes or shape[-1] >= _LONG_ROW
    merges = x.aval.shape[-1] % shape[-1] == 0 and x.aval.shape[-1] > shape[-1]
    if not (source.aval.size > 1 and repeats and merges and _MANY_WRITTEN <= x.aval.size < most):
        return x
    return b.reshape(b.fusion_barrier(operands[0]), x.aval.shape)


reshape_p = structural(
    "reshape",
    faster_in_numpy=lambda avals, *, new_sizes: True,  # a view
    sharding=lambda aval, out, *, new_sizes: reshaped(aval.explicit.mesh, aval, new_sizes),
    physical="moved",
    fusion="view",
    abstract=_reshape_abstract,
    reference=lambda x, *, new_sizes: np.reshape(x, new_sizes),
    lower=_reshape_lower,
    transpose=lambda ct, aval, *, new_sizes: reshape(ct, aval.shape),
    batch=lambda size, x, dim, *, new_sizes: (reshape(to_front(x, dim), (size, *new_sizes)), 0),
)


def reshape(operand: Any, new_sizes: Sequence[int]) -> Any:
    """The same elements, in row-major order, in another shape.

    >>> from xpr import lax, numpy as jnp
    >>> lax.reshape(jnp.arange(4), (2, 2))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    new_sizes = tuple(new_sizes)
    if aval_of(operand).shape == new_sizes:
        return as_array(operand)
    return reshape_p.bind(operand, new_sizes=new_sizes)


def expand_dims(x: Any, axes: Sequence[int]) -> Any:
    """Axes of size 1 inserted at the positions `axes` of the result."""
    shape = list(aval_of(x).shape)
    count = len(shape) + len(axes)
    for axis in sorted(a % count for a in axes):
        shape.insert(axis, 1)
    kept = [i for i in range(count) if i not in {a % count for a in axes}]
    return broadcast_in_dim(x, shape, kept)


# -- squeeze


def _squeeze_abstract(aval: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    if any(not 0 <= d < aval.ndim or aval.shape[d] != 1 for d in dimensions):
        raise ValueError(
            f"squeeze: cannot select an axis to squeeze out whose size is not 1: {dimensions} of {aval.str_short()}."
        )
    return aval.update(shape=tuple(n for i, n in enumerate(aval.shape) if i not in dimensions))


def _squeeze_batch(size: int, x: Any, dim: int, *, dimensions: tuple[int, ...]) -> Any:
    return squeeze(to_front(x, dim), [d + 1 for d in dimensions]), 0


squeeze_p = structural(
    "squeeze",
    faster_in_numpy=lambda avals, *, dimensions: True,  # a view
    sharding=lambda aval, out, *, dimensions: without(parts_of(aval), dimensions),
    physical="moved",
    fusion="view",
    abstract=_squeeze_abstract,
    reference=lambda x, *, dimensions: np.squeeze(x, dimensions),
    lower=lambda b, x, aval, *, dimensions: b.reshape(x, aval.shape),
    transpose=lambda ct, aval, *, dimensions: reshape(ct, aval.shape),
    batch=_squeeze_batch,
)


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """The array without axes of size 1.

    Args:
      array: an array.
      dimensions: the axes to remove.

    Returns:
      An array without them.

    Raises:
      ValueError: there is no such axis, or its size is not 1.

    >>> from xpr import lax
    >>> lax.squeeze(lax.full((1, 2), 3.0), (0,))
    Array([3., 3.], dtype=float32, weak_type=True)
    """
    ndim = aval_of(array).ndim
    dimensions = tuple(sorted(one_axis(d, ndim) for d in tuple_of(dimensions, "squeeze", "dimensions")))
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"squeeze: dimensions are not unique: {dimensions} of {aval_of(array).str_short()}.")
    return squeeze_p.bind(array, dimensions=dimensions) if dimensions or not hasattr(array, "aval") else array


# -- transpose


def _transpose_abstract(aval: ShapedArray, *, permutation: tuple[int, ...]) -> ShapedArray:
    if sorted(permutation) != list(range(aval.ndim)):
        raise TypeError(f"transpose: {permutation} is not a permutation of the axes of {aval.str_short()}.")
    return aval.update(shape=tuple(aval.shape[i] for i in permutation))


def _transpose_batch(size: int, x: Any, dim: int, *, permutation: tuple[int, ...]) -> Any:
    others = [i for i in range(aval_of(x).ndim) if i != dim]
    return transpose(x, (dim, *(others[i] for i in permutation))), 0


transpose_p = structural(
    "transpose",
    sharding=lambda aval, out, *, permutation: tuple([parts_of(aval)[i] for i in permutation]),
    physical="moved",
    fusion="view",
    abstract=_transpose_abstract,
    reference=lambda x, *, permutation: np.transpose(x, permutation),
    lower=lambda b, x, aval, *, permutation: b.transpose(x, permutation),
    transpose=lambda ct, aval, *, permutation: transpose(ct, np.argsort(permutation).tolist()),
    batch=_transpose_batch,
)


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """The array with its axes permuted.

    Args:
      operand: an array.
      permutation: axis i of the result is axis `permutation[i]` of the operand.

    Returns:
      An array with its axes in that order.

    >>> from xpr import lax, numpy as jnp
    >>> lax.transpose(jnp.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    permutation = tuple(map(int, tuple_of(permutation, "transpose", "permutation")))
    if permutation == tuple(range(len(permutation))) and len(permutation) == aval_of(operand).ndim:
        return as_array(operand)
    return transpose_p.bind(operand, permutation=permutation)


# -- rev


def _rev_abstract(aval: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < aval.ndim for d in dimensions):
        raise TypeError(f"rev: {dimensions} are not different axes of {aval.str_short()}.")
    return aval


def _rev_batch(size: int, x: Any, dim: int, *, dimensions: tuple[int, ...]) -> Any:
    return rev(x, [d if d < dim else d + 1 for d in dimensions]), dim


rev_p = structural(
    "rev",
    sharding=lambda aval, out, **params: parts_of(aval),
    physical="moved",
    fusion="cheap",
    abstract=_rev_abstract,
    reference=lambda x, *, dimensions: np.flip(x, dimensions),
    lower=lambda b, x, aval, *, dimensions: b.op(
        "stablehlo.reverse", [x], aval, f"dimensions = {int_array(dimensions)}"
    ),
    transpose=lambda ct, aval, *, dimensions: rev(ct, dimensions),
    batch=_rev_batch,
)


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """The array reversed along axes.

    Args:
      operand: an array.
      dimensions: the axes.

    Returns:
      An array like `operand`.

    >>> from xpr import lax, numpy as jnp
    >>> lax.rev(jnp.arange(3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    return rev_p.bind(operand, dimensions=tuple_of(dimensions, "rev", "dimensions"))


# -- reduce_sum: the transpose of broadcasting


def reduced(aval: ShapedArray, axes: Sequence[int]) -> ShapedArray:
    """The type of a reduction: `aval` without `axes`."""
    if len(set(axes)) != len(axes) or any(not 0 <= a < aval.ndim for a in axes):
        raise TypeError(
            f"A reduction of {aval.str_short()} over axes {tuple(axes)}: they must be different axes of it."
        )
    return aval.update(shape=tuple(n for i, n in enumerate(aval.shape) if i not in axes))


def _sum_abstract(aval: ShapedArray, *, axes: tuple[int, ...], unreduced: Sequence[Any] = ()) -> ShapedArray:
    if aval.dtype not in dtypes.NUMBERS:
        raise TypeError(f"reduce_sum: sums numbers, and got {aval.str_short()}. Convert it first.")
    return reduced(aval, axes)


def _sum_batch(size: int, x: Any, dim: int, *, axes: tuple[int, ...], **params: Any) -> Any:
    return reduce_sum_p.bind(x, axes=shifted_axes(axes, dim), **params), kept_dim(axes, dim)


def _sum_transpose(ct: Any, aval: ShapedArray, *, axes: tuple[int, ...], unreduced: Sequence[Any] = ()) -> Any:
    return broadcast_in_dim(ct, aval.shape, [i for i in range(aval.ndim) if i not in axes])


def shifted_axes(axes: Sequence[int], dim: int) -> tuple[int, ...]:
    """Axes of one row as axes of the batched array, whose mapped axis is `dim`."""
    return tuple(a if a < dim else a + 1 for a in axes)


def kept_dim(axes: Sequence[int], dim: int) -> int:
    """The position of the mapped axis after a reduction over the rows' `axes`."""
    return dim - sum(a < dim for a in axes)


def are_integers(avals: Sequence[ShapedArray]) -> bool:
    """Whether the operands are integers of whole bytes, which any order of sums and products gives the same bits."""
    return all(aval.dtype.kind in "iu" for aval in avals)


reduce_sum_p = structural(
    "reduce_sum",
    sharding=lambda aval, out, *, axes, **params: without(parts_of(aval), axes),
    fusion="reduction",
    abstract=_sum_abstract,
    reference=lambda x, *, axes, **params: np.sum(x, axes, dtype=np.asarray(x).dtype),
    lower=lambda b, x, aval, *, axes, **params: lower_reduction(
        b, x, aval, axes, "stablehlo.add", np.zeros((), aval.dtype)[()]
    ),
    transpose=_sum_transpose,
    batch=_sum_batch,
    summed=lambda avals, *, axes: [parts_of(avals[0])[axis] for axis in axes],
    collectives=of_reduced_axes,
    optional=["unreduced"],
    exact=are_integers,
    flops=reducing,
)


def reduce_sum(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The sum over axes.

    Args:
      operand: an array.
      axes: the axes to reduce, counted from the front.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the same dtype without the axes.

    Raises:
      ValueError: floats of 16 bits are summed while the setting `allow_f16_reductions` is off.

    >>> from xpr import lax, numpy as jnp
    >>> lax.reduce_sum(jnp.ones((2, 3)), (1,))
    Array([3., 3.], dtype=float32)
    """
    if out_sharding is not None:
        return decided(out_sharding, "reduce_sum", lambda: reduce_sum(operand, axes))
    if not settings.allow_f16_reductions:
        _refuse_f16_sum(aval_of(operand), axes)
    axes = tuple_of(axes, "reduce_sum", "axes")
    return reduce_sum_p.bind(operand, axes=axes) if axes else as_array(operand)


def _refuse_f16_sum(aval: ShapedArray, axes: Sequence[int]) -> None:
    if aval.dtype in (dtypes.float16, dtypes.bf16) and any(aval.shape[axis] != 1 for axis in axes):
        raise ValueError(
            f"reduce_sum: sums of {aval.str_short()} are not allowed while the setting allow_f16_reductions is off. "
            "Convert it to float32 first, or call jnp.sum, which does."
        )
