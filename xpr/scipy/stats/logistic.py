"""The logistic distribution.

>>> from xpr.scipy.stats import logistic
>>> logistic.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import exp_of, log_density, probability, quantile

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


@log_density
def logpdf(z: Any, scale: Any) -> Any:
    half = jnp.multiply(z, 0.5)
    log_cosh = jnp.logaddexp(half, jnp.negative(half))
    return jnp.subtract(jnp.multiply(log_cosh, -2), jnp.log(scale))


@probability
def cdf(z: Any) -> Any:
    return special.expit(z)


@probability
def sf(z: Any) -> Any:
    return special.expit(jnp.negative(z))


@quantile
def ppf(x: Any) -> Any:
    return special.logit(x)


@quantile
def isf(x: Any) -> Any:
    return jnp.negative(special.logit(x))


pdf = exp_of(logpdf)
