"""Entire functions that are written as quotients or products with a corner: each has derivatives of every order.

sin(x) / x and (exp(x) - 1) / x are smooth at 0, where their formulas are not, and so is I0(x) = exp(|x|) I0e(x). A
derivative of order m is a function here as well: near 0 by the power series, elsewhere by the recurrence in m that
follows from the function's differential equation. The recurrence loses digits only where |x| is much less than m.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.control.compiled import Compiled, compiled
from xpr.control.custom_jvp import custom_jvp
from xpr.core.avals import aval_of
from xpr.numpy.promotion import select_scalar
from xpr.primitives import elementwise as e
from xpr.primitives.special import bessel_i0e, bessel_i1e, i0_coefficient, in_float32, power_series, taylor_coefficients

Far = Callable[[Any, int], Any]


def with_derivatives(value: Callable[[Any, int], Any], name: str) -> custom_jvp:
    """`value(x, m)`, the m-th derivative of a function, as a function whose derivative is `value(x, m + 1)`."""
    value.__name__ = name
    function = custom_jvp(value, nondiff_argnums=(1,))

    @function.defjvp
    def jvp(order: int, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (x,), (t,) = primals, tangents
        return function(x, order), e.mul(t, function(x, order + 1))

    return function


def _derivative(name: str, coefficient: Callable[[int], float], far: Far) -> Compiled:
    """The derivatives of a function: near 0 by its power series, elsewhere by `far(x, order)`.

    Args:
      coefficient: that of x^k, times k!.
    """

    def at(x: Any, order: int) -> Any:
        size, bound = e.abs(x), 1 + order / 2
        near = e.lt(size, e.scalar(bound, size))
        inner = select_scalar(near, x, e.scalar(0, x))
        outer = select_scalar(near, e.scalar(bound, x), x)
        series = power_series(inner, taylor_coefficients(coefficient, order, bound, aval_of(x).dtype))
        return select_scalar(near, series, far(outer, order))

    def derivative(x: Any, *, order: int) -> Any:
        return in_float32(lambda x: at(x, order))(x)

    derivative.__name__ = name
    return compiled(derivative)


# -- sin(x) / x: from (x f)^(m) = sin^(m), x f^(m) = sin^(m) - m f^(m-1)


def _sinc_far(x: Any, order: int) -> Any:
    sine, cosine = e.sin(x), e.cos(x)
    value = e.div(sine, x)
    for m in range(1, order + 1):
        turned = (sine, cosine, e.neg(sine), e.neg(cosine))[m % 4]
        value = e.div(e.sub(turned, e.mul(e.scalar(m, x), value)), x)
    return value


_sinc_derivative = _derivative("sinc_derivative", lambda k: 0.0 if k % 2 else (-1.0) ** (k // 2) / (k + 1), _sinc_far)


def _sinc(x: Any, order: int) -> Any:
    if order:
        return _sinc_derivative(x, order=order)
    at_zero = e.eq(x, e.scalar(0, x))
    safe = select_scalar(at_zero, e.scalar(1, x), x)
    return select_scalar(at_zero, e.scalar(1, x), e.div(e.sin(safe), safe))


_sinc_of = with_derivatives(_sinc, "sinc")


def sin_over(x: Any) -> Any:
    """sin(x) / x, and 1 at 0."""
    return _sinc_of(x, 0)


# -- (exp(x) - 1) / x: from (x f)^(m) = exp, x f^(m) = exp - m f^(m-1)


def _expm1_far(x: Any, order: int) -> Any:
    power = e.exp(x)
    value = e.div(e.expm1(x), x)
    for m in range(1, order + 1):
        value = e.div(e.sub(power, e.mul(e.scalar(m, x), value)), x)
    return value


_expm1_derivative = _derivative("expm1_over_derivative", lambda k: 1.0 / (k + 1), _expm1_far)


def _expm1_over(x: Any, order: int) -> Any:
    if order:
        return _expm1_derivative(x, order=order)
    at_zero = e.eq(x, e.scalar(0, x))
    safe = select_scalar(at_zero, e.scalar(1, x), x)
    return select_scalar(at_zero, e.scalar(1, x), e.div(e.expm1(safe), safe))


_expm1_over_of = with_derivatives(_expm1_over, "expm1_over")


def expm1_over(x: Any) -> Any:
    """(exp(x) - 1) / x, and 1 at 0."""
    return _expm1_over_of(x, 0)


# -- I0, whose derivative is I1: from x f'' + f' = x f (DLMF 10.25.1), x f^(m+2) = x f^(m) + m f^(m-1) - (m+1) f^(m+1)


def _bessel_far(x: Any, order: int) -> Any:
    before, value, after = e.scalar(0, x), bessel_i0e(x), bessel_i1e(x)
    for m in range(order - 1):
        change = e.sub(e.mul(e.scalar(m, x), before), e.mul(e.scalar(m + 1, x), after))
        before, value, after = value, after, e.add(value, e.div(change, x))
    return e.mul(after, e.exp(e.abs(x)))


_bessel_derivative = _derivative("i0_derivative", i0_coefficient, _bessel_far)


def _bessel_i0(x: Any, order: int) -> Any:
    if order > 1:
        return _bessel_derivative(x, order=order)
    return e.mul(e.exp(e.abs(x)), bessel_i1e(x) if order else bessel_i0e(x))


_bessel_i0_of = with_derivatives(_bessel_i0, "bessel_i0")


def bessel_i0(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 0."""
    return _bessel_i0_of(x, 0)


def bessel_i1(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 1, the derivative of `bessel_i0`."""
    return _bessel_i0_of(x, 1)
