"""Entropies, and products with logarithms that are 0 where their first factor is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr import numpy as jnp
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.numpy.promotion import promote_inexact, strong_unless_scalar
from xpr.scipy.special.arguments import one_shape, reals


def _times_log(name: str, log: Callable[[Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """x log(y), 0 where x is and y is not nan, with derivatives log(y) and x / y wherever those exist."""

    @custom_jvp
    def product(x: Any, y: Any) -> Any:
        is_zero = jnp.logical_and(jnp.equal(x, 0), jnp.equal(y, y))
        return jnp.where(is_zero, 0.0, jnp.multiply(x, log(jnp.where(is_zero, 1.0, y))))

    @product.defjvp
    def product_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (x, y), (x_dot, y_dot) = primals, tangents
        return product(x, y), jnp.add(jnp.multiply(x_dot, log(y)), jnp.multiply(y_dot, slope(x, y)))

    def function(x: Any, y: Any) -> Any:
        return product(*one_shape(*promote_inexact(x, y)))

    return function


def _quotient(x: Any, y: Any) -> Any:
    """x / y, and 0 where both are 0: 0 log(y) does not change."""
    corner = jnp.logical_and(jnp.equal(x, 0), jnp.equal(y, 0))
    return jnp.divide(x, jnp.where(corner, 1.0, y))


_xlogy = _times_log("xlogy", jnp.log, _quotient)
_xlog1py = _times_log("xlog1py", jnp.log1p, lambda x, y: _quotient(x, jnp.add(1, y)))


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), elementwise; 0 where x is 0 and y is not nan.

    Args:
      x: array of real numbers; arguments broadcast.
      y: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> special.xlogy(0.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlogy(x, y)


def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), elementwise; 0 where x is 0 and y is not nan.

    Args:
      x: array of real numbers; arguments broadcast.
      y: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> special.xlog1py(0.0, -1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlog1py(x, y)


def entr(x: Any) -> Any:
    """The entropy -x log(x): 0 at 0, and -inf below.

    >>> from xpr.scipy import special
    >>> special.entr(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _entr(*reals("entr", x))


def _entr_of(x: Any) -> Any:
    outside = jnp.less_equal(x, 0)
    entropy = jnp.negative(jnp.multiply(x, jnp.log(jnp.where(outside, 1.0, x))))
    return jnp.where(outside, jnp.where(jnp.equal(x, 0), 0.0, -math.inf), entropy)


_entr = custom_jvp(_entr_of)
_entr.defjvps(lambda t, out, x: jnp.multiply(t, jnp.negative(jnp.add(jnp.log(x), 1))))


def rel_entr(p: Any, q: Any) -> Any:
    """The relative entropy p log(p / q), elementwise: 0 where p is 0 and q >= 0, inf where it is not defined.

    Args:
      p: array of real numbers; arguments broadcast.
      q: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> special.rel_entr(0.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    p, q = reals("rel_entr", p, q)
    p = strong_unless_scalar(p)
    both = jnp.logical_and(jnp.greater(p, 0), jnp.greater(q, 0))
    is_zero = jnp.logical_and(jnp.equal(p, 0), jnp.greater_equal(q, 0))
    safe_p, safe_q = jnp.where(both, p, 1.0), jnp.where(both, q, 1.0)
    entropy = jnp.subtract(xlogy(safe_p, safe_p), xlogy(safe_p, safe_q))
    undefined = jnp.where(jnp.logical_or(jnp.isnan(p), jnp.isnan(q)), math.nan, math.inf)
    return jnp.where(both, entropy, jnp.where(is_zero, 0.0, undefined))


def kl_div(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence p log(p / q) - p + q, elementwise.

    Args:
      p: array of real numbers; arguments broadcast.
      q: array of real numbers; arguments broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> special.kl_div(1.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    p, q = reals("kl_div", p, q)
    p = strong_unless_scalar(p)
    return jnp.add(jnp.subtract(rel_entr(p, q), p), q)
