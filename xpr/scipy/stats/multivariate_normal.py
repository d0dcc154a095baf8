"""The normal distribution of vectors, which are along the last axis of x.

>>> import xpr.numpy as jnp
>>> from xpr.scipy.stats import multivariate_normal
>>> round(float(multivariate_normal.logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))), 4)
-1.8379
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.numpy.promotion import promote_inexact
from xpr.primitives.linalg.solves import triangular_solve
from xpr.scipy.stats import norm

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
    """The logarithm of the density of a mean and a covariance matrix; scalars are those of one number.

    Raises:
      NotImplementedError: `allow_singular` is given.
      ValueError: the covariance is not a square matrix.
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
                f"multivariate_normal: the covariance of vectors of {n} elements is a matrix [{n},{n}], and is "
                f"{cov.aval.str_short()}."
            )
        root = jnp.linalg.cholesky(cov)
        z = jnp.vectorize(_lower_solution, signature="(n,n),(n)->(n)")(root, jnp.subtract(x, mean))
        log_det = jnp.multiply(jnp.sum(jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)), axis=-1), 2)
        squares = jnp.sum(jnp.multiply(z, z), axis=-1)
    return jnp.multiply(jnp.add(jnp.add(squares, log_det), n * math.log(2 * math.pi)), -0.5)


def pdf(x: Any, mean: Any, cov: Any) -> Any:
    """The density."""
    return jnp.exp(logpdf(x, mean, cov))


def _lower_solution(root: Any, b: Any) -> Any:
    return triangular_solve(root, b[:, None], left_side=True, lower=True)[:, 0]
