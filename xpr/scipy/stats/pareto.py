"""The Pareto distribution of shape b.

>>> from xpr.scipy.stats import pareto
>>> pareto.pdf(1.0, 2.0)
Array(2., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy.stats.standard_form import (
    checked_quantile,
    complement_of,
    exp_of,
    log_complement_of,
    log_density,
    probability,
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@log_density
def logpdf(z: Any, b: Any, scale: Any) -> Any:
    inside = jnp.greater_equal(z, 1)
    logs = jnp.subtract(jnp.log(b), jnp.multiply(jnp.add(b, 1), jnp.log(jnp.where(inside, z, 1.0))))
    return jnp.where(inside, jnp.subtract(logs, jnp.log(scale)), -math.inf)


@probability
def logsf(z: Any, b: Any) -> Any:
    return jnp.negative(jnp.multiply(b, jnp.log(jnp.where(jnp.greater_equal(z, 1), z, 1.0))))


@checked_quantile
def ppf(q: Any, b: Any) -> Any:
    return jnp.exp(jnp.negative(jnp.divide(jnp.log1p(jnp.negative(q)), b)))


pdf, sf, cdf = exp_of(logpdf), exp_of(logsf), complement_of(logsf)
logcdf = log_complement_of(logsf)
