"""Student's distribution of df degrees of freedom.

>>> from xpr.scipy.stats import t
>>> round(float(t.pdf(0.0, 1)), 4)
0.3183
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.primitives.incomplete import regularized_incomplete_beta_grad_a_p as betainc_grad_a_p
from xpr.primitives.special import one_shape
from xpr.scipy import special
from xpr.scipy.stats import norm
from xpr.scipy.stats.standard_form import exp_of, log_density, log_of, probability

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


@log_density
def logpdf(z: Any, df: Any, scale: Any) -> Any:
    half = jnp.multiply(df, 0.5)
    gammas = jnp.subtract(special.gammaln(jnp.add(half, 0.5)), special.gammaln(half))
    constant = jnp.add(jnp.multiply(jnp.log(jnp.multiply(df, math.pi)), 0.5), jnp.log(scale))
    power = jnp.multiply(jnp.add(half, 0.5), jnp.log1p(jnp.divide(jnp.multiply(z, z), df)))
    return jnp.subtract(gammas, jnp.add(constant, power))


pdf = exp_of(logpdf)


@custom_jvp
def _beyond(z: Any, df: Any) -> Any:
    """The probability beyond z, an incomplete beta function (Abramowitz and Stegun 26.7.1); of df = inf, normal."""
    finite = jnp.isfinite(df)
    some = jnp.where(finite, df, 1.0)
    tail = 0.5 * special.betainc(some / 2, 0.5, some / (some + z * z))
    tail = jnp.where(finite, tail, jnp.where(df > 0, norm.sf(jnp.abs(z)), math.nan))
    return jnp.where(z > 0, tail, 1 - tail)


def _slope_in_df(z: Any, df: Any) -> Any:
    """I(df / 2, 1 / 2; df / (df + z^2)) / 2 changes with its first parameter, and with its argument as with z."""
    finite = jnp.isfinite(df)
    some = jnp.where(finite, df, 1.0)
    square, half = z * z, jnp.full_like(z, 0.5)
    of_parameter = betainc_grad_a_p.bind(*one_shape(some / 2, half, some / (some + square), square / (some + square)))
    slope = jnp.sign(z) * (of_parameter / 4 + pdf(z, some) * jnp.abs(z) / (2 * some))
    return jnp.where(finite & jnp.isfinite(z), slope, jnp.where(jnp.isnan(z), z, 0.0))


_beyond.defjvps(lambda t, out, z, df: -t * pdf(z, df), lambda t, out, z, df: t * _slope_in_df(z, df))


@probability
def sf(z: Any, df: Any) -> Any:
    return _beyond(z, df)


@probability
def cdf(z: Any, df: Any) -> Any:
    return _beyond(jnp.negative(z), df)


logcdf, logsf = log_of(cdf), log_of(sf)
