"""The logistic function, softmax and their logarithms; power transformations."""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.nn import normalizing
from xpr.numpy.promotion import promote_inexact, strong_unless_scalar
from xpr.primitives import elementwise as e
from xpr.primitives.smooth import expm1_quotient
from xpr.scipy.special.arguments import reals


def softmax(x: Any, /, *, axis: Any = None) -> Any:
    """exp(x) over its sum along axes.

    Args:
      x: array of numbers.
      axis: the axis or axes; None for all.

    Returns:
      Floats of the shape of `x`.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.softmax(jnp.zeros((2, 2)))
    Array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float32)
    """
    return normalizing.softmax(x, axis)


@compiled_eagerly("axis")
def log_softmax(x: Any, /, *, axis: Any = None) -> Any:
    """The logarithm of `softmax`.

    Args:
      x: array of numbers.
      axis: the axis or axes; None for all.

    Returns:
      Floats of the shape of `x`.

    Raises:
      ValueError: there is no such axis.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.log_softmax(jnp.zeros((2, 2)))
    Array([[-1.3862944, -1.3862944],
           [-1.3862944, -1.3862944]], dtype=float32)
    """
    return normalizing.log_softmax(x, axis)


def logit(x: Any) -> Any:
    """log(x / (1 - x)), the inverse of expit.

    >>> from xpr.scipy import special
    >>> special.logit(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    return _logit(*map(strong_unless_scalar, promote_inexact(x)))


_logit = custom_jvp(lambda x: jnp.log(jnp.divide(x, jnp.subtract(1, x))))
_logit.defjvps(lambda t, out, x: jnp.divide(t, jnp.multiply(x, jnp.subtract(1, x))))


def expit(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    >>> from xpr.scipy import special
    >>> special.expit(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    (x,) = promote_inexact(x)
    return e.logistic(x)


def boxcox(x: Any, lmbda: Any) -> Any:
    """The Box-Cox transformation (x^lmbda - 1) / lmbda, or log(x) where lmbda is 0; elementwise (Box and Cox, 1964).

    Args:
      x: array of real numbers; arguments broadcast.
      lmbda: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> special.boxcox(3.0, 1.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x, lmbda = reals("boxcox", x, lmbda)
    return _power_transform(jnp.log(x), lmbda)


def boxcox1p(x: Any, lmbda: Any) -> Any:
    """The Box-Cox transformation of 1 + x, elementwise; see `boxcox`.

    Args:
      x: array of real numbers; arguments broadcast.
      lmbda: array of real numbers; both broadcast.

    Returns:
      Floats of the broadcast shape.

    >>> from xpr.scipy import special
    >>> special.boxcox1p(2.0, 1.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x, lmbda = reals("boxcox1p", x, lmbda)
    return _power_transform(jnp.log1p(x), lmbda)


def _power_transform(log: Any, lmbda: Any) -> Any:
    """expm1(lmbda log) / lmbda, whose limit at lmbda = 0 is the logarithm."""
    finite = jnp.isfinite(log)
    inner, outer = jnp.where(finite, log, 0.0), jnp.where(finite, 0.0, log)
    inside = jnp.multiply(inner, expm1_quotient(jnp.multiply(inner, lmbda)))
    is_zero = jnp.equal(lmbda, 0)
    divisor = jnp.where(is_zero, 1.0, lmbda)
    outside = jnp.where(is_zero, outer, jnp.divide(jnp.expm1(jnp.multiply(divisor, outer)), divisor))
    return jnp.where(finite, inside, outside)
