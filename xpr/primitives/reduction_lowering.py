"""Lowering of reductions to StableHLO, around the faults of YNNPACK, the library that XLA:CPU calls for floats.

XLA calls YNNPACK where the body of a reduction is a single operation, and it has 4096 elements or more. YNNPACK reads
long rows column by column: for the sum of f32[32,100000] over axis 0 it takes 36 ms, and XLA's own loop takes 0.3 ms.
It is slow as well where each result is a sum of few elements: 1000x1000x2 numbers over the last axis take it 2.3 ms,
and XLA's loop 0.2 ms; 1000x1000x8 take 2.4 and 1.0 ms, 1000x1000x16 the same in both. Its maxima and minima skip nan.
And it crashes where arrays of seven axes are broadcast and summed (jaxlib 0.10.2 and 0.11). So here the body is an
equivalent expression wherever the library should not be called. Elsewhere it is faster: sums of 1000x1000 numbers take
a half to a third of the time, over (0, 2) of 64x64x256 a fourteenth. Its other faults are in stablehlo.py (elementwise
maxima) and dot_lowering.py (products that are summed).

Sums and products of what is in memory, or of little that is computed, and maxima and minima are calls of
backend/c/reduce.c, unless they are of huge arrays: XLA compiles 20 to 100 ms for each, and what it writes runs as long,
or twice. The library wakes another thread for 30,000 numbers, which takes 50 microseconds on virtual machines; one
thread sums them in 3. Where C is not called, a few long rows are added one by one, and bools, and the maxima and minima
of long axes, are halved until few are left (`_halved`). The other reductions become loops of XLA's, which have to be
unrolled (`has_hot_loops`).

Reductions over several devices have bodies of one operation: XLA can't combine the devices' results by anything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import native
from xpr.backend.mlir_text import int_array
from xpr.backend.processor import CORES
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import is_symbolic_dim, surely_at_least, surely_below
from xpr.primitives import native_calls
from xpr.primitives.comparison_lowering import is_nan, lower_comparison, nan_where

Spelling = Callable[[Builder, str, list[Value], ShapedArray], Value]

_LONG_ROW, _FEW_ROWS, _FEW_ELEMENTS = 8192, 8, 8
_MOST_AXES = 6
_OF_LIBRARY = 4096  # the fewest elements that the library reduces
# Operations and dtypes, by their numbers in backend/c/reduce.c.
_OF_C = {"stablehlo.add": 0, "stablehlo.maximum": 1, "stablehlo.minimum": 2, "stablehlo.multiply": 3}
_EXTREMES = ("stablehlo.maximum", "stablehlo.minimum")
_NUMBERS_OF_C = {dtypes.float32: 0, dtypes.float64: 1, dtypes.int32: 2}
_MANY = 32  # elements that are reduced to one; in some cases fewer, see `_called`
_MANY_COLUMNS = 512  # elements of a row: C combines whole rows of so many in vectors
_SMALL = 1 << 14  # elements of an array
_COMPUTED_FOR_SUMS = (1 << 20) // CORES  # bytes that are written, and then added, before XLA's threads are awake
_OF_BITS = ("stablehlo.and", "stablehlo.or")
_LONG_FOLD, _FOLDED = 128, 32  # so many contiguous bools are halved, until so many are left
_LONG_EXTREME, _HALVED = 512, 64  # the same of numbers, for maxima and minima
_LARGE, _HALVED_ROW = 1 << 18, 64  # elements of an array, and of a row, whose columns are halved
# The most operations for each element of an operand that is fused into the loop of a sum of few elements.
_FEW_OPERATIONS = 12
_ARITHMETIC = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs", "add", "and", "broadcast_in_dim", "compare", "convert", "divide", "maximum", "minimum", "multiply",
        "negate", "or", "reshape", "select", "slice", "sqrt", "subtract", "transpose",
    )
)  # fmt: skip
_FUNCTIONS = frozenset(
    f"stablehlo.{name}"
    for name in (
        "atan2", "cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "power",
        "remainder", "sine", "tan", "tanh",
    )
)  # fmt: skip


def lower_reduction(b: Builder, x: Value, aval: ShapedArray, axes: Sequence[int], operation: str, start: Any) -> Value:
    """A StableHLO reduction by one operation, `stablehlo.add` say, from the value `start`.

    Maxima and minima may skip nan: see `lower_extreme`. Bitwise reductions are done on unpartitioned axes, as XLA can't
    combine the results of several devices by them.
    """
    if operation == "stablehlo.add" and (product := _dot(b, x, aval)) is not None:
        return product
    if (called := _called(b, x, aval, axes, operation)) is not None:
        return called
    if operation == "stablehlo.xor" or (operation in _OF_BITS and x.aval.dtype != dtypes.bool_):
        x = b.whole(x, axes)
    if operation in _OF_BITS and x.aval.dtype == dtypes.bool_ and b.platform == "cpu" and not b.may_be_partitioned:
        x, axes = _folded(b, x, axes, operation)
    if not _avoids_library(b, x.aval, axes, operation):
        return _reduction(b, x, aval, axes, operation, start, Builder.op)
    if _is_of_few_long_rows(x.aval, axes):
        return _row_by_row(b, x, aval, axes[0], operation, start)
    if _is_of_few_elements(x.aval, axes) and not _is_cheap(b, x):
        x = b.fusion_barrier(x)  # XLA does not vectorize operations that it fuses into such a loop
    return _reduction(b, x, aval, axes, operation, start, _with_negations)


def _dot(b: Builder, x: Value, aval: ShapedArray) -> Value | None:
    """The sum of products of elements, as in norms, by backend/c/matvec.c, which doesn't write the products."""
    if aval.size != 1 or aval.dtype not in (dtypes.float32, dtypes.float64):
        return None
    if not (b.runs_once and native_calls.are_possible(b, x.aval)):
        return None
    operands = _factors(b, _without_reshapes(b, x))
    if not operands:
        return None
    are_in_memory = not any(_without_reshapes(b, each) in b.definitions for each in operands)
    most = native_calls.LARGEST if are_in_memory else _COMPUTED_FOR_SUMS
    if not _MANY <= x.aval.size <= most // aval.dtype.itemsize:
        return None
    return native_calls.call(b, native.MATVEC, [aval.dtype.itemsize, 1, x.aval.size, 1], list(operands), [aval])[0]


