"""The Bernoulli distribution: 1 with probability p, else 0.

>>> from xpr.scipy.stats import bernoulli
>>> bernoulli.pmf(1, 0.25)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import between, exp_of, of_integers, promoted

__all__ = ["cdf", "logpmf", "pmf", "ppf"]


@of_integers
def logpmf(n: Any, p: Any) -> Any:
    inside = jnp.logical_or(jnp.equal(n, 0), jnp.equal(n, 1))
    n = jnp.where(inside, n, 0.0)
    logs = jnp.add(special.xlogy(n, p), special.xlog1py(jnp.subtract(1, n), jnp.negative(p)))
    return jnp.where(inside, logs, -math.inf)


pmf = exp_of(logpmf)


def cdf(k: Any, p: Any) -> Any:
    """The probability up to k."""
    k, p = promoted(k, p)
    value = jnp.where(jnp.less(k, 0), 0.0, jnp.where(jnp.less(k, 1), jnp.subtract(1, p), 1.0))
    return jnp.where(jnp.logical_and(between(p), jnp.equal(k, k)), value, math.nan)


def ppf(q: Any, p: Any) -> Any:
    """The inverse of cdf."""
    q, p = promoted(q, p)
    value = jnp.where(jnp.less_equal(q, jnp.subtract(1, p)), jnp.zeros_like(q), 1.0)
    return jnp.where(jnp.logical_and(between(q), between(p)), value, math.nan)
