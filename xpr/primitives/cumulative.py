"""Cumulative sums, products, maxima, minima and log-sum-exps along an axis.

Each result is a step from the one before, y[k] = f(y[k-1], x[k]). So the tangents obey a linear recurrence,
y'[k] = (df/dy) y'[k-1] + (df/dx) x'[k], whatever f is: products need no division, and zeros are no special case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.dimensions.expressions import surely_below
from xpr.dtypes import ANY, FLOATS, INEXACT, NUMBERS, greatest, least, short_name
from xpr.primitives.comparison_lowering import lower_comparison
from xpr.primitives.elementwise import (
    RoundingMethod,
    add,
    complex_,
    div,
    eq,
    exp,
    ge,
    imag,
    log1p,
    max,
    min,
    mul,
    real,
    round,
    sub,
)
from xpr.primitives.elementwise_rules import NOT_LINEAR, scalar
from xpr.primitives.elementwise_while import in_numpy, written
from xpr.primitives.flops import per_operand
from xpr.primitives.recurrences import (
    MAXIMUM_IN_C,
    MINIMUM_IN_C,
    PRODUCT_IN_C,
    SUM_IN_C,
    Scan,
    carried_in,
    linear_recurrence,
    lower_scan,
    shifted,
)
from xpr.primitives.shapes import from_front, full, linear_jvp
from xpr.primitives.sharding_rules import along_unsharded
from xpr.primitives.slicing import pad, select, slice_in_dim

__all__ = [
    "cumlogsumexp", "cumlogsumexp_p", "cummax", "cummax_p", "cummin", "cummin_p", "cumprod", "cumprod_p", "cumsum",
    "cumsum_p",
]  # fmt: skip

# -- What the family shares


def cumulative(
    name: str,
    *,
    over: frozenset[np.dtype],
    step: str | Callable[[Builder, Value, Value], Value],
    start: Callable[[np.dtype], Any],
    accumulate: Callable[[np.ndarray, int], np.ndarray],
    computed_in: Callable[[np.dtype], np.dtype] = lambda dtype: dtype,
    jvp: Any = None,
    transpose: Any = None,
    exact: bool = True,
    in_c: int | None = None,
) -> Primitive:
    """A cumulative primitive.

    Args:
      over: the dtypes it is defined for.
      step: the operation that combines two results, one of StableHLO or a function `(builder, left, right)` that writes
        it.
      start: the neutral element of the step, by dtype.
      accumulate: the whole primitive in NumPy, of an array along an axis.
      computed_in: the dtype in which results are computed, by the operand's.
      jvp: `(x, tangent, y, axis, reverse) -> tangent`; None where it is linear.
      transpose: the rule where it is linear.
      exact: NumPy gives the same bits as XLA.
      in_c: the number of the step in backend/c/cumulative.c, if it is there.
    """

    def abstract(avals: Sequence[ShapedArray], *, axis: int, reverse: bool) -> list[ShapedArray]:
        (aval,) = avals
        if aval.dtype not in over:
            allowed = ", ".join(sorted(map(short_name, over)))
            raise TypeError(f"{name}: takes {allowed}, and got {aval.str_short()}.")
        if not 0 <= axis < aval.ndim:
            raise ValueError(f"{name}: {aval.str_short()} has no axis {axis}.")
        return [aval]

    def reference(values: Sequence[Any], *, axis: int, reverse: bool) -> list[Any]:
        x = np.asarray(values[0])
        ordered = np.flip(x, axis) if reverse else x
        result = accumulate(ordered.astype(computed_in(x.dtype)), axis).astype(x.dtype)
        return [np.flip(result, axis) if reverse else result]

    def join(b: Builder, left: Value, right: Value) -> Value:
        return b.op(step, [left, right], left.aval) if isinstance(step, str) else step(b, left, right)

    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, axis: int, reverse: bool) -> list[Value]:
        dtype = computed_in(avals[0].dtype)
        scan = Scan(
            lambda inner, carry, rows: join(inner, carry, rows[0]),
            lambda inner, left, right: [join(inner, left[0], right[0])],
            np.asarray(start(dtype), dtype)[()],
            dtype,
            in_c,
        )
        return [lower_scan(b, operands, axis, reverse, scan)]

    def along(primals: Sequence[Any], tangents: Sequence[Any], *, axis: int, reverse: bool) -> Any:
        (x,), (t,) = primals, tangents
        y = primitive.bind(x, axis=axis, reverse=reverse)
        if type(t) is Zero or aval_of(x).dtype not in dtypes.INEXACT:
            return [y], [Zero.from_primal_value(y)]
        return [y], [jvp(x, t, y, axis, reverse)]

    def batch(size: int, values: Sequence[Any], dims: Sequence[int], *, axis: int, reverse: bool) -> Any:
        (dim,) = dims
        return [primitive.bind(*values, axis=axis + (axis >= dim), reverse=reverse)], [dim]

    primitive = register(
        Primitive(
            name,
            abstract=abstract,
            reference=reference,
            lower=lower,
            jvp=along,
            transpose=transpose or Unsupported(NOT_LINEAR),
            batch=batch,
            exact=exact,
            flops=per_operand,
            sharding=lambda avals, outs, *, axis, reverse: along_unsharded(
                avals, outs, axis, "Input should be unsharded over the axis being reduced"
            ),
        )
    )
    if jvp is None:
        primitive.jvp = linear_jvp(primitive)
    return primitive


def function_of(primitive: Primitive, doc: str) -> Callable[..., Any]:
    """The function that users call."""

    def function(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        return primitive.bind(operand, axis=from_front(axis, aval_of(operand).ndim), reverse=bool(reverse))

    function.__name__ = function.__qualname__ = primitive.name
    summary, _, example = doc.partition("\n\n")
    function.__doc__ = f"""{summary}

    Args:
      operand: an array with at least one axis.
      axis: the axis; negative ones count from the end.
      reverse: whether to go from the last element to the first.

    Returns:
      An array of the same shape and dtype.

    Raises:
      TypeError: it is not defined for the operand's dtype.
      ValueError: there is no such axis.

