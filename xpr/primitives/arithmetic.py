"""Arithmetic: sums, quotients, bounds. The product is in elementwise_rules.py, whose chain rule uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.primitive import is_linear
from xpr.dimensions.expressions import surely_at_least
from xpr.dtypes import ANY, COMPLEX, FLOATS, INEXACT, INTEGERS, NUMBERS, REAL, UNSIGNED, float64, iinfo
from xpr.primitives.bitwise import bitwise_and, bitwise_or
from xpr.primitives.comparisons import compared, eq, gt, lt
from xpr.primitives.conversions import convert_element_type
from xpr.primitives.elementwise_rules import (
    PYTHON_SCALARS,
    are_real,
    elementwise,
    function_of,
    gathered,
    linear_unary,
    repeated,
    scalar,
    sum_transpose,
    typed_like,
)
from xpr.primitives.elementwise_rules import mul as product
from xpr.primitives.rounding import ceil, floor
from xpr.primitives.shapes import broadcast_to, full, mapped_to
from xpr.primitives.sharding_rules import sums_alike
from xpr.primitives.slicing import select
from xpr.primitives.vectorized import remainders
from xpr.primitives.vectorized.rule import DTYPES, OnCpu

_MANY = 1000  # integers, which are divided faster several at a time

__all__ = [
    "add", "add_p", "clamp", "clamp_p", "div", "div_p", "max", "max_p", "min", "min_p", "mul", "neg", "neg_p", "rem",
    "rem_p", "sub", "sub_p",
]  # fmt: skip

# -- Products


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """The product of two arrays, elementwise.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.
      out_dtype: the dtype to which both are converted before they are multiplied; None for the one they have.

    Returns:
      An array of the same shape, and of the same dtype or `out_dtype`.

    >>> from xpr import lax
    >>> lax.mul(3.0, 2.0)
    Array(6., dtype=float32, weak_type=True)
    >>> lax.mul(np.int8(100), np.int8(2), out_dtype="int32")
    Array(200, dtype=int32)
    """
    if out_dtype is not None:
        x, y = convert_element_type(x, out_dtype), convert_element_type(y, out_dtype)
    return product(x, y)


# -- Sums and quotients

neg_p = linear_unary(
    "neg", over=NUMBERS, back=lambda ct, aval: neg(ct), lowers_to="stablehlo.negate", reference=np.negative, exact=True
)
neg = function_of(
    neg_p,
    """The negative of each element.

    >>> from xpr import lax
    >>> lax.neg(3.0)
    Array(-3., dtype=float32, weak_type=True)
    """,
)

add_p = elementwise(
    "add", over=ANY, lowers_to="stablehlo.add", reference=np.add, exact=True, commutative=True,
    partials=[lambda t, x, y, out: t, lambda t, x, y, out: t], transpose=sum_transpose,
    sums=sums_alike,
)  # fmt: skip
add = function_of(
    add_p,
    """The sum of two arrays, elementwise.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.add(1.0, 2.0)
    Array(3., dtype=float32, weak_type=True)
    """,
    2,
)


def _sub_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (x, y) = cts, operands
    return [gathered(ct, x.aval) if is_linear(x) else None, gathered(neg(ct), y.aval) if is_linear(y) else None]


sub_p = elementwise(
    "sub", lowers_to="stablehlo.subtract", reference=np.subtract, exact=True,
    partials=[lambda t, x, y, out: t, lambda t, x, y, out: neg(t)], transpose=_sub_transpose,
    sums=sums_alike,
)  # fmt: skip
sub = function_of(
    sub_p,
    """The difference of two arrays, elementwise.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.sub(3.0, 1.0)
    Array(2., dtype=float32, weak_type=True)
    """,
    2,
)


def _div_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The tangent of y = a / b is (a_dot - y b_dot) / b: one division, which the cotangents of both operands share."""
    (a, b), (a_dot, b_dot) = primals, tangents
    out = div(a, b)
    aval = aval_of(out)
    if type(b_dot) is Zero:
        change = a_dot
    else:
        change = neg(mul(out, b_dot)) if type(a_dot) is Zero else sub(a_dot, mul(out, b_dot))
    if type(change) is Zero:
        return [out], [Zero(aval.to_tangent_aval())]
    return [out], [broadcast_to(div(change, b), aval.shape)]


