"""x.at[index]: what NumPy writes as x[index] += y, as a function that gives the changed array.

A region made of integers and slices is read, combined and put back; where slices skip entries, from an update with gaps
that change nothing. A mask chooses between old and new entries. Computed places make it a scatter. Where a place is
named several times, `set` leaves one of the values, and the others combine them all.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, from_host
from xpr.control.scatter_apply import scatter_apply
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer, context
from xpr.errors import NonConcreteBooleanIndexError
from xpr.numpy import ufuncs
from xpr.numpy.indexing import (
    Cut,
    Places,
    cuts,
    expanded,
    host_index,
    host_of,
    is_plain,
    mask_message,
    normal_form,
    places,
    read,
)
from xpr.numpy.promotion import SCALARS, as_operand, convert, converter, depth_of_user
from xpr.primitives import elementwise as e
from xpr.primitives.dynamic import dynamic_update_slice_p
from xpr.primitives.gather_scatter import gather_p, scatter_add_p, scatter_sub_p
from xpr.primitives.placing import concatenate as join
from xpr.primitives.placing import pad, select, slice_
from xpr.primitives.scatter import scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, full, reshape, rev
from xpr.primitives.windows import (
    PROMISE_IN_BOUNDS,
    GatherScatterMode,
    ScatterDimensionNumbers,
    scatter_of,
)
from xpr.transforms.evaluate import HOST_LIMIT, EvalTrace

Shape = tuple[int, ...]

# -- The operations


class Operation(NamedTuple):
    """One way of combining old entries with new ones."""

    name: str
    combine: Callable[[Any, Any], Any]  # of operands of one dtype, the new one perhaps a scalar
    scatter: Any  # the primitive that combines at computed places; None where there is none
    neutral: Callable[[np.dtype], Any] | None  # the new entry that leaves every old one as it is; None: there is none
    ufunc: Any = None  # the same in NumPy, where that gives the same bits


def _scatter_or(number: Any, logical: Any) -> Callable[[np.dtype], Any]:
    return lambda dtype: logical if dtype == dtypes.bool_ else number


def _quotient(x: Any, y: Any) -> Any:
    return convert(ufuncs.true_divide(x, y), aval_of(x).dtype)


def _power(x: Any, y: Any) -> Any:
    return convert(ufuncs.power(x, y), aval_of(x).dtype)


def _negative_zero(dtype: np.dtype) -> Any:
    """What added to any number gives that number: -0., since 0. would turn -0. into itself."""
    return np.zeros((), dtype)[()] if dtype not in dtypes.INEXACT else -np.zeros((), dtype)[()]


def _one(dtype: np.dtype) -> Any:
    return np.ones((), dtype)[()]


SET = Operation("set", lambda old, new: new, lambda dtype: scatter_p, None, np.positive)
_ADD = Operation("add", ufuncs.add, _scatter_or(scatter_add_p, scatter_max_p), _negative_zero, np.add)
_SUBTRACT = Operation(
    "subtract", e.sub, lambda dtype: scatter_sub_p, lambda dtype: np.zeros((), dtype)[()], np.subtract
)
_MULTIPLY = Operation("multiply", ufuncs.multiply, _scatter_or(scatter_mul_p, scatter_min_p), _one, np.multiply)
_DIVIDE = Operation("divide", _quotient, None, _one)
_POWER = Operation("power", _power, None, _one)
_MIN = Operation("min", e.min, lambda dtype: scatter_min_p, None, np.minimum)
_MAX = Operation("max", e.max, lambda dtype: scatter_max_p, None, np.maximum)


def _applied(function: Callable[[Any], Any]) -> Operation:
    """The operation that replaces old entries by what `function` makes of them."""
    return Operation("apply", lambda old, new: convert(function(old), aval_of(old).dtype), None, None)


# -- Values


def _value(x: Any, values: Any) -> Any:
    """The values in the dtype of the array; as they are, where they may not fit into it."""
    aval = aval_of(x)
    if type(values) in SCALARS:
        take = converter(aval, type(values))
        if take is not None:
            return take(values)
    values = as_operand(values)
    own = aval_of(values)
    if own.dtype == aval.dtype:
        return values
    return values if _is_unsafe(aval, own) else convert(values, aval.dtype)


def _is_unsafe(aval: ShapedArray, own: ShapedArray) -> bool:
    dtype, _ = dtypes.promote_pair(aval.dtype, aval.weak_type, own.dtype, own.weak_type)
    return dtype != aval.dtype


def _warn_unsafe(x: Any, values: Any) -> None:
    warnings.warn(
        f"x.at[...] with x {aval_of(x).str_short()} was given values {aval_of(values).str_short()}, which that dtype "
        "can't hold in general: the result is converted back to it. Convert the values, or x, with .astype() first; "
        "this will be an error.",
        FutureWarning,
        stacklevel=depth_of_user(),
    )


def _spread(values: Any, shape: Shape) -> Any:
    """The values broadcast to the shape of x[index]; scalars stay as they are, and None, which `apply` has.

    Raises:
      ValueError: they don't broadcast.
    """
    own = getattr(values, "shape", ())
    if not own or own == shape:
        return values
    extra = len(own) - len(shape)
    fits = own[max(extra, 0) :]
    if any(n != 1 for n in own[: max(extra, 0)]) or any(
        n not in (1, m) for n, m in zip(fits, shape[len(shape) - len(fits) :])
    ):
        raise ValueError(f"Values of shape {own} don't broadcast to the shape {shape} of what x.at[...] names.")
    return broadcast_to(reshape(values, fits), shape)


def _filled(values: Any, shape: Shape) -> Any:
    return values if aval_of(values).shape == shape else broadcast_in_dim(values, shape, ())


# -- Small arrays in memory, by NumPy itself


def _updated_on_host(x: Array, index: Any, values: Any, operation: Operation) -> Array | None:
    """What NumPy makes of it; None where places lie outside, or where the values aren't ready for it."""
    aval = x.aval
    if x._device is not None or aval.size > HOST_LIMIT:
        return None
    host = host_of(x)
    new = _host_values(aval, values)
    if host is None or new is None:
        return None
    plain = is_plain(index)
    ready = index if plain else host_index(index)
    if ready is None:
        return None
    out = np.array(host)
    try:
        if operation.ufunc is np.positive:
            out[ready] = new
        else:
            with np.errstate(all="ignore"):
                if plain:
                    out[ready] = operation.ufunc(out[ready], new)
                else:
                    operation.ufunc.at(out, ready, new)
    except (IndexError, ValueError, TypeError):
        return None
    return Array(aval, out)


