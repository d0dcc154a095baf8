"""Estimates of the inverse Hessian from the steps so far (Nocedal and Wright, Numerical Optimization, 2006).

A model has `direction(gradient)`, and `updated(step, change)` after a step on which the gradient changed so much.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr import numpy as jnp
from xpr.control.scan.function import scan


class Dense(NamedTuple):
    """The inverse as a matrix, by the method of Broyden, Fletcher, Goldfarb and Shanno."""

    inverse: Any

    @staticmethod
    def start(x: Any) -> Dense:
        return Dense(jnp.eye(x.size, dtype=x.dtype))

    def direction(self, gradient: Any) -> Any:
        return -self.inverse @ gradient

    def updated(self, step: Any, change: Any) -> Dense:
        """(I - s y^T / y^T s) H (I - y s^T / y^T s) + s s^T / y^T s (equation 6.17), where y^T s is positive."""
        curvature = step @ change
        rho = 1 / jnp.where(curvature > 0, curvature, 1)
        factor = jnp.eye(step.size, dtype=step.dtype) - rho * jnp.outer(step, change)
        new = factor @ self.inverse @ factor.T + rho * jnp.outer(step, step)
        return Dense(jnp.where(curvature > 0, new, self.inverse))


class Limited(NamedTuple):
    """The last steps and changes of the gradient, of limited memory (algorithms 7.4 and 7.5).

    Attributes:
      steps: [m, n], the last one in the last row.
      changes: [m, n].
      rhos: 1 / y^T s of each, [m]; 0 for rows that are not filled, which so have no effect.
      scale: y^T s / y^T y of the last one, of the identity to start from.
    """

    steps: Any
    changes: Any
    rhos: Any
    scale: Any

    @staticmethod
    def start(x: Any, memory: int) -> Limited:
        rows = jnp.zeros((memory, x.size), x.dtype)
        return Limited(rows, rows, jnp.zeros(memory, x.dtype), jnp.ones((), x.dtype))

    def direction(self, gradient: Any) -> Any:
        pairs = self.steps, self.changes, self.rhos

        def backward(q: Any, pair: Any) -> Any:
            s, y, rho = pair
            alpha = rho * (s @ q)
            return q - alpha * y, alpha

        def forward(r: Any, pair: Any) -> Any:
            s, y, rho, alpha = pair
            return r + s * (alpha - rho * (y @ r)), None

        q, alphas = scan(backward, -gradient, pairs, reverse=True)
        return scan(forward, self.scale * q, (*pairs, alphas))[0]

    def updated(self, step: Any, change: Any) -> Limited:
        curvature = step @ change
        usable = curvature > 0
        safe = jnp.where(usable, curvature, 1)
        size = jnp.where(usable, change @ change, 1)

        def pushed(rows: Any, new: Any) -> Any:
            return jnp.concatenate([rows[1:], jnp.asarray(new)[None]])

        new = Limited(
            pushed(self.steps, step), pushed(self.changes, change), pushed(self.rhos, 1 / safe), curvature / size
        )
        return Limited(*[jnp.where(usable, x, y) for x, y in zip(new, self)])
