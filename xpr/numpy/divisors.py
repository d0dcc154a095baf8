"""Divisors and multiples of integers."""

from __future__ import annotations

from typing import Any

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.while_.function import while_loop
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.numpy.arithmetic import absolute, multiply
from xpr.numpy.promotion import convert, promoted_pair, select_scalar
from xpr.primitives import elementwise as e
from xpr.primitives.composites import broadcast_shapes
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import broadcast_to
from xpr.primitives.slicing import select

__all__ = ["gcd", "lcm"]


@compiled_eagerly()
def gcd(x1: Any, x2: Any) -> Any:
    """The greatest common divisor of integers, elementwise.

    By Euclid's algorithm, for as many steps as the pair of numbers that needs most.

    Args:
      x1: array of integers.
      x2: integers that broadcast against `x1`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    Raises:
      TypeError: an operand is not of integers.

    >>> import xpr.numpy as jnp
    >>> jnp.gcd(12, jnp.array([8, 9]))
    Array([4, 3], dtype=int32)
    """
    x, y = promoted_pair(x1, x2)
    dtype = aval_of(x).dtype
    if dtype not in dtypes.INTEGERS:
        raise ArgumentError(f"gcd: takes integers, and got {dtypes.short_name(dtype)}.")
    shape = broadcast_shapes(aval_of(x).shape, aval_of(y).shape)
    x, y = broadcast_to(absolute(x), shape), broadcast_to(absolute(y), shape)
    zero, one = e.scalar(0, x), e.scalar(1, x)

    def step(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        x, y = pair
        done = e.eq(y, zero)
        return select(done, x, y), select(done, y, e.rem(x, select_scalar(done, one, y)))

    x, y = while_loop(lambda pair: reduce_or(e.ne(pair[1], zero), range(len(shape))), step, (x, y))
    return convert(x, dtype, False) if shape else x


@compiled_eagerly()
def lcm(x1: Any, x2: Any) -> Any:
    """The least common multiple of integers, elementwise.

    Args:
      x1: array of integers.
      x2: integers that broadcast against `x1`.

    Returns:
      An array of the broadcast shape and the dtype to which both promote.

    Raises:
      TypeError: an operand is not of integers.

    >>> import xpr.numpy as jnp
    >>> jnp.lcm(4, jnp.array([6, 8]))
    Array([12,  8], dtype=int32)
    """
    x, y = promoted_pair(x1, x2)
    divisor = gcd(x, y)
    at_zero = e.eq(divisor, e.scalar(0, divisor))
    safe = select_scalar(at_zero, e.scalar(1, divisor), divisor)
    return multiply(absolute(x), e.div(absolute(y), safe))
