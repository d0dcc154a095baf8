"""The beta-binomial distribution: successes in n trials, whose probability has a beta distribution of shapes a and b.

>>> from xpr.scipy.stats import betabinom
>>> round(float(betabinom.pmf(1, 2, 1.0, 1.0)), 4)
0.3333
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import exp_of, of_integers

__all__ = ["logpmf", "pmf"]


@of_integers
def logpmf(k: Any, n: Any, a: Any, b: Any) -> Any:
    inside = (k >= 0) & (k <= n) & (k == jnp.floor(k))
    k, left = jnp.where(inside, k, 0.0), jnp.where(inside, jnp.subtract(n, k), n)
    ways = jnp.log1p(n) + special.betaln(left + 1, k + 1)
    logs = special.betaln(k + a, left + b) - special.betaln(a, b) - ways
    logs = jnp.where(n == 0, 0.0, logs)
    return jnp.where((n >= 0) & (a > 0) & (b > 0), jnp.where(inside, logs, -math.inf), math.nan)


pmf = exp_of(logpmf)
