"""Distributions of vectors."""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.numpy.promotion import promote_inexact
from xpr.primitives.linalg.solves import triangular_solve
from xpr.scipy import special
from xpr.scipy.stats.unbounded import norm


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
        return jnp.where(inside, jnp.add(jnp.sum(special.xlogy(powers, x), axis=0), constant), -math.inf)

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