def _factors(b: Builder, x: Value) -> Sequence[Value]:
    """The two arrays whose product `x` is, if it is one; the square of a modulus is `x**2 + 0**2` of real numbers."""
    name, operands, _ = b.definitions.get(x, ("", (), ""))
    if name != "stablehlo.add":
        return _multiplied(b, x)
    factors, zeros = (_multiplied(b, each) for each in operands)
    is_square = len(set(factors)) == 1 and zeros and all(b.known_number(each) == 0 for each in zeros)
    return factors if is_square else []


def _multiplied(b: Builder, x: Value) -> Sequence[Value]:
    name, operands, _ = b.definitions.get(x, ("", (), ""))
    if name == "chlo.square":
        return [operands[0], operands[0]]
    return operands if name == "stablehlo.multiply" else []


def _called(
    b: Builder, x: Value, aval: ShapedArray, axes: Sequence[int], operation: str, most: int = 4 * _SMALL
) -> Value | None:
    """The reduction by a call of backend/c/reduce.c, if the array has at most `most` bytes and no loop runs it.

    Sums and products of what is in memory may be of more. An operand that is computed has to be written to memory
    before; XLA's loops over it would compute it as they go.
    """
    if not (b.runs_once and operation in _OF_C and x.aval.dtype in _NUMBERS_OF_C and axes):
        return None
    first, end = min(axes), max(axes) + 1
    if len(axes) != end - first or not native_calls.are_possible(b, x.aval):
        return None
    shape = x.aval.shape
    n = math.prod(shape[first:end])
    is_in_memory = _without_reshapes(b, x) not in b.definitions
    if operation in ("stablehlo.add", "stablehlo.multiply"):
        most = native_calls.LARGEST if is_in_memory else _COMPUTED_FOR_SUMS
    few, are_columns = _MANY, end < x.aval.ndim
    if operation == "stablehlo.add" and (is_in_memory or are_columns):
        few = _FEW_ELEMENTS + 1
    elif operation in _EXTREMES and is_in_memory and x.aval.size > _SMALL:
        has_long_rows = not are_columns or (first == 0 and math.prod(shape[end:]) >= _MANY_COLUMNS)
        few = _FEW_ELEMENTS + 1 if has_long_rows else _MANY
    if n < few or not 0 < x.aval.size <= most // x.aval.dtype.itemsize:
        return None
    b.module.work.add_reduction((operation, x.aval, *axes), n)
    kind = _OF_C[operation], _NUMBERS_OF_C[x.aval.dtype]
    sizes = math.prod(shape[:first]), n, math.prod(shape[end:])
    return native_calls.call(b, native.REDUCE, [*kind, *sizes], [x], [aval])[0]


