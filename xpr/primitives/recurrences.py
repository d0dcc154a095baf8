"""Prefix scans along an axis (cumulative combinations), and linear recurrences, which are their derivatives.

On CPU a scan is a call of backend/c/cumulative.c, which takes a third to a twentieth of the time of XLA's loop, and a
third to compile: a running sum of f32[1000000] takes 0.9 ms, of f32[1000,1000] over axis 0 or 1, 0.2 and 0.4. Where C
is not built, or lacks the operation or dtype, it is a loop over the indices along its axis, one row at a time.
Combining in a tree, which a GPU needs, does more work and takes far longer to compile: a running sum of f32[1000000]
takes 2.1 ms and 757 ms of compiling as a tree, 2.6 ms and 20 ms as a loop; of f32[1000,1000] over axis 0 or 1, 0.9 and
1.7 ms as a tree, 0.5 and 1.0 as a loop; of f32[10,100000] over axis 1, 3.1 against 1.0. `reduce_window` is slower than
both in nearly every case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend import native
from xpr.backend.mlir_text import int_array
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, is_linear, register
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.primitives import native_calls
from xpr.primitives.comparison_lowering import lower_comparison
from xpr.primitives.elementwise import add_any, mul
from xpr.primitives.shapes import mapped_to
from xpr.primitives.slicing import pad, slice_in_dim

__all__ = ["linear_recurrence_p"]

# Operations and dtypes, by their numbers in backend/c/cumulative.c.
SUM_IN_C, MAXIMUM_IN_C, MINIMUM_IN_C, PRODUCT_IN_C, RECURRENCE_IN_C = range(5)
_DTYPES_OF_C = {dtypes.float32: 0, dtypes.float64: 1, dtypes.int32: 2, dtypes.int64: 3}
_MANY_IN_LOOPS = 32  # elements: XLA makes one kernel of a loop around a scan of fewer, which a call would divide


class Scan(NamedTuple):
    """The operation that is combined along the axis.

    step: `(builder, carry, rows) -> carry`, the next value from the last and the operands' rows.
    combine: `(builder, left, right) -> both`, the same for ranges of the axis, each with one value for each operand;
      the result of the scan is the last of them.
    start: the value before the first row.
    carried_in: the dtype to compute in; the results are rounded to that of the operands.
    in_c: its number in backend/c/cumulative.c; None if it isn't there.
    """

    step: Callable[[Builder, Value, list[Value]], Value]
    combine: Callable[[Builder, list[Value], list[Value]], list[Value]]
    start: Any
    carried_in: np.dtype
    in_c: int | None = None


def lower_scan(b: Builder, operands: list[Value], axis: int, reverse: bool, scan: Scan) -> Value:
    """The running result along `axis`, from its end where `reverse`; operands have one shape and dtype."""
    if not operands[0].aval.size:
        return operands[-1]
    if (called := _called(b, operands, axis, reverse, scan)) is not None:
        return called
    if b.platform == "cpu" or is_symbolic_dim(operands[0].aval.shape[axis]):  # a tree has layers for the length
        return _lower_loop(b, operands, axis, reverse, scan)
    dtype = operands[-1].aval.dtype
    values = [b.convert(x, scan.carried_in) for x in operands]
    if reverse:
        values = [_reversed(b, x, axis) for x in values]
    result = b.convert(_lower_tree(b, values, axis, scan)[-1], dtype)
    return _reversed(b, result, axis) if reverse else result


def _reversed(b: Builder, x: Value, axis: int) -> Value:
    return b.op("stablehlo.reverse", [x], x.aval, f"dimensions = {int_array([axis])}")


# -- A call of backend/c/cumulative.c


def _called(b: Builder, operands: list[Value], axis: int, reverse: bool, scan: Scan) -> Value | None:
    """The result by a call, if C has the operation and there are enough elements."""
    aval = operands[-1].aval.strip_weak_type()
    if scan.in_c is None or aval.dtype not in _DTYPES_OF_C or not native_calls.are_possible(b, aval):
        return None
    if not b.runs_once and aval.size < _MANY_IN_LOOPS:
        return None
    sizes = math.prod(aval.shape[:axis]), aval.shape[axis], math.prod(aval.shape[axis + 1 :])
    numbers = [scan.in_c, _DTYPES_OF_C[aval.dtype], *sizes, int(reverse)]
    return native_calls.call(b, native.CUMULATIVE, numbers, operands, [aval])[0]


# -- A loop over rows


def _lower_loop(b: Builder, operands: list[Value], axis: int, reverse: bool, scan: Scan) -> Value:
    """The state is the row's number, the operands, the last of which is overwritten, and the carried row."""
    ndim = operands[0].aval.ndim
    order = [axis, *(i for i in range(ndim) if i != axis)]
    if axis:
        operands = [b.transpose(x, order) for x in operands]
    aval = operands[-1].aval
    length = aval.shape[0]
    row = aval.update(shape=(1, *aval.shape[1:]), weak_type=False)
    carried, number = row.update(dtype=scan.carried_in), ShapedArray((), dtypes.int32)
    state = [number, *(x.aval for x in operands), carried]

    def unfinished(inner: Builder, args: list[Value]) -> list[Value]:
        end = inner.size(-1 if reverse else length, number)
        return [lower_comparison(inner, args[0], end, "NE")]

    def body(inner: Builder, args: list[Value]) -> list[Value]:
        at, *arrays, carry = args
        index = [at, *[inner.constant(0, number)] * (ndim - 1)]
        rows = [inner.window(x, index, row.shape) for x in arrays]
        carry = scan.step(inner, carry, [inner.convert(x, scan.carried_in) for x in rows])
        written = inner.convert(carry, aval.dtype)
        arrays[-1] = inner.op("stablehlo.dynamic_update_slice", [arrays[-1], written, *index], aval)
        return [inner.op("stablehlo.add", [at, inner.constant(-1 if reverse else 1, number)], number), *arrays, carry]

    first = [b.size(length - 1 if reverse else 0, number), *operands, b.constant(scan.start, carried)]
    result = b.ops("stablehlo.while", first, state, "", [b.region(state, unfinished), b.region(state, body)])[-2]
    return b.transpose(result, [order.index(i) for i in range(ndim)]) if axis else result


