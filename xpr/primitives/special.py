"""Special functions: the error function, the gamma function and derivatives of its logarithm, Bessel functions.

Most are CHLO operations, which XLA expands into polynomials, so their values are those of every XLA program; of many
elements on CPU some are formulas of `vectorized/`. The NumPy references are computed another way, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.avals import aval_of
from xpr.core.primitive import Primitive, Unsupported
from xpr.dimensions.slices import broadcast_sizes
from xpr.dtypes import bf16, finfo, float16, float32, float64
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import (
    abs,
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    ceil,
    convert_element_type,
    div,
    eq,
    exp,
    floor,
    ge,
    gt,
    le,
    lt,
    mul,
    ne,
    neg,
    pow,
    rsqrt,
    scalar,
    sign,
    sub,
)
from xpr.primitives.elementwise_rules import elementwise, function_of, unary
from xpr.primitives.elementwise_while import iterate
from xpr.primitives.shapes import broadcast_to, full
from xpr.primitives.slicing import select
from xpr.primitives.vectorized import error_function, gamma
from xpr.primitives.vectorized.rule import DTYPES, OnCpu

__all__ = [
    "bessel_i0e", "bessel_i0e_p", "bessel_i1e", "bessel_i1e_p", "digamma", "digamma_p", "erf", "erf_inv", "erf_inv_p",
    "erf_p", "erfc", "erfc_p", "lgamma", "lgamma_p", "polygamma", "polygamma_p", "zeta", "zeta_p",
]  # fmt: skip

OVER = frozenset({bf16, float16, float32, float64})

# -- What the family shares


def pointwise(fun: Callable[..., float]) -> Callable[..., np.ndarray]:
    """A reference from a function of Python floats; the result is rounded to the operands' dtype at the end."""
    everywhere = np.vectorize(fun, otypes=[np.float64])

    def reference(*values: Any) -> np.ndarray:
        return everywhere(*[np.asarray(x, np.float64) for x in values]).astype(np.asarray(values[0]).dtype)

    return reference


