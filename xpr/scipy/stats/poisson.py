"""The Poisson distribution of mean mu.

>>> from xpr.scipy.stats import poisson
>>> poisson.logpmf(0, 2.0)
Array(-2., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import exp_of, of_integers, promoted

__all__ = ["cdf", "entropy", "logpmf", "pmf"]


@of_integers
def logpmf(n: Any, mu: Any) -> Any:
    inside = jnp.logical_and(jnp.greater_equal(n, 0), jnp.equal(n, jnp.floor(n)))
    n = jnp.where(inside, n, 0.0)
    logs = jnp.subtract(special.xlogy(n, mu), jnp.add(mu, special.gammaln(jnp.add(n, 1))))
    return jnp.where(inside, logs, -math.inf)


@of_integers
def cdf(n: Any, mu: Any) -> Any:
    inside = jnp.greater_equal(n, 0)
    return jnp.where(inside, special.gammaincc(jnp.add(jnp.floor(jnp.where(inside, n, 0.0)), 1), mu), 0.0)


pmf = exp_of(logpmf)

_TERMS = 250  # of the sum for means below 100


def entropy(mu: Any, loc: Any = 0) -> Any:
    """The entropy, -sum p log p: the sum for means up to 100, and beyond its asymptotic series.

    Source of the series: R. J. Evans, J. Boersma, N. M. Blachman and A. A. Jagers, The entropy of a Poisson
    distribution, SIAM Review, 1988.

    Args:
      mu: the mean, array of real numbers.
      loc: has no effect on the entropy; broadcasts with `mu`.

    Returns:
      Floats of the broadcast shape; nan where the mean is negative.
    """
    mu, loc = promoted(mu, loc)
    mu, _ = jnp.broadcast_arrays(mu, loc)
    far = jnp.greater(mu, 100)
    near, large = jnp.where(far | (mu <= 0), 1.0, mu), jnp.where(far, mu, 101.0)
    near = jnp.asarray(near)
    k = np.arange(_TERMS).astype(near.dtype).reshape(-1, *[1] * near.ndim)
    logs = logpmf(k, near[None])
    series = 1 / large * (1 / 12 + 1 / large * (1 / 24 + 19 / 360 / large))
    value = jnp.where(far, 0.5 * jnp.log(2 * math.pi * math.e * large) - series, -jnp.sum(jnp.exp(logs) * logs, 0))
    return jnp.where(mu > 0, value, jnp.where(mu == 0, 0.0, math.nan))
