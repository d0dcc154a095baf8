"""The exponential distribution.

>>> from xpr.scipy.stats import expon
>>> expon.logpdf(2.0)
Array(-2., dtype=float32, weak_type=True)
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
    positive_part,
    probability,
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@log_density
def logpdf(z: Any, scale: Any) -> Any:
    return jnp.where(jnp.greater_equal(z, 0), jnp.negative(jnp.add(z, jnp.log(scale))), -math.inf)


@probability
def logsf(z: Any) -> Any:
    return jnp.negative(positive_part(z))


@checked_quantile
def ppf(q: Any) -> Any:
    return jnp.negative(jnp.log1p(jnp.negative(q)))


pdf, sf, cdf = exp_of(logpdf), exp_of(logsf), complement_of(logsf)
logcdf = log_complement_of(logsf)
