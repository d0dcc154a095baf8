"""Estimates of the inverse Hessian from the steps so far (Nocedal and Wright, Numerical Optimization, 2006).

A model has `direction(gradient)`, and `updated(step, change)` after a step on which the gradient changed so much.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr import numpy as jnp
from xpr.control.scan.function import scan
from xpr.dtypes import finfo


class Dense(NamedTuple):
    """The inverse as a matrix, by the method of Broyden, Fletcher, Goldfarb and Shanno.

    Attributes:
      inverse: [n, n].
      is_identity: whether there was no step yet.
    """

    inverse: Any
    is_identity: Any

    @staticmethod
    def start(x: Any) -> Dense:
        return Dense(jnp.eye(x.size, dtype=x.dtype), jnp.bool_(True))

    def direction(self, gradient: Any) -> Any:
        return -self.inverse @ gradient

    def updated(self, step: Any, change: Any) -> Dense:
        """(I - s y^T / y^T s) H (I - y s^T / y^T s) + s s^T / y^T s (equation 6.17), where y^T s is positive.

        Where the rounding of ones would hide what is added, the first H is y^T s / y^T y times the identity (equation
        6.20).
        """
        curvature = step @ change
        usable = curvature > 0
        rho = 1 / jnp.where(usable, curvature, 1)
        scale = curvature / jnp.where(usable, change @ change, 1)
        hidden = self.is_identity & usable & (scale < 100 * finfo(step.dtype).eps)
        factor = jnp.eye(step.size, dtype=step.dtype) - rho * jnp.outer(step, change)
        new = factor @ (jnp.where(hidden, scale, 1) * self.inverse) @ factor.T + rho * jnp.outer(step, step)
        return Dense(jnp.where(usable, new, self.inverse), self.is_identity & ~usable)


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
