"""Bernoulli's numbers."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from xpr import numpy as jnp

__all__ = ["bernoulli"]


def bernoulli(n: int) -> Any:
    """Bernoulli's numbers B_0, ..., B_n, with B_1 = -1/2.

    Args:
      n: the last index, a Python integer.

    Returns:
      Floats [n + 1].

    Raises:
      ValueError: `n` is negative.

    >>> from xpr.scipy import special
    >>> [round(float(b), 4) for b in special.bernoulli(4)]
    [1.0, -0.5, 0.1667, 0.0, -0.0333]
    """
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"bernoulli: the last index is 0 or more, and n is {n}.")
    return jnp.asarray(np.array([_number(m) for m in range(n + 1)]).astype(jnp.result_type(float)))


def _number(m: int) -> float:
    """Exact for small indices, beyond from -B_m = 2 m! cos(pi m / 2) zeta(m) / (2 pi)^m (DLMF 25.6.2)."""
    if m < len(_EXACT):
        return float(_EXACT[m])
    if m % 2:
        return 0.0
    log = math.lgamma(m + 1) - m * math.log(2 * math.pi)
    size = 2 * math.exp(log) if log < 709 else math.inf
    return size * (1 + 2.0**-m) * (-1) ** (m // 2 + 1)


def _exact(count: int) -> list[Fraction]:
    """By the recurrence sum over k <= m of (m + 1 over k) B_k = 0."""
    numbers = [Fraction(1)]
    for m in range(1, count):
        numbers.append(-sum((math.comb(m + 1, k) * b for k, b in enumerate(numbers)), Fraction()) / (m + 1))
    return numbers


_EXACT = _exact(32)