{example}
    """
    function.__module__ = __name__
    return function


# -- Sums


def _wide(dtype: np.dtype) -> np.dtype:
    """float64 for floats: one term after the other, a million of them would lose half of float32's digits."""
    if dtype in FLOATS:
        return dtypes.float64
    return dtypes.complex128 if dtype in dtypes.COMPLEX else dtype


def _sum_transpose(cts: Sequence[Any], operands: Sequence[Any], *, axis: int, reverse: bool) -> list[Any]:
    return [cumsum_p.bind(cts[0], axis=axis, reverse=not reverse)]


cumsum_p = cumulative(
    "cumsum", over=NUMBERS, step="stablehlo.add", start=lambda dtype: -np.zeros((), dtype),
    accumulate=np.add.accumulate, computed_in=_wide, transpose=_sum_transpose, in_c=SUM_IN_C,
)  # fmt: skip
cumsum = function_of(
    cumsum_p,
    """The cumulative sum along an axis.

    >>> from xpr import lax, numpy as jnp
    >>> lax.cumsum(jnp.arange(4))
    Array([0, 1, 3, 6], dtype=int32)""",
)

# -- Products


def _product_jvp(x: Any, t: Any, y: Any, axis: int, reverse: bool) -> Any:
    """y[k] = y[k-1] x[k], so y'[k] = x[k] y'[k-1] + y[k-1] x'[k]."""
    return linear_recurrence(x, mul(t, shifted(y, 1, axis, reverse)), axis, reverse)


cumprod_p = cumulative(
    "cumprod", over=NUMBERS, step="stablehlo.multiply", start=lambda dtype: 1, accumulate=np.multiply.accumulate,
    computed_in=carried_in, jvp=_product_jvp, in_c=PRODUCT_IN_C,
)  # fmt: skip
cumprod = function_of(
    cumprod_p,
    """The cumulative product along an axis.

    >>> from xpr import lax, numpy as jnp
    >>> lax.cumprod(jnp.array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)""",
)

