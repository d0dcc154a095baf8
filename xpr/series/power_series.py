"""Truncated power series: lists of coefficients c with x(t) = c[0] + c[1] t + c[2] t^2 + ..., and functions of them.

Functions are computed by the recurrences that their differential equations give, in O(k^2) operations for k
coefficients. From y = f(u) with y' = g u' follows m y[m] = sum_{j=1..m} j u[j] g[m-j], where g is another series, known
up to its coefficient m - 1 by then. See Griewank and Walther, "Evaluating Derivatives" (2008), ch. 13.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xpr.core.avals import aval_of
from xpr.primitives import elementwise as e
from xpr.primitives.barrier import optimization_barrier_p
from xpr.primitives.elementwise import scalar
from xpr.primitives.shapes import zeros_like_aval

Series = list[Any]  # arrays; None for a coefficient that is known to be zero; the first one never is None


def mul(x: Any, y: Any) -> Any:
    return None if x is None or y is None else e.mul(x, y)


def add(x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else e.add(x, y)


def sub(x: Any, y: Any) -> Any:
    return x if y is None else e.neg(y) if x is None else e.sub(x, y)


def neg(x: Any) -> Any:
    return None if x is None else e.neg(x)


def div(x: Any, y: Any) -> Any:
    return None if x is None else e.div(x, y)


def times(x: Any, number: float) -> Any:
    """An array times a number."""
    return x if x is None or number == 1 else e.mul(x, scalar(number, x))


def zeros(x: Any) -> Any:
    """The coefficient 0 of a series of which `x` is a coefficient."""
    return zeros_like_aval(aval_of(x))


def once(x: Any) -> Any:
    """An expensive value that each coefficient of a series reads, behind a barrier: XLA would recompute it in each."""
    return optimization_barrier_p.bind(x)[0] if aval_of(x).ndim else x


def total(terms: Iterable[Any]) -> Any:
    """The sum of arrays."""
    return functools.reduce(add, terms, None)


def convolved(x: Sequence[Any], y: Sequence[Any], m: int, product: Callable[[Any, Any], Any] = mul) -> Any:
    """Coefficient `m` of the product of two series."""
    return total(product(x[j], y[m - j]) for j in range(m + 1))


def product(x: Series, y: Series, by: Callable[[Any, Any], Any] = mul) -> Series:
    """The product of two series; `by` is any function that is linear in each of its two arguments."""
    return [convolved(x, y, m, by) for m in range(len(x))]


def squared(x: Series) -> Series:
    """The square of a series."""
    return [coefficient_of_square(x, m) for m in range(len(x))]


def coefficient_of_square(x: Series, m: int) -> Any:
    """Coefficient `m` of the square of a series, by half of the products that two series take."""
    doubled = times(total(mul(x[j], x[m - j]) for j in range((m + 1) // 2)), 2)
    middle = x[m // 2] if m % 2 == 0 else None
    return add(doubled, None if middle is None else e.square(middle))


def quotient(x: Series, y: Series, first: Any = None) -> Series:
    """x / y, from x[m] = sum_j q[j] y[m-j]; here x[0] may be None."""
    q = [div(x[0], y[0]) if first is None else first]
    for m in range(1, len(x)):
        q.append(div(sub(x[m], total(mul(q[j], y[m - j]) for j in range(m))), y[0]))
    return q


def slopes(u: Series) -> Series:
    """The derivative u', coefficient m being (m + 1) u[m + 1]."""
    return [times(x, m) for m, x in enumerate(u[1:], 1)]


def integral(first: Any, g: Sequence[Any], du: Series) -> Series:
    """y with y[0] = `first` and y' = g u', `du` being u'."""
    return [first, *(times(convolved(g, du, m - 1), 1 / m) for m in range(1, len(du) + 1))]


def grown(first: Any, u: Series, g_of: Callable[[Series], Any]) -> Series:
    """y with y[0] = `first` and y' = g u', where `g_of(y[:m])` gives coefficient m - 1 of g."""
    du, y, g = slopes(u), [once(first)], []
    for m in range(1, len(u)):
        g.append(g_of(y))
        y.append(times(convolved(g, du, m - 1), 1 / m))
    return y


def shifted(x: Series, number: float) -> Series:
    """A number plus a series."""
    return [e.add(x[0], scalar(number, x[0])), *x[1:]]


def negated(x: Series) -> Series:
    return [neg(c) for c in x]


def scaled(x: Series, number: float) -> Series:
    return [times(c, number) for c in x]


# -- Functions: from the series of the argument and the value of the function at its first coefficient.


def exp(u: Series, y: Any) -> Series:
    return grown(y, u, lambda y: y[-1])


def exp2(u: Series, y: Any) -> Series:
    return exp(scaled(u, math.log(2)), y)


def expm1(u: Series, y: Any) -> Series:
    return [y, *exp(u, e.add(y, scalar(1, y)))[1:]]


def log(u: Series, y: Any) -> Series:
    return from_quotient(y, u, u)


def log1p(u: Series, y: Any) -> Series:
    return from_quotient(y, u, shifted(u, 1))


