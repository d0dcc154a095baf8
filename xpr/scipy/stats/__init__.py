"""Distributions: `xpr.scipy.stats`, a namespace of functions for each.

Densities are `pdf` and `logpdf`, of integers `pmf` and `logpmf`; `cdf` is the probability up to x, `sf` that beyond it,
`ppf` and `isf` their inverses, and `logcdf`, `logsf` logarithms. Distributions are moved by `loc` and stretched by
`scale`. Arguments broadcast; outside of a distribution's support densities are 0, their logarithms -inf.
"""

from xpr.scipy.stats.half_line import beta, chi2, expon, gamma, pareto, uniform
from xpr.scipy.stats.integers import bernoulli, geom, nbinom, poisson
from xpr.scipy.stats.vectors import dirichlet, multivariate_normal
from xpr.scipy.stats.whole_line import cauchy, gumbel_l, gumbel_r, laplace, logistic, norm, t

__all__ = [
    "bernoulli", "beta", "cauchy", "chi2", "dirichlet", "expon", "gamma", "geom", "gumbel_l", "gumbel_r", "laplace",
    "logistic", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t", "uniform",
]  # fmt: skip