# -- Maxima and minima


def _behind_first(x: Any, first: int, axis: int, reverse: bool) -> Any:
    """The values of all elements but the first one, with a value for that."""
    edges = [(0, 0, 0)] * aval_of(x).ndim
    edges[axis] = (0, 1, 0) if reverse else (1, 0, 0)
    return pad(x, np.asarray(first, aval_of(x).dtype)[()], edges)


def _but_last_and_but_first(length: int, reverse: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """The bounds of all elements but the last, and of all but the first, in the direction of the scan."""
    low, high = (0, length - 1), (1, length)
    return (high, low) if reverse else (low, high)


def _extreme_jvp(x: Any, t: Any, y: Any, axis: int, reverse: bool) -> Any:
    """y'[k] is y'[k-1] where y[k] = y[k-1], and x'[k] where y[k] = x[k]; half of each where both are equal."""
    length = aval_of(x).shape[axis]
    if surely_below(length, 2):
        return t
    before, here = _but_last_and_but_first(length, reverse)
    last, x, y = (slice_in_dim(v, *part, axis=axis) for v, part in ((y, before), (x, here), (y, here)))
    one, half, zero = (full(aval_of(x).shape, value, aval_of(x).dtype) for value in (1, 0.5, 0))
    share_of_last = select(eq(last, x), half, select(eq(last, y), one, zero))
    share_of_last = _behind_first(share_of_last, 0, axis, reverse)
    share_of_x = sub(full(aval_of(t).shape, 1, aval_of(t).dtype), share_of_last)
    return linear_recurrence(share_of_last, mul(share_of_x, t), axis, reverse)


def _written_step(fun: Callable[[Any, Any], Any]) -> Callable[[Builder, Value, Value], Value]:
    """The `step` of `cumulative` that lowers a function of two arrays, as it would be lowered in a program."""
    return lambda b, left, right: written(b, lambda x, y: [fun(x, y)], [left, right])[0]


def _extended_to_complex(bound: Callable[[np.dtype], Any]) -> Callable[[np.dtype], Any]:
    """The least or greatest number of a dtype; of a complex one, the number whose two parts are that of the parts."""

    def of_dtype(dtype: np.dtype) -> Any:
        if dtype not in dtypes.COMPLEX:
            return bound(dtype)
        part = bound(dtypes.real_part_of(dtype))
        return complex(part, part)

    return of_dtype


cummax_p = cumulative(
    "cummax", over=ANY, step=_written_step(max), start=_extended_to_complex(least), accumulate=np.maximum.accumulate,
    jvp=_extreme_jvp, in_c=MAXIMUM_IN_C,
)  # fmt: skip
cummax = function_of(
    cummax_p,
    """The cumulative maximum along an axis; of complex numbers by real parts, and of equal ones by imaginary parts.

    >>> from xpr import lax, numpy as jnp
    >>> lax.cummax(jnp.array([1, 3, 2]))
    Array([1, 3, 3], dtype=int32)""",
)

cummin_p = cumulative(
    "cummin", over=ANY, step=_written_step(min), start=_extended_to_complex(greatest), accumulate=np.minimum.accumulate,
    jvp=_extreme_jvp, in_c=MINIMUM_IN_C,
)  # fmt: skip
cummin = function_of(
    cummin_p,
    """The cumulative minimum along an axis; of complex numbers by real parts, and of equal ones by imaginary parts.

    >>> from xpr import lax, numpy as jnp
    >>> lax.cummin(jnp.array([3, 1, 2]))
    Array([3, 1, 1], dtype=int32)""",
)

# -- log-sum-exp


def _join_logarithms(b: Builder, x: Value, y: Value) -> Value:
    """log(e^x + e^y) = max + log1p(e^-|x - y|); of equal ones, infinities among them, x + log 2."""
    aval = x.aval
    if aval.dtype in dtypes.COMPLEX:
        return written(b, lambda x, y: [_joined_complex_logarithms(x, y)], [x, y])[0]
    equal = lower_comparison(b, x, y, "EQ")
    greater = b.op("stablehlo.maximum", [x, y], aval)
    distance = b.op("stablehlo.abs", [b.op("stablehlo.subtract", [x, y], aval)], aval)
    lesser = b.op("stablehlo.exponential", [b.op("stablehlo.negate", [distance], aval)], aval)
    log1p = b.op("stablehlo.log_plus_one", [lesser], aval)
    log_two = b.constant(np.asarray(math.log(2), aval.dtype)[()], aval)
    return b.op("stablehlo.add", [greater, b.op("stablehlo.select", [equal, log_two, log1p], aval)], aval)


def _joined_complex_logarithms(x: Any, y: Any) -> Any:
    """log(e^x + e^y) of complex numbers: the one with the greater real part is factored out.

    The imaginary part is between -pi and pi. Where the lesser real part is -inf its exponential is 0, at any angle.
    """
    is_first = ge(real(x), real(y))
    greater, lesser = select(is_first, x, y), select(is_first, y, x)
    joined = add(greater, log1p(exp(sub(lesser, greater))))
    joined = select(eq(x, y), add(x, scalar(math.log(2), x)), joined)
    joined = select(eq(real(lesser), scalar(-math.inf, real(lesser))), greater, joined)
    angle = imag(joined)
    turn = scalar(2 * math.pi, angle)
    return complex_(real(joined), sub(angle, mul(turn, round(div(angle, turn), RoundingMethod.TO_NEAREST_EVEN))))


def _accumulate_logarithms(x: np.ndarray, axis: int) -> np.ndarray:
    """cumlogsumexp in NumPy, whose logaddexp takes no complex numbers: of these row after row."""
    if x.dtype not in dtypes.COMPLEX:
        return np.logaddexp.accumulate(x, axis)
    rows = np.moveaxis(x.copy(), axis, 0)
    for k in range(1, len(rows)):
        (rows[k],) = in_numpy(lambda last, row: [_joined_complex_logarithms(last, row)], rows[k - 1], rows[k])
    return np.moveaxis(rows, 0, axis)


def _logarithm_jvp(x: Any, t: Any, y: Any, axis: int, reverse: bool) -> Any:
    """y[k] = log(e^y[k-1] + e^x[k]), so y'[k] = e^(y[k-1]-y[k]) y'[k-1] + e^(x[k]-y[k]) x'[k].

    Of equal y[k-1] and x[k], infinities among them, half of each.
    """
    length = aval_of(x).shape[axis]
    if surely_below(length, 2):
        return t
    before, here = _but_last_and_but_first(length, reverse)
    last, x, y = (slice_in_dim(v, *part, axis=axis) for v, part in ((y, before), (x, here), (y, here)))
    shape, dtype = aval_of(x).shape, aval_of(x).dtype
    half, one = full(shape, 0.5, dtype), full(shape, 1, dtype)

    def share(term: Any, of_first: int) -> Any:
        part = select(eq(last, x), half, select(eq(term, y), one, exp(sub(term, y))))
        return _behind_first(part, of_first, axis, reverse)

    return linear_recurrence(share(last, 0), mul(t, share(x, 1)), axis, reverse)


cumlogsumexp_p = cumulative(
    "cumlogsumexp", over=INEXACT, step=_join_logarithms, start=lambda dtype: least(dtypes.real_part_of(dtype)),
    accumulate=_accumulate_logarithms, computed_in=carried_in, jvp=_logarithm_jvp, exact=False,
)  # fmt: skip
cumlogsumexp = function_of(
    cumlogsumexp_p,
    """The cumulative logarithm of the sum of exponentials along an axis.

    >>> from xpr import lax, numpy as jnp
    >>> lax.cumlogsumexp(jnp.zeros(2))
    Array([0.       , 0.6931472], dtype=float32)""",
)