def in_float32(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The function computed in float32 where its operands are of a 16-bit dtype."""

    def wide(*xs: Any) -> Any:
        dtype = aval_of(xs[0]).dtype
        if dtype not in (bf16, float16):
            return fun(*xs)
        return convert_element_type(fun(*[convert_element_type(x, float32) for x in xs]), dtype)

    return wide


def one_shape(*xs: Any) -> list[Any]:
    """The operands, repeated to the shape of the result."""
    shape = broadcast_sizes([aval_of(x).shape for x in xs])
    return [broadcast_to(x, shape) for x in xs]


def constant_like(value: float, x: Any) -> Any:
    """A number repeated to the shape and dtype of `x`, where a select needs a whole array."""
    aval = aval_of(x)
    return full(aval.shape, value, aval.dtype)


def no_derivative(name: str, operand: str) -> Callable[..., Any]:
    """The partial of an operand in which the function has no derivative that can be computed here."""

    def partial(*args: Any) -> Any:
        raise UnsupportedRule(
            f"{name}: no derivative in {operand} is known in closed form. Differentiate in the other operands, or hold "
            f"{operand} fixed with lax.stop_gradient."
        )

    return partial


def composite(
    name: str,
    fun: Callable[..., Any],
    *,
    partials: Sequence[Any],
    reference: Any,
    over: frozenset[np.dtype] = OVER,
) -> Primitive:
    """An elementwise primitive lowered as a function of other primitives."""
    elsewhere = Unsupported("It is lowered as a function of others.")
    primitive = elementwise(
        name, fusion="expensive", over=over, lowers_to=elsewhere, reference=reference, partials=partials
    )
    primitive.lower_as = lambda *xs, **params: [fun(*xs, **params)]
    return primitive


# -- Error function

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _erf_slope(x: Any) -> Any:
    return mul(scalar(_TWO_OVER_ROOT_PI, x), exp(neg(mul(x, x))))


def _erf_inv_of(x: float) -> float:
    """A root of erf(y) = x: the normal quantile, polished by Newton steps on whichever of erf and erfc keeps digits."""
    size = math.fabs(x)
    if not size < 1:
        return math.copysign(math.inf, x) if size == 1 else math.nan
    y = _rough_erf_inv(size)
    for _ in range(4):
        excess = math.erf(y) - size if size < 0.5 else (1 - size) - math.erfc(y)
        y -= excess / (_TWO_OVER_ROOT_PI * math.exp(-y * y))
    return math.copysign(y, x)


def _rough_erf_inv(x: float) -> float:
    """To two digits, for Newton's method to start from. Source: S. Winitzki, "A handy approximation for the error
    function and its inverse" (2008)."""
    tail = math.log1p(-x * x)
    middle = 2 / (math.pi * 0.147) + tail / 2
    return math.sqrt(math.sqrt(middle * middle - tail / 0.147) - middle)


erf_p = unary(
    "erf",
    fusion="expensive",
    over=OVER,
    lowers_to="chlo.erf",
    reference=pointwise(math.erf),
    derivative=lambda x, y: _erf_slope(x),
)
erf = function_of(
    erf_p,
    "The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to `x`.\n\n"
    ">>> from xpr import lax\n>>> lax.erf(0.0)\nArray(0., dtype=float32, weak_type=True)",
)
erfc_p = unary(
    "erfc",
    fusion="expensive",
    over=OVER,
    lowers_to="chlo.erfc",
    reference=pointwise(math.erfc),
    derivative=lambda x, y: neg(_erf_slope(x)),
)
erfc = function_of(
    erfc_p,
    "1 - erf(x), accurate where that is small.\n\n"
    ">>> from xpr import lax\n>>> lax.erfc(0.0)\nArray(1., dtype=float32, weak_type=True)",
)
erf_inv_p = unary(
    "erf_inv", fusion="expensive", over=OVER, reference=pointwise(_erf_inv_of),
    lowers_to=OnCpu("erf_inv", "chlo.erf_inv", error_function.erf_inv, error_function.long_erf_inv, in_c={float32}),
    derivative=lambda x, y: mul(scalar(1 / _TWO_OVER_ROOT_PI, x), exp(mul(y, y))),
)  # fmt: skip
erf_inv = function_of(
    erf_inv_p,
    "The number whose error function is `x`, for `x` from -1 to 1.\n\n"
    ">>> from xpr import lax\n>>> lax.erf_inv(1.0)\nArray(inf, dtype=float32, weak_type=True)",
)

# -- Gamma function

# The asymptotic series of log gamma ends in sum_k B_2k / (2k (2k-1) z^(2k-1)) (DLMF 5.11.1), that of digamma in
# -sum_k B_2k / (2k z^2k) (DLMF 5.11.2); B_2k are the Bernoulli numbers.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _lgamma_of(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


_FAR = 1e18  # beyond it digamma is the logarithm, to every digit of float64


def _digamma_of(x: float) -> float:
    """Reflected to the right half line (DLMF 5.5.4), moved up to 10 and beyond (5.5.2), then the series."""
    if math.isnan(x) or x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan
    if x < 0:
        return _digamma_of(1 - x) - math.pi / math.tan(math.pi * math.fmod(x, 1))
    if x > _FAR:
        return math.log(x)
    total = 0.0
    while x < 10:
        total -= 1 / x
        x += 1
    return total + math.log(x) - 0.5 / x - sum(b / (2 * k * x ** (2 * k)) for k, b in enumerate(BERNOULLI, 1))


def _zeta_of(s: float, q: float) -> float:
    """The Hurwitz zeta function by Euler and Maclaurin's formula (DLMF 25.11.5)."""
    if math.isnan(s) or math.isnan(q) or s < 1:
        return math.nan
    if s == 1:
        return math.inf
    if q <= 0:
        return _zeta_left(s, q)
    count = 12
    far = q + count
    if s * math.log(far) > 700 or s == math.inf:
        return math.inf if q < 1 else float(q == 1)
    total = sum(_powered(q + n, -s) for n in range(count)) + far ** (1 - s) / (s - 1) + 0.5 * far**-s
    rising, factorial = s, 2.0
    for k, b in enumerate(BERNOULLI, 1):
        total += b / factorial * rising * far ** (-s - 2 * k + 1)
        rising *= (s + 2 * k - 1) * (s + 2 * k)
        factorial *= (2 * k + 1) * (2 * k + 2)
    return total


def _powered(x: float, y: float) -> float:
    """A positive number to a power, inf where it is too large."""
    try:
        return x**y
    except OverflowError:
        return math.inf


def _zeta_left(s: float, q: float) -> float:
    """zeta(s, q) for q that is not positive, and whole s: the terms below 0 are two sums over positive numbers."""
    sign = 1 if s % 2 == 0 else -1
    if q % 1 == 0 or q == -math.inf:
        return math.inf if sign == 1 else math.nan
    if s % 1 != 0:
        return math.nan
    near = _zeta_of(s, q - math.floor(q)) + sign * _zeta_of(s, math.ceil(q) - q)
    return near - sign * _zeta_of(s, 1 - q)


def _polygamma_of(m: float, x: float) -> float:
    if m == 0:
        return _digamma_of(x)
    if not 0 < m < math.inf or m % 1 != 0:
        return math.nan
    factorial = math.gamma(m + 1) if m < 170 else math.inf
    return (-1) ** (int(m) + 1) * factorial * _zeta_of(m + 1, x)


lgamma_p = unary(
    "lgamma",
    fusion="expensive",
    over=OVER,
    lowers_to=OnCpu("lgamma", "chlo.lgamma", gamma.lgamma, gamma.long_lgamma, in_c=DTYPES),
    reference=pointwise(_lgamma_of),
    derivative=lambda x, y: digamma(x),
)
lgamma = function_of(
    lgamma_p,
    "The logarithm of the absolute value of the gamma function.\n\n"
    ">>> from xpr import lax\n>>> lax.lgamma(1.0)\nArray(0., dtype=float32, weak_type=True)",
)
digamma_p = unary(
    "digamma", fusion="expensive", over=OVER, reference=pointwise(_digamma_of),
    lowers_to=OnCpu("digamma", "chlo.digamma", gamma.digamma, gamma.long_digamma, in_c=DTYPES),
    derivative=lambda x, y: polygamma(scalar(1, x), x),
)  # fmt: skip
digamma = function_of(
    digamma_p,
    "The derivative of lgamma.\n\n"
    ">>> from xpr import lax\n>>> lax.digamma(1.0)\nArray(-0.5772154, dtype=float32, weak_type=True)",
)

# -- Hurwitz's zeta function

_TERMS = {float32: 4, float64: 12}  # of the sum; the remainder, by the Euler-Maclaurin formula, is exact to every digit
_STEEP = 1e4  # exponents from which on the remainder is negligible


def _zeta_right(s: Any, q: Any) -> Any:
    """For positive q and s over 1, by Euler and Maclaurin's formula (DLMF 25.11.5)."""
    terms = _TERMS[aval_of(s).dtype]
    total = pow(q, neg(s))
    for n in range(1, terms):
        total = add(total, pow(add(q, scalar(n, q)), neg(s)))
    far = add(q, scalar(terms, q))
    inverse = div(scalar(1, q), far)
    last = pow(far, neg(s))
    over = sub(s, scalar(1, s))
    remainder = add(div(pow(far, neg(over)), over), mul(scalar(0.5, s), last))
    term, factorial = mul(mul(last, s), inverse), 2.0
    for k, b in enumerate(BERNOULLI, 1):
        remainder = add(remainder, mul(term, scalar(b / factorial, s)))
        rising = mul(add(s, scalar(2 * k - 1, s)), add(s, scalar(2 * k, s)))
        term = mul(mul(term, inverse), mul(rising, inverse))
        factorial *= (2 * k + 1) * (2 * k + 2)
    steep = bitwise_or(gt(s, scalar(_STEEP, s)), eq(q, scalar(math.inf, q)))
    return select(steep, total, add(total, remainder))


@in_float32
def _zeta(s: Any, q: Any) -> Any:
    """One sum where q is positive. Elsewhere, for whole s, the terms below 0 are the difference of two more."""
    s, q = one_shape(s, q)
    zero, one, two = constant_like(0, s), constant_like(1, s), constant_like(2, s)
    infinite, nan = constant_like(math.inf, s), constant_like(math.nan, s)
    even = eq(s, mul(two, floor(div(s, two))))
    left = le(q, zero)
    pole = bitwise_and(left, eq(q, floor(q)))  # also where q is -inf
    fractional = bitwise_and(left, bitwise_or(ne(s, floor(s)), eq(s, infinite)))

    def step(n: Any, count: Any, s: Any, q: Any, sign: Any, total: Any) -> list[Any]:
        """The three in an order in which those that may cancel come first."""
        first, second = eq(n, scalar(0, n)), eq(n, scalar(1, n))
        start = select(lt(q, scalar(0, q)), sub(q, floor(q)), q)
        point = select(first, start, select(second, sub(ceil(q), q), sub(scalar(1, q), q)))
        factor = select(second, sign, neg(sign))
        term = _zeta_right(s, point)
        return [add(n, scalar(1, n)), count, s, q, sign, add(total, select(first, term, mul(factor, term)))]

    count = select(bitwise_and(left, bitwise_not(pole)), constant_like(3, s), one)
    state = zero, count, s, select(pole, one, q), select(even, one, neg(one)), zero
    total = iterate(lambda n, count, *_: lt(n, count), step, *state)[-1]
    total = select(fractional, nan, select(pole, select(even, infinite, nan), total))
    total = select(eq(s, one), infinite, total)
    return select(bitwise_or(bitwise_not(ge(s, one)), ne(q, q)), nan, total)


@in_float32
def _polygamma(m: Any, x: Any) -> Any:
    """(-1)^(m + 1) m! zeta(m + 1, x) (DLMF 25.11.12), digamma for m = 0."""
    m, x = one_shape(m, x)
    zero, one, two = constant_like(0, m), constant_like(1, m), constant_like(2, m)
    even = eq(m, mul(two, floor(div(m, two))))
    size = mul(exp(lgamma(add(m, one))), _zeta(add(m, one), x))
    value = select(eq(m, zero), digamma(x), select(even, neg(size), size))
    whole = bitwise_and(bitwise_and(ge(m, zero), lt(m, constant_like(math.inf, m))), eq(m, floor(m)))
    return select(whole, value, constant_like(math.nan, m))


polygamma_p = composite(
    "polygamma", _polygamma, reference=pointwise(_polygamma_of),
    partials=[
        no_derivative("polygamma", "the order"),
        lambda t, m, x, out: mul(t, polygamma(add(m, scalar(1, m)), x)),
    ],
)  # fmt: skip
polygamma = function_of(
    polygamma_p,
    """The `m`-th derivative of digamma at `x`, for whole `m` and positive `x`.

    Args:
      m: the order, an array of floats with whole values.
      x: an array of the same shape and dtype, or a scalar.

    Returns:
      Floats of the same shape.

    >>> from xpr import lax
    >>> lax.polygamma(1.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """,
    2,
    names=("m", "x"),
)
zeta_p = composite(
    "zeta", _zeta, reference=pointwise(_zeta_of),
    partials=[
        no_derivative("zeta", "the exponent"),
        lambda t, s, q, out: mul(t, mul(neg(s), zeta(add(s, scalar(1, s)), q))),
    ],
)  # fmt: skip
zeta = function_of(
    zeta_p,
    """The Hurwitz zeta function, the sum of (q + n)^-x over n = 0, 1, ...; for x > 1, q > 0.

    Args:
      x: the exponent, an array of floats.
      q: an array of the same shape and dtype, or a scalar.

    Returns:
      Floats of the same shape.

    >>> from xpr import lax
    >>> lax.zeta(2.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """,
    2,
    names=("x", "q"),
)

# -- Power series


def taylor_coefficients(
    of: Callable[[int], float], order: int, bound: float, dtype: Any, derivatives: int = 0
) -> list[float]:
    """The coefficients of x^0, x^1, ... of the derivative of some order, as many as count where |x| < `bound`.

    Args:
      of: the coefficient of x^k of the function itself, times k!, which is at most 1.
      derivatives: how many derivatives of the polynomial have the precision of the dtype, too.
    """
    least, k, coefficients = float(finfo(dtype).eps), 0, []
    while k < derivatives + 2 or bound ** (k - derivatives) / math.factorial(k - derivatives) > least / 8:
        coefficients.append(of(k + order) / math.factorial(k))
        k += 1
    return coefficients


def power_series(x: Any, coefficients: Sequence[float]) -> Any:
    """The polynomial at `x` with the coefficients of x^0, x^1, ..., all of even powers, all of odd powers, or of both.

    Horner's rule, in the square of `x` where every second coefficient is 0.
    """
    odd, even = coefficients[1::2], coefficients[::2]
    if any(odd) and any(even):
        return _horner(x, coefficients)
    square = mul(x, x)
    return mul(x, _horner(square, odd)) if any(odd) else _horner(square, even)


def _horner(x: Any, coefficients: Sequence[float]) -> Any:
    *lower, total = [scalar(c, x) for c in coefficients]
    for c in reversed(lower):
        total = add(mul(total, x), c)
    return total


# -- Bessel functions. With u = x / 4 - 1, exp(-x) I0(x) on [0, 8] is the Chebyshev series of the first table; with
# u = 16 / x - 1, sqrt(x) exp(-x) I0(x) on [8, inf) is that of the second. Computed with mpmath to 30 digits.

_I0E_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11,
    2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.330794518822234e-17, -4.415341646479367e-18,
)  # fmt: skip
_I0E_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.4254856196772195e-16, -2.827623980516584e-16,
    3.461222867697458e-17, 4.4656214202967554e-17, -4.8305044859442235e-18,
)  # fmt: skip


