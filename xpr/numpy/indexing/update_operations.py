"""The operations of `x.at[index]` (set, add, multiply, ...), and the conversion of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.source import depth_of_user
from xpr.notices import warn
from xpr.numpy import arithmetic, powers
from xpr.numpy.axes import broadcasts_to
from xpr.numpy.promotion import SCALARS, as_operand, convert, converter, select_scalar
from xpr.primitives import elementwise as e
from xpr.primitives.gather.gather_scatter import scatter_add_p, scatter_sub_p
from xpr.primitives.gather.scatter import scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, reshape

Shape = tuple[int, ...]


class Operation(NamedTuple):
    """An operation that combines old elements with new ones."""

    name: str
    combine: Callable[[Any, Any], Any]  # takes operands of one dtype; the second may be a scalar
    scatter: Any  # the primitive that combines elements at indices; None if there is none
    neutral: Callable[[np.dtype], Any] | None  # the new element that leaves every old one as it is; None: there is none
    ufunc: Any = None  # the same in NumPy, where that gives the same bits


def _scatter_or(number: Any, logical: Any) -> Callable[[np.dtype], Any]:
    return lambda dtype: logical if dtype == dtypes.bool_ else number


def _quotient(x: Any, y: Any) -> Any:
    """x / y in the dtype of x; of integers the quotient without its fraction, exact but for zeros among y."""
    dtype = aval_of(x).dtype
    real = convert(arithmetic.true_divide(x, y), dtype)
    if dtype not in dtypes.INTEGERS:
        return real
    zero, one = e.scalar(0, y), e.scalar(1, y)
    by_zero = e.eq(y, zero)
    return select_scalar(by_zero, real, e.div(x, select_scalar(by_zero, one, y)))


def _power(x: Any, y: Any) -> Any:
    return convert(powers.power(x, y), aval_of(x).dtype)


def _negative_zero(dtype: np.dtype) -> Any:
    """The neutral element of addition: -0. for floats, since 0. + -0. is 0."""
    return np.zeros((), dtype)[()] if dtype not in dtypes.INEXACT else -np.zeros((), dtype)[()]


def _one(dtype: np.dtype) -> Any:
    return np.ones((), dtype)[()]


SET = Operation("set", lambda old, new: new, lambda dtype: scatter_p, None, np.positive)
ADD = Operation("add", arithmetic.add, _scatter_or(scatter_add_p, scatter_max_p), _negative_zero, np.add)
SUBTRACT = Operation("subtract", e.sub, lambda dtype: scatter_sub_p, lambda dtype: np.zeros((), dtype)[()], np.subtract)
MULTIPLY = Operation("multiply", arithmetic.multiply, _scatter_or(scatter_mul_p, scatter_min_p), _one, np.multiply)
DIVIDE = Operation("divide", _quotient, None, _one)
POWER = Operation("power", _power, None, _one)
MIN = Operation("min", e.min, lambda dtype: scatter_min_p, None, np.minimum)
MAX = Operation("max", e.max, lambda dtype: scatter_max_p, None, np.maximum)


def applied(function: Callable[[Any], Any]) -> Operation:
    """The operation that replaces old elements by `function` of them."""
    return Operation("apply", lambda old, new: convert(function(old), aval_of(old).dtype), None, None)


# -- Integers combined with floats


def whole(values: Any, dtype: np.dtype) -> Any:
    """Floats truncated to an integer dtype; those out of range are its bounds, nan is 0."""
    if aval_of(values).dtype in dtypes.COMPLEX:
        values = e.real(values)
    scalar_type = aval_of(values).dtype.type
    info = dtypes.iinfo(dtype)
    low, high = scalar_type(info.min), scalar_type(info.max)
    inside = e.bitwise_and(e.gt(values, low), e.lt(values, high))
    number = convert(select_scalar(inside, values, scalar_type(0)), dtype)
    number = select_scalar(e.ge(values, high), dtype.type(info.max), number)
    return select_scalar(e.le(values, low), dtype.type(info.min), number)


def whole_and_fraction(values: Any, dtype: np.dtype) -> tuple[Any, Any]:
    """The integral parts of floats in an integer dtype, which wrap if it is unsigned, and their fractions."""
    if aval_of(values).dtype in dtypes.COMPLEX:
        values = e.real(values)
    zero = aval_of(values).dtype.type(0)
    size = whole(e.abs(values), dtype)
    signed = select_scalar(e.lt(values, zero), e.sub(dtype.type(0), size), size)
    towards_zero = select_scalar(e.lt(values, zero), e.ceil(values), e.floor(values))
    return signed, e.sub(values, towards_zero)


def with_fraction(number: Any, fraction: Any) -> Any:
    """The sum of an integer and a fraction, truncated to an integer."""
    dtype = aval_of(number).dtype
    more, fractional = whole_and_fraction(fraction, dtype)
    number = e.add(number, more)
    float_zero, zero, one = aval_of(fractional).dtype.type(0), dtype.type(0), dtype.type(1)
    less = e.bitwise_and(e.lt(fractional, float_zero), e.gt(number, zero))
    greater = e.bitwise_and(e.gt(fractional, float_zero), e.lt(number, zero))
    number = select_scalar(less, e.sub(number, one), number)
    return select_scalar(greater, e.add(number, one), number)


# -- Values


def converted_values(x: Any, values: Any) -> Any:
    """The values in the dtype of the array; unconverted, if they may not fit into it."""
    aval = aval_of(x)
    if type(values) in SCALARS:
        take = converter(aval, type(values))
        if take is not None:
            return take(values)
    values = as_operand(values)
    values_aval = aval_of(values)
    if values_aval.dtype == aval.dtype:
        return values
    return values if _is_unsafe(aval, values_aval) else convert(values, aval.dtype)


def _is_unsafe(aval: ShapedArray, values_aval: ShapedArray) -> bool:
    dtype, _ = dtypes.promote_pair(aval.dtype, aval.weak_type, values_aval.dtype, values_aval.weak_type)
    return dtype != aval.dtype


def warn_unsafe(x: Any, values: Any) -> None:
    warn(
        f"scatter inputs have incompatible types: x.at[...] with x {aval_of(x).str_short()} was given values "
        f"{aval_of(values).str_short()}, which that dtype "
        "can't hold in general: the result is converted back to it. Convert the values, or x, with .astype() first; "
        "this will be an error.",
        FutureWarning,
        stacklevel=depth_of_user(),
    )


def broadcast_values(values: Any, shape: Shape) -> Any:
    """The values broadcast to the shape of x[index]; scalars stay as they are, and None, which `apply` has.

    Raises:
      ValueError: they don't broadcast.
    """
    values_shape = getattr(values, "shape", ())
    if not values_shape or values_shape == shape:
        return values
    extra = max(len(values_shape) - len(shape), 0)
    fits = values_shape[extra:]
    if any(n != 1 for n in values_shape[:extra]) or not broadcasts_to(fits, shape):
        raise ValueError(f"Values of shape {values_shape} don't broadcast to shape {shape}, that of x[...].")
    return broadcast_to(reshape(values, fits), shape)


def filled(values: Any, shape: Shape) -> Any:
    return values if aval_of(values).shape == shape else broadcast_in_dim(values, shape, ())
