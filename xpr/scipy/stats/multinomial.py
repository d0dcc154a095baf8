"""The multinomial distribution: how often each outcome, of probabilities along the last axis of p, comes in n trials.

>>> import xpr.numpy as jnp
>>> from xpr.scipy.stats import multinomial
>>> round(float(multinomial.pmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5]))), 4)
0.5
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.numpy.promotion import promote_inexact
from xpr.scipy import special

__all__ = ["logpmf", "pmf"]


def logpmf(x: Any, n: Any, p: Any) -> Any:
    """The logarithm of the probability of x, integers along the last axis; -inf where their sum is not n.

    Raises:
      ValueError: x or n is not of integers.
    """
    x, n, p = jnp.asarray(x), jnp.asarray(n), jnp.asarray(*promote_inexact(p))
    if not (jnp.issubdtype(x.dtype, jnp.integer) and jnp.issubdtype(n.dtype, jnp.integer)):
        raise ValueError(f"multinomial: x and n are integers, and got {x.aval.str_short()} and {n.aval.str_short()}.")
    possible = (jnp.sum(x, -1) == n) & jnp.all(x >= 0, -1)
    counts, trials = jnp.maximum(x, 0).astype(p.dtype), n.astype(p.dtype)
    logs = special.gammaln(trials + 1) + jnp.sum(special.xlogy(counts, p) - special.gammaln(counts + 1), -1)
    return jnp.where(possible, logs, -math.inf)


def pmf(x: Any, n: Any, p: Any) -> Any:
    """The probability of x, integers along the last axis."""
    return jnp.exp(logpmf(x, n, p))
