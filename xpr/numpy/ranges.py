"""Numbers at regular steps, and grids of them: arange, linspace, logspace, meshgrid, indices.

What is known on the host is computed there, in 64 bits, and rounded once: while a function is staged,
`linspace(0, 1, 5)` is a constant. `arange` is the exception: it is staged as an iota, which costs the device nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, from_host, placement_beside
from xpr.core.avals import ShapedArray, array_in, aval_of
from xpr.core.interpreter import Tracer
from xpr.dimensions.expressions import as_size, is_symbolic_dim, max_dim
from xpr.numpy.arithmetic import add, divide, multiply, sign, subtract
from xpr.numpy.creation import LARGEST_ON_HOST, asarray, is_eager, on_device, placed, to_device
from xpr.numpy.exponentials import log10
from xpr.numpy.powers import power
from xpr.numpy.promotion import SCALARS, asarray_like, common_dtype, convert, requested_dtype
from xpr.numpy.rounding import floor as round_down
from xpr.primitives.dimension_values import size_as
from xpr.primitives.shapes import broadcast_in_dim, expand_dims, move_axis, one_axis, reshape
from xpr.primitives.sharding_constraint import sharded
from xpr.primitives.slicing import iota_p

__all__ = ["arange", "geomspace", "indices", "linspace", "logspace", "meshgrid"]

# -- arange


def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """The numbers from `start` up to but not including `stop`, at distance `step`.

    Element i is start + i * step, computed in the result's dtype.

    Args:
      start: the first number; with `stop` None it is the end, and the first number is 0.
      stop: the end, which is not included.
      step: the distance; None for 1.
      dtype: of the result; None for the dtype to which the arguments promote.
      device: a device or sharding for the result; None for the default device.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      A vector.

    Raises:
      ConcretizationTypeError: an argument is traced, on which the length depends.
      ZeroDivisionError: the step is 0.
      ValueError: an argument is complex or not a scalar.
      TypeError: the dtype is bool.

    >>> import xpr.numpy as jnp
    >>> jnp.arange(2, 10, 3)
    Array([2, 5, 8], dtype=int32)
    """
    return sharded(_arange(start, stop, step, dtype, device), out_sharding, "arange")


def _arange(start: Any, stop: Any, step: Any, dtype: Any, device: Any) -> Any:
    if type(start) is int and stop is None and step is None:
        return _counts(start, dtypes.of_python(int) if dtype is None else _counted(dtype), device)
    bounds = [x for x in (start, stop, step) if x is not None]
    target = _common_dtype(*bounds) if dtype is None else _counted(dtype)
    names = ("stop", "", "step") if stop is None else ("start", "stop", "step")
    first, last, by = map(_number, (start, stop, step), names)
    if stop is None:
        first, last = 0, first
    by = 1 if step is None else by
    if by == 0:
        raise ZeroDivisionError("arange: the step is 0.")
    if any(isinstance(x, complex) for x in (first, last, by)):
        raise ValueError(
            "arange: Passing complex start/stop/step to jnp.arange is no longer supported: complex numbers are not "
            "ordered, so there is no range of them."
        )
    if any(map(is_symbolic_dim, (first, last, by))):
        if any(isinstance(x, float) for x in (first, last, by)):
            raise ValueError(
                f"arange: start, stop and step are {first}, {last} and {by}; if one is symbolic, all must be either "
                "dimension expressions or integers. Count in integers, and convert and scale the result."
            )
        size = max_dim(-((first - last) // by), 0)
        return to_device(add(multiply(_iota(size, target), size_as(by, target)), size_as(first, target)), device)
    if all(type(x) is int for x in (first, last, by)):
        size = -((first - last) // by)
    else:
        size = math.ceil((last - first) / by)
    return _progression(first, by, max(size, 0), target, device)


def _counted(dtype: Any) -> np.dtype:
    target = requested_dtype(dtype)
    if target == dtypes.bool_:
        raise TypeError("arange: booleans can't be counted with. Make integers and convert them.")
    return target


def _common_dtype(*xs: Any) -> np.dtype:
    return common_dtype([(a.dtype, a.weak_type) for a in map(aval_of, xs)])[0]


def _number(x: Any, name: str) -> Any:
    """The Python number that a scalar of any kind holds, the argument of that name."""
    if x is None or type(x) in SCALARS or is_symbolic_dim(x):
        return x
    if isinstance(x, Tracer):
        value = x.concrete()
        if value is None:
            value = x.static_integer(f"It arose in the jnp.arange argument '{name}':\nthe length of the result")
        x = value
    value = np.asarray(x)
    if value.ndim:
        raise ValueError(f"arange: bounds and step are numbers, and an array of shape {value.shape} was given.")
    return value.item()


def _iota(n: Any, dtype: np.dtype) -> Any:
    return iota_p.bind(dtype=dtype, shape=(n,), dimension=0)


def _counts(n: int, dtype: np.dtype, device: Any) -> Any:
    """0, 1, 2, ... below n."""
    n = max_dim(n, 0)
    if is_eager() and n <= LARGEST_ON_HOST:
        values = np.arange(n, dtype=dtype) if dtype.kind in "iuf" else np.arange(n).astype(dtype)
        return on_device(ShapedArray((n,), dtype), values, device)
    return to_device(iota_p.bind(dtype=dtype, shape=(n,), dimension=0), device)


def _progression(first: Any, by: Any, size: int, dtype: np.dtype, device: Any) -> Any:
    with np.errstate(all="ignore"):
        first, by = np.asarray(first).astype(dtype)[()], np.asarray(by).astype(dtype)[()]
        if size <= LARGEST_ON_HOST and is_eager():
            return on_device(ShapedArray((size,), dtype), first + by * np.arange(size).astype(dtype), device)
    counts = _counts(size, dtype, device)
    counts = counts if by == 1 else multiply(by, counts)
    return counts if first == 0 else add(first, counts)


# -- linspace, logspace, geomspace


def _known(*xs: Any) -> bool:
    """Whether the values of all arguments are known, and small enough for the host."""
    return not any(isinstance(x, Tracer) or getattr(x, "size", 1) > LARGEST_ON_HOST for x in xs)


def _hosts(*xs: Any) -> list[Any]:
    """The values as 64-bit floats or complex numbers on the host."""
    values = [np.asarray(x) for x in xs]
    return [v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in values]


def _count(name: str, num: Any) -> Any:
    count = as_size(num)
    if count < 0:
        raise ValueError(f"{name}: the number of samples can't be negative, and is {count}.")
    return count


def _sample_dtypes(dtype: Any, *bounds: Any) -> tuple[np.dtype, np.dtype]:
    """The dtype in which samples are computed, and that of the result."""
    computed = dtypes.to_inexact(_common_dtype(*bounds))
    return computed, computed if dtype is None else requested_dtype(dtype)


def _rounded(value: np.ndarray, dtype: np.dtype) -> Array:
    with np.errstate(all="ignore"):
        if dtype in dtypes.INTEGERS:
            value = np.floor(value)
        return from_host(np.asarray(value).astype(dtype))


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Numbers at equal distances from `start` to `stop`.

    Args:
      start: a number, or an array.
      stop: a number, or an array that broadcasts against `start`.
      num: how many samples.
      endpoint: whether `stop` is the last sample; otherwise it is left out.
      retstep: whether to return the distance, too.
      dtype: of the result; None for the float dtype of `start` and `stop`. Samples are rounded down to integers.
      axis: the axis of the samples in the result, where `start` or `stop` is an array.
      device: a device or sharding for the result; None for the default device.

    Returns:
      The samples, [num] or with the axes of `start` and `stop`; with `retstep`, `(samples, distance)`.

    Raises:
      ValueError: `num` is negative.

    >>> import xpr.numpy as jnp
    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num, start, stop = _count("linspace", num), array_in(start), array_in(stop)
    computed, target = _sample_dtypes(dtype, start, stop)
    distance: Any
    if _known(start, stop) and not is_symbolic_dim(num):
        with np.errstate(all="ignore"):
            values, step = np.linspace(*_hosts(start, stop), num, endpoint, True, axis=axis)
        result, distance = _rounded(values, target), _rounded(step, computed) if retstep else None
    else:
        start, stop = (convert(asarray_like(x), computed) for x in (start, stop))
        result = _converted(_between(start, stop, num, endpoint, axis), target)
        distance = _distance(start, stop, num - endpoint) if retstep else None
    result = placed(result, placement_beside(start, stop) if device is None else device)
    return (result, distance) if retstep else result


def _distance(start: Any, stop: Any, steps: Any) -> Any:
    """The distance of samples; without a step it is nan, as in NumPy."""
    if not is_symbolic_dim(steps) and steps < 1:
        return from_host(np.array(np.nan, aval_of(start).dtype))
    return divide(subtract(stop, start), max(steps, 1))


def _between(start: Any, stop: Any, num: Any, endpoint: bool, axis: int) -> Any:
    """(1 - t) * start + t * stop, which gives both ends exactly."""
    dtype = aval_of(start).dtype
    ndim = max(aval_of(start).ndim, aval_of(stop).ndim)
    if is_symbolic_dim(num):
        last = size_as(max_dim(num - endpoint, 1), dtype)
        shape: tuple[Any, ...] = num, *(1,) * ndim
        t = reshape(divide(_iota(num, dtype), last), shape)
        return move_axis(add(multiply(1 - t, start), multiply(t, stop)), 0, one_axis(axis, ndim + 1))
    t = np.linspace(0.0, 1.0, num, endpoint).reshape(num, *(1,) * ndim)
    start, stop = multiply(from_host((1 - t).astype(dtype)), start), multiply(from_host(t.astype(dtype)), stop)
    return move_axis(add(start, stop), 0, one_axis(axis, ndim + 1))


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    """Powers of `base` whose exponents are at equal distances from `start` to `stop`.

    Args:
      start: the first exponent, a number or an array.
      stop: the last exponent, which broadcasts against `start`.
      num: how many samples.
      endpoint: whether `stop` is the last sample; otherwise it is left out.
      base: the base, a number or an array that broadcasts.
      dtype: of the result; None for the float dtype of `start` and `stop`. Samples are rounded down to integers.
      axis: the axis of the samples in the result, where `start` or `stop` is an array.

    Returns:
      The samples, [num] or with the axes of `start` and `stop`.

    Raises:
      ValueError: `num` is negative.

    >>> import xpr.numpy as jnp
    >>> jnp.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    num = _count("logspace", num)
    computed, target = _sample_dtypes(dtype, start, stop)
    if _known(start, stop, base):
        low, high, power_of = _hosts(start, stop, base)
        with np.errstate(all="ignore"):
            values = power_of ** np.linspace(low, high, num, endpoint, axis=axis)
        return placed(_rounded(values, target), placement_beside(start, stop, base))
    exponents = linspace(start, stop, num, endpoint, dtype=computed, axis=axis)
    return _converted(power(base, exponents), target)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """Numbers with equal ratios from `start` to `stop`.

    Args:
      start: a number, or an array.
      stop: a number, or an array that broadcasts against `start`.
      num: how many samples.
      endpoint: whether `stop` is the last sample; otherwise it is left out.
      dtype: of the result; None for the float dtype of `start` and `stop`. Samples are rounded down to integers.
      axis: the axis of the samples in the result, where `start` or `stop` is an array.

    Returns:
      The samples, [num] or with the axes of `start` and `stop`.

    Raises:
      ValueError: `num` is negative.

    >>> import xpr.numpy as jnp
    >>> jnp.geomspace(1, 100, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    num = _count("geomspace", num)
    computed, target = _sample_dtypes(dtype, start, stop)
    if _known(start, stop):
        with np.errstate(all="ignore"):
            values = np.geomspace(*_hosts(start, stop), num, endpoint, axis=axis)
        return placed(_rounded(values, target), placement_beside(start, stop))
    start, stop = (convert(asarray_like(x), computed) for x in (start, stop))
    direction = sign(start)
    low, high = (log10(divide(x, direction)) for x in (start, stop))
    samples = multiply(direction, logspace(low, high, num, endpoint, 10.0, computed))
    return _converted(move_axis(samples, 0, one_axis(axis, aval_of(samples).ndim)), target)


def _converted(x: Any, dtype: np.dtype) -> Any:
    return convert(round_down(x) if dtype in dtypes.INTEGERS else x, dtype)


# -- Grids


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Coordinates of the grid that vectors span: array i holds the elements of vector i along axis i.

    Args:
      *xi: vectors.
      copy: must be True.
      sparse: whether the other axes of each array have size 1.
      indexing: "ij" for axes in the order of the vectors, "xy" with the first two exchanged.

    Returns:
      A list with an array for each vector.

    Raises:
      ValueError: an operand is not a vector, `copy` is False, or there is no such indexing.

    >>> import xpr.numpy as jnp
    >>> jnp.meshgrid(jnp.arange(2), jnp.arange(2), sparse=True)
    [Array([[0, 1]], dtype=int32), Array([[0],
           [1]], dtype=int32)]
    """
    if indexing not in ("xy", "ij") or not copy:
        raise ValueError(f'meshgrid: indexing must be "xy" or "ij" and copy True; they are {indexing!r} and {copy!r}.')
    arrays = [asarray_like(x) for x in xi]
    if any(x.aval.ndim != 1 for x in arrays):
        raise ValueError(f"meshgrid: takes vectors, and the shapes are {', '.join(str(x.aval.shape) for x in arrays)}.")
    positions = list(range(len(arrays)))
    if indexing == "xy":
        positions[:2] = positions[:2][::-1]
    return grid_arrays(arrays, positions, sparse)


