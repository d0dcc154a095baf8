"""The Laplace distribution.

>>> from xpr.scipy.stats import laplace
>>> laplace.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp
from xpr.scipy.stats.standard_form import exp_of, log_density, probability

__all__ = ["cdf", "logpdf", "pdf"]


@log_density
def logpdf(z: Any, scale: Any) -> Any:
    return jnp.negative(jnp.add(jnp.abs(z), jnp.log(jnp.multiply(scale, 2))))


@probability
def cdf(z: Any) -> Any:
    below = jnp.less_equal(z, 0)
    half = jnp.multiply(jnp.exp(jnp.where(below, z, jnp.negative(z))), 0.5)
    return jnp.where(below, half, jnp.subtract(1, half))


pdf = exp_of(logpdf)
