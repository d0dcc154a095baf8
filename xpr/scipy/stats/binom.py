"""The binomial distribution: successes in n trials of probability p each.

>>> from xpr.scipy.stats import binom
>>> round(float(binom.pmf(1, 2, 0.5)), 4)
0.5
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import between, exp_of, of_integers

__all__ = ["cdf", "logpmf", "pmf", "sf"]


@of_integers
def logpmf(k: Any, n: Any, p: Any) -> Any:
    inside = (k >= 0) & (k <= n) & (k == jnp.floor(k))
    k, left = jnp.where(inside, k, 0.0), jnp.where(inside, jnp.subtract(n, k), n)
    ways = special.gammaln(jnp.add(n, 1)) - special.gammaln(jnp.add(k, 1)) - special.gammaln(jnp.add(left, 1))
    logs = jnp.where(n == 0, 0.0, ways) + special.xlogy(k, p) + special.xlog1py(left, jnp.negative(p))
    return jnp.where(between(p) & (n >= 0), jnp.where(inside, logs, -math.inf), math.nan)


@of_integers
def cdf(k: Any, n: Any, p: Any) -> Any:
    """1 - p is a beta variable of shapes n - k and k + 1 (Abramowitz and Stegun 26.5.24)."""
    return _beyond(k, n, p, 1.0, lambda k, n, p: special.betainc(n - k, k + 1, 1 - p), 0.0)


@of_integers
def sf(k: Any, n: Any, p: Any) -> Any:
    return _beyond(k, n, p, 0.0, lambda k, n, p: special.betainc(k + 1, n - k, p), 1.0)


def _beyond(k: Any, n: Any, p: Any, above: float, within: Any, below: float) -> Any:
    k = jnp.floor(k)
    inside = (k >= 0) & (k < n)
    value = within(jnp.where(inside, k, 0.0), jnp.where(inside, n, 1.0), p)
    out = jnp.where(inside, value, jnp.where(k < 0, below, above))
    return jnp.where(between(p) & (n >= 0), out, math.nan)


pmf = exp_of(logpmf)
