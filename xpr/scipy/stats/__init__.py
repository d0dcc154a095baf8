"""Distributions: `xpr.scipy.stats`, a namespace of functions for each.

Densities are `pdf` and `logpdf`, of integers `pmf` and `logpmf`; `cdf` is the probability up to x, `sf` that beyond it,
`ppf` and `isf` their inverses, and `logcdf`, `logsf` logarithms. Distributions are moved by `loc` and stretched by
`scale`. Arguments broadcast; outside of a distribution's support densities are 0, their logarithms -inf.
"""

from xpr.scipy.stats.bounded import beta, chi2, expon, gamma, pareto, uniform
from xpr.scipy.stats.discrete import bernoulli, geom, nbinom, poisson
from xpr.scipy.stats.multivariate import dirichlet, multivariate_normal
from xpr.scipy.stats.unbounded import cauchy, gumbel_l, gumbel_r, laplace, logistic, norm, t

__all__ = [
    "bernoulli", "beta", "cauchy", "chi2", "dirichlet", "expon", "gamma", "geom", "gumbel_l", "gumbel_r", "laplace",
    "logistic", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t", "uniform",
]  # fmt: skip