def _host_values(aval: ShapedArray, values: Any) -> Any:
    kind = type(values)
    if kind in SCALARS:
        take = converter(aval, kind)
        return None if take is None else take(values)
    if kind is Array:
        return host_of(values) if values.aval.dtype == aval.dtype else None
    return values if isinstance(values, (np.ndarray, np.generic)) and values.dtype == aval.dtype else None


# -- Regions of integers and slices


# From an eighth of the array on it is quicker to combine all of it with padded values, in one fused pass that is easy
# to differentiate, than to copy it and change the copy. Smaller parts are changed in place inside loops.
_LARGE_PART = 8


def _update_static(x: Any, entries: Sequence[Any], values: Any, operation: Operation) -> Any:
    shape = aval_of(x).shape
    found, result = cuts(entries, shape)
    window = tuple([c.size for c in found])
    values = _spread(values, result)
    if 0 in window:
        return x
    if len(getattr(values, "shape", ())):
        values = reshape(values, window)
        flipped = [axis for axis, c in enumerate(found) if c.flipped and c.size > 1]
        values = rev(values, flipped) if flipped else values
    elif operation.name == "set":
        values = _filled(values, window)
    starts = [c.start for c in found]
    spanned = math.prod([(c.size - 1) * c.step + 1 for c in found])
    if window != shape and operation.neutral is not None and spanned * _LARGE_PART >= aval_of(x).size:
        edges = [(c.start, n - c.start - (c.size - 1) * c.step - 1, c.step - 1) for c, n in zip(found, shape)]
        return operation.combine(x, pad(_filled(values, window), operation.neutral(aval_of(x).dtype), edges))
    if any(c.step > 1 for c in found):
        return _update_strided(x, found, values, operation)
    if window == shape:
        new = operation.combine(x, values)
        return from_host(np.asarray(new)) if isinstance(new, np.generic) else new
    if operation.name in ("add", "subtract") and aval_of(x).dtype != dtypes.bool_:
        return _add_window(x, starts, window, _filled(values, window), operation)
    if operation.name != "set":
        values = operation.combine(slice_(x, starts, [a + n for a, n in zip(starts, window)]), values)
    return dynamic_update_slice_p.bind(x, values, *map(np.int32, starts))


