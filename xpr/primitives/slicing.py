"""Selection and rearrangement of elements: select, slice, pad, concatenate, iota.

All are linear in the elements they move, and exact, so small eager calls run in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.dimensions.expressions import is_symbolic_dim, max_dim, surely_below
from xpr.dimensions.slices import slice_bounds
from xpr.dtypes import INEXACT, INTEGERS, NUMBERS, short_name
from xpr.errors import ArgumentError
from xpr.primitives.comparison_lowering import lower_comparison
from xpr.primitives.elementwise_rules import PYTHON_SCALARS
from xpr.primitives.flops import per_result
from xpr.primitives.shapes import (
    as_array,
    broadcast_in_dim,
    full,
    instantiate,
    mapped_to,
    one_axis,
    reduce_sum,
    structural,
    to_front,
    tuple_of,
)
from xpr.primitives.sharding_constraint import sharded
from xpr.primitives.sharding_rules import (
    ElementwiseSharding,
    joined,
    mesh_of_types,
    partitioned_alike,
    refuse_unreduced,
    resized,
    sums_alike,
    sums_of_cases,
    sums_of_first,
)

__all__ = [
    "broadcasted_iota", "concatenate", "concatenate_p", "iota_p", "pad", "pad_p", "select", "select_n", "select_n_p",
    "slice_in_dim", "slice_p",
]  # fmt: skip

# -- select_n: element by element, the `which`-th of the cases. `which` is boolean for two cases, or of integers; it has
# the cases' shape or is a scalar.


def _select_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    which, *cases = avals
    if not cases:
        raise TypeError(f"select_n: it needs at least one case and the selector, which is {which.str_short()}.")
    first = cases[0]
    types = ", ".join(a.str_short() for a in avals)
    if any(c.shape != first.shape or c.dtype != first.dtype for c in cases):
        raise TypeError(f"select_n: all cases must have one shape and dtype, and the operands are {types}.")
    if which.shape not in ((), first.shape):
        raise TypeError(
            f"select_n: the selector must be a scalar or have the cases' shape, and the operands are {types}."
        )
    if which.dtype not in INTEGERS and (which.dtype != dtypes.bool_ or len(cases) > 2):
        raise TypeError(
            f"select_n: the selector must be bool (up to two cases) or of integers, and the operands are {types}."
        )
    return [first.update(weak_type=all(c.weak_type for c in cases))]


def _select_reference(values: Sequence[Any]) -> list[Any]:
    which, *cases = values
    if len(cases) == 2 and np.asarray(which).dtype == bool:
        return [np.where(which, cases[1], cases[0])]
    number, chosen = np.asarray(which), np.asarray(cases[0])
    number = number if number.dtype.itemsize >= 4 else number.astype(np.int32)
    for index, case in enumerate(cases[1:], 1):
        chosen = np.where(number >= index, case, chosen)
    return [chosen]


def _select_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    which, *cases = operands
    if which.aval.dtype != dtypes.bool_ and which.aval.dtype.itemsize < 4:  # which may not have the number of a case
        which = b.convert(which, dtypes.int32)

    def choose(low: int, options: list[Value]) -> Value:
        if len(options) == 1:
            return options[0]
        half = len(options) // 2
        if which.aval.dtype == dtypes.bool_:
            below, first, second = which, options[1], options[0]
        else:
            below = lower_comparison(b, which, b.constant(low + half, which.aval), "LT")
            first, second = choose(low, options[:half]), choose(low + half, options[half:])
        return b.op("stablehlo.select", [below, first, second], avals[0])

    return [choose(0, cases)]


def _select_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    out = select_n_p.bind(*primals)
    if all(type(t) is Zero for t in tangents[1:]):
        return [out], [Zero.from_primal_value(out)]
    return [out], [select_n_p.bind(primals[0], *map(instantiate, tangents[1:]))]


def _select_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (which, *cases) = cts, operands
    nothing = full(aval_of(ct).shape, 0, aval_of(ct).dtype)

    def share(index: int) -> Any:
        return select_n_p.bind(which, *[ct if i == index else nothing for i in range(len(cases))])

    return [None, *(share(i) if is_linear(case) else None for i, case in enumerate(cases))]


def _select_batch(size: int, values: Sequence[Any], dims: Sequence[int | None]) -> Any:
    which, *cases = values
    if dims[0] is not None and all(aval_of(x).ndim == 0 for x in cases):  # JAX takes them also for `which` with axes
        shape = aval_of(which).shape
        return [select_n_p.bind(which, *(broadcast_in_dim(x, shape, ()) for x in cases))], [dims[0]]
    if dims[0] is None and aval_of(which).ndim == 0:
        return [select_n_p.bind(which, *(mapped_to(x, d, size) for x, d in zip(cases, dims[1:])))], [0]
    rows = [mapped_to(x, d, size) for x, d in zip(cases, dims[1:])]
    which = mapped_to(which, dims[0], size)
    shape = aval_of(rows[0]).shape
    if aval_of(which).shape != shape:
        which = broadcast_in_dim(which, shape, (0,))
    return [select_n_p.bind(which, *rows)], [0]


select_n_p = register(
    Primitive(
        "select_n",
        fusion="cheap",
        physical="moved",
        abstract=_select_abstract,
        reference=_select_reference,
        lower=_select_lower,
        jvp=_select_jvp,
        transpose=_select_transpose,
        batch=_select_batch,
        exact=True,
        sharding=ElementwiseSharding("select cases must have the same shardings, and axis"),
        sums=sums_of_cases,
        flops=per_result,
    )
)


def select_n(which: Any, *cases: Any) -> Any:
    """At each position, the element of the case that `which` selects.

    Args:
      which: booleans, or integers that are the number of the case.
      *cases: arrays of one shape and dtype, of which False and 0 select the first.

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: there are no cases, their types differ, or `which` has another shape or dtype.

    >>> from xpr import lax, numpy as jnp
    >>> lax.select_n(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4]))
    Array([3, 2], dtype=int32)
    """
    return select_n_p.bind(which, *cases)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Elements of `on_true` where `pred` is true, and of `on_false` elsewhere.

    Args:
      pred: booleans, a scalar or of the shape of the others.
      on_true: an array.
      on_false: an array of that shape and dtype.

    Returns:
      An array like these.

    >>> from xpr import lax
    >>> lax.select(True, 1.0, 2.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return select_n_p.bind(pred, on_false, on_true)


# -- slice: static bounds


def _slice_abstract(aval: ShapedArray, *, start_indices: Any, limit_indices: Any, strides: Any) -> ShapedArray:
    steps = strides or (1,) * aval.ndim
    if not len(start_indices) == len(limit_indices) == len(steps) == aval.ndim or any(
        not 0 <= start <= limit <= n or step < 1
        for start, limit, step, n in zip(start_indices, limit_indices, steps, aval.shape)
    ):
        raise TypeError(
            f"slice: {aval.str_short()} can't be sliced from {start_indices} to {limit_indices} by {strides}: "
            "each bound must be inside its axis, and each stride be at least 1."
        )
    return aval.update(
        shape=tuple(
            max_dim(0, -(-(limit - start) // step)) for start, limit, step in zip(start_indices, limit_indices, steps)
        )
    )


def _slices(start: Sequence[int], limit: Sequence[int], strides: Sequence[int] | None) -> tuple[slice, ...]:
    return tuple(map(slice, start, limit, strides or (1,) * len(start)))


def _slice_lower(
    b: Builder, x: Value, aval: ShapedArray, *, start_indices: Any, limit_indices: Any, strides: Any
) -> Value:
    return b.slice(x, start_indices, limit_indices, strides)


def _slice_transpose(ct: Any, aval: ShapedArray, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = strides or (1,) * aval.ndim
    covered = [
        start + (n - 1) * step + 1 if n else start for start, n, step in zip(start_indices, aval_of(ct).shape, steps)
    ]
    config = [(start, n - end, step - 1) for start, end, n, step in zip(start_indices, covered, aval.shape, steps)]
    return pad(ct, np.zeros((), aval.dtype)[()], config)


def _slice_batch(size: int, x: Any, dim: int, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    starts, limits, steps = list(start_indices), list(limit_indices), list(strides or (1,) * len(start_indices))
    starts.insert(dim, 0)
    limits.insert(dim, size)
    steps.insert(dim, 1)
    return slice_(x, starts, limits, steps if strides else None), dim


slice_p = structural(
    "slice",
    sharding=lambda aval, out, **params: resized(
        aval.explicit.mesh, aval, out, rule="slicing on sharded dims leaves equal shards"
    ),
    physical="moved",
    fusion="cheap",
    abstract=_slice_abstract,
    reference=lambda x, *, start_indices, limit_indices, strides: x[_slices(start_indices, limit_indices, strides)],
    lower=_slice_lower,
    transpose=_slice_transpose,
    batch=_slice_batch,
)


def slice_(
    operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Any:
    """The elements from `start_indices` up to `limit_indices` along every axis, in steps of `strides`.

    Args:
      operand: an array.
      start_indices: the first index for each axis.
      limit_indices: the end for each axis, which is not included.
      strides: the step for each axis; None for 1.

    Returns:
      An array with as many axes.

    Raises:
      TypeError: a bound is outside of its axis, a stride is less than 1, or there are not as many as axes.

    >>> from xpr import lax, numpy as jnp
    >>> lax.slice(jnp.arange(5), (1,), (4,))
    Array([1, 2, 3], dtype=int32)
    """
    steps = None if strides is None or all(s == 1 for s in strides) else tuple(strides)
    starts = tuple_of(start_indices, "slice", "start_indices")
    limits = tuple_of(limit_indices, "slice", "limit_indices")
    return slice_p.bind(operand, start_indices=starts, limit_indices=limits, strides=steps)


def slice_in_dim(operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Any:
    """A slice along one axis; see `lax.slice`.

    Args:
      operand: an array.
      start_index: the first index; None for 0.
      limit_index: the end, which is not included; None for the size of the axis.
      stride: the step.
      axis: the axis.

    Returns:
      An array with as many axes.

    >>> from xpr import lax
    >>> lax.slice_in_dim(lax.iota("int32", 5), 1, 4)
    Array([1, 2, 3], dtype=int32)
    """
    shape = aval_of(operand).shape
    axis = one_axis(axis, len(shape))
    start, limit, step, _ = slice_bounds(slice(start_index, limit_index, stride), shape[axis])
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = start, max_dim(start, limit), step
    return slice_(operand, starts, limits, steps)


# -- pad: (low, high, interior) for each axis; low and high may be negative, which removes elements.


def _padded_size(n: int, low: int, high: int, interior: int) -> int:
    return low + high + n + interior * max_dim(n - 1, 0) if interior else low + high + n


def _pad_abstract(
    avals: Sequence[ShapedArray], *, padding_config: tuple[tuple[int, int, int], ...]
) -> list[ShapedArray]:
    aval, value = avals
    what = f"pad: {aval.str_short()} can't be padded with {value.str_short()} by {padding_config}:"
    if value.dtype != aval.dtype:
        raise TypeError(f"{what} the padding value must have the array's dtype. Convert one of them.")
    if value.ndim:
        raise ValueError(f"{what} padding_value must be a scalar.")
    if len(padding_config) != aval.ndim or any(len(config) != 3 or config[2] < 0 for config in padding_config):
        raise ValueError(f"{what} padding_config needs (low, high, interior) for each axis, interior not negative.")
    sizes = [_padded_size(n, *config) for n, config in zip(aval.shape, padding_config)]
    if any(n < 0 for n in sizes):
        raise ValueError(f"{what} Dimension size after padding is not at least 0: {tuple(sizes)}.")
    return [ShapedArray(tuple(sizes), aval.dtype, aval.weak_type and value.weak_type)]


def _pad_reference(values: Sequence[Any], *, padding_config: tuple[tuple[int, int, int], ...]) -> list[Any]:
    x, fill = values
    x = np.asarray(x)
    result = np.empty([_padded_size(n, *config) for n, config in zip(x.shape, padding_config)], x.dtype)
    result.fill(fill)
    targets, sources = [], []  # along each axis: the positions in the result, and the elements that remain
    for n, size, (low, _, interior) in zip(x.shape, result.shape, padding_config):
        step = interior + 1
        first = max(0, -(low // step))
        end = max(first, min(n, -((low - size) // step)))
        targets.append(slice(low + first * step, low + (end - 1) * step + 1, step) if end > first else slice(0, 0))
        sources.append(slice(first, end))
    result[tuple(targets)] = x[tuple(sources)]
    return [result]


_LARGE_RESULT = 1 << 15  # elements


def _pad_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, padding_config: Any) -> list[Value]:
    """A pad. On CPU, interior padding along the last axis of large arrays is padding behind each element.

    XLA's loop of interior padding computes for each element of the result whether it is padding, and takes two to nine
    times as long; where one value is put between elements it doesn't.
    """
    low, high, interior = zip(*padding_config) if padding_config else ((), (), ())
    x, value = operands
    (aval,) = avals
    is_large = not aval.is_symbolic and aval.size >= _LARGE_RESULT and x.aval.shape[-1] > 1
    if b.platform == "cpu" and not b.may_be_partitioned and is_large and interior[-1] > 1:
        x = _padded_behind_elements(b, x, value, interior[-1])
        # There is padding behind the last element too now, which `high` does not count.
        high, interior = (*high[:-1], high[-1] - interior[-1]), (*interior[:-1], 0)
    return [b.pad(x, value, low, high, interior)]


def _padded_behind_elements(b: Builder, x: Value, value: Value, count: int) -> Value:
    """The array with `count` values behind each element along the last axis, the last element included."""
    *outer, n = x.aval.shape
    zeros = [0] * len(outer)
    columns = b.reshape(x, (*outer, n, 1))
    padded = b.pad(columns, value, [*zeros, 0, 0], [*zeros, 0, count], [*zeros, 0, 0])
    return b.reshape(b.fusion_barrier(padded), (*outer, n * (count + 1)))


def _pad_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, padding_config: Any) -> Any:
    out = pad_p.bind(*primals, padding_config=padding_config)
    if all(type(t) is Zero for t in tangents):
        return [out], [Zero.from_primal_value(out)]
    return [out], [pad_p.bind(*map(instantiate, tangents), padding_config=padding_config)]


def _pad_transpose(cts: Sequence[Any], operands: Sequence[Any], *, padding_config: Any) -> list[Any]:
    (ct,), (x, fill) = cts, operands
    inverse = [(-low, -high, 0) for low, high, _ in padding_config]
    zero = np.zeros((), aval_of(ct).dtype)[()]
    x_ct = pad(ct, zero, inverse) if any(map(any, inverse)) else ct
    shape = aval_of(x_ct).shape
    x_ct = slice_(x_ct, [0] * len(shape), shape, [interior + 1 for _, _, interior in padding_config])
    if not is_linear(fill):
        return [x_ct, None]
    inside = pad(full(shape_of_operand(ct, padding_config), True, bool), np.False_, padding_config)
    outside = select_n(inside, ct, full(aval_of(ct).shape, 0, aval_of(ct).dtype))
    return [x_ct if is_linear(x) else None, reduce_sum(outside, range(aval_of(ct).ndim))]


def shape_of_operand(padded: Any, padding_config: Any) -> tuple[int, ...]:
    """The shape that was padded to that of `padded`."""
    inner = (n - low - high for n, (low, high, _) in zip(aval_of(padded).shape, padding_config))
    return tuple((n + i) // (i + 1) if n > 0 else 0 for n, (_, _, i) in zip(inner, padding_config))


def _pad_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], *, padding_config: Any) -> Any:
    x, fill = values
    if dims[1] is None:
        config = list(padding_config)
        config.insert(dims[0], (0, 0, 0))  # type: ignore[arg-type]  # the other operand is not mapped, so this one is
        return [pad(x, fill, config)], [dims[0]]
    x, fill = mapped_to(x, dims[0], size), to_front(fill, dims[1])
    padded = pad(x, np.zeros((), aval_of(x).dtype)[()], [(0, 0, 0), *padding_config])
    inside = pad(full(aval_of(x).shape, True, bool), np.False_, [(0, 0, 0), *padding_config])
    return [select_n(inside, broadcast_in_dim(fill, aval_of(padded).shape, (0,)), padded)], [0]


pad_p = register(
    Primitive(
        "pad",
        fusion="cheap",
        physical="moved",
        abstract=_pad_abstract,
        reference=_pad_reference,
        lower=_pad_lower,
        jvp=_pad_jvp,
        transpose=_pad_transpose,
        batch=_pad_batch,
        exact=True,
        sharding=lambda avals, outs, **params: [
            resized(mesh_of_types(avals), avals[0], outs[0], rule="padding on sharded dims leaves equal shards")
        ],
        sums=sums_of_first,
    )
)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """The array with `padding_value` around and between its elements.

    Args:
      operand: an array.
      padding_value: a scalar of the same dtype.
      padding_config: (low, high, interior) for each axis; negative low and high ones remove elements.

    Returns:
      An array of the same dtype.

    Raises:
      TypeError: `padding_value` is of another dtype.
      ValueError: `padding_config` has not three integers for each axis, `padding_value` is no scalar, or more elements
        are removed along an axis than there are.
      ShardingTypeError: an unreduced operand is padded with another value than 0.

    >>> from xpr import lax, numpy as jnp
    >>> lax.pad(jnp.arange(2), 7, [(1, 0, 1)])
    Array([7, 0, 7, 1], dtype=int32)
    """
    listed = list(padding_config) if isinstance(padding_config, Iterable) else [padding_config]
    triples = [tuple(triple) if isinstance(triple, Iterable) else (triple,) for triple in listed]
    if any(len(triple) != 3 for triple in triples):
        raise ValueError(f"pad: padding_config is (low, high, interior) for each axis, not {padding_config!r}.")
    config = tuple([tuple([n if is_symbolic_dim(n) else int(n) for n in triple]) for triple in triples])
    if any(interior < 0 for _, _, interior in config):
        raise ValueError(f"pad: interior padding in padding_config must be nonnegative, and it is {config}.")
    return pad_with(operand, number_like(padding_value, operand), config)


def number_like(x: Any, array: Any) -> Any:
    """A Python number in the dtype of an array, weakly typed if the array is.

    A float with a fraction stays a float for an array of integers, and is refused later.
    """
    if type(x) not in PYTHON_SCALARS:
        return x
    aval = aval_of(array)
    if type(x) is float and aval.dtype not in INEXACT and not x.is_integer():
        return x
    number = np.asarray(x, aval.dtype)[()]
    return number.item() if aval.weak_type else number


def pad_with(operand: Any, padding_value: Any, config: tuple[tuple[Any, ...], ...]) -> Any:
    """`pad` with a value of the operand's type."""
    aval = aval_of(operand)
    if aval.plain is not aval and (isinstance(padding_value, Tracer) or np.any(padding_value)):
        refuse_unreduced(aval, "pad", "a padding other than 0 would be added once by each device")
    return pad_p.bind(operand, padding_value, padding_config=config)


