"""Distributions, each a module of functions, and statistics of samples.

Densities are `pdf` and `logpdf`, of integers `pmf` and `logpmf`; `cdf` is the probability up to x, `sf` 1 - cdf,
`ppf` and `isf` their inverses, and `logcdf`, `logsf` logarithms. Distributions are shifted by `loc` and scaled by
`scale`. Arguments broadcast; outside of a distribution's support densities are 0, their logarithms -inf.
"""

from xpr.scipy.stats import (
    bernoulli,
    beta,
    betabinom,
    binom,
    cauchy,
    chi2,
    dirichlet,
    expon,
    gamma,
    gennorm,
    geom,
    gumbel_l,
    gumbel_r,
    laplace,
    logistic,
    multinomial,
    multivariate_normal,
    nbinom,
    norm,
    pareto,
    poisson,
    t,
    truncnorm,
    uniform,
    vonmises,
    wrapcauchy,
)
from xpr.scipy.stats.kde import gaussian_kde
from xpr.scipy.stats.samples import mode, rankdata, sem

__all__ = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gaussian_kde",
    "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "mode", "multinomial", "multivariate_normal",
    "nbinom", "norm", "pareto", "poisson", "rankdata", "sem", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
]  # fmt: skip
