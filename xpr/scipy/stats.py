"""Distributions: `xpr.scipy.stats`, a namespace of functions for each.

Densities are `pdf` and `logpdf`, of integers `pmf` and `logpmf`; `cdf` is the probability up to x, `sf` that beyond it,
`ppf` and `isf` their inverses, and `logcdf`, `logsf` logarithms. Distributions are moved by `loc` and stretched by
`scale`. Arguments broadcast; outside of a distribution's support densities are 0, their logarithms -inf.
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.numpy.promotion import promote_inexact, promote_shapes
from xpr.primitives.solves import triangular_solve
from xpr.scipy import special

__all__ = [
    "bernoulli", "beta", "cauchy", "chi2", "dirichlet", "expon", "gamma", "geom", "gumbel_l", "gumbel_r", "laplace",
    "logistic", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t", "uniform",
]  # fmt: skip


def _together(*xs: Any) -> Any:
    """The arguments in the float dtype and the shape that they meet in."""
    return promote_shapes(*promote_inexact(*xs))


def _moved(x: Any, *parameters: Any) -> Any:
    """(x - loc) / scale, the parameters in between, and the scale; `parameters` end in loc and scale."""
    x, *own, loc, scale = _together(x, *parameters)
    return jnp.divide(jnp.subtract(x, loc), scale), *own, scale


def _where(inside: Any, x: Any, outside: float) -> Any:
    return jnp.where(inside, x, outside)


class norm:
    """The normal distribution.

    >>> from xpr.scipy.stats import norm
    >>> norm.cdf(0.0), norm.logpdf(0.0)
    (Array(0.5, dtype=float32, weak_type=True), Array(-0.9189385, dtype=float32, weak_type=True))
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = _moved(x, loc, scale)
        constant = jnp.add(jnp.log(scale), 0.5 * math.log(2 * math.pi))
        return jnp.subtract(jnp.multiply(jnp.multiply(z, z), -0.5), constant)

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(norm.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return special.ndtr(_moved(x, loc, scale)[0])

    @staticmethod
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return special.log_ndtr(_moved(x, loc, scale)[0])

    @staticmethod
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        return special.ndtr(jnp.negative(_moved(x, loc, scale)[0]))

    @staticmethod
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return special.log_ndtr(jnp.negative(_moved(x, loc, scale)[0]))

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = _together(q, loc, scale)
        return jnp.add(jnp.multiply(special.ndtri(q), scale), loc)

    @staticmethod
    def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of sf."""
        q, loc, scale = _together(q, loc, scale)
        return jnp.add(jnp.multiply(jnp.negative(special.ndtri(q)), scale), loc)


class uniform:
    """The uniform distribution between loc and loc + scale.

    >>> from xpr.scipy.stats import uniform
    >>> uniform.cdf(0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = _moved(x, loc, scale)
        return _where(_between(z), jnp.negative(jnp.log(scale)), -math.inf)

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(uniform.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return jnp.clip(_moved(x, loc, scale)[0], 0, 1)

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = _together(q, loc, scale)
        return _where(_between(q), jnp.add(jnp.multiply(q, scale), loc), math.nan)


def _between(x: Any) -> Any:
    return jnp.logical_and(jnp.greater_equal(x, 0), jnp.less_equal(x, 1))


class expon:
    """The exponential distribution.

    >>> from xpr.scipy.stats import expon
    >>> expon.logpdf(2.0)
    Array(-2., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = _moved(x, loc, scale)
        return _where(jnp.greater_equal(z, 0), jnp.negative(jnp.add(z, jnp.log(scale))), -math.inf)

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(expon.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return jnp.negative(jnp.expm1(jnp.negative(_positive_part(_moved(x, loc, scale)[0]))))

    @staticmethod
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.log(expon.cdf(x, loc, scale))

    @staticmethod
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        return jnp.exp(expon.logsf(x, loc, scale))

    @staticmethod
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return jnp.negative(_positive_part(_moved(x, loc, scale)[0]))

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = _together(q, loc, scale)
        found = jnp.subtract(loc, jnp.multiply(scale, jnp.log1p(jnp.negative(_where(_between(q), q, 0.5)))))
        return _where(_between(q), found, math.nan)


def _positive_part(x: Any) -> Any:
    return _where(jnp.greater_equal(x, 0), x, 0.0)


class laplace:
    """The Laplace distribution.

    >>> from xpr.scipy.stats import laplace
    >>> laplace.cdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = _moved(x, loc, scale)
        return jnp.negative(jnp.add(jnp.abs(z), jnp.log(jnp.multiply(scale, 2))))

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(laplace.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        (z, _) = _moved(x, loc, scale)
        below = jnp.less_equal(z, 0)
        half = jnp.multiply(jnp.exp(jnp.where(below, z, jnp.negative(z))), 0.5)
        return jnp.where(below, half, jnp.subtract(1, half))


class logistic:
    """The logistic distribution.

    >>> from xpr.scipy.stats import logistic
    >>> logistic.cdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = _moved(x, loc, scale)
        half = jnp.multiply(z, 0.5)
        log_cosh = jnp.logaddexp(half, jnp.negative(half))
        return jnp.subtract(jnp.multiply(log_cosh, -2), jnp.log(scale))

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(logistic.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return special.expit(_moved(x, loc, scale)[0])

    @staticmethod
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        return special.expit(jnp.negative(_moved(x, loc, scale)[0]))

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = _together(q, loc, scale)
        return jnp.add(jnp.multiply(special.logit(q), scale), loc)

    @staticmethod
    def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of sf."""
        q, loc, scale = _together(q, loc, scale)
        return jnp.subtract(loc, jnp.multiply(special.logit(q), scale))


class cauchy:
    """The Cauchy distribution.

    >>> from xpr.scipy.stats import cauchy
    >>> cauchy.cdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = _moved(x, loc, scale)
        return jnp.negative(jnp.add(jnp.log(jnp.multiply(scale, math.pi)), jnp.log1p(jnp.multiply(z, z))))

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(cauchy.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return jnp.add(jnp.multiply(jnp.arctan(_moved(x, loc, scale)[0]), 1 / math.pi), 0.5)

    @staticmethod
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.log(cauchy.cdf(x, loc, scale))

    @staticmethod
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        z, _ = _moved(x, loc, scale)
        return jnp.add(jnp.multiply(jnp.arctan(jnp.negative(z)), 1 / math.pi), 0.5)

    @staticmethod
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return jnp.log(cauchy.sf(x, loc, scale))

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = _together(q, loc, scale)
        return jnp.add(jnp.multiply(jnp.tan(jnp.multiply(jnp.subtract(q, 0.5), math.pi)), scale), loc)

    @staticmethod
    def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of sf."""
        q, loc, scale = _together(q, loc, scale)
        return jnp.add(jnp.multiply(jnp.tan(jnp.multiply(jnp.subtract(0.5, q), math.pi)), scale), loc)


class gamma:
    """The gamma distribution of shape a.

    >>> from xpr.scipy.stats import gamma
    >>> gamma.logpdf(2.0, 1.0)
    Array(-2., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, a, scale = _moved(x, a, loc, scale)
        inside = jnp.greater_equal(z, 0)
        z = _where(inside, z, 1.0)
        logs = jnp.subtract(special.xlogy(jnp.subtract(a, 1), z), jnp.add(z, special.gammaln(a)))
        return _where(inside, jnp.subtract(logs, jnp.log(scale)), -math.inf)

    @staticmethod
    def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(gamma.logpdf(x, a, loc, scale))

    @staticmethod
    def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        z, a, _ = _moved(x, a, loc, scale)
        return special.gammainc(a, _positive_part(z))

    @staticmethod
    def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.log(gamma.cdf(x, a, loc, scale))

    @staticmethod
    def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        z, a, _ = _moved(x, a, loc, scale)
        return special.gammaincc(a, _positive_part(z))

    @staticmethod
    def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return jnp.log(gamma.sf(x, a, loc, scale))


class chi2:
    """The chi-squared distribution of df degrees of freedom, which is a gamma distribution.

    >>> from xpr.scipy.stats import chi2
    >>> round(float(chi2.cdf(2.0, 2)), 4)
    0.6321
    """

    @staticmethod
    def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        return gamma.logpdf(*_as_gamma(x, df, loc, scale))

    @staticmethod
    def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return gamma.pdf(*_as_gamma(x, df, loc, scale))

    @staticmethod
    def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return gamma.cdf(*_as_gamma(x, df, loc, scale))

    @staticmethod
    def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return gamma.logcdf(*_as_gamma(x, df, loc, scale))

    @staticmethod
    def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        return gamma.sf(*_as_gamma(x, df, loc, scale))

    @staticmethod
    def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return gamma.logsf(*_as_gamma(x, df, loc, scale))


def _as_gamma(x: Any, df: Any, loc: Any, scale: Any) -> tuple[Any, Any, Any, Any]:
    x, df, loc, scale = _together(x, df, loc, scale)
    return x, jnp.multiply(df, 0.5), loc, jnp.multiply(scale, 2)


class beta:
    """The beta distribution of shapes a and b.

    >>> from xpr.scipy.stats import beta
    >>> round(float(beta.cdf(0.5, 2, 2)), 4)
    0.5
    """

    @staticmethod
    def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, a, b, scale = _moved(x, a, b, loc, scale)
        inside = _between(z)
        z = _where(inside, z, 0.5)
        logs = jnp.add(special.xlogy(jnp.subtract(a, 1), z), special.xlog1py(jnp.subtract(b, 1), jnp.negative(z)))
        constant = jnp.add(special.betaln(a, b), jnp.log(scale))
        return _where(inside, jnp.subtract(logs, constant), -math.inf)

    @staticmethod
    def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(beta.logpdf(x, a, b, loc, scale))

    @staticmethod
    def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        z, a, b, _ = _moved(x, a, b, loc, scale)
        return special.betainc(a, b, jnp.clip(z, 0, 1))

    @staticmethod
    def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.log(beta.cdf(x, a, b, loc, scale))

    @staticmethod
    def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        z, a, b, _ = _moved(x, a, b, loc, scale)
        return special.betainc(b, a, jnp.subtract(1, jnp.clip(z, 0, 1)))

    @staticmethod
    def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return jnp.log(beta.sf(x, a, b, loc, scale))


class t:
    """Student's distribution of df degrees of freedom.

    >>> from xpr.scipy.stats import t
    >>> round(float(t.pdf(0.0, 1)), 4)
    0.3183
    """

    @staticmethod
    def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, df, scale = _moved(x, df, loc, scale)
        half = jnp.multiply(df, 0.5)
        gammas = jnp.subtract(special.gammaln(jnp.add(half, 0.5)), special.gammaln(half))
        constant = jnp.add(jnp.multiply(jnp.log(jnp.multiply(df, math.pi)), 0.5), jnp.log(scale))
        power = jnp.multiply(jnp.add(half, 0.5), jnp.log1p(jnp.divide(jnp.multiply(z, z), df)))
        return jnp.subtract(gammas, jnp.add(constant, power))

    @staticmethod
    def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(t.logpdf(x, df, loc, scale))


class pareto:
    """The Pareto distribution of shape b.

    >>> from xpr.scipy.stats import pareto
    >>> pareto.pdf(1.0, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, b, scale = _moved(x, b, loc, scale)
        inside = jnp.greater_equal(z, 1)
        logs = jnp.subtract(jnp.log(b), jnp.multiply(jnp.add(b, 1), jnp.log(_where(inside, z, 1.0))))
        return _where(inside, jnp.subtract(logs, jnp.log(scale)), -math.inf)

    @staticmethod
    def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(pareto.logpdf(x, b, loc, scale))

    @staticmethod
    def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return jnp.negative(jnp.expm1(pareto.logsf(x, b, loc, scale)))

    @staticmethod
    def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.log(pareto.cdf(x, b, loc, scale))

    @staticmethod
    def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        return jnp.exp(pareto.logsf(x, b, loc, scale))

    @staticmethod
    def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        z, b, _ = _moved(x, b, loc, scale)
        return jnp.negative(jnp.multiply(b, jnp.log(_where(jnp.greater_equal(z, 1), z, 1.0))))

    @staticmethod
    def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, b, loc, scale = _together(q, b, loc, scale)
        inside = _between(q)
        power = jnp.exp(jnp.negative(jnp.divide(jnp.log1p(jnp.negative(_where(inside, q, 0.5))), b)))
        return _where(inside, jnp.add(jnp.multiply(power, scale), loc), math.nan)


class gumbel_r:
    """The Gumbel distribution of the greatest of many.

    >>> from xpr.scipy.stats import gumbel_r
    >>> gumbel_r.logpdf(0.0)
    Array(-1., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = _moved(x, loc, scale)
        return jnp.negative(jnp.add(jnp.add(z, jnp.exp(jnp.negative(z))), jnp.log(scale)))

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(gumbel_r.logpdf(x, loc, scale))

    @staticmethod
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.negative(jnp.exp(jnp.negative(_moved(x, loc, scale)[0])))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return jnp.exp(gumbel_r.logcdf(x, loc, scale))

    @staticmethod
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        return jnp.negative(jnp.expm1(gumbel_r.logcdf(x, loc, scale)))

    @staticmethod
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return jnp.log(gumbel_r.sf(x, loc, scale))

    @staticmethod
    def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        p, loc, scale = _together(p, loc, scale)
        return jnp.subtract(loc, jnp.multiply(scale, jnp.log(jnp.negative(jnp.log(p)))))


class gumbel_l:
    """The Gumbel distribution of the least of many.

    >>> from xpr.scipy.stats import gumbel_l
    >>> gumbel_l.logpdf(0.0)
    Array(-1., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = _moved(x, loc, scale)
        return jnp.subtract(jnp.subtract(z, jnp.exp(z)), jnp.log(scale))

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(gumbel_l.logpdf(x, loc, scale))

    @staticmethod
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return jnp.negative(jnp.exp(_moved(x, loc, scale)[0]))

    @staticmethod
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        return jnp.exp(gumbel_l.logsf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return jnp.negative(jnp.expm1(gumbel_l.logsf(x, loc, scale)))

    @staticmethod
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.log(gumbel_l.cdf(x, loc, scale))

    @staticmethod
    def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        p, loc, scale = _together(p, loc, scale)
        return jnp.add(loc, jnp.multiply(scale, jnp.log(jnp.negative(jnp.log1p(jnp.negative(p))))))


# -- Of integers


def _counted(k: Any, loc: Any) -> tuple[Any, Any]:
    """k - loc, and whether that is a number of things."""
    n = jnp.subtract(k, loc)
    return n, jnp.logical_and(jnp.greater_equal(n, 0), jnp.equal(n, jnp.floor(n)))


class bernoulli:
    """The distribution of 1 with probability p and 0 else.

    >>> from xpr.scipy.stats import bernoulli
    >>> bernoulli.pmf(1, 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
        """The logarithm of the probability of k."""
        k, p, loc = _together(k, p, loc)
        n = jnp.subtract(k, loc)
        inside = jnp.logical_or(jnp.equal(n, 0), jnp.equal(n, 1))
        n = _where(inside, n, 0.0)
        logs = jnp.add(special.xlogy(n, p), special.xlog1py(jnp.subtract(1, n), jnp.negative(p)))
        return _where(inside, logs, -math.inf)

    @staticmethod
    def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return jnp.exp(bernoulli.logpmf(k, p, loc))

    @staticmethod
    def cdf(k: Any, p: Any) -> Any:
        """The probability up to k."""
        k, p = _together(k, p)
        known = jnp.where(jnp.less(k, 0), 0.0, jnp.where(jnp.less(k, 1), jnp.subtract(1, p), 1.0))
        return _where(jnp.logical_and(_between(p), jnp.equal(k, k)), known, math.nan)

    @staticmethod
    def ppf(q: Any, p: Any) -> Any:
        """The inverse of cdf."""
        q, p = _together(q, p)
        found = jnp.where(jnp.less_equal(q, jnp.subtract(1, p)), 0.0, 1.0)
        return _where(jnp.logical_and(_between(q), _between(p)), found, math.nan)


class geom:
    """The distribution of the number of the first success, of probability p each.

    >>> from xpr.scipy.stats import geom
    >>> geom.pmf(2, 0.5)
    Array(0.25, dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
        """The logarithm of the probability of k."""
        k, p, loc = _together(k, p, loc)
        n = jnp.subtract(k, loc)
        inside = jnp.greater(n, 0)
        before = jnp.subtract(_where(inside, n, 1.0), 1)
        return _where(inside, jnp.add(special.xlog1py(before, jnp.negative(p)), jnp.log(p)), -math.inf)

    @staticmethod
    def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return jnp.exp(geom.logpmf(k, p, loc))


class poisson:
    """The Poisson distribution of mean mu.

    >>> from xpr.scipy.stats import poisson
    >>> poisson.logpmf(0, 2.0)
    Array(-2., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
        """The logarithm of the probability of k."""
        k, mu, loc = _together(k, mu, loc)
        n, inside = _counted(k, loc)
        n = _where(inside, n, 0.0)
        return _where(
            inside, jnp.subtract(special.xlogy(n, mu), jnp.add(mu, special.gammaln(jnp.add(n, 1)))), -math.inf
        )

    @staticmethod
    def pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return jnp.exp(poisson.logpmf(k, mu, loc))

    @staticmethod
    def cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
        """The probability up to k."""
        k, mu, loc = _together(k, mu, loc)
        n = jnp.subtract(k, loc)
        inside = jnp.greater_equal(n, 0)
        return _where(inside, special.gammaincc(jnp.add(jnp.floor(_where(inside, n, 0.0)), 1), mu), 0.0)


class nbinom:
    """The negative binomial distribution: failures before n successes of probability p each.

    >>> from xpr.scipy.stats import nbinom
    >>> round(float(nbinom.pmf(0, 2, 0.5)), 4)
    0.25
    """

    @staticmethod
    def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
        """The logarithm of the probability of k."""
        k, n, p, loc = _together(k, n, p, loc)
        failures = jnp.subtract(k, loc)
        inside = jnp.greater_equal(failures, 0)
        failures = _where(inside, failures, 0.0)
        ways = jnp.subtract(
            special.gammaln(jnp.add(failures, n)),
            jnp.add(special.gammaln(jnp.add(failures, 1)), special.gammaln(n)),
        )
        logs = jnp.add(special.xlogy(n, p), special.xlog1py(failures, jnp.negative(p)))
        return _where(inside, jnp.add(ways, logs), -math.inf)

    @staticmethod
    def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return jnp.exp(nbinom.logpmf(k, n, p, loc))


# -- Of vectors


class dirichlet:
    """The Dirichlet distribution of vectors of probabilities, which are along the first axis of x.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.stats import dirichlet
    >>> round(float(dirichlet.pdf(jnp.array([0.25, 0.75]), jnp.array([1.0, 1.0]))), 4)
    1.0
    """

    @staticmethod
    def logpdf(x: Any, alpha: Any) -> Any:
        """The logarithm of the density. The last entry of x may be left out.

        Raises:
          ValueError: the numbers of entries don't fit, or alpha is no vector.
        """
        x, alpha = promote_inexact(x, alpha)
        x, alpha = jnp.asarray(x), jnp.asarray(alpha)
        if alpha.ndim != 1 or x.ndim < 1 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
            raise ValueError(
                f"dirichlet: alpha is a vector and x has as many entries along its first axis, or one less; they are "
                f"{alpha.aval.str_short()} and {x.aval.str_short()}."
            )
        if x.shape[0] < alpha.shape[0]:
            x = jnp.concatenate([x, jnp.subtract(1, jnp.sum(x, axis=0, keepdims=True))], axis=0)
        constant = jnp.subtract(special.gammaln(jnp.sum(alpha)), jnp.sum(special.gammaln(alpha)))
        powers = jnp.reshape(jnp.subtract(alpha, 1), (alpha.shape[0],) + (1,) * (x.ndim - 1))
        tolerance = jnp.abs(jnp.subtract(jnp.sum(x, axis=0), 1)) < 1e-3
        inside = jnp.logical_and(jnp.all(x >= 0, axis=0), tolerance)
        return _where(inside, jnp.add(jnp.sum(special.xlogy(powers, x), axis=0), constant), -math.inf)

    @staticmethod
    def pdf(x: Any, alpha: Any) -> Any:
        """The density."""
        return jnp.exp(dirichlet.logpdf(x, alpha))


class multivariate_normal:
    """The normal distribution of vectors, which are along the last axis of x.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.stats import multivariate_normal
    >>> round(float(multivariate_normal.logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))), 4)
    -1.8379
    """

    @staticmethod
    def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
        """The logarithm of the density of a mean and a covariance matrix; scalars are those of one number.

        Raises:
          NotImplementedError: `allow_singular` is given.
          ValueError: the covariance is no square matrix.
        """
        if allow_singular is not None:
            raise NotImplementedError("multivariate_normal: allow_singular is not supported; leave it out.")
        x, mean, cov = map(jnp.asarray, promote_inexact(x, mean, cov))
        if not mean.shape:
            return norm.logpdf(x, mean, jnp.sqrt(cov))
        n = mean.shape[-1]
        if not cov.shape:
            z = jnp.divide(jnp.subtract(x, mean), jnp.sqrt(cov))
            log_det = jnp.multiply(jnp.log(cov), n)
            squares = jnp.sum(jnp.multiply(z, z), axis=-1)
        else:
            if cov.ndim < 2 or cov.shape[-2:] != (n, n):
                raise ValueError(
                    f"multivariate_normal: the covariance of vectors of {n} entries is a matrix [{n},{n}], and is "
                    f"{cov.aval.str_short()}."
                )
            root = jnp.linalg.cholesky(cov)
            z = jnp.vectorize(_lower_solution, signature="(n,n),(n)->(n)")(root, jnp.subtract(x, mean))
            log_det = jnp.multiply(jnp.sum(jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)), axis=-1), 2)
            squares = jnp.sum(jnp.multiply(z, z), axis=-1)
        return jnp.multiply(jnp.add(jnp.add(squares, log_det), n * math.log(2 * math.pi)), -0.5)

    @staticmethod
    def pdf(x: Any, mean: Any, cov: Any) -> Any:
        """The density."""
        return jnp.exp(multivariate_normal.logpdf(x, mean, cov))


def _lower_solution(root: Any, b: Any) -> Any:
    return triangular_solve(root, b[:, None], left_side=True, lower=True)[:, 0]