def _add_window(x: Any, starts: Sequence[int], window: Shape, values: Any, operation: Operation) -> Any:
    """Adding is left to a scatter: its transpose for x is the identity, that of slicing and putting back is not."""
    axes = [axis for axis, (n, size) in enumerate(zip(aval_of(x).shape, window)) if n != size]
    numbers = ScatterDimensionNumbers(tuple(range(len(window))), (), tuple(axes))
    return operation.scatter(aval_of(x).dtype).bind(
        x,
        _vector([starts[axis] for axis in axes]),
        values,
        dimension_numbers=numbers,
        indices_are_sorted=True,
        unique_indices=True,
        mode=PROMISE_IN_BOUNDS,
    )


def _vector(numbers: Sequence[int]) -> Any:
    """A vector of integers; while staging, one made of literals, so that it is no constant of the program."""
    if type(context.trace) is EvalTrace:
        return np.array(numbers, np.int32)
    return join([broadcast_in_dim(np.int32(n), (1,), ()) for n in numbers], 0)


def _update_strided(x: Any, found: Sequence[Cut], values: Any, operation: Operation) -> Any:
    """The region that the skipping slices span is updated as a whole, with values spread out to their places."""
    dtype = aval_of(x).dtype
    window = tuple([c.size for c in found])
    starts = [c.start for c in found]
    gaps = [(0, 0, c.step - 1) for c in found]
    whole = tuple([(c.size - 1) * c.step + 1 for c in found])
    plain = [Cut(c.start, n, 1, False, False) for c, n in zip(found, whole)]
    if operation.neutral is not None:
        spread = pad(_filled(values, window), operation.neutral(dtype), gaps)
        return _update_static(x, [slice(c.start, c.start + c.size) for c in plain], spread, operation)
    old = slice_(x, starts, [a + n for a, n in zip(starts, whole)])
    if len(getattr(values, "shape", ())):
        values = pad(values, np.zeros((), dtype)[()], gaps)
    chosen = pad(full(window, True, bool), np.False_, gaps)
    new = select(chosen, _filled(operation.combine(old, values), whole), old)
    return dynamic_update_slice_p.bind(x, new, *map(np.int32, starts))


# -- Masks


def _leading_mask(index: Any, shape: Shape) -> Any:
    """The mask of an index that is a mask and nothing more; else None."""
    entries = index if type(index) is tuple else (index,)
    if not entries or not isinstance(getattr(entries[0], "dtype", None), np.dtype):
        return None
    mask = entries[0]
    if mask.dtype != dtypes.bool_ or not mask.ndim or shape[: mask.ndim] != mask.shape:
        return None
    if any(not (entry is Ellipsis or (type(entry) is slice and entry == slice(None))) for entry in entries[1:]):
        return None
    return mask


def _update_masked(x: Any, mask: Any, values: Any, operation: Operation) -> Any:
    """Chooses entry by entry, which needs no places; None where each place has a value of its own."""
    aval = aval_of(x)
    values_shape: Shape = getattr(values, "shape", ())
    rows = aval.shape[aval_of(mask).ndim :]
    if len(values_shape) > len(rows):
        if len(values_shape) > len(rows) + 1 or values_shape[0] != 1:
            return None
        values = reshape(values, values_shape[1:])
    values = None if values is None else broadcast_to(_spread(values, rows), aval.shape)
    mask = as_operand(mask)
    if aval_of(mask).ndim < aval.ndim:
        mask = broadcast_in_dim(mask, aval.shape, range(aval_of(mask).ndim))
    if operation.neutral is None:
        return select(mask, _filled(operation.combine(x, values), aval.shape), x)
    # Chosen before they are combined: the derivative of what isn't wanted can't then be nan.
    return operation.combine(x, select(mask, values, full(aval.shape, operation.neutral(aval.dtype), aval.dtype)))


# -- Computed places


