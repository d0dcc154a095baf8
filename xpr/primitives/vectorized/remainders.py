"""Remainders of floats, exact as those of C's `fmod`, which XLA:CPU calls for each element.

What is left of x when n y are taken from it, n = x / y rounded, is an exact number, if n y is: if both have few bits.
"""

from __future__ import annotations

import math

from xpr.dtypes import float32, float64, int32, int64
from xpr.primitives.vectorized.expressions import Expression, select, times_sign, widened_size

_STEPS, _BITS = 10, 29  # of quotients of float32 numbers, which are below 2^277
_REACH = 2.0**25  # quotients of float64 numbers below which there is one step


def remainder(x: Expression, y: Expression) -> Expression:
    return _long_division(x, y, _STEPS)


def remainder_of_small_quotient(x: Expression, y: Expression) -> Expression:
    """Of quotients of at most 28 bits; for the function in C, which sees how large they are."""
    return _long_division(x, y, 1)


def _long_division(x: Expression, y: Expression, steps: int) -> Expression:
    """In float64: 29 bits of the quotient in each step, times 24 of y; of either sign until the last.

    Subnormal results are made of their bits.
    """
    of_x, of_y = widened_size(x), widened_size(y)
    reciprocal, rest = 1.0 / of_y, of_x * 2.0 ** (-_BITS * (steps - 1))
    for step in range(steps):
        rest = rest * 2.0**_BITS if step else rest
        rest = rest - (rest * reciprocal).round() * of_y
    rest = _from_zero_to(of_y, rest, of_x)
    bits = (rest * 2.0**149).to(int32).bits_as(float32)
    return times_sign(select(rest < 2.0**-126, bits, rest.to(float32)), x)


def long_remainder(x: Expression, y: Expression) -> Expression:
    """In one step: 26 bits of the quotient, times y in two parts of as many."""
    of_x, of_y = abs(x), abs(y)
    n = (of_x / of_y).round()
    upper = (of_y.bits_as(int64) & -(1 << 27)).bits_as(float64)
    rest = (of_x - n * upper) - n * (of_y - upper)
    return times_sign(_from_zero_to(of_y, rest, of_x), x)


def is_beyond(x: Expression, y: Expression) -> Expression:
    """Where the quotient is large, or y so small that the rest may be subnormal, which is 0 to XLA."""
    of_x, of_y = abs(x), abs(y)
    is_large = (of_x / of_y >= _REACH) & (of_x < math.inf) & (of_y > 0.0)
    return is_large | ((of_y < 2.0**-960) & (of_y.bits_as(int64) > 0))


def _from_zero_to(y: Expression, rest: Expression, x: Expression) -> Expression:
    """A rest of either sign as one from 0 to y; x where it is less than y, which may be infinite."""
    return select(x < y, x, select(rest < 0.0, rest + y, rest))
