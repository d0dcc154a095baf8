"""The Gumbel distribution of the minimum of many.

>>> from xpr.scipy.stats import gumbel_l
>>> gumbel_l.logpdf(0.0)
Array(-1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp
from xpr.scipy.stats.standard_form import complement_of, exp_of, log_complement_of, log_density, probability, quantile

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@log_density
def logpdf(z: Any, scale: Any) -> Any:
    return jnp.subtract(jnp.subtract(z, jnp.exp(z)), jnp.log(scale))


@probability
def logsf(z: Any) -> Any:
    return jnp.negative(jnp.exp(z))


@quantile
def ppf(p: Any) -> Any:
    return jnp.log(jnp.negative(jnp.log1p(jnp.negative(p))))


pdf, sf, cdf = exp_of(logpdf), exp_of(logsf), complement_of(logsf)
logcdf = log_complement_of(logsf)