# -- A tree


def _lower_tree(b: Builder, values: list[Value], axis: int, scan: Scan) -> list[Value]:
    """Pairs are combined, the pairs are scanned, which computes every odd element, and each even one is one more step.

    So n elements take about 2 n combinations in 2 log n layers (Blelloch, "Prefix sums and their applications", 1990).
    """
    length = values[0].aval.shape[axis]
    if length < 2:
        return values
    pairs = scan.combine(
        b, [_strided(b, x, axis, 0, length - 1) for x in values], [_strided(b, x, axis, 1, length) for x in values]
    )
    odd = _lower_tree(b, pairs, axis, scan)
    evens = [_strided(b, x, axis, 0, 1) for x in values]
    if length > 2:
        following = [_strided(b, x, axis, 2, length) for x in values]
        before = [_strided(b, x, axis, 0, following[0].aval.shape[axis], 1) for x in odd]
        odds_combined = scan.combine(b, before, following)
        evens = [_joined(b, x, y, axis) for x, y in zip(evens, odds_combined)]
    return [_interleaved(b, x, y, axis, length) for x, y in zip(evens, odd)]


def _strided(b: Builder, x: Value, axis: int, start: int, limit: int, stride: int = 2) -> Value:
    starts, limits, strides = [0] * x.aval.ndim, list(x.aval.shape), [1] * x.aval.ndim
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return b.slice(x, starts, limits, strides)


def _joined(b: Builder, x: Value, y: Value, axis: int) -> Value:
    shape = list(x.aval.shape)
    shape[axis] += y.aval.shape[axis]
    return b.op("stablehlo.concatenate", [x, y], x.aval.update(shape=tuple(shape)), f"dimension = {axis} : i64")


def _interleaved(b: Builder, even: Value, odd: Value, axis: int, length: int) -> Value:
    """The elements of two arrays in turn, beginning with the first."""
    if length % 2:
        odd = _joined(b, odd, _strided(b, even, axis, 0, 1), axis)
    before, (count, *after) = even.aval.shape[:axis], even.aval.shape[axis:]
    even, odd = (b.reshape(x, (*before, count, 1, *after)) for x in (even, odd))
    both = b.reshape(_joined(b, even, odd, axis + 1), (*before, 2 * count, *after))
    return _strided(b, both, axis, 0, length, 1) if length % 2 else both


# -- linear_recurrence: h[k] = a[k] h[k-1] + b[k] along an axis, with nothing before the first b. It is linear in b, and
# its derivatives and its transpose are such recurrences again.


def _recurrence_abstract(avals: Sequence[ShapedArray], *, axis: int, reverse: bool) -> list[ShapedArray]:
    a, b = avals
    if a.shape != b.shape or a.dtype != b.dtype or b.dtype not in dtypes.INEXACT or not 0 <= axis < b.ndim:
        raise TypeError(
            f"linear_recurrence: takes two arrays of one shape and inexact dtype, and an axis of them; got "
            f"{a.str_short()}, {b.str_short()} and axis {axis}."
        )
    return [b]


