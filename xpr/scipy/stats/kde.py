"""Kernel density estimates with Gaussian kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr import numpy as jnp
from xpr import random
from xpr.numpy import linalg
from xpr.scipy import linalg as solvers
from xpr.scipy import special
from xpr.tree_nodes import register_pytree_node

__all__ = ["gaussian_kde"]


class gaussian_kde:
    """The density of points, estimated as a sum of normal distributions around them.

    Args:
      dataset: the points, [d, n], or [n] for numbers.
      bw_method: the bandwidth: "scott" (the default), "silverman", a number, or a function of this object.
      weights: of the points, [n]; equal if not given.

    Raises:
      ValueError: fewer than two points, or shapes that don't fit.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.stats import gaussian_kde
    >>> gaussian_kde(jnp.array([0.0, 1.0, 2.0]))(jnp.array([1.0]))
    Array([0.31815624], dtype=float32)
    """

    def __init__(self, dataset: Any, bw_method: str | float | Callable[..., Any] | None = None, weights: Any = None):
        self.dataset = jnp.atleast_2d(jnp.asarray(dataset))
        self.dataset = self.dataset.astype(jnp.result_type(self.dataset, float))
        if self.dataset.size < 2:
            raise ValueError(f"gaussian_kde: takes two points or more, and got {self.dataset.size}.")
        if weights is None:
            self.weights = jnp.full(self.n, 1 / self.n, self.dataset.dtype)
        else:
            weights = jnp.asarray(weights, self.dataset.dtype)
            if weights.shape != (self.n,):
                raise ValueError(f"gaussian_kde: {self.n} points have weights ({self.n},), not {weights.shape}.")
            self.weights = weights / weights.sum()
        self.neff = 1 / jnp.sum(self.weights**2)
        covariance = jnp.atleast_2d(jnp.cov(self.dataset, rowvar=True, aweights=self.weights))
        self.covariance = covariance * self._factor(bw_method) ** 2
        self.inv_cov = linalg.inv(self.covariance)

    d = property(lambda self: self.dataset.shape[0])
    n = property(lambda self: self.dataset.shape[1])

    def _factor(self, bw_method: Any) -> Any:
        if bw_method is None or bw_method == "scott":
            return self.neff ** (-1 / (self.d + 4))
        if bw_method == "silverman":
            return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))
        if callable(bw_method):
            return bw_method(self)
        if isinstance(bw_method, str):
            raise ValueError(
                f"gaussian_kde: bw_method is 'scott', 'silverman', a number or a function, not {bw_method!r}."
            )
        return bw_method

    def _points(self, points: Any) -> Any:
        points = jnp.atleast_2d(jnp.asarray(points))
        if points.shape[0] != self.d and points.shape == (1, self.d):
            points = points.T
        if points.shape[0] != self.d:
            raise ValueError(f"gaussian_kde: points have {self.d} coordinates, and {points.shape[0]} were given.")
        return points

    def evaluate(self, points: Any) -> Any:
        """The density at points, [d, m], as [m]."""
        return jnp.exp(self.logpdf(points))

    __call__ = evaluate

    def pdf(self, x: Any) -> Any:
        """The density at points, [d, m], as [m]."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at points, [d, m], as [m]."""
        return self._log_sum(self._points(x), self.covariance)

    def _log_sum(self, points: Any, covariance: Any) -> Any:
        """log of the weighted sum of normal densities of this covariance around the data."""
        factor = linalg.cholesky(covariance)
        away = (points[:, :, None] - self.dataset[:, None, :]).reshape(self.d, -1)
        scaled = solvers.solve_triangular(factor, away, lower=True)
        energy = 0.5 * jnp.sum(scaled**2, 0).reshape(points.shape[1], self.n)
        norm = 0.5 * self.d * jnp.log(2 * jnp.pi) + jnp.sum(jnp.log(jnp.diagonal(factor)))
        return special.logsumexp(-energy, axis=1, b=self.weights) - norm

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the density times a normal density of that mean, [d], and covariance, [d, d]."""
        mean = jnp.atleast_1d(jnp.squeeze(jnp.asarray(mean)))
        cov = jnp.atleast_2d(jnp.asarray(cov))
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ValueError(f"gaussian_kde: a mean has shape ({self.d},) and a covariance ({self.d}, {self.d}).")
        return jnp.exp(self._log_sum(mean[:, None], self.covariance + cov))[0]

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability between two numbers, where the points are numbers."""
        if self.d != 1:
            raise ValueError(f"gaussian_kde: integrate_box_1d is for points of one coordinate, not {self.d}.")
        sigma = jnp.sqrt(self.covariance[0, 0])
        ends = [special.ndtr((end - self.dataset[0]) / sigma) for end in (low, high)]
        return jnp.sum(self.weights * (ends[1] - ends[0]))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product of two such densities."""
        if other.d != self.d:
            raise ValueError(f"gaussian_kde: the other density is of {other.d} coordinates, this one of {self.d}.")
        return jnp.sum(other.weights * jnp.exp(self._log_sum(other.dataset, self.covariance + other.covariance)))

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Random points, [d, *shape], from a key."""
        index_key, noise_key = random.split(key)
        chosen = random.choice(index_key, self.n, shape=shape, p=self.weights)
        zero = jnp.zeros(self.d, self.dataset.dtype)
        moved = random.multivariate_normal(noise_key, zero, self.covariance, shape=shape, dtype=self.dataset.dtype)
        return self.dataset[:, chosen] + jnp.moveaxis(moved, -1, 0)


_FIELDS = ("neff", "dataset", "weights", "covariance", "inv_cov")


def _unflatten(_: None, children: Any) -> gaussian_kde:
    copy = object.__new__(gaussian_kde)
    copy.__dict__.update(zip(_FIELDS, children))
    return copy


register_pytree_node(gaussian_kde, lambda x: ([getattr(x, name) for name in _FIELDS], None), _unflatten)
