"""The normal distribution.

>>> from xpr.scipy.stats import norm
>>> norm.cdf(0.0), norm.logpdf(0.0)
(Array(0.5, dtype=float32), Array(-0.9189385, dtype=float32, weak_type=True))
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import exp_of, log_density, probability, quantile

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@log_density
def logpdf(z: Any, scale: Any) -> Any:
    constant = jnp.add(jnp.log(scale), 0.5 * math.log(2 * math.pi))
    return jnp.subtract(jnp.multiply(jnp.multiply(z, z), -0.5), constant)


@probability
def cdf(z: Any) -> Any:
    return special.ndtr(z)


@probability
def logcdf(z: Any) -> Any:
    return special.log_ndtr(z)


@probability
def sf(z: Any) -> Any:
    return special.ndtr(jnp.negative(z))


@probability
def logsf(z: Any) -> Any:
    return special.log_ndtr(jnp.negative(z))


@quantile
def ppf(q: Any) -> Any:
    return special.ndtri(q)


@quantile
def isf(q: Any) -> Any:
    return jnp.negative(special.ndtri(q))


pdf = exp_of(logpdf)
