"""NumPy's elementwise functions: promotion of dtypes, broadcasting of shapes, then one primitive or a few.

A binary function first tries the two cases that nearly all calls are: operands of one dtype and compatible shapes, and
an array beside a Python scalar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.core.avals import aval_of
from xpr.numpy.promotion import (
    SCALARS,
    as_operand,
    broadcast_shapes,
    convert,
    converter,
    promote_inexact,
    promote_ranks,
    promote_shapes,
    promoted_pair,
)  # fmt: skip
from xpr.primitives import elementwise as e
from xpr.primitives.placing import select
from xpr.primitives.shapes import broadcast_to, full, zeros_like_aval

INEXACT, COMPLEX, INTEGERS, BOOL = dtypes.INEXACT, dtypes.COMPLEX, dtypes.INTEGERS, dtypes.bool_

# -- Builders


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def float_unary(name: str, primitive: Any, doc: str) -> Callable[[Any], Any]:
    """A function of floats: integers and booleans are converted first."""
    bind = primitive.bind

    def function(x: Any, /) -> Any:
        aval = getattr(x, "aval", None)
        if aval is not None and aval.dtype in INEXACT:
            return bind(x)
        return bind(*promote_inexact(x))

    return _named(function, name, doc)


def fast_pair(bind: Callable[..., Any], slow: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`bind(x, y)` where x and y are ready for it or nearly so; `slow(x, y)` otherwise."""

    def function(x: Any, y: Any, /) -> Any:
        a = getattr(x, "aval", None)
        b = getattr(y, "aval", None)
        if a is not None:
            if b is not None:
                if a is b or (
                    a.dtype is b.dtype
                    and a.weak_type is b.weak_type
                    and (a.shape == b.shape or not a.shape or not b.shape)
                ):
                    return bind(x, y)
            elif type(y) in SCALARS:
                take = converter(a, type(y))
                if take is not None:
                    return bind(x, take(y))
        elif b is not None and type(x) in SCALARS:
            take = converter(b, type(x))
            if take is not None:
                return bind(take(x), y)
        return slow(x, y)

    return function


def binary(name: str, primitive: Any, doc: str) -> Callable[[Any, Any], Any]:
    """A function of two arrays, in the dtype and shape they meet in."""
    bind = primitive.bind
    return _named(fast_pair(bind, lambda x, y: bind(*promoted_pair(x, y))), name, doc)


def float_binary(name: str, primitive: Any, doc: str) -> Callable[[Any, Any], Any]:
    """A function of two arrays of floats."""
    bind = primitive.bind
    slow = lambda x, y: bind(*promote_ranks(*promote_inexact(x, y)))  # noqa: E731  # one expression, used once
    ready = fast_pair(bind, slow)

    def function(x: Any, y: Any, /) -> Any:
        aval = getattr(x, "aval", None) or getattr(y, "aval", None)
        return ready(x, y) if aval is not None and aval.dtype in INEXACT else slow(x, y)

    return _named(function, name, doc)


def or_logical(name: str, primitive: Any, logical: Any, doc: str) -> Callable[[Any, Any], Any]:
    """Arithmetic that on booleans is logic."""
    bind, bind_logical = primitive.bind, logical.bind

    def slow(x: Any, y: Any) -> Any:
        x, y = promoted_pair(x, y)
        return (bind_logical if aval_of(x).dtype == BOOL else bind)(x, y)

    ready = fast_pair(bind, slow)

    def function(x: Any, y: Any, /) -> Any:
        aval = getattr(x, "aval", None)
        return slow(x, y) if aval is None or aval.dtype is BOOL else ready(x, y)

    return _named(function, name, doc)


def truth(x: Any) -> Any:
    """Each entry as a boolean."""
    x = as_operand(x)
    return x if aval_of(x).dtype == BOOL else convert(x, BOOL)


def logical(name: str, primitive: Any, doc: str) -> Callable[[Any, Any], Any]:
    """Logic on the truth of the entries."""
    return _named(lambda x, y, /: primitive.bind(*promote_ranks(truth(x), truth(y))), name, doc)


# -- Arithmetic

