"""Formulas as Python writes them: an `Expression` is a value of a program that is being written, with operators.

    x = Expression(builder, value)
    y = (x * x + 1).sqrt()          # writes three operations and a constant
    y = select(x < 0, -y, y)

Numbers are constants of the other operand's dtype. Nothing is simplified here; what XLA does to floats is: it contracts
a product and a sum to one operation that rounds once, on machines that have it and not always; it combines the
constants of (x + c) - d and (x * c) * d; it replaces a division by a constant; it takes subnormal numbers for zeros.
Formulas in this folder hold in either case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.primitives.comparison_lowering import lower_comparison


class Expression:
    """A value of a program that is being written, with Python's operators."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value):
        self.builder, self.value = builder, value

    @property
    def dtype(self) -> np.dtype:
        return self.value.aval.dtype

    def _op(self, name: str, *operands: Any) -> Expression:
        """An operation on values of this one's type; numbers are constants of it."""
        aval = self.value.aval
        values = [x.value if isinstance(x, Expression) else self.constant(x).value for x in operands]
        return Expression(self.builder, self.builder.op(f"stablehlo.{name}", values, aval))

    def constant(self, number: Any) -> Expression:
        """A number in the shape and dtype of this expression."""
        aval = self.value.aval
        return Expression(self.builder, self.builder.constant(np.asarray(number).astype(aval.dtype)[()], aval))

    def __add__(self, other: Any) -> Expression:
        return self._op("add", self, other)

    def __radd__(self, other: Any) -> Expression:
        return self._op("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return self._op("subtract", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return self._op("subtract", other, self)

    def __mul__(self, other: Any) -> Expression:
        return self._op("multiply", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return self._op("multiply", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return self._op("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return self._op("divide", other, self)

    def __neg__(self) -> Expression:
        return self._op("negate", self)

    def __abs__(self) -> Expression:
        return self._op("abs", self)

    def __and__(self, other: Any) -> Expression:
        return self._op("and", self, other)

    def __or__(self, other: Any) -> Expression:
        return self._op("or", self, other)

    def __xor__(self, other: Any) -> Expression:
        return self._op("xor", self, other)

    def __invert__(self) -> Expression:
        return self._op("not", self)

    def __lshift__(self, count: int) -> Expression:
        return self._op("shift_left", self, count)

    def __rshift__(self, count: int) -> Expression:
        """The bits shifted right; for signed integers it is the arithmetic shift."""
        signed = self.dtype in dtypes.SIGNED
        return self._op("shift_right_arithmetic" if signed else "shift_right_logical", self, count)

    def _compared(self, other: Any, direction: str) -> Expression:
        other = other if isinstance(other, Expression) else self.constant(other)
        return Expression(self.builder, lower_comparison(self.builder, self.value, other.value, direction))

    def __lt__(self, other: Any) -> Expression:
        return self._compared(other, "LT")

    def __le__(self, other: Any) -> Expression:
        return self._compared(other, "LE")

    def __gt__(self, other: Any) -> Expression:
        return self._compared(other, "GT")

    def __ge__(self, other: Any) -> Expression:
        return self._compared(other, "GE")

    def equals(self, other: Any) -> Expression:
        return self._compared(other, "EQ")

    def differs(self, other: Any) -> Expression:
        return self._compared(other, "NE")

    def sqrt(self) -> Expression:
        return self._op("sqrt", self)

    def round(self) -> Expression:
        """The nearest whole number, the even one of two."""
        return self._op("round_nearest_even", self)

    def floor(self) -> Expression:
        return self._op("floor", self)

    def applied(self, function: str | Callable[..., list[Value]]) -> Expression:
        """The result of an operation that keeps the type, or of a lowering rule."""
        aval = self.value.aval
        if isinstance(function, str):
            return Expression(self.builder, self.builder.op(function, [self.value], aval))
        return Expression(self.builder, function(self.builder, [self.value], [aval])[0])

    def to(self, dtype: np.dtype) -> Expression:
        """Converted to a dtype."""
        return Expression(self.builder, self.builder.convert(self.value, dtype))

    def bits_as(self, dtype: np.dtype) -> Expression:
        """The same bits as another dtype of the same size."""
        aval = self.value.aval.update(dtype=dtype)
        return Expression(self.builder, self.builder.op("stablehlo.bitcast_convert", [self.value], aval))


def ratio(x: Expression, y: Expression) -> Expression:
    """x / y by a reciprocal, with another rounding error.

    XLA computes a quotient of two arrays that several operations read in a kernel of its own; not a reciprocal.
    """
    return x * (1.0 / y)


def select(condition: Expression, on_true: Any, on_false: Any) -> Expression:
    """Elements of one where the condition holds, and of the other elsewhere; one of both may be a number."""
    like = on_true if isinstance(on_true, Expression) else on_false
    values = [x.value if isinstance(x, Expression) else like.constant(x).value for x in (on_true, on_false)]
    return Expression(like.builder, like.builder.op("stablehlo.select", [condition.value, *values], like.value.aval))


def polynomial(x: Expression, coefficients: Sequence[float]) -> Expression:
    """c0 + c1 x + c2 x^2 + ..., by Horner's rule."""
    *rest, last = coefficients
    total: Any = last
    for c in reversed(rest):
        total = total * x + c
    return total


def long_polynomial(x: Expression, coefficients: Sequence[float], parts: int = 4) -> Expression:
    """The same as a sum of polynomials in x^parts, a power of 2, which are computed at the same time (G. Estrin, 1960).

    Each operation of Horner's rule waits for the one before, and processors begin only the next few hundred meanwhile.
    """
    if parts == 1:
        return polynomial(x, coefficients)
    square = x * x
    even, odd = (long_polynomial(square, coefficients[i::2], parts // 2) for i in range(2))
    return even + x * odd


def polynomial_where(conditions: Sequence[Expression], x: Expression, tables: Sequence[Sequence[float]]) -> Expression:
    """The polynomial of the coefficients whose condition holds, of which one does at most; elsewhere the last one."""
    total: Any = None
    for each in reversed(list(zip_longest(*tables, fillvalue=0.0))):
        c: Any = each[-1]
        for condition, number in zip(conditions, each):
            c = c if number == c else select(condition, x.constant(number), c)
        total = c if total is None else total * x + c
    return total


Formula = Callable[..., Expression]


# -- Float64 for float32: a formula for float32 computes in float64, whose rounding errors it need not look after


def widened_size(x: Expression) -> Expression:
    """Absolute values of float32 numbers in float64, of subnormal ones too: XLA's conversion takes them for zeros."""
    size = x.bits_as(dtypes.int32) & 0x7FFFFFFF
    normal = size.bits_as(dtypes.float32).to(dtypes.float64)
    return select(size < 0x00800000, size.to(dtypes.float64) * 2.0**-149, normal)


_ROUNDER = 1.5 * 2**52  # added to a whole number, it leaves that in the lowest bits


def whole_bits(x: Expression) -> Expression:
    """Whole float64 numbers of less than 2^51 as int64, in whose upper bits there is something else."""
    return (x + _ROUNDER).bits_as(dtypes.int64)


def whole_number(bits: Expression) -> Expression:
    """Int64 of less than 2^51 in float64; not all machines have a conversion of several at once."""
    rounder = int(np.float64(_ROUNDER).view(np.int64))
    return (bits + rounder).bits_as(dtypes.float64) - _ROUNDER


def times_sign(x: Expression, like: Expression) -> Expression:
    """x where `like` has no sign bit, -x elsewhere."""
    integer = dtypes.int64 if x.dtype == dtypes.float64 else dtypes.int32
    least = np.iinfo(integer).min
    return (x.bits_as(integer) ^ (like.bits_as(integer) & least)).bits_as(x.dtype)


def power_of_2(n: Expression) -> Expression:
    """2^n of whole float64 numbers from -1022 to 1023."""
    return ((whole_bits(n) + 1023) << 52).bits_as(dtypes.float64)