def chebyshev(u: Any, coefficients: Sequence[float]) -> Any:
    """The Chebyshev series at `u`, by Clenshaw's recurrence, of the coefficients that count in the dtype of `u`."""
    least = float(finfo(aval_of(u).dtype).eps) / 16
    first, *lower = [c for c in coefficients if math.fabs(c) > least]
    twice = mul(scalar(2, u), u)
    later = last = scalar(0, u)
    for c in reversed(lower):
        last, later = add(sub(mul(twice, last), later), scalar(c, u)), last
    return add(sub(mul(u, last), later), scalar(first, u))


@in_float32
def _i0e(x: Any) -> Any:
    size = abs(x)
    near = chebyshev(sub(mul(size, scalar(0.25, x)), scalar(1, x)), _I0E_NEAR)
    far = mul(chebyshev(sub(div(scalar(16, x), size), scalar(1, x)), _I0E_FAR), rsqrt(size))
    return select(le(size, scalar(8, x)), near, far)


def _scaled_bessel(order: int) -> Callable[[float], float]:
    """exp(-|x|) I_n(x), for n = 0 or 1: by the power series (DLMF 10.25.2) near 0, by the asymptotic one (DLMF 10.40.1)
    far out, and between by the trapezoidal rule on its integral over a period (DLMF 10.32.3).
    """

    def value(x: float) -> float:
        size = math.fabs(x)
        sided = math.copysign(1, x) ** order
        if size < 1:
            terms = ((size / 2) ** (2 * k + order) / math.factorial(k) / math.factorial(k + order) for k in range(12))
            return sided * math.exp(-size) * math.fsum(terms)
        if size > 50:
            term = total = 1 / math.sqrt(2 * math.pi * size)
            for k in range(1, 16):
                term *= ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * size)
                total += term
            return sided * total
        angle = np.arange(4096) * (math.pi / 2048)
        return sided * float(np.mean(np.exp(size * (np.cos(angle) - 1)) * np.cos(order * angle)))

    return value