add = or_logical(
    "add",
    e.add_p,
    e.or_p,
    """The sum, entry by entry; of booleans, their or.

    >>> import xpr.numpy as jnp
    >>> jnp.add(jnp.array([1, 2]), 10)
    Array([11, 12], dtype=int32)
    """,
)
multiply = or_logical(
    "multiply",
    e.mul_p,
    e.and_p,
    """The product, entry by entry; of booleans, their and.

    >>> import xpr.numpy as jnp
    >>> jnp.multiply(jnp.array([1, 2]), 10)
    Array([10, 20], dtype=int32)
    """,
)
subtract = binary(
    "subtract",
    e.sub_p,
    """The difference, entry by entry.

    >>> import xpr.numpy as jnp
    >>> jnp.subtract(jnp.array([1, 2]), 10)
    Array([-9, -8], dtype=int32)
    """,
)
true_divide = float_binary(
    "true_divide",
    e.div_p,
    """The quotient, entry by entry, as floats.

    >>> import xpr.numpy as jnp
    >>> jnp.true_divide(jnp.array([1, 2]), 4)
    Array([0.25, 0.5 ], dtype=float32)
    """,
)
divide = true_divide
maximum = binary(
    "maximum",
    e.max_p,
    """The greater of two arrays, entry by entry; nan where either is.

    >>> import xpr.numpy as jnp
    >>> jnp.maximum(jnp.array([1, 5]), 3)
    Array([3, 5], dtype=int32)
    """,
)
minimum = binary(
    "minimum",
    e.min_p,
    """The lesser of two arrays, entry by entry; nan where either is.

    >>> import xpr.numpy as jnp
    >>> jnp.minimum(jnp.array([1, 5]), 3)
    Array([1, 3], dtype=int32)
    """,
)
arctan2 = float_binary(
    "arctan2",
    e.atan2_p,
    """The angle of the point (y, x) from the positive x axis, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.arctan2(0.0, -1.0)
    Array(3.1415927, dtype=float32, weak_type=True)
    """,
)
nextafter = float_binary(
    "nextafter",
    e.nextafter_p,
    """The next float after x on the way to y.

    >>> import xpr.numpy as jnp
    >>> jnp.nextafter(jnp.float32(0), 1)
    Array(1.e-45, dtype=float32)
    """,
)


def negative(x: Any, /) -> Any:
    """The negative of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.negative(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """
    return e.neg_p.bind(as_operand(x))


def positive(x: Any, /) -> Any:
    """The array itself.

    >>> import xpr.numpy as jnp
    >>> jnp.positive(jnp.array([1, -2]))
    Array([ 1, -2], dtype=int32)
    """
    return asarray_like(x)


def asarray_like(x: Any) -> Any:
    """An operand as an array or tracer, keeping its type."""
    x = as_operand(x)
    if hasattr(x, "aval"):
        return x
    aval = aval_of(x)
    return e.convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


def absolute(x: Any, /) -> Any:
    """The absolute value of each entry; real also for complex ones.

    >>> import xpr.numpy as jnp
    >>> jnp.absolute(jnp.array([1, -2]))
    Array([1, 2], dtype=int32)
    """
    x = as_operand(x)
    dtype = aval_of(x).dtype
    return asarray_like(x) if dtype == BOOL or dtype in dtypes.UNSIGNED else e.abs_p.bind(x)


abs = absolute


