"""Continuous distributions of all numbers: the normal one, those with heavier tails, and those of extremes."""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.arguments import moved, together


class norm:
    """The normal distribution.

    >>> from xpr.scipy.stats import norm
    >>> norm.cdf(0.0), norm.logpdf(0.0)
    (Array(0.5, dtype=float32), Array(-0.9189385, dtype=float32, weak_type=True))
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = moved(x, loc, scale)
        constant = jnp.add(jnp.log(scale), 0.5 * math.log(2 * math.pi))
        return jnp.subtract(jnp.multiply(jnp.multiply(z, z), -0.5), constant)

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(norm.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return special.ndtr(moved(x, loc, scale)[0])

    @staticmethod
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return special.log_ndtr(moved(x, loc, scale)[0])

    @staticmethod
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        return special.ndtr(jnp.negative(moved(x, loc, scale)[0]))

    @staticmethod
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return special.log_ndtr(jnp.negative(moved(x, loc, scale)[0]))

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = together(q, loc, scale)
        return jnp.add(jnp.multiply(special.ndtri(q), scale), loc)

    @staticmethod
    def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of sf."""
        q, loc, scale = together(q, loc, scale)
        return jnp.add(jnp.multiply(jnp.negative(special.ndtri(q)), scale), loc)


class laplace:
    """The Laplace distribution.

    >>> from xpr.scipy.stats import laplace
    >>> laplace.cdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = moved(x, loc, scale)
        return jnp.negative(jnp.add(jnp.abs(z), jnp.log(jnp.multiply(scale, 2))))

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(laplace.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        (z, _) = moved(x, loc, scale)
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
        z, scale = moved(x, loc, scale)
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
        return special.expit(moved(x, loc, scale)[0])

    @staticmethod
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        return special.expit(jnp.negative(moved(x, loc, scale)[0]))

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = together(q, loc, scale)
        return jnp.add(jnp.multiply(special.logit(q), scale), loc)

    @staticmethod
    def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of sf."""
        q, loc, scale = together(q, loc, scale)
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
        z, scale = moved(x, loc, scale)
        return jnp.negative(jnp.add(jnp.log(jnp.multiply(scale, math.pi)), jnp.log1p(jnp.multiply(z, z))))

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(cauchy.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return jnp.add(jnp.multiply(jnp.arctan(moved(x, loc, scale)[0]), 1 / math.pi), 0.5)

    @staticmethod
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.log(cauchy.cdf(x, loc, scale))

    @staticmethod
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        z, _ = moved(x, loc, scale)
        return jnp.add(jnp.multiply(jnp.arctan(jnp.negative(z)), 1 / math.pi), 0.5)

    @staticmethod
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return jnp.log(cauchy.sf(x, loc, scale))

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = together(q, loc, scale)
        return jnp.add(jnp.multiply(jnp.tan(jnp.multiply(jnp.subtract(q, 0.5), math.pi)), scale), loc)

    @staticmethod
    def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of sf."""
        q, loc, scale = together(q, loc, scale)
        return jnp.add(jnp.multiply(jnp.tan(jnp.multiply(jnp.subtract(0.5, q), math.pi)), scale), loc)


class t:
    """Student's distribution of df degrees of freedom.

    >>> from xpr.scipy.stats import t
    >>> round(float(t.pdf(0.0, 1)), 4)
    0.3183
    """

    @staticmethod
    def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, df, scale = moved(x, df, loc, scale)
        half = jnp.multiply(df, 0.5)
        gammas = jnp.subtract(special.gammaln(jnp.add(half, 0.5)), special.gammaln(half))
        constant = jnp.add(jnp.multiply(jnp.log(jnp.multiply(df, math.pi)), 0.5), jnp.log(scale))
        power = jnp.multiply(jnp.add(half, 0.5), jnp.log1p(jnp.divide(jnp.multiply(z, z), df)))
        return jnp.subtract(gammas, jnp.add(constant, power))

    @staticmethod
    def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(t.logpdf(x, df, loc, scale))


class gumbel_r:
    """The Gumbel distribution of the greatest of many.

    >>> from xpr.scipy.stats import gumbel_r
    >>> gumbel_r.logpdf(0.0)
    Array(-1., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = moved(x, loc, scale)
        return jnp.negative(jnp.add(jnp.add(z, jnp.exp(jnp.negative(z))), jnp.log(scale)))

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(gumbel_r.logpdf(x, loc, scale))

    @staticmethod
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.negative(jnp.exp(jnp.negative(moved(x, loc, scale)[0])))

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
        p, loc, scale = together(p, loc, scale)
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
        z, scale = moved(x, loc, scale)
        return jnp.subtract(jnp.subtract(z, jnp.exp(z)), jnp.log(scale))

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(gumbel_l.logpdf(x, loc, scale))

    @staticmethod
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return jnp.negative(jnp.exp(moved(x, loc, scale)[0]))

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
        p, loc, scale = together(p, loc, scale)
        return jnp.add(loc, jnp.multiply(scale, jnp.log(jnp.negative(jnp.log1p(jnp.negative(p))))))
