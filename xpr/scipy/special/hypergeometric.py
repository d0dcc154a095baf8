"""Hypergeometric functions of real numbers.

Power series are summed until terms no longer count. Derivatives in the parameters are those of the same sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xpr import numpy as jnp
from xpr.control.compiled import compiled
from xpr.control.custom.custom_jvp import custom_jvp
from xpr.control.while_.fori_loop import fori_loop
from xpr.control.while_.function import while_loop
from xpr.primitives.special import lgamma
from xpr.scipy.special.arguments import inexact_dtype, slope_in, wide_reals
from xpr.scipy.special.gamma_functions import gammasgn

__all__ = ["hyp1f1", "hyp2f1"]

_MOST = 2000  # terms of a series


def _with_partials(fun: Callable[..., Any], parameters: int, slope_in_x: Callable[..., Any]) -> Any:
    """The function with its derivatives: those by the first arguments, the parameters, are those of its formula."""

    def partial(i: int) -> Callable[..., Any]:
        return lambda t, out, *xs: t * slope_in(i, fun, *xs)

    function = custom_jvp(lambda *xs: fun(*xs))
    function.defjvps(*[partial(i) for i in range(parameters)], lambda t, out, *xs: t * slope_in_x(*xs))
    return function


def _series(ratio: Callable[[Any], Any], first: Any) -> Any:
    """1 + r(0) + r(0) r(1) + ... times the first term, elementwise, until no term counts."""
    least = float(jnp.finfo(first.dtype).eps) / 16

    def unfinished(state: Any) -> Any:
        k, total, term = state
        return (k < _MOST) & jnp.any(jnp.abs(term) > least * jnp.abs(total))

    def add(state: Any) -> Any:
        k, total, term = state
        term = term * ratio(k.astype(first.dtype))
        return k + 1, total + term, term

    return while_loop(unfinished, add, (jnp.int32(0), first, first))[1]


def _is_count(x: Any) -> Any:
    """Whether x is 0, -1, -2 ..., of which a series ends."""
    return (x <= 0) & (x == jnp.round(x))


def _gamma_ratio(tops: tuple[Any, ...], bottoms: tuple[Any, ...]) -> Any:
    """The quotient of products of gamma functions; 0 at poles of the denominator."""
    logs, sign = 0.0, 1.0
    for x in tops:
        logs, sign = logs + lgamma(x), sign * gammasgn(x)
    zero = False
    for x in bottoms:
        pole = _is_count(x)
        safe = jnp.where(pole, 1.0, x)
        logs, sign, zero = logs - lgamma(safe), sign * gammasgn(safe), zero | pole
    return jnp.where(zero, 0.0, sign * jnp.exp(logs))


# -- 1F1


def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    """Kummer's confluent hypergeometric function 1F1(a; b; x), elementwise.

    Its power series (DLMF 13.2.2), by Kummer's transformation with terms of one sign for x < 0; far out its asymptotic
    series (DLMF 13.7.1).

    Args:
      a: array of real numbers.
      b: array of real numbers.
      x: array of real numbers; all broadcast.

    Returns:
      Floats of the broadcast shape; infinite where b is 0, -1, ..., unless the series ends before.

    Raises:
      TypeError: one is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.hyp1f1(1.0, 2.0, 1.0)), 4)
    1.7183
    """
    return _hyp1f1(*wide_reals("hyp1f1", a, b, x)).astype(inexact_dtype(a, b, x))


@compiled
def _hyp1f1_of(a: Any, b: Any, x: Any) -> Any:
    invalid = jnp.isnan(a + b + x)
    ends = _is_count(a)
    pole = _is_count(b) & ~(ends & (a >= b))
    turned = (x < 0) & ~ends
    top, z = jnp.where(turned, b - a, a), jnp.where(turned, -x, x)
    bound = jnp.maximum(jnp.abs(top), jnp.abs(b)) + 1
    largest = -1.8 * math.log(float(jnp.finfo(z.dtype).tiny))  # beyond, exp(z / 2) is too large
    far = (z > jnp.minimum(50 + 4 * bound * bound, largest)) & ~ends & ~_is_count(top)
    usual = ~invalid & ~pole & ~far
    top_of_series, bottom, inner = jnp.where(usual, top, 0.0), jnp.where(usual, b, 1.0), jnp.where(usual, z, 0.0)

    def ratio(k: Any) -> Any:
        zero = bottom + k == 0  # only where the numerator has been 0 before
        return (top_of_series + k) * inner / (jnp.where(zero, 1.0, bottom + k) * (k + 1))

    half = jnp.exp(jnp.where(turned & usual, 0.5 * x, 0.0))
    value = _series(ratio, half) * half
    z, top, bottom = jnp.where(far, z, 100.0), jnp.where(far, top, 1.5), jnp.where(far, b, 1.0)
    term = total = jnp.ones_like(z)
    for k in range(20):
        step = (bottom - top + k) * (1 - top + k) / ((k + 1) * z)
        term = jnp.where(jnp.abs(step) < 1, term * step, 0.0)
        total = total + term
    scale = _gamma_ratio((bottom,), (top,)) * jnp.exp((top - bottom) * jnp.log(z) + jnp.where(turned, 0.0, z))
    value = jnp.where(far, scale * total, value)
    return jnp.where(invalid, math.nan, jnp.where(pole, math.inf, value))


def _hyp1f1_slope(a: Any, b: Any, x: Any) -> Any:
    """DLMF 13.3.15."""
    return a / b * _hyp1f1(a + 1, b + 1, x)


_hyp1f1 = _with_partials(_hyp1f1_of, 2, _hyp1f1_slope)


# -- 2F1


def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    """Gauss's hypergeometric function 2F1(a, b; c; x), elementwise.

    For x < 0 by Pfaff's transformation to x / (x - 1) (DLMF 15.8.1); up to 1/2 its power series; from there on Taylor
    series of the differential equation, at points of which each is half as far from 1; at 1 Gauss's sum (DLMF 15.4.20).

    Args:
      a: array of real numbers.
      b: array of real numbers.
      c: array of real numbers.
      x: array of real numbers; all broadcast.

    Returns:
      Floats of the broadcast shape; infinite beyond 1, and where c is 0, -1, ..., unless the series ends before.

    Raises:
      TypeError: one is complex.

    >>> from xpr.scipy import special
    >>> round(float(special.hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
    1.3863
    """
    return _hyp2f1(*wide_reals("hyp2f1", a, b, c, x)).astype(inexact_dtype(a, b, c, x))


@compiled
def _hyp2f1_of(a: Any, b: Any, c: Any, x: Any) -> Any:
    invalid = jnp.isnan(a + b + c + x)
    last = jnp.maximum(jnp.where(_is_count(a), a, -math.inf), jnp.where(_is_count(b), b, -math.inf))
    ends = jnp.isfinite(last)
    pole = _is_count(c) & ~(ends & (last >= c))
    turned = (x < 0) & ~ends
    z = jnp.where(turned, x / (jnp.where(turned, x, 0.0) - 1), x)
    second = jnp.where(turned, c - b, b)
    at_one = (z == 1) & ~ends
    beyond = (z > 1) & ~ends
    usual = ~(invalid | pole | at_one | beyond)
    top, other, bottom = jnp.where(usual, a, 0.0), jnp.where(usual, second, 0.0), jnp.where(usual, c, 1.0)
    z = jnp.where(usual, z, 0.0)
    steep = (top + other > bottom) & (z > 0.5) & ~ends  # Euler's transformation (DLMF 15.8.1) makes it flat at 1
    power = jnp.where(steep, bottom - top - other, 0.0) * jnp.log1p(-jnp.where(steep, z, 0.0))
    top, other = jnp.where(steep, bottom - top, top), jnp.where(steep, bottom - other, other)
    value = jnp.exp(power) * _continued(top, other, bottom, z, ends)
    value = jnp.where(turned, jnp.exp(-a * jnp.log1p(-jnp.where(turned, x, 0.0))) * value, value)
    excess = jnp.where(at_one, c - a - second, 1.0)
    summed = _gamma_ratio((jnp.where(at_one, c, 1.0), jnp.where(excess > 0, excess, 1.0)),
                          (jnp.where(at_one, c - a, 1.0), jnp.where(at_one, c - second, 1.0)))  # fmt: skip
    value = jnp.where(at_one, jnp.where(excess > 0, summed, math.inf), value)
    return jnp.where(invalid, math.nan, jnp.where(pole | beyond, math.inf, value))


def _continued(a: Any, b: Any, c: Any, x: Any, ends: Any) -> Any:
    start = jnp.where(ends, x, jnp.minimum(x, 0.5))

    def ratio(a: Any, b: Any, c: Any) -> Callable[[Any], Any]:
        def of(k: Any) -> Any:
            zero = c + k == 0
            return (a + k) * (b + k) * start / (jnp.where(zero, 1.0, c + k) * (k + 1))

        return of

    one = jnp.ones_like(x)
    value = _series(ratio(a, b, c), one)
    slope = a * b / jnp.where(c == 0, 1.0, c) * _series(ratio(a + 1, b + 1, c + 1), one)

    def unfinished(state: Any) -> Any:
        return jnp.any(state[0] < x)

    def further(state: Any) -> Any:
        """To half the distance from 1, or to x, by the Taylor series at the point.

        Of x (1 - x) F'' + (c - (a + b + 1) x) F' = a b F with x = x0 + h the coefficients f_n of h^n satisfy
        x0 (1 - x0) (n + 1) (n + 2) f_(n+2) = (n + a) (n + b) f_n - ((1 - 2 x0) n + c - (a + b + 1) x0) (n + 1) f_(n+1).
        """
        at, value, slope = state
        moving = at < x
        target = jnp.where(moving, jnp.minimum(x, 0.5 + 0.5 * at), at)
        h = jnp.where(moving, target - at, 1.0)
        share = jnp.where(moving, h / (at * (1 - at)), 0.0)
        term = slope * h

        def add(i: Any, sums: Any) -> Any:
            before, term, total, weighted = sums
            n = jnp.asarray(i).astype(h.dtype)
            upward = (n + a) * (n + b) * h * before - ((1 - 2 * at) * n + c - (a + b + 1) * at) * (n + 1) * term
            term, before = upward * share / ((n + 1) * (n + 2)), term
            return before, term, total + term, weighted + (n + 2) * term

        _, _, total, weighted = fori_loop(0, 60, add, (value, term, value + term, term))
        return target, jnp.where(moving, total, value), jnp.where(moving, weighted / h, slope)

    return while_loop(unfinished, further, (start, value, slope))[1]


def _hyp2f1_slope(a: Any, b: Any, c: Any, x: Any) -> Any:
    """DLMF 15.5.1."""
    return a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x)


_hyp2f1 = _with_partials(_hyp2f1_of, 3, _hyp2f1_slope)