def fabs(x: Any, /) -> Any:
    """The absolute value of each entry, as floats.

    >>> import xpr.numpy as jnp
    >>> jnp.fabs(jnp.array([1, -2]))
    Array([1., 2.], dtype=float32)
    """
    return e.abs_p.bind(*promote_inexact(x))


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 by the sign of each entry; x / |x| for complex ones.

    >>> import xpr.numpy as jnp
    >>> jnp.sign(jnp.array([-3.0, 0.0, 2.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return e.sign_p.bind(as_operand(x))


def _number(x: Any) -> Any:
    """An operand of arithmetic: booleans are int32 there."""
    return convert(x, dtypes.int32) if aval_of(x).dtype == BOOL else x


def _numbers(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands of arithmetic in one dtype and in shapes that elementwise primitives take."""
    x, y = promoted_pair(x, y)
    return _number(x), _number(y)


def square(x: Any, /) -> Any:
    """The square of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.square(jnp.array([3, -2]))
    Array([9, 4], dtype=int32)
    """
    return e.square_p.bind(_number(as_operand(x)))


def reciprocal(x: Any, /) -> Any:
    """One over each entry, as floats.

    >>> import xpr.numpy as jnp
    >>> jnp.reciprocal(jnp.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    (x,) = promote_inexact(x)
    return e.div_p.bind(convert(1, aval_of(x).dtype, aval_of(x).weak_type), x)


def floor_divide(x: Any, y: Any, /) -> Any:
    """The greatest integer not above the quotient.

    >>> import xpr.numpy as jnp
    >>> jnp.floor_divide(jnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """
    x, y = _numbers(x, y)
    dtype = aval_of(x).dtype
    if dtype in dtypes.UNSIGNED:
        return e.div_p.bind(x, y)
    if dtype in INTEGERS:
        return _floor_divide(x, y)
    if dtype in COMPLEX:
        raise TypeError("floor_divide: complex numbers are not ordered, so they have no floor.")
    return _divmod(x, y)[0]


@compiled
def _floor_divide(x: Any, y: Any) -> Any:
    quotient, rest = e.div(x, y), e.rem(x, y)
    zero = aval_of(x).dtype.type(0)
    below = e.bitwise_and(e.ne(rest, zero), e.ne(e.lt(rest, zero), e.lt(y, zero)))
    return select(below, e.sub(quotient, zero.dtype.type(1)), quotient)


@compiled
def _divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """Quotient and remainder of floats as NumPy gives them: the quotient rounded from (x - rest) / y, x / 0 for 0."""
    rest = e.rem(x, y)
    zero = aval_of(x).dtype.type(0)
    wrong_sign = e.bitwise_and(e.ne(rest, zero), e.ne(e.sign(y), e.sign(rest)))
    quotient = e.div(e.sub(x, rest), y)
    quotient = select(wrong_sign, e.sub(quotient, zero.dtype.type(1)), quotient)
    rest = select(wrong_sign, e.add(rest, y), rest)
    return select_scalar(e.eq(y, zero), e.floor(e.div(x, y)), e.round(quotient)), rest


def remainder(x: Any, y: Any, /) -> Any:
    """What is left of x after floor division by y; it has the sign of y.

    >>> import xpr.numpy as jnp
    >>> jnp.remainder(jnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """
    x, y = _numbers(x, y)
    if aval_of(x).dtype in dtypes.UNSIGNED:
        return e.rem(x, _no_zero(y))
    return _remainder(x, y)


@compiled
def _remainder(x: Any, y: Any) -> Any:
    rest = e.rem(x, _no_zero(y))
    zero = aval_of(x).dtype.type(0)
    wrong_sign = e.bitwise_and(e.ne(rest, zero), e.ne(e.lt(rest, zero), e.lt(y, zero)))
    return select(wrong_sign, e.add(rest, y), rest)


mod = remainder


def _no_zero(y: Any) -> Any:
    """A divisor whose zeros, of integers, are ones: nothing is left of a division by zero, as in NumPy."""
    if aval_of(y).dtype not in INTEGERS or (isinstance(y, (int, np.generic)) and y != 0):
        return y
    return select_scalar(e.eq(y, e.scalar(0, y)), e.scalar(1, y), y)


def divmod(x: Any, y: Any, /) -> tuple[Any, Any]:
    """Floor division and its remainder.

    >>> import xpr.numpy as jnp
    >>> jnp.divmod(jnp.array([7]), 2)
    (Array([3], dtype=int32), Array([1], dtype=int32))
    """
    x, y = _numbers(x, y)
    if aval_of(x).dtype in INTEGERS:
        return floor_divide(x, y), remainder(x, y)
    quotient, rest = _divmod(x, y)
    return quotient, rest


def fmod(x: Any, y: Any, /) -> Any:
    """The remainder of dividing towards zero; it has the sign of x.

    >>> import xpr.numpy as jnp
    >>> jnp.fmod(jnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """
    x, y = _numbers(x, y)
    return e.rem_p.bind(x, _no_zero(y))


def power(x: Any, y: Any, /) -> Any:
    """x to the power y, entry by entry; a static integer power is made of multiplications.

    >>> import xpr.numpy as jnp
    >>> jnp.power(jnp.array([1.0, 2.0, 3.0]), 2)
    Array([1., 4., 9.], dtype=float32)
    """
    if type(y) is int or isinstance(y, np.integer):
        x = as_operand(x)
        if aval_of(x).dtype == BOOL:
            x = convert(x, dtypes.int32, False)
        return e.integer_pow(x, int(y)) if int(y) != 1 else asarray_like(x)
    x, y = _numbers(x, y)
    if aval_of(x).dtype in INEXACT:
        return e.pow_p.bind(x, y)
    return _integer_power(*promote_shapes(x, y))


def _integer_power(x: Any, y: Any) -> Any:
    """Repeated squaring, a bit of the exponent at a time; negative exponents give 0 but for the bases 1 and -1."""
    dtype = aval_of(x).dtype
    one, zero = dtype.type(1), dtype.type(0)
    shape = aval_of(x).shape or aval_of(y).shape
    result, rest = full(shape, 1, dtype), y
    base = x
    for _ in range(8 * dtype.itemsize):
        odd = e.ne(e.bitwise_and(rest, one), zero)
        result = e.mul(result, select_scalar(odd, base, one))
        rest = e.shift_right_logical(rest, one)
        base = e.mul(base, base)
    if dtype in dtypes.UNSIGNED:
        return result
    unit = e.bitwise_or(e.eq(x, one), e.eq(x, dtype.type(-1)))
    vanishing = e.bitwise_and(e.lt(y, zero), e.bitwise_not(unit))
    return select_scalar(vanishing, zero, result)


def select_scalar(condition: Any, on_true: Any, on_false: Any) -> Any:
    """`select` whose operands may be scalars beside arrays, or have axes of size 1 that stretch."""
    own = aval_of(condition).shape
    shape = broadcast_shapes(own, aval_of(on_true).shape, aval_of(on_false).shape)
    condition = broadcast_to(condition, shape) if own else condition
    return select(condition, broadcast_to(on_true, shape), broadcast_to(on_false, shape))


def float_power(x: Any, y: Any, /) -> Any:
    """x to the power y in floating point.

    >>> import xpr.numpy as jnp
    >>> jnp.float_power(2, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    return e.pow_p.bind(*promote_ranks(*promote_inexact(x, y)))


def fmax(x: Any, y: Any, /) -> Any:
    """The greater of two arrays, entry by entry; the other one where one is nan.

    >>> import xpr.numpy as jnp
    >>> jnp.fmax(jnp.array([1.0, jnp.nan]), 0.5)
    Array([1. , 0.5], dtype=float32)
    """
    x, y = promote_shapes(*promoted_pair(x, y))
    return select_scalar(e.bitwise_or(e.gt(x, y), e.ne(y, y)), x, y)


def fmin(x: Any, y: Any, /) -> Any:
    """The lesser of two arrays, entry by entry; the other one where one is nan.

    >>> import xpr.numpy as jnp
    >>> jnp.fmin(jnp.array([1.0, jnp.nan]), 0.5)
    Array([0.5, 0.5], dtype=float32)
    """
    x, y = promote_shapes(*promoted_pair(x, y))
    return select_scalar(e.bitwise_or(e.lt(x, y), e.ne(y, y)), x, y)


def hypot(x: Any, y: Any, /) -> Any:
    """sqrt(x^2 + y^2) without overflow on the way.

    >>> import xpr.numpy as jnp
    >>> jnp.hypot(3.0, 4.0)
    Array(5., dtype=float32, weak_type=True)
    """
    x, y = (e.abs(v) for v in promote_shapes(*promote_inexact(x, y)))
    large, small = e.max(x, y), e.min(x, y)
    one, infinity = e.scalar(1, large), e.scalar(np.inf, large)
    at_origin = e.eq(large, e.scalar(0, large))
    ratio = e.div(small, select_scalar(at_origin, one, large))
    root = e.mul(large, e.sqrt(e.add(one, e.mul(ratio, ratio))))
    return select_scalar(e.eq(large, infinity), infinity, root)


def logaddexp(x: Any, y: Any, /) -> Any:
    """log(exp(x) + exp(y)) without overflow.

    >>> import xpr.numpy as jnp
    >>> jnp.logaddexp(0.0, 0.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    x, y = promote_shapes(*promote_inexact(x, y))
    return _logaddexp(x, y)


def _logaddexp(x: Any, y: Any) -> Any:
    """max(x, y) + log1p(exp(-|x - y|)).

    The maximum and -|x - y| are written as choices of one side, so derivatives of every order are right where x = y,
    too. Where both are one infinity their difference is nan; there it is taken as 0.
    """
    x_is_ahead = e.gt(x, y)
    gap = select_scalar(x_is_ahead, e.sub(y, x), e.sub(x, y))
    same_infinity = e.bitwise_and(e.eq(x, y), e.ne(gap, gap))
    gap = select_scalar(same_infinity, e.scalar(0, gap), gap)
    return e.add(select_scalar(x_is_ahead, x, y), e.log1p(e.exp(gap)))


def logaddexp2(x: Any, y: Any, /) -> Any:
    """log2(2^x + 2^y) without overflow.

    >>> import xpr.numpy as jnp
    >>> jnp.logaddexp2(0.0, 0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    x, y = promote_shapes(*promote_inexact(x, y))
    ln2 = e.scalar(np.log(2), x)
    return e.div(_logaddexp(e.mul(x, ln2), e.mul(y, ln2)), ln2)


def copysign(x: Any, y: Any, /) -> Any:
    """The size of x with the sign of y.

    >>> import xpr.numpy as jnp
    >>> jnp.copysign(jnp.array([1.0, -2.0]), -1)
    Array([-1., -2.], dtype=float32)
    """
    x, y = promote_shapes(*promote_inexact(x, y))
    size = e.abs(x)
    return select_scalar(signbit(y), e.neg(size), size)


def signbit(x: Any, /) -> Any:
    """Whether the sign bit is set: also for -0.0.

    >>> import xpr.numpy as jnp
    >>> jnp.signbit(jnp.array([1.0, -0.0]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    dtype = aval_of(x).dtype
    if dtype in dtypes.FLOATS:
        bits = np.dtype(f"int{8 * dtype.itemsize}")
        return e.lt(e.bitcast_convert_type_p.bind(x, new_dtype=bits), bits.type(0))
    if dtype in dtypes.SIGNED:
        return e.lt(x, dtype.type(0))
    return asarray_like(full(aval_of(x).shape, False, BOOL))


def heaviside(x: Any, y: Any, /) -> Any:
    """0 below zero, 1 above it, and y at it.

    >>> import xpr.numpy as jnp
    >>> jnp.heaviside(jnp.array([-1.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x, y = promote_shapes(*promote_inexact(x, y))
    zero, one = e.scalar(0, x), e.scalar(1, x)
    step = select_scalar(e.gt(x, zero), one, select_scalar(e.ne(x, x), x, zero))
    return select_scalar(e.eq(x, zero), y, step)


def sinc(x: Any, /) -> Any:
    """sin(pi x) / (pi x), and 1 at 0.

    >>> import xpr.numpy as jnp
    >>> jnp.sinc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    at_zero = e.eq(x, e.scalar(0, x))
    pi_x = e.mul(x, e.scalar(np.pi, x))
    safe = select_scalar(at_zero, e.scalar(1, x), pi_x)
    near = e.sub(e.scalar(1, x), e.div(e.mul(pi_x, pi_x), e.scalar(6, x)))  # the series at 0, for derivatives there
    return select_scalar(at_zero, near, e.div(e.sin(safe), safe))


def log2(x: Any, /) -> Any:
    """The logarithm to base 2.

    >>> import xpr.numpy as jnp
    >>> jnp.log2(jnp.array([1.0, 2.0]))
    Array([0., 1.], dtype=float32)
    """
    (x,) = promote_inexact(x)
    return e.div(e.log(x), e.scalar(np.log(2), x))


def log10(x: Any, /) -> Any:
    """The logarithm to base 10.

    >>> import xpr.numpy as jnp
    >>> jnp.log10(jnp.array([1.0, 10.0]))
    Array([0., 1.], dtype=float32)
    """
    (x,) = promote_inexact(x)
    return e.mul(e.log(x), e.scalar(1 / np.log(10), x))


def deg2rad(x: Any, /) -> Any:
    """Degrees as radians.

    >>> import xpr.numpy as jnp
    >>> jnp.deg2rad(180.0)
    Array(3.1415927, dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    return multiply(x, float(np.pi / 180))


def rad2deg(x: Any, /) -> Any:
    """Radians as degrees.

    >>> import xpr.numpy as jnp
    >>> jnp.rad2deg(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    return multiply(x, float(180 / np.pi))


degrees, radians = rad2deg, deg2rad


def ldexp(x: Any, y: Any, /) -> Any:
    """x times 2 to the integer power y.

    >>> import xpr.numpy as jnp
    >>> jnp.ldexp(3.0, 2)
    Array(12., dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    exponent = convert(as_operand(y), aval_of(x).dtype, aval_of(x).weak_type)
    x, exponent = promote_ranks(x, exponent)
    return e.mul(x, e.exp2(exponent))


# -- Rounding


def _rounded(x: Any, primitive: Any) -> Any:
    """Floats rounded; integers and booleans as they are."""
    x = as_operand(x)
    return asarray_like(x) if aval_of(x).dtype in INTEGERS or aval_of(x).dtype == BOOL else primitive.bind(x)


def floor(x: Any, /) -> Any:
    """The greatest integer not above each entry, in its dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.floor(jnp.array([1.5, -1.5]))
    Array([ 1., -2.], dtype=float32)
    """
    return _rounded(x, e.floor_p)


def ceil(x: Any, /) -> Any:
    """The least integer not below each entry, in its dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.ceil(jnp.array([1.5, -1.5]))
    Array([ 2., -1.], dtype=float32)
    """
    return _rounded(x, e.ceil_p)


def trunc(x: Any, /) -> Any:
    """Each entry without its fraction.

    >>> import xpr.numpy as jnp
    >>> jnp.trunc(jnp.array([1.5, -1.5]))
    Array([ 1., -1.], dtype=float32)
    """
    x = as_operand(x)
    if aval_of(x).dtype not in dtypes.FLOATS:
        return asarray_like(x)
    return select(e.lt(x, aval_of(x).dtype.type(0)), e.ceil(x), e.floor(x))


fix = trunc


def rint(x: Any, /) -> Any:
    """The nearest integer as a float, halves to even.

    >>> import xpr.numpy as jnp
    >>> jnp.rint(jnp.array([0.5, 1.5]))
    Array([0., 2.], dtype=float32)
    """
    (x,) = promote_inexact(x)
    if aval_of(x).dtype in COMPLEX:
        return e.complex_(e.round(e.real(x), 1), e.round(e.imag(x), 1))
    return e.round(x, 1)


def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """Each entry rounded to so many decimals, halves to even.

    >>> import xpr.numpy as jnp
    >>> jnp.round(jnp.array([1.25, 2.75]), 1)
    Array([1.2, 2.8], dtype=float32)
    """
    a = as_operand(a)
    dtype = aval_of(a).dtype
    if dtype in INTEGERS:
        if decimals < 0:
            raise NotImplementedError("round: integers to a negative number of decimals. Convert to float first.")
        return asarray_like(a)
    if decimals == 0 or dtype in COMPLEX:
        return rint(a) if decimals == 0 else e.complex_(round(e.real(a), decimals), round(e.imag(a), decimals))
    factor = e.scalar(10.0**decimals, a)
    return e.div(e.round(e.mul(a, factor), 1), factor)


around = round


def modf(x: Any, /, out: None = None) -> tuple[Any, Any]:
    """The fractional and the whole part of each entry, both with its sign.

    >>> import xpr.numpy as jnp
    >>> jnp.modf(jnp.array([1.5]))
    (Array([0.5], dtype=float32), Array([1.], dtype=float32))
    """
    (x,) = promote_inexact(x)
    whole = trunc(x)
    return e.sub(x, whole), whole


def clip(arr: Any, /, min: Any = None, max: Any = None) -> Any:
    """Each entry, moved to the nearer bound if it lies outside.

    >>> import xpr.numpy as jnp
    >>> jnp.clip(jnp.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    arr = asarray_like(arr)
    if aval_of(arr).dtype in COMPLEX:
        raise ValueError("clip: complex numbers are not ordered. Clip the real and imaginary parts.")
    if min is not None:
        arr = maximum(arr, min)
    return arr if max is None else minimum(arr, max)


# -- Complex numbers


def real(val: Any, /) -> Any:
    """The real part of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.real(jnp.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    val = as_operand(val)
    return e.real_p.bind(val) if aval_of(val).dtype in COMPLEX else asarray_like(val)


def imag(val: Any, /) -> Any:
    """The imaginary part of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.imag(jnp.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    val = as_operand(val)
    aval = aval_of(val)
    return e.imag_p.bind(val) if aval.dtype in COMPLEX else asarray_like(zeros_like_aval(aval))


def conjugate(x: Any, /) -> Any:
    """The complex conjugate of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.conjugate(jnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    x = as_operand(x)
    return e.conj_p.bind(x) if aval_of(x).dtype in COMPLEX else asarray_like(x)


conj = conjugate


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of each entry in the complex plane, in radians (or degrees).

    >>> import xpr.numpy as jnp
    >>> jnp.angle(1j)
    Array(1.5707964, dtype=float32, weak_type=True)
    """
    (z,) = promote_inexact(z)
    result = arctan2(imag(z), real(z))
    return rad2deg(result) if deg else result


# -- Tests of entries


def isnan(x: Any, /) -> Any:
    """Whether each entry is nan.

    >>> import xpr.numpy as jnp
    >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    return e.ne(x, x)


def isfinite(x: Any, /) -> Any:
    """Whether each entry is neither infinite nor nan.

    >>> import xpr.numpy as jnp
    >>> jnp.isfinite(jnp.array([1.0, jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    if aval.dtype in COMPLEX:
        return e.bitwise_and(e.is_finite(e.real(x)), e.is_finite(e.imag(x)))
    return e.is_finite_p.bind(x) if aval.dtype in dtypes.FLOATS else asarray_like(full(aval.shape, True, BOOL))


def isinf(x: Any, /) -> Any:
    """Whether each entry is infinite.

    >>> import xpr.numpy as jnp
    >>> jnp.isinf(jnp.array([1.0, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    if aval.dtype in COMPLEX:
        return e.bitwise_or(isinf(e.real(x)), isinf(e.imag(x)))
    return e.eq(e.abs(x), aval.dtype.type(np.inf)) if aval.dtype in dtypes.FLOATS else full(aval.shape, False, BOOL)


def isposinf(x: Any, /, out: None = None) -> Any:
    """Whether each entry is positive infinity.

    >>> import xpr.numpy as jnp
    >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    return e.eq(x, aval.dtype.type(np.inf)) if aval.dtype in dtypes.FLOATS else full(aval.shape, False, BOOL)


def isneginf(x: Any, /, out: None = None) -> Any:
    """Whether each entry is negative infinity.

    >>> import xpr.numpy as jnp
    >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    x = as_operand(x)
    aval = aval_of(x)
    return e.eq(x, aval.dtype.type(-np.inf)) if aval.dtype in dtypes.FLOATS else full(aval.shape, False, BOOL)


def isreal(x: Any) -> Any:
    """Whether each entry has no imaginary part.

    >>> import xpr.numpy as jnp
    >>> jnp.isreal(jnp.array([1.0, 1j]))
    Array([ True, False], dtype=bool)
    """
    part = imag(x)
    return e.eq(part, aval_of(part).dtype.type(0))


def iscomplex(x: Any) -> Any:
    """Whether each entry has an imaginary part.

    >>> import xpr.numpy as jnp
    >>> jnp.iscomplex(jnp.array([1.0, 1j]))
    Array([False,  True], dtype=bool)
    """
    part = imag(x)
    return e.ne(part, aval_of(part).dtype.type(0))


def logical_not(x: Any, /) -> Any:
    """Whether each entry is false.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_not(jnp.array([0, 3]))
    Array([ True, False], dtype=bool)
    """
    return e.not_p.bind(truth(x))


# -- Functions of floats

exp = float_unary(
    "exp",
    e.exp_p,
    """e to the power of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.exp(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
)
exp2 = float_unary(
    "exp2",
    e.exp2_p,
    """2 to the power of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.exp2(jnp.array([3.0]))
    Array([8.], dtype=float32)
    """,
)
expm1 = float_unary(
    "expm1",
    e.expm1_p,
    """exp(x) - 1, accurate near 0.

    >>> import xpr.numpy as jnp
    >>> jnp.expm1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
log = float_unary(
    "log",
    e.log_p,
    """The natural logarithm of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.log(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
log1p = float_unary(
    "log1p",
    e.log1p_p,
    """log(1 + x), accurate near 0.

    >>> import xpr.numpy as jnp
    >>> jnp.log1p(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
sqrt = float_unary(
    "sqrt",
    e.sqrt_p,
    """The square root of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.sqrt(jnp.array([4.0, 9.0]))
    Array([2., 3.], dtype=float32)
    """,
)
cbrt = float_unary(
    "cbrt",
    e.cbrt_p,
    """The cube root of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.cbrt(jnp.array([8.0]))
    Array([2.], dtype=float32)
    """,
)
sin = float_unary(
    "sin",
    e.sin_p,
    """The sine of each entry, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.sin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
cos = float_unary(
    "cos",
    e.cos_p,
    """The cosine of each entry, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.cos(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
)
tan = float_unary(
    "tan",
    e.tan_p,
    """The tangent of each entry, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.tan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
sinh = float_unary(
    "sinh",
    e.sinh_p,
    """The hyperbolic sine of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.sinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
cosh = float_unary(
    "cosh",
    e.cosh_p,
    """The hyperbolic cosine of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.cosh(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
)
tanh = float_unary(
    "tanh",
    e.tanh_p,
    """The hyperbolic tangent of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arcsin = float_unary(
    "arcsin",
    e.asin_p,
    """The arc sine of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.arcsin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arccos = float_unary(
    "arccos",
    e.acos_p,
    """The arc cosine of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.arccos(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arctan = float_unary(
    "arctan",
    e.atan_p,
    """The arc tangent of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.arctan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arcsinh = float_unary(
    "arcsinh",
    e.asinh_p,
    """The inverse hyperbolic sine of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.arcsinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arccosh = float_unary(
    "arccosh",
    e.acosh_p,
    """The inverse hyperbolic cosine of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.arccosh(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
arctanh = float_unary(
    "arctanh",
    e.atanh_p,
    """The inverse hyperbolic tangent of each entry.

    >>> import xpr.numpy as jnp
    >>> jnp.arctanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
asin = arcsin
acos = arccos
atan = arctan
asinh = arcsinh
acosh = arccosh
atanh = arctanh
atan2 = arctan2

# -- Comparisons and logic

equal = binary(
    "equal",
    e.eq_p,
    """Whether entries are equal.

    >>> import xpr.numpy as jnp
    >>> jnp.equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True, False], dtype=bool)
    """,
)
not_equal = binary(
    "not_equal",
    e.ne_p,
    """Whether entries differ.

    >>> import xpr.numpy as jnp
    >>> jnp.not_equal(jnp.array([1, 2, 3]), 2)
    Array([ True, False,  True], dtype=bool)
    """,
)
less = binary(
    "less",
    e.lt_p,
    """Whether entries of x are less than those of y.

    >>> import xpr.numpy as jnp
    >>> jnp.less(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """,
)
less_equal = binary(
    "less_equal",
    e.le_p,
    """Whether entries of x are at most those of y.

    >>> import xpr.numpy as jnp
    >>> jnp.less_equal(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """,
)
greater = binary(
    "greater",
    e.gt_p,
    """Whether entries of x are greater than those of y.

    >>> import xpr.numpy as jnp
    >>> jnp.greater(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """,
)
greater_equal = binary(
    "greater_equal",
    e.ge_p,
    """Whether entries of x are at least those of y.

    >>> import xpr.numpy as jnp
    >>> jnp.greater_equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """,
)
logical_and = logical(
    "logical_and",
    e.and_p,
    """Whether both entries are true.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_and(jnp.array([True, False]), True)
    Array([ True, False], dtype=bool)
    """,
)
logical_or = logical(
    "logical_or",
    e.or_p,
    """Whether either entry is true.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_or(jnp.array([True, False]), True)
    Array([ True,  True], dtype=bool)
    """,
)
logical_xor = logical(
    "logical_xor",
    e.xor_p,
    """Whether just one of the entries is true.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_xor(jnp.array([True, False]), True)
    Array([False,  True], dtype=bool)
    """,
)

# -- Bits

bitwise_and = binary(
    "bitwise_and",
    e.and_p,
    """Bitwise and.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_and(jnp.array([6, 3]), 5)
    Array([4, 1], dtype=int32)
    """,
)
bitwise_or = binary(
    "bitwise_or",
    e.or_p,
    """Bitwise or.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_or(jnp.array([6, 3]), 5)
    Array([7, 7], dtype=int32)
    """,
)
bitwise_xor = binary(
    "bitwise_xor",
    e.xor_p,
    """Bitwise exclusive or.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_xor(jnp.array([6, 3]), 5)
    Array([3, 6], dtype=int32)
    """,
)


def left_shift(x: Any, y: Any, /) -> Any:
    """The bits of x moved up by y places.

    >>> import xpr.numpy as jnp
    >>> jnp.left_shift(jnp.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """
    return e.shift_left_p.bind(*_numbers(x, y))


def right_shift(x: Any, y: Any, /) -> Any:
    """The bits of x moved down by y places, the sign of signed integers moving in.

    >>> import xpr.numpy as jnp
    >>> jnp.right_shift(jnp.array([8, -8]), 2)
    Array([ 2, -2], dtype=int32)
    """
    x, y = _numbers(x, y)
    primitive = e.shift_right_logical_p if aval_of(x).dtype in dtypes.UNSIGNED else e.shift_right_arithmetic_p
    return primitive.bind(x, y)


def invert(x: Any, /) -> Any:
    """The bits of each entry, flipped; the negation of booleans.

    >>> import xpr.numpy as jnp
    >>> jnp.invert(jnp.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """
    return e.not_p.bind(as_operand(x))


bitwise_not = bitwise_invert = invert
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


def bitwise_count(x: Any, /) -> Any:
    """How many bits are set in the absolute value of each entry, as uint8.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_count(jnp.array([0, 7]))
    Array([0, 3], dtype=uint8)
    """
    x = absolute(x)
    return convert(e.population_count(x), dtypes.uint8)


def gcd(x1: Any, x2: Any, /) -> Any:
    """The greatest common divisor of integers, by Euclid's algorithm run as often as the dtype can need.

    >>> import xpr.numpy as jnp
    >>> jnp.gcd(12, jnp.array([8, 9]))
    Array([4, 3], dtype=int32)
    """
    x, y = promoted_pair(x1, x2)
    dtype = aval_of(x).dtype
    if dtype not in INTEGERS:
        raise TypeError(f"gcd: takes integers, and got {dtypes.short_name(dtype)}.")
    shape = broadcast_shapes(aval_of(x).shape, aval_of(y).shape)
    x, y = broadcast_to(absolute(x), shape), broadcast_to(absolute(y), shape)
    zero = dtype.type(0)
    for _ in range(_EUCLID_STEPS[dtype.itemsize]):
        done = e.eq(y, zero)
        x, y = select(done, x, y), select(done, y, e.rem(x, select_scalar(done, dtype.type(1), y)))
    return x


_EUCLID_STEPS = {1: 12, 2: 24, 4: 46, 8: 92}  # consecutive Fibonacci numbers below 2^bits take the most steps


def lcm(x1: Any, x2: Any, /) -> Any:
    """The least common multiple of integers.

    >>> import xpr.numpy as jnp
    >>> jnp.lcm(4, jnp.array([6, 8]))
    Array([12,  8], dtype=int32)
    """
    x, y = promoted_pair(x1, x2)
    divisor = gcd(x, y)
    at_zero = e.eq(divisor, aval_of(divisor).dtype.type(0))
    safe = select_scalar(at_zero, aval_of(divisor).dtype.type(1), divisor)
    return absolute(multiply(x, floor_divide(y, safe)))