# -- concatenate


def _concatenate_abstract(avals: Sequence[ShapedArray], *, dimension: int) -> list[ShapedArray]:
    first = avals[0]
    same = {(a.dtype, *(n for i, n in enumerate(a.shape) if i != dimension), a.ndim) for a in avals}
    if len(same) != 1 or not 0 <= dimension < first.ndim:
        types = ", ".join(a.str_short() for a in avals)
        raise TypeError(
            f"concatenate: {types} can't be joined along axis {dimension}: dtypes, and sizes of the other axes, "
            "must agree."
        )
    total = sum(a.shape[dimension] for a in avals)
    shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
    return [ShapedArray(shape, first.dtype, all(a.weak_type for a in avals))]


def _concatenate_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int) -> Any:
    out = concatenate(primals, dimension)
    if all(type(t) is Zero for t in tangents):
        return [out], [Zero.from_primal_value(out)]
    return [out], [concatenate_p.bind(*map(instantiate, tangents), dimension=dimension)]


def _concatenate_transpose(cts: Sequence[Any], operands: Sequence[Any], *, dimension: int) -> list[Any]:
    (ct,) = cts
    results: list[Any] = []
    start = 0
    for operand in operands:
        size = aval_of(operand).shape[dimension]
        results.append(slice_in_dim(ct, start, start + size, axis=dimension) if is_linear(operand) else None)
        start += size
    return results