def _update_places(x: Any, found: Places, values: Any, operation: Operation, flags: dict[str, Any]) -> Any:
    aval = aval_of(x)
    values = _spread(values, found.result)
    if 0 in found.result or any(not aval.shape[axis] for axis in found.numbers.collapsed_slice_dims):
        return x
    numbers = scatter_of(found.numbers)
    if values is None:
        function = lambda old: operation.combine(old, None)  # noqa: E731  # an `apply`, which looks at old entries only
        return scatter_apply(x, found.indices, function, numbers, update_shape=found.shape, **flags)
    values = reshape(_filled(values, found.result), found.shape)
    if found.flipped:
        values = rev(values, found.flipped)
    if operation.scatter is not None:
        bind = operation.scatter(aval.dtype).bind
        return bind(x, found.indices, values, dimension_numbers=numbers, **flags)
    if flags["unique_indices"]:
        old = gather_p.bind(
            x, found.indices, dimension_numbers=found.numbers, slice_sizes=found.sizes, fill_value=0, **flags
        )
        new = operation.combine(old, values)
        return scatter_p.bind(x, found.indices, new, dimension_numbers=numbers, **flags)
    ones = full(aval.shape, 1, aval.dtype)
    factors = scatter_mul_p.bind(ones, found.indices, values, dimension_numbers=numbers, **flags)
    return operation.combine(x, factors)


def _are_distinct(found: Places, shape: Shape) -> bool:
    """Whether no place is named twice; looked up where the places are known, few, and the answer is of use."""
    indices = found.indices
    if found.unique:
        return True
    if type(indices) is not np.ndarray or indices.size > 4096 or type(context.trace) is EvalTrace:
        return False
    if found.sizes and any(n > 1 for n in found.sizes) and not found.inside:
        return False
    extents = [shape[axis] for axis in found.numbers.start_index_map]
    flat = (
        np.ravel_multi_index(tuple(np.moveaxis(indices, -1, 0)), extents, mode="wrap") if extents else indices[..., 0]
    )
    return found.inside and len(np.unique(flat)) == flat.size


def update(
    x: Any,
    index: Any,
    values: Any,
    operation: Operation,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
    wrap_negative_indices: bool = True,
) -> Any:
    """`x` with the entries at `index` combined with values."""
    if type(x) is Array and operation.ufunc is not None and mode is None and wrap_negative_indices:
        done = _updated_on_host(x, index, values, operation)
        if done is not None:
            return done
    mode = None if mode is None else GatherScatterMode.from_any(mode)
    x = as_operand(x)
    aval = aval_of(x)
    values = None if values is None else _value(x, values)
    if values is not None and aval_of(values).dtype != aval.dtype:
        _warn_unsafe(x, values)
        if operation.name == "set":
            values = convert(values, aval.dtype)
        else:
            dtype, _ = dtypes.promote_pair(aval.dtype, aval.weak_type, aval_of(values).dtype, aval_of(values).weak_type)
            x, values = convert(x, dtype), convert(values, dtype)
    flags = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices, "mode": mode}
    return convert(_updated(x, index, values, operation, flags, wrap_negative_indices), aval.dtype, aval.weak_type)


def _updated(x: Any, index: Any, values: Any, operation: Operation, flags: dict[str, Any], wraps: bool) -> Any:
    shape = aval_of(x).shape
    if is_plain(index) and flags["mode"] is None and wraps:
        return _update_static(x, expanded(index if type(index) is tuple else (index,), shape), values, operation)
    mask = _leading_mask(index, shape)
    if mask is not None:
        done = _update_masked(x, mask, values, operation)
        if done is not None:
            return done
        if isinstance(mask, Tracer) and mask.concrete() is None:
            raise NonConcreteBooleanIndexError(mask_message(mask))
    entries = normal_form(index, shape, flags["mode"], wraps)
    if all(type(entry) in (int, slice) or entry is None for entry in entries):
        return _update_static(x, entries, values, operation)
    found = places(entries, shape, wraps)
    return _update_places(
        x,
        found,
        values,
        operation,
        {
            "indices_are_sorted": bool(flags["indices_are_sorted"]),
            "unique_indices": bool(flags["unique_indices"]) or _are_distinct(found, shape),
            "mode": PROMISE_IN_BOUNDS if found.inside else GatherScatterMode.from_any(flags["mode"]),
        },
    )


