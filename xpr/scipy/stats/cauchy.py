"""The Cauchy distribution.

>>> from xpr.scipy.stats import cauchy
>>> cauchy.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy.stats.standard_form import exp_of, log_density, log_of, probability, quantile

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@log_density
def logpdf(z: Any, scale: Any) -> Any:
    return jnp.negative(jnp.add(jnp.log(jnp.multiply(scale, math.pi)), jnp.log1p(jnp.multiply(z, z))))


@probability
def cdf(z: Any) -> Any:
    return jnp.add(jnp.multiply(jnp.arctan(z), 1 / math.pi), 0.5)


@probability
def sf(z: Any) -> Any:
    return jnp.add(jnp.multiply(jnp.arctan(jnp.negative(z)), 1 / math.pi), 0.5)


@quantile
def ppf(q: Any) -> Any:
    return jnp.tan(jnp.multiply(jnp.subtract(q, 0.5), math.pi))


@quantile
def isf(q: Any) -> Any:
    return jnp.tan(jnp.multiply(jnp.subtract(0.5, q), math.pi))


pdf, logcdf, logsf = exp_of(logpdf), log_of(cdf), log_of(sf)
