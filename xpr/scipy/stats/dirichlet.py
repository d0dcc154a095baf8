"""The Dirichlet distribution of vectors of probabilities, which are along the first axis of x.

>>> import xpr.numpy as jnp
>>> from xpr.scipy.stats import dirichlet
>>> round(float(dirichlet.pdf(jnp.array([0.25, 0.75]), jnp.array([1.0, 1.0]))), 4)
1.0
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.numpy.promotion import promote_inexact
from xpr.scipy import special

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, alpha: Any) -> Any:
    """The logarithm of the density. The last element of each vector of x may be left out.

    Raises:
      ValueError: x and alpha have different numbers of elements, or alpha is not a vector.
    """
    x, alpha = promote_inexact(x, alpha)
    x, alpha = jnp.asarray(x), jnp.asarray(alpha)
    if alpha.ndim != 1 or x.ndim < 1 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            f"dirichlet: alpha is a vector and x has as many elements along its first axis, or one less; they are "
            f"{alpha.aval.str_short()} and {x.aval.str_short()}."
        )
    if x.shape[0] < alpha.shape[0]:
        x = jnp.concatenate([x, jnp.subtract(1, jnp.sum(x, axis=0, keepdims=True))], axis=0)
    constant = jnp.subtract(special.gammaln(jnp.sum(alpha)), jnp.sum(special.gammaln(alpha)))
    powers = jnp.reshape(jnp.subtract(alpha, 1), (alpha.shape[0],) + (1,) * (x.ndim - 1))
    tolerance = jnp.abs(jnp.subtract(jnp.sum(x, axis=0), 1)) < 1e-3
    inside = jnp.logical_and(jnp.all(x >= 0, axis=0), tolerance)
    return jnp.where(inside, jnp.add(jnp.sum(special.xlogy(powers, x), axis=0), constant), -math.inf)


def pdf(x: Any, alpha: Any) -> Any:
    """The density."""
    return jnp.exp(logpdf(x, alpha))