# -- What users see


class IndexUpdateHelper:
    """`x.at`, to be indexed."""

    __slots__ = ("array",)

    def __init__(self, array: Any):
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"IndexUpdateHelper({self.array!r})"


def at(self: Any) -> IndexUpdateHelper:
    """Entries to be changed or read: `x.at[index].set(y)` gives a copy of x with the entries x[index] replaced.

    | x.at[i]...            | in NumPy             |
    |-----------------------|----------------------|
    | `.set(y)`             | `x[i] = y`           |
    | `.add(y)`             | `np.add.at(x, i, y)` |
    | `.subtract(y)`        | `np.subtract.at`     |
    | `.multiply(y)`, `mul` | `np.multiply.at`     |
    | `.divide(y)`          | `np.divide.at`       |
    | `.power(y)`           | `np.power.at`        |
    | `.min(y)`, `.max(y)`  | `np.minimum.at`      |
    | `.apply(f)`           | `f.at(x, i)`         |
    | `.get()`              | `x[i]`               |

    `mode` says what is done with computed places outside of x: "drop" (the default of updates), "fill" with
    `fill_value` (for get), "clip" to the nearest inside, "promise_in_bounds" for there are none (the default of get,
    which clips). `indices_are_sorted` and `unique_indices` are promises that may make it faster;
    `wrap_negative_indices=False` takes negative indices as outside.

    >>> import xpr.numpy as jnp
    >>> x = jnp.zeros(4)
    >>> x.at[1:3].set(jnp.array([5.0, 6.0]))
    Array([0., 5., 6., 0.], dtype=float32)
    >>> x.at[jnp.array([0, 0, 9])].add(1.0)
    Array([2., 0., 0., 0.], dtype=float32)
    """
    return IndexUpdateHelper(self)


def _method(operation: Operation, doc: str) -> Callable[..., Any]:
    def method(
        self: IndexUpdateRef,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        out_sharding: None = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        return update(
            self.array, self.index, values, operation, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    method.__name__ = operation.name
    method.__qualname__ = f"IndexUpdateRef.{operation.name}"
    method.__doc__ = doc
    return method


class IndexUpdateRef:
    """`x.at[index]`: the entries of x at an index. The methods are described at `Array.at`."""

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any):
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        fill_value: Any = None,
        out_sharding: None = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x[index]`, with a say in what is read for places outside.

        >>> import xpr.numpy as jnp
        >>> jnp.arange(3).at[jnp.array([2, 5])].get(mode="fill", fill_value=-1)
        Array([ 2, -1], dtype=int32)
        """
        return read(
            self.array,
            self.index,
            mode=mode,
            fill_value=fill_value,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            wrap_negative_indices=wrap_negative_indices,
        )

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x with the entries replaced by what an elementwise function makes of them.

        A place that is named several times has the function applied as often. Such places can't be differentiated
        through; say `unique_indices=True` where there are none.

        >>> import xpr.numpy as jnp
        >>> jnp.arange(4.0).at[2:].apply(jnp.square)
        Array([0., 1., 4., 9.], dtype=float32)
        """
        return update(
            self.array, self.index, None, _applied(func), indices_are_sorted, unique_indices, mode,
            wrap_negative_indices,
        )  # fmt: skip

    set = _method(
        SET,
        """x with the entries replaced by values, which broadcast.

        >>> import xpr.numpy as jnp
        >>> jnp.zeros((2, 2)).at[0].set(1.0)
        Array([[1., 1.],
               [0., 0.]], dtype=float32)
        """,
    )
    add = _method(_ADD, "x with values added to the entries, as often as they are named; of booleans, their or.")
    subtract = _method(_SUBTRACT, "x with values subtracted from the entries, as often as they are named.")
    multiply = mul = _method(_MULTIPLY, "x with the entries multiplied by values; of booleans, their and.")
    divide = _method(_DIVIDE, "x with the entries divided by values; the dtype stays.")
    power = _method(_POWER, "x with the entries raised to the powers of values.")
    min = _method(_MIN, "x with the entries replaced by their minimum with values.")
    max = _method(_MAX, "x with the entries replaced by their maximum with values.")
