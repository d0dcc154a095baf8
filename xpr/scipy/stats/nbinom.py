"""The negative binomial distribution: failures before n successes of probability p each.

>>> from xpr.scipy.stats import nbinom
>>> round(float(nbinom.pmf(0, 2, 0.5)), 4)
0.25
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import exp_of, of_integers

__all__ = ["logpmf", "pmf"]


@of_integers
def logpmf(failures: Any, n: Any, p: Any) -> Any:
    inside = jnp.greater_equal(failures, 0) & jnp.equal(failures, jnp.floor(failures))
    failures = jnp.where(inside, failures, 0.0)
    ways = jnp.subtract(
        special.gammaln(jnp.add(failures, n)),
        jnp.add(special.gammaln(jnp.add(failures, 1)), special.gammaln(n)),
    )
    logs = jnp.add(special.xlogy(n, p), special.xlog1py(failures, jnp.negative(p)))
    return jnp.where(inside, jnp.add(ways, logs), -math.inf)


pmf = exp_of(logpmf)
