"""Bitwise functions of integers and booleans."""

from __future__ import annotations

from typing import Any

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.numpy.arithmetic import absolute
from xpr.numpy.promotion import arithmetic_operands, as_operand, convert
from xpr.numpy.ufunc_builders import alias, binary
from xpr.primitives import elementwise as e

__all__ = [
    "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_right_shift", "invert", "left_shift", "right_shift",
]  # fmt: skip

bitwise_and = binary(
    "bitwise_and",
    e.and_p,
    """Bitwise and.

    Args:
      x: array of integers or booleans, or a number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_and(jnp.array([6, 3]), 5)
    Array([4, 1], dtype=int32)
    """,
)
bitwise_or = binary(
    "bitwise_or",
    e.or_p,
    """Bitwise or.

    Args:
      x: array of integers or booleans, or a number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_or(jnp.array([6, 3]), 5)
    Array([7, 7], dtype=int32)
    """,
)
bitwise_xor = binary(
    "bitwise_xor",
    e.xor_p,
    """Bitwise exclusive or.

    Args:
      x: array of integers or booleans, or a number.
      y: array or number that broadcasts against `x`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_xor(jnp.array([6, 3]), 5)
    Array([3, 6], dtype=int32)
    """,
)


def left_shift(x: Any, y: Any, /) -> Any:
    """x shifted left by y bits, elementwise.

    Args:
      x: array of integers.
      y: integers that broadcast against `x`: how many bits.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.left_shift(jnp.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """
    return e.shift_left_p.bind(*arithmetic_operands(x, y, "left_shift"))


def right_shift(x: Any, y: Any, /) -> Any:
    """x shifted right by y bits, elementwise; signed integers keep their sign.

    Args:
      x: array of integers.
      y: integers that broadcast against `x`: how many bits.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    >>> import xpr.numpy as jnp
    >>> jnp.right_shift(jnp.array([8, -8]), 2)
    Array([ 2, -2], dtype=int32)
    """
    x, y = arithmetic_operands(x, y, "right_shift")
    primitive = e.shift_right_logical_p if aval_of(x).dtype in dtypes.UNSIGNED else e.shift_right_arithmetic_p
    return primitive.bind(x, y)


def invert(x: Any, /) -> Any:
    """The bits of each element inverted; logical not for booleans.

    >>> import xpr.numpy as jnp
    >>> jnp.invert(jnp.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """
    return e.not_p.bind(as_operand(x))


bitwise_not, bitwise_invert = alias(invert, "bitwise_not"), alias(invert, "bitwise_invert")
bitwise_left_shift = alias(left_shift, "bitwise_left_shift")
bitwise_right_shift = alias(right_shift, "bitwise_right_shift")


def bitwise_count(x: Any, /) -> Any:
    """The number of bits set in the absolute value of each element, as uint8.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_count(jnp.array([0, 7]))
    Array([0, 3], dtype=uint8)
    """
    x = absolute(x)
    bits = convert(x, dtypes.uint8) if aval_of(x).dtype == dtypes.bool_ else x
    return convert(e.population_count(bits), dtypes.uint8)