_I1_SLOPE_NEAR = 2.0


def i0_coefficient(k: int) -> float:
    """The coefficient of x^k in the series of I0 (DLMF 10.25.2), times k!."""
    return 0.0 if k % 2 else math.comb(k, k // 2) / 2.0**k


def _i1e_slope(x: Any, y: Any) -> Any:
    """exp(-|x|) I1'(x) - sign(x) I1e(x), with I1' = I0 - I1 / x (DLMF 10.29.2), near 0 its series."""
    side = sign(x)
    near = lt(abs(x), scalar(_I1_SLOPE_NEAR, x))
    inner, outer = select(near, x, constant_like(0, x)), select(near, constant_like(1, x), x)
    coefficients = taylor_coefficients(i0_coefficient, 2, _I1_SLOPE_NEAR, aval_of(x).dtype, 6)
    series = mul(exp(neg(mul(side, inner))), power_series(inner, coefficients))
    far = sub(bessel_i0e(outer), div(bessel_i1e(outer), outer))
    return sub(select(near, series, far), mul(side, y))


bessel_i0e_p = composite(
    "bessel_i0e", _i0e, reference=pointwise(_scaled_bessel(0)),
    partials=[lambda t, x, y: mul(t, sub(bessel_i1e(x), mul(sign(x), y)))],
)  # fmt: skip
bessel_i0e = function_of(
    bessel_i0e_p,
    "The modified Bessel function of order 0, times exp(-|x|).\n\n"
    ">>> from xpr import lax\n>>> lax.bessel_i0e(0.0)\nArray(1., dtype=float32, weak_type=True)",
)
bessel_i1e_p = unary(
    "bessel_i1e",
    fusion="expensive",
    over=OVER,
    lowers_to="chlo.bessel_i1e",
    reference=pointwise(_scaled_bessel(1)),
    derivative=_i1e_slope,
)
bessel_i1e = function_of(
    bessel_i1e_p,
    "The modified Bessel function of order 1, times exp(-|x|).\n\n"
    ">>> from xpr import lax\n>>> lax.bessel_i1e(0.0)\nArray(0., dtype=float32, weak_type=True)",
)
