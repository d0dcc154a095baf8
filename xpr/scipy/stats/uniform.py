"""The uniform distribution between loc and loc + scale.

>>> from xpr.scipy.stats import uniform
>>> uniform.cdf(0.25)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy.stats.standard_form import between, checked_quantile, exp_of, log_density, probability

__all__ = ["cdf", "logpdf", "pdf", "ppf"]


@log_density
def logpdf(z: Any, scale: Any) -> Any:
    return jnp.where(between(z), jnp.negative(jnp.log(scale)), -math.inf)


@probability
def cdf(z: Any) -> Any:
    return jnp.where(jnp.less(z, 0), 0.0, jnp.where(jnp.greater(z, 1), 1.0, z))


@checked_quantile
def ppf(q: Any) -> Any:
    return q


pdf = exp_of(logpdf)