def _concatenate_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], *, dimension: int) -> Any:
    return [concatenate([mapped_to(x, d, size) for x, d in zip(values, dims)], dimension + 1)], [0]


def _concatenate_sharding(avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], *, dimension: int) -> list[Any]:
    parts = joined(avals, outs[0].ndim)
    return [resized(mesh_of_types(avals), avals[0], outs[0], parts)]


_SHORT = 1024  # elements: the time that XLA takes to compile a concatenation grows with the square of their number

concatenate_p = register(
    Primitive(
        "concatenate",
        fusion="cheap",
        physical="moved",
        abstract=_concatenate_abstract,
        reference=lambda values, *, dimension: [np.concatenate(values, dimension)],
        lower=lambda b, operands, avals, *, dimension: [
            b.op("stablehlo.concatenate", operands, avals[0], f"dimension = {dimension} : i64")
        ],
        jvp=_concatenate_jvp,
        transpose=_concatenate_transpose,
        batch=_concatenate_batch,
        exact=True,
        faster_in_numpy=lambda avals, *, dimension: sum(a.size for a in avals) <= _SHORT * len(avals),
        sharding=_concatenate_sharding,
        ambiguous=partitioned_alike,
        sums=sums_alike,
    )
)


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Arrays joined along an existing axis.

    Args:
      operands: arrays of one dtype, whose shapes agree but along the axis.
      dimension: the axis.

    Returns:
      An array.

    Raises:
      TypeError: there are no operands, dtypes or the sizes of other axes differ, or there is no such axis.

    >>> from xpr import lax, numpy as jnp
    >>> lax.concatenate([jnp.arange(2), jnp.arange(1)], 0)
    Array([0, 1, 0], dtype=int32)
    """
    if len(operands) == 1:
        return as_array(operands[0])
    if not len(operands):
        raise TypeError("concatenate: there is nothing to join. Pass at least one array.")
    return concatenate_p.bind(*operands, dimension=dimension)


# -- iota


def _iota_abstract(
    avals: Sequence[ShapedArray], *, dtype: np.dtype, shape: tuple[int, ...], dimension: int
) -> list[ShapedArray]:
    if dtype not in NUMBERS:
        raise TypeError(f"iota: counts numbers, and was asked for {short_name(dtype)}. Count in int32 and convert.")
    if any(surely_below(n, 0) for n in shape):
        raise ArgumentError(f"iota: a shape has no negative sizes, and {shape} was asked for.")
    if not 0 <= dimension < len(shape):
        raise ValueError(f"iota: it counts along an axis of the shape {shape}, and there is no axis {dimension}.")
    return [ShapedArray(shape, dtype)]


def _iota_reference(values: Any, *, dtype: np.dtype, shape: tuple[int, ...], dimension: int) -> list[Any]:
    counted = np.arange(shape[dimension]).astype(dtype)
    if len(shape) == 1:
        return [counted]
    expanded_shape = [1] * len(shape)
    expanded_shape[dimension] = shape[dimension]
    return [np.array(np.broadcast_to(counted.reshape(expanded_shape), shape))]


iota_p = register(
    Primitive(
        "iota",
        fusion="cheap",
        abstract=_iota_abstract,
        reference=_iota_reference,
        lower=lambda b, operands, avals, *, dtype, shape, dimension: [
            b.op("stablehlo.iota", [], avals[0], f"iota_dimension = {dimension} : i64")
        ],
        jvp=lambda primals, tangents, **params: (
            [iota_p.bind(**params)],
            [Zero(iota_p.type_of((), params)[0].to_tangent_aval())],
        ),
        transpose=Unsupported("It has no operands."),
        batch=Unsupported("It has no operands."),
        exact=True,
    )
)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding: Any = None) -> Any:
    """An array of a shape whose elements are their indices along one axis.

    Args:
      dtype: a dtype of numbers.
      shape: the shape.
      dimension: the axis.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape.

    Raises:
      TypeError: the dtype is bool, or `shape` is a single number.
      ValueError: the shape has no such axis.

    >>> from xpr import lax
    >>> lax.broadcasted_iota("int32", (2, 2), 1)
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return sharded(
        iota_p.bind(dtype=np.dtype(dtype), shape=tuple_of(shape, "broadcasted_iota", "shape"), dimension=dimension),
        out_sharding,
        "broadcasted_iota",
    )
