"""The normal distribution between a and b, which are in units of scale from loc.

>>> from xpr.scipy.stats import truncnorm
>>> round(float(truncnorm.cdf(0.0, -1.0, 1.0)), 4)
0.5
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats import norm
from xpr.scipy.stats.standard_form import exp_of, log_density, probability

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the probability between a < b, computed in the left tail if both are on one side of 0.

    It is log F(b) + log(1 - F(a) / F(b)) there, and else log(1 - F(a) - F(-b)).
    """
    right, middle = a > 0, (a <= 0) & (b > 0)
    low, high = jnp.where(right, -b, a), jnp.where(right, -a, jnp.where(middle, 0.0, b))
    low = jnp.minimum(jnp.where(middle, -1.0, low), high)
    log_high = special.log_ndtr(high)
    difference = special.log_ndtr(low) - log_high
    near = difference > -math.log(2)
    tail = jnp.where(
        near,
        jnp.log(-jnp.expm1(jnp.where(near, difference, -1.0))),
        jnp.log1p(-jnp.exp(jnp.where(near, -1.0, difference))),
    )
    outside = special.ndtr(jnp.where(middle, a, -1.0)) + special.ndtr(jnp.where(middle, -b, -1.0))
    narrow = outside > 0.9  # 1 - outside has lost digits then; between a and b the density is nearly constant there
    spread = jnp.where(middle & narrow, b - a, 1.0)
    between = jnp.where(narrow, jnp.log(_central_mass(a, b, spread)), jnp.log1p(-jnp.where(narrow, 0.5, outside)))
    return jnp.where(middle, between, log_high + tail)


def _central_mass(a: Any, b: Any, spread: Any) -> Any:
    """The probability between a <= 0 < b of a small distance: half of erf(b / sqrt 2) - erf(a / sqrt 2)."""
    small = spread < 1
    a, b = jnp.where(small, a, -1.0), jnp.where(small, b, 1.0)
    return 0.5 * (special.erf(b * math.sqrt(0.5)) - special.erf(a * math.sqrt(0.5)))


def _checked(a: Any, b: Any, value: Any) -> Any:
    return jnp.where(a < b, value, math.nan)


@log_density
def logpdf(z: Any, a: Any, b: Any, scale: Any) -> Any:
    inside = (z >= a) & (z <= b)
    logs = norm.logpdf(jnp.where(inside, z, 0.0)) - _log_mass(a, b) - jnp.log(scale)
    return _checked(a, b, jnp.where(inside, logs, -math.inf))


@probability
def logcdf(z: Any, a: Any, b: Any) -> Any:
    return _checked(a, b, _log_below(z, a, b))


@probability
def logsf(z: Any, a: Any, b: Any) -> Any:
    return _checked(a, b, _log_below(-z, -b, -a))


def _log_below(z: Any, a: Any, b: Any) -> Any:
    """The logarithm of the share of the probability that is below z; near 0 from that above."""
    inside = (z > a) & (z < b)
    whole = _log_mass(a, b)
    middle = jnp.where(inside, z, jnp.where(jnp.isfinite(a), a + 1e-3, jnp.where(jnp.isfinite(b), b - 1e-3, 0.0)))
    below, above = _log_mass(a, middle) - whole, _log_mass(middle, b) - whole
    most = below > -0.1
    logs = jnp.where(most, jnp.log1p(-jnp.exp(jnp.where(most, above, -1.0))), below)
    return jnp.where(inside, logs, jnp.where(z >= b, 0.0, jnp.where(z <= a, -math.inf, z)))


pdf, cdf, sf = exp_of(logpdf), exp_of(logcdf), exp_of(logsf)
