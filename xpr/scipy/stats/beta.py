"""The beta distribution of shapes a and b.

>>> from xpr.scipy.stats import beta
>>> round(float(beta.cdf(0.5, 2, 2)), 4)
0.5
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import between, exp_of, log_density, log_of, probability

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


@log_density
def logpdf(z: Any, a: Any, b: Any, scale: Any) -> Any:
    inside = between(z)
    z = jnp.where(inside, z, 0.5)
    logs = jnp.add(special.xlogy(jnp.subtract(a, 1), z), special.xlog1py(jnp.subtract(b, 1), jnp.negative(z)))
    constant = jnp.add(special.betaln(a, b), jnp.log(scale))
    valid = jnp.logical_and(jnp.greater(a, 0), jnp.greater(b, 0))
    return jnp.where(valid, jnp.where(inside, jnp.subtract(logs, constant), -math.inf), math.nan)


@probability
def cdf(z: Any, a: Any, b: Any) -> Any:
    return special.betainc(a, b, jnp.clip(z, 0, 1))


@probability
def sf(z: Any, a: Any, b: Any) -> Any:
    return special.betainc(b, a, jnp.subtract(1, jnp.clip(z, 0, 1)))


pdf, logcdf, logsf = exp_of(logpdf), log_of(cdf), log_of(sf)
