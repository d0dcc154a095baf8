"""The generalized normal distribution of shape beta, which is proportional to exp(-|x|^beta).

>>> from xpr.scipy.stats import gennorm
>>> round(float(gennorm.pdf(0.0, 1.0)), 4)
0.5
"""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import exp_of, log_density, probability

__all__ = ["cdf", "logpdf", "pdf", "sf"]


def _power(z: Any, beta: Any) -> Any:
    """|z|^beta, which at 0 does not change with beta."""
    is_zero = jnp.equal(z, 0)
    return jnp.where(is_zero, 0.0, jnp.abs(jnp.where(is_zero, 1.0, z)) ** beta)


@log_density
def logpdf(z: Any, beta: Any, scale: Any) -> Any:
    constant = jnp.log(beta) - jnp.log(2 * scale) - special.gammaln(1 / beta)
    return constant - _power(z, beta)


@probability
def cdf(z: Any, beta: Any) -> Any:
    return _beyond(jnp.negative(z), beta)


@probability
def sf(z: Any, beta: Any) -> Any:
    return _beyond(z, beta)


def _beyond(z: Any, beta: Any) -> Any:
    """The probability beyond z, an incomplete gamma function of |z|^beta."""
    tail = 0.5 * special.gammaincc(1 / beta, _power(z, beta))
    return jnp.where(z > 0, tail, 1 - tail)


pdf = exp_of(logpdf)