def _recurrence_reference(values: Sequence[Any], *, axis: int, reverse: bool) -> list[Any]:
    a, b = (np.moveaxis(x, axis, 0) for x in values)
    h = np.empty_like(b)
    state = np.zeros(b.shape[1:], carried_in(b.dtype))
    for k in range(len(b))[:: -1 if reverse else 1]:
        h[k] = state = a[k] * state + b[k]
    return [np.moveaxis(h, 0, axis)]


def carried_in(dtype: np.dtype) -> np.dtype:
    """The dtype in which products are carried along: float32 for smaller floats."""
    return dtypes.float32 if dtype in dtypes.FLOATS and dtype.itemsize < 4 else dtype


def _recurrence_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, axis: int, reverse: bool
) -> list[Value]:
    def applied(inner: Builder, a: Value, h: Value, added: Value) -> Value:
        return inner.op("stablehlo.add", [inner.op("stablehlo.multiply", [a, h], h.aval), added], h.aval)

    def step(inner: Builder, h: Value, rows: list[Value]) -> Value:
        return applied(inner, rows[0], h, rows[1])

    def combine(inner: Builder, left: list[Value], right: list[Value]) -> list[Value]:
        both = inner.op("stablehlo.multiply", [right[0], left[0]], left[0].aval)
        return [both, applied(inner, right[0], left[1], right[1])]

    dtype = avals[0].dtype
    zero = np.zeros((), carried_in(dtype))[()]
    scan = Scan(step, combine, zero, carried_in(dtype), RECURRENCE_IN_C if dtype in dtypes.FLOATS else None)
    return [lower_scan(b, operands, axis, reverse, scan)]


def _recurrence_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axis: int, reverse: bool) -> Any:
    """From h[k] = a[k] h[k-1] + b[k] follows h'[k] = a[k] h'[k-1] + (a'[k] h[k-1] + b'[k])."""
    (a, b), (a_dot, b_dot) = primals, tangents
    h = linear_recurrence(a, b, axis, reverse)
    if type(a_dot) is not Zero:
        through_a = mul(a_dot, shifted(h, 0, axis, reverse))
        b_dot = through_a if type(b_dot) is Zero else add_any(through_a, b_dot)
    return [h], [b_dot if type(b_dot) is Zero else linear_recurrence(a, b_dot, axis, reverse)]


def _recurrence_transpose(cts: Sequence[Any], operands: Sequence[Any], *, axis: int, reverse: bool) -> list[Any]:
    """b[k] has the factor a[k+1] in h[k+1]: the cotangents run the other way, one step shifted."""
    a, b = operands
    assert is_linear(b) and not is_linear(a)
    following = shifted(a, 0, axis, not reverse)
    return [None, linear_recurrence(following, cts[0], axis, not reverse)]


def _recurrence_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], *, axis: int, reverse: bool) -> Any:
    a, b = (mapped_to(x, d, size) for x, d in zip(values, dims))
    return [linear_recurrence(a, b, axis + 1, reverse)], [0]


linear_recurrence_p = register(
    Primitive(
        "linear_recurrence",
        abstract=_recurrence_abstract,
        reference=_recurrence_reference,
        lower=_recurrence_lower,
        jvp=_recurrence_jvp,
        transpose=_recurrence_transpose,
        batch=_recurrence_batch,
    )
)


def linear_recurrence(a: Any, b: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The solution h of `h[k] = a[k] * h[k-1] + b[k]` along an axis, with `h[-1] = 0`; from the end where `reverse`.

    Raises:
      TypeError: `a` and `b` differ in shape or dtype, or are not inexact.

    >>> from xpr import numpy as jnp
    >>> from xpr.primitives.recurrences import linear_recurrence
    >>> linear_recurrence(jnp.array([2., 2., 2.]), jnp.array([1., 0., 1.]))
    Array([1., 2., 5.], dtype=float32)
    """
    return linear_recurrence_p.bind(a, b, axis=axis, reverse=reverse)


def shifted(x: Any, fill: Any, axis: int, reverse: bool = False) -> Any:
    """Each element replaced by the one before it in the direction of a scan, the first by `fill`."""
    aval = aval_of(x)
    length = aval.shape[axis]
    if not length:
        return x
    inner = slice_in_dim(x, 1, length, axis=axis) if reverse else slice_in_dim(x, 0, length - 1, axis=axis)
    edges = [(0, 0, 0)] * aval.ndim
    edges[axis] = (0, 1, 0) if reverse else (1, 0, 0)
    return pad(inner, np.asarray(fill, aval.dtype)[()], edges)