def _without_reshapes(b: Builder, x: Value) -> Value:
    while (definition := b.definitions.get(x)) and definition[0] == "stablehlo.reshape":
        x = definition[1][0]
    return x


def _folded(b: Builder, x: Value, axes: Sequence[int], operation: str) -> tuple[Value, Sequence[int]]:
    """Bools with the reduced trailing axes merged into one, which is halved until it is short; and the axes to reduce.

    XLA's loop takes one bool after the other; halves are combined many at a time, up to five times faster. Where axes
    are merged there is a fusion barrier before, or XLA would compute the index of each bool in the unmerged array.
    """
    leading = x.aval.ndim
    while leading - 1 in axes:
        leading -= 1
    n = math.prod(x.aval.shape[leading:])
    if is_symbolic_dim(n) or n < _LONG_FOLD:
        return x, axes
    if leading < x.aval.ndim - 1:
        x = b.reshape(b.fusion_barrier(x), (*x.aval.shape[:leading], n))
    return _halved(b, x, leading, operation, _FOLDED), [*(axis for axis in axes if axis < leading), leading]


def _halved(b: Builder, x: Value, axis: int, operation: str, least: int) -> Value:
    """The halves of an axis combined, again and again until no more than `least` elements are left.

    Where a length is odd they overlap, so the operation must be idempotent.
    """
    low, n = [0] * x.aval.ndim, x.aval.shape[axis]
    while n > least:
        half = -(-n // 2)
        first = b.slice(x, low, _replaced(x.aval.shape, axis, half))
        x = b.op(operation, [first, b.slice(x, _replaced(low, axis, n - half), x.aval.shape)], first.aval)
        n = half
    return x


def _replaced(sizes: Sequence[Any], axis: int, size: Any) -> list[Any]:
    """The sizes with that of one axis replaced."""
    return [*sizes[:axis], size, *sizes[axis + 1 :]]


def _row_by_row(b: Builder, x: Value, aval: ShapedArray, axis: int, operation: str, start: Any) -> Value:
    x, result = b.fusion_barrier(x), b.constant(start, aval)  # each slice would compute the whole operand again
    starts, limits = [0] * x.aval.ndim, list(x.aval.shape)
    for i in range(x.aval.shape[axis]):
        starts[axis], limits[axis] = i, i + 1
        result = b.op(operation, [result, b.reshape(b.slice(x, starts, limits), aval.shape)], aval)
    return result


def _reduction(
    b: Builder, x: Value, aval: ShapedArray, axes: Sequence[int], operation: str, start: Any, spelled: Spelling
) -> Value:
    """A reduction whose body `spelled` writes: `Builder.op` one operation, which the library may compute."""
    by_library = spelled is Builder.op and operation in _OPPOSITE and x.aval.dtype in dtypes.FLOATS
    keeps_rows = x.aval.ndim - 1 not in axes
    if not by_library and (keeps_rows or spelled is not Builder.op):
        b.module.work.has_hot_loops = True
    b.module.work.add_reduction((operation, x.aval, *axes), math.prod([x.aval.shape[axis] for axis in axes]))
    scalar = ShapedArray((), x.aval.dtype)
    body = b.region([scalar, scalar], lambda inner, args: [spelled(inner, operation, args, scalar)])
    return b.op("stablehlo.reduce", [x, b.constant(start, scalar)], aval, f"dimensions = {int_array(axes)}", [body])


def _avoids_library(b: Builder, aval: ShapedArray, axes: Sequence[int], operation: str) -> bool:
    """Whether XLA's own loop is to compute a reduction: the library fails for so many axes, or would be slow."""
    if b.platform != "cpu" or b.may_be_partitioned or operation not in _OPPOSITE or not axes:
        return False
    if aval.ndim > _MOST_AXES and aval.dtype in dtypes.FLOATS:
        return True
    if aval.dtype not in (dtypes.float32, dtypes.float64):
        return False
    return _has_long_rows(aval, axes) or _is_of_few_elements(aval, axes)


def _has_long_rows(aval: ShapedArray, axes: Sequence[int]) -> bool:
    """Whether the reduced axes are the leading ones, or a single one, and the rows behind them are long."""
    leading = sorted(axes) == list(range(len(axes)))
    return (leading or len(axes) == 1) and surely_at_least(math.prod(aval.shape[max(axes) + 1 :]), _LONG_ROW)


def _is_of_few_long_rows(aval: ShapedArray, axes: Sequence[int]) -> bool:
    """Whether a single axis of few elements is reduced, and the rows behind it are long."""
    is_of_few = len(axes) == 1 and surely_below(aval.shape[axes[0]], _FEW_ROWS + 1)
    return is_of_few and aval.ndim <= _MOST_AXES and _has_long_rows(aval, axes)


def _is_of_few_elements(aval: ShapedArray, axes: Sequence[int]) -> bool:
    """Whether each result is a reduction of few elements, and the array is not small."""
    reduced = math.prod([aval.shape[axis] for axis in axes])
    return surely_below(reduced, _FEW_ELEMENTS + 1) and surely_at_least(aval.size, _SMALL + 1)


def _is_cheap(b: Builder, x: Value) -> bool:
    """Whether XLA needs only a few arithmetic operations to compute an element of `x`, if it is fused into its reader.

    Arguments of the program and of regions are in memory, and cost nothing. Arguments of other functions, and results
    of calls, may be computed by any operations, so they are not cheap.
    """
    pending, count = [x], 0
    while pending and count <= _FEW_OPERATIONS:
        value = pending.pop()
        name, operands, _ = b.definitions.get(value, ("", (), ""))
        is_in_memory = value.name.startswith("%r") or (value.name.startswith("%arg") and value in b.varied)
        if not name and not is_in_memory:
            return False
        if name in _FUNCTIONS or name.startswith("chlo."):
            return False
        if name in _ARITHMETIC:
            pending += operands
            count += 1
    return not pending


_OPPOSITE = {
    "stablehlo.add": "stablehlo.subtract",
    "stablehlo.maximum": "stablehlo.minimum",
    "stablehlo.minimum": "stablehlo.maximum",
}


def _with_negations(b: Builder, operation: str, args: list[Value], scalar: ShapedArray) -> Value:
    """a - (-b) for a sum, -min(-a, -b) for a maximum: the same bits."""
    left, right = args[0], b.op("stablehlo.negate", [args[1]], scalar)
    if operation == "stablehlo.add":
        return b.op(_OPPOSITE[operation], [left, right], scalar)
    left = b.op("stablehlo.negate", [left], scalar)
    return b.op("stablehlo.negate", [b.op(_OPPOSITE[operation], [left, right], scalar)], scalar)


def _with_comparisons(b: Builder, operation: str, args: list[Value], scalar: ShapedArray) -> Value:
    """`b` where b > a or b is nan, else `a`, for a maximum."""
    left, right = args
    wins = lower_comparison(b, right, left, "GT" if operation == "stablehlo.maximum" else "LT")
    taken = b.op("stablehlo.or", [wins, is_nan(b, right)], wins.aval)
    return b.op("stablehlo.select", [taken, right, left], scalar)


def lower_extreme(b: Builder, x: Value, aval: ShapedArray, axes: Sequence[int], operation: str, start: Any) -> Value:
    """A maximum or minimum that is nan where there is one.

    XLA's loops over several axes are slow, up to 70 times, so each run of adjacent axes is merged into one; a long one
    is halved first, which takes many elements at a time: up to three times faster, columns of large arrays up to five
    times. Of bytes XLA's loops do.
    """
    if (called := _called(b, x, aval, axes, operation, native_calls.LARGEST)) is not None:
        return called
    dtype = x.aval.dtype
    is_float = dtype in dtypes.FLOATS
    if b.platform != "cpu" or (not is_float and (b.may_be_partitioned or dtype.itemsize == 1)):
        return _reduction(b, x, aval, axes, operation, start, Builder.op)
    if b.may_be_partitioned:
        return _extreme_and_nan(b, x, aval, axes, operation, start)
    if is_float:
        x = b.convert(x, np.dtype(np.float64 if dtype == dtypes.float64 else np.float32))
    for first, end in reversed(_runs(axes)):
        shape = x.aval.shape
        x = _merged(b, x, first, end)
        if _is_to_be_halved(x.aval.shape, first):
            x = _halved(b, b.fusion_barrier(x), first, operation, _HALVED)  # each half would recompute `x`
        of_floats: Spelling = _with_comparisons if first == x.aval.ndim - 1 else _with_negations
        if surely_below(x.aval.size, _OF_LIBRARY):
            of_floats = Builder.op
        result = x.aval.update(shape=(*shape[:first], *shape[end:]))
        x = _reduction(b, x, result, [first], operation, start, of_floats if is_float else Builder.op)
        if first > min(axes):
            x = b.fusion_barrier(x)
    return b.convert(x, dtype)


def _is_to_be_halved(shape: Sequence[Any], axis: int) -> bool:
    """Whether an axis is long, and the rows behind it are contiguous or long; halves cost 30 ms more to compile."""
    n, rows = shape[axis], shape[axis + 1 :]
    if is_symbolic_dim(n) or n < _LONG_EXTREME:
        return False
    if not rows:
        return True
    is_large = not any(map(is_symbolic_dim, shape)) and math.prod(shape) >= _LARGE
    return is_large and (axis == 0 or math.prod(rows) >= _HALVED_ROW)


def _extreme_and_nan(b: Builder, x: Value, aval: ShapedArray, axes: Sequence[int], operation: str, start: Any) -> Value:
    """The maximum or minimum of all but nans, and nan where there is one."""
    result = _reduction(b, x, aval, axes, operation, start, Builder.op)
    flags = result.aval.update(dtype=dtypes.bool_)
    return nan_where(b, _reduction(b, is_nan(b, x), flags, axes, "stablehlo.or", False, Builder.op), result)


def _runs(axes: Sequence[int]) -> list[tuple[int, int]]:
    """The first axis and the end of each run of adjacent axes."""
    runs: list[tuple[int, int]] = []
    for axis in sorted(axes):
        if runs and runs[-1][1] == axis:
            runs[-1] = (runs[-1][0], axis + 1)
        else:
            runs.append((axis, axis + 1))
    return runs


def _merged(b: Builder, x: Value, first: int, end: int) -> Value:
    """Neighbouring axes as one. As integers, or XLA would take them apart again to reduce them."""
    if end - first == 1:
        return x
    shape = x.aval.shape
    bits = x.aval.update(dtype=np.dtype(f"int{8 * x.aval.dtype.itemsize}"), weak_type=False)
    merged = (*shape[:first], math.prod(shape[first:end]), *shape[end:])
    integers = b.reshape(b.op("stablehlo.bitcast_convert", [x], bits), merged)
    return b.op("stablehlo.bitcast_convert", [integers], x.aval.update(shape=merged))
