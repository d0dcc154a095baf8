"""Functions that are smooth where their formulas have cases: the length of (x, y), sin(x) / x, (exp(x) - 1) / x and I0.

The last three, which are analytic everywhere, have their derivatives of every order by a parameter: near 0 by the power
series, elsewhere by the recurrence in the order that follows from the function's differential equation. It loses digits
only where |x| is much less than the order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core.avals import aval_of
from xpr.core.primitive import Primitive
from xpr.dtypes import FLOATS, INEXACT, finfo
from xpr.primitives.elementwise import (
    abs,
    add,
    bitwise_or,
    cos,
    div,
    eq,
    exp,
    expm1,
    lt,
    max,
    min,
    mul,
    neg,
    scalar,
    sin,
    sqrt,
    sub,
)
from xpr.primitives.elementwise_rules import function_of
from xpr.primitives.slicing import select
from xpr.primitives.special import (
    OVER,
    bessel_i0e,
    bessel_i1e,
    composite,
    constant_like,
    i0_coefficient,
    in_float32,
    one_shape,
    power_series,
    taylor_coefficients,
)

__all__ = [
    "bessel_i0", "bessel_i0_p", "expm1_quotient", "expm1_quotient_p", "hypot", "hypot_p", "sine_quotient",
    "sine_quotient_p",
]  # fmt: skip

# -- The length of (x, y)


def _hypot(x: Any, y: Any) -> Any:
    x, y = map(abs, one_shape(x, y))
    large, small = max(x, y), min(x, y)
    tiny = lt(large, scalar(finfo(aval_of(x).dtype).smallest_normal, x))
    ratio = div(small, select(tiny, constant_like(1, x), large))
    root = mul(large, sqrt(add(mul(ratio, ratio), scalar(1, x))))
    infinity = scalar(np.inf, x)
    return select(bitwise_or(eq(x, infinity), eq(y, infinity)), constant_like(np.inf, x), root)


def _share(x: Any, length: Any) -> Any:
    """The slope of the length of (x, y) in x; at the origin a half, which the larger of two equal numbers has."""
    zero, half, one, x, length = one_shape(*(scalar(v, x) for v in (0, 0.5, 1)), x, length)
    at_origin = eq(length, zero)
    return select(at_origin, half, div(x, select(at_origin, one, length)))


hypot_p = composite(
    "hypot", _hypot, over=FLOATS, reference=np.hypot,
    partials=[lambda t, x, y, out: mul(t, _share(x, out)), lambda t, x, y, out: mul(t, _share(y, out))],
)  # fmt: skip
hypot = function_of(
    hypot_p,
    """sqrt(x^2 + y^2), elementwise, without overflow of the squares.

    Args:
      x: an array of floats.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      Floats of the same shape.

    >>> from xpr import lax
    >>> lax.hypot(3.0, 4.0)
    Array(5., dtype=float32, weak_type=True)
    """,
    2,
)

# -- Functions with derivatives of every order


def _with_derivatives(
    name: str,
    value: Callable[[Any], Any],
    coefficient: Callable[[int], float],
    far: Callable[[Any, int], Any],
    reference: Callable[..., Any],
    over: frozenset[np.dtype],
) -> Primitive:
    """A function, and by the parameter `order` its derivatives.

    Args:
      coefficient: that of x^k in its power series, times k!.
      far: the derivative `far(x, order)` away from 0, for orders from 1.
    """

    def near_and_far(x: Any, order: int) -> Any:
        bound = 1 + order / 2
        near = lt(abs(x), scalar(bound, abs(x)))
        inner, outer = select(near, x, constant_like(0, x)), select(near, constant_like(bound, x), x)
        series = power_series(inner, taylor_coefficients(coefficient, order, bound, finfo(aval_of(x).dtype).dtype))
        return select(near, series, far(outer, order))

    def fun(x: Any, *, order: int) -> Any:
        return in_float32(lambda x: near_and_far(x, order))(x) if order else value(x)

    def next_derivative(t: Any, x: Any, y: Any, *, order: int) -> Any:
        return mul(t, primitive.bind(x, order=order + 1))

    primitive = composite(name, fun, over=over, reference=reference, partials=[next_derivative])
    return primitive


@functools.cache
def _points_of_unit_interval() -> tuple[np.ndarray, np.ndarray]:
    """The points in (0, 1) and the weights of Gauss-Legendre quadrature."""
    points, weights = np.polynomial.legendre.leggauss(64)
    return (points + 1) / 2, weights / 2


def _integrated(kernel: Callable[[np.ndarray, Any, int], Any], quadrature: Callable[[], Any]) -> Callable[..., Any]:
    """A reference: the integral of `kernel(points, x, order)` by the points and weights that `quadrature` gives."""

    def at(x: Any, order: int) -> Any:
        points, weights = quadrature()
        return np.nan if np.isnan(x) else np.sum(kernel(points, x, order) * weights)

    def reference(x: Any, *, order: int) -> np.ndarray:
        x = np.asarray(x)
        wide = x.astype(np.result_type(x.dtype, np.float64) if x.dtype.kind in "fc" else np.float64)
        return np.asarray([at(v, order) for v in wide.ravel()]).astype(x.dtype).reshape(x.shape)

    return reference


# sin(x) / x: from (x f)^(m) = sin^(m) follows x f^(m) = sin^(m) - m f^(m-1).


def _sine_quotient(x: Any) -> Any:
    at_zero, one = eq(x, scalar(0, x)), constant_like(1, x)
    safe = select(at_zero, one, x)
    return select(at_zero, one, div(sin(safe), safe))


def _cosine_derivative(x: np.ndarray, order: int) -> np.ndarray:
    return (1, -1, -1, 1)[order % 4] * (np.sin if order % 2 else np.cos)(x)


def _sine_quotient_far(x: Any, order: int) -> Any:
    sine, cosine = sin(x), cos(x)
    value = div(sine, x)
    for m in range(1, order + 1):
        turned = (sine, cosine, neg(sine), neg(cosine))[m % 4]
        value = div(sub(turned, mul(scalar(m, x), value)), x)
    return value


sine_quotient_p = _with_derivatives(
    "sine_quotient", _sine_quotient, lambda k: 0.0 if k % 2 else (-1.0) ** (k // 2) / (k + 1), _sine_quotient_far,
    _integrated(lambda u, x, m: u**m * _cosine_derivative(u * x, m), _points_of_unit_interval), INEXACT,
)  # fmt: skip


def sine_quotient(x: Any, order: int = 0) -> Any:
    """sin(x) / x, which is 1 at 0, or its derivative of some order.

    Args:
      x: an array of floats.
      order: the order of the derivative.

    Returns:
      Floats of the same shape.

    >>> from xpr import lax
    >>> lax.sine_quotient(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return sine_quotient_p.bind(x, order=order)


# (exp(x) - 1) / x: from (x f)^(m) = exp follows x f^(m) = exp - m f^(m-1).


def _expm1_quotient(x: Any) -> Any:
    at_zero, one = eq(x, scalar(0, x)), constant_like(1, x)
    safe, infinite = select(at_zero, one, x), constant_like(np.inf, x)
    return select(at_zero, one, select(eq(x, infinite), infinite, div(expm1(safe), safe)))


def _expm1_quotient_far(x: Any, order: int) -> Any:
    power = exp(x)
    value = div(expm1(x), x)
    for m in range(1, order + 1):
        value = div(sub(power, mul(scalar(m, x), value)), x)
    return value


expm1_quotient_p = _with_derivatives(
    "expm1_quotient", _expm1_quotient, lambda k: 1.0 / (k + 1), _expm1_quotient_far,
    _integrated(lambda u, x, m: u**m * np.exp(u * x), _points_of_unit_interval), INEXACT,
)  # fmt: skip


def expm1_quotient(x: Any, order: int = 0) -> Any:
    """(exp(x) - 1) / x, which is 1 at 0, or its derivative of some order.

    Args:
      x: an array of floats.
      order: the order of the derivative.

    Returns:
      Floats of the same shape.

    >>> from xpr import lax
    >>> lax.expm1_quotient(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return expm1_quotient_p.bind(x, order=order)


# I0, whose derivative is I1: from x f'' + f' = x f (DLMF 10.25.1) follows
# x f^(m+2) = x f^(m) + m f^(m-1) - (m + 1) f^(m+1).


def _bessel_i0(x: Any) -> Any:
    infinite = constant_like(np.inf, x)
    return select(eq(abs(x), infinite), infinite, mul(exp(abs(x)), bessel_i0e(x)))


def _bessel_i0_far(x: Any, order: int) -> Any:
    before, value, after = scalar(0, x), bessel_i0e(x), bessel_i1e(x)
    for m in range(order - 1):
        change = sub(mul(scalar(m, x), before), mul(scalar(m + 1, x), after))
        before, value, after = value, after, add(value, div(change, x))
    return mul(exp(abs(x)), after)


_ANGLES = (np.arange(4096) + 0.5) * (np.pi / 2048)

bessel_i0_p = _with_derivatives(
    "bessel_i0", in_float32(_bessel_i0), i0_coefficient, _bessel_i0_far,
    _integrated(lambda angle, x, m: np.cos(angle) ** m * np.exp(x * np.cos(angle)), lambda: (_ANGLES, 1 / 4096)), OVER,
)  # fmt: skip


def bessel_i0(x: Any, order: int = 0) -> Any:
    """The modified Bessel function of the first kind of order 0, or one of its derivatives, of which the first is I1.

    Args:
      x: an array of floats.
      order: the order of the derivative.

    Returns:
      Floats of the same shape.

    >>> from xpr import lax
    >>> lax.bessel_i0(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return bessel_i0_p.bind(x, order=order)