def _div_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (x, y) = cts, operands
    return [gathered(div(ct, y), x.aval), None]


def _div_reference(x: Any, y: Any) -> Any:
    """Integers divide towards zero; a zero divisor gives -1, and the smallest integer divided by -1 itself."""
    dtype = np.asarray(x).dtype
    if dtype in INEXACT:
        return np.divide(x, y).astype(dtype)
    x, y = np.asarray(x), np.asarray(y)
    safe = np.where(y == 0, 1, y)
    quotient = (x - _rem_reference(x, safe)) // safe
    return np.where(y == 0, np.array(-1).astype(dtype), quotient).astype(dtype)


def _rem_reference(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype in INTEGERS:
        safe = np.where(y == 0, 1, y).astype(x.dtype)
        return np.where(y == 0, x, np.fmod(x, safe)).astype(x.dtype)
    return np.fmod(x, y)


def _is_faster_by_floats(b: Builder, divisor: Value) -> bool:
    """Whether integers are divided several at a time on CPU: many of up to 32 bits, by a number that isn't constant."""
    source, _ = b.broadcast_source(divisor) or (divisor, [])
    is_constant = b.definitions.get(source, ("",))[0] == "stablehlo.constant"
    dtype = divisor.aval.dtype
    is_small = dtype.kind in "iu" and dtype.itemsize <= 4
    return b.platform == "cpu" and is_small and surely_at_least(divisor.aval.size, _MANY) and not is_constant


def _by_floats(b: Builder, operation: str, x: Value, y: Value) -> Value:
    """The quotient, or remainder, of integers that float64 holds: processors divide several of these at once.

    XLA multiplies by the reciprocal of what it finds to be constant, and so may get less than a quotient that is an
    integer. So x is made larger, by less than takes other quotients to the next integer: 2**-40 x / y < 1 / y.
    """
    wide = x.aval.update(dtype=float64)
    larger = b.op("stablehlo.multiply", [b.convert(x, float64), b.constant(1 + 2.0**-40, wide)], wide)
    quotient = b.convert(b.op("stablehlo.divide", [larger, b.convert(y, float64)], wide), x.aval.dtype)
    if operation == "stablehlo.divide":
        return quotient
    return b.op("stablehlo.subtract", [x, b.op("stablehlo.multiply", [quotient, y], x.aval)], x.aval)


def _division_lower(operation: str) -> Callable[..., list[Value]]:
    """The lowering rule of integer division, or remainder, that is defined for all operands.

    The divisor is replaced by 1 where it is zero or the quotient overflows: XLA's constant folding divides such
    integers as C does, and crashes the process.
    """

    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
        (aval,), (x, y) = avals, repeated(b, operands, avals[0].shape)
        if aval.dtype not in INTEGERS:
            divisor = b.unshared_broadcast(y) if operation == "stablehlo.divide" else y
            return [b.op(operation, [x, divisor], aval)]
        by_zero = compared(b, [y, b.constant(0, aval)], "EQ")
        undefined = by_zero
        if aval.dtype not in UNSIGNED:
            smallest = compared(b, [x, b.constant(iinfo(aval.dtype).min, aval)], "EQ")
            by_minus_one = compared(b, [y, b.constant(-1, aval)], "EQ")
            overflow = b.op("stablehlo.and", [smallest, by_minus_one], by_zero.aval)
            undefined = b.op("stablehlo.or", [by_zero, overflow], by_zero.aval)
        divisor = b.op("stablehlo.select", [undefined, b.constant(1, aval), y], aval)
        out = (
            _by_floats(b, operation, x, divisor) if _is_faster_by_floats(b, y) else b.op(operation, [x, divisor], aval)
        )
        if operation == "stablehlo.remainder":
            return [b.op("stablehlo.select", [by_zero, x, out], aval)]
        return [b.op("stablehlo.select", [by_zero, b.constant(np.array(-1).astype(aval.dtype), aval), out], aval)]

    return lower


def _div_is_exact(avals: Sequence[ShapedArray]) -> bool:
    """XLA may multiply by the inverse of a divisor that it has to broadcast."""
    dividend, divisor = avals
    return are_real(avals) and dividend.shape in ((), divisor.shape)


div_p = elementwise(
    "div", lowers_to=_division_lower("stablehlo.divide"), reference=_div_reference,
    partials=[lambda t, x, y, out: div(t, y), lambda t, x, y, out: div(neg(mul(t, out)), y)], transpose=_div_transpose,
    exact=_div_is_exact,
)  # fmt: skip
div_p.jvp = _div_jvp
div = function_of(
    div_p,
    """The quotient of two arrays, elementwise; of integers rounded towards zero.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.div(7, 2)
    Array(3, dtype=int32, weak_type=True)
    """,
    2,
)

_lower_rem = OnCpu(
    "rem", _division_lower("stablehlo.remainder"), remainders.remainder, remainders.long_remainder,
    {float64: remainders.is_beyond}, many_double=16_384, in_c=DTYPES,
)  # fmt: skip


def _rem_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """A remainder. The formula gets a fusion barrier, or XLA would compute it again for each reader."""
    (rem,) = _lower_rem(b, operands, avals)
    name, sources, _ = b.definitions.get(rem, ("", (), ""))
    if name == "stablehlo.convert":  # to 16 bits
        name = b.definitions.get(sources[0], ("",))[0]
    is_formula = name not in ("stablehlo.remainder", "stablehlo.custom_call")
    needs_barrier = b.platform == "cpu" and b.runs_once and rem.aval.dtype in FLOATS and is_formula
    return [b.fusion_barrier(rem) if needs_barrier else rem]


rem_p = elementwise(
    "rem", fusion="expensive", over=REAL, reference=_rem_reference,
    lowers_to=_rem_lower,
    partials=[lambda t, x, y, out: t, lambda t, x, y, out: mul(neg(t), _toward_zero(div(x, y)))],
)  # fmt: skip
rem = function_of(
    rem_p,
    """The remainder of division towards zero, elementwise; it has the sign of x.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.rem(7, 2)
    Array(1, dtype=int32, weak_type=True)
    """,
    2,
)


def _toward_zero(x: Any) -> Any:
    return select(lt(x, scalar(0, x)), ceil(x), floor(x))


# -- max, min and clamp


def _half_where_equal(chosen: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The partial of max or min: the tangent where this operand is chosen, half of it where both are equal.

    Where the result is nan it is the tangent times 0, so that a cotangent that is nan is not lost.
    """

    def partial(t: Any, operand: Any, other: Any) -> Any:
        half = div(t, scalar(2, t))
        shape = aval_of(chosen(operand, other)).shape
        nothing = full(shape, 0, aval_of(t).dtype)
        t, half = broadcast_to(t, shape), broadcast_to(half, shape)
        unordered = select(chosen(other, operand), nothing, mul(t, scalar(0, t)))
        return select(eq(operand, other), half, select(chosen(operand, other), t, unordered))

    return partial


def _is_greater(x: Any, y: Any) -> Any:
    """Whether x > y; of complex numbers that differ, whether x is their maximum."""
    return eq(max(x, y), x) if aval_of(x).dtype in COMPLEX else gt(x, y)


def _is_less(x: Any, y: Any) -> Any:
    """Whether x < y; of complex numbers that differ, whether x is their minimum."""
    return eq(min(x, y), x) if aval_of(x).dtype in COMPLEX else lt(x, y)


_greater = _half_where_equal(_is_greater)
_less = _half_where_equal(_is_less)


def _extreme_lower(operation: str, direction: str) -> Callable[..., list[Value]]:
    """The lowering rule of max or min; complex operands are compared and selected, as XLA crashes for their maximum.

    The result is nan where either operand is.
    """

    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
        (aval,), (x, y) = avals, repeated(b, operands, avals[0].shape)
        if aval.dtype not in COMPLEX:
            return [b.op(operation, [x, y], aval)]
        ahead, is_nan = compared(b, [x, y], direction), compared(b, [x, x], "NE")
        first = b.op("stablehlo.or", [ahead, is_nan], ahead.aval)
        return [b.op("stablehlo.select", [first, x, y], aval)]

    return lower


max_p = elementwise(
    "max", over=ANY, lowers_to=_extreme_lower("stablehlo.maximum", "GE"), reference=np.maximum, exact=True,
    commutative=True,
    partials=[lambda t, x, y, out: _greater(t, x, y), lambda t, x, y, out: _greater(t, y, x)],
)  # fmt: skip
max = function_of(
    max_p,
    """The maximum of two arrays, elementwise; nan where either is nan.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.max(3.0, 1.0)
    Array(3., dtype=float32, weak_type=True)
    """,
    2,
)

min_p = elementwise(
    "min", over=ANY, lowers_to=_extreme_lower("stablehlo.minimum", "LE"), reference=np.minimum, exact=True,
    commutative=True,
    partials=[lambda t, x, y, out: _less(t, x, y), lambda t, x, y, out: _less(t, y, x)],
)  # fmt: skip
min = function_of(
    min_p,
    """The minimum of two arrays, elementwise; nan where either is nan.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.min(3.0, 1.0)
    Array(1., dtype=float32, weak_type=True)
    """,
    2,
)


def _clamp_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    low, x, high = avals
    if any(a.shape not in ((), x.shape) or a.dtype != x.dtype for a in (low, high)):
        types = ", ".join(a.str_short() for a in avals)
        raise TypeError(f"clamp: the bounds must be scalars or of the operand's shape, and of its dtype; got {types}.")
    return [x.update(weak_type=all(a.weak_type for a in avals))]


def _inside(low: Any, x: Any, high: Any) -> Any:
    return bitwise_and(gt(x, low), lt(x, high))


clamp_p = elementwise(
    "clamp", over=ANY, lowers_to="stablehlo.clamp", exact=True,
    reference=lambda low, x, high: np.minimum(np.maximum(x, low), high),
    partials=[
        lambda t, low, x, high, out: _select_or_zero(_inside(x, low, high), t, out),
        lambda t, low, x, high, out: _select_or_zero(_inside(low, x, high), t, out),
        lambda t, low, x, high, out: _select_or_zero(bitwise_or(lt(high, x), lt(high, low)), t, out),
    ],
)  # fmt: skip
clamp_p.abstract = _clamp_abstract

_clamp_elementwise = clamp_p.batch


def _clamp_batch(size: int, values: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """The bounds may be scalars, and the operand then has the shape of the result: so it is always mapped."""
    low, x, high = values
    if dims[1] is None:
        return _clamp_elementwise(size, [low, mapped_to(x, None, size), high], [dims[0], 0, dims[2]])
    return _clamp_elementwise(size, values, dims)


clamp_p.batch = _clamp_batch


def _select_or_zero(condition: Any, t: Any, out: Any) -> Any:
    shape = aval_of(out).shape
    return select(condition, broadcast_to(t, shape), full(shape, 0, aval_of(t).dtype))


def clamp(min: Any, x: Any, max: Any) -> Any:
    """Each element limited to the interval [min, max].

    Args:
      min: the lower bound, a scalar or an array of the shape of `x`.
      x: an array.
      max: the upper bound, a scalar or an array of the shape of `x`.

    Returns:
      An array of the shape and dtype of `x`.

    >>> from xpr import lax, numpy as jnp
    >>> lax.clamp(0, jnp.array([-1, 1, 5]), 3)
    Array([0, 1, 3], dtype=int32)
    """
    low, high = (typed_like(bound, x) if type(bound) in PYTHON_SCALARS else bound for bound in (min, max))
    return clamp_p.bind(low, x, high)
