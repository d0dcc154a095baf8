"""Exponentials and logarithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.numpy.comparisons import greater
from xpr.numpy.promotion import promote_inexact, promote_shapes, select_scalar, strong_unless_scalar
from xpr.numpy.ufunc_builders import float_unary
from xpr.primitives import elementwise as e

__all__ = ["exp", "exp2", "expm1", "log", "log10", "log1p", "log2"]

exp = float_unary(
    "exp",
    e.exp_p,
    """e to the power of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.exp(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
)
exp2 = float_unary(
    "exp2",
    e.exp2_p,
    """2 to the power of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.exp2(jnp.array([3.0]))
    Array([8.], dtype=float32)
    """,
)
expm1 = float_unary(
    "expm1",
    e.expm1_p,
    """exp(x) - 1, accurate near 0.

    >>> import xpr.numpy as jnp
    >>> jnp.expm1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
log = float_unary(
    "log",
    e.log_p,
    """The natural logarithm of each element.

    >>> import xpr.numpy as jnp
    >>> jnp.log(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
log1p = float_unary(
    "log1p",
    e.log1p_p,
    """log(1 + x), accurate near 0.

    >>> import xpr.numpy as jnp
    >>> jnp.log1p(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)


def log2(x: Any, /) -> Any:
    """The logarithm to base 2.

    >>> import xpr.numpy as jnp
    >>> jnp.log2(jnp.array([1.0, 2.0]))
    Array([0., 1.], dtype=float32)
    """
    (x,) = promote_inexact(x)
    return _by_parts(e.log(x), lambda part: e.div(part, aval_of(part).dtype.type(np.log(2))))


def log10(x: Any, /) -> Any:
    """The logarithm to base 10.

    >>> import xpr.numpy as jnp
    >>> jnp.log10(jnp.array([1.0, 10.0]))
    Array([0., 1.], dtype=float32)
    """
    (x,) = promote_inexact(x)
    return _by_parts(e.log(x), lambda part: e.mul(part, aval_of(part).dtype.type(1 / np.log(10))))


def _by_parts(x: Any, scaled: Callable[[Any], Any]) -> Any:
    """The multiple of real numbers; of complex ones part by part, since that of an infinite part by a complex factor
    is nan.
    """
    if aval_of(x).dtype not in dtypes.COMPLEX:
        return scaled(x)
    return e.complex_(scaled(e.real(x)), scaled(e.imag(x)))


@compiled_eagerly()
def logaddexp(x: Any, y: Any, /) -> Any:
    """log(exp(x) + exp(y)), elementwise, without overflow.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Floats of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.logaddexp(0.0, 0.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    x, y = promote_shapes(*promote_inexact(x, y))
    return _logaddexp(x, y)


def _logaddexp(x: Any, y: Any) -> Any:
    """max(x, y) + log1p(exp(-|x - y|)).

    The maximum and -|x - y| are written as choices of one side, so derivatives of every order are right where x = y,
    too. Where both are one infinity their difference is nan; there it is taken as 0.
    """
    x_is_ahead = greater(x, y)
    gap = select_scalar(x_is_ahead, e.sub(y, x), e.sub(x, y))
    same_infinity = e.bitwise_and(e.eq(x, y), e.ne(gap, gap))
    gap = select_scalar(same_infinity, e.scalar(0, gap), gap)
    total = e.add(select_scalar(x_is_ahead, x, y), e.log1p(e.exp(gap)))
    return _principal(total) if aval_of(total).dtype in dtypes.COMPLEX else total


def _principal(x: Any) -> Any:
    """Complex logarithms with imaginary parts between -pi and pi."""
    angle = e.imag(x)
    turns = e.round(e.div(angle, e.scalar(2 * np.pi, angle)), 1)
    return e.complex_(e.real(x), e.sub(angle, e.mul(turns, e.scalar(2 * np.pi, angle))))


@compiled_eagerly()
def logaddexp2(x: Any, y: Any, /) -> Any:
    """log2(2^x + 2^y), elementwise, without overflow.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Floats of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.logaddexp2(0.0, 0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    x, y = map(strong_unless_scalar, promote_shapes(*promote_inexact(x, y)))
    ln2 = e.scalar(np.log(2), x)
    return e.div(_logaddexp(e.mul(x, ln2), e.mul(y, ln2)), ln2)
