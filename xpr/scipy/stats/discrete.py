"""Distributions of integers."""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.arguments import between, together


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
        k, p, loc = together(k, p, loc)
        n = jnp.subtract(k, loc)
        inside = jnp.logical_or(jnp.equal(n, 0), jnp.equal(n, 1))
        n = jnp.where(inside, n, 0.0)
        logs = jnp.add(special.xlogy(n, p), special.xlog1py(jnp.subtract(1, n), jnp.negative(p)))
        return jnp.where(inside, logs, -math.inf)

    @staticmethod
    def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return jnp.exp(bernoulli.logpmf(k, p, loc))

    @staticmethod
    def cdf(k: Any, p: Any) -> Any:
        """The probability up to k."""
        k, p = together(k, p)
        known = jnp.where(jnp.less(k, 0), 0.0, jnp.where(jnp.less(k, 1), jnp.subtract(1, p), 1.0))
        return jnp.where(jnp.logical_and(between(p), jnp.equal(k, k)), known, math.nan)

    @staticmethod
    def ppf(q: Any, p: Any) -> Any:
        """The inverse of cdf."""
        q, p = together(q, p)
        found = jnp.where(jnp.less_equal(q, jnp.subtract(1, p)), 0.0, 1.0)
        return jnp.where(jnp.logical_and(between(q), between(p)), found, math.nan)


class geom:
    """The distribution of the number of the first success, of probability p each.

    >>> from xpr.scipy.stats import geom
    >>> geom.pmf(2, 0.5)
    Array(0.25, dtype=float32, weak_type=True)
    """

    @staticmethod
    def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
        """The logarithm of the probability of k."""
        k, p, loc = together(k, p, loc)
        n = jnp.subtract(k, loc)
        inside = jnp.greater(n, 0)
        before = jnp.subtract(jnp.where(inside, n, 1.0), 1)
        return jnp.where(inside, jnp.add(special.xlog1py(before, jnp.negative(p)), jnp.log(p)), -math.inf)

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
        k, mu, loc = together(k, mu, loc)
        n, inside = _counted(k, loc)
        n = jnp.where(inside, n, 0.0)
        return jnp.where(
            inside, jnp.subtract(special.xlogy(n, mu), jnp.add(mu, special.gammaln(jnp.add(n, 1)))), -math.inf
        )

    @staticmethod
    def pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return jnp.exp(poisson.logpmf(k, mu, loc))

    @staticmethod
    def cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
        """The probability up to k."""
        k, mu, loc = together(k, mu, loc)
        n = jnp.subtract(k, loc)
        inside = jnp.greater_equal(n, 0)
        return jnp.where(inside, special.gammaincc(jnp.add(jnp.floor(jnp.where(inside, n, 0.0)), 1), mu), 0.0)


class nbinom:
    """The negative binomial distribution: failures before n successes of probability p each.

    >>> from xpr.scipy.stats import nbinom
    >>> round(float(nbinom.pmf(0, 2, 0.5)), 4)
    0.25
    """

    @staticmethod
    def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
        """The logarithm of the probability of k."""
        k, n, p, loc = together(k, n, p, loc)
        failures = jnp.subtract(k, loc)
        inside = jnp.greater_equal(failures, 0)
        failures = jnp.where(inside, failures, 0.0)
        ways = jnp.subtract(
            special.gammaln(jnp.add(failures, n)),
            jnp.add(special.gammaln(jnp.add(failures, 1)), special.gammaln(n)),
        )
        logs = jnp.add(special.xlogy(n, p), special.xlog1py(failures, jnp.negative(p)))
        return jnp.where(inside, jnp.add(ways, logs), -math.inf)

    @staticmethod
    def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return jnp.exp(nbinom.logpmf(k, n, p, loc))
