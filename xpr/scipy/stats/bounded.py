"""Continuous distributions of numbers that are not negative, all of them or those of an interval."""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.arguments import between, moved, positive_part, together


class uniform:
    """The uniform distribution between loc and loc + scale.

    >>> from xpr.scipy.stats import uniform
    >>> uniform.cdf(0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = moved(x, loc, scale)
        return jnp.where(between(z), jnp.negative(jnp.log(scale)), -math.inf)

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(uniform.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        z, _ = moved(x, loc, scale)
        return jnp.where(jnp.less(z, 0), 0.0, jnp.where(jnp.greater(z, 1), 1.0, z))

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = together(q, loc, scale)
        return jnp.where(between(q), jnp.add(jnp.multiply(q, scale), loc), math.nan)


class expon:
    """The exponential distribution.

    >>> from xpr.scipy.stats import expon
    >>> expon.logpdf(2.0)
    Array(-2., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, scale = moved(x, loc, scale)
        return jnp.where(jnp.greater_equal(z, 0), jnp.negative(jnp.add(z, jnp.log(scale))), -math.inf)

    @staticmethod
    def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(expon.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        return jnp.negative(jnp.expm1(jnp.negative(positive_part(moved(x, loc, scale)[0]))))

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
        return jnp.negative(positive_part(moved(x, loc, scale)[0]))

    @staticmethod
    def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, loc, scale = together(q, loc, scale)
        found = jnp.subtract(loc, jnp.multiply(scale, jnp.log1p(jnp.negative(jnp.where(between(q), q, 0.5)))))
        return jnp.where(between(q), found, math.nan)


class gamma:
    """The gamma distribution of shape a.

    >>> from xpr.scipy.stats import gamma
    >>> gamma.logpdf(2.0, 1.0)
    Array(-2., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, a, scale = moved(x, a, loc, scale)
        inside = jnp.greater_equal(z, 0)
        z = jnp.where(inside, z, 1.0)
        logs = jnp.subtract(special.xlogy(jnp.subtract(a, 1), z), jnp.add(z, special.gammaln(a)))
        return jnp.where(inside, jnp.subtract(logs, jnp.log(scale)), -math.inf)

    @staticmethod
    def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(gamma.logpdf(x, a, loc, scale))

    @staticmethod
    def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        z, a, _ = moved(x, a, loc, scale)
        return special.gammainc(a, positive_part(z))

    @staticmethod
    def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.log(gamma.cdf(x, a, loc, scale))

    @staticmethod
    def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        z, a, _ = moved(x, a, loc, scale)
        return special.gammaincc(a, positive_part(z))

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
    x, df, loc, scale = together(x, df, loc, scale)
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
        z, a, b, scale = moved(x, a, b, loc, scale)
        inside = between(z)
        z = jnp.where(inside, z, 0.5)
        logs = jnp.add(special.xlogy(jnp.subtract(a, 1), z), special.xlog1py(jnp.subtract(b, 1), jnp.negative(z)))
        constant = jnp.add(special.betaln(a, b), jnp.log(scale))
        return jnp.where(inside, jnp.subtract(logs, constant), -math.inf)

    @staticmethod
    def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The density."""
        return jnp.exp(beta.logpdf(x, a, b, loc, scale))

    @staticmethod
    def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability up to x."""
        z, a, b, _ = moved(x, a, b, loc, scale)
        return special.betainc(a, b, jnp.clip(z, 0, 1))

    @staticmethod
    def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability up to x."""
        return jnp.log(beta.cdf(x, a, b, loc, scale))

    @staticmethod
    def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The probability beyond x."""
        z, a, b, _ = moved(x, a, b, loc, scale)
        return special.betainc(b, a, jnp.subtract(1, jnp.clip(z, 0, 1)))

    @staticmethod
    def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the probability beyond x."""
        return jnp.log(beta.sf(x, a, b, loc, scale))


class pareto:
    """The Pareto distribution of shape b.

    >>> from xpr.scipy.stats import pareto
    >>> pareto.pdf(1.0, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The logarithm of the density."""
        z, b, scale = moved(x, b, loc, scale)
        inside = jnp.greater_equal(z, 1)
        logs = jnp.subtract(jnp.log(b), jnp.multiply(jnp.add(b, 1), jnp.log(jnp.where(inside, z, 1.0))))
        return jnp.where(inside, jnp.subtract(logs, jnp.log(scale)), -math.inf)

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
        z, b, _ = moved(x, b, loc, scale)
        return jnp.negative(jnp.multiply(b, jnp.log(jnp.where(jnp.greater_equal(z, 1), z, 1.0))))

    @staticmethod
    def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
        """The inverse of cdf."""
        q, b, loc, scale = together(q, b, loc, scale)
        inside = between(q)
        power = jnp.exp(jnp.negative(jnp.divide(jnp.log1p(jnp.negative(jnp.where(inside, q, 0.5))), b)))
        return jnp.where(inside, jnp.add(jnp.multiply(power, scale), loc), math.nan)