def grid_arrays(vectors: Sequence[Any], positions: Sequence[int], sparse: bool) -> list[Any]:
    """Each vector along its axis of a grid, repeated along the other axes unless `sparse`."""
    sizes = [0] * len(vectors)
    for x, position in zip(vectors, positions):
        sizes[position] = aval_of(x).shape[0]
    if sparse:
        others = [[i for i in range(len(sizes)) if i != position] for position in positions]
        return [expand_dims(x, axes) for x, axes in zip(vectors, others)]
    return [broadcast_in_dim(x, sizes, (position,)) for x, position in zip(vectors, positions)]


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The indices of a grid: array i holds at each position the index along axis i.

    Args:
      dimensions: the sizes of the axes.
      dtype: of the result; None for the default integer dtype.
      sparse: whether to return a tuple of arrays whose other axes have size 1.

    Returns:
      [n, *dimensions] for n axes; a tuple of n arrays with `sparse`.

    >>> import xpr.numpy as jnp
    >>> jnp.indices((2, 2), sparse=True)
    (Array([[0],
           [1]], dtype=int32), Array([[0, 1]], dtype=int32))
    """
    target = requested_dtype(int if dtype is None else dtype)
    grids = grid_arrays([_counts(int(n), target, None) for n in dimensions], range(len(dimensions)), sparse)
    return tuple(grids) if sparse else asarray(grids, target)