def from_quotient(first: Any, u: Series, p: Series) -> Series:
    """y with y' = u' / p."""
    du = slopes(u)
    ratio = quotient(du, p[: len(du)])
    return [first, *(times(x, 1 / m) for m, x in enumerate(ratio, 1))]


def tanh(u: Series, y: Any) -> Series:
    """y' = (1 - y^2) u'."""
    return _riccati(u, y, -1.0)


def tan(u: Series, y: Any) -> Series:
    """y' = (1 + y^2) u'."""
    return _riccati(u, y, 1.0)


def _riccati(u: Series, y: Any, sign: float) -> Series:
    def slope(y: Series) -> Any:
        m = len(y) - 1
        square = coefficient_of_square(y, m)
        signed = square if sign > 0 else neg(square)
        return e.add(signed, scalar(1, signed)) if m == 0 else signed

    return grown(y, u, slope)


def logistic(u: Series, y: Any) -> Series:
    """y' = (y - y^2) u'."""
    return grown(y, u, lambda y: sub(y[-1], coefficient_of_square(y, len(y) - 1)))


def sqrt(u: Series, y: Any) -> Series:
    """y^2 = u."""
    out, twice = [y], times(y, 2)
    for m in range(1, len(u)):
        out.append(div(sub(u[m], total(mul(out[j], out[m - j]) for j in range(1, m))), twice))
    return out


def rsqrt(u: Series, y: Any) -> Series:
    return power(u, y, -0.5)


def cbrt(u: Series, y: Any) -> Series:
    return power(u, y, 1 / 3)


def power(u: Series, y: Any, exponent: float) -> Series:
    """u^c, from u y' = c u' y: m u[0] y[m] = sum_{j=1..m} (c j - (m - j)) u[j] y[m-j]."""
    out = [y]
    for m in range(1, len(u)):
        terms = (times(mul(u[j], out[m - j]), (exponent * j - (m - j)) / m) for j in range(1, m + 1))
        out.append(div(total(terms), u[0]))
    return out


def integer_power(u: Series, n: int) -> Series:
    """u^n by repeated squaring, which holds at 0 too."""
    if n < 0:
        positive = integer_power(u, -n)
        first = e.integer_pow(u[0], n)
        return quotient([first, *[None] * (len(u) - 1)], positive, first)
    result: Series | None = None
    while n:
        if n & 1:
            result = u if result is None else product(result, u)
        n >>= 1
        if n:
            u = squared(u)
    assert result is not None  # the exponent is not zero, so some bit was set
    return result


def sin_cos(u: Series, sine: Any, cosine: Any, sign: float) -> tuple[Series, Series]:
    """s' = c u', c' = sign s u'; sign -1 for sin and cos, 1 for sinh and cosh."""
    du, s, c = slopes(u), [once(sine)], [once(cosine)]
    for m in range(1, len(u)):
        ds, dc = convolved(c, du, m - 1), convolved(s, du, m - 1)
        s.append(times(ds, 1 / m))
        c.append(times(dc, sign / m))
    return s, c


def sin(u: Series, y: Any) -> Series:
    return sin_cos(u, y, e.cos(u[0]), -1.0)[0]


def cos(u: Series, y: Any) -> Series:
    return sin_cos(u, e.sin(u[0]), y, -1.0)[1]


def sinh(u: Series, y: Any) -> Series:
    return sin_cos(u, y, e.cosh(u[0]), 1.0)[0]


def cosh(u: Series, y: Any) -> Series:
    return sin_cos(u, e.sinh(u[0]), y, 1.0)[1]


def atan(u: Series, y: Any) -> Series:
    return from_quotient(y, u, shifted(squared(u), 1))


def atanh(u: Series, y: Any) -> Series:
    return from_quotient(y, u, shifted(negated(squared(u)), 1))


def asin(u: Series, y: Any) -> Series:
    return _from_root(y, u, shifted(negated(squared(u)), 1))


def acos(u: Series, y: Any) -> Series:
    return [y, *negated(asin(u, y)[1:])]


def asinh(u: Series, y: Any) -> Series:
    return _from_root(y, u, shifted(squared(u), 1))


def acosh(u: Series, y: Any) -> Series:
    root = e.mul(e.sqrt(e.sub(u[0], e.scalar(1, u[0]))), e.sqrt(e.add(u[0], e.scalar(1, u[0]))))  # nan below -1
    return from_quotient(y, u, sqrt(shifted(squared(u), -1), root))


def _from_root(first: Any, u: Series, p: Series) -> Series:
    """y with y' = u' / sqrt(p)."""
    return from_quotient(first, u, sqrt(p, e.sqrt(p[0])))


def erf(u: Series, y: Any) -> Series:
    """y' = 2 / sqrt(pi) exp(-u^2) u'."""
    inner = negated(squared(u[:-1]))
    return integral(y, scaled(exp(inner, e.exp(inner[0])), 2 / math.sqrt(math.pi)), slopes(u))


def erfc(u: Series, y: Any) -> Series:
    return [y, *negated(erf(u, y)[1:])]
