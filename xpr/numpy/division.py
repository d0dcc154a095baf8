"""Division with a remainder."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.numpy.promotion import arithmetic_operands, select_scalar
from xpr.numpy.ufunc_builders import alias
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import broadcast_to
from xpr.primitives.slicing import select

__all__ = ["divmod", "fmod"]


def floor_divide(x: Any, y: Any, /) -> Any:
    """floor(x / y), elementwise: the greatest integer not above the quotient.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    Raises:
      TypeError: operands are complex.

    >>> import xpr.numpy as jnp
    >>> jnp.floor_divide(jnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """
    x, y = arithmetic_operands(x, y, "floor_divide")
    dtype = aval_of(x).dtype
    if dtype in dtypes.UNSIGNED:
        return e.div_p.bind(x, y)
    if dtype in dtypes.INTEGERS:
        return _floor_divide(x, y)
    if dtype in dtypes.COMPLEX:
        raise TypeError("floor_divide: complex numbers are not ordered, so they have no floor.")
    return _divmod(x, y)[0]


@compiled
def _floor_divide(x: Any, y: Any) -> Any:
    quotient, rem = e.div(x, y), e.rem(x, y)
    zero, one = e.scalar(0, rem), e.scalar(1, quotient)
    below = e.bitwise_and(e.ne(rem, zero), e.ne(e.lt(rem, zero), e.lt(y, zero)))
    return select(below, e.sub(quotient, one), quotient)


@compiled
def _divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """Quotient and remainder of floats as in NumPy: the quotient is (x - rem) / y rounded; and the floor of x / y where
    that is a zero or has no remainder, as the Python array API standard says, where NumPy gives nan for infinite x.
    """
    rem = e.rem(x, y)
    zero, one = e.scalar(0, rem), e.scalar(1, rem)
    wrong_sign = e.bitwise_and(e.ne(rem, zero), e.ne(e.lt(y, zero), e.lt(rem, zero)))
    are_ordinary = e.bitwise_and(*[e.bitwise_and(e.is_finite(v), e.ne(v, zero)) for v in (x, y)])
    quotient = e.div(select_scalar(are_ordinary, e.sub(x, rem), x), y)
    lower = select(wrong_sign, e.sub(quotient, one), quotient)
    whole = e.round(lower, e.RoundingMethod.TO_NEAREST_EVEN)  # several at a time, unlike halves away from zero
    floor = select_scalar(are_ordinary, whole, e.floor(quotient))
    return floor, _signed_like(select(wrong_sign, e.add(rem, y), rem), y)


def _signed_like(rem: Any, y: Any) -> Any:
    """A remainder that has the sign of y or is zero, with the sign of y in either case, and its derivative."""
    is_negative = broadcast_to(e.lt(y, e.scalar(0, y)), aval_of(rem).shape)
    size = e.abs(select(is_negative, e.neg(rem), rem))
    return select(is_negative, e.neg(size), size)


def remainder(x: Any, y: Any, /) -> Any:
    """The remainder of x after floor division by y, elementwise; it has the sign of y.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.remainder(jnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """
    x, y = arithmetic_operands(x, y, "remainder")
    if aval_of(x).dtype in dtypes.UNSIGNED:
        return e.rem(x, _no_zero(y))
    return _remainder(x, y)


@compiled
def _remainder(x: Any, y: Any) -> Any:
    rem = e.rem(x, _no_zero(y))
    zero = aval_of(x).dtype.type(0)
    wrong_sign = e.bitwise_and(e.ne(rem, zero), e.ne(e.lt(rem, zero), e.lt(y, zero)))
    rem = select(wrong_sign, e.add(rem, y), rem)
    return _signed_like(rem, y) if aval_of(x).dtype in dtypes.FLOATS else rem


mod = alias(remainder, "mod")


def _no_zero(y: Any) -> Any:
    """An integer divisor with zeros replaced by ones, so that remainders of division by zero are 0, as in NumPy."""
    if aval_of(y).dtype not in dtypes.INTEGERS or (isinstance(y, (int, np.generic)) and y != 0):
        return y
    return select_scalar(e.eq(y, e.scalar(0, y)), e.scalar(1, y), y)


@compiled_eagerly()
def divmod(x: Any, y: Any, /) -> tuple[Any, Any]:
    """`floor_divide(x, y)` and `remainder(x, y)` at once.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      `(quotient, remainder)`, of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.divmod(jnp.array([7]), 2)
    (Array([3], dtype=int32), Array([1], dtype=int32))
    """
    x, y = arithmetic_operands(x, y, "divmod")
    if aval_of(x).dtype in dtypes.INTEGERS:
        return floor_divide(x, y), remainder(x, y)
    quotient, rem = _divmod(x, y)
    return quotient, rem


@compiled_eagerly()
def fmod(x: Any, y: Any, /) -> Any:
    """The remainder of division that rounds towards zero, elementwise; it has the sign of x.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.fmod(jnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """
    x, y = arithmetic_operands(x, y, "fmod")
    return e.rem_p.bind(x, _no_zero(y))
