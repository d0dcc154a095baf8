"""The Gumbel distribution of the maximum of many.

>>> from xpr.scipy.stats import gumbel_r
>>> gumbel_r.logpdf(0.0)
Array(-1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp
from xpr.scipy.stats.standard_form import complement_of, exp_of, log_complement_of, log_density, probability, quantile

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@log_density
def logpdf(z: Any, scale: Any) -> Any:
    return jnp.negative(jnp.add(jnp.add(z, jnp.exp(jnp.negative(z))), jnp.log(scale)))


@probability
def logcdf(z: Any) -> Any:
    return jnp.negative(jnp.exp(jnp.negative(z)))


@quantile
def ppf(p: Any) -> Any:
    return jnp.negative(jnp.log(jnp.negative(jnp.log(p))))


pdf, cdf, sf = exp_of(logpdf), exp_of(logcdf), complement_of(logcdf)
logsf = log_complement_of(logcdf)
