"""The gamma distribution of shape a.

>>> from xpr.scipy.stats import gamma
>>> gamma.logpdf(2.0, 1.0)
Array(-2., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import exp_of, log_density, log_of, positive_part, probability

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


@log_density
def logpdf(z: Any, a: Any, scale: Any) -> Any:
    inside = jnp.greater_equal(z, 0)
    z = jnp.where(inside, z, 1.0)
    logs = jnp.subtract(special.xlogy(jnp.subtract(a, 1), z), jnp.add(z, special.gammaln(a)))
    return jnp.where(inside, jnp.subtract(logs, jnp.log(scale)), -math.inf)


@probability
def cdf(z: Any, a: Any) -> Any:
    return special.gammainc(a, positive_part(z))


@probability
def sf(z: Any, a: Any) -> Any:
    return special.gammaincc(a, positive_part(z))


pdf, logcdf, logsf = exp_of(logpdf), log_of(cdf), log_of(sf)
