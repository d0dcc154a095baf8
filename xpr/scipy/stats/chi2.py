"""The chi-squared distribution of df degrees of freedom, which is a gamma distribution.

>>> from xpr.scipy.stats import chi2
>>> round(float(chi2.cdf(2.0, 2)), 4)
0.6321
"""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp
from xpr.scipy.stats import gamma
from xpr.scipy.stats.standard_form import reparametrized

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _as_gamma(x: Any, df: Any, loc: Any, scale: Any) -> Any:
    return x, jnp.multiply(df, 0.5), loc, jnp.multiply(scale, 2)


pdf, logpdf = reparametrized(gamma.pdf, _as_gamma), reparametrized(gamma.logpdf, _as_gamma)
cdf, logcdf = reparametrized(gamma.cdf, _as_gamma), reparametrized(gamma.logcdf, _as_gamma)
sf, logsf = reparametrized(gamma.sf, _as_gamma), reparametrized(gamma.logsf, _as_gamma)
